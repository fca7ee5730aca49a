//! What is wrong with an event, and where: a JSON pointer into the envelope, or a header. Never carries payload.

use std::fmt;

/// Faults that one error lists at most; what follows them is not looked for.
const FAULTS_MAX: usize = 16;

/// Where in a client's event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// JSON pointer (RFC 6901) into the envelope; empty: the whole text.
    Pointer(String),
    /// HTTP header name, lower case.
    Header(String),
    /// Query parameter.
    Query(&'static str),
}

impl Place {
    /// The member `name` of the event at `prefix` (empty, or `/<index>` in a batch).
    pub(crate) fn member(prefix: &str, name: &str) -> Self {
        Self::Pointer(format!("{prefix}/{}", name.replace('~', "~0").replace('/', "~1")))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pointer(pointer) if pointer.is_empty() => f.write_str("event"),
            Self::Pointer(pointer) => f.write_str(pointer),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Query(name) => write!(f, "query parameter {name}"),
        }
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where.
    pub(crate) place: Place,
    /// What, as the end of a sentence that starts with the place.
    pub(crate) detail: String,
}

/// An event that breaks the rules: one fault or more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct EventError {
    /// In the order in which they were found; never empty, at most 16.
    pub(crate) faults: Vec<Fault>,
}

impl EventError {
    /// An error with one fault.
    pub(crate) fn one(place: Place, detail: impl Into<String>) -> Self {
        Self { faults: vec![Fault { place, detail: detail.into() }] }
    }

    /// The same error with its pointers below another one.
    pub(crate) fn under(mut self, prefix: &str) -> Self {
        for fault in &mut self.faults {
            if let Place::Pointer(pointer) = &mut fault.place {
                pointer.insert_str(0, prefix);
            }
        }
        self
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{} {}", fault.place, fault.detail)?;
        }
        Ok(())
    }
}

/// Collects faults.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    /// Adds one, unless there are enough.
    pub(crate) fn add(&mut self, place: Place, detail: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(Fault { place, detail: detail.into() });
        }
    }

    /// Whether something was said of that place.
    pub(crate) fn has(&self, place: &Place) -> bool {
        self.0.iter().any(|fault| fault.place == *place)
    }

    /// The value, if nothing was wrong.
    pub(crate) fn or_ok<T>(self, value: T) -> Result<T, EventError> {
        if self.0.is_empty() { Ok(value) } else { Err(EventError { faults: self.0 }) }
    }
}
