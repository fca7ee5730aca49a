//! What a connection says of itself: STATS, and the payloads of AUTH and PING.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use framegate_adaptor_api::{Credentials, Login, Outbound, Secret, Welcome};
use framegate_broker::{Query, Reply, Request, Stats};

use super::Call;
use crate::codec::put_success;
use crate::conversation::{Conversation, Unexpected};
use crate::errors::Failure;
use crate::json::Object;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::pending::Waiting;
use crate::schema::{Key, Payload};

impl Conversation {
    pub(super) fn stats(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        self.ask(call, Request::Query(Query::Stats), Waiting::Stats);
        Ok(())
    }

    pub(crate) fn stats_reply(request_id: &str, reply: &Reply, out: &mut Outbound) -> Result<(), Unexpected> {
        let Reply::Stats(stats) = reply else { return Err(Unexpected) };
        put_success(request_id, out, |buffer| put_stats(buffer, stats));
        Ok(())
    }
}

/// The totals that STATS gives.
pub(crate) fn put_stats(buffer: &mut BytesMut, stats: &Stats) {
    let mut object = Object::begin(buffer);
    object.number("connections", stats.connections);
    object.number("exchanges", stats.exchanges);
    object.number("queues", stats.queues);
    object.number("consumers", stats.consumers);
    object.number("messages", stats.ready + stats.unacked);
    object.end();
}

/// The login that an AUTH asks for. Without name and token it is anonymous, where that is allowed.
///
/// # Errors
/// `VALIDATION_ERROR` when credentials are missing.
pub(crate) fn login_of(payload: &Payload<'_>, anonymous: bool) -> Result<Login, Failure> {
    let secret = |key| payload.text(key).map(|text| Secret(text.to_owned()));
    let credentials = match (payload.text(Key::Username), secret(Key::Token)) {
        (Some(_), Some(_)) => return Err(Failure::field("token", "excludes 'username'")),
        (Some(user), None) => Credentials::Password {
            user: user.to_owned(),
            password: secret(Key::Password).ok_or_else(|| payload.missing(Key::Password))?,
        },
        (None, Some(token)) => Credentials::Token(token),
        (None, None) if anonymous => Credentials::Anonymous,
        (None, None) => return Err(payload.missing(Key::Username)),
    };
    Ok(Login { credentials, vhost: payload.text(Key::Vhost).map(str::to_owned) })
}

/// The payload that answers AUTH.
pub(crate) fn put_welcome(buffer: &mut BytesMut, welcome: &Welcome) {
    let mut object = Object::begin(buffer);
    object.text("connectionId", &format!("c-{}", welcome.connection));
    object.text("serverName", "framegate");
    object.number("protocolVersion", 1);
    object.number("maxFrameSize", PAYLOAD_BYTES_MAX);
    object.end();
}

/// The payload that answers PING: the wall clock in ms.
pub(crate) fn put_pong(buffer: &mut BytesMut) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut object = Object::begin(buffer);
    object.flag("pong", true);
    object.number("time", now.as_millis());
    object.end();
}
