//! Who may use the admin API, and from which page. Credentials and tags first; then, because a browser adds neither
//! when nobody needs any, the names of the page and of this server.

use std::collections::HashMap;
use std::net::IpAddr;

use axum::http::{HeaderMap, header};
use framegate_adaptor_api::{Client, HttpContext};
use framegate_broker::Name;

use crate::problem::Problem;

/// What a request wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Look: tag `administrator` or `monitoring`.
    Look,
    /// Change definitions or messages: tag `administrator`, and the broker's own permissions.
    Change,
}

/// A client that may do what the request intends, in the vhost of the query (`vhost`), else the listener's.
///
/// # Errors
/// The problem to answer.
pub(crate) async fn admit(
    context: &HttpContext,
    headers: &HeaderMap,
    query: &HashMap<String, String>,
    intent: Intent,
) -> Result<Client, Problem> {
    if context.anonymous {
        check_host(headers)?;
    }
    check_origin(headers)?;
    let mut client = context.client(headers, query.get("access_token").map(String::as_str)).await?;
    let allowed = match intent {
        Intent::Look => client.principal.has_tag("administrator") || client.principal.has_tag("monitoring"),
        Intent::Change => client.principal.has_tag("administrator"),
    };
    if !allowed {
        let needed = if intent == Intent::Look { "administrator or monitoring" } else { "administrator" };
        return Err(Problem::forbidden(format!("user '{}' needs the tag {needed}", client.principal.name())));
    }
    if let Some(vhost) = query.get("vhost") {
        client.vhost = Name::declared(vhost)?;
    }
    Ok(client)
}

/// Without credentials, a page of a foreign name that resolves to this server's address would be let in. Its requests
/// carry that name, so only names are taken that nobody else can own: addresses, `localhost`, names without dots.
fn check_host(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let host = host.to_str().unwrap_or_default();
    let name = without_port(host);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let local = name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    if address || local || (!name.is_empty() && !name.contains('.')) {
        return Ok(());
    }
    Err(Problem::forbidden(format!(
        "Host '{name}' is not served without credentials; use an address or localhost, or configure users"
    )))
}

/// A page of another origin must not act with the rights of whoever looks at it.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let of_page = origin.split_once("://").map_or("", |(_, rest)| rest);
    if !host.is_empty() && of_page.eq_ignore_ascii_case(host) {
        return Ok(());
    }
    Err(Problem::forbidden(format!("Origin '{origin}' is not this server's")))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), axum::http::HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn hosts_that_somebody_else_can_own_are_refused() {
        for host in [
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
            "localhost:1",
            "LOCALHOST",
            "app.localhost",
            "broker:8080",
        ] {
            let mut map = HeaderMap::new();
            map.insert(header::HOST, host.parse().expect("a header"));
            assert_eq!(check_host(&map), Ok(()), "{host}");
        }
        for host in ["evil.example:8080", "127.0.0.1.evil.example", "", "1.2.3.4.5"] {
            let mut map = HeaderMap::new();
            map.insert(header::HOST, host.parse().expect("a header"));
            assert!(check_host(&map).is_err(), "{host}");
        }
        assert_eq!(check_host(&HeaderMap::new()), Ok(()));
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let host = (header::HOST, "127.0.0.1:8080");
        assert_eq!(check_origin(&headers(std::slice::from_ref(&host))), Ok(()));
        assert_eq!(
            check_origin(&headers(&[host.clone(), (header::ORIGIN, "http://127.0.0.1:8080")])),
            Ok(())
        );
        for origin in ["http://evil.example", "http://127.0.0.1:9", "null", "http://127.0.0.1"] {
            assert!(check_origin(&headers(&[host.clone(), (header::ORIGIN, origin)])).is_err(), "{origin}");
        }
        assert!(check_origin(&headers(&[(header::ORIGIN, "null")])).is_err());
    }
}
