//! The entry points of fuzzing: any input, all invariants of the codec. They panic only if an invariant is broken, so they must
//! never be called on a peer's bytes in a running gateway.

use bytes::{BufMut as _, BytesMut};

use crate::codec::{
    Cut, Item, Token, Tokens, Whole, json_units, next_packet, put_bool, put_bytes, put_float, put_int,
    put_list_head, put_nil, put_number, put_text, whole,
};

/// Reads `input` as a connection's bytes: cuts packets and reads the values in them. How many packets it was.
///
/// # Panics
/// If an invariant is broken.
#[doc(hidden)]
#[must_use]
pub fn fuzz_packets(input: &[u8]) -> usize {
    let (mut rest, mut packets) = (input, 0);
    loop {
        match next_packet(rest) {
            Cut::Whole { payload, bytes } => {
                let (packet, behind) = rest.split_at(bytes);
                assert_eq!(next_packet(packet), Cut::Whole { payload, bytes }, "nothing behind it counts");
                drop(fuzz_value(payload));
                (rest, packets) = (behind, packets + 1);
            }
            Cut::Partial { need } => {
                assert!(need > rest.len(), "{need} bytes are there already");
                return packets;
            }
            Cut::TooLong { bytes } => {
                assert!(bytes > crate::limits::PAYLOAD_BYTES_MAX);
                return packets;
            }
        }
    }
}

/// Reads a value that takes all of `bytes`, and writes it again in the forms that clients know. None when it is none; extensions
/// are left out of what is written.
///
/// # Panics
/// If an invariant is broken.
#[doc(hidden)]
#[must_use]
pub fn fuzz_value(bytes: &[u8]) -> Option<Vec<u8>> {
    let Some(Whole { raw, rest: [] }) = whole(bytes) else { return None };
    assert_eq!(raw.bytes(), bytes);
    let _ = json_units(raw);
    walk(raw.item());
    let mut again = BytesMut::new();
    for token in Tokens::of(raw) {
        match token {
            Token::List(count) => put_list_head(&mut again, count),
            Token::Map(count) => match u16::try_from(count) {
                Ok(count) => {
                    again.put_u8(0xDE);
                    again.put_u16(count);
                }
                Err(_) => {
                    again.put_u8(0xDF);
                    again.put_u32(count as u32);
                }
            },
            Token::One(item) => match item {
                Item::Nil => put_nil(&mut again),
                Item::Bool(flag) => put_bool(&mut again, flag),
                Item::Int(number) => put_int(&mut again, number),
                Item::Big(number) => put_float(&mut again, number),
                Item::Float(number) => put_number(&mut again, number),
                Item::Text(text) => put_text(&mut again, text),
                Item::BadText(bytes) | Item::Bytes(bytes) => put_bytes(&mut again, bytes),
                Item::Absent | Item::Time(..) | Item::Ext(..) => put_nil(&mut again),
                Item::List(_) | Item::Map(_) => panic!("a container is no single value"),
            },
        }
    }
    assert!(matches!(whole(&again), Some(Whole { rest: [], .. })), "what was written can be read");
    Some(again.into())
}

/// Goes through containers by their iterators, which see as many values as were announced.
fn walk(item: Item<'_>) {
    match item {
        Item::List(list) => {
            assert_eq!(list.count(), list.map(|raw| walk(raw.item())).count());
        }
        Item::Map(map) => {
            assert_eq!(map.count(), map.map(|(_, value)| walk(value.item())).count());
        }
        _ => {}
    }
}
