//! Queues that are deleted when nobody used them for a while. Consumers, pulls (refused ones too) and declarations are uses.
//! The lease begins anew with a start.

use super::Core;
use super::live::Taker;
use super::timers::Timer;
use crate::ids::QueueId;

impl Core {
    fn expires_ms(&self, queue: QueueId) -> Option<u64> {
        self.state(queue).queue(queue).and_then(|q| q.spec.properties.expires_ms)
    }

    /// A queue is used now, or was until now.
    pub(super) fn touch(&mut self, queue: QueueId) {
        let Some(expires_ms) = self.expires_ms(queue) else { return };
        let now_ms = self.now.mono_ms;
        let Some(live) = self.live.get_mut(&queue) else { return };
        live.used_ms = now_ms;
        if !std::mem::replace(&mut live.unused_timer, true) {
            self.timers.add(now_ms.saturating_add(expires_ms), Timer::Unused(queue));
        }
    }

    /// Looks whether a queue was not used for long enough.
    pub(super) fn expire_queue(&mut self, queue: QueueId) {
        let now_ms = self.now.mono_ms;
        let Some(expires_ms) = self.expires_ms(queue) else { return };
        let Some(live) = self.live.get_mut(&queue) else { return };
        live.unused_timer = false;
        if live.consumers > 0 {
            // the last of them touches it
            return;
        }
        if live.line.values().flatten().any(|taker| matches!(taker, Taker::Waiter(_))) {
            live.used_ms = now_ms;
        }
        let due_ms = live.used_ms.saturating_add(expires_ms);
        if due_ms > now_ms {
            live.unused_timer = true;
            self.timers.add(due_ms, Timer::Unused(queue));
        } else {
            self.drop_queue(queue);
        }
    }
}
