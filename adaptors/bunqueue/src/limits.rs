//! Every bound of a bunqueue connection in one table, with units: those of the real server where clients may notice.

use std::time::Duration;

/// Largest payload of a packet in bytes, both ways.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Payload bytes after which no further job is put into a reply to PULLB; the rest of the answer stays small beside it.
pub(crate) const REPLY_RESERVE_BYTES: usize = 64 * 1024;
/// Deepest nesting of a MessagePack value; deeper is no value.
pub(crate) const DEPTH_MAX: usize = 512;
/// Longest JSON text of a job's data, in UTF-16 units.
pub(crate) const DATA_UNITS_MAX: u64 = 10 * 1024 * 1024;
/// Commands of one connection in progress, long waits aside; more stay unread.
pub(crate) const COMMANDS_IN_PROGRESS_MAX: usize = 50;
/// Long waits (PULL and PULLB with a timeout, WaitJob) of one connection; more stay unread.
pub(crate) const WAITS_IN_PROGRESS_MAX: usize = 1024;
/// Longest queue name in characters on the real server.
pub(crate) const QUEUE_NAME_CHARS_MAX: usize = 256;
/// Longest queue name here: names of every protocol end there.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Longest job name in UTF-16 units.
pub(crate) const JOB_NAME_UNITS_MAX: usize = 256;
/// Longest group id in UTF-16 units.
pub(crate) const GROUP_ID_UNITS_MAX: usize = 256;
/// Largest integer that JavaScript keeps exactly.
pub(crate) const SAFE_INTEGER_MAX: i64 = (1 << 53) - 1;
/// Longest wait of PULL and PULLB in ms.
pub(crate) const PULL_WAIT_MS_MAX: i64 = 60_000;
/// Most jobs of a PULLB.
pub(crate) const PULL_JOBS_MAX: i64 = 1000;
/// Longest wait of WaitJob in ms.
pub(crate) const JOB_WAIT_MS_MAX: i64 = 600_000;
/// Bounds of a job's priority.
pub(crate) const PRIORITY_MAX: i64 = 1_000_000;
/// Largest priority in a group; the smallest is 0.
pub(crate) const GROUP_PRIORITY_MAX: i64 = 2_097_151;
/// Longest delay and time to live in ms.
pub(crate) const YEAR_MS: i64 = 31_536_000_000;
/// Longest backoff and timeout in ms.
pub(crate) const DAY_MS: i64 = 86_400_000;
/// Most attempts.
pub(crate) const ATTEMPTS_MAX: i64 = 1000;
/// Stack lines taken from a FAIL.
pub(crate) const STACK_LINES_MAX: usize = 100;
/// Time that commands in progress get after a shutdown, before the connection is closed all the same.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest `reqId` in bytes; a longer one is not echoed.
pub(crate) const REQ_ID_BYTES_MAX: usize = 1024;
/// Longest token in bytes.
pub(crate) const CREDENTIAL_BYTES_MAX: usize = 16 * 1024;
/// Refused logins before the connection is closed.
pub(crate) const AUTH_FAILURES_MAX: u32 = 10;
/// Time to log in where credentials are needed.
pub(crate) const AUTH_TIMEOUT: Duration = Duration::from_secs(60);
/// Most jobs of a list.
pub(crate) const LIST_JOBS_MAX: u32 = 1000;
