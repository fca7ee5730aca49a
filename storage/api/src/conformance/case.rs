//! The shape of a case: a function that returns early with a failure or with "not applicable".

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::factory::{Factory, Unsupported};
use crate::StoreError;

/// How long a case waits for something that must happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Why a case ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The guarantee is broken.
    Failed(String),
    /// The backend cannot have the fault.
    NotApplicable(String),
}

/// A case: passes when it returns `Ok`.
pub type Case = fn(&mut dyn Factory) -> Result<(), Stop>;

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(format!("unexpected error: {error}"))
    }
}

impl From<Unsupported> for Stop {
    fn from(reason: Unsupported) -> Self {
        Self::NotApplicable(reason.0.to_owned())
    }
}

/// Fails the case with a formatted reason unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Stop::Failed(format!($($reason)+)));
        }
    };
}
pub(crate) use ensure;

/// Waits until `state` holds, for things that the interface reports only when asked. Looks every 2 ms.
pub fn wait_until(what: &str, mut state: impl FnMut() -> bool) -> Result<(), Stop> {
    let (never, bell) = (Mutex::new(()), Condvar::new());
    let start = Instant::now();
    while !state() {
        ensure!(start.elapsed() < DEADLINE, "gave up waiting until {what}");
        let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
        drop(bell.wait_timeout(guard, Duration::from_millis(2)));
    }
    Ok(())
}
