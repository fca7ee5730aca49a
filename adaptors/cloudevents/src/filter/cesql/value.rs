//! Values of the language and how they are cast (spec sections 3.1, 3.3 and 3.7).

use std::borrow::Cow;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// True or false.
    Bool(bool),
    /// A whole number of 32 bits.
    Int(i32),
    /// Text; URIs and timestamps too.
    Text(Cow<'a, str>),
}

/// The types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Int,
    Text,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// Division by zero, or a result beyond 32 bits.
    #[error("the result of an operation is not a 32-bit integer")]
    Math,
    /// A value cannot be what an operation needs.
    #[error("a value cannot be cast")]
    Cast,
    /// The event lacks the attribute.
    #[error("an attribute is missing")]
    MissingAttribute,
    /// There is no such function with that number of arguments.
    #[error("a function does not exist")]
    MissingFunction,
    /// A function cannot work with its arguments.
    #[error("a function was called with arguments out of its range")]
    Function,
}

/// An error, and the value that the operation has in spite of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The value.
    pub value: Value<'a>,
    /// The error.
    pub error: EvalError,
}

impl<'a> Value<'a> {
    pub(super) fn kind(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Text(_) => Type::Text,
        }
    }

    /// The same value as another type.
    pub(super) fn cast(self, to: Type) -> Result<Self, EvalError> {
        Ok(match to {
            Type::Bool => Self::Bool(self.into_bool()?),
            Type::Int => Self::Int(self.into_int()?),
            Type::Text => Self::Text(self.into_text()),
        })
    }

    pub(super) fn into_bool(self) -> Result<bool, EvalError> {
        match self {
            Self::Bool(value) => Ok(value),
            Self::Int(value) => Ok(value != 0),
            Self::Text(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Self::Text(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Self::Text(_) => Err(EvalError::Cast),
        }
    }

    pub(super) fn into_int(self) -> Result<i32, EvalError> {
        match self {
            Self::Bool(value) => Ok(i32::from(value)),
            Self::Int(value) => Ok(value),
            Self::Text(text) => text.parse().map_err(|_| EvalError::Cast),
        }
    }

    pub(crate) fn into_text(self) -> Cow<'a, str> {
        match self {
            Self::Bool(value) => Cow::Borrowed(if value { "true" } else { "false" }),
            Self::Int(value) => Cow::Owned(value.to_string()),
            Self::Text(text) => text,
        }
    }
}

impl Type {
    /// What an operation of that type gives when it fails.
    pub(super) fn zero<'a>(self) -> Value<'a> {
        match self {
            Self::Bool => Value::Bool(false),
            Self::Int => Value::Int(0),
            Self::Text => Value::Text(Cow::Borrowed("")),
        }
    }
}
