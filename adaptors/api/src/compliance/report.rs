//! What a suite found.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Violations beyond this number are only counted.
const VIOLATIONS_KEPT: usize = 20;

/// The outcome of a suite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Things that were checked.
    pub checks: usize,
    /// What was wrong, the first 20, each with its adaptor or protocol and input.
    pub violations: Vec<String>,
    /// How many were wrong.
    pub failed: usize,
}

impl Report {
    /// Fails the test when something was wrong, or nothing was checked.
    ///
    /// # Panics
    /// As said.
    pub fn assert(&self) {
        assert!(self.checks > 0, "nothing was checked; is anything registered?");
        assert!(self.failed == 0, "{self}");
    }

    /// Both reports as one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.checks += other.checks;
        self.failed += other.failed;
        self.violations.extend(other.violations);
        self
    }

    pub(super) fn check(&mut self, holds: bool, violation: impl FnOnce() -> String) -> bool {
        self.checks += 1;
        if !holds {
            self.failed += 1;
            if self.violations.len() < VIOLATIONS_KEPT {
                self.violations.push(violation());
            }
        }
        holds
    }

    /// Runs something that must not panic.
    pub(super) fn total<T>(
        &mut self,
        run: impl FnOnce() -> T,
        context: impl FnOnce() -> String,
    ) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(value) => {
                self.checks += 1;
                Some(value)
            }
            Err(panic) => {
                self.check(false, || format!("{}: panicked: {}", context(), text(&*panic)));
                None
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} checks, {} failed", self.checks, self.failed)?;
        self.violations.iter().try_for_each(|violation| write!(f, "\n{violation}"))
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Bytes for a violation: escaped, shortened.
pub(super) fn show(bytes: &[u8]) -> String {
    let shown = bytes.get(..200).unwrap_or(bytes).escape_ascii().to_string();
    if bytes.len() > 200 { format!("\"{shown}\"... ({} bytes)", bytes.len()) } else { format!("\"{shown}\"") }
}
