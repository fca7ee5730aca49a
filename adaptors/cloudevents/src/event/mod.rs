//! The CloudEvents model: rules of attributes, the JSON format, and the way to and from the frame. No HTTP here.

mod attributes;
mod fault;
mod frame;
mod json_read;
mod json_write;
mod media;
mod model;
mod msgpack;
mod private;
mod rules;
mod time;
mod uri;

pub(crate) use attributes::{Sink, private_of, scalar_of, visit};
pub(crate) use fault::{EventError, Fault, Faults, Place};
pub(crate) use frame::{EVENT_LIMITS, to_frame};
pub(crate) use json_read::{BatchError, read_batch, read_event};
pub(crate) use json_write::{media_type, write_data, write_event};
pub(crate) use model::{Attribute, Data, Event, Scalar};
pub(crate) use private::PrivateText;
pub(crate) use rules::check_value;
pub(crate) use time::to_unix_ms;

#[cfg(test)]
mod tests;
