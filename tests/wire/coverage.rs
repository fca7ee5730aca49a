//! The check of the checks: every command, alias, event, route and error code in the documents' tables is named by a
//! wire test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace").to_owned()
}

/// The text of every wire test but this one, and of the client that checks each delivery for them.
fn wire_tests() -> String {
    let folder = root().join("tests/wire");
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("wire tests").flatten() {
        if entry.file_name() != "coverage.rs" {
            text.push_str(&fs::read_to_string(entry.path()).expect("source"));
        }
    }
    text.push_str(&fs::read_to_string(root().join("tests/harness/messagex.rs")).expect("client"));
    text
}

/// The words in code quotes in the first column of every table under a heading marked `(tested)`.
fn documented(page: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs").join(page)).expect("page");
    let mut words = BTreeSet::new();
    let mut tested = false;
    for line in text.lines() {
        if line.starts_with('#') {
            tested = line.ends_with("(tested)");
        }
        let Some(cell) = line.strip_prefix('|').and_then(|l| l.split('|').next()).filter(|_| tested) else {
            continue;
        };
        words.extend(cell.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    words
}

fn check(page: &str, at_least: usize) {
    let tests = wire_tests();
    let words = documented(page);
    assert!(words.len() >= at_least, "{page} documents only {} words", words.len());
    let missing: Vec<_> = words.iter().filter(|w| !tests.contains(w.as_str())).collect();
    assert!(missing.is_empty(), "{page}: no wire test names {missing:?}");
}

#[test]
fn every_word_of_the_messagex_tables_is_named_by_a_wire_test() {
    check("messagex.md", 65);
}

#[test]
fn every_word_of_the_cloudevents_tables_is_named_by_a_wire_test() {
    check("cloudevents.md", 40);
}
