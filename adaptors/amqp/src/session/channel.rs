//! One channel: what it is in the middle of, what it has to say, what its client has not settled. Methods of each class are in
//! files of their own.

use std::collections::VecDeque;
use std::time::Duration;

use framegate_adaptor_api::{Outbound, Unacked};
use framegate_broker::{BrokerError, ConsumerId, Name, PoolId, Reply, Request, RequestId};

use super::ack_timeout::AckTimeouts;
use super::content::Content;
use super::link::{Link, NOBODY, split_id};
use super::pending::{Local, Pending, Waiting};
use super::stream::Wanted;
use super::tx::Tx;
use crate::arguments::{consumer_timeout, is_quorum};
use crate::codec::{Long, Method, MethodId, Short, put_method};
use crate::failure::{Failure, Scope};

/// How far a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// A refusal waits for its turn; input is ignored.
    Failing,
    /// Our close is out; the client's close-ok is waited for.
    Closing,
    /// The client closes; what it asked for before is still answered.
    Leaving,
    /// Its number is free.
    Gone,
}

/// What becomes of publishes and settlements.
#[derive(Debug)]
pub(super) enum Mode {
    Plain,
    /// Publishes are counted and confirmed; so many have been.
    Confirm {
        confirmed: u64,
    },
    Tx(Box<Tx>),
}

/// The queue that an empty name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LastQueue {
    None,
    Named(Name),
    /// The broker makes its name.
    Awaited,
}

/// Holds what was pulled from a queue.
#[derive(Debug)]
pub(super) struct Getter {
    pub(super) queue: Name,
    pub(super) consumer: ConsumerId,
    /// The queue tells how often a delivery failed before.
    pub(super) tells_count: bool,
    /// How long the queue lets a delivery stay unsettled, if it says so.
    pub(super) ack_timeout: Option<Duration>,
}

/// See the top of the file.
pub(super) struct Channel {
    pub(super) number: u16,
    /// Requests of this channel are above this; answers to older ones are for an earlier channel of this number.
    opened: u64,
    pub(super) phase: Phase,
    pub(super) mode: Mode,
    pub(super) content: Option<Content>,
    pub(super) pending: VecDeque<Pending>,
    pub(super) unacked: Unacked,
    /// How long deliveries may stay unsettled.
    ack_timeouts: AckTimeouts,
    pub(super) consumers: Vec<ConsumerId>,
    /// Of consumers that start from now on; 0: unlimited.
    pub(super) prefetch: u16,
    /// Limit that its consumers share, once one was set.
    pub(super) pool: Option<PoolId>,
    pub(super) last_queue: LastQueue,
    /// Who pulls, by the queue of the last pull.
    pub(super) getter: Option<Getter>,
    /// Where direct replies come in.
    pub(super) reply_queue: Option<Name>,
    /// The exchange that the last publish of a transaction was checked for.
    pub(super) checked_exchange: Option<Name>,
}

impl Channel {
    pub(super) fn new(number: u16, link: &Link) -> Self {
        Self {
            number,
            opened: link.request_mark(),
            phase: Phase::Open,
            mode: Mode::Plain,
            content: None,
            pending: VecDeque::new(),
            unacked: Unacked::new(),
            ack_timeouts: AckTimeouts::default(),
            consumers: Vec::new(),
            prefetch: 0,
            pool: None,
            last_queue: LastQueue::None,
            getter: None,
            reply_queue: None,
            checked_exchange: None,
        }
    }

    /// The answer is for this channel, not for an earlier one of its number.
    pub(super) fn owns(&self, id: RequestId) -> bool {
        split_id(id).1 > self.opened
    }

    /// Asks the broker; its answer is said in its turn.
    pub(super) fn ask(
        &mut self,
        link: &mut Link,
        method: MethodId,
        waiting: Waiting,
        request: Request,
        out: &mut Outbound,
    ) -> RequestId {
        let id = link.request(self.number, request, out);
        self.pending.push_back(Pending::Broker { id, method, waiting });
        id
    }

    /// Says something behind what is still to be said.
    pub(super) fn say(&mut self, local: Local, out: &mut Outbound) {
        if self.pending.is_empty() {
            self.utter(local, out);
        } else {
            self.pending.push_back(Pending::Local(local));
        }
    }

    /// Says a method without fields that must live, unless the client does not want to hear it.
    pub(super) fn say_unless(&mut self, nowait: bool, method: Method<'static>, out: &mut Outbound) {
        if !nowait {
            self.say(Local::Send(method), out);
        }
    }

    /// Writes a method now.
    pub(super) fn put(&self, method: &Method<'_>, out: &mut Outbound) {
        put_method(out.buffer(), self.number, method);
    }

    fn utter(&mut self, local: Local, out: &mut Outbound) {
        match local {
            Local::Send(method) => self.put(&method, out),
            Local::DeclareOk { queue, consumers } => {
                let queue = Short::text(&queue);
                self.put(&Method::QueueDeclareOk { queue, message_count: 0, consumer_count: consumers }, out);
            }
            Local::CancelOk(tag) => self.put(&Method::BasicCancelOk { consumer_tag: Short::text(&tag) }, out),
            Local::Cancel(tag) => {
                self.put(&Method::BasicCancel { consumer_tag: Short::text(&tag), nowait: true }, out);
            }
            Local::CloseOk => {
                self.put(&Method::ChannelCloseOk {}, out);
                self.phase = Phase::Gone;
            }
            Local::Fail(failure) => self.put_close(&failure, out),
        }
    }

    /// Says what has come to its turn.
    pub(super) fn utter_due(&mut self, out: &mut Outbound) {
        while let Some(Pending::Local(_)) = self.pending.front() {
            if let Some(Pending::Local(local)) = self.pending.pop_front() {
                self.utter(local, out);
            }
        }
    }

    fn put_close(&mut self, failure: &Failure, out: &mut Outbound) {
        let Failure { code, text, method, .. } = failure;
        let close = Method::ChannelClose {
            code: code.number(),
            text: Short::text(text),
            class: method.class,
            method: method.method,
        };
        self.put(&close, out);
        self.phase = Phase::Closing;
        self.pending.clear();
    }

    /// Refuses: what the channel holds goes back, and it closes behind what is still to be said.
    pub(super) fn fail(&mut self, link: &mut Link, failure: Failure, out: &mut Outbound) {
        if self.phase != Phase::Open {
            return;
        }
        self.give_back(link, out);
        self.phase = Phase::Failing;
        self.say(Local::Fail(failure), out);
    }

    /// The broker refused something: nothing that was asked later is answered.
    fn fail_now(&mut self, link: &mut Link, failure: &Failure, out: &mut Outbound) {
        match self.phase {
            Phase::Open => drop(self.give_back(link, out)),
            Phase::Failing => {}
            Phase::Closing | Phase::Leaving | Phase::Gone => return,
        }
        self.put_close(failure, out);
    }

    /// The client closes the channel.
    pub(super) fn leave(&mut self, link: &mut Link, out: &mut Outbound) {
        match self.phase {
            Phase::Open => {
                let last = self.give_back(link, out);
                self.phase = Phase::Leaving;
                match last {
                    Some(id) => {
                        let (method, waiting) = (MethodId::NONE, Waiting::Closed);
                        self.pending.push_back(Pending::Broker { id, method, waiting });
                    }
                    None => self.say(Local::CloseOk, out),
                }
            }
            Phase::Failing | Phase::Closing => {
                self.pending.clear();
                self.say(Local::CloseOk, out);
            }
            Phase::Leaving | Phase::Gone => {}
        }
    }

    /// Closes the channel when a delivery has not been settled for too long. `timeout`: where its queue says nothing; zero: never.
    pub(super) fn check_acks(
        &mut self,
        link: &mut Link,
        now: Duration,
        timeout: Duration,
        out: &mut Outbound,
    ) {
        let own = |consumer| match &self.getter {
            Some(getter) if getter.consumer == consumer => getter.ack_timeout,
            _ => link.consumers.get(&consumer).and_then(|consumer| consumer.ack_timeout),
        };
        if let Some(passed) = self.ack_timeouts.passed(&self.unacked, now, timeout, own) {
            let text = format!(
                "delivery acknowledgement on channel {} timed out. Timeout value used: {} ms. This timeout value \
                 can be configured, see consumers doc guide to learn more",
                self.number,
                passed.as_millis()
            );
            self.fail(link, Failure::precondition(MethodId::NONE, text), out);
        }
    }

    /// Ends consumers, requeues what is unsettled, forgets what was begun. The last request of it, if there was one.
    pub(super) fn give_back(&mut self, link: &mut Link, out: &mut Outbound) -> Option<RequestId> {
        if let Some(content) = self.content.take() {
            content.forget(link);
        }
        if let Mode::Tx(tx) = &mut self.mode {
            drop(tx.take(&mut link.in_tx));
        }
        let mut holders = std::mem::take(&mut self.consumers);
        holders.retain(|consumer| {
            let gone = link.consumers.remove(consumer);
            let is_stream = gone.is_some_and(|c| c.stream.is_some());
            if is_stream {
                out.unsubscribe.push(*consumer);
                // of a start that is given up nothing will be heard
                link.hold_for = link.hold_for.filter(|starting| starting != consumer);
            } else {
                link.request(self.number, Request::Cancel(*consumer), out);
            }
            !is_stream
        });
        for (consumer, _) in self.unacked.take_all() {
            if consumer != NOBODY && !holders.contains(&consumer) {
                holders.push(consumer);
            }
        }
        let mut last = None;
        for consumer in holders {
            last = Some(link.request(self.number, Request::Recover(Some(consumer)), out));
        }
        last
    }

    /// An answer of the broker.
    pub(super) fn answer(
        &mut self,
        link: &mut Link,
        id: RequestId,
        result: Result<Reply, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let is_it = |pending: &Pending| matches!(pending, Pending::Broker { id: of, .. } if *of == id);
        let Some(at) = self.pending.iter().position(is_it) else {
            return self.answer_unasked(link, result, out);
        };
        let Some(Pending::Broker { method, waiting, .. }) = self.pending.remove(at) else { return Ok(()) };
        let done = match self.phase {
            Phase::Leaving if !matches!(waiting, Waiting::Closed) => result.map(drop).or(Ok(())),
            _ => self.complete(link, method, waiting, result, out),
        };
        match done {
            Err(failure) if failure.scope == Scope::Channel => self.fail_now(link, &failure, out),
            Err(failure) => return Err(failure),
            Ok(()) => {}
        }
        self.utter_due(out);
        Ok(())
    }

    /// Answers that nobody waits for: settlements of what is gone by now, publishes that were refused.
    fn answer_unasked(
        &mut self,
        link: &mut Link,
        result: Result<Reply, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        match result {
            Ok(_) | Err(BrokerError::UnknownDelivery | BrokerError::QueueFull { .. }) => Ok(()),
            Err(_) if self.phase != Phase::Open => Ok(()),
            Err(error) => {
                let failure = link.failure(error, super::content::PUBLISH);
                if failure.scope == Scope::Connection {
                    return Err(failure);
                }
                self.fail(link, failure, out);
                Ok(())
            }
        }
    }

    fn complete(
        &mut self,
        link: &mut Link,
        method: MethodId,
        waiting: Waiting,
        result: Result<Reply, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        match waiting {
            Waiting::Plain { ok, lenient } => {
                match result {
                    Err(BrokerError::NotFound { .. }) if lenient => {}
                    result => drop(result.map_err(|error| link.failure(error, method))?),
                }
                if let Some(ok) = ok {
                    self.put(&ok, out);
                }
            }
            Waiting::Declared { nowait, asked } => {
                self.declared(link, method, nowait, &asked, result, out)?;
            }
            Waiting::Purged { nowait } => {
                let count = match removed(result) {
                    Ok(count) => count,
                    Err(error) => return self.refuse_stream(link, method, "queue.purge", error, out),
                };
                if !nowait {
                    self.put(&Method::QueuePurgeOk { message_count: count }, out);
                }
            }
            Waiting::Deleted { nowait, name } => {
                let count = match removed(result) {
                    Err(BrokerError::NotFound { .. }) => {
                        self.delete_stream(link, method, nowait, name, out);
                        return Ok(());
                    }
                    result => result.map_err(|error| link.failure(error, method))?,
                };
                if !nowait {
                    self.put(&Method::QueueDeleteOk { message_count: count }, out);
                }
            }
            Waiting::Looked(consumer) => self.looked(link, method, consumer, result)?,
            Waiting::ReplyQueue { consumer, nowait } => {
                self.reply_queue_made(link, method, consumer, nowait, result, out)?;
            }
            Waiting::Consuming { consumer, nowait } => {
                self.consuming(link, method, consumer, nowait, result, out)?;
            }
            Waiting::Cancelling { consumer, nowait } => self.cancelled(link, consumer, nowait, out),
            Waiting::StreamLooked { nowait, name } => {
                self.stream_looked(link, method, nowait, &name, result, out)?;
            }
            Waiting::StreamFound { consumer, nowait, name } => {
                self.stream_found(link, method, Wanted { consumer, nowait, name }, result, out)?;
            }
            Waiting::Refusing { what, name } => {
                return Err(self.stream_refused(link, method, what, &name, result));
            }
            Waiting::LookedToGet => {
                // When it is not there the pull says so.
                if let (Ok(Reply::Queue(info)), Some(getter)) = (result, self.getter.as_mut()) {
                    getter.tells_count = is_quorum(&info.properties);
                    getter.ack_timeout = consumer_timeout(&info.properties);
                }
            }
            Waiting::Got { consumer, no_ack } => self.got(link, method, consumer, no_ack, result, out)?,
            Waiting::Committed => {
                result.map_err(|error| link.failure(error, method))?;
                self.put(&Method::TxCommitOk {}, out);
            }
            Waiting::Closed => {
                self.pending.clear();
                self.utter(Local::CloseOk, out);
            }
        }
        Ok(())
    }
}

fn removed(result: Result<Reply, BrokerError>) -> Result<u32, BrokerError> {
    match result? {
        Reply::Removed { messages } => Ok(u32::try_from(messages).unwrap_or(u32::MAX)),
        _ => Ok(0),
    }
}

/// Answer to `channel.open`.
pub(super) fn open_ok() -> Method<'static> {
    Method::ChannelOpenOk { reserved_1: Long(&[]) }
}
