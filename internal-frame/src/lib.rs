//! The internal frame: bytes in, views out. Every message in framegate is one [`Frame`], a buffer that was checked
//! once and is stored and shared as it is. The layout is drawn in `layout.rs`.
//!
//! - [`Frame`] is read, [`FrameBuilder`] writes it, [`Limits`] bound both, [`FrameError`] says what is wrong.
//! - [`StreamRequest`], [`StreamChunk`] and [`Event`] are typed views; [`WireCodec`] turns them into a peer's bytes.
//! - [`Private`], [`escape_bytes`] and [`unescape_bytes`] carry what only one adaptor understands; [`names`] lists
//!   the attribute names that mean something here.
//!
//! Invariants: parsing is total and allocates nothing; bytes that were parsed are never re-encoded; a length is
//! compared with its limit before anything is reserved for it.
//!
//! What upstream does and this crate does not: bytes after a frame, unknown message types and text that is not
//! UTF-8 are errors here. `meta` is text, its JSON is left to the adaptors. Views drop attributes they have no
//! field for (stream views) and private attributes that are not the first (event view); the frame keeps them.

mod attrs;
mod builder;
mod chunk;
mod codec;
mod error;
mod escape;
mod event;
mod extensions;
mod frame;
mod fuzz;
mod head;
mod kind;
mod layout;
mod limits;
pub mod names;
mod parse;
mod plan;
mod private;
mod request;
mod stream;
mod strip;
mod unique;

pub use attrs::Attrs;
pub use builder::FrameBuilder;
pub use error::FrameError;
pub use frame::Frame;
pub use head::FrameHead;
pub use kind::{Flags, FrameKind};
pub use limits::{ATTRIBUTES_CEILING, Limits, NameRule};

pub use chunk::StreamChunk;
pub use event::Event;
pub use extensions::Extensions;
pub use request::StreamRequest;

pub use codec::{FrameCodec, WireCodec};
pub use escape::{escape_bytes, unescape_bytes, unescape_into};
pub use names::is_reserved_from_clients;
pub use private::Private;

#[doc(hidden)]
pub use fuzz::fuzz_parse;
