//! Messages that are delayed for a year, among a hundred million that come and go: one costs at most the segment that it
//! stands in, several are written again together, and what passes them by is gone.
//!
//! The first test has all sizes a thousandth of the usual ones, so as many segments and snapshots pass as with the real
//! ones. The second is on real files, with `YEAR_MESSAGES=2000000` in the usual sizes, without it in a twentieth of them.

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use framegate_broker::{
    Answer, Broker, Consume, Effect, HeaderTable, Limits, Publish, Query, Reply, Request, RequestId, Startup,
};
use framegate_storage::{ShardId, ShardStore};
use framegate_storage_journal::sim::SimFiles;
use framegate_storage_journal::{DiskFiles, Files, Journal, Options};
use support::{Client, consumer, frame, name};

const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
/// The usual sizes.
const MESSAGES: u64 = 100_000_000;
const SEGMENT_BYTES: u64 = 64 << 20;
const SNAPSHOT_BYTES: u64 = 256 << 20;
const BODY_BYTES: usize = 256;
const BATCH: u64 = 50;
/// Above the ids that the client gives.
const FIRST_REQUEST: u64 = 1_000_000;

struct Run {
    files: Arc<dyn Files>,
    options: Options,
    limits: Limits,
    messages: u64,
    /// Messages that stay, evenly among the others.
    stay: u64,
}

impl Run {
    /// Sizes divided by `scale`.
    fn new(files: Arc<dyn Files>, dir: PathBuf, messages: u64, scale: u64, stay: u64) -> Self {
        let mut options = Options::new(dir);
        options.segment_bytes = SEGMENT_BYTES / scale;
        options.first_segment_bytes = options.segment_bytes;
        let limits = Limits {
            snapshot_log_bytes: SNAPSHOT_BYTES / scale,
            snapshot_every_ms: 0,
            disk_free_min_bytes: 0,
            ..Limits::default()
        };
        Self { files, options, limits, messages, stay }
    }

    fn start(&self) -> (Broker, Arc<Journal>) {
        let journal = Journal::open_with(Arc::clone(&self.files), self.options.clone()).expect("opens");
        let journal = Arc::new(journal);
        let store: Arc<dyn ShardStore> = Arc::clone(&journal) as Arc<dyn ShardStore>;
        let (limits, headers) = (self.limits.clone(), HeaderTable::default());
        let broker = Broker::start(Startup { store, limits, headers, vhosts: vec![name("/")] });
        (broker.expect("starts"), journal)
    }

    async fn check(self) {
        let (broker, journal) = self.start();
        let mut c = Client::new(&broker);
        c.declare("later").await;
        c.declare("q").await;
        let take = Consume { auto_ack: true, ..consumer(1, "q", None) };
        c.call(Request::Consume(take)).await.expect("consuming");
        let body = frame(&"x".repeat(BODY_BYTES));
        let (mut disk_max, mut segments) = (0, 0);
        for from in (0..self.messages).step_by(BATCH as usize) {
            if (from / BATCH).is_multiple_of(self.messages / BATCH / self.stay) {
                let publish = Publish::new(name(""), name("later"), frame("in a year"));
                let delayed =
                    Publish { persistent: true, delay_ms: YEAR_MS, answer: Answer::Reply, ..publish };
                c.call(Request::Publish(delayed)).await.expect("published");
            }
            let publish = |n| {
                let publish = Publish::new(name(""), name("q"), body.clone());
                let publish = Publish { persistent: true, answer: Answer::Watermark, ..publish };
                (RequestId(FIRST_REQUEST + n), Request::Publish(publish))
            };
            c.connection.submit((from..from + BATCH).map(publish).collect()).await.expect("taken");
            let (mut came, mut confirmed) = (0, false);
            while came < BATCH || !confirmed {
                match c.effect().await {
                    Effect::Delivery(delivery) => {
                        c.connection.written(delivery.window_bytes());
                        came += 1;
                    }
                    Effect::Confirmed { upto } => {
                        confirmed |= upto.0 == FIRST_REQUEST + from + BATCH - 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            let usage = journal.usage(ShardId(0));
            disk_max = disk_max.max(usage.disk_bytes);
            segments = segments.max(usage.segments);
        }
        let (metrics, log) = (broker.metrics(), journal.metrics());
        let published = metrics.published_bytes.load(Relaxed);
        let written = log.bytes_written.load(Relaxed);
        let (snapshots, moved) = (metrics.snapshots.load(Relaxed), metrics.survivors.load(Relaxed));
        let (begun, deleted) = (log.segments.load(Relaxed), log.segments_deleted.load(Relaxed));
        let moved_bytes = metrics.survivor_bytes.load(Relaxed);
        println!(
            "{} messages, {published} bytes published, {written} written ({:.2} times), {moved} bodies of {moved_bytes} \
             bytes written again, {snapshots} snapshots, {begun} segments begun, {deleted} deleted, at most {segments} \
             and {disk_max} bytes at once",
            self.messages,
            written as f64 / published as f64
        );
        assert!(written <= 2 * published, "written {written} for {published}");
        assert_eq!(moved > 0, self.stay > 4, "a few are left where they stand, many are written again");
        assert!(moved_bytes <= published / 10, "{moved_bytes} bytes written again");
        // those since the older snapshot, and a few around
        let bound = 2 * self.limits.snapshot_log_bytes / self.options.segment_bytes + 8;
        assert!(segments <= bound, "{segments} segments at once, at most {bound} are needed");
        drop(c);
        broker.stop().await.expect("a clean stop");
        drop((broker, journal));
        let (broker, _journal) = self.start();
        let mut c = Client::new(&broker);
        let Ok(Reply::Queue(info)) = c.call(Request::Query(Query::Queue(name("later")))).await else {
            panic!("the queue is there");
        };
        assert_eq!(
            info.bytes,
            self.stay * frame("in a year").as_bytes().len() as u64,
            "they are still there: {info:?}"
        );
    }
}

#[tokio::test]
async fn messages_delayed_for_a_year_do_not_keep_what_passes_them() {
    const SCALE: u64 = 1000;
    for stay in [1, 20] {
        let files = Arc::new(SimFiles::new());
        Run::new(files, PathBuf::from("/sim"), MESSAGES / SCALE, SCALE, stay).check().await;
    }
}

#[tokio::test]
async fn messages_delayed_for_a_year_do_not_keep_what_passes_them_on_real_files() {
    let asked = std::env::var("YEAR_MESSAGES").ok().and_then(|n| n.parse().ok());
    let (messages, scale) = asked.map_or((100_000, 20), |messages| (messages, 1));
    let dir = tempfile::tempdir().expect("a temporary directory");
    Run::new(Arc::new(DiskFiles), dir.path().join("data"), messages, scale, 1).check().await;
}
