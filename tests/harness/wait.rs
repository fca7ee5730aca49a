//! Waiting for a state, with a bound.

use std::time::{Duration, Instant};

/// Longest wait for a state of the server. Generous: machines are shared.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// Calls `probe` until it gives a value; panics with `what` after `WAIT_MAX`.
///
/// # Panics
/// When the state does not come.
pub fn wait_until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {WAIT_MAX:?} for: {what}");
        pause();
    }
}

/// The one pause between two looks at another process's state.
#[expect(
    clippy::disallowed_methods,
    reason = "another process's state cannot be awaited, only looked at again"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}
