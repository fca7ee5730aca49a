//! Tests of what is in `deploy/`: the example configuration has every key with its default, and the files that start
//! the server refer to things that exist.

use std::path::{Path, PathBuf};

use super::layers::{Flags, Origins, load};
use super::sections::Config;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn deployed(name: &str) -> String {
    std::fs::read_to_string(root().join("deploy").join(name)).expect("a file of deploy/")
}

/// Takes the comment sign off everything that is a key or a section.
fn uncommented(text: &str) -> String {
    let is_setting = |line: &str| {
        let key = line.split_once(" = ").map(|(key, _)| key);
        line.starts_with('[')
            || key.is_some_and(|key| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    };
    let lines =
        text.lines().map(|line| line.strip_prefix("# ").filter(|rest| is_setting(rest)).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

fn loaded(text: &str) -> Config {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("framegate.toml");
    std::fs::write(&path, text).expect("written");
    match load(Some(&path), [], &Flags::default()) {
        Ok((config, _)) => config,
        Err(problem) => panic!("{problem}"),
    }
}

/// Paths of all keys; elements of lists count as one.
fn keys(prefix: &str, value: &toml::Value, into: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, inner) in table {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                keys(&path, inner, into);
            }
        }
        toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
            items.iter().for_each(|item| keys(prefix, item, into));
        }
        _ => into.push(prefix.to_owned()),
    }
    into.sort();
    into.dedup();
}

#[test]
fn the_example_as_it_is_changes_nothing() {
    let mut config = loaded(&deployed("framegate.toml"));
    assert!(crate::listeners::plan(&[], &config, &Origins::default()).is_ok());
    config.listeners.clear();
    assert_eq!(config, Config::default());
}

#[test]
fn the_example_shows_defaults_and_every_key() {
    let text = uncommented(&deployed("framegate.toml"));
    let mut config = loaded(&text);
    let mut shown = Vec::new();
    keys("", &toml::from_str(&text).expect("toml"), &mut shown);

    let mut known = Vec::new();
    let listener = config.listeners.get("http").expect("the http listener");
    assert_eq!((listener.addr.as_deref(), listener.vhost.as_deref()), (Some("127.0.0.1:8080"), Some("/")));
    keys("", &toml::Value::try_from(&config).expect("toml"), &mut known);
    // Both forms of a secret are shown, each once.
    assert_eq!(shown, known);
    for key in
        ["auth.users.password_file", "auth.users.password", "auth.tokens.token_file", "auth.tokens.token"]
    {
        assert!(known.iter().any(|k| k == key), "{key}");
    }

    // Sections of protocols are theirs to check.
    if cfg!(feature = "bundle") {
        let protocols = framegate_adaptor_api::protocols().expect("no two of one name");
        let planned = crate::listeners::plan(&protocols, &config, &Origins::default());
        assert!(planned.is_ok(), "{}", planned.err().map(|e| e.to_string()).unwrap_or_default());
    }
    config.protocols.clear();
    config.listeners.clear();
    config.auth.users.clear();
    config.auth.tokens.clear();
    assert_eq!(config, Config::default());
}

#[test]
fn the_image_is_made_of_what_exists() {
    let text = deployed("Dockerfile");
    let words = |line: &'static str| move |l: &str| l.strip_prefix(line).map(str::to_owned);
    let mut installed = Vec::new();
    for copy in text.lines().filter_map(words("COPY ")) {
        let parts: Vec<&str> = copy.split_whitespace().collect();
        let (sources, target) = parts.split_at(parts.len() - 1);
        if sources[0] == "--from=build" {
            // the certificate authorities are the image's own
            if sources[1].starts_with("/etc/ssl/certs/") {
                continue;
            }
            assert_eq!(sources[1], "/src/target/release/framegate");
            installed.extend(target.iter().map(|t| (*t).to_owned()));
            continue;
        }
        for source in sources {
            assert!(root().join(source).exists(), "COPY {source}");
        }
        installed.extend(target.iter().map(|t| (*t).to_owned()));
    }
    let entry = text.lines().find_map(words("ENTRYPOINT ")).expect("an entry point");
    let entry: Vec<String> = serde_json::from_str(&entry).expect("the exec form");
    assert!(installed.contains(&entry[0]));
    let config = text.lines().find_map(words("ENV FRAMEGATE_CONFIG=")).expect("a configuration");
    assert!(installed.contains(&config));
    assert!(text.lines().any(|l| l.starts_with("USER ") && !l.contains("root")));
    let members = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace");
    for folder in ["internal-frame", "storage", "gateway", "adaptors", "web", "tests"] {
        assert!(members.contains(folder) && text.contains(&format!("COPY {folder} {folder}")), "{folder}");
    }
}

#[test]
fn the_environment_of_the_image_is_configuration() {
    let text = deployed("Dockerfile");
    let env = text.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    let env: Vec<(String, String)> = env.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let (config, origins) = load(None, env, &Flags::default()).expect("a configuration");
    if cfg!(feature = "bundle") {
        let protocols = framegate_adaptor_api::protocols().expect("no two of one name");
        let planned = crate::listeners::plan(&protocols, &config, &origins);
        assert!(planned.is_ok(), "{}", planned.err().map(|e| e.to_string()).unwrap_or_default());
    }
    assert_eq!(config.data_dir, PathBuf::from("/var/lib/framegate"));
    let exposed = text.lines().find_map(|l| l.strip_prefix("EXPOSE ")).expect("ports");
    let ports: Vec<&str> = exposed.split_whitespace().collect();
    assert_eq!(config.listeners.len(), ports.len());
    for listener in config.listeners.values() {
        let addr = listener.addr.as_deref().expect("an address");
        assert!(ports.iter().any(|port| addr == format!("0.0.0.0:{port}")), "{addr}");
    }
}

#[test]
fn the_unit_calls_the_binary_with_flags_that_exist() {
    use clap::Parser as _;
    let unit = deployed("framegate.service");
    let mut commands = 0;
    for line in unit.lines() {
        let Some(command) = line.strip_prefix("ExecStart=").or_else(|| line.strip_prefix("ExecStartPre="))
        else {
            continue;
        };
        assert!(command.starts_with("/usr/local/bin/framegate "));
        assert!(crate::cli::Cli::try_parse_from(command.split_whitespace()).is_ok(), "{command}");
        commands += 1;
    }
    assert_eq!(commands, 2);
}
