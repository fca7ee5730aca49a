//! Replies as they are written: `{ok, …, reqId}`. Never decides what a command answers.

use bytes::BufMut as _;
use framegate_adaptor_api::Outbound;

use crate::codec::{MapWriter, Packet, Raw};

/// A request's `reqId` as it came, any value; nothing when it had none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ReqId(Option<Box<[u8]>>);

impl ReqId {
    pub(crate) fn of(raw: Option<Raw<'_>>) -> Self {
        Self(raw.map(|raw| raw.bytes().into()))
    }

    fn put(&self, map: &mut MapWriter<'_>) {
        if let Some(bytes) = &self.0 {
            map.name("reqId").put_slice(bytes);
        }
    }
}

/// Writes a successful reply with the fields that `payload` writes.
pub(crate) fn put_ok(req_id: &ReqId, out: &mut Outbound, payload: impl FnOnce(&mut MapWriter<'_>)) {
    let buffer = out.buffer();
    let packet = Packet::begin(buffer);
    let mut map = MapWriter::begin(buffer);
    map.bool("ok", true);
    payload(&mut map);
    req_id.put(&mut map);
    map.end();
    if packet.end(out.buffer()) {
        out.end_packet();
    } else {
        put_error(req_id, "Reply exceeds maximum frame size", out);
    }
}

/// Writes a reply without a payload.
pub(crate) fn put_done(req_id: &ReqId, out: &mut Outbound) {
    put_ok(req_id, out, |_| ());
}

/// Writes a successful reply whose payload is the map `data`.
pub(crate) fn put_data(req_id: &ReqId, out: &mut Outbound, payload: impl FnOnce(&mut MapWriter<'_>)) {
    put_ok(req_id, out, |map| {
        let mut data = map.map("data");
        payload(&mut data);
        data.end();
    });
}

/// Writes a failure.
pub(crate) fn put_error(req_id: &ReqId, error: &str, out: &mut Outbound) {
    let buffer = out.buffer();
    let packet = Packet::begin(buffer);
    let mut map = MapWriter::begin(buffer);
    map.bool("ok", false);
    map.text("error", error);
    req_id.put(&mut map);
    map.end();
    // Texts and request ids come from a packet, and are bounded far below the limit.
    let _ = packet.end(out.buffer());
    out.end_packet();
}

/// Writes an event: it has neither `ok` nor `reqId`.
pub(crate) fn put_event(out: &mut Outbound, event: impl FnOnce(&mut MapWriter<'_>)) {
    let buffer = out.buffer();
    let packet = Packet::begin(buffer);
    let mut map = MapWriter::begin(buffer);
    map.text("type", "event");
    let mut inner = map.map("event");
    event(&mut inner);
    inner.end();
    map.end();
    let _ = packet.end(out.buffer());
    out.end_packet();
}
