//! The OPTIONS handshake (CloudEvents HTTP web hooks 1.0.2, "Abuse protection"): what is asked, and what counts as consent. Never
//! sends anything itself.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const REQUEST_ORIGIN: HeaderName = HeaderName::from_static("webhook-request-origin");
const REQUEST_CALLBACK: HeaderName = HeaderName::from_static("webhook-request-callback");
const REQUEST_RATE: HeaderName = HeaderName::from_static("webhook-request-rate");
const ALLOWED_ORIGIN: &str = "webhook-allowed-origin";
const ALLOWED_RATE: &str = "webhook-allowed-rate";

/// The receiver wants what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consent {
    /// Requests a minute; None: any number.
    pub(crate) rate: Option<u32>,
}

/// The headers of the question.
pub(crate) fn question(origin: &str, rate: Option<u32>, callback: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |name, text: &str| {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    };
    put(REQUEST_ORIGIN, origin);
    if let Some(rate) = rate {
        put(REQUEST_RATE, &rate.to_string());
    }
    if let Some(callback) = callback {
        put(REQUEST_CALLBACK, callback);
    }
    headers
}

/// Whether an answer consents. Its status says nothing.
///
/// # Errors
/// What is missing.
pub(crate) fn consent(answer: &HeaderMap, origin: &str, rate: Option<u32>) -> Result<Consent, &'static str> {
    let allowed = answer.get(ALLOWED_ORIGIN).ok_or("the receiver did not send WebHook-Allowed-Origin")?;
    let named = allowed.as_bytes().trim_ascii();
    if named != b"*" && !named.eq_ignore_ascii_case(origin.as_bytes()) {
        return Err("the receiver's WebHook-Allowed-Origin names somebody else");
    }
    match allowed_rate(answer)? {
        Some(rate) => Ok(Consent { rate }),
        None if rate.is_some() => Err("the receiver was asked for a rate and sent no WebHook-Allowed-Rate"),
        None => Ok(Consent { rate: None }),
    }
}

/// The rate that a receiver allows: absent, any, or a number.
///
/// # Errors
/// It is none of these.
pub(crate) fn allowed_rate(answer: &HeaderMap) -> Result<Option<Option<u32>>, &'static str> {
    let Some(value) = answer.get(ALLOWED_RATE) else { return Ok(None) };
    match value.to_str().map(str::trim) {
        Ok("*") => Ok(Some(None)),
        Ok(text) => match text.parse() {
            Ok(rate) if rate > 0 => Ok(Some(Some(rate))),
            _ => Err("the receiver's WebHook-Allowed-Rate is neither * nor a positive number"),
        },
        Err(_) => Err("the receiver's WebHook-Allowed-Rate is not text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)));
        pairs.collect()
    }

    #[test]
    fn consent_is_the_origin_and_the_rate_that_was_asked_for() {
        let (origin, rate) = (ALLOWED_ORIGIN, ALLOWED_RATE);
        type Case = (&'static [(&'static str, &'static str)], Option<u32>, Option<Option<u32>>);
        let cases: [Case; 10] = [
            (&[(ALLOWED_ORIGIN, "*")], None, Some(None)),
            (&[(ALLOWED_ORIGIN, "Me.Example")], None, Some(None)),
            (&[(ALLOWED_ORIGIN, "you.example")], None, None),
            (&[], None, None),
            (&[(ALLOWED_ORIGIN, "*"), (ALLOWED_RATE, "*")], Some(9), Some(None)),
            (&[(ALLOWED_ORIGIN, "*"), (ALLOWED_RATE, "60")], Some(9), Some(Some(60))),
            (&[(ALLOWED_ORIGIN, "*"), (ALLOWED_RATE, "60")], None, Some(Some(60))),
            (&[(ALLOWED_ORIGIN, "*")], Some(9), None),
            (&[(ALLOWED_ORIGIN, "*"), (ALLOWED_RATE, "0")], Some(9), None),
            (&[(ALLOWED_RATE, "*")], Some(9), None),
        ];
        for (headers, asked, expected) in cases {
            let got = consent(&answer(headers), "me.example", asked).ok().map(|consent| consent.rate);
            assert_eq!(got, expected, "{headers:?} {asked:?} {origin} {rate}");
        }
    }

    #[test]
    fn the_question_names_us_and_only_what_is_wanted() {
        let all = question("me.example", Some(60), Some("https://me.example/cb"));
        assert_eq!(all[REQUEST_ORIGIN], "me.example");
        assert_eq!(
            (&all[REQUEST_RATE], &all[REQUEST_CALLBACK]),
            (&HeaderValue::from(60), &HeaderValue::from_static("https://me.example/cb"))
        );
        assert_eq!(question("me.example", None, None).len(), 1);
    }
}
