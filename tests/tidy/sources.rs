//! Rules about source files: headers, sizes, words.

use std::fs;
use std::path::Path;

use crate::workspace::{files, root};

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").display().to_string()
}

#[test]
fn every_rust_file_says_what_it_owns() {
    for path in files(&[".rs"]) {
        let text = fs::read_to_string(&path).expect("source");
        assert!(text.starts_with("//!"), "{} does not begin with //!", relative(&path));
    }
}

#[test]
fn no_file_has_grown_past_what_one_noun_needs() {
    for path in files(&[".rs"]) {
        let lines = fs::read_to_string(&path).expect("source").lines().count();
        assert!(lines <= 600, "{} has {lines} lines: split it by noun", relative(&path));
    }
}

#[test]
fn the_core_names_no_protocol() {
    let protocols: Vec<_> =
        framegate_adaptor_api::protocols().expect("registry").iter().map(|p| p.name).collect();
    let core = ["gateway/", "storage/", "adaptors/api/"];
    for path in files(&[".rs"]) {
        let name = relative(&path);
        if !core.iter().any(|c| name.starts_with(c)) || name.contains("/tests/") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("source");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (n, line) in code.lines().enumerate() {
            let statement = line.split("//").next().unwrap_or_default().to_lowercase();
            for protocol in &protocols {
                assert!(
                    !statement.contains(protocol),
                    "{name}:{}: the core names '{protocol}': {line}",
                    n + 1
                );
            }
        }
    }
}

#[test]
fn words_that_must_not_be_published_do_not_appear() {
    // split so that this file does not contain them
    let words = [
        concat!("/wo", "rk/"),
        concat!("registry.npm", "js.org"),
        concat!("index.crates", ".io"),
        concat!("pypi", ".org"),
        concat!("repo1.maven", ".org"),
        concat!("proxy.gol", "ang.org"),
        concat!("todo", "!("),
        concat!("unimpl", "emented!("),
        concat!("#[ig", "nore"),
    ];
    let endings = [
        ".rs", ".toml", ".md", ".sh", ".js", ".mjs", ".py", ".html", ".css", ".json", ".yaml", ".yml",
        ".lock", "/run", "/check", "/install",
    ];
    for path in files(&endings) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for word in words {
            assert!(!text.contains(word), "{} contains '{word}'", relative(&path));
        }
    }
}

#[test]
fn the_documents_that_a_reader_looks_for_are_there() {
    let mut wanted: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"]
            .iter()
            .map(ToString::to_string)
            .collect();
    let protocols = framegate_adaptor_api::protocols().expect("registry");
    wanted.extend(protocols.iter().map(|p| format!("docs/{}.md", p.name)));
    for name in wanted {
        let text = fs::read_to_string(root().join(&name)).unwrap_or_default();
        assert!(text.len() > 200, "{name} is missing or empty");
    }
}
