//! URI syntax, read leniently: the characters of RFC 3986 and balanced percent escapes. Characters outside ASCII
//! are taken (IRI) and reported, because public producers send them. Never resolves or normalises.

/// What a URI reference looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// RFC 3986 characters only.
    Uri,
    /// Has characters outside ASCII.
    Iri,
}

/// Checks a URI reference (RFC 3986 section 4.1), absolute or relative.
pub(crate) fn check_reference(text: &str) -> Result<Reference, &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'%' => {
                let escaped =
                    bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
                if !escaped {
                    return Err("has a percent sign without two hex digits");
                }
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => {}
            b'-' | b'.' | b'_' | b'~' | b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@' => {}
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => {}
            0x80.. => {}
            _ => return Err("has a character that a URI cannot hold"),
        }
    }
    Ok(if text.is_ascii() { Reference::Uri } else { Reference::Iri })
}

/// Checks an absolute URI: a scheme, a colon, something behind it.
pub(crate) fn check_absolute(text: &str) -> Result<Reference, &'static str> {
    let reference = check_reference(text)?;
    let (scheme, rest) = text.split_once(':').ok_or("is not an absolute URI")?;
    let mut letters = scheme.bytes();
    let named = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if !named || rest.is_empty() {
        return Err("is not an absolute URI");
    }
    Ok(reference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_the_specification_are_taken() {
        for text in
            ["/a/b", "urn:x", "1-555-123", "https://e.org/a?b=c#d", "mailto:a@b", "a%20b", "#f", "//h/p"]
        {
            assert_eq!(check_reference(text), Ok(Reference::Uri), "{text}");
        }
        assert_eq!(check_reference("/straße"), Ok(Reference::Iri));
    }

    #[test]
    fn malformed_references_are_refused() {
        for text in ["", "a b", "%", "%4", "%zz", "<x>", "a\"b", "a\\b", "{x}", "a|b", "a^b", "a`b"] {
            assert!(check_reference(text).is_err(), "{text}");
        }
    }

    #[test]
    fn absolute_means_a_scheme_and_something_behind_it() {
        for text in ["urn:x", "https://e.org", "a+b.c-1:y"] {
            assert!(check_absolute(text).is_ok(), "{text}");
        }
        for text in ["/a", "a", "1a:b", ":b", "urn:", "a/b:c"] {
            assert!(check_absolute(text).is_err(), "{text}");
        }
    }
}
