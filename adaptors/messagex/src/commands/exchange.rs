//! Exchanges: declare, delete, list.

use bytes::BytesMut;
use framegate_adaptor_api::Outbound;
use framegate_broker::{Define, ExchangeInfo, ExchangeKind, ExchangeSpec, Name, Query, Reply, Request};

use super::Call;
use super::arguments::alternate_exchange;
use super::queue::{check_not_reserved, put_list};
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
            let kind = ExchangeKind::parse(word).ok_or_else(|| {
                let message = format!(
                    "Exchange type '{}' is not one of direct, fanout, topic, headers",
                    shortened(word)
                );
                Failure::new(Code::InvalidExchangeType, message)
            })?;
            check_not_reserved("Exchange", &name)?;
            Define::Exchange(ExchangeSpec {
                name,
                kind,
                durable: payload.flag(Key::Durable),
                auto_delete: payload.flag(Key::AutoDelete),
                internal: payload.flag(Key::Internal),
                alternate: alternate_exchange(payload.raw(Key::Arguments))?,
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
            (Waiting::Exchanges, Reply::Exchanges(exchanges)) => {
                put_list(request_id, "exchanges", exchanges, put_exchange, out);
            }
            _ => return Err(Unexpected),
        }
        Ok(())
    }
}

pub(crate) fn put_exchange(buffer: &mut BytesMut, exchange: &ExchangeInfo) {
    let mut object = Object::begin(buffer);
    object.text("name", &exchange.name);
    object.text("type", exchange.kind.as_str());
    object.flag("durable", exchange.durable);
    object.flag("autoDelete", exchange.auto_delete);
    object.flag("internal", exchange.internal);
    object.end();
}
