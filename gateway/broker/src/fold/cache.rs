//! Frames in memory: a budget for all queues together, oldest out first. A frame that is out is read back by the
//! reader pool in delivery order.

use std::collections::VecDeque;

use bytes::Bytes;
use framegate_frame::{Frame, Limits};
use framegate_storage::{Pos, StoreError};

use super::{Core, timers::Timer};
use crate::ids::{QueueId, Seq};
use crate::limits::{PASS_BYTES_MAX, READ_AHEAD_BYTES};
use crate::metrics::Metrics;
use crate::record::{Body, Record, SeqSet};
use crate::state::{NO_BLOCK, OPEN_BLOCK, is_group};

/// Bodies that could not be read are read again after so many ms.
const READ_AGAIN_MS: u64 = 500;
/// Bytes an entry costs beside its frame.
pub(super) const ENTRY_BYTES: usize = 96;

/// In which order frames came in, and what they take.
#[derive(Debug, Default)]
pub(super) struct CacheOrder {
    order: VecDeque<(QueueId, u64)>,
    bytes: usize,
}

#[cfg(test)]
impl CacheOrder {
    /// Frame bytes in memory, with what an entry costs.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Core {
    pub(super) fn cache_frame(&mut self, queue: QueueId, seq: Seq, frame: Frame) {
        let Some(live) = self.live.get_mut(&queue) else { return };
        let bytes = frame.as_bytes().len() + ENTRY_BYTES;
        if live.frames.insert(seq.0, frame).is_none() {
            live.cached_bytes += bytes;
            self.cache.bytes += bytes;
            self.cache.order.push_back((queue, seq.0));
        }
    }

    pub(super) fn uncache(&mut self, queue: QueueId, seq: Seq) {
        let Some(live) = self.live.get_mut(&queue) else { return };
        if let Some(frame) = live.frames.remove(&seq.0) {
            let bytes = frame.as_bytes().len() + ENTRY_BYTES;
            live.cached_bytes -= bytes;
            self.cache.bytes -= bytes;
        }
    }

    /// Forgets a whole queue.
    pub(super) fn uncache_queue(&mut self, queue: QueueId) {
        if let Some(live) = self.live.get_mut(&queue) {
            self.cache.bytes -= std::mem::take(&mut live.cached_bytes);
            self.reader.bury(std::mem::take(&mut live.frames));
        }
    }

    /// Drops the oldest frames that can be read back, until the budget holds. Those that the log does not know are
    /// written out first, a part of them each pass.
    pub(super) fn shrink_cache(&mut self) {
        let budget = self.shared.limits.cache_bytes_max;
        let mut looks = self.cache.order.len();
        let mut spilled = 0;
        while (self.cache.bytes > budget || self.cache.order.len() > 2 * self.cached_frames_max())
            && looks > 0
        {
            looks -= 1;
            let Some((queue, seq)) = self.cache.order.pop_front() else { break };
            if is_group(queue) {
                match self.group_body(queue, seq) {
                    Some(_) if self.cache.bytes > budget => self.uncache(queue, Seq(seq)),
                    _ if self.live.get(&queue).is_some_and(|l| l.frames.contains_key(&seq)) => {
                        self.cache.order.push_back((queue, seq));
                    }
                    _ => {}
                }
                continue;
            }
            let frame = self.live.get(&queue).and_then(|l| l.frames.get(&seq));
            let slot = self.state(queue).queue(queue).and_then(|q| q.slots.get(seq));
            let (Some(frame), Some(slot)) = (frame, slot) else { continue };
            // readable: its block was handed to the store, which serves what is not written yet too
            if slot.body().is_some() && self.cache.bytes > budget {
                self.uncache(queue, Seq(seq));
                continue;
            }
            if slot.block == NO_BLOCK
                && spilled < PASS_BYTES_MAX
                && self.cache.bytes > budget + spilled
                && !self.failed
            {
                let frame = frame.clone();
                spilled += frame.as_bytes().len();
                let body = Body::Memory { len: slot.len };
                self.log(Record::Spill { queue, seq: Seq(seq), body }, Some(&frame), false);
            }
            self.cache.order.push_back((queue, seq));
        }
        self.shared.metrics.cache_bytes.store(self.cache.bytes as u64, std::sync::atomic::Ordering::Relaxed);
    }

    /// How many entries the order can hold for frames that are there, at least.
    fn cached_frames_max(&self) -> usize {
        1024 + self.cache.bytes / ENTRY_BYTES
    }

    /// Asks for the bodies of the next messages in delivery order.
    pub(super) fn load(&mut self, queue: QueueId) {
        let Some(live) = self.live.get(&queue).filter(|l| !l.loading) else { return };
        let Some(state) = self.state(queue).queue(queue) else { return };
        let mut wanted = Vec::new();
        let (mut bytes, mut moving) = (0, false);
        let dying = live.dying.keys().copied();
        for seq in dying.chain(live.ready.upcoming(state)).take(4096) {
            let Some(slot) = state.slots.get(seq) else { continue };
            if live.frames.contains_key(&seq) {
                continue;
            }
            moving |= slot.block == OPEN_BLOCK;
            let Some(body) = slot.body() else { continue };
            wanted.push((Seq(seq), body));
            bytes += body.len as usize;
            if bytes >= READ_AHEAD_BYTES {
                break;
            }
        }
        if wanted.is_empty() {
            if moving {
                // it is being written again, and can be read when that block is closed
                self.mark_dirty(queue);
            }
            return;
        }
        Metrics::add(&self.shared.metrics.paused_loading, 1);
        if let Some(live) = self.live.get_mut(&queue) {
            live.loading = true;
        }
        self.reader.load(queue, wanted);
    }

    /// Bodies came back. One that is damaged or gone is taken out, so that it blocks nothing; one that could not be read
    /// for another reason is read again after a while.
    pub(super) fn loaded(&mut self, queue: QueueId, bodies: Vec<(Seq, Result<Bytes, StoreError>)>) {
        if is_group(queue) {
            return self.loaded_group(queue, bodies);
        }
        let mut again = false;
        for (seq, bytes) in bodies {
            let there = self.state(queue).queue(queue).is_some_and(|q| q.slots.get(seq.0).is_some());
            if !there || self.jobs.rewritten.contains(&(queue, seq.0)) {
                continue;
            }
            Metrics::add(&self.shared.metrics.bodies_loaded, 1);
            let limits = Limits::gateway(Limits::GATEWAY_DATA_BYTES_CEILING);
            let lost = match bytes {
                Ok(bytes) => match Frame::parse(bytes, &limits) {
                    Ok(frame) => {
                        self.cache_frame(queue, seq, frame);
                        continue;
                    }
                    Err(error) => error.to_string(),
                },
                // it was written again elsewhere meanwhile
                Err(StoreError::NotFound { pos }) if self.stands_elsewhere(queue, seq, pos) => continue,
                Err(error @ (StoreError::NotFound { .. } | StoreError::Corrupt { .. })) => error.to_string(),
                Err(error) => {
                    tracing::warn!(%queue, %seq, %error, "a stored message cannot be read now; it is read again");
                    again = true;
                    continue;
                }
            };
            tracing::error!(%queue, %seq, error = lost, "a stored message is damaged and is taken out");
            let weight = self.weight(queue, seq);
            if let Some(live) = self.live.get_mut(&queue) {
                live.ready.forget(seq.0, weight);
                if live.dying.remove(&seq.0).is_some() {
                    live.held -= 1;
                }
            }
            self.remove(queue, &SeqSet::one(seq));
        }
        self.jobs.rewritten.retain(|(of, _)| *of != queue);
        self.bury_dying(queue);
        if again {
            return self.read_later(queue);
        }
        self.reload(queue);
    }

    fn stands_elsewhere(&self, queue: QueueId, seq: Seq, pos: Pos) -> bool {
        let slot = self.state(queue).queue(queue).and_then(|q| q.slots.get(seq.0));
        slot.is_some_and(|slot| slot.body().is_none_or(|body| body.block != pos))
    }

    /// Bodies may be asked for again.
    pub(super) fn reload(&mut self, queue: QueueId) {
        if let Some(live) = self.live.get_mut(&queue) {
            (live.loading, live.rests) = (false, false);
        }
        self.mark_dirty(queue);
    }

    /// What could not be read is asked for again after a while.
    pub(super) fn read_later(&mut self, queue: QueueId) {
        if let Some(live) = self.live.get_mut(&queue) {
            (live.loading, live.rests) = (true, true);
            self.timers.add(self.now.mono_ms + READ_AGAIN_MS, Timer::Reload(queue));
        }
    }
}
