//! The payload of a delivery, written once for events and GET responses. Never decides who gets it.
//!
//! ```text
//! {"queueName":..,"deliveryTag":..,"consumerTag":..,"messageId":..,"exchangeName":..,"routingKey":..,"body":..,"encoding":..,
//!  "properties":{..},"headers":{..},"redelivered":..,"deliveryCount":..,"timestamp":..}
//! ```
//! `consumerTag` is missing in GET, `encoding` unless the body is base64.

use bytes::{BufMut as _, BytesMut};
use framegate_adaptor_api::{Egress, Outbound};
use framegate_broker::{Delivery, HeaderTable};
use uuid::Uuid;

use crate::codec::{Packet, TooLarge};
use crate::headers::private_text;
use crate::json::{self, Object};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::outgoing::Outgoing;

/// Where a delivery goes, and what its packet ends with.
pub(crate) struct Place<'p> {
    pub(crate) queue: &'p str,
    pub(crate) tag: Uuid,
    pub(crate) consumer_tag: Option<&'p str>,
    pub(crate) headers: &'p HeaderTable,
    /// Written behind the payload.
    pub(crate) end: &'p str,
}

/// Writes a packet that `begin` starts and that goes on with the delivery's payload. `tail` is scratch space. Deaths are left
/// out if it does not fit with them.
///
/// # Errors
/// It does not fit at all; nothing of it is left.
pub(crate) fn put_delivery(
    delivery: &Delivery,
    place: &Place<'_>,
    begin: impl Fn(&mut Outbound) -> Packet,
    tail: &mut BytesMut,
    out: &mut Outbound,
) -> Result<(), TooLarge> {
    // JSON is never shorter than text or bytes, and hardly ever shorter than the JSON it came from.
    if delivery.frame.data().len() > PAYLOAD_BYTES_MAX {
        return Err(TooLarge);
    }
    let private = private_text(&delivery.frame);
    let message = Egress {
        envelope: &delivery.envelope,
        frame: &delivery.frame,
        origin: &delivery.origin,
        headers: place.headers,
    };
    let outgoing = Outgoing::read(message, &private);
    let mut attempt = |with_deaths| {
        let packet = begin(out);
        let shared = put_head(out.buffer(), delivery, place, &outgoing);
        tail.clear();
        put_tail(tail, delivery, &outgoing, with_deaths);
        tail.put_slice(place.end.as_bytes());
        packet.end_with(shared.unwrap_or_default(), tail, out)
    };
    match attempt(true) {
        Err(TooLarge) if !delivery.envelope.deaths.is_empty() => attempt(false),
        result => result,
    }
}

fn put_head(
    buffer: &mut BytesMut,
    delivery: &Delivery,
    place: &Place<'_>,
    outgoing: &Outgoing<'_>,
) -> Option<bytes::Bytes> {
    let mut object = Object::begin(buffer);
    object.text("queueName", place.queue);
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    object.text("deliveryTag", place.tag.hyphenated().encode_lower(&mut text));
    if let Some(tag) = place.consumer_tag {
        object.text("consumerTag", tag);
    }
    object.text("messageId", &outgoing.message_id());
    object.text("exchangeName", &delivery.envelope.exchange);
    object.text("routingKey", delivery.envelope.key());
    outgoing.put_body(object.name("body"))
}

/// What stands behind the body, the closing brace included.
fn put_tail(tail: &mut BytesMut, delivery: &Delivery, outgoing: &Outgoing<'_>, with_deaths: bool) {
    if let Some(encoding) = outgoing.encoding() {
        tail.put_slice(b",\"encoding\":");
        json::put_text(tail, encoding);
    }
    tail.put_slice(b",\"properties\":");
    outgoing.put_properties(tail);
    tail.put_slice(b",\"headers\":");
    outgoing.put_headers(tail, with_deaths);
    tail.put_slice(b",\"redelivered\":");
    json::put_flag(tail, delivery.redelivered);
    tail.put_slice(b",\"deliveryCount\":");
    json::put_number(tail, delivery.attempt);
    tail.put_slice(b",\"timestamp\":");
    json::put_number(tail, delivery.envelope.time_ms);
    tail.put_u8(b'}');
}
