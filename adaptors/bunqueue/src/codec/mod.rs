//! Bytes of the wire: packets, and the MessagePack values in them. Never looks at commands.

mod item;
mod json;
mod packet;
mod write;

pub(crate) use item::{Item, List, Map, Raw, Token, Tokens, Whole, whole};
pub(crate) use json::{from_json, json_units};
pub(crate) use packet::{Cut, Packet, next_packet};
pub(crate) use write::{
    MapWriter, put_bool, put_bytes, put_float, put_int, put_list_head, put_nil, put_number, put_text,
    put_texts,
};
