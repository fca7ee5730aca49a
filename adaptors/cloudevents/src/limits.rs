//! Bounds of this protocol, with units. What can be configured is in `settings`.

use std::time::Duration;

/// Members of a JSON event, attributes and data together.
pub(crate) const MEMBERS_MAX: usize = framegate_frame::ATTRIBUTES_CEILING;
/// Depth of MessagePack that is turned into JSON.
pub(crate) const MSGPACK_DEPTH_MAX: usize = 64;
/// A request body without progress for that long is given up.
pub(crate) const BODY_PROGRESS: Duration = Duration::from_secs(60);
/// Items that one poll of a stream takes from its subscription.
pub(crate) const STREAM_ITEMS_MAX: usize = 64;
/// Ready events are copied into one buffer up to this size, in bytes.
pub(crate) const STREAM_COALESCE_BYTES: usize = 64 * 1024;
/// Unsettled messages of a queue stream.
pub(crate) const STREAM_PREFETCH: u32 = 64;
/// Patterns of one subscription.
pub(crate) const PATTERNS_MAX: usize = 100;
/// Leading comment of a stream, in bytes.
pub(crate) const PAD_BYTES_MAX: usize = 64 * 1024;
/// Events that a stream may ask to rewind.
pub(crate) const REWIND_MAX: u32 = 10_000;
/// Longest cursor that a client may send, in bytes.
pub(crate) const CURSOR_BYTES_MAX: usize = 512;
/// Operations in one WebSocket message.
pub(crate) const OPS_MAX: usize = 1000;
/// Answers that one WebSocket waits for.
pub(crate) const INFLIGHT_MAX: usize = 1000;
/// Subscriptions of one WebSocket.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 100;
/// Largest credit of a WebSocket subscription.
pub(crate) const CREDIT_MAX: u32 = 1000;
/// Longest subscription name and ack id, in bytes.
pub(crate) const SUB_NAME_BYTES_MAX: usize = 128;
/// Messages that are not JSON before a WebSocket is closed.
pub(crate) const INVALID_JSON_MAX: u32 = 3;
/// A delivery that is not settled by then returns to its queue.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(30);
/// Longest delay and lease that a client may ask for.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(24 * 3600);
/// A WebSocket that needs credentials and brings none by then is closed.
pub(crate) const LOGIN_WAIT: Duration = Duration::from_secs(10);
/// Bytes of a refused body that are read and forgotten.
pub(crate) const DRAIN_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest time for that.
pub(crate) const DRAIN_TIME: Duration = Duration::from_secs(2);
/// Filters of one subscription, nested ones included.
pub(crate) const FILTERS_MAX: usize = 100;
/// Depth of nested filters.
pub(crate) const FILTER_DEPTH_MAX: usize = 8;
