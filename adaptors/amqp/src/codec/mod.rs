//! Packets of AMQP 0-9-1 as bytes: cutting them, methods, tables, properties, content. Knows no state and no broker.

mod content;
mod field;
mod frame;
mod methods;
mod properties;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use content::{BASIC, ContentHeader, put_content};
pub(crate) use field::{DecodeError, Long, Short};
pub(crate) use frame::{
    CutFrame, FRAME_MIN_BYTES, FRAME_OVERHEAD_BYTES, FrameFault, FrameType, HEARTBEAT, PROTOCOL_HEADER,
    next_frame, put_frame, put_method,
};
pub(crate) use methods::{Method, MethodId};
pub(crate) use properties::Properties;
pub(crate) use table::{Table, TableWriter, Value};
