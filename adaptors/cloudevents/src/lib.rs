//! CloudEvents 1.0 over HTTP, Server-Sent Events and WebSocket.
//!
//! - The adaptor `cloudevents` turns structured events into frames and back.
//! - The routes publish in three modes, and stream topics and queues as Server-Sent Events.
//! - The WebSocket speaks `framegate.v1.json` (operations) and `cloudevents.json` (the plain binding).
//!
//! - Web hooks post the events of a topic to subscribers' URLs: consent, signatures, retries, dead letters.
//! - Filters of subscriptions, the language CESQL among them, see attributes as a subscriber does.
//!
//! For later versions: groups on streams and WebSockets, request, presence and history over WebSocket, slow-consumer policies; they are answered with `not_implemented`. Other event formats than JSON are not taken.
//!
//! What does not survive a crossing (asserted in `tests/lossy.rs`):
//!
//! | what | becomes |
//! |---|---|
//! | JSON type of an extension in binary mode | text; kept from JSON to JSON |
//! | white space around the envelope's members, member order, escapes in attribute text | canonical order, compact |
//! | `data` with a content type that is not JSON, given as a JSON string | its text; the escapes are gone |
//! | `data_base64` with a JSON or textual content type | `data`, when the bytes are that |
//! | attributes that only the gateway may set (`empopck`, `emmqoffset`, `emmqpartition`, `emorigin`) | removed |
//! | names of other protocols that are no legal attribute names | lower case if that is legal and free, else dropped |
//! | values of other protocols with control characters | dropped |
//! | MessagePack that is plain JSON in other clothes | `data` with `application/json` |
//! | MessagePack with binary, extensions, keys that are not text | `data_base64` with its own type |
//! | pieces of streams | not carried |

mod adaptor;
mod event;
mod filter;
mod http;
mod limits;
mod metrics;
mod plugin;
mod settings;
mod webhook;
mod ws;

pub use adaptor::CloudEventsAdaptor;
pub use filter::{Attributes, EvalError, Expression, Failure, ParseError, Value};
