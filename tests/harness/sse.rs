//! A Server-Sent Events client by the WHATWG rules (fields, multi-line data, comments, ids).

use std::collections::VecDeque;
use std::io;

use crate::http::{self, Stream};

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Event name; `message` when none was given.
    pub name: String,
    /// Data lines joined by LF.
    pub data: String,
    /// Last event id at that time.
    pub id: String,
}

impl Event {
    /// Data as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }
}

/// An open stream.
pub struct Sse {
    /// Headers of the answer.
    pub headers: Vec<(String, String)>,
    /// Status of the answer.
    pub status: u16,
    stream: Stream,
    line: Vec<u8>,
    after_cr: bool,
    pending: VecDeque<Event>,
    data: String,
    name: String,
    id: String,
    /// Comment lines seen.
    pub comments: usize,
    /// Value of the last `retry:` field.
    pub retry: Option<u64>,
}

impl Sse {
    /// Opens `/v1/sse` with a query (without `?`) and more headers, and waits for the answer's head.
    ///
    /// # Panics
    /// When the connection fails.
    #[must_use]
    pub fn open(address: &str, query: &str, headers: &[(&str, &str)]) -> Self {
        let mut all = vec![("Accept", "text/event-stream")];
        all.extend_from_slice(headers);
        let stream =
            http::open(address, "GET", &format!("/v1/sse?{query}"), &all, b"").expect("stream opens");
        Self {
            headers: stream.headers.clone(),
            status: stream.status,
            stream,
            line: Vec::new(),
            after_cr: false,
            pending: VecDeque::new(),
            data: String::new(),
            name: String::new(),
            id: String::new(),
            comments: 0,
            retry: None,
        }
    }

    /// First header of that (lower-case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The next event of the feed; control events (`framegate`) are passed over.
    ///
    /// # Panics
    /// When the stream ends.
    pub fn next_event(&mut self) -> Event {
        loop {
            let event = self.try_next().expect("stream goes on").expect("stream goes on");
            if event.name != "framegate" {
                return event;
            }
        }
    }

    /// The next event of any kind; None at the end of the stream.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn try_next(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            let piece = self.stream.next_piece()?;
            if piece.is_empty() {
                return Ok(None);
            }
            self.feed(&piece);
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.field(&String::from_utf8(line).expect("UTF-8"));
                }
                _ => {
                    self.after_cr = false;
                    self.line.push(byte);
                }
            }
        }
    }

    fn field(&mut self, line: &str) {
        if line.is_empty() {
            if !self.data.is_empty() {
                let name = if self.name.is_empty() { "message".to_owned() } else { self.name.clone() };
                let data = self.data.strip_suffix('\n').unwrap_or(&self.data).to_owned();
                self.pending.push_back(Event { name, data, id: self.id.clone() });
            }
            self.data.clear();
            self.name.clear();
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => self.comments += 1,
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "event" => value.clone_into(&mut self.name),
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            "retry" => self.retry = value.parse().ok(),
            _ => {}
        }
    }
}
