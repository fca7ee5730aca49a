//! Frames of a group's events: kept as they come in while somebody takes them, read back otherwise.

use bytes::Bytes;
use framegate_frame::{Frame, Limits};
use framegate_storage::{BodyRef, Lsn, StoreError};

use super::super::Core;
use super::GroupLive;
use crate::ids::{Offset, QueueId, Seq, TopicId};
use crate::limits::READ_AHEAD_BYTES;
use crate::metrics::Metrics;
use crate::record::{SeqSet, Settled};
use crate::state::OPEN_BLOCK;

/// Events that are kept in memory for a group before it comes to them, and read ahead at once.
const AHEAD_MAX: u64 = 4096;

impl Core {
    /// An event came into a topic.
    pub(in crate::fold) fn offer_to_groups(
        &mut self,
        topic: TopicId,
        offset: Offset,
        lsn: Lsn,
        frame: &Frame,
    ) {
        if !self.groups.has(topic) {
            return;
        }
        for id in self.groups.of(topic) {
            // nobody takes it soon: it is read back when somebody does
            let soon = |g: &GroupLive| !g.members.is_empty() && offset.0 < g.cursor.saturating_add(AHEAD_MAX);
            if self.groups.live.get(&id).is_some_and(soon) {
                self.cache_frame(id, Seq(offset.0), frame.clone());
            }
        }
        match self.groups.gated.back_mut() {
            // a block becomes durable as a whole
            Some((gate, last)) if *last == topic && *gate >= self.first => *gate = lsn,
            _ => self.groups.gated.push_back((lsn, topic)),
        }
    }

    pub(super) fn is_resident(&self, id: QueueId, offset: u64) -> bool {
        self.live.get(&id).is_some_and(|l| l.frames.contains_key(&offset))
    }

    /// The body of an event that the group has not settled, where it can be read.
    pub(in crate::fold) fn group_body(&self, id: QueueId, offset: u64) -> Option<BodyRef> {
        let (group, topic) = self.group_and_topic(id)?;
        let entry = topic.entries.get(offset).filter(|e| e.lsn <= self.durable_to.0)?;
        // a body that is being written again can be read when its block is closed
        (group.is_open(offset) && entry.block != OPEN_BLOCK).then(|| entry.body())
    }

    /// Asks for the bodies of what is needed next.
    pub(super) fn load_group(&mut self, id: QueueId) {
        let Some(live) = self.live.get(&id).filter(|l| !l.loading) else { return };
        let (Some(group), Some(state)) = (self.groups.live.get(&id), self.durable.group(id)) else { return };
        let mut at = group.cursor;
        let fresh = std::iter::from_fn(|| {
            let offset = state.next_open(at);
            at = offset + 1;
            Some(offset)
        });
        // the next of each member first: whoever has credit must not wait behind those that have none
        let heads = group.members.values().filter_map(|m| m.assigned.first().copied());
        let assigned = group.members.values().flat_map(|m| m.assigned.iter().skip(1).copied());
        let wanted_offsets = group.dying.keys().copied().chain(heads).chain(group.returned.iter().copied());
        let (mut wanted, mut bytes) = (Vec::new(), 0);
        for offset in wanted_offsets.chain(assigned).chain(fresh.take(AHEAD_MAX as usize)) {
            if live.frames.contains_key(&offset) {
                continue;
            }
            let Some(body) = self.group_body(id, offset) else { continue };
            wanted.push((Seq(offset), body));
            bytes += body.len as usize;
            if bytes >= READ_AHEAD_BYTES {
                break;
            }
        }
        if wanted.is_empty() {
            return self.read_later(id);
        }
        Metrics::add(&self.shared.metrics.paused_loading, 1);
        if let Some(live) = self.live.get_mut(&id) {
            live.loading = true;
        }
        self.reader.load(id, wanted);
    }

    /// Bodies came back. An event whose body is damaged or gone is passed over, so that it blocks nothing; one that could not
    /// be read for another reason is read again after a while.
    pub(in crate::fold) fn loaded_group(
        &mut self,
        id: QueueId,
        bodies: Vec<(Seq, Result<Bytes, StoreError>)>,
    ) {
        let limits = Limits::gateway(Limits::GATEWAY_DATA_BYTES_CEILING);
        let (mut again, mut damaged) = (false, Vec::new());
        for (seq, bytes) in bodies {
            if self.group_body(id, seq.0).is_none() {
                continue;
            }
            Metrics::add(&self.shared.metrics.bodies_loaded, 1);
            let error = match bytes {
                Ok(bytes) => match Frame::parse(bytes, &limits) {
                    Ok(frame) => {
                        self.cache_frame(id, seq, frame);
                        continue;
                    }
                    Err(error) => error.to_string(),
                },
                Err(error @ (StoreError::NotFound { .. } | StoreError::Corrupt { .. })) => error.to_string(),
                Err(error) => {
                    tracing::warn!(group = %id, offset = %seq, %error, "a stored event cannot be read now; it is read again");
                    again = true;
                    continue;
                }
            };
            tracing::error!(group = %id, offset = %seq, error, "a stored event is damaged and is passed over");
            self.drop_offset(id, seq.0);
            damaged.push(seq);
        }
        self.settle_group(id, &SeqSet::from_unsorted(damaged), Settled::Damaged);
        if again {
            return self.read_later(id);
        }
        self.reload(id);
    }

    /// An offset stands nowhere any more.
    fn drop_offset(&mut self, id: QueueId, offset: u64) {
        let (Some(group), Some(live)) = (self.groups.live.get_mut(&id), self.live.get_mut(&id)) else {
            return;
        };
        group.returned.remove(&offset);
        if group.dying.remove(&offset).is_some() {
            live.held -= 1;
        }
        for member in group.members.values_mut() {
            group.assigned -= usize::from(member.assigned.remove(&offset));
        }
    }
}
