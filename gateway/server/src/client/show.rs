//! `framegate status`, and what the lists share: the admin API as text.

use serde_json::Value;

use super::{Api, print_line};
use crate::cli::ShowArgs;
use crate::exit::{Ending, Exit};

/// Prints totals and listeners.
///
/// # Errors
/// An ending with its message.
pub(crate) fn status(args: &ShowArgs) -> Result<Exit, Ending> {
    show(args, "/admin/v1/overview", |overview| {
        let mut lines = vec![format!(
            "framegate {}, generation {}",
            text(&overview["version"]),
            text(&overview["generation"])
        )];
        for listener in items(&overview["listeners"]) {
            lines.push(format!("listener {:<16} {}", text(&listener["name"]), text(&listener["addr"])));
        }
        if let Some(totals) = overview["totals"].as_object() {
            lines.extend(totals.iter().map(|(name, value)| format!("{name:<25} {}", text(value))));
        }
        lines
    })
}

/// Prints an answer of the API: its JSON, or the lines made of it.
///
/// # Errors
/// An ending with its message.
pub(super) fn show(
    args: &ShowArgs,
    path: &str,
    lines: impl FnOnce(&Value) -> Vec<String>,
) -> Result<Exit, Ending> {
    let api = Api::new(&args.target);
    let body = api.get(path)?;
    let lines = if args.json {
        vec![body.trim_end().to_owned()]
    } else {
        let value: Value = serde_json::from_str(&body)
            .map_err(|e| Ending::failed(format!("{}{path} did not answer JSON: {e}", api.url)))?;
        lines(&value)
    };
    for line in lines {
        if print_line(&line).is_err() {
            break;
        }
    }
    Ok(Exit::Done)
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
