//! The header of a package: command, status, sequence and properties, as JSON (reference `eventmesh.md` 3.2).
//!
//! ```text
//! {"cmd":..,"code":..,"desc":..,"seq":..,"properties":{..},"command":..}     as the Java client and server write it
//! ```
//! Unknown members are passed over; `command` repeats `cmd` and is not read.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use serde::Deserialize;

use crate::command::Command;
use crate::text::put_json;

/// Status of a reply that worked, and the words that go with it.
pub(crate) const SUCCESS: (i64, &str) = (0, "success");
/// Status of a reply that did not.
pub(crate) const FAIL: i64 = 1;

/// A header that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    pub(crate) command: Command,
    /// 0 in requests.
    pub(crate) code: i64,
    /// Correlates an answer; empty when the client gave none.
    pub(crate) seq: Cow<'a, str>,
    /// Property `protocoltype`.
    pub(crate) protocol: Option<Cow<'a, str>>,
}

/// A header that cannot be acted on: the connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderError {
    #[error("the package header is no JSON object with a command: {0}")]
    Json(String),
    #[error("unknown command {0}")]
    Command(String),
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    cmd: &'a serde_json::value::RawValue,
    #[serde(default)]
    code: Option<i64>,
    #[serde(default, borrow)]
    seq: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    properties: Option<Properties<'a>>,
}

#[derive(Deserialize)]
struct Properties<'a> {
    #[serde(default, borrow)]
    protocoltype: Option<Cow<'a, str>>,
}

impl<'a> Header<'a> {
    /// Reads a header.
    ///
    /// # Errors
    /// It is no JSON object, or its command is unknown.
    pub(crate) fn parse(json: &'a [u8]) -> Result<Self, HeaderError> {
        let wire: Wire<'a> =
            serde_json::from_slice(json).map_err(|error| HeaderError::Json(error.to_string()))?;
        let command = wire.cmd.get();
        let known = match serde_json::from_str::<u64>(command) {
            Ok(number) => Command::numbered(number),
            Err(_) => {
                serde_json::from_str::<Cow<'_, str>>(command).ok().and_then(|name| Command::named(&name))
            }
        };
        Ok(Self {
            command: known.ok_or_else(|| HeaderError::Command(command.chars().take(80).collect()))?,
            code: wire.code.unwrap_or(0),
            seq: wire.seq.unwrap_or_default(),
            protocol: wire.properties.and_then(|properties| properties.protocoltype),
        })
    }
}

/// Writes the header of an answer: the request's sequence, a status and its words.
pub(crate) fn put_answer(buffer: &mut BytesMut, command: Command, (code, words): (i64, &str), seq: &str) {
    put_start(buffer, command, code);
    buffer.put_slice(b",\"desc\":");
    put_json(buffer, words);
    put_end(buffer, command, seq, None);
}

/// Writes the header of a message for the client. `protocol` says how its body is to be read.
pub(crate) fn put_push(buffer: &mut BytesMut, command: Command, seq: &str, protocol: &str) {
    put_start(buffer, command, SUCCESS.0);
    put_end(buffer, command, seq, Some(protocol));
}

fn put_start(buffer: &mut BytesMut, command: Command, code: i64) {
    buffer.put_slice(b"{\"cmd\":\"");
    buffer.put_slice(command.as_str().as_bytes());
    buffer.put_slice(b"\",\"code\":");
    buffer.put_slice(if code == 0 { b"0" } else { b"1" });
}

fn put_end(buffer: &mut BytesMut, command: Command, seq: &str, protocol: Option<&str>) {
    // A package without a sequence makes the Java client drop the connection.
    buffer.put_slice(b",\"seq\":");
    put_json(buffer, seq);
    buffer.put_slice(b",\"properties\":{");
    if let Some(protocol) = protocol {
        buffer.put_slice(b"\"protocoltype\":");
        put_json(buffer, protocol);
    }
    buffer.put_slice(b"},\"command\":\"");
    buffer.put_slice(command.as_str().as_bytes());
    buffer.put_slice(b"\"}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_read_by_name_and_by_number_and_unknown_members_are_passed_over() {
        for cmd in ["\"LISTEN_REQUEST\"", "12"] {
            let json =
                format!("{{\"x\":[1],\"cmd\":{cmd},\"seq\":\"7\",\"properties\":{{\"a\":1}},\"command\":3}}");
            let header = Header::parse(json.as_bytes()).unwrap();
            assert_eq!((header.command, header.code, &*header.seq), (Command::ListenRequest, 0, "7"));
        }
        assert!(matches!(Header::parse(b"oops"), Err(HeaderError::Json(_))));
        assert_eq!(
            Header::parse(br#"{"cmd":"NO_SUCH_CMD"}"#),
            Err(HeaderError::Command("\"NO_SUCH_CMD\"".to_owned()))
        );
        assert!(matches!(Header::parse(br#"{"cmd":99}"#), Err(HeaderError::Command(_))));
    }

    #[test]
    fn answers_and_pushes_are_written_as_the_java_server_writes_them() {
        let mut buffer = BytesMut::new();
        put_answer(&mut buffer, Command::HelloResponse, SUCCESS, "1000000001");
        let expected = r#"{"cmd":"HELLO_RESPONSE","code":0,"desc":"success","seq":"1000000001","properties":{},"command":"HELLO_RESPONSE"}"#;
        assert_eq!(&buffer[..], expected.as_bytes());
        buffer.clear();
        put_push(&mut buffer, Command::RequestToClient, "3002", "eventmeshmessage");
        let expected = r#"{"cmd":"REQUEST_TO_CLIENT","code":0,"seq":"3002","properties":{"protocoltype":"eventmeshmessage"},"command":"REQUEST_TO_CLIENT"}"#;
        assert_eq!(&buffer[..], expected.as_bytes());
    }
}
