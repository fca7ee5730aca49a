//! An AMQP message to a frame and back. Pure: no clock, no session. The border: on one side properties and headers, on the other
//! attributes, envelope and headers. The table stands in `lib.rs`.

use bytes::BytesMut;
use framegate_adaptor_api::{AdaptError, Egress, FrameAdaptor, Inbound, WireMessage};
use framegate_frame::Limits;

use crate::codec::{FRAME_OVERHEAD_BYTES, Properties};
use crate::headers::ADAPTOR;
use crate::incoming::{Incoming, Refusal};
use crate::limits::FRAME_BYTES_MAX;
use crate::outgoing::{Extra, put_properties, too_large};

/// Bytes of a content header before flags and values.
const CONTENT_HEAD_BYTES: usize = 12;

/// The conversion. `WireMessage::head` is property flags and values as in a content header, or nothing for a message without
/// properties; `body` is the body.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Amqp;

impl FrameAdaptor for Amqp {
    fn name(&self) -> &'static str {
        ADAPTOR
    }

    fn to_frame(&self, message: WireMessage) -> Result<Inbound, AdaptError> {
        let raw: &[u8] = if message.head.is_empty() { &[0, 0] } else { &message.head };
        let properties = Properties::parse(raw).map_err(|e| invalid("properties", e.to_string()))?;
        let incoming = Incoming::new(properties, raw, None).map_err(refused)?;
        let mut builder = incoming.frame(message.body.len(), &Limits::GATEWAY).map_err(refused)?;
        builder.push(&message.body)?;
        Ok(Inbound {
            frame: builder.finish()?,
            persistent: incoming.persistent(),
            priority: incoming.priority(),
            ttl_ms: incoming.ttl_ms,
            delay_ms: 0,
            keys: incoming.keys,
        })
    }

    fn to_wire(&self, message: Egress<'_>) -> Result<WireMessage, AdaptError> {
        let mut head = BytesMut::new();
        put_properties(message, Extra::default(), &mut head);
        if CONTENT_HEAD_BYTES + head.len() > FRAME_BYTES_MAX as usize - FRAME_OVERHEAD_BYTES {
            return Err(AdaptError::Undeliverable { reason: too_large(head.len()).into_owned() });
        }
        Ok(WireMessage { head: head.freeze(), body: message.frame.data_bytes() })
    }
}

fn invalid(what: &str, reason: String) -> AdaptError {
    AdaptError::Invalid { what: what.to_owned(), reason }
}

fn refused(refusal: Refusal) -> AdaptError {
    match refusal {
        Refusal::Frame(error) => AdaptError::Frame(error),
        refusal => invalid("message", refusal.to_string()),
    }
}
