//! The adaptor `cloudevents`: structured-mode JSON to and from the frame. Pure; reads no clock and no socket.
//!
//! `WireMessage::head` is a whole event in the JSON format and the body is empty. On the way in the body may instead
//! hold the data of a head that has no data member (binary mode).

use bytes::Bytes;
use framegate_adaptor_api::{AdaptError, Egress, FrameAdaptor, Inbound, WireMessage};
use framegate_broker::{HeaderValue, Keys};
use framegate_frame::Frame;
use framegate_frame::names::CONTEXT;

use crate::event::{self, Data, Event, EventError, PrivateText, Scalar};

/// Registry name; the private attribute is `~cloudevents`.
pub(crate) const NAME: &str = "cloudevents";

/// CloudEvents 1.0 in the JSON format.
#[derive(Debug, Clone, Copy, Default)]
pub struct CloudEventsAdaptor;

impl FrameAdaptor for CloudEventsAdaptor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn to_frame(&self, message: WireMessage) -> Result<Inbound, AdaptError> {
        let mut event = event::read_event(&message.head).map_err(invalid)?;
        if !message.body.is_empty() {
            if event.data != Data::Absent {
                let what = "data".to_owned();
                return Err(AdaptError::Invalid {
                    what,
                    reason: "is in the head and in the body".to_owned(),
                });
            }
            event.data = Data::Binary(message.body);
        }
        inbound(&event, None)
    }

    fn to_wire(&self, message: Egress<'_>) -> Result<WireMessage, AdaptError> {
        let mut json = Vec::with_capacity(512 + message.frame.data().len());
        event::write_event(message, &mut json)?;
        Ok(WireMessage { head: json.into(), body: Bytes::new() })
    }
}

/// What a checked event means to the broker. `now_ms` turns an `expirytime` into a time to live.
pub(crate) fn inbound(event: &Event, now_ms: Option<u64>) -> Result<Inbound, AdaptError> {
    Ok(Inbound {
        frame: event::to_frame(event, &event::EVENT_LIMITS)?,
        persistent: true,
        priority: None,
        ttl_ms: event.ttl_ms(now_ms),
        delay_ms: 0,
        keys: Keys::new(),
    })
}

fn invalid(error: EventError) -> AdaptError {
    let mut faults = error.faults.into_iter();
    let (what, reason) =
        faults.next().map(|fault| (fault.place.to_string(), fault.detail)).unwrap_or_default();
    AdaptError::Invalid { what, reason }
}

/// Reads the extensions of a frame with the JSON types that they came with.
pub(crate) fn headers(frame: &Frame, visit: &mut dyn FnMut(&str, HeaderValue<'_>)) {
    let private = frame.private().map(|(_, text)| PrivateText::new(text)).unwrap_or_default();
    for (name, value) in frame.attrs() {
        if name.starts_with('~') || CONTEXT.contains(&name) {
            continue;
        }
        let typed = match private.scalar(name) {
            Scalar::Text => None,
            Scalar::Integer => value.parse().ok().map(HeaderValue::Int),
            Scalar::Boolean => value.parse().ok().map(HeaderValue::Bool),
        };
        visit(name, typed.unwrap_or(HeaderValue::Text(value.into())));
    }
}
