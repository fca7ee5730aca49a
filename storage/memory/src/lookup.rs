//! Reading a volatile log: blocks in order and bodies by reference. Changes nothing.

use bytes::Bytes;
use framegate_storage::{BodyRef, Pos, StoreError, StoredBlock};

use crate::state::{HEADER, State};

impl State {
    pub(crate) fn read(&self, from: Pos, bytes_max: usize) -> Result<Vec<StoredBlock>, StoreError> {
        if from.0 != 0 && from.0 < self.trimmed {
            return Err(StoreError::NotFound { pos: from });
        }
        let start = from.0.max(self.trimmed);
        let mut blocks = Vec::new();
        let mut bytes = 0usize;
        for (&pos, entry) in self.entries.range(start..).take_while(|(pos, _)| **pos < self.written) {
            bytes += entry.records.len();
            blocks.push(StoredBlock {
                pos: Pos(pos),
                epoch: entry.epoch,
                first: entry.first,
                count: entry.count,
                time_ms: entry.time_ms,
                flags: entry.flags,
                records: entry.records.clone(),
            });
            if bytes >= bytes_max {
                break;
            }
        }
        Ok(blocks)
    }

    pub(crate) fn next_pos(&self, pos: Pos) -> Result<Pos, StoreError> {
        let entry = self.entries.get(&pos.0).ok_or(StoreError::NotFound { pos })?;
        Ok(Pos(pos.0 + HEADER + entry.records.len() as u64))
    }

    pub(crate) fn fetch(&self, at: BodyRef) -> Result<Bytes, StoreError> {
        let missing = StoreError::NotFound { pos: at.block };
        let entry = self.entries.get(&at.block.0).ok_or(missing.clone())?;
        let (start, end) = (at.offset as usize, at.offset as usize + at.len as usize);
        if at.block.0 < self.trimmed || end > entry.records.len() {
            return Err(missing);
        }
        Ok(entry.records.slice(start..end))
    }
}
