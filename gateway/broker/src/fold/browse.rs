//! Looking at messages without taking them: what to show is picked here, bodies that are not in memory are read by the
//! reader pool, and the answer leaves when they are there.

use framegate_frame::Frame;
use framegate_storage::{BodyRef, Lsn};

use super::jobs::JobHead;
use super::work::Work;
use super::{AnswerTo, Core};
use crate::ids::{ConnectionId, QueueId, Seq};
use crate::limits::{BROWSE_BYTES_MAX, BROWSE_MESSAGES_MAX};
use crate::message::Origin;
use crate::name::Name;
use crate::request::{Browse, Browsed, Reply};

/// A message to show before its frame is read.
pub(super) struct Unseen {
    pub(super) frame: Result<Frame, BodyRef>,
    /// Everything else of it.
    pub(super) shown: Box<dyn FnOnce(Frame) -> Browsed + Send>,
}

/// A browse whose bodies have to be read.
pub(super) struct BrowseJob {
    pub(super) to: AnswerTo,
    pub(super) messages: Vec<Unseen>,
    pub(super) more: bool,
    /// The jobs that these are the messages of, in the same order.
    pub(super) jobs: Option<Vec<JobHead>>,
}

impl Core {
    /// A browse in its turn.
    pub(super) fn browse(&mut self, to: AnswerTo, connection: ConnectionId, vhost: &Name, browse: &Browse) {
        let queue = match self.usable(connection, vhost, &browse.queue) {
            Ok(queue) => queue,
            Err(error) => return self.answer(to, Lsn(0), Err(error)),
        };
        let (messages, more) = self.pick(queue, browse);
        if messages.iter().all(|m| m.frame.is_ok()) {
            let show = |m: Unseen| m.frame.ok().map(m.shown);
            let messages = messages.into_iter().filter_map(show).collect();
            return self.browsed(to, messages, more, None);
        }
        if let Err(error) = self.reader.browse(BrowseJob { to, messages, more, jobs: None }) {
            self.answer(to, Lsn(0), Err(error));
        }
    }

    /// What was picked has been read.
    pub(super) fn browsed(
        &mut self,
        to: AnswerTo,
        messages: Vec<Browsed>,
        more: bool,
        jobs: Option<Vec<JobHead>>,
    ) {
        if let Some(heads) = jobs {
            return self.jobs_read(to, heads, messages);
        }
        self.answer(to, Lsn(0), Ok(Reply::Browsed { messages, more }));
    }

    fn pick(&self, id: QueueId, browse: &Browse) -> (Vec<Unseen>, bool) {
        let mut messages = Vec::new();
        let (Some(queue), Some(live)) = (self.state(id).queue(id), self.live.get(&id)) else {
            return (messages, false);
        };
        let max = browse.max.clamp(1, BROWSE_MESSAGES_MAX) as usize;
        let bytes_max = browse.bytes_max.min(BROWSE_BYTES_MAX);
        let mut bytes = 0;
        let mut at = browse.after.map_or(0, |after| after.0.saturating_add(1));
        while let Some((number, slot)) = queue.slots.at_or_after(at).filter(|(n, _)| *n <= live.visible) {
            at = number + 1;
            let seq = Seq(number);
            if live.purging > 0 && self.is_purged(id, seq) {
                continue;
            }
            bytes += u64::from(slot.len);
            if messages.len() == max || (bytes > bytes_max && !messages.is_empty()) {
                return (messages, true);
            }
            let frame = live.frames.get(&number).cloned();
            // a frame that is nowhere yet is in memory
            let (Some(envelope), Some(frame)) =
                (queue.envelope(seq), frame.map(Ok).or_else(|| slot.body().map(Err)))
            else {
                continue;
            };
            let held = !live.ready.is_ready(number, queue.weight(seq).rank);
            let redelivered = number <= live.seen_before || envelope.attempts > 0;
            let origin =
                Origin { vhost: queue.vhost.clone(), name: queue.spec.name.clone(), id: id.0, seq: number };
            let shown = move |frame| Browsed { seq, held, redelivered, envelope, frame, origin };
            messages.push(Unseen { frame, shown: Box::new(shown) });
        }
        (messages, false)
    }

    /// It was purged, and only memory does not know that yet.
    fn is_purged(&self, queue: QueueId, seq: Seq) -> bool {
        self.work.iter().any(|work| match work {
            Work::Purge { queue: of, seqs, .. } if *of == queue => seqs.contains(seq),
            _ => false,
        })
    }
}
