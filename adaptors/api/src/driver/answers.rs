//! Which answers are still to come, as far as that can be told from requests and effects. It decides how long a peer that has
//! ended its side is served (`printf ... | nc`), and whether a session that takes no input waits for the broker.

use framegate_broker::{Answer, Effect, Request, RequestId};

/// Answers that are still to come.
#[derive(Debug, Default)]
pub(super) struct AnswersDue {
    replies: usize,
    watermark: Option<RequestId>,
    /// Pulls that may wait long for a message.
    pulls: Vec<RequestId>,
}

impl AnswersDue {
    pub(super) fn asked(&mut self, id: RequestId, request: &Request) {
        match request {
            Request::Publish(publish) if publish.answer == Answer::Watermark => self.watermark = Some(id),
            Request::Publish(publish) if publish.answer == Answer::None => {}
            Request::Settle(settle) | Request::SettleAs(settle, _) if !settle.answer => {}
            Request::Report(_) => {}
            Request::Fetch(fetch) | Request::FetchGroup(fetch, _) if fetch.wait_ms > 0 => self.pulls.push(id),
            Request::Credit(_) | Request::Cancel(_) | Request::Recover(_) => {}
            _ => self.replies += 1,
        }
    }

    pub(super) fn heard(&mut self, effect: &Effect) {
        match effect {
            Effect::Reply(id, _) => match self.pulls.iter().position(|pull| pull == id) {
                Some(at) => drop(self.pulls.swap_remove(at)),
                None => self.replies = self.replies.saturating_sub(1),
            },
            Effect::Confirmed { upto: id } | Effect::Refused { id, .. } => {
                self.watermark = self.watermark.filter(|last| last > id);
            }
            _ => {}
        }
    }

    /// Answers that will come soon.
    pub(super) fn soon(&self) -> bool {
        self.replies > 0 || self.watermark.is_some()
    }

    /// Answers that will come at any time.
    pub(super) fn ever(&self) -> bool {
        self.soon() || !self.pulls.is_empty()
    }
}
