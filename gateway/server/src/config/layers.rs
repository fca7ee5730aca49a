//! Layers of the configuration: reads the file, the environment and the flags into one table, and finds the
//! key to blame when the table does not fit the structs.
//!
//! An environment variable is `FRAMEGATE_` and the key's path in capitals, sections separated by two underscores:
//! `FRAMEGATE_STORAGE__SYNC`, `FRAMEGATE_DATA_DIR`, `FRAMEGATE_LISTENERS__AMQP_HTTP__ADDR` (in names of listeners and
//! protocols an underscore stands for a hyphen). Its value is a TOML value, or plain text.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::blame::blame;
use super::check;
use super::problem::{Origin, Problem};
use super::sections::Config;

const ENV_PREFIX: &str = "FRAMEGATE_";

/// What the command line sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// `--data-dir`
    pub(crate) data_dir: Option<PathBuf>,
    /// `--listen NAME=ADDR`
    pub(crate) listen: Vec<(String, String)>,
    /// `--allow-anonymous`
    pub(crate) allow_anonymous: bool,
    /// `--log`
    pub(crate) log: Option<String>,
}

/// Where each value came from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origins {
    file: Option<PathBuf>,
    paths: Vec<(String, Origin)>,
}

impl Origins {
    /// The origin of a key, by the longest path that was set on its own.
    pub(crate) fn of(&self, key: &str) -> Origin {
        let covers = |path: &str| {
            key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let set = self.paths.iter().filter(|(path, _)| covers(path)).max_by_key(|(path, _)| path.len());
        match (set, &self.file) {
            (Some((_, origin)), _) => origin.clone(),
            (None, Some(file)) => Origin::File(file.clone()),
            (None, None) => Origin::Default,
        }
    }

    /// A problem with one key.
    pub(crate) fn problem(
        &self,
        key: &str,
        value: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> Problem {
        Problem::Value {
            origin: self.of(key),
            key: key.to_owned(),
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }
}

/// Reads all layers and checks ranges. `env` is the process's environment.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn load(
    file: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
    flags: &Flags,
) -> Result<(Config, Origins), Problem> {
    let mut origins = Origins { file: file.map(Path::to_owned), paths: Vec::new() };
    let mut table = file.map_or_else(|| Ok(Table::new()), read_file)?;
    fit(&table).map_err(|detail| blame(&table, &origins, detail))?;

    let mut variables: Vec<(String, String)> =
        env.into_iter().filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect();
    variables.sort();
    for (name, text) in variables {
        let Some(path) = env_path(&name) else { continue };
        set_env(&mut table, &mut origins, &name, &path, &text)?;
    }
    apply_flags(&mut table, &mut origins, flags);
    let config = fit(&table).map_err(|detail| blame(&table, &origins, detail))?;
    check::ranges(&config, &origins)?;
    Ok((config, origins))
}

fn read_file(path: &Path) -> Result<Table, Problem> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Problem::Unreadable { path: path.to_owned(), detail: e.to_string() })?;
    text.parse::<Table>().map_err(|e| {
        let before = &text[..e.span().map_or(0, |s| s.start).min(text.len())];
        Problem::Syntax {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.chars().rev().take_while(|c| *c != '\n').count() + 1,
            detail: one_line(e.message()),
        }
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads a table as configuration.
pub(super) fn fit(table: &Table) -> Result<Config, String> {
    Config::deserialize(Value::Table(table.clone())).map_err(|e| one_line(e.message()))
}

/// Path of the key that a variable sets. None: not meant for the configuration (a container platform sets variables
/// with the prefix, too, named after a service).
fn env_path(name: &str) -> Option<Vec<String>> {
    let key = name.strip_prefix(ENV_PREFIX)?;
    let mut path: Vec<String> = key.split("__").map(str::to_ascii_lowercase).collect();
    let known = matches!(path.as_slice(), [top] if ["data_dir", "shards", "vhosts"].contains(&top.as_str()));
    if !known && path.len() < 2 {
        return None;
    }
    if path[0] == "listeners" || path[0] == "protocols" {
        path[1] = path[1].replace('_', "-");
    }
    Some(path)
}

fn set_env(
    table: &mut Table,
    origins: &mut Origins,
    name: &str,
    path: &[String],
    text: &str,
) -> Result<(), Problem> {
    let key = path.join(".");
    let parsed = format!("v = {text}").parse::<Table>().ok().and_then(|mut t| t.remove("v"));
    let plain = Value::String(text.to_owned());
    origins.paths.push((key, Origin::Env(name.to_owned())));
    let mut failure = None;
    for value in parsed.into_iter().chain([plain]) {
        let mut candidate = table.clone();
        set(&mut candidate, path, value);
        match fit(&candidate) {
            Ok(_) => {
                *table = candidate;
                return Ok(());
            }
            Err(detail) => failure = failure.or(Some(blame(&candidate, origins, detail))),
        }
    }
    failure.map_or(Ok(()), Err)
}

fn apply_flags(table: &mut Table, origins: &mut Origins, flags: &Flags) {
    let mut flag = |path: &[&str], value: Value, name: &'static str| {
        let path: Vec<String> = path.iter().map(|s| (*s).to_owned()).collect();
        origins.paths.push((path.join("."), Origin::Flag(name)));
        set(table, &path, value);
    };
    if let Some(dir) = &flags.data_dir {
        flag(&["data_dir"], Value::String(dir.display().to_string()), "--data-dir");
    }
    for (name, addr) in &flags.listen {
        flag(&["listeners", name, "addr"], Value::String(addr.clone()), "--listen");
    }
    if flags.allow_anonymous {
        flag(&["auth", "allow_anonymous"], Value::Boolean(true), "--allow-anonymous");
    }
    if let Some(level) = &flags.log {
        flag(&["log", "level"], Value::String(level.clone()), "--log");
    }
}

/// Sets a value by path; whatever stands in the way is replaced by a table.
fn set(table: &mut Table, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        table.insert(first.clone(), value);
        return;
    }
    let slot = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
    if !slot.is_table() {
        *slot = Value::Table(Table::new());
    }
    if let Value::Table(inner) = slot {
        set(inner, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sections::{Backend, SyncMode};
    use super::*;

    fn from_text(text: &str, env: &[(&str, &str)], flags: &Flags) -> Result<(Config, Origins), String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("framegate.toml");
        std::fs::write(&path, text).expect("write");
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        load(Some(&path), env, flags)
            .map_err(|e| e.to_string().replace(&format!("{}/", dir.path().display()), ""))
    }

    fn refusal(text: &str) -> String {
        from_text(text, &[], &Flags::default()).expect_err("refused")
    }

    #[test]
    fn nothing_configured_is_the_default() {
        let (config, _) = load(None, [], &Flags::default()).expect("loads");
        assert_eq!(config, Config::default());
    }

    #[test]
    fn flags_beat_environment_and_environment_beats_the_file() {
        let flags = Flags {
            listen: vec![("amqp".to_owned(), "off".to_owned())],
            log: Some("debug".to_owned()),
            ..Flags::default()
        };
        let env = [
            ("FRAMEGATE_STORAGE__SYNC", "interval"),
            ("FRAMEGATE_DATA_DIR", "/tmp/x"),
            ("FRAMEGATE_LISTENERS__AMQP_HTTP__ADDR", "127.0.0.1:1"),
            ("FRAMEGATE_LOG__LEVEL", "error"),
            ("FRAMEGATE_VHOSTS", r#"["/", "a"]"#),
            ("FRAMEGATE_AUTH__USERS", r#"[{ name = "u", password = "1", tags = ["monitoring"] }]"#),
        ];
        let text = "data_dir = \"d\"\n[storage]\nbackend = \"memory\"\nsync = \"group\"\n[listeners.amqp]\naddr = \"127.0.0.1:9\"\nvhost = \"/\"\n";
        let (config, origins) = from_text(text, &env, &flags).expect("loads");
        assert_eq!(config.storage.backend, Backend::Memory);
        assert_eq!(config.storage.sync, SyncMode::Interval);
        assert_eq!(config.data_dir, PathBuf::from("/tmp/x"));
        assert_eq!(config.vhosts, ["/", "a"]);
        assert_eq!(config.auth.users[0].password.0, "1");
        assert_eq!(config.log.level.as_str(), "debug");
        assert_eq!(config.listeners["amqp"].addr.as_deref(), Some("off"));
        assert_eq!(config.listeners["amqp"].vhost.as_deref(), Some("/"));
        assert_eq!(config.listeners["amqp-http"].addr.as_deref(), Some("127.0.0.1:1"));
        assert_eq!(origins.of("storage.sync"), Origin::Env("FRAMEGATE_STORAGE__SYNC".to_owned()));
        assert_eq!(origins.of("auth.users[0].name"), Origin::Env("FRAMEGATE_AUTH__USERS".to_owned()));
        assert_eq!(origins.of("log.level"), Origin::Flag("--log"));
    }

    #[test]
    fn a_number_in_the_environment_can_be_text() {
        let env = [
            ("FRAMEGATE_AUTH__TOKENS", r#"[{ name = "u", token = "7", tags = ["monitoring"] }]"#),
            ("FRAMEGATE_STORAGE__WIRE_CODEC", "frame"),
        ];
        let (config, _) = from_text("", &env, &Flags::default()).expect("loads");
        assert_eq!(config.auth.tokens[0].token.0, "7");
    }

    #[test]
    fn variables_of_a_container_platform_are_not_configuration() {
        let env = [
            ("FRAMEGATE_PORT", "tcp://10.0.0.1:8080"),
            ("FRAMEGATE_SERVICE_HOST", "10.0.0.1"),
            ("FRAMEGATE_URL", "x"),
        ];
        assert_eq!(from_text("", &env, &Flags::default()).expect("loads").0, Config::default());
    }

    #[test]
    fn an_unknown_key_is_named_with_what_is_allowed() {
        assert_eq!(
            refusal("[shutdown]\ngrace = 5\n"),
            "framegate.toml: shutdown.grace = 5: unknown field `grace`, expected `grace_ms`"
        );
        assert!(refusal("storrage = 1\n").starts_with(
            "framegate.toml: storrage = 1: unknown field `storrage`, expected one of `data_dir`, `shards`"
        ));
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_allowed() {
        assert_eq!(
            refusal("[storage]\nsegment_bytes = 67108864\nsync = \"never\"\n"),
            "framegate.toml: storage.sync = \"never\": unknown variant `never`, expected `group` or `interval`"
        );
        assert!(refusal("[limits]\nqueues_max = \"many\"\n").starts_with(
            "framegate.toml: limits.queues_max = \"many\": invalid type: string \"many\", expected"
        ));
        assert!(
            refusal("shards = -1").starts_with("framegate.toml: shards = -1: invalid value: integer `-1`")
        );
    }

    #[test]
    fn the_element_of_a_list_is_named_and_secrets_are_not_shown() {
        let text = "[[auth.users]]\nname = \"a\"\n[[auth.users]]\nname = \"b\"\npassword = 7\n";
        let said = refusal(text);
        assert!(said.starts_with("framegate.toml: auth.users[1].password = ***: invalid type"), "{said}");
    }

    #[test]
    fn the_variable_is_named_when_its_value_is_wrong() {
        let env = [("FRAMEGATE_HTTP__STREAMS_MAX", "lots")];
        let said = from_text("", &env, &Flags::default()).expect_err("refused");
        assert!(
            said.starts_with(
                "environment FRAMEGATE_HTTP__STREAMS_MAX: http.streams_max = \"lots\": invalid type"
            ),
            "{said}"
        );
        let env = [("FRAMEGATE_HTTP__STREEMS", "1")];
        let said = from_text("", &env, &Flags::default()).expect_err("refused");
        assert!(said.contains("unknown field `streems`"), "{said}");
    }

    #[test]
    fn a_syntax_error_has_line_and_column() {
        assert!(
            refusal("shards = 1\nvhosts = [\n\"/\" \"a\"]").starts_with("framegate.toml:3:5: "),
            "{}",
            refusal("shards = 1\nvhosts = [\n\"/\" \"a\"]")
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let said =
            load(Some(Path::new("/nowhere/x.toml")), [], &Flags::default()).expect_err("refused").to_string();
        assert!(said.starts_with("/nowhere/x.toml: cannot be read: No such file"), "{said}");
    }
}
