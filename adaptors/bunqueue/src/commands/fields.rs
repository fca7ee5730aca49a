//! Fields of a request and of the maps in it, with the error texts of the original, which is all that its clients get to see.
//! Never knows what a command means.

use std::borrow::Cow;

use crate::codec::{Item, List, Map, Raw};
use crate::limits::SAFE_INTEGER_MAX;

/// Why a command is refused: the text of `error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(pub(crate) Cow<'static, str>);

impl From<&'static str> for Refusal {
    fn from(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

/// The fields of one map, looked up by name. `undefined` is "not given" everywhere, as is nil where nothing else is said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields<'a> {
    entries: Vec<(&'a str, Raw<'a>)>,
}

/// Bounds of a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) is_whole: bool,
}

impl Range {
    /// From zero on, fractions allowed.
    pub(crate) const fn upto(max: i64) -> Self {
        Self { min: 0, max, is_whole: false }
    }

    /// Whole numbers.
    pub(crate) const fn whole(min: i64, max: i64) -> Self {
        Self { min, max, is_whole: true }
    }
}

impl<'a> Fields<'a> {
    pub(crate) fn of(map: Map<'a>) -> Self {
        let mut entries = Vec::with_capacity(map.count().min(64));
        for (key, value) in map {
            if let Item::Text(name) = key.item()
                && !value.is_absent()
            {
                entries.push((name, value));
            }
        }
        Self { entries }
    }

    /// The value as it stands, nil included. The last of a name counts.
    pub(crate) fn raw(&self, name: &str) -> Option<Raw<'a>> {
        self.entries.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    /// The value, unless it is nil.
    pub(crate) fn item(&self, name: &str) -> Option<Item<'a>> {
        self.raw(name).map(Raw::item).filter(|item| *item != Item::Nil)
    }

    /// Text, or nothing when it is anything else.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        match self.item(name) {
            Some(Item::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Text that must be there.
    pub(crate) fn need_text(&self, name: &str) -> Result<&'a str, Refusal> {
        match self.item(name) {
            Some(Item::Text(text)) if !text.is_empty() => Ok(text),
            Some(Item::Text(_)) | None => Err(format!("{name} is required").into()),
            Some(_) => Err(format!("{name} must be a string").into()),
        }
    }

    /// A list that must be there.
    pub(crate) fn need_list(&self, name: &str) -> Result<List<'a>, Refusal> {
        match self.item(name) {
            Some(Item::List(list)) => Ok(list),
            Some(_) => Err(format!("{name} must be an array").into()),
            None => Err(format!("{name} is required").into()),
        }
    }

    /// A list, if given.
    pub(crate) fn list(&self, name: &str) -> Result<Option<List<'a>>, Refusal> {
        if self.item(name).is_none() { Ok(None) } else { self.need_list(name).map(Some) }
    }

    /// A list of texts, if given.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<&'a str>>, Refusal> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        list.map(|raw| match raw.item() {
            Item::Text(text) => Ok(text),
            _ => Err(Refusal::from(format!("{name} must be an array of strings"))),
        })
        .collect::<Result<_, _>>()
        .map(Some)
    }

    /// The fields of a map, if given.
    pub(crate) fn map(&self, name: &str) -> Result<Option<Fields<'a>>, Refusal> {
        match self.item(name) {
            Some(Item::Map(map)) => Ok(Some(Self::of(map))),
            Some(_) => Err(format!("{name} must be an object").into()),
            None => Ok(None),
        }
    }

    /// What JavaScript takes for true.
    pub(crate) fn is_truthy(&self, name: &str) -> bool {
        match self.item(name) {
            None | Some(Item::Absent | Item::Nil | Item::Bool(false) | Item::Int(0) | Item::Text("")) => {
                false
            }
            Some(Item::Float(number) | Item::Big(number)) => number != 0.0 && !number.is_nan(),
            Some(_) => true,
        }
    }

    /// A number within bounds, rounded where fractions are allowed. `shown` is its name in the error.
    pub(crate) fn number_as(&self, name: &str, shown: &str, range: Range) -> Result<Option<i64>, Refusal> {
        let Some(item) = self.item(name) else { return Ok(None) };
        let number = match item {
            Item::Int(number) => number as f64,
            Item::Float(number) => number,
            _ => return Err(format!("{shown} must be a number").into()),
        };
        if !number.is_finite() {
            return Err(format!("{shown} must be a finite number").into());
        }
        if range.is_whole && number.fract() != 0.0 {
            return Err(format!("{shown} must be an integer").into());
        }
        if number < range.min as f64 {
            return Err(format!("{shown} must be at least {}", range.min).into());
        }
        if number > range.max as f64 {
            return Err(format!("{shown} must be at most {}", range.max).into());
        }
        Ok(Some(number.round() as i64))
    }

    /// A number within bounds.
    pub(crate) fn number(&self, name: &str, range: Range) -> Result<Option<i64>, Refusal> {
        self.number_as(name, name, range)
    }

    /// A number of ms or items that is only cut to what can be, never refused; None when it is no number.
    pub(crate) fn lenient(&self, name: &str) -> Option<i64> {
        match self.item(name)? {
            Item::Int(number) => Some(number),
            Item::Float(number) | Item::Big(number) if !number.is_nan() => {
                Some(number.clamp(-(SAFE_INTEGER_MAX as f64), SAFE_INTEGER_MAX as f64) as i64)
            }
            _ => None,
        }
    }

    /// A whole number from 1 to 2^53-1, if given.
    pub(crate) fn positive(&self, name: &str, shown: &str) -> Result<Option<i64>, Refusal> {
        let Some(item) = self.item(name) else { return Ok(None) };
        let number = match item {
            Item::Int(number) => number,
            Item::Float(number) if number.fract() == 0.0 && number.abs() <= SAFE_INTEGER_MAX as f64 => {
                number as i64
            }
            _ => 0,
        };
        if number < 1 {
            return Err(format!("{shown} must be a positive safe integer").into());
        }
        Ok(Some(number))
    }
}

/// Length of text as JavaScript counts it.
pub(crate) fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{MapWriter, put_number, put_text, whole};
    use bytes::BytesMut;

    fn with(number: f64) -> Vec<u8> {
        let mut buffer = BytesMut::new();
        let mut map = MapWriter::begin(&mut buffer);
        put_number(map.name("n"), number);
        put_text(map.name("t"), "5");
        map.end();
        buffer.to_vec()
    }

    fn fields(bytes: &[u8]) -> Fields<'_> {
        match whole(bytes).unwrap().raw.item() {
            Item::Map(map) => Fields::of(map),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_are_judged_in_the_words_of_the_original() {
        let judge =
            |number: f64| fields(&with(number)).number("n", Range::whole(-5, 10)).map_err(|e| e.to_string());
        assert_eq!(judge(10.0), Ok(Some(10)));
        assert_eq!(judge(-5.0), Ok(Some(-5)));
        assert_eq!(judge(11.0), Err("n must be at most 10".to_owned()));
        assert_eq!(judge(-6.0), Err("n must be at least -5".to_owned()));
        assert_eq!(judge(1.5), Err("n must be an integer".to_owned()));
        assert_eq!(judge(f64::NAN), Err("n must be a finite number".to_owned()));
        let bytes = with(0.0);
        let text = fields(&bytes).number("t", Range::upto(10)).map_err(|e| e.to_string());
        assert_eq!(text, Err("t must be a number".to_owned()));
        assert_eq!(fields(&bytes).number("absent", Range::upto(10)), Ok(None));
        // whole numbers may come as floats
        let float = b"\x81\xA1n\xCB\x40\x24\0\0\0\0\0\0";
        assert_eq!(fields(float).number("n", Range::whole(0, 10)), Ok(Some(10)));
    }
}
