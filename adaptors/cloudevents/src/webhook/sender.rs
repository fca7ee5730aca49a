//! Sends one request to a receiver: look-up, guard, connection, TLS, head of the answer, all within one time. The connection is made
//! to the very address that the guard has seen. Redirects are never followed, proxies of the environment never used.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method, Request, header};
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::guard::{Guard, Refused};
use super::sink::Sink;
use crate::limits::{
    HOOK_ADDRESSES_MAX, HOOK_ANSWER_BYTES_MAX, HOOK_ANSWER_TIME, HOOK_HEAD_BYTES_MAX, HOOK_IDLE,
};
use crate::metrics::Counters;
use crate::webhook::counters::COUNTERS;

/// Why there is no answer. The texts are shown to the subscription's owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    /// The guard let no address through.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The name has no address.
    #[error("{host} cannot be resolved")]
    Unknown {
        /// The name.
        host: String,
    },
    /// No connection.
    #[error("cannot connect: {cause}")]
    Connect {
        /// What the system says.
        cause: String,
    },
    /// No TLS, or not with that host.
    #[error("TLS failed: {cause}")]
    Tls {
        /// What was wrong.
        cause: String,
    },
    /// The connection ended, or what came is no HTTP.
    #[error("no answer: {cause}")]
    Broken {
        /// What was wrong.
        cause: String,
    },
    /// Not done in time.
    #[error("no answer within {ms} ms")]
    Timeout {
        /// The time.
        ms: u64,
    },
}

/// Connections of one receiver that can be used again.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<Vec<(Line, Instant)>>);

impl Idle {
    /// The newest that is young enough; the others are closed.
    fn take(&self) -> Option<Line> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|(line, since)| since.elapsed() < HOOK_IDLE && !line.request.is_closed());
        lines.pop().map(|(line, _)| line)
    }

    fn put(&self, line: Line) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((line, Instant::now()));
    }
}

/// An open connection. Ends with its value.
#[derive(Debug)]
struct Line {
    request: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The head of an answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    rest: (Incoming, Line),
}

impl Answer {
    /// Reads a short body and forgets it, so that the connection can be used again. Takes at most `HOOK_ANSWER_TIME`.
    pub(crate) async fn finish(self, idle: &Idle) {
        let (mut body, mut line) = self.rest;
        let mut left = HOOK_ANSWER_BYTES_MAX;
        let read = async {
            while let Some(frame) =
                std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await
            {
                let bytes = frame.ok()?.data_ref().map_or(0, Bytes::len);
                left = left.checked_sub(bytes)?;
            }
            line.request.ready().await.ok()
        };
        if let Ok(Some(())) = timeout(HOOK_ANSWER_TIME, read).await {
            idle.put(line);
        }
    }
}

/// Sends requests. One for all subscriptions.
pub(crate) struct Sender {
    guard: Guard,
    time: Duration,
    /// None: no certificate authorities are known, and no receiver can be trusted.
    tls: Option<TlsConnector>,
}

impl Sender {
    /// `time`: for one request, up to the head of its answer. Reads the system's certificate authorities.
    pub(crate) fn new(guard: Guard, time: Duration) -> Self {
        Self { guard, time, tls: connector() }
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn send(
        &self,
        sink: &Sink,
        method: Method,
        headers: &HeaderMap,
        body: Bytes,
        idle: &Idle,
    ) -> Result<Answer, SendError> {
        let ms = u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX);
        let sent = async {
            // one that was closed meanwhile says so, and nothing was sent on it
            if let Some(line) = idle.take()
                && let Some(done) = exchange(line, request(sink, &method, headers, body.clone())?).await?
            {
                return Ok(done);
            }
            let line = self.open(sink).await?;
            let closed = || SendError::Broken { cause: "the connection was closed at once".to_owned() };
            exchange(line, request(sink, &method, headers, body)?).await?.ok_or_else(closed)
        };
        timeout(self.time, sent).await.unwrap_or(Err(SendError::Timeout { ms }))
    }

    async fn open(&self, sink: &Sink) -> Result<Line, SendError> {
        let addresses = self.addresses(sink).await?;
        let share = self.time / u32::try_from(addresses.len().max(1)).unwrap_or(1);
        let mut failure = String::new();
        for address in addresses {
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // without it requests are slower and still correct
                    let _ = stream.set_nodelay(true);
                    return self.handshake(sink, stream).await;
                }
                Ok(Err(error)) => failure = error.kind().to_string(),
                Err(_) => "timed out".clone_into(&mut failure),
            }
        }
        Err(SendError::Connect { cause: failure })
    }

    /// The addresses of a host that may be connected to.
    async fn addresses(&self, sink: &Sink) -> Result<Vec<SocketAddr>, SendError> {
        let unknown = || SendError::Unknown { host: sink.host.clone() };
        let found: Vec<IpAddr> = match sink.address() {
            Some(address) => vec![address],
            None => {
                let host = (sink.host.as_str(), sink.port);
                lookup_host(host).await.map_err(|_| unknown())?.map(|address| address.ip()).collect()
            }
        };
        let allowed = allowed(&self.guard, &found, unknown())?;
        Ok(allowed.into_iter().map(|address| SocketAddr::new(address, sink.port)).collect())
    }

    async fn handshake(&self, sink: &Sink, stream: TcpStream) -> Result<Line, SendError> {
        if !sink.secure {
            return line(stream).await;
        }
        let tls = |cause: String| SendError::Tls { cause };
        let connector =
            self.tls.as_ref().ok_or_else(|| tls("no certificate authorities are known".to_owned()))?;
        let name =
            ServerName::try_from(sink.host.clone()).map_err(|_| tls("the host is no name".to_owned()))?;
        line(connector.connect(name, stream).await.map_err(|error| tls(error.to_string()))?).await
    }
}

/// Those of a host's addresses that the guard lets through.
///
/// # Errors
/// The first refusal when it lets none through; `unknown` when there are none.
fn allowed(guard: &Guard, found: &[IpAddr], unknown: SendError) -> Result<Vec<IpAddr>, SendError> {
    let mut refused = None;
    let mut allowed = Vec::new();
    for address in found {
        match guard.check(*address) {
            Ok(()) => allowed.push(*address),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    if !allowed.is_empty() {
        allowed.truncate(HOOK_ADDRESSES_MAX);
        return Ok(allowed);
    }
    match refused {
        Some(error) => {
            Counters::add(&COUNTERS.refused_addresses, 1);
            Err(error.into())
        }
        None => Err(unknown),
    }
}

async fn line<S>(stream: S) -> Result<Line, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new();
    builder.max_buf_size(HOOK_HEAD_BYTES_MAX);
    let (request, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let task = tokio::spawn(async move {
        // whoever sends the request is told
        let _ = connection.await;
    });
    Ok(Line { request, task })
}

/// None: the connection was closed before anything was sent.
async fn exchange(mut line: Line, request: Request<Full<Bytes>>) -> Result<Option<Answer>, SendError> {
    match line.request.send_request(request).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            Ok(Some(Answer { status: head.status.as_u16(), headers: head.headers, rest: (body, line) }))
        }
        Err(error) if error.is_canceled() => Ok(None),
        Err(error) => Err(broken(error)),
    }
}

fn request(
    sink: &Sink,
    method: &Method,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, SendError> {
    let wrong = |cause: &str| SendError::Broken { cause: cause.to_owned() };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method.clone();
    *request.uri_mut() = sink.path.parse().map_err(|_| wrong("the path cannot be sent"))?;
    let host =
        HeaderValue::try_from(sink.authority.as_str()).map_err(|_| wrong("the host cannot be sent"))?;
    headers.clone_into(request.headers_mut());
    request.headers_mut().insert(header::HOST, host);
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static("framegate"));
    Ok(request)
}

fn broken(error: hyper::Error) -> SendError {
    SendError::Broken { cause: error.to_string() }
}

/// TLS with the system's certificate authorities, and those that the environment names (`SSL_CERT_FILE`).
fn connector() -> Option<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        tracing::warn!("no certificate authorities are known to the system: web hooks over https will fail");
        return None;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
    Some(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_the_guard_lets_through_are_connected_to() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let unknown = || SendError::Unknown { host: "h".to_owned() };
        let choose = |guard: &Guard, found: &[&str]| allowed(guard, &parse(found), unknown());
        let guard = Guard::default();
        // a name that answers with a public and an inner address reaches the public one only
        assert_eq!(choose(&guard, &["10.0.0.1", "1.1.1.1", "::1"]), Ok(parse(&["1.1.1.1"])));
        assert_eq!(
            choose(&guard, &["169.254.169.254", "::1"]).unwrap_err().to_string(),
            "169.254.169.254 is not allowed: it is link-local"
        );
        assert_eq!(choose(&guard, &[]), Err(unknown()));
        let listed = Guard::new(vec!["127.0.0.0/8".parse().unwrap()]);
        assert_eq!(choose(&listed, &["127.0.0.1", "10.0.0.1"]), Ok(parse(&["127.0.0.1"])));
        assert_eq!(
            choose(&guard, &["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5"]).map(|a| a.len()),
            Ok(4)
        );
    }

    #[tokio::test]
    async fn a_refused_address_is_not_connected_to() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let sender = Sender { guard: Guard::default(), time: Duration::from_secs(5), tls: None };
        let sink = Sink::parse(&url, true).unwrap();
        let sent = sender.send(&sink, Method::POST, &HeaderMap::new(), Bytes::new(), &Idle::default()).await;
        assert!(matches!(sent.err(), Some(SendError::Refused(_))));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(listener.poll_accept(&mut context).is_pending(), "nobody came");
    }
}
