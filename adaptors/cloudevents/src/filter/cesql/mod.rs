//! The CloudEvents Expression Language, CESQL 1.0: an expression over the attributes of one event. Never looks at data.
//!
//! An evaluation stops at its first error (the specification's fail fast mode) and then gives that error beside the value
//! that the failed operation has for it.

mod eval;
mod functions;
mod lexer;
mod like;
mod parser;
mod value;

pub use value::{EvalError, Failure, Value};

use parser::Node;

/// Longest expression, in bytes.
const EXPRESSION_BYTES_MAX: usize = 4096;

/// Where an expression finds attributes.
pub trait Attributes {
    /// The value of an attribute, by its lower-case name; None: the event has none.
    fn attribute(&self, name: &str) -> Option<Value<'_>>;
}

/// An expression that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression(Node);

/// Why text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {reason}")]
pub struct ParseError {
    /// Byte offset in the text.
    pub at: usize,
    /// What is wrong there.
    pub reason: String,
}

impl Expression {
    /// Reads an expression of at most 4,096 bytes (spec section 2). Keywords, functions and attribute names may be written
    /// in any case. AND, OR and XOR have one precedence and group from the right, as in the published grammar.
    ///
    /// # Errors
    /// The place and what is wrong there. Calling a function that does not exist is not an error here: see
    /// `unknown_function`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            let reason = format!("the expression is longer than {EXPRESSION_BYTES_MAX} bytes");
            return Err(ParseError { at: EXPRESSION_BYTES_MAX, reason });
        }
        parser::parse(text).map(Self)
    }

    /// The first function that is called and does not exist with that number of arguments.
    #[must_use]
    pub fn unknown_function(&self) -> Option<String> {
        self.0.unknown_function()
    }

    /// Evaluates it for an event.
    ///
    /// # Errors
    /// The first error, with the value that the expression has in spite of it.
    pub fn evaluate<'a>(&'a self, event: &'a dyn Attributes) -> Result<Value<'a>, Failure<'a>> {
        eval::evaluate(&self.0, event)
    }

    /// Whether an event passes: the value is true, and nothing went wrong (spec section 1.2).
    pub fn passes(&self, event: &dyn Attributes) -> bool {
        matches!(eval::evaluate(&self.0, event), Ok(Value::Bool(true)))
    }
}

#[cfg(test)]
mod tests;
