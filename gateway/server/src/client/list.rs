//! `framegate queues`, `topics` and `exchanges`: lists of the admin API as tables, filtered by the server.

use serde_json::Value;

use super::segment;
use super::show::{items, show, text};
use crate::cli::{ExchangesArgs, ListArgs};
use crate::exit::{Ending, Exit};

/// Columns of a table: head and member. The first is the name.
type Columns = [(&'static str, &'static str)];

const QUEUES: &Columns = &[
    ("name", "name"),
    ("ready", "ready"),
    ("unacked", "unacked"),
    ("consumers", "consumers"),
    ("bytes", "bytes"),
];
const TOPICS: &Columns = &[
    ("name", "name"),
    ("events", "events"),
    ("next offset", "next_offset"),
    ("subscribers", "subscribers"),
    ("bytes", "bytes"),
];
const EXCHANGES: &Columns = &[
    ("name", "name"),
    ("kind", "kind"),
    ("durable", "durable"),
    ("auto-delete", "auto_delete"),
    ("internal", "internal"),
    ("alternate", "alternate"),
];

/// Prints one line a queue.
///
/// # Errors
/// An ending with its message.
pub(crate) fn queues(args: &ListArgs) -> Result<Exit, Ending> {
    show(&args.show, &path("queues", &filters(args)), |answer| table(items(&answer["queues"]), QUEUES))
}

/// Prints one line a topic.
///
/// # Errors
/// An ending with its message.
pub(crate) fn topics(args: &ListArgs) -> Result<Exit, Ending> {
    show(&args.show, &path("topics", &filters(args)), |answer| table(items(&answer["topics"]), TOPICS))
}

/// Prints one line an exchange.
///
/// # Errors
/// An ending with its message.
pub(crate) fn exchanges(args: &ExchangesArgs) -> Result<Exit, Ending> {
    let filters = [("name", args.name.as_deref()), ("kind", args.kind.as_deref())];
    show(&args.show, &path("exchanges", &filters), |answer| table(items(&answer["exchanges"]), EXCHANGES))
}

fn filters(args: &ListArgs) -> [(&'static str, Option<&str>); 3] {
    let flag = |set: bool| set.then_some("true");
    [("name", args.name.as_deref()), ("nonempty", flag(args.nonempty)), ("unused", flag(args.unused))]
}

fn path(list: &str, filters: &[(&str, Option<&str>)]) -> String {
    let mut path = format!("/admin/v1/{list}");
    let given = filters.iter().filter_map(|(key, value)| Some((key, (*value)?)));
    for (index, (key, value)) in given.enumerate() {
        path.push(if index == 0 { '?' } else { '&' });
        path += &format!("{key}={}", segment(value));
    }
    path
}

/// Rows under their heads: the name to the left, the rest to the right.
fn table(rows: &[Value], columns: &Columns) -> Vec<String> {
    let heads: Vec<String> = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let cell = |value: &Value| if value.is_null() { "-".to_owned() } else { text(value) };
    let cells = |row: &Value| columns.iter().map(|(_, member)| cell(&row[*member])).collect();
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let put = |line: &Vec<String>| {
        let mut out = format!("{:<width$}", line[0], width = widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            out += &format!("  {cell:>width$}");
        }
        out
    };
    lines.iter().map(put).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_go_into_the_query_escaped() {
        assert_eq!(path("queues", &[("name", None), ("unused", None)]), "/admin/v1/queues");
        let filters = [("name", Some("a b*&")), ("nonempty", None), ("unused", Some("true"))];
        assert_eq!(path("queues", &filters), "/admin/v1/queues?name=a%20b%2A%26&unused=true");
    }

    #[test]
    fn a_table_is_as_wide_as_what_is_in_it() {
        let rows = [
            json!({"name": "q", "kind": "x-consistent-hash", "durable": true}),
            json!({"name": "longer", "kind": "topic", "durable": false}),
        ];
        let columns =
            [("name", "name"), ("kind", "kind"), ("durable", "durable"), ("alternate", "alternate")];
        let expected = [
            "name                 kind  durable  alternate",
            "q       x-consistent-hash     true          -",
            "longer              topic    false          -",
        ];
        assert_eq!(table(&rows, &columns), expected);
        assert_eq!(table(&[], &columns), ["name  kind  durable  alternate"]);
    }
}
