//! The command line: what can be said, not what is done about it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{Flags, LogLevel};

/// One broker that existing clients of many messaging protocols connect to unchanged.
///
/// Without a command it serves: data in ./framegate-data, every listener on loopback.
#[derive(Debug, Parser)]
#[command(name = "framegate", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    /// What to do; `serve` when left out.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Flags of `serve`.
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the broker (the default).
    Serve(ServeArgs),
    /// Publish one event to a topic of a running broker.
    Pub(PubArgs),
    /// Print the events of topics, or of a queue, one JSON event a line.
    Sub(SubArgs),
    /// Show what a running broker is doing.
    Status(ShowArgs),
    /// List the queues of a running broker.
    Queues(ListArgs),
    /// List the topics of a running broker.
    Topics(ListArgs),
    /// List the exchanges of a running broker.
    Exchanges(ExchangesArgs),
    /// Show what a data directory holds, whether a broker runs on it or not.
    Inspect(InspectArgs),
    /// Copy what is valid in a damaged data directory into a new one.
    Repair(RepairArgs),
}

/// `framegate serve`.
#[derive(Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file (TOML); deploy/framegate.toml shows every key [default: FRAMEGATE_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory of the journal.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where a listener listens, or `off`; port 0 takes a free port. Can be given more than once.
    #[arg(long, value_name = "NAME=ADDR", value_parser = listen)]
    pub(crate) listen: Vec<(String, String)>,
    /// Writes {"name":"addr",...} once every listener is bound.
    #[arg(long, value_name = "FILE")]
    pub(crate) ports_file: Option<PathBuf>,
    /// Validate, print the effective configuration, and stop.
    #[arg(long)]
    pub(crate) check: bool,
    /// Serve clients without credentials on every listener, with all rights.
    #[arg(long)]
    pub(crate) allow_anonymous: bool,
    /// Least important log level that is printed.
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub(crate) log: Option<LogLevel>,
}

impl ServeArgs {
    /// The flags that are configuration.
    pub(crate) fn flags(&self) -> Flags {
        Flags {
            data_dir: self.data_dir.clone(),
            listen: self.listen.clone(),
            allow_anonymous: self.allow_anonymous,
            log: self.log.map(|level| level.as_str().to_owned()),
        }
    }
}

/// Where a running broker is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Address of its HTTP listener [default: FRAMEGATE_URL, or http://127.0.0.1:8080].
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Bearer token [default: FRAMEGATE_TOKEN].
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// `framegate inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Data directory.
    pub(crate) dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `framegate repair`.
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// Damaged data directory; it is only read.
    pub(crate) dir: PathBuf,
    /// Directory to make.
    pub(crate) new_dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `framegate pub`.
#[derive(Debug, Args)]
pub(crate) struct PubArgs {
    /// Topic; it is made when it is missing.
    pub(crate) topic: String,
    /// Data of the event; `-` reads standard input.
    pub(crate) data: Option<String>,
    /// CloudEvents `type` [default: framegate.cli].
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// CloudEvents `source` [default: /framegate/cli].
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// CloudEvents `id`; the same id and source again is not published again [default: a new one].
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Media type of the data [default: application/json for JSON, else text/plain or application/octet-stream].
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// Which broker.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `framegate sub`.
#[derive(Debug, Args)]
pub(crate) struct SubArgs {
    /// Topics; `*` stands for one word, `#` for any number.
    #[arg(required_unless_present = "queue", conflicts_with = "queue")]
    pub(crate) topics: Vec<String>,
    /// Take the messages of a queue instead, competing with its other consumers.
    #[arg(long, value_name = "QUEUE", conflicts_with = "from")]
    pub(crate) queue: Option<String>,
    /// Where to start: latest, earliest, or a cursor.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) from: Option<String>,
    /// Stop after so many events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Which broker.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `framegate queues` and `framegate topics`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only those whose names fit; `*` stands for any characters.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Only those that hold something.
    #[arg(long)]
    pub(crate) nonempty: bool,
    /// Only those without consumers or subscribers.
    #[arg(long)]
    pub(crate) unused: bool,
    /// What all lists have.
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// `framegate exchanges`.
#[derive(Debug, Args)]
pub(crate) struct ExchangesArgs {
    /// Only those whose names fit; `*` stands for any characters.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Only those of a kind: direct, fanout, topic, headers, x-consistent-hash, x-delayed-message.
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// What all lists have.
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// `framegate status`, and a part of the lists.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Print the API's JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Which broker.
    #[command(flatten)]
    pub(crate) target: Target,
}

fn listen(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, addr)) if !name.is_empty() && !addr.is_empty() => Ok((name.to_owned(), addr.to_owned())),
        _ => Err("must be NAME=IP:PORT, or NAME=off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, String> {
        Cli::try_parse_from(line.split_whitespace()).map_err(|e| e.to_string())
    }

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn no_command_is_serve_and_takes_its_flags() {
        let cli = parse("framegate --listen amqp=127.0.0.1:0 --listen http=off --check --log debug")
            .expect("parses");
        assert!(cli.command.is_none());
        let flags = cli.serve.flags();
        assert_eq!(flags.listen[0], ("amqp".to_owned(), "127.0.0.1:0".to_owned()));
        assert_eq!(flags.log.as_deref(), Some("debug"));
        let Some(Command::Serve(serve)) = parse("framegate serve --data-dir d").expect("parses").command
        else {
            panic!("serve")
        };
        assert_eq!(serve.data_dir, Some(PathBuf::from("d")));
    }

    #[test]
    fn wrong_words_get_a_suggestion() {
        let said = parse("framegate queue").expect_err("refused");
        assert!(said.contains("queues"), "{said}");
        let said = parse("framegate --lisen a=b").expect_err("refused");
        assert!(said.contains("--listen"), "{said}");
        let said = parse("framegate --listen 8080").expect_err("refused");
        assert!(said.contains("must be NAME=IP:PORT, or NAME=off"), "{said}");
    }

    #[test]
    fn lists_take_a_name_and_filters() {
        let Some(Command::Queues(args)) =
            parse("framegate queues orders* --nonempty --json").expect("parses").command
        else {
            panic!("queues")
        };
        assert_eq!((args.name.as_deref(), args.nonempty, args.unused), (Some("orders*"), true, false));
        assert!(args.show.json);
        assert!(parse("framegate topics --unused").is_ok());
        assert!(parse("framegate exchanges --kind topic --nonempty").is_err());
        assert!(parse("framegate exchanges amq.* --kind topic").is_ok());
    }

    #[test]
    fn sub_wants_topics_or_a_queue() {
        assert!(parse("framegate sub").is_err());
        assert!(parse("framegate sub a --queue q").is_err());
        assert!(parse("framegate sub a b --from earliest --count 3").is_ok());
        assert!(parse("framegate sub --queue q --count 0").is_err());
        assert!(parse("framegate sub --queue q").is_ok());
    }
}
