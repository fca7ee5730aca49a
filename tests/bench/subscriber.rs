//! One subscriber over Server-Sent Events or WebSocket. Never answers: runs are shorter than any heartbeat's patience.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::load::{Body, Finder};
use crate::publisher::Progress;

/// What one subscriber reads at once, in bytes.
const READ_BYTES: usize = 8 * 1024;

/// How a server is asked for events, and what it says when the subscriber can miss nothing.
#[derive(Debug, Clone)]
pub(crate) struct Hello {
    pub(crate) request: String,
    /// First text that the server must send; then `then` is sent.
    pub(crate) first: &'static str,
    pub(crate) then: Vec<u8>,
    /// Text after which nothing is missed.
    pub(crate) ready: &'static str,
}

impl Hello {
    /// `GET path`, with more header lines.
    pub(crate) fn get(path: &str, headers: &str) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n{headers}\r\n");
        Self { request, first: "\r\n\r\n", then: Vec::new(), ready: "\r\n\r\n" }
    }

    /// Connects and sends the request.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<TcpStream> {
        let mut socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        socket.write_all(self.request.as_bytes()).await?;
        Ok(socket)
    }

    /// Goes on until nothing can be missed.
    pub(crate) async fn subscribe(&self, socket: &mut TcpStream) -> io::Result<()> {
        let mut text = Vec::new();
        wait_for(socket, &mut text, self.first).await?;
        if !text.starts_with(b"HTTP/1.1 200") && !text.starts_with(b"HTTP/1.1 101") {
            return Err(io::Error::other(format!("subscribe: {}", String::from_utf8_lossy(&text))));
        }
        socket.write_all(&self.then).await?;
        wait_for(socket, &mut text, self.ready).await
    }
}

async fn wait_for(socket: &mut TcpStream, text: &mut Vec<u8>, wanted: &str) -> io::Result<()> {
    while !text.windows(wanted.len()).any(|w| w == wanted.as_bytes()) {
        if socket.read_buf(text).await? == 0 {
            return Err(io::Error::other(format!("subscribe: {}", String::from_utf8_lossy(text))));
        }
    }
    Ok(())
}

/// Headers that turn a request into a WebSocket.
pub(crate) fn upgrade(subprotocol: &str) -> String {
    format!(
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{subprotocol}"
    )
}

/// A client's text message of at most 125 bytes; its mask is zero, so the text stays as it is.
pub(crate) fn text_message(text: &str) -> Vec<u8> {
    let mut message = vec![0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
    message.extend_from_slice(text.as_bytes());
    message
}

/// Reads until every body came. Gives latencies, if it is to sample them.
///
/// # Errors
/// The stream ends early, or a body is not the next one.
pub(crate) async fn read(
    mut socket: TcpStream,
    hello: Arc<Hello>,
    progress: Arc<Progress>,
    bodies: Arc<Vec<Body>>,
    sample: bool,
) -> io::Result<Vec<u32>> {
    let result = read_all(&mut socket, &hello, &progress, bodies, sample).await;
    if let Err(error) = &result {
        progress.fail(error);
    }
    result
}

async fn read_all(
    socket: &mut TcpStream,
    hello: &Hello,
    progress: &Progress,
    bodies: Arc<Vec<Body>>,
    sample: bool,
) -> io::Result<Vec<u32>> {
    hello.subscribe(socket).await?;
    progress.subscribed();
    let mut finder = Finder::new(bodies);
    let mut latencies = Vec::new();
    let mut buffer = [0; READ_BYTES];
    while !finder.done() {
        let n = socket.read(&mut buffer).await?;
        if n == 0 {
            return Err(io::Error::other(format!("the stream ended after {} events", finder.next)));
        }
        let before = finder.next;
        finder.take(&buffer[..n], |number| {
            if sample {
                latencies.push(progress.age_us(number));
            }
        })?;
        progress.deliver(finder.next - before);
    }
    Ok(latencies)
}
