//! Subscriptions: SUBSCRIBE_REQUEST makes this connection a member of its group (CLUSTERING) or a subscriber of its own
//! (BROADCASTING), LISTEN_REQUEST lets messages flow (reference `eventmesh.md` 3.5 and 3.8).

use std::collections::HashMap;

use framegate_adaptor_api::Outbound;
use framegate_broker::feed::From;
use framegate_broker::{
    BrokerError, Consume, ConsumerId, Credit, Define, GroupSpec, Member, Name, Request, Subscribe,
};

use super::conversation::{Conversation, Waiting};
use crate::command::Command;
use crate::header::{FAIL, SUCCESS};
use crate::limits::{ACK_TIMEOUT_MS, SUBSCRIPTIONS_MAX};
use crate::topics::{self, Mode, Wanted};

/// What is appended to a topic's name for its dead letters; such a topic has none itself.
const DEAD_LETTER_SUFFIX: &str = "_DLQ";

/// A subscription of the connection.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) topic: Name,
    pub(super) mode: Mode,
    /// What its messages are pushed as.
    pub(super) push: Command,
    /// Answers of the broker that are still to come.
    outstanding: u8,
    /// The request that made it, while it is not answered.
    request: Option<u64>,
}

/// A SUBSCRIBE_REQUEST that is not answered.
#[derive(Debug)]
struct Asked {
    seq: String,
    subscriptions: usize,
    failure: Option<String>,
}

/// All subscriptions of a connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    by_consumer: HashMap<ConsumerId, Subscription>,
    asked: HashMap<u64, Asked>,
    asked_last: u64,
    /// 0 is the consumer of replies.
    consumer_last: u32,
    pub(super) listening: bool,
}

impl Subscriptions {
    pub(super) fn get(&self, consumer: ConsumerId) -> Option<&Subscription> {
        self.by_consumer.get(&consumer)
    }

    pub(super) fn remove(&mut self, consumer: ConsumerId) -> Option<Subscription> {
        self.by_consumer.remove(&consumer)
    }

    fn find(&mut self, wanted: &Wanted) -> Option<&mut Subscription> {
        let same = |s: &&mut Subscription| s.topic == wanted.topic && s.mode == wanted.mode;
        self.by_consumer.values_mut().find(same)
    }
}

/// The group of a topic that all connections of an EventMesh group share: whoever is free, 30 s to ack, six attempts, then
/// the topic's dead letters (5.2 and 5.3).
fn group(topic: &Name, name: Name) -> Result<GroupSpec, BrokerError> {
    let dead_letter_topic = match topic.ends_with(DEAD_LETTER_SUFFIX) {
        true => None,
        false => Some(Name::new(&format!("{topic}{DEAD_LETTER_SUFFIX}"))?),
    };
    let spec = GroupSpec::new(topic.clone(), name);
    Ok(GroupSpec { dead_letter_topic, lease_ms: Some(ACK_TIMEOUT_MS), ..spec })
}

impl Conversation {
    /// Subscribes; the answer leaves when the broker has answered for every topic.
    ///
    /// # Errors
    /// The words of a refusal.
    pub(super) fn subscribe(&mut self, seq: &str, body: &[u8], out: &mut Outbound) -> Result<(), String> {
        let wanted = topics::parse(body)?;
        if wanted.is_empty() {
            return Err("topicList: is empty".to_owned());
        }
        let have = self.subscriptions.by_consumer.len();
        if have + wanted.len() > SUBSCRIPTIONS_MAX {
            return Err(format!("{have} subscriptions and {} more are too many", wanted.len()));
        }
        let name = Name::declared(self.agent.group()).map_err(|error| error.to_string())?;
        let groups = wanted.iter().map(|wanted| group(&wanted.topic, name.clone()));
        let groups: Vec<GroupSpec> =
            groups.collect::<Result<_, _>>().map_err(|error: BrokerError| error.to_string())?;
        self.subscriptions.asked_last += 1;
        let request = self.subscriptions.asked_last;
        let mut subscriptions = 0;
        for (wanted, group) in wanted.into_iter().zip(groups) {
            // Subscribed again it is the same subscription; only what its messages are pushed as may change.
            if let Some(known) = self.subscriptions.find(&wanted) {
                known.push = wanted.push;
                continue;
            }
            subscriptions += 1;
            self.start(request, wanted, group, out);
        }
        if subscriptions == 0 {
            self.answer(Command::SubscribeResponse, SUCCESS, seq, out);
            return Ok(());
        }
        let asked = Asked { seq: seq.to_owned(), subscriptions, failure: None };
        self.subscriptions.asked.insert(request, asked);
        Ok(())
    }

    fn start(&mut self, request: u64, wanted: Wanted, group: GroupSpec, out: &mut Outbound) {
        self.subscriptions.consumer_last += 1;
        let consumer = ConsumerId(self.subscriptions.consumer_last);
        let Wanted { topic, mode, push } = wanted;
        let outstanding = if mode == Mode::Clustering { 2 } else { 1 };
        let subscription =
            Subscription { topic: topic.clone(), mode, push, outstanding, request: Some(request) };
        self.subscriptions.by_consumer.insert(consumer, subscription);
        if mode == Mode::Broadcasting {
            return out.subscribe.push((consumer, Subscribe { patterns: vec![topic], from: From::Latest }));
        }
        let member = Member::of(group.name.clone());
        let prefetch = Some(if self.subscriptions.listening { self.window } else { 0 });
        let consume = Consume {
            consumer,
            queue: topic,
            prefetch,
            pool: None,
            exclusive: false,
            auto_ack: false,
            lease_ms: Some(ACK_TIMEOUT_MS),
            tokens: false,
            priority: 0,
        };
        // A group that exists with other rules keeps them: what counts is whether it can be joined.
        self.ask_for(Waiting::Subscribing(consumer), Request::Define(Define::Group(group)), out);
        self.ask_for(Waiting::Subscribing(consumer), Request::ConsumeGroup(consume, member), out);
    }

    /// The broker has answered for a part of a subscription.
    pub(super) fn subscription_answered(
        &mut self,
        consumer: ConsumerId,
        failure: Option<String>,
        out: &mut Outbound,
    ) {
        let Some(subscription) = self.subscriptions.by_consumer.get_mut(&consumer) else { return };
        subscription.outstanding = subscription.outstanding.saturating_sub(1);
        if subscription.outstanding > 0 {
            return;
        }
        let request = subscription.request.take();
        if failure.is_some() {
            self.subscriptions.by_consumer.remove(&consumer);
        }
        let Some(request) = request else { return };
        let Some(asked) = self.subscriptions.asked.get_mut(&request) else { return };
        asked.subscriptions -= 1;
        asked.failure = asked.failure.take().or(failure);
        if asked.subscriptions == 0
            && let Some(asked) = self.subscriptions.asked.remove(&request)
        {
            let status = asked.failure.as_deref().map_or(SUCCESS, |reason| (FAIL, reason));
            self.answer(Command::SubscribeResponse, status, &asked.seq, out);
        }
    }

    /// A broadcast subscription is live, or was refused.
    pub(super) fn subscribed(
        &mut self,
        consumer: ConsumerId,
        result: Result<(), BrokerError>,
        out: &mut Outbound,
    ) {
        self.subscription_answered(consumer, result.err().map(|error| error.to_string()), out);
    }

    /// Lets messages flow. Answered each time, before the first message.
    pub(super) fn listen(&mut self, seq: &str, out: &mut Outbound) {
        self.answer(Command::ListenResponse, SUCCESS, seq, out);
        if std::mem::replace(&mut self.subscriptions.listening, true) {
            return;
        }
        let consumers: Vec<(ConsumerId, Mode)> =
            self.subscriptions.by_consumer.iter().map(|(consumer, s)| (*consumer, s.mode)).collect();
        for (consumer, mode) in consumers {
            match mode {
                Mode::Clustering => {
                    let credit = Credit::Consumer(consumer, Some(self.window));
                    self.ask(Request::Credit(credit), out);
                }
                Mode::Broadcasting => out.resume_feed.push(consumer),
            }
        }
    }

    /// Ends the subscriptions to the topics of the body, or all of them.
    ///
    /// # Errors
    /// The words of a refusal.
    pub(super) fn unsubscribe(&mut self, seq: &str, body: &[u8], out: &mut Outbound) -> Result<(), String> {
        let wanted = topics::parse(body)?;
        let consumers = self.subscriptions.by_consumer.iter().filter(|(_, subscription)| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted.topic == subscription.topic)
        });
        let consumers: Vec<ConsumerId> = consumers.map(|(consumer, _)| *consumer).collect();
        for consumer in consumers {
            self.end_subscription(consumer, out);
        }
        self.answer(Command::UnsubscribeResponse, SUCCESS, seq, out);
        Ok(())
    }

    /// Ends all subscriptions.
    pub(super) fn end_subscriptions(&mut self, out: &mut Outbound) {
        let consumers: Vec<ConsumerId> = self.subscriptions.by_consumer.keys().copied().collect();
        for consumer in consumers {
            self.end_subscription(consumer, out);
        }
    }

    fn end_subscription(&mut self, consumer: ConsumerId, out: &mut Outbound) {
        // A request that made it and was not answered is answered as if it had worked: it did.
        if let Some(subscription) = self.subscriptions.by_consumer.get_mut(&consumer) {
            subscription.outstanding = subscription.outstanding.min(1);
        }
        let mode = self.subscriptions.get(consumer).map(|subscription| subscription.mode);
        self.subscription_answered(consumer, None, out);
        self.subscriptions.remove(consumer);
        match mode {
            Some(Mode::Clustering) => self.ask(Request::Cancel(consumer), out),
            Some(Mode::Broadcasting) => out.unsubscribe.push(consumer),
            None => {}
        }
    }
}
