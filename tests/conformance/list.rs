//! The checked-in list of what must run: reads `ids.txt` and compares it with the rows that came.
//!
//! ```text
//! # comment
//! Q1 memory journal        must run on these backends
//! = later
//! Q4 reason                does not run yet, and is never counted as passed
//! ```

use std::collections::BTreeSet;

use framegate_storage::conformance::Row;

/// What `ids.txt` says.
pub(crate) struct List {
    run: BTreeSet<(String, String)>,
    /// Id and reason, in the order of the file.
    pub(crate) later: Vec<(String, String)>,
}

/// Reads the list that is checked in.
pub(crate) fn read() -> List {
    parse(include_str!("ids.txt"))
}

fn parse(text: &str) -> List {
    let mut list = List { run: BTreeSet::new(), later: Vec::new() };
    let mut later = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line == "= later" {
            later = true;
            continue;
        }
        let (id, rest) = line.split_once(' ').unwrap_or_else(|| panic!("ids.txt: '{line}' says nothing"));
        if later {
            list.later.push((id.to_owned(), rest.trim().to_owned()));
        } else {
            for backend in rest.split_whitespace() {
                let new = list.run.insert((id.to_owned(), backend.to_owned()));
                assert!(new, "ids.txt: {id} lists {backend} twice");
            }
        }
    }
    for (id, _) in &list.later {
        assert!(!list.run.iter().any(|(other, _)| other == id), "ids.txt: {id} runs and is for later");
    }
    list
}

impl List {
    /// Whether an id must run on a backend.
    pub(crate) fn runs(&self, id: &str, backend: &str) -> bool {
        self.run.contains(&(id.to_owned(), backend.to_owned()))
    }

    /// What is listed and has no row, what has a row and is not listed, and what has two.
    pub(crate) fn differences<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut wrong = Vec::new();
        for row in rows {
            let key = (row.id.to_owned(), row.backend.clone());
            if !self.run.contains(&key) {
                wrong.push(format!("{} on {} ran and is not listed", row.id, row.backend));
            }
            if !seen.insert(key) {
                wrong.push(format!("{} on {} has two rows", row.id, row.backend));
            }
        }
        let missing = self.run.difference(&seen);
        wrong.extend(missing.map(|(id, backend)| format!("{id} on {backend} is listed and did not run")));
        wrong
    }
}

#[test]
fn a_listed_id_without_a_row_and_a_row_that_is_not_listed_are_differences() {
    use framegate_storage::conformance::Outcome;
    let list = parse("# ids\nQ1 memory journal\n= later\nQ4 no priorities\n");
    let row = |id, backend: &str| Row { id, backend: backend.to_owned(), outcome: Outcome::Passed };
    assert!(list.differences([row("Q1", "memory"), row("Q1", "journal")].iter()).is_empty());
    assert_eq!(list.differences([row("Q1", "memory")].iter()), ["Q1 on journal is listed and did not run"]);
    let rows = [row("Q1", "memory"), row("Q1", "journal"), row("Q4", "memory")];
    assert_eq!(list.differences(rows.iter()), ["Q4 on memory ran and is not listed"]);
    assert_eq!(list.later, [("Q4".to_owned(), "no priorities".to_owned())]);
}
