//! PUBLISH and its confirm. The response is the confirm: it comes when the message is as safe as it can be.

use framegate_adaptor_api::Outbound;
use framegate_broker::{Answer, BrokerError, Name, Publish, Reply, Request};
use uuid::Uuid;

use super::Call;
use crate::adaptor::{Converted, Incoming};
use crate::codec::{put_event, put_failure, put_success};
use crate::conversation::Conversation;
use crate::errors::{Code, Failure};
use crate::json::Object;
use crate::limits::{DELIVERY_RESERVE_BYTES, PAYLOAD_BYTES_MAX};
use crate::pending::Waiting;
use crate::schema::{Key, Payload};

/// A publish that is not answered yet.
#[derive(Debug)]
pub(crate) struct Publication {
    message_id: String,
    /// Where it went, when it is mandatory that somebody gets it.
    mandatory: Option<Box<(Name, Name)>>,
    /// The broker gave it back.
    pub(crate) was_returned: bool,
}

impl Conversation {
    pub(super) fn publish(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let payload = call.payload;
        let (exchange, key) = self.destination(payload)?;
        let body = payload.raw(Key::Body).unwrap_or("null");
        let (properties, headers) =
            (payload.raw(Key::Properties).unwrap_or("{}"), payload.raw(Key::Headers).unwrap_or("{}"));
        let bytes = body.len() + properties.len() + headers.len();
        if bytes > PAYLOAD_BYTES_MAX - DELIVERY_RESERVE_BYTES {
            let max = PAYLOAD_BYTES_MAX - DELIVERY_RESERVE_BYTES;
            let message = format!("Body, properties and headers have {bytes} bytes; a delivery holds {max}");
            return Err(Failure::new(Code::MessageTooLarge, message));
        }
        let encoding = payload.text(Key::Encoding);
        let incoming = Incoming {
            body,
            encoding,
            properties,
            headers,
            persistent: payload.optional_flag(Key::Persistent),
        };
        let Converted { inbound, message_id, user_id } = incoming.convert(|| Uuid::now_v7().to_string())?;
        let mandatory = payload.flag(Key::Mandatory);
        let publish = Publish {
            mandatory,
            answer: Answer::Reply,
            persistent: inbound.persistent,
            priority: inbound.priority,
            ttl_ms: inbound.ttl_ms,
            delay_ms: payload.integer(Key::Delay).and_then(|ms| u64::try_from(ms).ok()).unwrap_or_default(),
            // A claim is passed on as the broker's word only when it is true.
            publisher: Some(&self.user).filter(|user| user_id.as_deref() == Some(user.as_str())).cloned(),
            ..Publish::new(exchange.clone(), key.clone(), inbound.frame)
        };
        let publication = Publication {
            message_id,
            mandatory: mandatory.then(|| Box::new((exchange, key))),
            was_returned: false,
        };
        self.ask(call, Request::Publish(publish), Waiting::Published(publication));
        Ok(())
    }

    /// Exchange and key: as given, or the default exchange and a queue's name.
    fn destination(&mut self, payload: &Payload<'_>) -> Result<(Name, Name), Failure> {
        let exchange = payload.text_or_empty(Key::ExchangeName);
        let key = match (payload.text(Key::QueueName), payload.text(Key::Routing)) {
            (Some(queue), None) if exchange.is_empty() => queue,
            (Some(queue), Some(key)) if exchange.is_empty() && queue == key => queue,
            (Some(_), _) => {
                let reason = "excludes 'exchangeName' and 'routingKey'";
                return Err(Failure::field(payload.word(Key::QueueName), reason));
            }
            (None, Some(key)) => key,
            (None, None) => return Err(payload.missing(Key::Routing)),
        };
        Ok((again(&mut self.last_exchange, exchange)?, again(&mut self.last_key, key)?))
    }

    pub(crate) fn published(
        &self,
        request_id: &str,
        publication: &Publication,
        reply: Reply,
        out: &mut Outbound,
    ) {
        let published = match reply {
            Reply::Published(published) => published,
            _ => framegate_broker::Published::default(),
        };
        let id = &publication.message_id;
        if let Some(mandatory) = &publication.mandatory
            && (publication.was_returned || !published.routed)
        {
            let (exchange, key) = &**mandatory;
            let message = format!("No queue is bound to exchange '{exchange}' for routing key '{key}'");
            put_failure(Some(request_id), &Failure::new(Code::Unroutable, message), out);
            if self.return_events {
                put_event("MESSAGE_RETURNED", out, |buffer| {
                    let mut object = Object::begin(buffer);
                    object.text("exchangeName", exchange);
                    object.text("routingKey", key);
                    object.text("messageId", id);
                    object.text("reason", Code::Unroutable.as_str());
                    object.end();
                });
            }
            return;
        }
        put_success(request_id, out, |buffer| {
            let mut object = Object::begin(buffer);
            object.text("messageId", id);
            object.flag("routed", published.routed);
            object.number("queues", published.queues);
            object.end();
        });
    }
}

/// The name again if it is the last one, else a new one, which is the last one from now on.
fn again(last: &mut Name, text: &str) -> Result<Name, BrokerError> {
    if last.as_str() != text {
        *last = Name::new(text)?;
    }
    Ok(last.clone())
}
