//! From a store to a state: the newest intact snapshot, then the log after it.

use framegate_storage::{Claim, Lsn, Pos, ShardId, ShardStore, StoreError};

use crate::broker::StartError;
use crate::record::{Reader, Record};
use crate::state::{At, PAGE_VERSION, State};

/// Record bytes read at a time.
const READ_BYTES: usize = 4 * 1024 * 1024;

/// What a log says.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Everything.
    pub(crate) state: State,
    /// Clock of the newest block.
    pub(crate) time_ms: u64,
    /// First record that was read from the log and not from the snapshot.
    pub(crate) from: Lsn,
    /// Clock of the newest block that the snapshot covers; 0 without one.
    pub(crate) snapshot_time_ms: u64,
    /// LSN after the newest record.
    pub(crate) next: Lsn,
    /// Record bytes that were read from the log.
    pub(crate) log_bytes: u64,
}

impl Loaded {
    pub(crate) fn from(from: Lsn) -> Self {
        Self { state: State::default(), time_ms: 0, from, snapshot_time_ms: 0, next: from, log_bytes: 0 }
    }
}

/// Folds snapshot and log. The store must be claimed, or opened for reading only.
///
/// # Errors
/// The store's error, or a record that this version does not understand.
pub(crate) fn load(store: &dyn ShardStore, shard: ShardId) -> Result<Loaded, StartError> {
    let Some(snapshot) = store.snapshot(shard)? else { return load_log(store, shard) };
    let mut loaded = Loaded::from(snapshot.upto);
    for part in snapshot.parts {
        take_page(&part?, &mut loaded)?;
    }
    go_on(store, shard, snapshot.replay_from, &mut loaded)?;
    Ok(loaded)
}

/// Folds the log alone.
///
/// # Errors
/// As `load`.
pub(crate) fn load_log(store: &dyn ShardStore, shard: ShardId) -> Result<Loaded, StartError> {
    let mut loaded = Loaded::from(Lsn(1));
    go_on(store, shard, Pos(0), &mut loaded)?;
    Ok(loaded)
}

/// Folds what a claimed store holds.
///
/// # Errors
/// As `load`.
pub(crate) fn replay(store: &dyn ShardStore, claim: &Claim) -> Result<(State, u64), StartError> {
    let loaded = load(store, claim.shard)?;
    Ok((loaded.state, loaded.time_ms))
}

/// Folds the pages of a snapshot alone.
#[cfg(test)]
pub(super) fn of_pages(pages: impl Iterator<Item = bytes::Bytes>) -> Result<Loaded, StartError> {
    let mut loaded = Loaded::from(Lsn(1));
    for page in pages {
        take_page(&page, &mut loaded)?;
    }
    Ok(loaded)
}

fn take_page(page: &[u8], loaded: &mut Loaded) -> Result<(), StartError> {
    let broken = |lsn: Lsn, detail: String| {
        let detail = format!("in the snapshot: {detail}");
        StartError::Record { lsn: lsn.0, detail }
    };
    match page.first() {
        Some(&PAGE_VERSION) => {}
        found => {
            let found = found.copied().unwrap_or(0);
            let detail = format!("a page has version {found}, this version reads {PAGE_VERSION}");
            return Err(broken(loaded.from, detail));
        }
    }
    let mut reader = Reader::new(&page[1..]);
    let mut at = At::of_snapshot(Lsn(0));
    while let Some(record) = reader.next(&loaded.state).map_err(|e| broken(at.lsn, e.0))? {
        match record {
            Some(Record::At { lsn }) => at = At::of_snapshot(lsn),
            Some(record) => {
                if let Record::Standing { time_ms, .. } = &record {
                    (loaded.time_ms, loaded.snapshot_time_ms) = (*time_ms, *time_ms);
                }
                loaded.state.apply(record, at);
            }
            None => {}
        }
    }
    Ok(())
}

pub(crate) fn go_on(
    store: &dyn ShardStore,
    shard: ShardId,
    from: Pos,
    loaded: &mut Loaded,
) -> Result<(), StartError> {
    let mut from = from;
    let mut expected = loaded.from;
    loop {
        let blocks = match store.read(shard, from, READ_BYTES) {
            Ok(blocks) => blocks,
            // nothing was written after the snapshot
            Err(StoreError::NotFound { .. }) if expected == loaded.from && expected > Lsn(1) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Some(last) = blocks.last() else { return Ok(()) };
        from = store.next_pos(shard, last.pos)?;
        for block in blocks {
            if block.first != expected {
                let detail =
                    format!("the log goes on with {}, the snapshot ends before {expected}", block.first);
                return Err(StartError::Record { lsn: expected.0, detail });
            }
            loaded.time_ms = block.time_ms;
            loaded.log_bytes += block.records.len() as u64;
            let mut reader = Reader::new(&block.records);
            let mut lsn = block.first.0;
            loop {
                let next = reader.next(&loaded.state).map_err(|e| StartError::Record { lsn, detail: e.0 })?;
                let Some(record) = next else { break };
                if let Some(record) = record {
                    let at = At { lsn: Lsn(lsn), block: block.pos.0, logged: true };
                    loaded.state.apply(record, at);
                }
                lsn += 1;
            }
            expected = Lsn(block.first.0 + u64::from(block.count));
            loaded.next = expected;
            if lsn != expected.0 {
                let detail =
                    format!("the block says {} records, it has {}", block.count, lsn - block.first.0);
                return Err(StartError::Record { lsn, detail });
            }
        }
    }
}
