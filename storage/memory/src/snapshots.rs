//! The two newest snapshots of a volatile store. Owns which one is handed out; never looks inside a part.

use bytes::Bytes;
use framegate_storage::{Lsn, Pos, Snapshot};

struct Kept {
    upto: Lsn,
    replay_from: Pos,
    parts: Vec<Bytes>,
    intact: bool,
}

/// At most two snapshots, oldest first.
#[derive(Default)]
pub(crate) struct Snapshots {
    kept: Vec<Kept>,
}

impl Snapshots {
    pub(crate) fn put(&mut self, upto: Lsn, replay_from: Pos, parts: Vec<Bytes>) {
        self.kept.retain(|kept| kept.upto < upto);
        self.kept.push(Kept { upto, replay_from, parts, intact: true });
        if self.kept.len() > 2 {
            self.kept.remove(0);
        }
    }

    /// The newest intact one.
    pub(crate) fn newest(&self) -> Option<Snapshot> {
        let kept = self.kept.iter().rev().find(|kept| kept.intact)?;
        let parts = kept.parts.clone();
        Some(Snapshot {
            upto: kept.upto,
            replay_from: kept.replay_from,
            parts: Box::new(parts.into_iter().map(Ok)),
        })
    }

    /// Where replay would start from the older of the two; blocks below it may be released.
    pub(crate) fn older_replay_from(&self) -> Option<Pos> {
        self.kept.first().map(|kept| kept.replay_from)
    }

    /// Damages the newest one; false when there is none.
    pub(crate) fn corrupt_newest(&mut self) -> bool {
        self.kept.last_mut().is_some_and(|kept| std::mem::replace(&mut kept.intact, false))
    }
}
