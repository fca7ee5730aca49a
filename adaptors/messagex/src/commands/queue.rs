//! Queues and their bindings: declare, delete, purge, list, get, bind, unbind.

use bytes::{BufMut as _, BytesMut};
use framegate_adaptor_api::Outbound;
use framegate_broker::{
    BindTarget, BindingInfo, BindingSpec, Define, HeaderValue, Name, Query, QueueInfo, QueueSpec, Reply,
    Request,
};

use super::arguments::binding_arguments;
use super::queue_arguments::{Flags, put_arguments as put_queue_arguments, queue_properties};
use super::{Call, has_list_room};
use crate::codec::{begin_success, put_success};
use crate::conversation::{Conversation, Unexpected};
use crate::errors::{Code, Failure};
use crate::headers::put_value;
use crate::json::Object;
use crate::pending::Waiting;
use crate::schema::Key;

/// Prefix of names that the server makes.
const GENERATED: &str = "mx.gen-";
/// Names with this prefix are the protocol's own; `amq.` is refused by the broker, which knows what exists.
const RESERVED: &str = "mx.";

/// Refuses to create something under a reserved name.
pub(super) fn check_not_reserved(what: &str, name: &str) -> Result<(), Failure> {
    if name.starts_with(RESERVED) {
        let message = format!("{what} name '{name}' is reserved");
        return Err(Failure::new(Code::ResourceReserved, message));
    }
    Ok(())
}

impl Conversation {
    pub(super) fn queue_declare(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let payload = call.payload;
        let name = Name::new(payload.text_or_empty(Key::Name))?;
        let passive = payload.flag(Key::Passive);
        if passive && name.is_empty() {
            return Err(Failure::field("name", "must not be empty when passive"));
        }
        let define = if passive {
            Define::QueuePassive(name)
        } else {
            check_not_reserved("Queue", &name)?;
            let flags = Flags {
                durable: payload.flag(Key::Durable),
                exclusive: payload.flag(Key::Exclusive),
                auto_delete: payload.flag(Key::AutoDelete),
            };
            Define::Queue(QueueSpec {
                name,
                prefix: GENERATED,
                durable: flags.durable,
                exclusive: flags.exclusive,
                auto_delete: flags.auto_delete,
                properties: queue_properties(payload.raw(Key::Arguments), flags)?,
            })
        };
        self.ask(call, Request::Define(define), Waiting::QueueDeclared);
        Ok(())
    }

    pub(super) fn queue_delete(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let name = Name::new(call.payload.text_or_empty(Key::Name))?;
        let define = Define::DeleteQueue {
            name: name.clone(),
            if_unused: call.payload.flag(Key::IfUnused),
            if_empty: call.payload.flag(Key::IfEmpty),
        };
        self.ask(call, Request::Define(define), Waiting::Removed(name));
        Ok(())
    }

    pub(super) fn queue_purge(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let name = Name::new(call.payload.text_or_empty(Key::Name))?;
        self.ask(call, Request::Define(Define::Purge(name.clone())), Waiting::Removed(name));
        Ok(())
    }

    pub(super) fn queue_list(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        self.ask(call, Request::Query(Query::Queues), Waiting::Queues);
        Ok(())
    }

    pub(super) fn queue_get(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let name = Name::new(call.payload.text_or_empty(Key::Name))?;
        self.ask(call, Request::Query(Query::Queue(name)), Waiting::QueueInfo);
        Ok(())
    }

    /// Makes (`true`) or removes a binding.
    pub(super) fn bind(&mut self, call: &mut Call<'_>, make: bool) -> Result<(), Failure> {
        let payload = call.payload;
        let queue = Name::new(payload.text_or_empty(Key::QueueName))?;
        let exchange = Name::new(payload.text_or_empty(Key::ExchangeName))?;
        let key = Name::new(payload.text_or_empty(Key::Routing))?;
        let spec = BindingSpec {
            exchange: exchange.clone(),
            target: BindTarget::Queue(queue.clone()),
            key: key.clone(),
            arguments: binding_arguments(payload.raw(Key::Arguments))?,
        };
        let define = if make { Define::Bind(spec) } else { Define::Unbind(spec) };
        self.ask(call, Request::Define(define), Waiting::Bound { queue, exchange, key });
        Ok(())
    }

    pub(super) fn binding_list(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let name = |key| call.payload.text(key).map(Name::new).transpose();
        let query = Query::Bindings { exchange: name(Key::ExchangeName)?, queue: name(Key::QueueName)? };
        self.ask(call, Request::Query(query), Waiting::Bindings);
        Ok(())
    }

    /// Asks the broker something that answers the command.
    pub(super) fn ask(&mut self, call: &mut Call<'_>, request: Request, waiting: Waiting) {
        let id = self.in_progress.add(call.request_id, waiting);
        call.out.request(id, request);
    }

    pub(crate) fn queue_reply(
        request_id: &str,
        waiting: &Waiting,
        reply: &Reply,
        out: &mut Outbound,
    ) -> Result<(), Unexpected> {
        match (waiting, reply) {
            (Waiting::QueueDeclared, Reply::Queue(queue)) => {
                put_success(request_id, out, |buffer| put_declared(buffer, queue));
            }
            (Waiting::QueueInfo, Reply::Queue(queue)) => {
                put_success(request_id, out, |buffer| put_queue(buffer, queue));
            }
            (Waiting::Removed(name), Reply::Removed { messages }) => put_success(request_id, out, |buffer| {
                let mut object = Object::begin(buffer);
                object.text("name", name);
                object.number("messageCount", messages);
                object.end();
            }),
            (Waiting::Queues, Reply::Queues(queues)) => {
                put_list(request_id, "queues", queues, put_queue, out);
            }
            _ => return Err(Unexpected),
        }
        Ok(())
    }

    pub(crate) fn bound_reply(request_id: &str, [queue, exchange, key]: [&Name; 3], out: &mut Outbound) {
        put_success(request_id, out, |buffer| {
            let mut object = Object::begin(buffer);
            object.text("queueName", queue);
            object.text("exchangeName", exchange);
            object.text("routingKey", key);
            object.end();
        });
    }

    pub(crate) fn bindings_reply(
        request_id: &str,
        reply: &Reply,
        out: &mut Outbound,
    ) -> Result<(), Unexpected> {
        let Reply::Bindings(bindings) = reply else { return Err(Unexpected) };
        put_list(request_id, "bindings", bindings, put_binding, out);
        Ok(())
    }
}

/// Writes a response that is one list. What does not fit the packet is left out, and `truncated` says so.
pub(super) fn put_list<T>(
    request_id: &str,
    name: &str,
    items: &[T],
    put_item: impl Fn(&mut BytesMut, &T),
    out: &mut Outbound,
) {
    let packet = begin_success(request_id, out);
    out.put(b"{\"");
    out.put(name.as_bytes());
    out.put(b"\":[");
    let mut written = 0;
    for item in items {
        if !has_list_room(packet.payload_bytes(out)) {
            break;
        }
        if written > 0 {
            out.put(b",");
        }
        put_item(out.buffer(), item);
        written += 1;
    }
    out.put(if written < items.len() { b"],\"truncated\":true}}" } else { b"]}}" });
    // The last item started below the limit less a reserve that holds any item.
    let _ = packet.end(out);
}

fn put_declared(buffer: &mut BytesMut, queue: &QueueInfo) {
    let mut object = Object::begin(buffer);
    object.text("name", &queue.name);
    object.flag("durable", queue.durable);
    object.flag("exclusive", queue.exclusive);
    object.flag("autoDelete", queue.auto_delete);
    object.number("messageCount", queue.ready);
    object.number("consumerCount", queue.consumers);
    object.end();
}

pub(crate) fn put_queue(buffer: &mut BytesMut, queue: &QueueInfo) {
    let mut object = Object::begin(buffer);
    object.text("name", &queue.name);
    object.flag("durable", queue.durable);
    object.flag("exclusive", queue.exclusive);
    object.flag("autoDelete", queue.auto_delete);
    object.number("messageCount", queue.ready);
    object.number("unackedCount", queue.unacked);
    object.number("consumerCount", queue.consumers);
    put_queue_arguments(object.name("arguments"), &queue.properties);
    object.end();
}

pub(crate) fn put_binding(buffer: &mut BytesMut, binding: &BindingInfo) {
    let mut object = Object::begin(buffer);
    match &binding.target {
        BindTarget::Queue(queue) | BindTarget::Topic(queue) => object.text("queueName", queue),
        BindTarget::Exchange(exchange) => object.text("destinationExchange", exchange),
    }
    object.text("exchangeName", &binding.exchange);
    object.text("routingKey", &binding.key);
    let arguments = object.name("arguments");
    arguments.put_u8(b'{');
    put_arguments(arguments, &binding.arguments);
    arguments.put_u8(b'}');
    object.end();
}

pub(super) fn put_arguments(buffer: &mut BytesMut, arguments: &[(Name, HeaderValue<'static>)]) {
    for (index, (name, value)) in arguments.iter().enumerate() {
        if index > 0 {
            buffer.put_u8(b',');
        }
        crate::json::put_text(buffer, name);
        buffer.put_u8(b':');
        put_value(buffer, value);
    }
}
