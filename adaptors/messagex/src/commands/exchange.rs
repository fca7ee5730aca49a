//! Exchanges: declare, delete, list, bind to each other.

use bytes::{BufMut as _, BytesMut};
use framegate_adaptor_api::Outbound;
use framegate_broker::{
    BindTarget, BindingSpec, BrokerError, Define, ExchangeInfo, ExchangeKind, ExchangeSpec, Name, Query,
    Reply, Request,
};

use super::Call;
use super::arguments::{binding_arguments, exchange_argument_name, exchange_arguments};
use super::queue::{check_not_reserved, put_arguments, put_list};
use crate::codec::put_success;
use crate::conversation::{Conversation, Unexpected};
use crate::errors::{Code, Failure, shortened};
use crate::json::Object;
use crate::pending::Waiting;
use crate::schema::Key;

impl Conversation {
    pub(super) fn exchange_declare(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let payload = call.payload;
        let name = Name::new(payload.text_or_empty(Key::Name))?;
        let define = if payload.flag(Key::Passive) {
            Define::ExchangePassive(name)
        } else {
            let word = payload.text(Key::Type).ok_or_else(|| payload.missing(Key::Type))?;
            let (alternate, arguments) = exchange_arguments(payload.raw(Key::Arguments))?;
            let kind = ExchangeKind::declared(word, &arguments).map_err(|error| match error {
                BrokerError::Invalid { what: "exchange type", value, .. } => unknown_type(&value),
                error => error.into(),
            })?;
            check_not_reserved("Exchange", &name)?;
            Define::Exchange(ExchangeSpec {
                name,
                kind,
                durable: payload.flag(Key::Durable),
                auto_delete: payload.flag(Key::AutoDelete),
                internal: payload.flag(Key::Internal),
                alternate,
            })
        };
        self.ask(call, Request::Define(define), Waiting::ExchangeDeclared);
        Ok(())
    }

    pub(super) fn exchange_delete(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let name = Name::new(call.payload.text_or_empty(Key::Name))?;
        let define =
            Define::DeleteExchange { name: name.clone(), if_unused: call.payload.flag(Key::IfUnused) };
        self.ask(call, Request::Define(define), Waiting::ExchangeDeleted(name));
        Ok(())
    }

    /// Makes (`true`) or removes a binding from one exchange to another.
    pub(super) fn exchange_bind(&mut self, call: &mut Call<'_>, make: bool) -> Result<(), Failure> {
        let payload = call.payload;
        let destination = Name::new(payload.text_or_empty(Key::DestinationExchange))?;
        let exchange = Name::new(payload.text_or_empty(Key::ExchangeName))?;
        let key = Name::new(payload.text_or_empty(Key::Routing))?;
        let spec = BindingSpec {
            exchange: exchange.clone(),
            target: BindTarget::Exchange(destination.clone()),
            key: key.clone(),
            arguments: binding_arguments(payload.raw(Key::Arguments))?,
        };
        let define = if make { Define::Bind(spec) } else { Define::Unbind(spec) };
        self.ask(call, Request::Define(define), Waiting::ExchangeBound { destination, exchange, key });
        Ok(())
    }

    pub(super) fn exchange_list(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        self.ask(call, Request::Query(Query::Exchanges), Waiting::Exchanges);
        Ok(())
    }

    pub(crate) fn exchange_reply(
        request_id: &str,
        waiting: &Waiting,
        reply: &Reply,
        out: &mut Outbound,
    ) -> Result<(), Unexpected> {
        match (waiting, reply) {
            (Waiting::ExchangeDeclared, Reply::Exchange(exchange)) => {
                put_success(request_id, out, |buffer| put_exchange(buffer, exchange));
            }
            (Waiting::ExchangeDeleted(name), _) => put_success(request_id, out, |buffer| {
                let mut object = Object::begin(buffer);
                object.text("name", name);
                object.end();
            }),
            (Waiting::ExchangeBound { destination, exchange, key }, _) => {
                put_success(request_id, out, |buffer| {
                    let mut object = Object::begin(buffer);
                    object.text("destinationExchange", destination);
                    object.text("exchangeName", exchange);
                    object.text("routingKey", key);
                    object.end();
                });
            }
            (Waiting::Exchanges, Reply::Exchanges(exchanges)) => {
                put_list(request_id, "exchanges", exchanges, put_exchange, out);
            }
            _ => return Err(Unexpected),
        }
        Ok(())
    }
}

fn unknown_type(word: &str) -> Failure {
    let message = format!(
        "Exchange type '{}' is not one of direct, fanout, topic, headers, x-consistent-hash, x-delayed-message",
        shortened(word)
    );
    Failure::new(Code::InvalidExchangeType, message)
}

pub(crate) fn put_exchange(buffer: &mut BytesMut, exchange: &ExchangeInfo) {
    let mut object = Object::begin(buffer);
    object.text("name", &exchange.name);
    object.text("type", exchange.kind.as_str());
    object.flag("durable", exchange.durable);
    object.flag("autoDelete", exchange.auto_delete);
    object.flag("internal", exchange.internal);
    let arguments = exchange.arguments();
    if !arguments.is_empty() {
        let named = arguments
            .into_iter()
            .map(|(name, value)| (Name::new(exchange_argument_name(&name)).unwrap_or(name), value));
        let buffer = object.name("arguments");
        buffer.put_u8(b'{');
        put_arguments(buffer, &named.collect::<Vec<_>>());
        buffer.put_u8(b'}');
    }
    object.end();
}
