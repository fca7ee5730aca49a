//! Small clients of a running broker's HTTP API: `pub`, `sub`, `status`, `queues`, `topics`, `exchanges`. They know nothing that any other
//! client could not know.

mod events;
mod list;
mod publish;
mod show;
mod subscribe;

use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::Response;
use ureq::{Agent, Body, RequestBuilder};

pub(crate) use list::{exchanges, queues, topics};
pub(crate) use publish::publish;
pub(crate) use show::status;
pub(crate) use subscribe::subscribe;

use crate::cli::Target;
use crate::exit::Ending;

const DEFAULT_URL: &str = "http://127.0.0.1:8080";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Characters of a path segment that need no escape.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A broker's address and what to show it.
pub(crate) struct Api {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

impl Api {
    /// From flags, else from the environment.
    pub(crate) fn new(target: &Target) -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let url =
            target.url.clone().or_else(|| set("FRAMEGATE_URL")).unwrap_or_else(|| DEFAULT_URL.to_owned());
        let url = url.trim_end_matches('/');
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let token = target.token.clone().or_else(|| set("FRAMEGATE_TOKEN"));
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .build()
            .into();
        Self { agent, url, authorization: token.map(|token| format!("Bearer {token}")) }
    }

    fn with_token<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        }
    }

    /// What a failed exchange means to the operator.
    fn unreachable(&self, error: &ureq::Error) -> Ending {
        let refused = matches!(error, ureq::Error::ConnectionFailed)
            || matches!(error, ureq::Error::Io(io) if io.kind() == ErrorKind::ConnectionRefused);
        if refused {
            return Ending::failed(format!(
                "no broker answers at {} (connection refused); start one with `framegate`, or pass --url",
                self.url
            ));
        }
        if matches!(error, ureq::Error::TlsRequired) {
            return Ending::failed(format!(
                "{}: only http:// is supported; put the client beside the broker",
                self.url
            ));
        }
        Ending::failed(format!("{}: {error}", self.url))
    }

    /// What a refusal means to the operator: the detail of problem JSON, or the status.
    fn refused(&self, mut response: Response<Body>) -> Ending {
        let status = response.status();
        let body = response.body_mut().read_to_string().unwrap_or_default();
        let detail = serde_json::from_str::<serde_json::Value>(&body)
            .ok()
            .and_then(|problem| problem.get("detail")?.as_str().map(str::to_owned));
        let way_out = match status.as_u16() {
            401 => "; pass --token, or set FRAMEGATE_TOKEN",
            404 if detail.is_none() => "; is this the address of a framegate http listener?",
            _ => "",
        };
        let said = detail.unwrap_or_else(|| status.canonical_reason().unwrap_or("refused").to_lowercase());
        Ending::failed(format!("{} answered {}: {said}{way_out}", self.url, status.as_u16()))
    }

    /// A GET whose answer is read whole.
    fn get(&self, path: &str) -> Result<String, Ending> {
        let request = self.with_token(self.agent.get(format!("{}{path}", self.url)));
        let mut response = request.call().map_err(|e| self.unreachable(&e))?;
        if !response.status().is_success() {
            return Err(self.refused(response));
        }
        response.body_mut().read_to_string().map_err(|e| self.unreachable(&e))
    }
}

/// Escapes one segment of a path.
fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Prints one line; a reader that went away is no failure of ours.
fn print_line(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_not_there_is_said_with_the_way_out() {
        let free =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("an address");
        let api = Api::new(&Target { url: Some(free.to_string()), token: None });
        let ending = api.get("/healthz").expect_err("refused");
        assert_eq!(
            ending.message,
            format!(
                "no broker answers at http://{free} (connection refused); start one with `framegate`, or pass --url"
            )
        );
    }

    #[test]
    fn path_segments_are_escaped() {
        assert_eq!(segment("a/b c.é-_~"), "a%2Fb%20c.%C3%A9-_~");
    }
}
