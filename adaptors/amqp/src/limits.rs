//! Every bound of an AMQP connection in one table, with units. What can be configured is in `settings.rs`.

use std::time::Duration;

/// Highest number of channels by default.
pub(crate) const CHANNELS_MAX: u16 = 2047;
/// Largest frame by default, in bytes with everything around the payload.
pub(crate) const FRAME_BYTES_MAX: u32 = 131_072;
/// Largest frame before anything is negotiated, in bytes: room for a long token in a login.
pub(crate) const FRAME_BYTES_MAX_AT_FIRST: usize = 8192;
/// Heartbeat by default, in seconds.
pub(crate) const HEARTBEAT_S: u16 = 60;
/// From the first byte to the open connection.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A refused login is answered no earlier than this, so that guessing takes time.
pub(crate) const LOGIN_REFUSAL_DELAY: Duration = Duration::from_secs(1);
/// How long the answer to our close is waited for.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// A delivery that is not acked for so long closes its channel, by default.
pub(crate) const ACK_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Longest time to ack that can be set, in ms: one week.
pub(crate) const ACK_TIMEOUT_MS_MAX: u64 = 7 * 24 * 3600 * 1000;
/// How often deliveries are looked at for it.
pub(crate) const ACK_LOOK: Duration = Duration::from_secs(60);
/// Longest user name or password in bytes.
pub(crate) const CREDENTIAL_BYTES_MAX: usize = 4096;
/// Answers that one channel waits for; beyond it the connection is not read.
pub(crate) const PENDING_MAX: usize = 1024;
/// Publishes whose confirm has not been sent, of one connection; beyond it the connection is not read.
pub(crate) const UNCONFIRMED_MAX: usize = 262_144;
/// Positions of one settlement; more make a second one.
pub(crate) const SETTLED_AT_ONCE_MAX: usize = 4096;
/// Publishes and settlements in the transactions of one connection, all channels together.
pub(crate) const TX_PARTS_MAX: usize = 65_536;
/// Message bytes in them.
pub(crate) const TX_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Longest time to live in ms.
pub(crate) const TTL_MS_MAX: u64 = 4_294_967_295;
/// Additional routing keys of one message (CC and BCC together).
pub(crate) const EXTRA_KEYS_MAX: usize = 1024;
/// Values of one consumer's filter of a stream.
pub(crate) const FILTER_VALUES_MAX: usize = 256;
