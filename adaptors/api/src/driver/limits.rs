//! Bounds of one connection, with units. Nothing here is per message.

use std::time::Duration;

/// The read buffer of a worker thread.
pub(super) const READ_BUFFER_BYTES: usize = 64 * 1024;
/// From this size on an unfinished message is read into its own buffer, not through the thread's.
pub(super) const OWN_BUFFER_BYTES: usize = READ_BUFFER_BYTES / 2;
/// Bytes of an unfinished message that are not charged to the budget.
pub(super) const UNCHARGED_BYTES: usize = 4 * 1024;
/// A worker thread's encode buffer above this size is not kept.
pub(super) const SCRATCH_BYTES_MAX: usize = 1024 * 1024;
/// Output that one round makes before it is written; one effect or item may pass it.
pub(super) const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Output that may wait while the socket is still read.
pub(super) const OUTPUT_WHILE_READING_BYTES: usize = 256 * 1024;
/// Passes of the broker whose effects wait behind output; beyond them the peer is not read.
pub(super) const PASSES_WAITING_MAX: usize = 16;
/// Buffers of one vectored write.
pub(super) const SLICES_MAX: usize = 64;
/// Requests that wait for the batch before them; beyond it effects are not taken.
pub(super) const REQUESTS_WAITING_MAX: usize = 1024;
/// Live and starting subscriptions of one connection.
pub(super) const SUBSCRIPTIONS_MAX: usize = 100;
/// Items that one subscription gives at a time.
pub(super) const FEED_ITEMS_MAX: usize = 128;
/// WebSocket messages that make one batch.
pub(super) const MESSAGES_MAX: usize = 64;
/// Rounds before other connections get their turn.
pub(super) const ROUNDS_MAX: usize = 32;
/// Input thrown away after our last byte, so that the peer can still read it.
pub(super) const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// A message that does not grow for so long ends its connection.
pub(super) const UNFINISHED_TIMEOUT: Duration = Duration::from_secs(60);
/// A peer that takes nothing for so long is closed.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// A peer that has ended its side gets answers for so long.
pub(super) const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests of a connection that closes are handed over within this time.
pub(super) const CLOSING_TIMEOUT: Duration = Duration::from_secs(5);
/// The peer has so long to close its side after we have closed ours.
pub(super) const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Shortest time between two ticks of a session.
pub(super) const TICK_MIN: Duration = Duration::from_millis(10);

/// WebSocket: time between two pings.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(20);
/// WebSocket: pings without pong before the connection is given up.
pub(super) const PONGS_MISSED_MAX: u32 = 2;
/// WebSocket: read buffer of a connection.
pub(crate) const WEBSOCKET_READ_BYTES: usize = 4 * 1024;
/// WebSocket: output that is gathered before it is written.
pub(crate) const WEBSOCKET_WRITE_BYTES: usize = 16 * 1024;
/// WebSocket: bytes of a close reason.
pub(super) const CLOSE_REASON_BYTES: usize = 123;
