//! The faults of the files below a running broker, each with many who wait: what was confirmed is there after the next
//! start, in order, what was never sent is not, and nobody waits for ever.
//!
//! ```text
//! ends the shard   a sync, a write, the rename or the directory sync of a new segment fails: nobody is confirmed any more
//! waited out       no room for the next segment, or not even in what was set aside: publishers wait, then all is confirmed
//! makes no odds    writes that take a few bytes at a time
//! power cut        at each file operation of a burst; what is not synced is lost, torn or there without what came before
//! ```
//!
//! A torn last block at every byte is in `crashes.rs`, flipped bits are in `repair.rs`.

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use framegate_broker::{
    Answer, Broker, BrokerError, Connection, Effect, HeaderTable, Limits, Outbox, Outcome, Publish, Query,
    Reply, Request, RequestId, Startup,
};
use framegate_storage::{ShardStore, StoreError};
use framegate_storage_journal::sim::{Crash, SimFaults, SimFiles};
use framegate_storage_journal::{Journal, Options};
use support::{Client, anyone, frame, name, text};

fn options() -> Options {
    let mut options = Options::new(PathBuf::from("/sim"));
    options.segment_bytes = 8 << 10;
    options.first_segment_bytes = 8 << 10;
    options.block_bytes_max = 1 << 20;
    options.idle_mark = None;
    options.full_retry = Duration::from_millis(1);
    options
}

fn start(files: &SimFiles) -> Broker {
    let journal = Journal::open_with(Arc::new(files.clone()), options()).expect("opens");
    let store: Arc<dyn ShardStore> = Arc::new(journal);
    // only writes find out that the disk is full
    let limits = Limits { disk_free_min_bytes: 0, ..Limits::default() };
    let headers = HeaderTable::default();
    Broker::start(Startup { store, limits, headers, vhosts: vec![name("/")] }).expect("starts")
}

type Fault = fn(&mut SimFaults);

/// A connection that publishes numbers and knows which of them were confirmed.
struct Publisher {
    connection: Connection,
    outbox: Outbox,
    first: u64,
    sent: u64,
    confirmed: BTreeSet<u64>,
    refused: u64,
}

impl Publisher {
    fn new(broker: &Broker, first: u64) -> Self {
        let (connection, outbox) = broker.connect(&anyone(), &name("/"), "test").expect("connected");
        Self { connection, outbox, first, sent: 0, confirmed: BTreeSet::new(), refused: 0 }
    }

    /// Sends so many, one a batch, until the broker takes no more.
    async fn send(&mut self, count: u64, bytes: usize) {
        for _ in 0..count {
            let n = self.first + self.sent;
            let body = frame(&format!("{n} {}", "x".repeat(bytes)));
            let answer = Answer::Reply;
            let publish = Publish { persistent: true, answer, ..Publish::new(name(""), name("q"), body) };
            self.sent += 1;
            if self.connection.submit(vec![(RequestId(n), Request::Publish(publish))]).await.is_err() {
                return;
            }
        }
    }

    /// Hears of all that was sent, or of the end.
    async fn hear(&mut self) {
        while self.confirmed.len() as u64 + self.refused < self.sent {
            let Some(effects) = self.outbox.recv().await else { return };
            for effect in effects {
                match effect {
                    Effect::Reply(id, Ok(_)) => {
                        assert!(self.confirmed.insert(id.0), "{id:?} was confirmed twice");
                    }
                    Effect::Reply(..) => self.refused += 1,
                    _ => {}
                }
            }
        }
    }
}

/// A broker with a queue and ten safe messages.
async fn begun(files: &SimFiles) -> (Broker, Publisher) {
    let broker = start(files);
    Client::new(&broker).declare("q").await;
    let mut first = Publisher::new(&broker, 0);
    first.send(10, 100).await;
    first.hear().await;
    assert_eq!(first.confirmed.len(), 10);
    (broker, first)
}

/// What the queue holds, in order.
async fn content(broker: &Broker) -> Vec<u64> {
    let mut c = Client::new(broker);
    let Ok(Reply::Queue(info)) = c.call(Request::Query(Query::Queue(name("q")))).await else {
        return Vec::new();
    };
    c.consume(1, "q", None).await;
    let mut found = Vec::new();
    for _ in 0..info.ready {
        let body = text(&c.delivery().await.frame);
        found.push(body.split(' ').next().and_then(|n| n.parse().ok()).expect("a number"));
    }
    found
}

/// All that was confirmed is there once, nothing that was not sent, each connection's in order.
fn check<'a>(what: &str, found: &[u64], publishers: impl Iterator<Item = &'a Publisher>) {
    let all: BTreeSet<u64> = found.iter().copied().collect();
    assert_eq!(all.len(), found.len(), "{what}: something is there twice: {found:?}");
    let mut sent = BTreeSet::new();
    for publisher in publishers {
        let lost: Vec<_> = publisher.confirmed.difference(&all).collect();
        assert!(lost.is_empty(), "{what}: confirmed and lost: {lost:?}");
        let own = publisher.first..publisher.first + publisher.sent;
        assert!(found.iter().filter(|n| own.contains(n)).is_sorted(), "{what}: order: {found:?}");
        sent.extend(own);
    }
    let invented: Vec<_> = all.difference(&sent).collect();
    assert!(invented.is_empty(), "{what}: never sent: {invented:?}");
}

#[tokio::test]
async fn a_failure_for_good_confirms_nobody_stops_the_shard_and_a_restart_recovers() {
    let faults: [(&str, Fault); 4] = [
        ("sync", |f| f.fail_sync = true),
        ("write to", |f| f.fail_write = true),
        ("rename into place", |f| f.fail_rename = true),
        ("sync the directory of", |f| f.fail_sync_dir = true),
    ];
    for (action, fault) in faults {
        let files = SimFiles::new();
        let (broker, first) = begun(&files).await;
        files.faults(fault);
        let mut publishers: Vec<Publisher> = (1..9).map(|n| Publisher::new(&broker, n * 1000)).collect();
        // more than the segment takes
        for publisher in &mut publishers {
            publisher.send(30, 200).await;
        }
        for publisher in &mut publishers {
            publisher.hear().await;
            assert!(publisher.confirmed.len() < 30, "{action}: somebody hears nothing of it");
        }
        let mut failure = broker.failure();
        let told = failure.wait_for(Option::is_some).await.expect("it is told").clone();
        let error = broker.stop().await.expect_err("the stop is not clean");
        assert_eq!(told.map(|told| told.to_string()), Some(error.to_string()));
        let StoreError::Fatal { action: failed, path, detail } = &error else { panic!("{action}: {error}") };
        assert_eq!(failed.split(' ').next(), action.split(' ').next(), "{error}");
        assert!(path.to_string_lossy().contains("seg-"), "{error} names the file");
        assert!(detail.contains("errno 5"), "{error} gives the error number");
        let late = broker.call(&anyone(), &name("/"), Request::Query(Query::Stats)).await;
        assert_eq!(late.expect_err("nothing is answered"), BrokerError::StorageFailed);
        let all: Vec<&Publisher> = publishers.iter().chain([&first]).collect();
        for crash in [Crash::Process, Crash::Power(1), Crash::Power(2), Crash::Power(3)] {
            let broker = start(&files.copy().crash(crash));
            check(&format!("{action}, {crash:?}"), &content(&broker).await, all.iter().copied());
            broker.stop().await.expect("a clean stop");
        }
    }
}

#[tokio::test]
async fn no_room_is_waited_out_consumers_go_on_and_nothing_confirmed_is_lost() {
    for in_the_middle in [false, true] {
        let files = SimFiles::new();
        let (broker, mut first) = begun(&files).await;
        files.faults(|faults| {
            (faults.full, faults.full_log) = (true, in_the_middle);
            // a write that was cut short is the middle of one
            faults.write_bytes_max = Some(1000);
        });
        let held = &broker.metrics().held_disk_full;
        let (mut one, mut two) = (Publisher::new(&broker, 1000), Publisher::new(&broker, 2000));
        let mut image = None;
        let publish = async {
            tokio::join!(one.send(60, 500), two.send(60, 500));
        };
        let meanwhile = async {
            while held.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            let refused = Publish::new(name(""), name("q"), frame("does not wait"));
            let answer = broker.call(&anyone(), &name("/"), Request::Publish(refused)).await;
            assert!(matches!(answer, Err(BrokerError::Held { .. })), "{answer:?}");
            // what was there can be taken and settled
            let mut worker = Client::new(&broker);
            worker.consume(1, "q", Some(5)).await;
            for _ in 0..5 {
                let delivery = worker.delivery().await;
                worker.settle(&[&delivery], Outcome::Requeue { delay_ms: 0 }).await.expect("settled");
            }
            image = Some(files.copy());
            files.faults(|faults| *faults = SimFaults::default());
        };
        tokio::join!(publish, meanwhile);
        one.hear().await;
        two.hear().await;
        assert_eq!((one.confirmed.len(), two.confirmed.len()), (60, 60), "all that waited was taken");
        assert_eq!(held.load(Ordering::Relaxed), 0);
        first.send(1, 1).await;
        first.hear().await;
        check("after it", &content(&broker).await, [&first, &one, &two].into_iter());
        broker.stop().await.expect("a clean stop");
        // a crash in the middle of it
        for crash in [Crash::Process, Crash::Power(4), Crash::Power(5)] {
            let broker = start(&image.as_ref().expect("it was full").copy().crash(crash));
            let found = content(&broker).await;
            let safe: BTreeSet<u64> = (0..10).collect();
            assert!(safe.is_subset(&found.iter().copied().collect()), "{crash:?}: {found:?}");
            broker.stop().await.expect("a clean stop");
        }
    }
}

#[tokio::test]
async fn writes_that_take_a_few_bytes_at_a_time_make_no_odds() {
    let files = SimFiles::new();
    files.faults(|faults| faults.write_bytes_max = Some(7));
    let (broker, first) = begun(&files).await;
    let mut more = Publisher::new(&broker, 1000);
    more.send(100, 300).await;
    more.hear().await;
    assert_eq!(more.confirmed.len(), 100);
    let broker_again = start(&files.copy().crash(Crash::Power(1)));
    check("after a power cut", &content(&broker_again).await, [&first, &more].into_iter());
}

#[tokio::test]
async fn a_power_cut_at_any_file_operation_of_a_burst_loses_nothing_confirmed() {
    const OPERATIONS: u64 = 80;
    let mut dead = 0;
    for at in 1..=OPERATIONS {
        let files = SimFiles::new();
        let (broker, first) = begun(&files).await;
        files.faults(|faults| faults.crash_after = Some(at));
        let mut publishers: Vec<Publisher> = (1..5).map(|n| Publisher::new(&broker, n * 1000)).collect();
        for _ in 0..12 {
            for publisher in &mut publishers {
                publisher.send(3, 150).await;
            }
            for publisher in &mut publishers {
                publisher.hear().await;
            }
        }
        dead += u64::from(broker.failure().borrow().is_some());
        let all: Vec<&Publisher> = publishers.iter().chain([&first]).collect();
        for seed in 0..3 {
            let broker = start(&files.copy().crash(Crash::Power(at * 3 + seed)));
            check(&format!("operation {at}, seed {seed}"), &content(&broker).await, all.iter().copied());
        }
    }
    assert!(dead > OPERATIONS / 2, "the burst has hardly any file operations: it died {dead} times");
}
