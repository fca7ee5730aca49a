//! Files written by format 1 open with every later version (F6). `GOLDEN_WRITE=1` makes the fixture anew,
//! which is only right when a new format gets a fixture of its own beside this one.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use framegate_storage::conformance::{Reports, Sample};
use framegate_storage::{Lsn, Pos, ShardId, ShardStore};
use framegate_storage_journal::{Journal, Options};

const SHARD: ShardId = ShardId(0);

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden-1")
}

fn options(dir: &Path) -> Options {
    let mut options = Options::new(dir);
    options.segment_bytes = 4 << 10;
    options
}

fn parts() -> impl Iterator<Item = Bytes> {
    [&b"first part"[..], b"", b"third part"].into_iter().map(Bytes::from_static)
}

/// Appends the blocks of the fixture to an empty store.
fn fill(store: &Journal) -> Sample {
    let claim = store.claim(SHARD, Reports::new().sink()).expect("claims");
    let mut sample = Sample::new(1, Lsn(1));
    for index in 0..30 {
        let mut block = sample.block(700, index % 2 == 0);
        block.flags.clean_shutdown = index == 29;
        sample.append(store, &claim, block).expect("appends");
    }
    let (pos, block) = &sample.blocks[15];
    store.put_snapshot(&claim, block.first, *pos, &mut parts()).expect("puts a snapshot");
    store.shutdown().expect("stops");
    sample
}

#[test]
fn files_of_format_1_open() {
    if std::env::var_os("GOLDEN_WRITE").is_some() {
        let _ = std::fs::remove_dir_all(golden());
        let store = Journal::open(options(&golden())).expect("opens");
        fill(&store);
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    for entry in std::fs::read_dir(golden()).expect("the fixture") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).expect("copies");
    }
    let store = Journal::open(options(dir.path())).expect("opens");
    let claim = store.claim(SHARD, Box::new(|_| {})).expect("claims");
    assert!(claim.clean);
    // The same seed gives the same blocks at the same places today.
    let today = tempfile::tempdir().expect("a temporary directory");
    let expected = fill(&Journal::open(options(today.path())).expect("opens"));
    expected.check(&store, Pos(0), 0, 1000).expect("identical");
    let snapshot = store.snapshot(SHARD).expect("reads").expect("a snapshot");
    assert_eq!((snapshot.upto, snapshot.replay_from), (expected.blocks[15].1.first, expected.blocks[15].0));
    assert!(snapshot.parts.map(|part| part.expect("intact")).eq(parts()));
}
