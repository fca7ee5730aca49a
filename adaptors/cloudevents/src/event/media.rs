//! Media types: what a `datacontenttype` says about how data is carried in JSON. Never looks at the data.

/// How data of a media type goes into the JSON format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaClass {
    /// `*/json` or `*/*+json`: the value itself.
    Json,
    /// A textual type in Unicode: a JSON string.
    Text,
    /// MessagePack: JSON when that loses nothing.
    MessagePack,
    /// Everything else, also text in another character set: base64.
    Binary,
}

/// Classifies a media type; parameters and case do not matter, save the character set of text.
pub(crate) fn classify(media_type: &str) -> MediaClass {
    let (essence, parameters) = split(media_type);
    let Some((kind, subtype)) = essence.split_once('/') else { return MediaClass::Binary };
    let is = |word: &str| subtype.eq_ignore_ascii_case(word);
    let ends = |suffix: &str| {
        subtype
            .len()
            .checked_sub(suffix.len())
            .and_then(|at| subtype.get(at..))
            .is_some_and(|tail| tail.eq_ignore_ascii_case(suffix))
    };
    if is("json") || ends("+json") {
        return MediaClass::Json;
    }
    if is("msgpack") || is("x-msgpack") || is("vnd.msgpack") {
        return MediaClass::MessagePack;
    }
    let textual = kind.eq_ignore_ascii_case("text")
        || is("xml")
        || ends("+xml")
        || is("x-www-form-urlencoded")
        || is("javascript")
        || is("ecmascript")
        || is("yaml")
        || is("x-yaml")
        || ends("+yaml");
    if textual && unicode(parameters) { MediaClass::Text } else { MediaClass::Binary }
}

/// Checks the form `type/subtype` with tokens of RFC 2045; parameters are not looked at.
pub(crate) fn check(media_type: &str) -> Result<(), &'static str> {
    let (essence, _) = split(media_type);
    let token = |part: &str| !part.is_empty() && part.bytes().all(is_token_byte);
    match essence.split_once('/') {
        Some((kind, subtype)) if token(kind) && token(subtype) => Ok(()),
        _ => Err("is not a media type"),
    }
}

/// Type and subtype without parameters, and the parameters.
pub(crate) fn split(media_type: &str) -> (&str, &str) {
    let (essence, parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
    (essence.trim(), parameters)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`{|}~".contains(&byte)
}

/// Whether the parameters name no character set, or one whose bytes are UTF-8.
fn unicode(parameters: &str) -> bool {
    parameters.split(';').all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            let value = value.trim().trim_matches('"');
            ["utf-8", "utf8", "us-ascii", "ascii"].iter().any(|name| value.eq_ignore_ascii_case(name))
        }
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_type_suffix_and_character_set() {
        let cases = [
            ("application/json", MediaClass::Json),
            ("TEXT/JSON; charset=utf-8", MediaClass::Json),
            ("application/vnd.x+JSON;v=1", MediaClass::Json),
            ("application/jsonlines", MediaClass::Binary),
            ("text/plain", MediaClass::Text),
            ("text/plain; charset=\"UTF-8\"", MediaClass::Text),
            ("text/plain; charset=us-ascii", MediaClass::Text),
            ("text/plain; charset=latin-1", MediaClass::Binary),
            ("application/xml", MediaClass::Text),
            ("image/svg+xml", MediaClass::Text),
            ("application/x-www-form-urlencoded", MediaClass::Text),
            ("application/msgpack", MediaClass::MessagePack),
            ("application/octet-stream", MediaClass::Binary),
            ("json", MediaClass::Binary),
            ("", MediaClass::Binary),
        ];
        for (media_type, class) in cases {
            assert_eq!(classify(media_type), class, "{media_type}");
        }
    }

    #[test]
    fn form_is_type_slash_subtype() {
        for good in ["a/b", "application/x+json; charset=utf-8", "text/plain;"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", "text", "/", "a/", "/b", "a b/c", "a/b/c", "ä/b"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
