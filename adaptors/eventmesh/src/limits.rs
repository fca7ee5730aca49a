//! Every bound of an EventMesh connection in one table, with units. Where the protocol gives a figure it is that one
//! (reference `eventmesh.md` 3 and 9).

use std::time::Duration;

/// Largest value of a package's length field, both ways.
pub(crate) const LENGTH_MAX: usize = 4 * 1024 * 1024;
/// Largest header of a package in bytes. The protocol gives none; a header is a command, a sequence and a few properties.
pub(crate) const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Topics in one SUBSCRIBE_REQUEST, and subscriptions of one connection.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 1024;
/// Requests of one connection that the broker has not answered; above it nothing is read.
pub(crate) const IN_PROGRESS_MAX: usize = 1024;
/// Calls of one connection that wait for their reply (REQUEST_TO_SERVER).
pub(crate) const CALLS_MAX: usize = 1024;
/// Calls pushed to one connection that it has not answered; above it the oldest is forgotten.
pub(crate) const CALLS_PUSHED_MAX: usize = 4096;
/// Unacked pushes of a client that names no window.
pub(crate) const WINDOW_DEFAULT: u32 = 64;
/// Largest window that a client can ask for.
pub(crate) const WINDOW_MAX: u32 = 10_000;
/// A push that is not acked by then is pushed again (5.2).
pub(crate) const ACK_TIMEOUT_MS: u64 = 30_000;
/// A call without a time to live waits so long for its reply.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// A call waits no longer than this, whatever its time to live.
pub(crate) const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Time to say HELLO.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// A client that was told goodbye is closed after this.
pub(crate) const GOODBYE_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests in progress get so long when the server stops.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Silence after which a connection is closed, by default.
pub(crate) const IDLE_CLOSE_DEFAULT: Duration = Duration::from_secs(120);
/// Between two looks at the clock while calls wait.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// Clients whose body format is remembered, process-wide.
pub(crate) const FORMATS_KEPT_MAX: usize = 10_000;
