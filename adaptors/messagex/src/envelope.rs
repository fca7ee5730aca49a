//! The envelope of a command: version, type, request id, command, payload, checked in that order. Never looks into the payload.
//!
//! ```text
//! {"version":1,"type":"COMMAND","command":"...","requestId":"...","payload":{...}}
//! ```

use std::borrow::Cow;

use crate::commands::{self, Command};
use crate::errors::{Code, Failure, shortened};
use crate::json::{self, Shape};
use crate::limits::REQUEST_ID_BYTES_MAX;

/// Protocol version of this page.
const VERSION: i64 = 1;

/// A command with a valid envelope.
#[derive(Debug)]
pub(crate) struct Envelope<'a> {
    /// Non-empty, at most 255 bytes.
    pub(crate) request_id: Cow<'a, str>,
    /// An entry of the command table.
    pub(crate) command: &'static Command,
    /// A JSON object.
    pub(crate) payload: &'a str,
}

/// Why a payload is no command, with the request id when it could be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal<'a> {
    pub(crate) request_id: Option<Cow<'a, str>>,
    pub(crate) failure: Failure,
}

/// Reads the envelope of a packet's payload.
///
/// # Errors
/// The first rule it breaks, in the order of the protocol page.
pub(crate) fn parse(payload: &[u8]) -> Result<Envelope<'_>, Refusal<'_>> {
    let refuse = |code, message: String| Refusal { request_id: None, failure: Failure::new(code, message) };
    let text = std::str::from_utf8(payload).map_err(|error| {
        refuse(Code::InvalidJson, format!("Payload is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    let fields = Fields::read(text).map_err(|error| {
        if json::is_valid(text) {
            refuse(Code::InvalidMessage, "Message must be a JSON object".to_owned())
        } else {
            refuse(Code::InvalidJson, format!("Payload is not JSON: {error}"))
        }
    })?;
    // Later members may be good although an earlier one is not: the id goes with the error whenever it is readable.
    let request_id =
        fields.request_id.and_then(json::text).filter(|id| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()));
    match fields.check(request_id.is_some()) {
        Ok((command, payload)) => {
            let request_id = request_id.unwrap_or_default();
            Ok(Envelope { request_id, command, payload })
        }
        Err(failure) => Err(Refusal { request_id, failure }),
    }
}

/// The members of the envelope as raw JSON; of duplicates the last counts.
#[derive(Default)]
struct Fields<'a> {
    version: Option<&'a str>,
    kind: Option<&'a str>,
    request_id: Option<&'a str>,
    command: Option<&'a str>,
    payload: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut fields = Self::default();
        json::members(text, |name, value| {
            let field = match &*name {
                "version" => &mut fields.version,
                "type" => &mut fields.kind,
                "requestId" => &mut fields.request_id,
                "command" => &mut fields.command,
                "payload" => &mut fields.payload,
                _ => return,
            };
            *field = Some(value);
        })?;
        Ok(fields)
    }

    fn check(&self, request_id_is_good: bool) -> Result<(&'static Command, &'a str), Failure> {
        let invalid = |message: &str| Failure::new(Code::InvalidMessage, message);
        if self.version.and_then(json::integer) != Some(VERSION) {
            let given = shortened(self.version.unwrap_or("none"));
            let message = format!("Version {given} is not supported, only {VERSION}");
            return Err(Failure::new(Code::UnsupportedVersion, message));
        }
        if self.kind.and_then(json::text).as_deref() != Some("COMMAND") {
            return Err(invalid("Field 'type' must be \"COMMAND\""));
        }
        if !request_id_is_good {
            return Err(invalid("Field 'requestId' must be a string of 1 to 255 bytes"));
        }
        let Some(name) = self.command.and_then(json::text) else {
            return Err(invalid("Field 'command' must be a string"));
        };
        let Some(command) = commands::find(&name) else {
            let message = format!("Command '{}' is not known", shortened(&name));
            return Err(Failure::new(Code::UnknownCommand, message));
        };
        let payload = self.payload.unwrap_or("{}");
        if json::shape(payload) != Shape::Object {
            return Err(invalid("Field 'payload' must be an object"));
        }
        Ok((command, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (Code, Option<String>) {
        let refusal = parse(text.as_bytes()).unwrap_err();
        (refusal.failure.code, refusal.request_id.map(Cow::into_owned))
    }

    #[test]
    fn rules_are_checked_in_the_order_of_the_page() {
        let id = || Some("r".to_owned());
        for (text, code, request_id) in [
            ("{", Code::InvalidJson, None),
            ("", Code::InvalidJson, None),
            ("{} {}", Code::InvalidJson, None),
            ("[1", Code::InvalidJson, None),
            ("\u{feff}{}", Code::InvalidJson, None),
            ("[1]", Code::InvalidMessage, None),
            ("\"x\"", Code::InvalidMessage, None),
            ("null", Code::InvalidMessage, None),
            ("{}", Code::UnsupportedVersion, None),
            (r#"{"version":2,"requestId":"r"}"#, Code::UnsupportedVersion, id()),
            (r#"{"version":"1","requestId":"r"}"#, Code::UnsupportedVersion, id()),
            (r#"{"version":1,"requestId":"r"}"#, Code::InvalidMessage, id()),
            (r#"{"version":1,"type":"EVENT","requestId":"r"}"#, Code::InvalidMessage, id()),
            (r#"{"version":1,"type":"COMMAND","command":"PING"}"#, Code::InvalidMessage, None),
            (r#"{"version":1,"type":"COMMAND","requestId":"","command":"PING"}"#, Code::InvalidMessage, None),
            (r#"{"version":1,"type":"COMMAND","requestId":7,"command":"PING"}"#, Code::InvalidMessage, None),
            (r#"{"version":1,"type":"COMMAND","requestId":"r"}"#, Code::InvalidMessage, id()),
            (r#"{"version":1,"type":"COMMAND","requestId":"r","command":"NO"}"#, Code::UnknownCommand, id()),
            (
                r#"{"version":1,"type":"COMMAND","requestId":"r","command":"NO","payload":[]}"#,
                Code::UnknownCommand,
                id(),
            ),
            (
                r#"{"version":1,"type":"COMMAND","requestId":"r","command":"PING","payload":[]}"#,
                Code::InvalidMessage,
                id(),
            ),
            (
                r#"{"version":1,"type":"COMMAND","requestId":"r","command":"PING","payload":null}"#,
                Code::InvalidMessage,
                id(),
            ),
        ] {
            assert_eq!(refused(text), (code, request_id), "{text}");
        }
        assert_eq!(parse(b"\"\xff\"").unwrap_err().failure.code, Code::InvalidJson);
        let long = format!(r#"{{"version":1,"type":"COMMAND","requestId":"{}"}}"#, "r".repeat(256));
        assert_eq!(refused(&long), (Code::InvalidMessage, None));
    }

    #[test]
    fn unknown_members_are_ignored_the_last_duplicate_counts_and_payload_may_be_absent() {
        let text =
            r#"{"x":{},"version":2,"version":1,"type":"COMMAND","requestId":"\u0072","command":"PING"}"#;
        let envelope = parse(text.as_bytes()).unwrap();
        assert_eq!((&*envelope.request_id, envelope.command.name, envelope.payload), ("r", "PING", "{}"));
    }
}
