//! The entry points of fuzzing: any input, all invariants of the codec. They panic only if an invariant is broken, so they must
//! never be called on a peer's bytes in a running gateway.

use bytes::{BufMut as _, BytesMut};

use crate::codec::{
    ContentHeader, CutFrame, FRAME_OVERHEAD_BYTES, FrameType, Method, Properties, Table, TableWriter, Value,
    next_frame, put_frame,
};

/// Frames are cut under this limit, in bytes.
const FRAME_BYTES_MAX: usize = 131_072;

/// Reads `input` as a connection's bytes: cuts frames, reads what is in them, writes it again. How many frames it was.
///
/// # Panics
/// If an invariant is broken.
#[doc(hidden)]
pub fn fuzz_frames(input: &[u8]) -> usize {
    let (mut rest, mut frames) = (input, 0);
    loop {
        match next_frame(rest, FRAME_BYTES_MAX) {
            CutFrame::Whole { kind, channel, payload, bytes } => {
                assert_eq!(bytes, payload.len() + FRAME_OVERHEAD_BYTES);
                let (frame, behind) = rest.split_at(bytes);
                let cut = next_frame(frame, FRAME_BYTES_MAX);
                assert_eq!(
                    cut,
                    CutFrame::Whole { kind, channel, payload, bytes },
                    "nothing behind it counts"
                );
                let mut again = BytesMut::new();
                put_frame(&mut again, kind, channel, |out| out.put_slice(payload));
                assert_eq!(again, frame, "a frame comes back");
                match kind {
                    FrameType::Method => drop(fuzz_method(payload)),
                    FrameType::Header => drop(fuzz_content_header(payload)),
                    FrameType::Body | FrameType::Heartbeat => {}
                }
                (rest, frames) = (behind, frames + 1);
            }
            CutFrame::Partial { need } => {
                assert!(need > rest.len(), "{need} bytes are there already");
                assert!(need <= FRAME_BYTES_MAX + FRAME_OVERHEAD_BYTES, "{need} bytes are never waited for");
                return frames;
            }
            CutFrame::Bad(fault) => {
                assert!(!fault.to_string().is_empty());
                return frames;
            }
        }
    }
}

/// Reads the payload of a method frame and writes it again. Returns whether it is a method.
///
/// # Panics
/// If an invariant is broken.
#[doc(hidden)]
pub fn fuzz_method(payload: &[u8]) -> bool {
    match Method::decode(payload) {
        Ok(method) => {
            let mut again = BytesMut::new();
            method.encode(&mut again);
            // unused bits aside, which come back as zeros
            assert_eq!(again.len(), payload.len(), "{method:?}");
            assert_eq!(Method::decode(&again), Ok(method), "a method comes back");
            for end in 0..payload.len() {
                assert!(Method::decode(&payload[..end]).is_err(), "{method:?} ends at {end}");
            }
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Reads the payload of a content header. Returns whether it and its properties can be read.
///
/// # Panics
/// If an invariant is broken.
#[doc(hidden)]
pub fn fuzz_content_header(payload: &[u8]) -> bool {
    let Ok(header) = ContentHeader::parse(payload) else { return false };
    let Ok(properties) = Properties::parse(header.properties) else { return false };
    let mut again = BytesMut::new();
    ContentHeader::put(header.class, header.body_bytes, &mut again, |out| properties.put(out));
    let header = ContentHeader::parse(&again).expect("what was written can be read");
    assert_eq!(Properties::parse(header.properties), Ok(properties), "properties come back");
    if let Some(headers) = properties.headers {
        assert!(fuzz_table(headers.as_bytes()), "a table inside is a table");
    }
    true
}

/// Reads a field table without its length and copies it entry by entry. Returns whether it is a table.
///
/// # Panics
/// If an invariant is broken.
#[doc(hidden)]
pub fn fuzz_table(entries: &[u8]) -> bool {
    let Ok(table) = Table::parse(entries) else { return false };
    let mut again = BytesMut::new();
    let mut writer = TableWriter::begin(&mut again);
    for entry in table.iter() {
        writer.copy(&entry);
        let text = String::from_utf8_lossy(entry.key).into_owned();
        assert!(text.as_bytes() != entry.key || table.get(&text).is_some(), "every key is found");
        look(&entry.value);
    }
    writer.end();
    assert_eq!(again.get(4..), Some(entries), "entries cover the table");
    true
}

/// Goes through a value.
fn look(value: &Value<'_>) {
    assert!(!value.type_word().is_empty());
    drop(crate::headers::typed(value));
    match value {
        Value::Array(array) => array.iter().for_each(|value| look(&value)),
        Value::Table(table) => assert!(fuzz_table(table.as_bytes()), "a table inside is a table"),
        _ => {}
    }
}
