//! One timer a connection. Armed for the earliest deadline and moved only when an earlier one comes up or it has rung, so that
//! deadlines that come and go with each message cost nothing.

use std::pin::Pin;
use std::task::Context;

use futures_util::FutureExt as _;
use tokio::time::{Instant, Sleep, sleep_until};

/// See the top of the file.
#[derive(Default)]
pub(super) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    rung: bool,
}

impl Alarm {
    /// Sees to it that the task is woken at `deadline` or before. True: it has rung just now, look again.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool {
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                if self.rung || deadline < sleep.deadline() {
                    sleep.as_mut().reset(deadline);
                }
                sleep
            }
            None => self.sleep.insert(Box::pin(sleep_until(deadline))),
        };
        self.rung = sleep.poll_unpin(cx).is_ready();
        self.rung
    }
}
