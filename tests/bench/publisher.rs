//! One publisher over HTTP/1.1 keep-alive. Keeps a window of events that not every subscriber has yet.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::load::Body;

/// What publisher and subscribers tell each other.
pub(crate) struct Progress {
    /// Deliveries of all subscribers.
    delivered: AtomicU64,
    /// Subscribers that can miss nothing.
    ready: AtomicU64,
    /// Why a subscriber failed: nobody waits for the others any more.
    failed: OnceLock<String>,
    changed: Notify,
    started: Instant,
    published_ns: Vec<AtomicU64>,
    subscribers: u64,
}

impl Progress {
    pub(crate) fn new(subscribers: u64, events: u64) -> Self {
        Self {
            delivered: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            failed: OnceLock::new(),
            changed: Notify::new(),
            started: Instant::now(),
            published_ns: (0..events).map(|_| AtomicU64::new(0)).collect(),
            subscribers,
        }
    }

    /// A subscriber can miss nothing from now on.
    pub(crate) fn subscribed(&self) {
        self.ready.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// A subscriber has failed.
    pub(crate) fn fail(&self, error: &io::Error) {
        // the first failure is the cause of the others
        let _ = self.failed.set(error.to_string());
        self.changed.notify_one();
    }

    /// A subscriber got so many events.
    pub(crate) fn deliver(&self, count: u64) {
        let all = self.delivered.fetch_add(count, Ordering::AcqRel) + count;
        if all / self.subscribers != (all - count) / self.subscribers {
            self.changed.notify_one();
        }
    }

    /// Microseconds since an event was published.
    pub(crate) fn age_us(&self, number: u64) -> u32 {
        let published = self.published_ns[number as usize].load(Ordering::Acquire);
        (self.now_ns().saturating_sub(published) / 1000) as u32
    }

    /// Waits until so many have subscribed.
    ///
    /// # Errors
    /// One failed.
    pub(crate) async fn ready(&self, count: u64) -> io::Result<()> {
        self.until(|| self.ready.load(Ordering::Acquire) >= count).await
    }

    async fn until(&self, reached: impl Fn() -> bool) -> io::Result<()> {
        while !reached() {
            if let Some(error) = self.failed.get() {
                return Err(io::Error::other(error.clone()));
            }
            self.changed.notified().await;
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// Publishes everything.
///
/// # Errors
/// The server refuses an event, or a subscriber failed.
pub(crate) async fn publish(
    address: &str,
    path: &str,
    progress: &Progress,
    window: u64,
    bodies: &[Body],
) -> io::Result<()> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut answer = Vec::with_capacity(4096);
    let mut request = Vec::with_capacity(1024);
    for (number, body) in bodies.iter().enumerate() {
        let everybody_has = (number as u64 + 1).saturating_sub(window) * progress.subscribers;
        progress.until(|| progress.delivered.load(Ordering::Acquire) >= everybody_has).await?;
        request.clear();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        request.extend_from_slice(head.as_bytes());
        request.extend_from_slice(body);
        progress.published_ns[number].store(progress.now_ns(), Ordering::Release);
        socket.write_all(&request).await?;
        answered(&mut socket, &mut answer).await?;
    }
    Ok(())
}

/// Reads one answer with a length; anything but 2xx is an error.
pub(crate) async fn answered(socket: &mut TcpStream, answer: &mut Vec<u8>) -> io::Result<String> {
    answer.clear();
    loop {
        if socket.read_buf(answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(answer);
        let Some((head, rest)) = text.split_once("\r\n\r\n") else { continue };
        let lower = head.to_ascii_lowercase();
        let length =
            lower.lines().find_map(|l| l.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        if rest.len() < length.unwrap_or(0) {
            continue;
        }
        if !head.starts_with("HTTP/1.1 20") {
            return Err(io::Error::other(format!("publish: {text}")));
        }
        return Ok(rest.to_owned());
    }
}
