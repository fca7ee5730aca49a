//! Reads Server-Sent Events as a browser does: fields, dispatch at a blank line, the id that persists.

use std::io::{self, BufRead, ErrorKind, Read as _};

/// Longest line in bytes.
const LINE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ServerEvent {
    /// Type; empty: a message.
    pub(crate) event: String,
    /// Data, lines joined with a line feed.
    pub(crate) data: String,
}

/// The reader's state between events.
pub(crate) struct EventReader<R> {
    input: R,
    /// What to send as `Last-Event-ID` after a reconnect.
    pub(crate) last_event_id: String,
    /// Reconnection time that the server asked for, in ms.
    pub(crate) retry_ms: Option<u64>,
}

impl<R: BufRead> EventReader<R> {
    /// Reads a body from its start.
    pub(crate) fn new(input: R, last_event_id: String) -> Self {
        Self { input, last_event_id, retry_ms: None }
    }

    /// The next event; None at the end of the stream (a half-built event is dropped).
    pub(crate) fn next(&mut self) -> io::Result<Option<ServerEvent>> {
        let mut event = ServerEvent::default();
        let mut has_data = false;
        loop {
            let mut line = Vec::new();
            if (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            if line.last() != Some(&b'\n') && line.len() as u64 == LINE_BYTES_MAX {
                return Err(io::Error::new(ErrorKind::InvalidData, "a line of the event stream is too long"));
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if has_data {
                    event.data.pop();
                    return Ok(Some(event));
                }
                event = ServerEvent::default();
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => {
                    has_data = true;
                    event.data.push_str(value);
                    event.data.push('\n');
                }
                "event" => value.clone_into(&mut event.event),
                "id" if !value.contains('\0') => value.clone_into(&mut self.last_event_id),
                "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_comments_and_blank_lines_are_read_as_browsers_do() {
        let text = ": hello\nretry: 1500\n\nid: 7\nevent: framegate\ndata: a\ndata:b\n\ndata: {\r\n\r\nid: 9\ndata: half";
        let mut reader = EventReader::new(text.as_bytes(), String::new());
        let first = reader.next().expect("read").expect("an event");
        assert_eq!(first, ServerEvent { event: "framegate".into(), data: "a\nb".into() });
        assert_eq!((reader.last_event_id.as_str(), reader.retry_ms), ("7", Some(1500)));
        let second = reader.next().expect("read").expect("an event");
        assert_eq!(second, ServerEvent { event: String::new(), data: "{".into() });
        assert_eq!(reader.next().expect("read"), None);
    }
}
