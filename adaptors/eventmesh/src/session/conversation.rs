//! What a client that is logged in has going: requests in progress, subscriptions, pushes without ack, calls. Turns what the
//! broker says into packages. Never reads the stream.

use std::collections::HashMap;
use std::time::Duration;

use framegate_adaptor_api::{Adaptors, Outbound, SessionContext};
use framegate_broker::{BrokerError, ConsumerId, Effect, HeaderTable, Reply, Request, RequestId};

use super::call::Calls;
use super::push::Pushes;
use super::subscribe::Subscriptions;
use crate::agent::UserAgent;
use crate::command::Command;
use crate::format::{self, Format};
use crate::header::{FAIL, Header, SUCCESS};
use crate::package::Generation;
use crate::settings::Settings;

/// Which package an answer of the broker becomes.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A publish: its ack.
    Published { answer: Command, seq: String },
    /// The event of a call: nothing, or the call has failed.
    Called { correlation: String },
    /// The queue in which replies arrive: nothing, or all calls have failed.
    ReplyQueue,
    /// A part of SUBSCRIBE_REQUEST, which needs this consumer.
    Subscribing(ConsumerId),
}

pub(super) struct Conversation {
    pub(super) agent: UserAgent,
    pub(super) process: String,
    pub(super) generation: Generation,
    pub(super) push_body: Option<Format>,
    pub(super) window: u32,
    pub(super) adaptors: Adaptors,
    pub(super) headers: HeaderTable,
    next_request: u64,
    waiting: HashMap<RequestId, Waiting>,
    pub(super) subscriptions: Subscriptions,
    pub(super) pushes: Pushes,
    pub(super) calls: Calls,
}

impl Conversation {
    pub(super) fn new(
        agent: UserAgent,
        generation: Generation,
        settings: &Settings,
        context: &SessionContext,
    ) -> Self {
        let asked = agent.unack.and_then(|unack| u32::try_from(unack).ok()).filter(|unack| *unack > 0);
        Self {
            process: agent.process(),
            agent,
            generation,
            push_body: settings.push_body,
            window: asked.unwrap_or(settings.window).min(crate::limits::WINDOW_MAX),
            adaptors: context.adaptors.clone(),
            headers: context.headers.clone(),
            next_request: 0,
            waiting: HashMap::new(),
            subscriptions: Subscriptions::default(),
            pushes: Pushes::default(),
            calls: Calls::default(),
        }
    }

    /// A package of a client that has said hello.
    pub(super) fn package(&mut self, header: &Header<'_>, body: &[u8], out: &mut Outbound) {
        let result = match header.command {
            Command::SubscribeRequest => self.subscribe(&header.seq, body, out),
            Command::UnsubscribeRequest => self.unsubscribe(&header.seq, body, out),
            Command::ListenRequest => {
                self.listen(&header.seq, out);
                Ok(())
            }
            Command::AsyncMessageToServer | Command::BroadcastMessageToServer => {
                self.publish(header, body, out)
            }
            Command::RequestToServer => self.call(header, body, out),
            Command::ResponseToServer => {
                self.respond(header, body, out);
                Ok(())
            }
            Command::AsyncMessageToClientAck
            | Command::BroadcastMessageToClientAck
            | Command::RequestToClientAck => {
                self.acked(header, out);
                Ok(())
            }
            // Answers to what was sent, and what has no handler in the original either.
            _ => Ok(()),
        };
        if let (Err(reason), Some(answer)) = (result, header.command.answer()) {
            self.answer(answer, (FAIL, &reason), &header.seq, out);
        }
    }

    /// Something the broker says.
    pub(super) fn effect(&mut self, effect: Effect, out: &mut Outbound) {
        match effect {
            Effect::Reply(id, result) => self.replied(id, result, out),
            Effect::Delivery(delivery) if delivery.consumer == super::call::REPLIES => {
                self.called_back(&delivery, out);
            }
            Effect::Delivery(delivery) => self.push(&delivery, out),
            Effect::Cancelled { consumer, .. } => {
                self.subscriptions.remove(consumer);
            }
            // Publishes here are answered by replies; publishers that are held are not read.
            _ => {}
        }
    }

    fn replied(&mut self, id: RequestId, result: Result<Reply, BrokerError>, out: &mut Outbound) {
        let failure = result.err().map(|error| error.to_string());
        match self.waiting.remove(&id) {
            Some(Waiting::Published { answer, seq }) => {
                let status = failure.as_deref().map_or(SUCCESS, |reason| (FAIL, reason));
                self.answer(answer, status, &seq, out);
            }
            Some(Waiting::Called { correlation }) => {
                if let Some(reason) = failure {
                    self.call_failed(&correlation, &reason, out);
                }
            }
            Some(Waiting::ReplyQueue) => {
                if let Some(reason) = failure {
                    self.calls_failed(&reason, out);
                }
            }
            Some(Waiting::Subscribing(consumer)) => {
                self.subscription_answered(consumer, failure, out);
            }
            // Acks and credit, which nobody waits for.
            None => {}
        }
    }

    /// Time has passed, since the connection began.
    pub(super) fn tick(&mut self, now: Duration, out: &mut Outbound) {
        self.give_up_calls(now, out);
    }

    /// The client leaves: what it holds goes to others at once.
    pub(super) fn leave(&mut self, out: &mut Outbound) {
        self.end_subscriptions(out);
        self.ask(Request::Recover(None), out);
    }

    /// The server stops: nothing more is pushed.
    pub(super) fn stop(&mut self, out: &mut Outbound) {
        self.leave(out);
        self.calls_failed("the server is stopping", out);
    }

    /// Requests that the broker has not answered.
    pub(super) fn in_progress(&self) -> usize {
        self.waiting.len()
    }

    /// Nobody waits for anything.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends a request whose answer does not matter.
    pub(super) fn ask(&mut self, request: Request, out: &mut Outbound) {
        self.next_request += 1;
        out.request(RequestId(self.next_request), request);
    }

    /// Sends a request whose answer becomes a package.
    pub(super) fn ask_for(&mut self, waiting: Waiting, request: Request, out: &mut Outbound) {
        self.ask(request, out);
        self.waiting.insert(RequestId(self.next_request), waiting);
    }

    /// Writes the answer to a request.
    pub(super) fn answer(&self, command: Command, status: (i64, &str), seq: &str, out: &mut Outbound) {
        super::put_reply(out, self.generation, command, status, seq);
    }

    /// The format of pushes to this client.
    pub(super) fn format(&self, frame: &framegate_frame::Frame) -> Format {
        format::noted(&self.process).or(self.push_body).unwrap_or_else(|| Format::of_origin(frame))
    }
}
