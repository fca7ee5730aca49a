//! Rules of attribute names and values (CloudEvents 1.0.2 "Context Attributes" and "Type System"). Never looks at data.

use framegate_frame::names::{DATACONTENTTYPE, DATASCHEMA, ID, SOURCE, SPECVERSION, SUBJECT, TIME, TYPE};

use super::uri::Reference;
use super::{media, time, uri};
use crate::metrics::{COUNTERS, Counters};

/// The one version there is.
pub(crate) const VERSION: &str = "1.0";

/// Attributes that every event has, in canonical order.
pub(crate) const REQUIRED: [&str; 4] = [SPECVERSION, ID, SOURCE, TYPE];

/// Checks an attribute name: lower-case ASCII letters and digits, and not `data`. Longer than 20 characters is legal.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("has no name");
    }
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Err("is not a legal attribute name: only lower-case letters and digits are allowed");
    }
    if name == "data" {
        return Err("is not a legal attribute name");
    }
    Ok(())
}

/// Checks a value in its canonical text form.
pub(crate) fn check_value(name: &str, value: &str) -> Result<(), &'static str> {
    check_char_rules(value)?;
    let is_context =
        matches!(name, SPECVERSION | ID | SOURCE | TYPE | DATACONTENTTYPE | DATASCHEMA | SUBJECT | TIME);
    if is_context && value.is_empty() {
        return Err("is empty");
    }
    match name {
        SPECVERSION if value != VERSION => Err("is not 1.0"),
        SOURCE => uri::check_reference(value).map(count_iri),
        DATASCHEMA => uri::check_absolute(value).map(count_iri),
        DATACONTENTTYPE => media::check(value),
        TIME => time::check(value),
        _ => Ok(()),
    }
}

/// Checks the characters of a String: no control character, no noncharacter. Lone surrogates cannot be in Rust text.
pub(crate) fn check_char_rules(value: &str) -> Result<(), &'static str> {
    for character in value.chars() {
        let code = u32::from(character);
        if code < 0x20 || (0x7F..=0x9F).contains(&code) {
            return Err("has a control character");
        }
        if (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE {
            return Err("has a Unicode noncharacter");
        }
    }
    Ok(())
}

/// The canonical text of a JSON number, if it is an Integer: 32 bits, no fraction, no exponent.
pub(crate) fn integer_text(json: &str) -> Option<String> {
    json.parse::<i32>().ok().filter(|_| !json.starts_with('+')).map(|value| value.to_string())
}

fn count_iri(reference: Reference) {
    if reference == Reference::Iri {
        Counters::add(&COUNTERS.iri_values, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_letters_and_digits_of_any_length() {
        for name in ["a", "0", "comexample1", "averyveryverylongattributename", "id"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "A", "aB", "a_b", "a-b", "a.b", "ä", "data", "data_base64", "~x", "a b"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn characters_of_strings() {
        for good in ["", " ", "~", "\u{a0}", "€", "😀", "\u{fdcf}", "\u{fdf0}", "\u{fffd}"] {
            assert_eq!(check_char_rules(good), Ok(()), "{good:?}");
        }
        for bad in ["\0", "\n", "\u{1f}", "\u{7f}", "\u{9f}", "\u{fdd0}", "\u{fdef}", "\u{fffe}", "\u{1ffff}"]
        {
            assert!(check_char_rules(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn integers_have_32_bits_and_no_fraction() {
        assert_eq!(integer_text("5").as_deref(), Some("5"));
        assert_eq!(integer_text("-2147483648").as_deref(), Some("-2147483648"));
        assert_eq!(integer_text("2147483647").as_deref(), Some("2147483647"));
        for bad in ["2147483648", "-2147483649", "1.0", "1e3", "", "+1", "true"] {
            assert_eq!(integer_text(bad), None, "{bad}");
        }
    }
}
