//! `framegate sub`: follows topics or a queue over Server-Sent Events, and comes back after a lost connection where
//! it stood.

use std::io::BufReader;
use std::time::Duration;

use ureq::http::header::CONTENT_TYPE;

use super::events::{EventReader, ServerEvent};
use super::{Api, print_line};
use crate::cli::SubArgs;
use crate::exit::{Ending, Exit};

/// Type of the events that are about the stream, not part of it.
const CONTROL_EVENT: &str = "framegate";
const RETRY_MS_DEFAULT: u64 = 3000;
const RETRY_MS_MAX: u64 = 60_000;

/// How a stream ended.
enum End {
    /// As many events as asked for, or nobody reads any more, or the server says stop.
    Done,
    /// The connection is gone; why.
    Lost(String),
}

/// Prints events until it has `count` of them, or for ever.
///
/// # Errors
/// An ending with its message.
pub(crate) fn subscribe(args: &SubArgs) -> Result<Exit, Ending> {
    let api = Api::new(&args.target);
    let mut left = args.count;
    let mut last_event_id = String::new();
    let mut retry_ms = RETRY_MS_DEFAULT;
    let mut connected = false;
    loop {
        match stream(&api, args, &mut left, &mut last_event_id, &mut retry_ms, &mut connected)? {
            End::Done => return Ok(Exit::Done),
            End::Lost(why) => eprintln!("framegate: {}: {why}; again in {retry_ms} ms", api.url),
        }
        // Nobody unparks this thread: it is a pause that a signal ends together with the process.
        std::thread::park_timeout(Duration::from_millis(retry_ms));
    }
}

fn stream(
    api: &Api,
    args: &SubArgs,
    left: &mut Option<u64>,
    last_event_id: &mut String,
    retry_ms: &mut u64,
    connected: &mut bool,
) -> Result<End, Ending> {
    let mut request = api.with_token(api.agent.get(format!("{}/v1/sse", api.url)));
    request = match &args.queue {
        Some(queue) => request.query("queue", queue),
        None => request.query_pairs(args.topics.iter().map(|topic| ("topic", topic.as_str()))),
    };
    if !last_event_id.is_empty() {
        request = request.header("last-event-id", last_event_id.as_str());
    } else if let Some(from) = &args.from {
        request = request.query("lastEventId", from);
    }
    let response = match request.header("accept", "text/event-stream").call() {
        Ok(response) => response,
        Err(error) if *connected => return Ok(End::Lost(error.to_string())),
        Err(error) => return Err(api.unreachable(&error)),
    };
    let status = response.status();
    if status.as_u16() == 204 {
        return Ok(End::Done);
    }
    if status.is_server_error() && *connected {
        return Ok(End::Lost(format!("answered {}", status.as_u16())));
    }
    let is_stream =
        response.headers().get(CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"text/event-stream"));
    if status.as_u16() != 200 || !is_stream {
        return Err(api.refused(response));
    }
    *connected = true;
    let body = BufReader::new(response.into_body().into_reader());
    let mut reader = EventReader::new(body, std::mem::take(last_event_id));
    let end = read(&mut reader, left);
    *last_event_id = reader.last_event_id;
    *retry_ms = reader.retry_ms.unwrap_or(*retry_ms).clamp(1, RETRY_MS_MAX);
    end
}

fn read<R: std::io::BufRead>(reader: &mut EventReader<R>, left: &mut Option<u64>) -> Result<End, Ending> {
    loop {
        let event = match reader.next() {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(End::Lost("the stream ended".to_owned())),
            Err(error) => return Ok(End::Lost(error.to_string())),
        };
        if event.event == CONTROL_EVENT {
            notice(&event)?;
            continue;
        }
        // Line breaks of JSON stand between tokens only, so one line means the same.
        if print_line(&event.data.replace('\n', " ")).is_err() {
            return Ok(End::Done);
        }
        if let Some(left) = left {
            *left -= 1;
            if *left == 0 {
                return Ok(End::Done);
            }
        }
    }
}

/// Says on standard error what the stream says about itself.
fn notice(event: &ServerEvent) -> Result<(), Ending> {
    let value: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
    if value.get("lost").and_then(serde_json::Value::as_bool) == Some(true) {
        eprintln!("framegate: events were lost: {}", event.data);
    }
    let Some(error) = value.get("detail").or_else(|| value.get("error")) else { return Ok(()) };
    let said = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
    if value.get("retryable").and_then(serde_json::Value::as_bool) == Some(false) {
        return Err(Ending::failed(said));
    }
    eprintln!("framegate: {said}");
    Ok(())
}
