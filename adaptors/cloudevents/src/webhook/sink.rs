//! Where a web hook is sent to: an absolute URL, checked as text. Whether its address may be connected to is the guard's.

use std::fmt;
use std::net::IpAddr;

use axum::http::Uri;

use crate::limits::HOOK_URL_BYTES_MAX;

/// A receiver's URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sink {
    text: String,
    /// TLS is spoken.
    pub(crate) secure: bool,
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Value of the header `Host`.
    pub(crate) authority: String,
    /// Path and query, as they are asked for.
    pub(crate) path: String,
}

impl Sink {
    /// Reads a URL. `plain`: whether `http` is allowed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str, plain: bool) -> Result<Self, &'static str> {
        if text.len() > HOOK_URL_BYTES_MAX {
            return Err("is longer than 2048 bytes");
        }
        if text.contains('#') {
            return Err("has a fragment");
        }
        let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if plain => false,
            Some("http") => return Err("is not https, and webhooks.plain_http is not set"),
            Some(_) => return Err("is neither https nor http"),
            None => return Err("is not an absolute URL"),
        };
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("has credentials in it; give them as sinkcredential");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err("has no host");
        }
        let port = match authority.port_u16() {
            Some(0) => return Err("has the port 0"),
            Some(port) => port,
            // a colon without a number, or a number beyond 65535
            None if authority.as_str().len() != authority.host().len() => return Err("has no usable port"),
            None if secure => 443,
            None => 80,
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        Ok(Self { text: text.to_owned(), secure, host, port, authority: authority.as_str().to_owned(), path })
    }

    /// The address, when the host is one and no name.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let sink = Sink::parse("https://Hooks.Example:8443/in/1?k=v", false).unwrap();
        assert_eq!((sink.secure, sink.host.as_str(), sink.port), (true, "hooks.example", 8443));
        assert_eq!((sink.authority.as_str(), sink.path.as_str()), ("Hooks.Example:8443", "/in/1?k=v"));
        let sink = Sink::parse("http://[::1]", true).unwrap();
        assert_eq!((sink.port, sink.path.as_str(), sink.authority.as_str()), (80, "/", "[::1]"));
        assert_eq!(sink.address(), Some("::1".parse().unwrap()));
        let sink = Sink::parse("https://a.example?x=1", false).unwrap();
        assert_eq!((sink.port, sink.path.as_str(), sink.address()), (443, "/?x=1", None));
    }

    #[test]
    fn what_cannot_be_a_sink_is_refused_with_the_reason() {
        for (url, word) in [
            ("http://a.example/", "plain_http"),
            ("ftp://a.example/", "neither"),
            ("/path", "absolute"),
            ("a.example", "absolute"),
            ("https://user:pw@a.example/", "credentials"),
            ("https://a.example/#x", "fragment"),
            ("https://a.example:0/", "port"),
            ("https://a.example:99999/", ""),
            ("https:///path", ""),
            ("https://b\u{fc}cher.example/", ""),
            ("https://a b/", ""),
            ("https://a.example/\r\nHost: x", ""),
            ("", ""),
        ] {
            let error = Sink::parse(url, false).unwrap_err();
            assert!(error.contains(word), "{url}: {error}");
        }
        let long = format!("https://a.example/{}", "x".repeat(HOOK_URL_BYTES_MAX));
        assert!(Sink::parse(&long, false).unwrap_err().contains("longer"));
    }
}
