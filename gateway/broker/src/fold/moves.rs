//! Survivors: bodies in a piece of the log that is mostly dead are written again at its end, so that the piece can go.
//! What they belong to keeps its number and all it had. They take a part of the disk, never all of it.

use bytes::Bytes;
use framegate_frame::{Frame, Limits as FrameLimits};
use framegate_storage::{BodyRef, StoreError};

use super::Core;
use super::keeper::Job;
use super::survey::Survivor;
use super::timers::Timer;
use crate::metrics::Metrics;
use crate::record::{Body, Record};
use crate::state::{OPEN_BLOCK, Placed, VOLATILE_BIT};

/// Body bytes of one batch of survivors.
const BATCH_BYTES: usize = 256 * 1024;
/// Survivors of one batch.
const BATCH_MAX: usize = 1024;
/// Time from batch to batch: 8 MiB a second, less than a fifth of what a disk takes.
const EVERY_MS: u64 = 32;

impl Core {
    /// Asks for the next batch, at its time.
    pub(super) fn go_on_moving(&mut self) {
        if !self.keeper.survivors.is_empty() && !self.keeper.reading && !self.keeper.move_timer {
            self.keeper.move_timer = true;
            self.timers.add(self.now.mono_ms + EVERY_MS, Timer::Move);
        }
    }

    /// Has the bodies of the next batch read.
    pub(super) fn move_next(&mut self) {
        self.keeper.move_timer = false;
        if self.closing || self.failed {
            return;
        }
        if self.full {
            // nothing is written twice while there is no room to write it once
            return self.go_on_moving();
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES && batch.len() < BATCH_MAX {
            let Some(survivor) = self.keeper.survivors.pop_front() else { break };
            if self.stands_at(survivor.what) == Some(survivor.body) {
                bytes += survivor.body.len as usize;
                batch.push(survivor);
            }
        }
        if !batch.is_empty() {
            self.keeper.reading = self.keeper.send(Job::Read(batch));
        }
    }

    /// Where the body of a message or event stands now.
    fn stands_at(&self, what: Placed) -> Option<BodyRef> {
        match what {
            Placed::Queue(queue, seq) => self.state(queue).queue(queue)?.slots.get(seq.0)?.body(),
            Placed::Topic(topic, offset) => {
                let entry = self.durable.topic(topic)?.entries.get(offset.0)?;
                Some(entry.body()).filter(|body| body.block.0 != OPEN_BLOCK)
            }
        }
    }

    /// Writes a batch again: one block, so that those of one body can refer to one copy.
    pub(super) fn move_bodies(&mut self, bodies: Vec<(Survivor, Result<Bytes, StoreError>)>) {
        self.keeper.reading = false;
        if self.closing || self.failed {
            return;
        }
        let limits = FrameLimits::gateway(FrameLimits::GATEWAY_DATA_BYTES_CEILING);
        let mut copy: Option<(BodyRef, Body)> = None;
        for (survivor, bytes) in bodies {
            if self.stands_at(survivor.what) != Some(survivor.body) {
                continue;
            }
            let shared = copy.filter(|(body, _)| *body == survivor.body).map(|(_, copy)| copy);
            // one that cannot be read stays where it is: whoever consumes it says what is wrong
            let Some(frame) = bytes.ok().and_then(|b| Frame::parse(b, &limits).ok()) else { continue };
            let len = survivor.body.len;
            let is_logged = match survivor.what {
                Placed::Queue(queue, seq) => {
                    let slot = self.state(queue).queue(queue).and_then(|q| q.slots.get(seq.0));
                    queue.0 & VOLATILE_BIT == 0 && slot.is_some_and(|s| !s.is_transient())
                }
                Placed::Topic(..) => true,
            };
            let body = shared.filter(|_| is_logged).unwrap_or(Body::Memory { len });
            let record = match survivor.what {
                Placed::Queue(queue, seq) if is_logged => Record::Move { queue, seq, body },
                Placed::Queue(queue, seq) => Record::Spill { queue, seq, body },
                Placed::Topic(topic, offset) => Record::MoveEvent { topic, offset, body },
            };
            let (_, written) = self.log(record, Some(&frame), false);
            Metrics::add(&self.shared.metrics.survivors, 1);
            if let Some(Body::Here { offset, len }) = written {
                Metrics::add(&self.shared.metrics.survivor_bytes, len.into());
                let block = framegate_storage::Pos(OPEN_BLOCK);
                copy = Some((survivor.body, Body::At(BodyRef { block, offset, len })));
            }
        }
        if self.keeper.survivors.is_empty() {
            self.follow();
        }
        self.go_on_moving();
    }
}
