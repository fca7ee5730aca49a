//! Looking without taking: a browse of a queue and the history of a topic, each answered before the next command.

use framegate_storage::Lsn;
use tokio::sync::oneshot;

use super::super::Place;
use super::compare::text;
use super::life::Life;
use super::requests::{queue_name, topic_spec};
use crate::error::BrokerError;
use crate::fold::tests::rig::name;
use crate::fold::{AnswerTo, Core};
use crate::group::{GroupStart, HistoryQuery};
use crate::ids::ConnectionId;
use crate::request::{Browse, Reply};

impl Life {
    /// The answer to a question that goes to the core alone.
    fn ask(&mut self, question: impl FnOnce(&mut Core, AnswerTo)) -> Result<Reply, BrokerError> {
        let (reply, mut answer) = oneshot::channel();
        let core = &mut self.rig.core;
        core.next_call += 1;
        let call = core.next_call;
        core.calls.insert(call, reply);
        question(core, AnswerTo::Call(call));
        loop {
            if let Ok(answer) = answer.try_recv() {
                return answer;
            }
            self.rig.take_next();
        }
    }

    /// Messages of a queue, those included that somebody holds.
    pub(super) fn browse(&mut self, id: ConnectionId, queue: u64, max: u64) -> Result<(), String> {
        let queue = queue_name(queue);
        let browse = Browse { queue: queue.clone(), after: None, max: max as u32, bytes_max: u64::MAX };
        let answer = self.ask(|core, to| core.browse(to, id, &name("/"), &browse));
        let known = self.model.world.queues.get(&queue);
        let Some(known) = known.filter(|q| q.owner.is_none_or(|owner| owner == id)) else {
            return if answer.is_err() { Ok(()) } else { Err(format!("{queue} was shown: {answer:?}")) };
        };
        let Ok(Reply::Browsed { messages, more }) = answer else {
            return Err(format!("{queue} is not shown: {answer:?}"));
        };
        // what is not durable is not shown by a queue that delivers only that
        if known.spec.properties.deliver_durable {
            return Ok(());
        }
        let seen: Vec<_> = messages.iter().map(|m| (text(&m.frame), m.held, m.envelope.clone())).collect();
        let show = |m: &super::super::Message| (text(&m.frame), m.place != Place::Ready, m.shown());
        let wanted: Vec<_> = known.messages.iter().take(max as usize).map(show).collect();
        if seen != wanted || more != (known.messages.len() > max as usize) {
            return Err(format!("{queue} shows {seen:?} and {more}, not {wanted:?}"));
        }
        self.model.met(if wanted.iter().any(|m| m.1) { "shown while held" } else { "browsed" });
        Ok(())
    }

    /// The last events of a topic, or those from its first on.
    pub(super) fn history(&mut self, topic: u64, max: u64, last: bool) -> Result<(), String> {
        let topic = topic_spec(topic, false).name;
        // one that cannot be read before the open block is closed would be answered later
        if self.rig.core.encoder.count() > 0 {
            return Ok(());
        }
        let from = if last { GroupStart::Latest } else { GroupStart::Earliest };
        let max = max as u32;
        let query = HistoryQuery { topic: topic.clone(), from, before: None, until_ms: None, max };
        let answer = self.ask(|core, to| core.history(to, &name("/"), query));
        let Some(known) = self.model.world.topics.get(&topic) else {
            return if answer.is_err() { Ok(()) } else { Err(format!("{topic} was shown: {answer:?}")) };
        };
        let Ok(Reply::History(history)) = answer else {
            return Err(format!("no history of {topic}: {answer:?}"));
        };
        let durable = |at: &&usize| self.model.is_shown(**at);
        let mut wanted: Vec<_> =
            known.events.iter().filter(durable).map(|at| text(&self.model.events[*at].frame)).collect();
        match last {
            true => drop(wanted.drain(..wanted.len().saturating_sub(max as usize))),
            false => wanted.truncate(max as usize),
        }
        let seen: Vec<_> = history.events.iter().map(|e| text(&e.frame)).collect();
        if seen != wanted {
            return Err(format!(
                "history of {topic} {seen:?}, not {wanted:?}, {:?}",
                Lsn(self.model.durable)
            ));
        }
        self.model.met("history");
        Ok(())
    }
}
