//! One line of the result: case, backend, outcome. Prints the table; runs nothing.

use std::fmt::Write as _;

/// How a case ended on a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The guarantee holds.
    Passed,
    /// The backend cannot have the fault, with the reason.
    NotApplicable(String),
    /// The guarantee is broken, with what was seen.
    Failed(String),
}

/// Result of one case on one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Id of the case, as listed.
    pub id: &'static str,
    /// Name of the backend or configuration.
    pub backend: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// The rows that failed, and one made-up failed row for each listed id that `backend` has no row for.
#[must_use]
pub fn failures(ids: &[(&'static str, &str)], backend: &str, rows: &[Row]) -> Vec<Row> {
    let failed = rows.iter().filter(|row| matches!(row.outcome, Outcome::Failed(_))).cloned();
    let missing = ids
        .iter()
        .filter(|(id, _)| !rows.iter().any(|row| row.id == *id && row.backend == backend))
        .map(|(id, _)| Row {
            id,
            backend: backend.to_owned(),
            outcome: Outcome::Failed("listed, but did not run".to_owned()),
        });
    failed.chain(missing).collect()
}

/// The rows as text, one a line.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows {
        let (word, detail) = match &row.outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::NotApplicable(reason) => ("n/a", reason.as_str()),
            Outcome::Failed(reason) => ("FAILED", reason.as_str()),
        };
        let line = format!("{:<4} {:<16} {word:<7} {detail}", row.id, row.backend);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_id_without_a_row_is_a_failure() {
        let rows = [Row { id: "L1", backend: "x".to_owned(), outcome: Outcome::Passed }];
        assert!(failures(&[("L1", "")], "x", &rows).is_empty());
        let missing = failures(&[("L1", ""), ("L2", "")], "x", &rows);
        assert_eq!(missing.iter().map(|row| row.id).collect::<Vec<_>>(), ["L2"]);
        assert_eq!(failures(&[("L1", "")], "y", &rows).len(), 1);
    }
}
