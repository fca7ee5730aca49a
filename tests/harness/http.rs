//! A plain HTTP/1.1 client over a socket: one request a connection, chunked and sized bodies.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body bytes.
    pub body: Vec<u8>,
}

impl Response {
    /// First header of that (lower-case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e} in {:?} {}", self.status, self.text()))
    }
}

/// An open response whose body is read by the caller.
pub struct Stream {
    /// Status code.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
    chunked: bool,
    left: usize,
}

/// Sends a request and gives the answer once its head is there.
///
/// # Errors
/// When the connection fails or the answer is not HTTP.
pub fn open(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Stream> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    socket.write_all(head.as_bytes())?;
    socket.write_all(body)?;
    let mut reader = BufReader::new(socket);
    let bad = |line: &str| io::Error::other(format!("not an HTTP answer: {line:?}"));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(|| bad(&line))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let value = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let chunked = value("transfer-encoding").is_some_and(|v| v.contains("chunked"));
    let left =
        value("content-length").and_then(|v| v.parse().ok()).unwrap_or(if chunked { 0 } else { usize::MAX });
    Ok(Stream { status, headers, reader, chunked, left })
}

impl Stream {
    /// The next piece of the body; empty at its end.
    ///
    /// # Errors
    /// When the connection fails or ends inside a chunk.
    pub fn next_piece(&mut self) -> io::Result<Vec<u8>> {
        if self.chunked {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            let mut piece = vec![0; size + 2];
            self.reader.read_exact(&mut piece)?;
            piece.truncate(size);
            return Ok(piece);
        }
        let mut piece = vec![0; self.left.min(16 * 1024)];
        let n = self.reader.read(&mut piece)?;
        self.left -= n;
        piece.truncate(n);
        Ok(piece)
    }

    /// The whole body.
    ///
    /// # Errors
    /// As `next_piece`.
    pub fn finish(mut self) -> io::Result<Response> {
        let mut body = Vec::new();
        loop {
            let piece = self.next_piece()?;
            if piece.is_empty() {
                return Ok(Response { status: self.status, headers: self.headers, body });
            }
            body.extend(piece);
        }
    }
}

/// One request and its whole answer.
///
/// # Errors
/// As `open`.
pub fn try_request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    open(address, method, path, headers, body)?.finish()
}

/// One request and its whole answer.
///
/// # Panics
/// When the connection fails.
#[must_use]
pub fn request(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    try_request(address, method, path, headers, body).unwrap_or_else(|e| panic!("{method} {path}: {e}"))
}

/// Publishes one structured CloudEvent to a topic.
///
/// # Panics
/// When the connection fails.
#[must_use]
pub fn publish(address: &str, topic: &str, event: &serde_json::Value) -> Response {
    let body = event.to_string();
    let path = format!("/v1/topics/{topic}/events");
    request(address, "POST", &path, &[("Content-Type", "application/cloudevents+json")], body.as_bytes())
}
