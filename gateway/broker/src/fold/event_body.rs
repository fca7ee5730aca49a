//! The body of an event: a flat JSON object. Writes only.

use std::fmt::Write as _;

/// A JSON object that is being written.
#[derive(Debug)]
pub(super) struct EventBody {
    text: String,
}

impl EventBody {
    pub(super) fn new() -> Self {
        Self { text: String::from("{") }
    }

    fn name(&mut self, name: &str) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        put_text(&mut self.text, name);
        self.text.push(':');
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        put_text(&mut self.text, value);
    }

    pub(super) fn text_or_null(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(name, value),
            None => {
                self.name(name);
                self.text.push_str("null");
            }
        }
    }

    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        // writing to a string cannot fail
        let _ = write!(self.text, "{value}");
    }

    pub(super) fn flag(&mut self, name: &str, value: bool) {
        self.name(name);
        self.text.push_str(if value { "true" } else { "false" });
    }

    pub(super) fn texts<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a str>) {
        self.name(name);
        self.text.push('[');
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            put_text(&mut self.text, value);
        }
        self.text.push(']');
    }

    /// An object of texts.
    pub(super) fn pairs<'a>(&mut self, name: &str, values: impl Iterator<Item = (&'a str, &'a str)>) {
        self.name(name);
        self.text.push('{');
        for (index, (name, value)) in values.enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            put_text(&mut self.text, name);
            self.text.push(':');
            put_text(&mut self.text, value);
        }
        self.text.push('}');
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                // writing to a string cannot fail
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_peer_calls_things_the_body_is_json() {
        let mut body = EventBody::new();
        body.text("na\"me", "a\\b\u{1}\n€");
        body.text_or_null("none", None);
        body.number("n", 7);
        body.flag("f", true);
        body.texts("list", ["a", "\""].into_iter());
        body.pairs("map", [("k", "v"), ("l", "w")].into_iter());
        let expected = r#"{"na\"me":"a\\b\u0001\u000a€","none":null,"n":7,"f":true,"list":["a","\""],"map":{"k":"v","l":"w"}}"#;
        assert_eq!(body.finish(), expected);
        assert_eq!(EventBody::new().finish(), "{}");
    }
}
