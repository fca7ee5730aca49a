//! Methods of the class queue, and the queues that take direct replies.

use framegate_adaptor_api::Outbound;
use framegate_broker::{BindTarget, BindingSpec, BrokerError, Define, Kind, Name, QueueSpec, Reply, Request};

use super::channel::{Channel, LastQueue};
use super::content::queue_name;
use super::exchange::default_exchange;
use super::link::{Link, name};
use super::pending::{Local, Waiting};
use crate::arguments::{Flags, QueueType, Subject, queue_properties};
use crate::codec::{Method, MethodId, Short, Table};
use crate::failure::{Code, Failure};
use crate::headers;

/// The name that stands for the channel's own direct replies.
pub(super) const REPLY_TO: &[u8] = b"amq.rabbitmq.reply-to";
/// What the names of queues for direct replies begin with.
pub(super) const REPLY_PREFIX: &str = "amq.rabbitmq.reply-to.";
/// What the names that the server makes begin with.
const GENERATED_PREFIX: &str = "amq.gen-";

/// The name of somebody's queue for direct replies.
pub(super) fn is_reply_to(name: &Name) -> bool {
    name.starts_with(REPLY_PREFIX)
}

/// A name that a method leaves to the channel.
pub(super) enum Named {
    Is(Name),
    /// The broker has not said it yet; the method comes again.
    Later,
}

struct Declare<'a> {
    queue: Short<'a>,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    nowait: bool,
    arguments: Table<'a>,
}

impl Channel {
    /// The queue that a method names; an empty name is the one declared last.
    pub(super) fn queue_of(&self, short: Short<'_>, method: MethodId) -> Result<Named, Failure> {
        if !short.0.is_empty() {
            return queue_name(short, method).map(Named::Is);
        }
        match &self.last_queue {
            LastQueue::Named(name) => Ok(Named::Is(name.clone())),
            LastQueue::Awaited => Ok(Named::Later),
            LastQueue::None => Err(Failure::new(Code::NotFound, method, "no previously declared queue")),
        }
    }

    /// A method of the class. False: it comes again when the broker has said the name of the last queue.
    pub(super) fn queue(
        &mut self,
        link: &mut Link,
        method: Method<'_>,
        out: &mut Outbound,
    ) -> Result<bool, Failure> {
        let id = method.id();
        let (define, waiting) = match method {
            Method::QueueDeclare {
                queue,
                passive,
                durable,
                exclusive,
                auto_delete,
                nowait,
                arguments,
                ..
            } => {
                if passive {
                    return self.look(link, queue, nowait, id, out);
                }
                let declare = Declare { queue, durable, exclusive, auto_delete, nowait, arguments };
                return self.declare(link, &declare, id, out).map(|()| true);
            }
            Method::QueueBind { queue, exchange, routing_key, nowait, arguments, .. } => {
                let Named::Is(target) = self.queue_of(queue, id)? else { return Ok(false) };
                let mut key = name(routing_key, id)?;
                if queue.0.is_empty() && key.is_empty() {
                    key = target.clone();
                }
                let exchange = name(exchange, id)?;
                let target = BindTarget::Queue(target);
                let binding =
                    BindingSpec { exchange, target, key, arguments: headers::arguments(&arguments) };
                let ok = (!nowait).then_some(Method::QueueBindOk {});
                (Define::Bind(binding), Waiting::Plain { ok, lenient: false })
            }
            Method::QueueUnbind { queue, exchange, routing_key, arguments, .. } => {
                let Named::Is(target) = self.queue_of(queue, id)? else { return Ok(false) };
                let exchange = name(exchange, id)?;
                if exchange.is_empty() {
                    return Err(default_exchange(id));
                }
                let (target, key) = (BindTarget::Queue(target), name(routing_key, id)?);
                let binding =
                    BindingSpec { exchange, target, key, arguments: headers::arguments(&arguments) };
                let ok = Some(Method::QueueUnbindOk {});
                (Define::Unbind(binding), Waiting::Plain { ok, lenient: true })
            }
            Method::QueuePurge { queue, nowait, .. } => {
                let Named::Is(name) = self.queue_of(queue, id)? else { return Ok(false) };
                (Define::Purge(name), Waiting::Purged { nowait })
            }
            Method::QueueDelete { queue, if_unused, if_empty, nowait, .. } => {
                let Named::Is(name) = self.queue_of(queue, id)? else { return Ok(false) };
                (
                    Define::DeleteQueue { name: name.clone(), if_unused, if_empty },
                    Waiting::Deleted { nowait, name },
                )
            }
            _ => return Ok(true),
        };
        self.ask(link, id, waiting, Request::Define(define), out);
        Ok(true)
    }

    fn look(
        &mut self,
        link: &mut Link,
        queue: Short<'_>,
        nowait: bool,
        id: MethodId,
        out: &mut Outbound,
    ) -> Result<bool, Failure> {
        let Named::Is(name) = self.queue_of(queue, id)? else { return Ok(false) };
        if name.as_bytes() == REPLY_TO {
            self.say_reply_to(&name, nowait, out);
            return Ok(true);
        }
        let waiting = Waiting::Declared { nowait, asked: name.as_str().into() };
        self.ask(link, id, waiting, Request::Define(Define::QueuePassive(name)), out);
        Ok(true)
    }

    fn say_reply_to(&mut self, name: &Name, nowait: bool, out: &mut Outbound) {
        if !nowait {
            self.say(Local::DeclareOk { queue: name.as_str().into(), consumers: 1 }, out);
        }
    }

    fn declare(
        &mut self,
        link: &mut Link,
        declare: &Declare<'_>,
        id: MethodId,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let &Declare { queue, durable, exclusive, auto_delete, nowait, ref arguments } = declare;
        let name = queue_name(queue, id)?;
        if name.as_bytes() == REPLY_TO {
            self.say_reply_to(&name, nowait, out);
            return Ok(());
        }
        if is_reply_to(&name) {
            let waiting = Waiting::Declared { nowait, asked: name.as_str().into() };
            self.ask(link, id, waiting, Request::Define(Define::QueuePassive(name)), out);
            return Ok(());
        }
        let subject = Subject { queue: &name, vhost: &link.vhost, method: id };
        let flags = Flags { durable, exclusive, auto_delete, unnamed: name.is_empty() };
        let kind = subject.queue_type(arguments)?;
        let properties = queue_properties(subject, flags, arguments)?;
        if kind == QueueType::Stream {
            self.last_queue = LastQueue::Named(name.clone());
            return self.declare_stream(link, name, nowait, arguments, id, out);
        }
        self.last_queue = if name.is_empty() { LastQueue::Awaited } else { LastQueue::Named(name.clone()) };
        let waiting = Waiting::Declared { nowait, asked: name.as_str().into() };
        let prefix = GENERATED_PREFIX;
        let spec = QueueSpec { name, prefix, durable, exclusive, auto_delete, properties };
        self.ask(link, id, waiting, Request::Define(Define::Queue(spec)), out);
        Ok(())
    }

    /// Answer to a declaration.
    pub(super) fn declared(
        &mut self,
        link: &mut Link,
        method: MethodId,
        nowait: bool,
        asked: &str,
        result: Result<Reply, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let (queue, ready, consumers) = match result {
            Ok(Reply::Queue(info)) => (info.name, info.ready, info.consumers),
            // Others' queues for direct replies may be looked at.
            Err(BrokerError::Locked { name, .. }) if is_reply_to(&name) => (name, 0, 1),
            Err(BrokerError::Inequivalent { kind: Kind::Queue, name, argument, .. })
                if argument == "exclusive" =>
            {
                let what = format!("queue '{name}' in vhost '{}'", link.vhost);
                return Err(Failure::locked(method, &what));
            }
            Err(BrokerError::NotFound { kind: Kind::Queue, name, .. }) => {
                self.look_for_stream(link, method, nowait, name, out);
                return Ok(());
            }
            Err(error) => return Err(link.failure(error, method)),
            Ok(_) => return Err(Failure::new(Code::InternalError, method, "unexpected answer")),
        };
        if asked.is_empty() && self.last_queue == LastQueue::Awaited {
            self.last_queue = LastQueue::Named(queue.clone());
        }
        if !nowait {
            let message_count = u32::try_from(ready).unwrap_or(u32::MAX);
            let ok = Method::QueueDeclareOk {
                queue: Short::text(&queue),
                message_count,
                consumer_count: consumers,
            };
            self.put(&ok, out);
        }
        Ok(())
    }
}
