//! The encoder of Server-Sent Events (WHATWG HTML 9.2). One event is one buffer.
//!
//! ```text
//! id: <cursor> LF
//! [event: <name> LF]
//! 1*(data: <line> LF)      the payload split on CR, LF and CRLF
//! LF
//! ```

use bytes::Bytes;
use framegate_adaptor_api::Egress;
use framegate_broker::{FeedEvent, HeaderTable};
use framegate_frame::names::TYPE;

use crate::event::write_event;
use crate::metrics::{COUNTERS, Counters};

/// Output formats of a stream: each option that changes the bytes is a format of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Events without a name, so that `onmessage` works.
    Unnamed,
    /// Events named by their CloudEvents type.
    Typed,
}

impl Format {
    /// The name under which the encoding is kept beside the event.
    fn key(self) -> &'static str {
        match self {
            Self::Unnamed => "cloudevents/sse",
            Self::Typed => "cloudevents/sse+type",
        }
    }

    /// Bytes of an event of a feed, encoded by whoever asks first. Empty: it cannot be carried and is skipped.
    pub(crate) fn encoded(self, event: &FeedEvent, headers: &HeaderTable) -> Bytes {
        event.encoded(self.key(), |event| {
            let message =
                Egress { envelope: &event.envelope, frame: &event.frame, origin: &event.origin, headers };
            Counters::add(&COUNTERS.sse_encoded, 1);
            self.encode(message, &event.cursor.to_string()).unwrap_or_default()
        })
    }

    /// Bytes of one message under an id; None: it cannot be carried.
    pub(crate) fn encode(self, message: Egress<'_>, id: &str) -> Option<Bytes> {
        let mut json = Vec::with_capacity(512 + message.frame.data().len());
        write_event(message, &mut json).ok()?;
        let name = match self {
            Self::Unnamed => None,
            Self::Typed => Some(message.frame.attr(TYPE).unwrap_or("framegate.message")),
        };
        let mut out = Vec::with_capacity(json.len() + 64);
        put_event(&mut out, id, name, &json);
        Some(out.into())
    }
}

/// Appends an event. `id` and `name` lose CR, LF and NUL, which would end their line.
pub(crate) fn put_event(out: &mut Vec<u8>, id: &str, name: Option<&str>, data: &[u8]) {
    put_field(out, "id: ", id);
    if let Some(name) = name {
        put_field(out, "event: ", name);
    }
    for line in lines(data) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// Appends a control message: an event named `framegate`.
pub(crate) fn put_control(out: &mut Vec<u8>, id: Option<&str>, body: &serde_json::Value) {
    if let Some(id) = id {
        put_field(out, "id: ", id);
    }
    put_field(out, "event: ", "framegate");
    put_field(out, "data: ", &body.to_string());
    out.push(b'\n');
}

/// Appends the start of a stream: reconnection time and a leading comment of `pad` bytes. No blank line: some clients
/// show every blank line as a message.
pub(crate) fn put_opening(out: &mut Vec<u8>, retry_ms: u64, pad: usize) {
    out.extend_from_slice(format!("retry: {retry_ms}\n").as_bytes());
    out.push(b':');
    out.resize(out.len() + pad, b' ');
    out.push(b'\n');
}

/// A comment line without a blank line.
pub(crate) const HEARTBEAT: &[u8] = b": heartbeat\n";

fn put_field(out: &mut Vec<u8>, field: &str, value: &str) {
    out.extend_from_slice(field.as_bytes());
    out.extend(value.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
    out.push(b'\n');
}

/// Lines of a payload; at least one.
fn lines(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(data);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(at) = text.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
            rest = None;
            return Some(text);
        };
        let (line, tail) = text.split_at(at);
        rest = Some(tail.strip_prefix(b"\r\n").unwrap_or(tail.get(1..).unwrap_or_default()));
        Some(line)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A dispatched event: (name, data, last event id).
    pub(crate) type Dispatched = (String, String, String);

    /// The parser of WHATWG HTML 9.2.6, over a whole stream.
    pub(crate) fn parse(stream: &str) -> Vec<Dispatched> {
        let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
        let unified = stream.replace("\r\n", "\n").replace('\r', "\n");
        let complete = unified.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let (mut data, mut name, mut id, mut dispatched) =
            (String::new(), String::new(), String::new(), Vec::new());
        for line in complete.split('\n') {
            if line.is_empty() {
                let name = std::mem::take(&mut name);
                let mut data = std::mem::take(&mut data);
                if data.is_empty() {
                    continue;
                }
                data.pop();
                let name = if name.is_empty() { "message".to_owned() } else { name };
                dispatched.push((name, data, id.clone()));
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => {
                    data.push_str(value);
                    data.push('\n');
                }
                "event" => value.clone_into(&mut name),
                "id" if !value.contains('\0') => value.clone_into(&mut id),
                _ => {}
            }
        }
        dispatched
    }

    fn one(id: &str, name: Option<&str>, data: &str) -> String {
        let mut out = Vec::new();
        put_event(&mut out, id, name, data.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn id_comes_first_and_every_kind_of_line_end_is_split() {
        assert_eq!(
            one("c", Some("t"), "a\nb\rc\r\nd"),
            "id: c\nevent: t\ndata: a\ndata: b\ndata: c\ndata: d\n\n"
        );
        assert_eq!(one("c", None, "a\r"), "id: c\ndata: a\ndata: \n\n");
        assert_eq!(one("c", None, ""), "id: c\ndata: \n\n");
    }

    #[test]
    fn fields_cannot_be_injected() {
        let events = parse(&one("1\nevent: x\r\0", Some("n\ndata: y"), "z"));
        assert_eq!(events, [("ndata: y".to_owned(), "z".to_owned(), "1event: x".to_owned())]);
    }

    #[test]
    fn opening_and_heartbeat_dispatch_nothing_and_have_no_blank_line() {
        let mut out = Vec::new();
        put_opening(&mut out, 3000, 2048);
        out.extend_from_slice(HEARTBEAT);
        assert_eq!(out.len(), "retry: 3000\n".len() + 2050 + HEARTBEAT.len());
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("\n\n"));
        assert!(parse(&text).is_empty());
    }

    proptest! {
        #[test]
        fn any_text_comes_back_with_its_line_ends_unified(
            events in proptest::collection::vec(("[ -~é€]{1,20}", "[ -~]{1,10}", "(?s).{1,200}"), 1..5),
            heartbeat in any::<bool>(),
        ) {
            let mut out = Vec::new();
            put_opening(&mut out, 3000, 0);
            for (id, name, data) in &events {
                put_event(&mut out, id, Some(name), data.as_bytes());
                if heartbeat {
                    out.extend_from_slice(HEARTBEAT);
                }
            }
            let unified = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n");

            let expected: Vec<Dispatched> =
                events.iter().map(|(id, name, data)| (name.clone(), unified(data), id.clone())).collect();
            prop_assert_eq!(parse(&String::from_utf8(out).unwrap()), expected);
        }
    }
}
