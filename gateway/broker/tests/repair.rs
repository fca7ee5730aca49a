//! Damage in the middle of a log: the start refuses it, a repair keeps everything outside of it.

#[path = "support/mirror.rs"]
mod mirror;
mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framegate_broker::{Answer, Broker, HeaderTable, Limits, Outcome, Startup, inspect, lost_records};
use framegate_storage::{Pos, ShardId, ShardStore, StoreError};
use framegate_storage_journal::sim::{Crash, SimFiles};
use framegate_storage_journal::{Journal, repair_with};
use mirror::options;
use support::{Client, name};

const MESSAGES: usize = 900;

fn start(store: Arc<dyn ShardStore>) -> Broker {
    let (limits, headers) = (Limits { cache_bytes_max: 0, ..Limits::default() }, HeaderTable::default());
    Broker::start(Startup { store, limits, headers, vhosts: vec![name("/")] }).expect("starts")
}

fn open(files: &SimFiles, dir: &str) -> Result<Journal, StoreError> {
    let mut options = options();
    options.dir = PathBuf::from(dir);
    Journal::open_with(Arc::new(files.clone()), options)
}

/// A log of many blocks: messages confirmed one by one, every third one acked, and a queue made in the middle.
async fn written() -> SimFiles {
    let files = SimFiles::new();
    let broker = start(Arc::new(open(&files, "/sim").expect("opens")));
    let mut c = Client::new(&broker);
    c.declare("q").await;
    c.consume(1, "q", None).await;
    for n in 0..MESSAGES {
        c.put("q", &n.to_string()).await;
        let delivery = c.delivery().await;
        if n % 3 == 0 {
            c.settle(&[&delivery], Outcome::Ack).await.expect("acked");
        }
        if n == MESSAGES / 2 {
            c.declare("late").await;
        }
        if n > MESSAGES / 2 {
            c.publish("late", &n.to_string(), Answer::None).await;
        }
    }
    drop(c);
    broker.stop().await.expect("stopped");
    drop(broker);
    files.crash(Crash::Process)
}

fn blocks(files: &SimFiles) -> Vec<Pos> {
    let mut options = options();
    options.dir = PathBuf::from("/sim");
    let journal = Journal::open_read_only_with(Arc::new(files.copy()), options).expect("opens");
    journal.read(ShardId(0), Pos(0), usize::MAX).expect("read").iter().map(|block| block.pos).collect()
}

/// The segment that holds a block, and where it stands in it.
fn place(files: &SimFiles, block: Pos) -> (PathBuf, usize, usize) {
    let segments = files.paths().into_iter().filter(|path| path.to_string_lossy().contains("seg-"));
    let mut found = segments.filter_map(|path| {
        let place = framegate_storage_journal::damage::locate(&files.bytes(&path)?, block)?;
        Some((path, place.offset, place.len))
    });
    found.next().expect("the block is in a segment")
}

#[tokio::test]
async fn a_flipped_bit_is_refused_and_a_repair_loses_nothing_outside_its_block() {
    let files = written().await;
    let all = blocks(&files);
    // the first of them defines the queue
    for at in [0, all.len() / 4, all.len() / 2, all.len() * 3 / 4] {
        check_damage_of(&files, all[at]).await;
    }
}

/// Flips a bit in a block; what is not in it must be found after a repair.
async fn check_damage_of(files: &SimFiles, block: Pos) {
    let damaged = files.copy();
    let (path, offset, len) = place(&damaged, block);
    let mut bytes = damaged.bytes(&path).expect("bytes");
    bytes[offset + len / 2] ^= 4;
    damaged.set_bytes(&path, bytes);
    let journal = open(&damaged, "/sim").expect("opens");
    let error = journal.claim(ShardId(0), Box::new(|_| {})).expect_err("refused");
    let StoreError::Corrupt { file, offset: said, .. } = &error else { panic!("{error}") };
    assert_eq!((file, *said), (&path, offset as u64));
    drop(journal);

    let repaired = repair_with(&damaged, Path::new("/sim"), Path::new("/new"), &lost_records);
    let repaired = repaired.expect("repaired");
    assert_eq!(repaired.lost.len(), 1, "{repaired:?}");
    let lost = &repaired.lost[0];
    assert_eq!((lost.from, lost.to), (offset as u64, (offset + len) as u64));
    assert!((1..=20).contains(&lost.records), "{lost:?}");
    let journal = Arc::new(open(&damaged, "/new").expect("opens"));
    let before = inspect(&*open_reader(&damaged, "/new")).expect("folded");
    let broker = start(Arc::clone(&journal) as Arc<dyn ShardStore>);
    let mut c = Client::new(&broker);
    // without its definition the queue has a name of its own
    c.consume(1, &before.queues[0].name, None).await;
    let messages = before.queues[0].messages as usize;
    let found: BTreeSet<usize> =
        c.texts(messages).await.iter().map(|text| text.parse().expect("a number")).collect();
    let expected: BTreeSet<usize> = (0..MESSAGES).filter(|n| n % 3 != 0).collect();
    let missing: Vec<&usize> = expected.difference(&found).collect();
    assert!(missing.len() as u64 <= lost.records, "missing {missing:?}, lost {lost:?}");
    // an ack that was lost lets its message come again
    let again: Vec<&usize> = found.difference(&expected).collect();
    assert!(again.len() as u64 <= lost.records, "came again {again:?}, lost {lost:?}");
    drop(c);
    broker.stop().await.expect("stopped");
}

fn open_reader(files: &SimFiles, dir: &str) -> Box<Journal> {
    let mut options = options();
    options.dir = PathBuf::from(dir);
    Box::new(Journal::open_read_only_with(Arc::new(files.clone()), options).expect("opens"))
}

#[tokio::test]
async fn a_segment_whose_header_is_damaged_is_replaced_and_the_rest_is_kept() {
    let files = written().await;
    let mut segments: Vec<PathBuf> =
        files.paths().into_iter().filter(|p| p.to_string_lossy().contains("seg-")).collect();
    segments.sort();
    assert!(segments.len() >= 3, "{segments:?}");
    let mut bytes = files.bytes(&segments[1]).expect("bytes");
    bytes[40] ^= 1;
    files.set_bytes(&segments[1], bytes);
    assert!(matches!(open(&files, "/sim"), Err(StoreError::Corrupt { .. })));
    let repaired =
        repair_with(&files, Path::new("/sim"), Path::new("/new"), &lost_records).expect("repaired");
    assert_eq!(repaired.lost.len(), 1);
    assert_eq!(repaired.lost[0].file, segments[1]);
    let found = inspect(&*open_reader(&files, "/new")).expect("folded");
    assert!(found.queues.iter().any(|q| &*q.name == "q" && q.messages > 0));
    let broker = start(Arc::new(open(&files, "/new").expect("opens")));
    broker.stop().await.expect("stopped");
}

#[tokio::test]
async fn what_is_not_damaged_is_copied_as_it_is() {
    let files = written().await;
    let before = inspect(&*open_reader(&files, "/sim")).expect("folded");
    let repaired =
        repair_with(&files, Path::new("/sim"), Path::new("/new"), &lost_records).expect("repaired");
    assert_eq!(repaired.lost, []);
    assert_eq!(inspect(&*open_reader(&files, "/new")).expect("folded"), before);
    let again = repair_with(&files, Path::new("/sim"), Path::new("/new"), &lost_records);
    assert!(again.expect_err("refused").to_string().contains("not empty"));
    let nothing = repair_with(&files, Path::new("/other"), Path::new("/new2"), &lost_records);
    assert!(nothing.expect_err("refused").to_string().contains("there is no journal"));
}
