//! What happens to jobs, as event packets.

use framegate_adaptor_api::Outbound;
use framegate_broker::{JobEvent, JobEventKind};

use crate::adaptor::data_of;
use crate::job::ms;
use crate::reply::put_event;

/// Writes an event of the queue that the client watches.
pub(super) fn put(event: &JobEvent, out: &mut Outbound) {
    let word = match &event.kind {
        JobEventKind::Pushed => "pushed",
        JobEventKind::Pulled => "pulled",
        JobEventKind::Completed(_) => "completed",
        JobEventKind::Failed { .. } => "failed",
        JobEventKind::Retried => "retried",
        JobEventKind::Progress(..) => "progress",
        JobEventKind::Stalled { .. } => "stalled",
        JobEventKind::Removed => "removed",
        JobEventKind::Delayed(_) => "delayed",
        JobEventKind::Duplicated => "duplicated",
        JobEventKind::Paused => "paused",
        JobEventKind::Resumed => "resumed",
    };
    put_event(out, |map| {
        map.text("eventType", word);
        map.text("queue", &event.queue);
        map.text("jobId", event.id.as_deref().unwrap_or_default());
        map.int("timestamp", ms(event.at_ms));
        match &event.kind {
            JobEventKind::Completed(Some(result)) => map.raw("data", result),
            JobEventKind::Failed { error, is_final } => {
                if let Some(error) = error {
                    map.text("error", error);
                }
                if let Some(data) = event.frame.as_ref().map(data_of).filter(|data| !data.is_empty()) {
                    map.raw("data", &data);
                }
                map.bool("terminal", *is_final);
            }
            JobEventKind::Retried => map.text("prev", "failed"),
            JobEventKind::Progress(progress, message) => {
                map.number("progress", *progress);
                let mut data = map.map("data");
                data.number("progress", *progress);
                if let Some(message) = message {
                    data.text("message", message);
                }
                data.end();
            }
            JobEventKind::Stalled { count, goes_on } => {
                let mut data = map.map("data");
                data.int("stallCount", i64::from(*count));
                data.text("action", if *goes_on { "retry" } else { "dlq" });
                data.end();
            }
            JobEventKind::Removed => map.text("prev", "waiting"),
            JobEventKind::Delayed(delay_ms) => map.int("delay", ms(*delay_ms)),
            _ => {}
        }
    });
}
