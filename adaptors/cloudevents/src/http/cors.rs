//! Cross-origin rules: which pages may call, and the headers that tell browsers. Never reflects an origin that is not
//! on the list, and never allows credentials to everybody.

use axum::http::{HeaderMap, HeaderValue, header};

use super::problem::Problem;

/// Headers that scripts may read.
const EXPOSED: &str = "x-framegate-resume, retry-after, location, www-authenticate";
/// Request headers that are always allowed.
const ALLOWED: &str = "authorization, content-type, last-event-id, cache-control, idempotency-key, prefer";
/// How long a preflight answer may be kept, in seconds.
const MAX_AGE_S: &str = "7200";
/// `ce-` headers that one preflight answer lists at most.
const LISTED_MAX: usize = 64;

/// What a request's origin may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Named on the list: also with credentials.
    Named,
    /// Everybody is on the list.
    Anybody,
    /// Comes from this very server, or not from a page at all.
    Same,
    /// A page that is not on the list.
    Refused,
}

/// Looks an origin up. `host` is the request's `Host` or authority, if known.
pub(crate) fn grant(allowed: &[String], origin: Option<&str>, host: Option<&str>) -> Grant {
    let Some(origin) = origin else { return Grant::Same };
    if allowed.iter().any(|name| name != "*" && name.eq_ignore_ascii_case(origin)) {
        return Grant::Named;
    }
    if allowed.iter().any(|name| name == "*") {
        return Grant::Anybody;
    }
    let own = origin.split_once("://").map(|(_, own)| own);
    if own.is_some() && own == host { Grant::Same } else { Grant::Refused }
}

/// The grant of a request.
pub(crate) fn grant_of(allowed: &[String], headers: &HeaderMap) -> Grant {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let origin = headers.contains_key(header::ORIGIN).then(|| text(header::ORIGIN).unwrap_or("?"));
    grant(allowed, origin, text(header::HOST))
}

/// Refuses pages that are not on the list: browsers send simple requests without asking first.
///
/// # Errors
/// 403.
pub(crate) fn check(allowed: &[String], headers: &HeaderMap) -> Result<(), Problem> {
    match grant_of(allowed, headers) {
        Grant::Refused => Err(Problem::new(403, "origin_refused", "pages of this origin may not call")),
        _ => Ok(()),
    }
}

/// Adds what a browser must see on every answer.
pub(crate) fn decorate(allowed: &[String], request: &HeaderMap, answer: &mut HeaderMap) {
    let Some(origin) = request.get(header::ORIGIN) else { return };
    match grant_of(allowed, request) {
        Grant::Named => {
            answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            answer.append(header::VARY, HeaderValue::from_static("Origin"));
        }
        Grant::Anybody => {
            answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            if allowed.len() > 1 {
                answer.append(header::VARY, HeaderValue::from_static("Origin"));
            }
        }
        Grant::Same => return,
        Grant::Refused => {
            answer.append(header::VARY, HeaderValue::from_static("Origin"));
            return;
        }
    }
    answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
}

/// Whether a request asks what a page may do.
pub(crate) fn is_preflight(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Adds the answer to a preflight, beside what `decorate` adds.
pub(crate) fn preflight(methods: &'static str, request: &HeaderMap, answer: &mut HeaderMap) {
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE_S));
    let mut listed = ALLOWED.to_owned();
    let asked =
        request.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|v| v.to_str().ok());
    for name in asked.flat_map(|names| names.split(',')).map(str::trim).take(LISTED_MAX) {
        let lower = name.to_ascii_lowercase();
        let attribute = lower.strip_prefix("ce-").unwrap_or_default();
        if !attribute.is_empty() && attribute.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            listed.push_str(", ");
            listed.push_str(&lower);
        }
    }
    if let Ok(value) = HeaderValue::from_str(&listed) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn list(origins: &[&str]) -> Vec<String> {
        origins.iter().map(|origin| (*origin).to_owned()).collect()
    }

    #[test]
    fn only_named_origins_get_credentials() {
        let request = map(&[("origin", "https://a.example")]);
        let mut answer = HeaderMap::new();
        decorate(&list(&["https://a.example"]), &request, &mut answer);
        assert_eq!(answer["access-control-allow-origin"], "https://a.example");
        assert_eq!(answer["access-control-allow-credentials"], "true");
        assert_eq!(answer["vary"], "Origin");

        let mut answer = HeaderMap::new();
        decorate(&list(&["*"]), &request, &mut answer);
        assert_eq!(answer["access-control-allow-origin"], "*");
        assert!(!answer.contains_key("access-control-allow-credentials"));
        assert!(answer["access-control-expose-headers"].to_str().unwrap().contains("x-framegate-resume"));
    }

    #[test]
    fn other_pages_are_refused_and_this_server_is_not() {
        let allowed = list(&["https://a.example"]);
        let other = map(&[("origin", "https://evil.example"), ("host", "a.example")]);
        assert_eq!(check(&allowed, &other).unwrap_err().status, 403);
        let mut answer = HeaderMap::new();
        decorate(&allowed, &other, &mut answer);
        assert!(!answer.contains_key("access-control-allow-origin"));
        let own = map(&[("origin", "http://127.0.0.1:8080"), ("host", "127.0.0.1:8080")]);
        assert_eq!(check(&allowed, &own), Ok(()));
        assert_eq!(check(&allowed, &HeaderMap::new()), Ok(()));
        assert_eq!(grant(&allowed, Some("null"), Some("null")), Grant::Refused);
    }

    #[test]
    fn preflight_lists_each_attribute_header_asked_for() {
        let request = map(&[
            ("origin", "https://a.example"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type,Ce-Id, ce-myext,x-other,ce-,ce-a b"),
        ]);
        assert!(is_preflight(&request));
        let mut answer = HeaderMap::new();
        preflight("GET, POST, OPTIONS", &request, &mut answer);
        let listed = answer["access-control-allow-headers"].to_str().unwrap();
        assert!(listed.contains("authorization") && listed.ends_with("prefer, ce-id, ce-myext"), "{listed}");
        assert_eq!(answer["access-control-max-age"], "7200");
    }
}
