//! The last attempts of a subscription, for its owner. In memory only; a bounded ring.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::record::time_text;
use crate::limits::HOOK_HISTORY_MAX;

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// `webhook-id`.
    pub(crate) id: String,
    /// Events in it.
    pub(crate) events: usize,
    /// Which attempt of its first event, from 1.
    pub(crate) number: u32,
    /// When it began, in ms since the Unix epoch.
    pub(crate) at_ms: u64,
    pub(crate) duration_ms: u64,
    /// Status, or why there is none.
    pub(crate) answer: Result<u16, String>,
    /// `delivered`, `retry`, `rejected`, `gone`.
    pub(crate) outcome: &'static str,
}

/// The last attempts, the newest last.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<VecDeque<Attempt>>);

impl History {
    pub(crate) fn push(&self, attempt: Attempt) {
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() == HOOK_HISTORY_MAX {
            attempts.pop_front();
        }
        attempts.push_back(attempt);
    }

    /// As clients see it, the newest first.
    pub(crate) fn json(&self) -> Value {
        let attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = attempts.iter().rev().map(|attempt| {
            let mut shown = json!({
                "id": attempt.id, "events": attempt.events, "attempt": attempt.number, "time": time_text(attempt.at_ms),
                "durationMs": attempt.duration_ms, "outcome": attempt.outcome,
            });
            match &attempt.answer {
                Ok(status) => shown["status"] = (*status).into(),
                Err(error) => shown["error"] = error.as_str().into(),
            }
            shown
        });
        Value::Array(shown.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_attempts_are_kept_the_newest_first() {
        let history = History::default();
        for number in 1..=HOOK_HISTORY_MAX as u32 + 5 {
            let answer = if number % 2 == 0 { Ok(500) } else { Err("no answer".to_owned()) };
            let (id, outcome) = ("m".to_owned(), "retry");
            history.push(Attempt { id, events: 1, number, at_ms: 0, duration_ms: 3, answer, outcome });
        }
        let shown = history.json();
        assert_eq!(shown.as_array().map(Vec::len), Some(HOOK_HISTORY_MAX));
        let newest = json!({"id": "m", "events": 1, "attempt": 105, "time": "1970-01-01T00:00:00Z", "durationMs": 3,
            "outcome": "retry", "error": "no answer"});
        assert_eq!(shown[0], newest);
        assert_eq!(shown[1]["status"], 500);
    }
}
