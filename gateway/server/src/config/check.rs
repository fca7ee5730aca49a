//! Ranges and relations of configured values that their types do not say. It reads no files and opens no sockets.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use framegate_broker::Name;

use super::identities::PermissionSection;
use super::layers::Origins;
use super::problem::Problem;
use super::sections::Config;

/// Largest count or size that is taken: what fits a signed 64-bit number on any platform.
const SIZE_MAX: u64 = 1 << 40;

/// Checks every section.
///
/// # Errors
/// The first value that is out of its range.
pub(crate) fn ranges(config: &Config, origins: &Origins) -> Result<(), Problem> {
    general(config, origins)?;
    numbers(config, origins)?;
    listeners(config, origins)?;
    auth(config, origins)
}

fn general(config: &Config, origins: &Origins) -> Result<(), Problem> {
    if config.shards != 1 {
        return Err(origins.problem("shards", config.shards, "only 1 is supported by this version"));
    }
    if config.data_dir.as_os_str().is_empty() {
        return Err(origins.problem("data_dir", "\"\"", "must be a directory"));
    }
    for name in &config.vhosts {
        if let Err(error) = Name::declared(name) {
            return Err(origins.problem("vhosts", format!("{name:?}"), error.to_string()));
        }
    }
    let given = || format!("{:?}", config.vhosts);
    if !config.vhosts.iter().any(|v| v == "/") {
        return Err(origins.problem("vhosts", given(), "must contain \"/\""));
    }
    if config.vhosts.iter().collect::<BTreeSet<_>>().len() != config.vhosts.len() {
        return Err(origins.problem("vhosts", given(), "must not contain a name twice"));
    }
    if config.storage.wire_codec != "frame" {
        let given = format!("{:?}", config.storage.wire_codec);
        return Err(origins.problem("storage.wire_codec", given, "must be \"frame\""));
    }
    Ok(())
}

fn numbers(config: &Config, origins: &Origins) -> Result<(), Problem> {
    let between = |key: &str, value: u64, least: u64, most: u64| {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(origins.problem(key, value, format!("must be from {least} to {most}")))
    };
    for (key, value) in config.limits.values() {
        let least = u64::from(!matches!(key, "snapshot_every_ms" | "stop_full_ms" | "disk_free_min_bytes"));
        between(&format!("limits.{key}"), value, least, SIZE_MAX)?;
    }
    let message = config.limits.message_bytes_max as u64;
    between("limits.message_bytes_max", message, 4096, 129 * 1024 * 1024)?;
    let storage = &config.storage;
    between("storage.interval_ms", storage.interval_ms, 1, 60_000)?;
    between("storage.segment_bytes", storage.segment_bytes, 4096, 1 << 31)?;
    let http = &config.http;
    between("http.request_timeout_ms", http.request_timeout_ms, 1, 3_600_000)?;
    between("http.head_timeout_ms", http.head_timeout_ms, 1, 3_600_000)?;
    between("http.body_bytes_max", http.body_bytes_max as u64, 1024, 1024 * 1024 * 1024)?;
    between("http.head_bytes_max", http.head_bytes_max as u64, 8192, 1024 * 1024)?;
    between("http.headers_max", http.headers_max as u64, 16, 4096)?;
    between("http.requests_max", http.requests_max as u64, 1, 1_000_000)?;
    between("http.streams_max", http.streams_max as u64, 1, 1_000_000)?;
    between("shutdown.grace_ms", config.shutdown.grace_ms, 0, 3_600_000)
}

fn listeners(config: &Config, origins: &Origins) -> Result<(), Problem> {
    for (name, listener) in &config.listeners {
        if let Some(addr) = listener.addr.as_deref().filter(|a| *a != "off")
            && addr.parse::<SocketAddr>().is_err()
        {
            return Err(origins.problem(
                &format!("listeners.{name}.addr"),
                format!("{addr:?}"),
                "must be IP:PORT, such as \"127.0.0.1:8080\" or \"[::1]:0\", or \"off\"",
            ));
        }
        if let Some(vhost) = listener.vhost.as_ref().filter(|v| !config.vhosts.contains(v)) {
            let allowed = format!("must be one of vhosts = {:?}", config.vhosts);
            return Err(origins.problem(&format!("listeners.{name}.vhost"), format!("{vhost:?}"), allowed));
        }
    }
    Ok(())
}

fn auth(config: &Config, origins: &Origins) -> Result<(), Problem> {
    let mut names = BTreeSet::new();
    for (index, user) in config.auth.users.iter().enumerate() {
        let at = format!("auth.users[{index}]");
        one_secret(origins, &at, "password", user.password.is_empty(), user.password_file.is_some())?;
        if !names.insert(&user.name) {
            return Err(origins.problem(&format!("{at}.name"), format!("{:?}", user.name), "is there twice"));
        }
        entry(config, origins, &at, &user.name, &user.tags, &user.permissions)?;
    }
    for (index, token) in config.auth.tokens.iter().enumerate() {
        let at = format!("auth.tokens[{index}]");
        one_secret(origins, &at, "token", token.token.is_empty(), token.token_file.is_some())?;
        entry(config, origins, &at, &token.name, &token.tags, &token.permissions)?;
    }
    Ok(())
}

fn one_secret(origins: &Origins, at: &str, what: &str, empty: bool, file: bool) -> Result<(), Problem> {
    if empty != file {
        let shown = if empty { "(nothing)" } else { "***" };
        let allowed = format!("give either {what} or {what}_file");
        return Err(origins.problem(&format!("{at}.{what}"), shown, allowed));
    }
    Ok(())
}

fn entry(
    config: &Config,
    origins: &Origins,
    at: &str,
    name: &str,
    tags: &[String],
    permissions: &[PermissionSection],
) -> Result<(), Problem> {
    for (key, text) in [("name", name)].into_iter().chain(tags.iter().map(|t| ("tags", t.as_str()))) {
        if let Err(error) = Name::declared(text) {
            return Err(origins.problem(&format!("{at}.{key}"), format!("{text:?}"), error.to_string()));
        }
    }
    if permissions.is_empty() && tags.is_empty() {
        return Err(origins.problem(
            &format!("{at}.permissions"),
            "[]",
            "gives no right to anything; give at least one, such as { vhost = \"*\", configure = \".*\", write = \
             \".*\", read = \".*\" }, or a tag",
        ));
    }
    for (index, permission) in permissions.iter().enumerate() {
        let at = format!("{at}.permissions[{index}]");
        if permission.vhost != "*" && !config.vhosts.contains(&permission.vhost) {
            let allowed = format!("must be \"*\" or one of vhosts = {:?}", config.vhosts);
            return Err(origins.problem(&format!("{at}.vhost"), format!("{:?}", permission.vhost), allowed));
        }
        let patterns =
            [("configure", &permission.configure), ("write", &permission.write), ("read", &permission.read)];
        for (key, pattern) in patterns {
            if let Err(error) = regex_lite::Regex::new(pattern) {
                let allowed = format!("must be a regular expression: {error}");
                return Err(origins.problem(&format!("{at}.{key}"), format!("{pattern:?}"), allowed));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::identities::{SecretText, UserSection};
    use super::super::sections::ListenerSection;
    use super::*;

    fn refusal(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        ranges(&config, &Origins::default()).expect_err("refused").to_string()
    }

    fn user() -> UserSection {
        UserSection {
            name: "ann".to_owned(),
            password: SecretText("x".to_owned()),
            permissions: vec![PermissionSection::default()],
            ..UserSection::default()
        }
    }

    #[test]
    fn defaults_are_in_range() {
        assert_eq!(ranges(&Config::default(), &Origins::default()), Ok(()));
    }

    #[test]
    fn numbers_out_of_range_are_named_with_the_range() {
        assert_eq!(
            refusal(|c| c.limits.queues_max = 0),
            "default configuration: limits.queues_max = 0: must be from 1 to 1099511627776"
        );
        assert_eq!(
            refusal(|c| c.shutdown.grace_ms = 3_600_001),
            "default configuration: shutdown.grace_ms = 3600001: must be from 0 to 3600000"
        );
        assert!(refusal(|c| c.vhosts.push("/".to_owned())).contains("must not contain a name twice"));
        assert!(refusal(|c| c.vhosts.clear()).contains("must contain \"/\""));
        assert_eq!(
            refusal(|c| c.shards = 2),
            "default configuration: shards = 2: only 1 is supported by this version"
        );
    }

    #[test]
    fn listener_addresses_are_ip_and_port_or_off() {
        let with = |addr: &str| ListenerSection { addr: Some(addr.to_owned()), vhost: None };
        assert!(
            refusal(|c| drop(c.listeners.insert("http".into(), with("8080"))))
                .contains("listeners.http.addr = \"8080\": must be IP:PORT")
        );
        let mut config = Config::default();
        config.listeners.insert("http".into(), with("off"));
        assert_eq!(ranges(&config, &Origins::default()), Ok(()));
    }

    #[test]
    fn a_listener_needs_a_vhost_that_exists() {
        let said = refusal(|c| {
            let listener = ListenerSection { addr: None, vhost: Some("b".to_owned()) };
            c.listeners.insert("http".into(), listener);
        });
        assert!(said.contains("listeners.http.vhost = \"b\": must be one of vhosts = [\"/\"]"), "{said}");
    }

    #[test]
    fn users_need_a_secret_and_a_right() {
        let without_right = UserSection { permissions: Vec::new(), ..user() };
        assert!(
            refusal(|c| c.auth.users = vec![without_right])
                .contains("auth.users[0].permissions = []: gives no right")
        );
        let without_secret = UserSection { password: SecretText::default(), ..user() };
        assert!(
            refusal(|c| c.auth.users = vec![user(), without_secret])
                .contains("auth.users[1].password = (nothing): give either password or password_file")
        );
        assert!(
            refusal(|c| c.auth.users = vec![user(), user()])
                .contains("auth.users[1].name = \"ann\": is there twice")
        );
        let bad = PermissionSection { read: "(".to_owned(), ..PermissionSection::default() };
        let with_bad = UserSection { permissions: vec![bad], ..user() };
        assert!(
            refusal(|c| c.auth.users = vec![with_bad])
                .contains("auth.users[0].permissions[0].read = \"(\": must be a regular expression")
        );
    }
}
