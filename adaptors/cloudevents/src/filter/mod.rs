//! Filters of subscriptions (the dialects of the CloudEvents Subscriptions API): read from JSON once, then asked for each
//! event. They see attributes only, as a subscriber sees them.

mod cesql;
mod view;

pub use cesql::{Attributes, EvalError, Expression, Failure, ParseError, Value};

use framegate_adaptor_api::Egress;
use framegate_broker::{FeedEvent, HeaderTable};
use serde_json::Value as Json;

use crate::limits::{FILTER_DEPTH_MAX, FILTERS_MAX};
use view::View;

/// Filters of one subscription: all of them must be true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filters(Vec<Filter>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Filter {
    Text(How, Vec<(String, String)>),
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Sql(Expression),
}

/// How `exact`, `prefix` and `suffix` compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Exact,
    Prefix,
    Suffix,
}

/// Why filters cannot be used: a JSON pointer into them and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterError {
    pub(crate) pointer: String,
    pub(crate) detail: String,
}

impl Filters {
    /// Reads an array of filters, or one filter.
    ///
    /// # Errors
    /// The first place that is no filter, a CESQL expression that cannot be read or that calls an unknown function
    /// included.
    pub(crate) fn parse(json: &Json) -> Result<Self, FilterError> {
        let mut left = FILTERS_MAX;
        let filters = match json {
            Json::Array(_) => list(json, "", 0, &mut left)?,
            _ => vec![filter(json, "", 0, &mut left)?],
        };
        Ok(Self(filters))
    }

    /// There is nothing to ask.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a message passes, as a subscriber sees it.
    pub(crate) fn pass_message(&self, message: Egress<'_>) -> bool {
        self.is_empty() || self.pass(&View(message))
    }

    /// Whether an event of a feed passes.
    pub(crate) fn pass_event(&self, event: &FeedEvent, headers: &HeaderTable) -> bool {
        if self.is_empty() {
            return true;
        }
        let (envelope, frame, origin) = (&event.envelope, &event.frame, &event.origin);
        self.pass(&View(Egress { envelope, frame, origin, headers }))
    }

    fn pass(&self, event: &dyn Attributes) -> bool {
        self.0.iter().all(|filter| filter.pass(event))
    }
}

impl Filter {
    fn pass(&self, event: &dyn Attributes) -> bool {
        match self {
            Self::Text(how, wanted) => wanted.iter().all(|(name, text)| {
                let value = event.attribute(name).map(Value::into_text);
                value.is_some_and(|value| match how {
                    How::Exact => value == text.as_str(),
                    How::Prefix => value.starts_with(text),
                    How::Suffix => value.ends_with(text),
                })
            }),
            Self::All(filters) => filters.iter().all(|filter| filter.pass(event)),
            Self::Any(filters) => filters.iter().any(|filter| filter.pass(event)),
            Self::Not(filter) => !filter.pass(event),
            Self::Sql(expression) => expression.passes(event),
        }
    }
}

fn error(pointer: &str, detail: impl Into<String>) -> FilterError {
    FilterError { pointer: pointer.to_owned(), detail: detail.into() }
}

fn list(json: &Json, pointer: &str, depth: usize, left: &mut usize) -> Result<Vec<Filter>, FilterError> {
    let Json::Array(filters) = json else { return Err(error(pointer, "is not an array of filters")) };
    filters
        .iter()
        .enumerate()
        .map(|(at, json)| filter(json, &format!("{pointer}/{at}"), depth, left))
        .collect()
}

/// One filter: an object with one member, the dialect.
fn filter(json: &Json, pointer: &str, depth: usize, left: &mut usize) -> Result<Filter, FilterError> {
    if depth >= FILTER_DEPTH_MAX {
        return Err(error(pointer, format!("is nested deeper than {FILTER_DEPTH_MAX}")));
    }
    *left = left
        .checked_sub(1)
        .ok_or_else(|| error(pointer, format!("is one of more than {FILTERS_MAX} filters")))?;
    let Some(object) = json.as_object().filter(|object| object.len() == 1) else {
        return Err(error(pointer, "is not an object with exactly one member, its dialect"));
    };
    let Some((dialect, json)) = object.iter().next() else {
        return Err(error(pointer, "has no dialect"));
    };
    let pointer = format!("{pointer}/{}", dialect.replace('~', "~0").replace('/', "~1"));
    match dialect.as_str() {
        "exact" => Ok(Filter::Text(How::Exact, texts(json, &pointer)?)),
        "prefix" => Ok(Filter::Text(How::Prefix, texts(json, &pointer)?)),
        "suffix" => Ok(Filter::Text(How::Suffix, texts(json, &pointer)?)),
        "all" | "any" => {
            let filters = list(json, &pointer, depth + 1, left)?;
            if filters.is_empty() {
                return Err(error(&pointer, "has no filter"));
            }
            Ok(if dialect == "all" { Filter::All(filters) } else { Filter::Any(filters) })
        }
        "not" => Ok(Filter::Not(Box::new(filter(json, &pointer, depth + 1, left)?))),
        "sql" => {
            let text =
                json.as_str().ok_or_else(|| error(&pointer, "is not a CESQL expression in a string"))?;
            let expression = Expression::parse(text).map_err(|e| error(&pointer, e.to_string()))?;
            match expression.unknown_function() {
                Some(function) => Err(error(&pointer, format!("there is no function {function}"))),
                None => Ok(Filter::Sql(expression)),
            }
        }
        _ => Err(error(&pointer, "is no dialect: exact, prefix, suffix, all, any, not and sql are")),
    }
}

/// The attributes that `exact`, `prefix` and `suffix` name, at least one, with text.
fn texts(json: &Json, pointer: &str) -> Result<Vec<(String, String)>, FilterError> {
    let Some(object) = json.as_object().filter(|object| !object.is_empty()) else {
        return Err(error(pointer, "is not an object of attribute names and texts"));
    };
    object
        .iter()
        .map(|(name, value)| match value.as_str() {
            _ if name.is_empty() => Err(error(pointer, "names no attribute")),
            Some(text) if !text.is_empty() => Ok((name.clone(), text.to_owned())),
            _ => Err(error(&format!("{pointer}/{name}"), "is not a text, or it is empty")),
        })
        .collect()
}

#[cfg(test)]
mod tests;
