//! Collects what a backend reports and waits for it. Checks the order of reports as they come.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::case::{DEADLINE, Stop, ensure};
use crate::{Lsn, Report, ReportFn};

/// Receives the reports of one claim. Clones see the same reports.
#[derive(Clone, Default)]
pub struct Reports {
    shared: Arc<(Mutex<Vec<Report>>, Condvar)>,
}

impl Reports {
    /// An empty collector.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The callback to hand to `claim`.
    #[must_use]
    pub fn sink(&self) -> ReportFn {
        let shared = Arc::clone(&self.shared);
        Box::new(move |report| {
            shared.0.lock().unwrap_or_else(PoisonError::into_inner).push(report);
            shared.1.notify_all();
        })
    }

    /// Everything so far.
    #[must_use]
    pub fn all(&self) -> Vec<Report> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Highest LSN reported durable; 0 before the first report.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        highest(&self.all())
    }

    /// Waits until a report makes `wanted` true of all reports so far.
    pub fn wait(&self, what: &str, mut wanted: impl FnMut(&[Report]) -> bool) -> Result<(), Stop> {
        let start = Instant::now();
        let mut reports = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !wanted(&reports) {
            let left = DEADLINE.saturating_sub(start.elapsed());
            ensure!(!left.is_zero(), "no report says {what}; last is {:?}", reports.last());
            reports = self.shared.1.wait_timeout(reports, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Waits until every record up to `upto` is reported durable; fails at once when the shard failed.
    pub fn wait_durable(&self, upto: Lsn) -> Result<(), Stop> {
        self.wait(&format!("durable up to {upto}"), |reports| {
            highest(reports) >= upto || matches!(reports.last(), Some(Report::Failed(_)))
        })?;
        ensure!(self.durable() >= upto, "the shard failed: {:?}", self.all().last());
        Ok(())
    }

    /// Fails unless watermarks strictly increase and nothing follows a failure.
    pub fn check_order(&self) -> Result<(), Stop> {
        let mut last = Lsn(0);
        let mut over = false;
        for report in self.all() {
            ensure!(!over, "{report:?} after the failure");
            match report {
                Report::Durable { upto } => {
                    ensure!(upto > last, "durable {upto} after durable {last}");
                    last = upto;
                }
                Report::Failed(_) => over = true,
                Report::Full(_) | Report::Room => {}
            }
        }
        Ok(())
    }
}

fn highest(reports: &[Report]) -> Lsn {
    let watermark = |report: &Report| match report {
        Report::Durable { upto } => Some(*upto),
        _ => None,
    };
    reports.iter().filter_map(watermark).max().unwrap_or_default()
}
