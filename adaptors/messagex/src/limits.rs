//! Every bound of a MessageX connection in one table, with units. Never configured: the protocol fixes the packet, the rest
//! keeps one connection from holding more than its share.

use std::time::Duration;

/// Largest payload of a packet in bytes, both ways (protocol page, "Length 1..1,048,576").
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1_048_576;
/// Bytes kept free in a delivery's packet for names, tags and counters, so that what was published can be delivered.
pub(crate) const DELIVERY_RESERVE_BYTES: usize = 4096;
/// Bytes kept free at the end of a list response for its closing part.
pub(crate) const LIST_RESERVE_BYTES: usize = 4096;
/// Longest name, routing key or tag in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Longest `requestId` in bytes.
pub(crate) const REQUEST_ID_BYTES_MAX: usize = 255;
/// Longest user name, password, token or client id in bytes.
pub(crate) const CREDENTIAL_BYTES_MAX: usize = 16 * 1024;
/// Commands of one connection that are not answered yet; above it nothing is read.
pub(crate) const COMMANDS_IN_PROGRESS_MAX: usize = 1024;
/// Consumers of one connection.
pub(crate) const CONSUMERS_MAX: usize = 1024;
/// Unsettled deliveries of one connection.
pub(crate) const UNSETTLED_MAX: u32 = 65_535;
/// Delivery tags in one settlement.
pub(crate) const TAGS_PER_COMMAND_MAX: usize = 65_535;
/// Payloads that are no JSON, in a row, before the connection is closed.
pub(crate) const BAD_JSON_MAX: u32 = 10;
/// Refused logins before the connection is closed.
pub(crate) const AUTH_FAILURES_MAX: u32 = 3;
/// Time to log in where credentials are needed.
pub(crate) const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that commands in progress get after DISCONNECT or a shutdown, before the connection is closed all the same.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest delay of a message in ms: about 136 years.
pub(crate) const DELAY_MS_MAX: i64 = 1 << 42;
