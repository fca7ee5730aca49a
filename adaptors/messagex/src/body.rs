//! How a body stands in JSON: as text, as a value, or as base64; told by content type and bytes, or by the message's own mark.
//! Never converts one content type to another.

use crate::json;

/// The word of the only encoding.
pub(crate) const BASE64: &str = "base64";

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A JSON string of the data's characters.
    Text,
    /// The data is JSON itself.
    Json,
    /// A JSON string of the data in base64.
    Base64,
}

impl Form {
    /// The word in the private attribute.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Base64 => BASE64,
        }
    }

    /// Reads that word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Text, Self::Json, Self::Base64].into_iter().find(|form| form.word() == word)
    }

    /// A reader who knows only the content type chooses this form.
    pub(crate) fn is_told_by(self, content_type: Option<&str>) -> bool {
        match self {
            Self::Text => !content_type.is_some_and(|given| is_json(given) || is_binary(given)),
            Self::Json => content_type.is_some_and(is_json),
            Self::Base64 => false,
        }
    }

    /// The form for data of a content type: JSON that parses, else text, else base64.
    pub(crate) fn of(content_type: Option<&str>, data: &[u8]) -> Self {
        if content_type.is_some_and(is_binary) {
            return Self::Base64;
        }
        match std::str::from_utf8(data) {
            Ok(text) if content_type.is_some_and(is_json) && json::is_valid(text) => Self::Json,
            Ok(_) => Self::Text,
            Err(_) => Self::Base64,
        }
    }

    /// The form that was marked, if the data can be written so.
    pub(crate) fn marked(self, content_type: Option<&str>, data: &[u8]) -> Self {
        let fits = match self {
            Self::Base64 => true,
            Self::Text => std::str::from_utf8(data).is_ok(),
            Self::Json => std::str::from_utf8(data).is_ok_and(json::is_valid),
        };
        if fits { self } else { Self::of(content_type, data) }
    }
}

/// The content type that a body has for other protocols when the client names none.
pub(crate) fn default_content_type(form: Form) -> Option<&'static str> {
    match form {
        Form::Text => Some("text/plain"),
        Form::Json => Some("application/json"),
        Form::Base64 => None,
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = essence(content_type);
    essence.eq_ignore_ascii_case("application/json")
        || essence.eq_ignore_ascii_case("text/json")
        || essence.len() >= 5
            && essence.is_char_boundary(essence.len() - 5)
            && essence[essence.len() - 5..].eq_ignore_ascii_case("+json")
}

/// Never text, even when its bytes happen to be UTF-8.
fn is_binary(content_type: &str) -> bool {
    let essence = essence(content_type);
    ["application/msgpack", "application/x-msgpack", "application/vnd.msgpack", "application/protobuf"]
        .iter()
        .any(|binary| essence.eq_ignore_ascii_case(binary))
}

fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_content_type_and_bytes() {
        for (content_type, data, form) in [
            (Some("application/json"), &b"{\"a\":1}"[..], Form::Json),
            (Some("Application/JSON; charset=utf-8"), b"[]", Form::Json),
            (Some("application/cloudevents+json"), b"{}", Form::Json),
            (Some("application/json"), b"{\"a\":", Form::Text),
            (Some("application/json"), b"\xff", Form::Base64),
            (Some("text/plain"), b"{}", Form::Text),
            (None, "é".as_bytes(), Form::Text),
            (None, b"", Form::Text),
            (Some("application/msgpack"), b"A", Form::Base64),
        ] {
            assert_eq!(Form::of(content_type, data), form, "{content_type:?}");
        }
    }

    #[test]
    fn a_mark_that_does_not_fit_the_data_is_not_followed() {
        assert_eq!(Form::Json.marked(None, b"{"), Form::Text);
        assert_eq!(Form::Text.marked(None, b"\xff"), Form::Base64);
        assert_eq!(Form::Base64.marked(Some("text/plain"), b"a"), Form::Base64);
    }
}
