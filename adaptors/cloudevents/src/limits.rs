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

/// Events of one long poll, unless the client says how many.
pub(crate) const POLL_EVENTS_DEFAULT: u32 = 10;
/// Most events of one long poll, and ids of one request that settles them.
pub(crate) const POLL_EVENTS_MAX: u32 = 1000;
/// Longest wait of a long poll or for a reply.
pub(crate) const POLL_WAIT_MAX: Duration = Duration::from_secs(300);
/// Wait for a reply, unless the client says how long.
pub(crate) const CALL_WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Events of one page of history, unless the client says how many.
pub(crate) const HISTORY_EVENTS_DEFAULT: u32 = 100;
/// Most events of one page of history.
pub(crate) const HISTORY_EVENTS_MAX: u32 = 1000;
/// Longest body that settles deliveries, in bytes.
pub(crate) const ACKS_BYTES_MAX: usize = 256 * 1024;

/// Longest URL of a web hook's receiver, in bytes.
pub(crate) const HOOK_URL_BYTES_MAX: usize = 2048;
/// Longest JSON of a web-hook subscription, in bytes.
pub(crate) const HOOK_BYTES_MAX: usize = 64 * 1024;
/// Headers that a subscription may add, and bytes of one value.
pub(crate) const HOOK_HEADERS_MAX: usize = 32;
/// See `HOOK_HEADERS_MAX`.
pub(crate) const HOOK_HEADER_BYTES_MAX: usize = 4096;
/// Event types that a subscription may list.
pub(crate) const HOOK_TYPES_MAX: usize = 50;
/// Requests of one subscription under way at once.
pub(crate) const HOOK_INFLIGHT_MAX: u32 = 16;
/// The same, when a subscription does not say.
pub(crate) const HOOK_INFLIGHT_DEFAULT: u32 = 4;
/// Events of one batch.
pub(crate) const HOOK_BATCH_MAX: u32 = 1000;
/// Bytes of one batch, but for a single event.
pub(crate) const HOOK_BATCH_BYTES: usize = 1024 * 1024;
/// Longest time that a batch waits to be full.
pub(crate) const HOOK_BATCH_WAIT_MAX: Duration = Duration::from_secs(60);
/// Attempts of one event.
pub(crate) const HOOK_ATTEMPTS_MAX: u32 = 100;
/// Longest wait of a retry schedule.
pub(crate) const HOOK_WAIT_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Longest time that a receiver may ask to be left alone.
pub(crate) const HOOK_RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Failures in a row behind which a receiver is left alone.
pub(crate) const HOOK_BREAK_AFTER: u32 = 5;
/// For how long, at first; it doubles.
pub(crate) const HOOK_BREAK_MIN: Duration = Duration::from_secs(5);
/// For how long at most.
pub(crate) const HOOK_BREAK_MAX: Duration = Duration::from_secs(300);
/// Time for a receiver to consent.
pub(crate) const HOOK_HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Bytes of an answer's body that are read and forgotten, so that its connection can be used again.
pub(crate) const HOOK_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest time for that.
pub(crate) const HOOK_ANSWER_TIME: Duration = Duration::from_secs(1);
/// Bytes of an answer's head.
pub(crate) const HOOK_HEAD_BYTES_MAX: usize = 64 * 1024;
/// A connection that was not used for so long is not used again.
pub(crate) const HOOK_IDLE: Duration = Duration::from_secs(15);
/// Addresses of a name that are tried.
pub(crate) const HOOK_ADDRESSES_MAX: usize = 4;
/// Attempts of a subscription that are remembered.
pub(crate) const HOOK_HISTORY_MAX: usize = 100;
/// A secret that was replaced signs so long beside the new one.
pub(crate) const HOOK_ROTATION: Duration = Duration::from_secs(24 * 3600);
/// Changes of subscriptions that wait to be written.
pub(crate) const HOOK_CHANGES_MAX: usize = 256;
/// Longest wait for a change to be written.
pub(crate) const HOOK_CHANGE_TIME: Duration = Duration::from_secs(15);
/// After a start: time between two looks whether all subscriptions were read.
pub(crate) const HOOK_LOOK: Duration = Duration::from_millis(5);
/// Time between two attempts to reach what the broker keeps for web hooks.
pub(crate) const HOOK_AGAIN: Duration = Duration::from_secs(1);
