//! Snapshots, disk space and ends that are not orderly: what a restart finds, what the log still takes.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use framegate_broker::{
    Answer, Broker, ConsumerId, Fetch, HeaderTable, Limits, Outcome, Reply, Request, Startup,
};
use framegate_storage::{BodyRef, Caps, Claim, Extent, Front, Lsn, ShardId, ShardStore, StoreError};
use framegate_storage_memory::MemoryStore;
use support::{Client, name, start_on, text};

/// Snapshots by length of the log alone.
fn by_length(bytes: u64) -> Limits {
    Limits { snapshot_log_bytes: bytes, snapshot_every_ms: 0, cache_bytes_max: 0, ..Limits::default() }
}

fn log_bytes(store: &MemoryStore) -> u64 {
    store.usage(ShardId(0)).log_bytes
}

/// Publishes small messages to another queue until so many snapshots were written.
async fn until_snapshots(client: &mut Client, broker: &Broker, wanted: u64) {
    while broker.metrics().snapshots.load(Ordering::Relaxed) < wanted {
        client.put("filler", &"f".repeat(2000)).await;
        take(client, "filler", 1).await;
    }
}

/// Takes messages for good.
async fn take(client: &mut Client, queue: &str, max: u32) -> usize {
    let mut taken = 0;
    let fetch = Fetch {
        consumer: ConsumerId(99),
        queue: name(queue),
        max,
        wait_ms: 50,
        auto_ack: true,
        lease_ms: None,
        tokens: false,
    };
    while taken < max as usize {
        let fetch = Fetch { max: max - taken as u32, ..fetch.clone() };
        let reply = client.call(Request::Fetch(fetch)).await.expect("fetched");
        let Reply::Fetched { messages, .. } = reply else { panic!("{reply:?}") };
        if messages.is_empty() {
            break;
        }
        for message in &messages {
            client.connection.written(message.window_bytes());
        }
        taken += messages.len();
    }
    taken
}

#[tokio::test]
async fn a_restart_goes_on_from_the_newest_snapshot_and_from_the_older_when_that_is_damaged() {
    let store = MemoryStore::new();
    let broker = start_on(&store, by_length(64 * 1024));
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.declare("filler").await;
    for n in 0..50 {
        c.put("q", &n.to_string()).await;
    }
    c.consume(1, "q", Some(10)).await;
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(c.delivery().await);
    }
    c.settle(&[&held[3], &held[5]], Outcome::Ack).await.expect("acked");
    c.settle(&[&held[0]], Outcome::Requeue { delay_ms: 0 }).await.expect("requeued");
    until_snapshots(&mut c, &broker, 2).await;
    let left: Vec<String> = (0..50).filter(|n| *n != 3 && *n != 5).map(|n| n.to_string()).collect();
    drop((c, held));
    broker.stop().await.expect("stopped");
    for damaged in [false, true] {
        if damaged {
            assert!(store.corrupt_snapshot());
        }
        let snapshot = store.snapshot(ShardId(0)).expect("read").expect("there is one");
        assert!(snapshot.upto > Lsn(50));
        let broker = start_on(&store, by_length(u64::MAX));
        let mut c = Client::new(&broker);
        c.consume(1, "q", Some(100)).await;
        assert_eq!(c.texts(48).await, left);
        drop(c);
        broker.stop().await.expect("stopped");
    }
}

#[tokio::test]
async fn a_drained_queue_gives_its_space_back() {
    let store = MemoryStore::new();
    let broker = start_on(&store, by_length(256 * 1024));
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.declare("filler").await;
    let body = "x".repeat(8000);
    for _ in 0..1000 {
        c.put("q", &body).await;
    }
    assert!(log_bytes(&store) > 8_000_000);
    c.consume(1, "q", Some(100)).await;
    for _ in 0..1000 {
        let delivery = c.delivery().await;
        c.settle(&[&delivery], Outcome::Ack).await.expect("acked");
    }
    let before = broker.metrics().snapshots.load(Ordering::Relaxed);
    until_snapshots(&mut c, &broker, before + 3).await;
    assert!(log_bytes(&store) < 4_000_000, "{} bytes are left", log_bytes(&store));
    broker.stop().await.expect("stopped");
}

#[tokio::test]
async fn a_message_that_stays_does_not_keep_the_log_and_what_is_written_again_is_bounded() {
    let store = MemoryStore::new();
    let broker = start_on(&store, by_length(512 * 1024));
    let mut c = Client::new(&broker);
    for queue in ["q", "stays", "filler"] {
        c.declare(queue).await;
    }
    let body = "x".repeat(8000);
    for n in 0..40 {
        c.put("stays", &format!("{n}")).await;
        for _ in 0..50 {
            c.put("q", &body).await;
        }
        assert_eq!(take(&mut c, "q", 50).await, 50);
    }
    let metrics = broker.metrics();
    while log_bytes(&store) > 6_000_000 {
        let snapshots = metrics.snapshots.load(Ordering::Relaxed);
        until_snapshots(&mut c, &broker, snapshots + 1).await;
    }
    let moved = metrics.survivor_bytes.load(Ordering::Relaxed);
    let published = metrics.published_bytes.load(Ordering::Relaxed);
    assert!(moved > 0, "nothing was moved");
    assert!(moved <= published, "{moved} bytes written again for {published} that were published");
    drop(c);
    broker.stop().await.expect("stopped");
    let broker = start_on(&store, by_length(u64::MAX));
    let mut c = Client::new(&broker);
    c.consume(1, "stays", Some(100)).await;
    let expected: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    assert_eq!(c.texts(40).await, expected);
}

#[tokio::test]
async fn a_stop_on_a_full_disk_ends_and_says_that_something_is_not_written() {
    let store = MemoryStore::new();
    let broker = start_on(&store, Limits { stop_full_ms: 20, ..Limits::default() });
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.put("q", "safe").await;
    store.set_full(true);
    c.publish("q", "never confirmed", Answer::Reply).await;
    let error = broker.stop().await.expect_err("not everything was written");
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    drop((c, broker));
    store.set_full(false);
    store.cut_unwritten();
    let broker = start_on(&store, Limits::default());
    let mut c = Client::new(&broker);
    c.consume(1, "q", None).await;
    assert_eq!(c.texts(1).await, ["safe"]);
}

#[tokio::test]
async fn a_broker_whose_handles_are_gone_lets_its_store_go() {
    let store: Arc<dyn ShardStore> = Arc::new(MemoryStore::new());
    let weak = Arc::downgrade(&store);
    let (limits, headers) = (Limits::default(), HeaderTable::default());
    let broker = Broker::start(Startup { store, limits, headers, vhosts: vec![name("/")] }).expect("starts");
    let mut c = Client::new(&broker);
    drop(broker);
    c.declare("q").await;
    c.put("q", "a connection keeps the broker").await;
    drop(c);
    // its threads hold the store until they have ended
    while weak.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
}

/// A store whose reads fail once, or that gives no space back.
struct Flaky {
    store: MemoryStore,
    fails: AtomicBool,
    keeps: AtomicBool,
}

impl Flaky {
    fn error() -> StoreError {
        StoreError::Io { action: "read", path: "disk".into(), detail: "EIO".to_owned() }
    }
}

impl Front for Flaky {
    fn behind(&self) -> Result<Arc<dyn ShardStore>, StoreError> {
        Ok(Arc::new(self.store.clone()))
    }
    fn caps(&self) -> Caps {
        self.store.caps()
    }
    fn fetch(&self, shard: ShardId, at: &[BodyRef]) -> Vec<Result<Bytes, StoreError>> {
        if self.fails.swap(false, Ordering::Relaxed) {
            return at.iter().map(|_| Err(Self::error())).collect();
        }
        self.store.fetch(shard, at)
    }
    fn release_extent(&self, claim: &Claim, extent: &Extent) -> Result<(), StoreError> {
        if self.keeps.load(Ordering::Relaxed) {
            return Err(Self::error());
        }
        ShardStore::release_extent(&self.store, claim, extent)
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_read_now_is_read_again_and_nothing_is_lost() {
    let store = Arc::new(Flaky {
        store: MemoryStore::new(),
        fails: AtomicBool::new(true),
        keeps: AtomicBool::new(false),
    });
    let limits = Limits { cache_bytes_max: 0, ..Limits::default() };
    let shared: Arc<dyn ShardStore> = Arc::clone(&store) as Arc<dyn ShardStore>;
    let headers = HeaderTable::default();
    let broker = Broker::start(Startup { store: shared, limits, headers, vhosts: vec![name("/")] });
    let broker = broker.expect("starts");
    let mut c = Client::new(&broker);
    c.declare("q").await;
    for n in 0..5 {
        c.put("q", &n.to_string()).await;
    }
    c.consume(1, "q", None).await;
    let mut got = Vec::new();
    for _ in 0..5 {
        got.push(text(&c.delivery().await.frame));
    }
    assert_eq!(got, ["0", "1", "2", "3", "4"]);
    assert!(!store.fails.load(Ordering::Relaxed), "a read failed on the way");
    broker.stop().await.expect("stopped");
}

#[tokio::test]
async fn space_that_cannot_be_given_back_does_not_fail_the_snapshot_and_goes_later() {
    let store = MemoryStore::new();
    let flaky =
        Arc::new(Flaky { store: store.clone(), fails: AtomicBool::new(false), keeps: AtomicBool::new(true) });
    let headers = HeaderTable::default();
    let limits = by_length(512 * 1024);
    let startup = Startup {
        store: Arc::clone(&flaky) as Arc<dyn ShardStore>,
        limits,
        headers,
        vhosts: vec![name("/")],
    };
    let broker = Broker::start(startup).expect("starts");
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.declare("filler").await;
    let body = "x".repeat(8000);
    for _ in 0..10 {
        for _ in 0..200 {
            c.put("q", &body).await;
        }
        assert_eq!(take(&mut c, "q", 200).await, 200);
    }
    let metrics = broker.metrics();
    while metrics.release_failures.load(Ordering::Relaxed) == 0 {
        let snapshots = metrics.snapshots.load(Ordering::Relaxed);
        until_snapshots(&mut c, &broker, snapshots + 1).await;
    }
    assert_eq!(metrics.snapshot_failures.load(Ordering::Relaxed), 0);
    assert_eq!(metrics.extents_released.load(Ordering::Relaxed), 0, "nothing could be");
    flaky.keeps.store(false, Ordering::Relaxed);
    while metrics.extents_released.load(Ordering::Relaxed) == 0 {
        let snapshots = metrics.snapshots.load(Ordering::Relaxed);
        until_snapshots(&mut c, &broker, snapshots + 1).await;
    }
}
