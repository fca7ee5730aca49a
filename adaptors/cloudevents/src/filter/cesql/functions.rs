//! The built-in functions (spec section 3.5). A character is a Unicode scalar value.

use std::borrow::Cow;

use super::value::{EvalError, Failure, Type, Value};

/// Longest text that a function makes, in bytes: nested CONCATs of long attributes end there.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// A function with its number of arguments settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Length,
    Concat,
    ConcatWs,
    Lower,
    Upper,
    Trim,
    Left,
    Right,
    Substring,
    Abs,
    Int,
    Bool,
    Text,
}

/// The function of a name in upper case that takes so many arguments.
pub(super) fn find(name: &str, arguments: usize) -> Option<Function> {
    Some(match (name, arguments) {
        ("LENGTH", 1) => Function::Length,
        ("CONCAT", _) => Function::Concat,
        ("CONCAT_WS", 1..) => Function::ConcatWs,
        ("LOWER", 1) => Function::Lower,
        ("UPPER", 1) => Function::Upper,
        ("TRIM", 1) => Function::Trim,
        ("LEFT", 2) => Function::Left,
        ("RIGHT", 2) => Function::Right,
        ("SUBSTRING", 2 | 3) => Function::Substring,
        ("ABS", 1) => Function::Abs,
        ("INT", 1) => Function::Int,
        ("BOOL", 1) => Function::Bool,
        ("STRING", 1) => Function::Text,
        _ => return None,
    })
}

impl Function {
    /// What it gives.
    pub(super) fn returns(self) -> Type {
        match self {
            Self::Length | Self::Abs | Self::Int => Type::Int,
            Self::Bool => Type::Bool,
            _ => Type::Text,
        }
    }

    /// What an argument is cast to, by its place.
    pub(super) fn argument(self, at: usize) -> Type {
        match (self, at) {
            (Self::Abs | Self::Int, _) | (Self::Left | Self::Right | Self::Substring, 1..) => Type::Int,
            (Self::Bool, _) => Type::Bool,
            _ => Type::Text,
        }
    }

    /// Calls it with arguments of the types that it wants.
    pub(super) fn call<'a>(self, mut arguments: Vec<Value<'a>>) -> Result<Value<'a>, Failure<'a>> {
        let number = |at: usize| match arguments.get(at) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        };
        let (second, third) = (number(1), number(2));
        let length = arguments.len();
        if matches!(self, Self::Concat | Self::ConcatWs) {
            let texts = arguments.drain(..).map(Value::into_text).collect();
            return concat(texts, self == Self::ConcatWs);
        }
        let Some(first) = arguments.into_iter().next() else { return Ok(self.returns().zero()) };
        let text = match (self, first) {
            (Self::Abs, Value::Int(i32::MIN)) => {
                return Err(Failure { value: Value::Int(i32::MAX), error: EvalError::Math });
            }
            (Self::Abs, Value::Int(number)) => return Ok(Value::Int(number.abs())),
            // casting the argument was all
            (Self::Int | Self::Bool | Self::Text, value) => return Ok(value),
            (_, value) => value.into_text(),
        };
        match self {
            Self::Length => Ok(Value::Int(i32::try_from(text.chars().count()).unwrap_or(i32::MAX))),
            Self::Lower => bounded(text.to_lowercase()),
            Self::Upper => bounded(text.to_uppercase()),
            Self::Trim => Ok(Value::Text(map(text, |text| text.trim()))),
            Self::Left => part(text, second, |text, count| &text[..byte_of(text, count)]),
            Self::Right => part(text, second, |text, count| {
                let skipped = text.chars().count().saturating_sub(count);
                &text[byte_of(text, skipped)..]
            }),
            _ => substring(text, second.unwrap_or(0), (length > 2).then_some(third.unwrap_or(0))),
        }
    }
}

fn concat<'a>(texts: Vec<Cow<'a, str>>, separated: bool) -> Result<Value<'a>, Failure<'a>> {
    let (separator, parts) = match texts.split_first() {
        Some((separator, parts)) if separated => (separator.as_ref(), parts),
        _ => ("", texts.as_slice()),
    };
    let bytes: usize = parts.iter().map(|part| part.len() + separator.len()).sum();
    if bytes > TEXT_BYTES_MAX {
        return Err(Failure { value: Type::Text.zero(), error: EvalError::Function });
    }
    Ok(Value::Text(parts.join(separator).into()))
}

fn bounded<'a>(text: String) -> Result<Value<'a>, Failure<'a>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Failure { value: Type::Text.zero(), error: EvalError::Function });
    }
    Ok(Value::Text(text.into()))
}

/// The first or last so many characters; a negative count is an error that leaves the text as it is.
fn part<'a>(
    text: Cow<'a, str>,
    count: Option<i32>,
    cut: fn(&str, usize) -> &str,
) -> Result<Value<'a>, Failure<'a>> {
    match usize::try_from(count.unwrap_or(0)) {
        Ok(count) => Ok(Value::Text(map(text, |text| cut(text, count)))),
        Err(_) => Err(Failure { value: Value::Text(text), error: EvalError::Function }),
    }
}

/// Characters from `position` (1 is the first, -1 the last, 0 gives nothing), at most `count` of them.
fn substring<'a>(text: Cow<'a, str>, position: i32, count: Option<i32>) -> Result<Value<'a>, Failure<'a>> {
    let failed = || Err(Failure { value: Type::Text.zero(), error: EvalError::Function });
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let position = i64::from(position);
    if position > length || position < -length || count.is_some_and(|count| count < 0) {
        return failed();
    }
    if position == 0 {
        return Ok(Type::Text.zero());
    }
    let skipped = if position > 0 { position - 1 } else { length + position };
    let skipped = usize::try_from(skipped).unwrap_or(0);
    let count = count.and_then(|count| usize::try_from(count).ok());
    Ok(Value::Text(map(text, |text| {
        let rest = &text[byte_of(text, skipped)..];
        count.map_or(rest, |count| &rest[..byte_of(rest, count)])
    })))
}

/// Where the character with that number begins.
fn byte_of(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
}

/// A part of a text, borrowed if the text is.
fn map<'a>(text: Cow<'a, str>, part: impl Fn(&str) -> &str) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(part(text)),
        Cow::Owned(text) => Cow::Owned(part(&text).to_owned()),
    }
}
