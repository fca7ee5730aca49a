//! The private attribute `~cloudevents`: what the frame alone does not tell about an event. Written only when there is
//! something to tell.
//!
//! ```text
//! flags *( ";" type name )
//! flags  any of   j  no content type was given, data was a JSON value
//!                 b  no content type was given, data was bytes
//!                 t  data was a JSON string, though its media type is not textual
//!                 e  data was there and empty
//! type   i integer, b boolean; attributes that are not listed are text
//! ```

use super::media::{self, MediaClass};
use super::model::{Data, Event, Scalar};

/// The content of a `~cloudevents` attribute. The default is that of a frame without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PrivateText<'a>(&'a str);

impl<'a> PrivateText<'a> {
    /// What was written.
    pub(crate) fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// No content type was given, data was a JSON value.
    pub(crate) fn implied_json(self) -> bool {
        self.flag('j')
    }

    /// No content type was given, data was bytes.
    pub(crate) fn opaque(self) -> bool {
        self.flag('b')
    }

    /// Data was a JSON string, though its media type is not textual.
    pub(crate) fn text(self) -> bool {
        self.flag('t')
    }

    /// Data was there and empty.
    pub(crate) fn empty(self) -> bool {
        self.flag('e')
    }

    /// JSON type of an attribute.
    pub(crate) fn scalar(self, name: &str) -> Scalar {
        for typed in self.0.split(';').skip(1) {
            match typed.split_at_checked(1) {
                Some(("i", other)) if other == name => return Scalar::Integer,
                Some(("b", other)) if other == name => return Scalar::Boolean,
                _ => {}
            }
        }
        Scalar::Text
    }

    fn flag(self, flag: char) -> bool {
        self.0.split(';').next().is_some_and(|flags| flags.contains(flag))
    }
}

/// What is to be kept of an event beside its frame; None: nothing.
pub(crate) fn write(event: &Event) -> Option<String> {
    let mut text = String::new();
    let class = event.content_type().map(media::classify);
    match (&event.data, class) {
        (Data::Absent, _) => {}
        (Data::Json(_), None) => text.push('j'),
        (Data::Binary(_), None) => text.push('b'),
        (Data::Text(_), Some(MediaClass::Text)) => {}
        (Data::Text(_), _) => text.push('t'),
        (Data::Json(_) | Data::Binary(_), Some(_)) => {}
    }
    if !matches!(event.data, Data::Absent) && event.data.bytes().is_empty() {
        text.push('e');
    }
    for attribute in &event.attributes {
        let letter = match attribute.scalar {
            Scalar::Text => continue,
            Scalar::Integer => 'i',
            Scalar::Boolean => 'b',
        };
        text.push(';');
        text.push(letter);
        text.push_str(&attribute.name);
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_types_are_read_back() {
        let text = PrivateText::new("je;icount;bflag;ib");
        assert!(text.implied_json() && text.empty() && !text.opaque() && !text.text());
        assert_eq!(text.scalar("count"), Scalar::Integer);
        assert_eq!(text.scalar("flag"), Scalar::Boolean);
        assert_eq!(text.scalar("b"), Scalar::Integer);
        assert_eq!(text.scalar("coun"), Scalar::Text);
    }

    #[test]
    fn strange_content_means_nothing() {
        for text in ["", ";", ";;;", ";é", "é;ix", ";x"] {
            let text = PrivateText::new(text);
            assert!(!text.implied_json());
            assert_eq!(text.scalar("count"), Scalar::Text);
        }
    }
}
