//! A scripted life of more than 10,000 records over simulated files, with snapshots, deleted segments and bodies written
//! again on the way. A copy of the files is crashed after each file operation of every thread, by a kill or a power cut; what
//! a start recovers from it must be exactly what the records that survived say, and they must be all that were promised.
//! A crash leaves whole blocks: where one write holds several, the files are crashed behind each of them too.
//!
//! The reference folds the same records without snapshots and without files. `CRASH_STRIDE=N` crashes after each Nth only.

#[path = "support/mirror.rs"]
mod mirror;
mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use framegate_broker::{
    Answer, Broker, ConsumerId, Fetch, HeaderTable, Limits, Outcome, Publish, Reply, Request, Startup,
    fingerprint,
};
use framegate_storage::{ShardId, ShardStore};
use framegate_storage_journal::Journal;
use framegate_storage_journal::sim::{Crash, SimFiles};
use mirror::{Mirror, Watch, options};
use support::{Client, frame, name};

/// Records of the script, at least.
const RECORDS: u64 = 10_000;
/// Bytes of log from snapshot to snapshot: about a thousand records.
const SNAPSHOT_BYTES: u64 = 80_000;

async fn take(client: &mut Client, queue: &str, max: u32, auto_ack: bool) -> Vec<framegate_broker::Delivery> {
    let consumer = ConsumerId(if auto_ack { 90 } else { 91 });
    let fetch =
        Fetch { consumer, queue: name(queue), max, wait_ms: 0, auto_ack, lease_ms: None, tokens: false };
    let Ok(Reply::Fetched { messages, .. }) = client.call(Request::Fetch(fetch)).await else {
        panic!("not fetched")
    };
    messages.iter().for_each(|m| client.connection.written(m.window_bytes()));
    messages
}

/// Publishes, acks, returns and topic events, by a fixed script.
async fn script(client: &mut Client, mirror: &Mirror) {
    for queue in ["work", "stays", "returned"] {
        client.declare(queue).await;
    }
    let mut step = 0_u64;
    while mirror.records() < RECORDS {
        step += 1;
        let body = format!("{step}-{}", "x".repeat((step * 37 % 200) as usize));
        for n in 0..8 {
            client.publish("work", &body, if n == 7 { Answer::Reply } else { Answer::None }).await;
        }
        client.put("work", &body).await;
        take(client, "work", 9, true).await;
        if step.is_multiple_of(16) {
            client.put("stays", &body).await;
        }
        if step.is_multiple_of(5) {
            let topic = Publish::to_topic(name("topic"), frame(&body));
            client.call(Request::Publish(topic)).await.expect("published");
        }
        if step.is_multiple_of(7) {
            client.put("returned", &body).await;
            let held = take(client, "returned", 3, false).await;
            let held: Vec<&framegate_broker::Delivery> = held.iter().collect();
            let outcome =
                if step.is_multiple_of(2) { Outcome::Ack } else { Outcome::Requeue { delay_ms: 0 } };
            client.settle(&held, outcome).await.expect("settled");
        }
    }
}

#[tokio::test]
async fn whatever_moment_a_crash_comes_at_the_start_finds_what_the_records_say() {
    let stride = std::env::var("CRASH_STRIDE").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let files = SimFiles::new();
    let watch = Arc::new(Watch::new(files.clone(), stride));
    let observed = files.observed({
        let watch = Arc::clone(&watch);
        Arc::new(move || watch.look())
    });
    let journal = Journal::open_with(Arc::new(observed), options()).expect("opens");
    let mirror = Arc::new(Mirror::new(journal, Arc::clone(&watch)));
    let store: Arc<dyn ShardStore> = Arc::clone(&mirror) as Arc<dyn ShardStore>;
    let limits = Limits {
        snapshot_log_bytes: SNAPSHOT_BYTES,
        snapshot_every_ms: 600_000,
        cache_bytes_max: 16 * 1024,
        ..Limits::default()
    };
    let headers = HeaderTable::default();
    let broker = Broker::start(Startup { store, limits, headers, vhosts: vec![name("/")] }).expect("starts");
    let mut client = Client::new(&broker);
    script(&mut client, &mirror).await;
    let metrics = broker.metrics();
    let met = [&metrics.snapshots, &metrics.extents_released, &metrics.survivors];
    let met = met.map(|counter| counter.load(Ordering::Relaxed));
    let (operations, crashes) = watch.counts();
    println!("records {}, file operations {operations}, crashes {crashes}", mirror.records());
    println!("snapshots, released, written again: {met:?}");
    println!("crashes within a write of several blocks {}", watch.within());
    assert!(
        met.iter().all(|n| *n > 0) && met[0] >= 8,
        "snapshots, deleted segments, bodies written again: {met:?}"
    );
    assert!(crashes + 10 > operations / stride, "{crashes} crashes");
    drop(client);
    broker.stop().await.expect("stopped");

    // every byte of the last group
    let image = files.copy();
    let newest = image.paths().into_iter().filter(|p| p.to_string_lossy().contains("seg-")).max();
    let newest = newest.expect("a segment");
    let bytes = image.bytes(&newest).expect("its bytes");
    let last = mirror.last_block();
    let place = framegate_storage_journal::damage::locate(&bytes, last).expect("the last block is there");
    for cut in place.offset..bytes.len() {
        let torn = image.copy();
        torn.set_bytes(&newest, bytes[..cut].to_vec());
        let torn = torn.crash(Crash::Process);
        let journal = Journal::open_with(Arc::new(torn), options()).expect("opens");
        match journal.claim(ShardId(0), Box::new(|_| {})) {
            Ok(claim) => {
                let found = fingerprint(&journal).expect("folded");
                assert_eq!(found, mirror.reference(claim.next), "cut at byte {cut}");
            }
            // the mark of the stop says that the block was synced: then a cut is damage
            Err(error) => assert!(error.to_string().contains("durable"), "{error}"),
        }
    }
}
