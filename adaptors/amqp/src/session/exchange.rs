//! Methods of the class exchange.

use framegate_adaptor_api::Outbound;
use framegate_broker::{BindTarget, BindingSpec, Define, ExchangeKind, ExchangeSpec, Request};

use super::channel::Channel;
use super::link::{Link, name};
use super::pending::Waiting;
use crate::arguments::alternate_exchange;
use crate::codec::{Method, MethodId};
use crate::failure::{Code, Failure};
use crate::headers;

impl Channel {
    /// A method of the class.
    pub(super) fn exchange(
        &mut self,
        link: &mut Link,
        method: Method<'_>,
        out: &mut Outbound,
    ) -> Result<(), Failure> {
        let id = method.id();
        let (define, nowait, ok, lenient) = match method {
            Method::ExchangeDeclare { exchange, passive: true, nowait, .. } => {
                let name = name(exchange, id)?;
                if name.is_empty() {
                    return Err(default_exchange(id));
                }
                (Define::ExchangePassive(name), nowait, Method::ExchangeDeclareOk {}, false)
            }
            Method::ExchangeDeclare {
                exchange,
                kind,
                durable,
                auto_delete,
                internal,
                nowait,
                arguments,
                ..
            } => {
                let name = name(exchange, id)?;
                if name.is_empty() {
                    return Err(default_exchange(id));
                }
                let word = String::from_utf8_lossy(kind.0);
                let kind = ExchangeKind::declared(&word, &headers::arguments(&arguments));
                let kind = kind.map_err(|error| link.failure(error, id))?;
                let alternate = alternate_exchange(&arguments, id)?;
                let spec = ExchangeSpec { name, kind, durable, auto_delete, internal, alternate };
                (Define::Exchange(spec), nowait, Method::ExchangeDeclareOk {}, false)
            }
            Method::ExchangeDelete { exchange, if_unused, nowait, .. } => {
                let name = name(exchange, id)?;
                (Define::DeleteExchange { name, if_unused }, nowait, Method::ExchangeDeleteOk {}, true)
            }
            Method::ExchangeBind { destination, source, routing_key, nowait, arguments, .. } => {
                let exchange = name(source, id)?;
                let target = BindTarget::Exchange(name(destination, id)?);
                let key = name(routing_key, id)?;
                let binding =
                    BindingSpec { exchange, target, key, arguments: headers::arguments(&arguments) };
                (Define::Bind(binding), nowait, Method::ExchangeBindOk {}, false)
            }
            Method::ExchangeUnbind { destination, source, routing_key, nowait, arguments, .. } => {
                let exchange = name(source, id)?;
                let destination = name(destination, id)?;
                if exchange.is_empty() || destination.is_empty() {
                    return Err(default_exchange(id));
                }
                let (target, key) = (BindTarget::Exchange(destination), name(routing_key, id)?);
                let binding =
                    BindingSpec { exchange, target, key, arguments: headers::arguments(&arguments) };
                (Define::Unbind(binding), nowait, Method::ExchangeUnbindOk {}, true)
            }
            _ => return Ok(()),
        };
        let ok = (!nowait).then_some(ok);
        self.ask(link, id, Waiting::Plain { ok, lenient }, Request::Define(define), out);
        Ok(())
    }
}

/// The default exchange can be neither declared nor bound.
pub(super) fn default_exchange(method: MethodId) -> Failure {
    Failure::new(Code::AccessRefused, method, "operation not permitted on the default exchange")
}
