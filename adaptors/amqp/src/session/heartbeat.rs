//! Heartbeats both ways. Time comes from ticks; what was read and written in between is told to it.

use std::time::Duration;

/// Half intervals of silence after which the peer is gone: two intervals, and the rest of the one that had begun.
const SILENT_HALVES_MAX: u32 = 5;

/// What a tick finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beat {
    Nothing,
    Send,
    PeerIsGone,
}

/// See the top of the file.
#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    half: Duration,
    next: Duration,
    silent_halves: u32,
    heard: bool,
    sent: bool,
}

impl Heartbeat {
    /// The interval that the client chose; 0: none.
    pub(super) fn set(&mut self, seconds: u16, now: Duration) {
        self.half = Duration::from_millis(u64::from(seconds) * 500);
        self.next = now + self.half;
        self.silent_halves = 0;
    }

    pub(super) fn heard(&mut self) {
        self.heard = true;
    }

    pub(super) fn sent(&mut self) {
        self.sent = true;
    }

    /// Looks at what has passed since the last half interval.
    pub(super) fn tick(&mut self, now: Duration) -> Beat {
        if self.half.is_zero() || now < self.next {
            return Beat::Nothing;
        }
        self.next = now + self.half;
        self.silent_halves = if std::mem::take(&mut self.heard) { 0 } else { self.silent_halves + 1 };
        if self.silent_halves >= SILENT_HALVES_MAX {
            return Beat::PeerIsGone;
        }
        if std::mem::take(&mut self.sent) { Beat::Nothing } else { Beat::Send }
    }

    /// How long until the next look.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        (!self.half.is_zero()).then(|| self.next.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_connection_beats_twice_an_interval_and_ends_after_two_silent_ones() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.set(10, Duration::ZERO);
        let at = Duration::from_secs;
        assert_eq!(heartbeat.tick(at(4)), Beat::Nothing);
        assert_eq!(heartbeat.tick(at(5)), Beat::Send);
        heartbeat.sent();
        heartbeat.heard();
        assert_eq!(heartbeat.tick(at(10)), Beat::Nothing);
        for second in [15, 20, 25, 30] {
            assert_eq!(heartbeat.tick(at(second)), Beat::Send);
        }
        assert_eq!(heartbeat.wait(at(31)), Some(at(4)));
        assert_eq!(heartbeat.tick(at(35)), Beat::PeerIsGone);
    }

    #[test]
    fn without_an_interval_nothing_is_sent_or_missed() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.set(0, Duration::ZERO);
        assert_eq!(heartbeat.tick(Duration::from_secs(1_000_000)), Beat::Nothing);
        assert_eq!(heartbeat.wait(Duration::ZERO), None);
    }
}
