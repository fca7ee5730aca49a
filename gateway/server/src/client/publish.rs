//! `framegate pub`: one CloudEvent in binary mode.

use std::io::Read as _;
use std::time::{SystemTime, UNIX_EPOCH};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{Api, print_line, segment};
use crate::cli::PubArgs;
use crate::exit::{Ending, Exit};

const DEFAULT_TYPE: &str = "framegate.cli";
const DEFAULT_SOURCE: &str = "/framegate/cli";
/// Characters that a CloudEvents header value escapes.
const HEADER: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Publishes and prints the broker's answer.
///
/// # Errors
/// An ending with its message.
pub(crate) fn publish(args: &PubArgs) -> Result<Exit, Ending> {
    let data = match args.data.as_deref() {
        None => None,
        Some("-") => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|e| Ending::failed(format!("standard input cannot be read: {e}")))?;
            Some(bytes)
        }
        Some(text) => Some(text.as_bytes().to_vec()),
    };
    let api = Api::new(&args.target);
    let header = |text: &str| utf8_percent_encode(text, HEADER).to_string();
    let id = args.id.clone().unwrap_or_else(new_id);
    let mut request = api
        .with_token(api.agent.post(format!("{}/v1/topics/{}/events", api.url, segment(&args.topic))))
        .header("ce-specversion", "1.0")
        .header("ce-id", header(&id))
        .header("ce-source", header(args.source.as_deref().unwrap_or(DEFAULT_SOURCE)))
        .header("ce-type", header(args.event_type.as_deref().unwrap_or(DEFAULT_TYPE)));
    let content_type = args.content_type.as_deref().or_else(|| data.as_deref().map(media_type));
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    let mut response = request.send(data.unwrap_or_default().as_slice()).map_err(|e| api.unreachable(&e))?;
    if !response.status().is_success() {
        return Err(api.refused(response));
    }
    let answer = response.body_mut().read_to_string().map_err(|e| api.unreachable(&e))?;
    if !answer.is_empty() {
        // Printed for whoever reads it; the event is published in any case.
        let _ = print_line(answer.trim_end());
    }
    Ok(Exit::Done)
}

/// Unique enough for one user's command line: time and process.
fn new_id() -> String {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("cli-{nanos:x}-{:x}", std::process::id())
}

fn media_type(data: &[u8]) -> &'static str {
    if serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok() {
        "application/json"
    } else if std::str::from_utf8(data).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_media_type_is_guessed_from_the_data() {
        assert_eq!(media_type(br#"{"a":1}"#), "application/json");
        assert_eq!(media_type(b"7"), "application/json");
        assert_eq!(media_type("höi".as_bytes()), "text/plain; charset=utf-8");
        assert_eq!(media_type(&[0xff]), "application/octet-stream");
    }
}
