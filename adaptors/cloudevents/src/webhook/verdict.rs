//! What an attempt means for its events, and when the next one is: pure, the time is given. Never sends anything.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::RETRY_AFTER;

use crate::limits::{HOOK_BREAK_AFTER, HOOK_BREAK_MAX, HOOK_BREAK_MIN, HOOK_RETRY_AFTER_MAX};

/// Waits between attempts, in ms: the schedule that Standard Webhooks suggests. The first attempt is at once.
pub(crate) const SCHEDULE_MS: [u64; 9] = [
    5_000,
    5 * 60_000,
    30 * 60_000,
    2 * 3_600_000,
    5 * 3_600_000,
    10 * 3_600_000,
    14 * 3_600_000,
    20 * 3_600_000,
    24 * 3_600_000,
];

/// Each wait is longer or shorter by up to so many percent.
const JITTER_PERCENT: u64 = 20;

/// What becomes of what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The receiver has it.
    Delivered,
    /// Try again later.
    Retry,
    /// Trying again would not help: dead letter.
    Reject,
    /// The receiver wants nothing any more: the subscription ends.
    Gone,
}

/// What a status means. `retry_all`: refusals of the request itself are tried again too (Standard Webhooks); otherwise they are
/// final (Knative).
pub(crate) fn of_status(status: u16, retry_all: bool) -> Verdict {
    match status {
        200..=299 => Verdict::Delivered,
        410 => Verdict::Gone,
        404 | 408 | 409 | 425 | 429 | 500..=599 => Verdict::Retry,
        // redirects are never followed
        300..=499 if !retry_all => Verdict::Reject,
        _ => Verdict::Retry,
    }
}

/// How long the receiver wants to be left alone, if this answer says so. `now_s`: seconds since the Unix epoch.
pub(crate) fn retry_after(status: u16, headers: &HeaderMap, now_s: u64) -> Option<Duration> {
    if !matches!(status, 429 | 502..=504) {
        return None;
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_second();
            u64::try_from(at).ok()?.saturating_sub(now_s)
        }
    };
    Some(Duration::from_secs(seconds).min(HOOK_RETRY_AFTER_MAX))
}

/// Wait after a failed attempt, the `attempt`-th (from 1). Beyond the schedule's end its last wait comes again. `chance` picks
/// the jitter.
pub(crate) fn wait_ms(schedule: &[u64], attempt: u32, chance: u64) -> u64 {
    let at = (attempt.max(1) as usize - 1).min(schedule.len().saturating_sub(1));
    let wait = u128::from(schedule.get(at).copied().unwrap_or(0));
    let percent =
        u128::from(100 - JITTER_PERCENT) * 100 + u128::from(chance) % (u128::from(JITTER_PERCENT) * 200 + 1);
    u64::try_from(wait * percent / 10_000).unwrap_or(u64::MAX)
}

/// The pace of one receiver: its rate, what it asked for, and the circuit breaker. Times are since the worker began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pace {
    /// Least time between two requests.
    interval: Duration,
    /// No request before this.
    next: Duration,
    /// Failed attempts in a row.
    failures: u32,
    /// When the row of failures began.
    failing_since: Option<Duration>,
}

impl Pace {
    /// `rate`: requests a minute; None: no limit.
    pub(crate) fn new(rate: Option<u32>) -> Self {
        let interval = rate.map_or(Duration::ZERO, |rate| Duration::from_secs(60) / rate.max(1));
        Self { interval, ..Self::default() }
    }

    /// When the next request may be sent.
    pub(crate) fn next(&self) -> Duration {
        self.next
    }

    /// How many requests may be under way: one while the receiver fails.
    pub(crate) fn concurrency(&self, most: usize) -> usize {
        if self.failures == 0 { most } else { 1 }
    }

    /// A request is sent now.
    pub(crate) fn sent(&mut self, now: Duration) {
        self.next = self.next.max(now + self.interval);
    }

    /// The receiver answered as it should.
    pub(crate) fn succeeded(&mut self) {
        (self.failures, self.failing_since) = (0, None);
    }

    /// An attempt failed. Behind several in a row the receiver is left alone for a while, twice as long each time.
    pub(crate) fn failed(&mut self, now: Duration, retry_after: Option<Duration>) {
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(now);
        if let Some(wait) = retry_after {
            self.next = self.next.max(now + wait);
        }
        if let Some(beyond) = self.failures.checked_sub(HOOK_BREAK_AFTER) {
            let wait = HOOK_BREAK_MIN.saturating_mul(1 << beyond.min(16)).min(HOOK_BREAK_MAX);
            self.next = self.next.max(now + wait);
        }
    }

    /// How long every attempt has failed.
    pub(crate) fn failing_for(&self, now: Duration) -> Duration {
        self.failing_since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn every_status_has_its_meaning() {
        for status in 100..700 {
            let expected = match status {
                200..=299 => Verdict::Delivered,
                410 => Verdict::Gone,
                404 | 408 | 409 | 425 | 429 => Verdict::Retry,
                300..=499 => Verdict::Reject,
                _ => Verdict::Retry,
            };
            assert_eq!(of_status(status, false), expected, "{status}");
            let all = if expected == Verdict::Reject { Verdict::Retry } else { expected };
            assert_eq!(of_status(status, true), all, "{status}");
        }
    }

    #[test]
    fn the_schedule_is_followed_within_its_jitter_and_then_repeats_its_last_wait() {
        for (attempt, wait) in [(1, 5_000), (2, 300_000), (3, 1_800_000), (9, 86_400_000), (40, 86_400_000)] {
            let seen: Vec<u64> = (0..8001).map(|chance| wait_ms(&SCHEDULE_MS, attempt, chance)).collect();
            assert_eq!(seen.iter().min(), Some(&(wait * 8 / 10)), "{attempt}");
            assert_eq!(seen.iter().max(), Some(&(wait * 12 / 10)), "{attempt}");
        }
        assert_eq!(wait_ms(&[], 1, 7), 0);
        assert!(wait_ms(&[u64::MAX], 1, 0) > 0);
    }

    #[test]
    fn a_receiver_that_asks_for_time_gets_it() {
        let asked = |status, text| {
            let headers = [(RETRY_AFTER, HeaderValue::from_static(text))].into_iter().collect();
            retry_after(status, &headers, 784_111_770).map(|wait| wait.as_secs())
        };
        for status in [429, 502, 503, 504] {
            assert_eq!(asked(status, "120"), Some(120));
        }
        assert_eq!(asked(429, "Sun, 06 Nov 1994 08:49:37 GMT"), Some(7));
        assert_eq!(asked(429, "Sun, 06 Nov 1994 08:49:20 GMT"), Some(0));
        assert_eq!(asked(429, "99999999999"), Some(HOOK_RETRY_AFTER_MAX.as_secs()));
        assert_eq!((asked(500, "120"), asked(429, "soon"), asked(429, "-1")), (None, None, None));
    }

    #[test]
    fn the_breaker_opens_behind_several_failures_and_closes_with_a_success() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(None);
        for n in 1..HOOK_BREAK_AFTER {
            pace.failed(second * n, None);
            assert_eq!((pace.next(), pace.concurrency(8)), (Duration::ZERO, 1), "{n}");
        }
        let now = second * 10;
        pace.failed(now, None);
        assert_eq!(pace.next(), now + HOOK_BREAK_MIN);
        pace.failed(now, None);
        assert_eq!(pace.next(), now + HOOK_BREAK_MIN * 2);
        for _ in 0..100 {
            pace.failed(now, None);
        }
        assert_eq!((pace.next(), pace.failing_for(now)), (now + HOOK_BREAK_MAX, second * 9));
        pace.succeeded();
        assert_eq!((pace.concurrency(8), pace.failing_for(now)), (8, Duration::ZERO));
        pace.failed(now, Some(HOOK_BREAK_MAX * 3));
        assert_eq!(pace.next(), now + HOOK_BREAK_MAX * 3);
    }

    #[test]
    fn a_rate_spaces_requests() {
        let mut pace = Pace::new(Some(120));
        for n in 0..5 {
            let now = pace.next();
            assert_eq!(now, Duration::from_millis(500) * n);
            pace.sent(now);
        }
    }
}
