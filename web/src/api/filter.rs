//! Which rows of a list are wanted, by the query: `name` (`*` stands for anything), `nonempty`, `unused`, `kind`. Never
//! changes a row.

use framegate_broker::{ExchangeInfo, QueueInfo, TopicInfo};

use super::Query;
use crate::problem::Problem;

/// See the module. What is not asked for lets everything through.
#[derive(Debug, Default)]
pub(super) struct Filter {
    name: Option<String>,
    nonempty: bool,
    unused: bool,
    kind: Option<String>,
}

impl Filter {
    /// Reads a query; `known` are the keys that the list understands.
    pub(super) fn read(query: &Query, known: &[&str]) -> Result<Self, Problem> {
        let given = |key: &str| query.get(key).filter(|_| known.contains(&key));
        let flag = |key: &str| match given(key).map(String::as_str) {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(other) => Err(Problem::bad_request(format!("{key} is '{other}', not true or false"))),
        };
        Ok(Self {
            name: given("name").cloned(),
            nonempty: flag("nonempty")?,
            unused: flag("unused")?,
            kind: given("kind").cloned(),
        })
    }

    fn name_fits(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|pattern| fits(pattern, name))
    }

    pub(super) fn queue(&self, queue: &QueueInfo) -> bool {
        self.name_fits(&queue.name)
            && (!self.nonempty || queue.ready + queue.unacked > 0)
            && (!self.unused || queue.consumers == 0)
    }

    pub(super) fn topic(&self, topic: &TopicInfo) -> bool {
        self.name_fits(&topic.name)
            && (!self.nonempty || topic.next.0 > topic.first.0)
            && (!self.unused || topic.subscribers == 0)
    }

    pub(super) fn exchange(&self, exchange: &ExchangeInfo) -> bool {
        self.name_fits(&exchange.name)
            && self.kind.as_deref().is_none_or(|kind| kind == exchange.kind.as_str())
    }
}

/// Whether a text fits a pattern in which `*` stands for any characters. Takes pattern times text at most.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    // without a star the whole text is wanted
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, matching, others) in [
            ("*", &["", "a", "é*"][..], &[][..]),
            ("", &[""], &["a"]),
            ("orders", &["orders"], &["order", "orders.eu", "my.orders"]),
            ("orders*", &["orders", "orders.eu"], &["my.orders"]),
            ("*eu*", &["orders.eu", "eu", "neun"], &["e.u"]),
            ("a*b*c", &["abc", "a.b.c", "abcbc"], &["ab", "acb", "abcd"]),
            ("a*a", &["aa", "aba"], &["a"]),
        ] {
            for text in matching {
                assert!(fits(pattern, text), "{pattern} {text}");
            }
            for text in others {
                assert!(!fits(pattern, text), "{pattern} {text}");
            }
        }
    }

    #[test]
    fn a_flag_is_true_false_or_refused() {
        let query =
            |value: &str| axum::extract::Query(HashMap::from([("nonempty".to_owned(), value.to_owned())]));
        for (value, expected) in [("", true), ("true", true), ("1", true), ("false", false), ("0", false)] {
            let filter = Filter::read(&query(value), &["nonempty"]).expect("read");
            assert_eq!(filter.nonempty, expected, "{value}");
        }
        let said = Filter::read(&query("yes"), &["nonempty"]).expect_err("refused").detail;
        assert_eq!(said, "nonempty is 'yes', not true or false");
        assert!(!Filter::read(&query("yes"), &["name"]).expect("not asked").nonempty);
    }
}
