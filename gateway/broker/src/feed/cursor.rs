//! The cursor: a place in the log to resume after, and its text.
//!
//! ```text
//! generation.shard:position[,shard:position...]      numbers in base 36, at most 13 digits
//! ```
//! The list is there so that more shards change no format; this version has shard 0 only, and refuses others.

use std::fmt;
use std::str::FromStr;

use framegate_storage::{Generation, Lsn};

use crate::error::BrokerError;

/// Digits of the largest number.
const DIGITS_MAX: usize = 13;

/// A place in the log to resume after. Text form: `generation.shard:position,...`, numbers in base 36.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The store it belongs to.
    pub generation: Generation,
    /// Position in shard 0.
    pub position: Lsn,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base36(f, self.generation.0)?;
        f.write_str(".0:")?;
        write_base36(f, self.position.0)
    }
}

fn write_base36(f: &mut fmt::Formatter<'_>, mut value: u64) -> fmt::Result {
    let mut digits = [0_u8; DIGITS_MAX];
    let mut at = digits.len();
    loop {
        at -= 1;
        let digit = (value % 36) as u8;
        digits[at] = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
        value /= 36;
        if value == 0 {
            break;
        }
    }
    f.write_str(std::str::from_utf8(&digits[at..]).map_err(|_| fmt::Error)?)
}

impl FromStr for Cursor {
    type Err = BrokerError;

    fn from_str(text: &str) -> Result<Self, BrokerError> {
        parse(text).map_err(|reason| BrokerError::Invalid {
            what: "cursor",
            value: text.chars().take(80).collect(),
            reason,
        })
    }
}

fn parse(text: &str) -> Result<Cursor, &'static str> {
    const NO_CURSOR: &str = "is not a cursor of this broker";
    let number = |digits: &str| {
        let fits = digits.len() <= DIGITS_MAX
            && digits.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
        u64::from_str_radix(digits, 36).ok().filter(|_| fits).ok_or(NO_CURSOR)
    };
    let (generation, list) = text.split_once('.').ok_or(NO_CURSOR)?;
    let generation = Generation(number(generation)?);
    let mut position = None;
    for part in list.split(',') {
        let (shard, at) = part.split_once(':').ok_or(NO_CURSOR)?;
        if number(shard)? != 0 {
            return Err("names a shard that this broker does not have");
        }
        if position.replace(Lsn(number(at)?)).is_some() {
            return Err("names a shard twice");
        }
    }
    Ok(Cursor { generation, position: position.ok_or(NO_CURSOR)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<(u64, u64)> {
        text.parse::<Cursor>().ok().map(|cursor| (cursor.generation.0, cursor.position.0))
    }

    #[test]
    fn text_is_short_and_comes_back() {
        let cursor = Cursor { generation: Generation(u64::MAX), position: Lsn(36) };
        assert_eq!(cursor.to_string(), "3w5e11264sgsf.0:10");
        assert_eq!(read("3w5e11264sgsf.0:10"), Some((u64::MAX, 36)));
        assert_eq!(read("a.0:0"), Some((10, 0)));
    }

    #[test]
    fn other_shards_and_other_texts_are_refused() {
        for text in [
            "",
            ".",
            "a",
            "a.",
            "a.0",
            "a.0:",
            "a.:1",
            ".0:1",
            "a.0:1,",
            "a.0:1,1:2",
            "a.1:2",
            "a.0:1,0:1",
            "a.0:+1",
            "A.0:1",
            "a.0:-1",
            "a.0: 1",
            "a.0:1 ",
            "a.0:1.0:1",
            "3w5e11264sgsg.0:1",
            "a.0:00000000000001",
            "ä.0:1",
            "a.0:1:2",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        let refused = "a.0:1,1:2".parse::<Cursor>().unwrap_err().to_string();
        assert_eq!(refused, "cursor 'a.0:1,1:2' names a shard that this broker does not have");
    }

    proptest! {
        #[test]
        fn every_cursor_survives_its_text(generation: u64, position: u64) {
            let cursor = Cursor { generation: Generation(generation), position: Lsn(position) };
            prop_assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        }

        #[test]
        fn no_text_panics_and_what_is_read_is_written_alike(text in "[0-9a-zA-Z.:,+ -]{0,30}|\\PC{0,30}") {
            if let Ok(cursor) = text.parse::<Cursor>() {
                prop_assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
            }
        }
    }
}
