//! The process: reads the command line, runs the command, turns its end into an exit code and one line.

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::client;
use crate::exit::{Ending, Exit};
use crate::{offline, serve};

/// Runs the command line of this process and gives its exit code: 0 done; 1 a client command failed, or a stop cut
/// connections; 2 wrong flags, configuration, address or data directory; 70 storage failed.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => {
            // Help goes to standard output, errors to standard error; a closed one changes nothing.
            let _ = said.print();
            return if said.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    match run(&cli) {
        Ok(exit) => exit.into(),
        Err(Ending { exit, message }) => {
            eprintln!("framegate: {message}");
            exit.into()
        }
    }
}

fn run(cli: &Cli) -> Result<Exit, Ending> {
    match &cli.command {
        None => serve::serve(&cli.serve),
        Some(Command::Serve(args)) => serve::serve(args),
        Some(Command::Pub(args)) => client::publish(args),
        Some(Command::Sub(args)) => client::subscribe(args),
        Some(Command::Status(args)) => client::status(args),
        Some(Command::Queues(args)) => client::queues(args),
        Some(Command::Topics(args)) => client::topics(args),
        Some(Command::Exchanges(args)) => client::exchanges(args),
        Some(Command::Inspect(args)) => offline::inspect(args),
        Some(Command::Repair(args)) => offline::repair(args),
    }
}
