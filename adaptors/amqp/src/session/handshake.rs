//! What is said before a connection is open: what the server is and can, credentials, limits. Pure.

use framegate_adaptor_api::{Credentials, Outbound, Secret};

use super::link::Capabilities;
use crate::codec::{FRAME_MIN_BYTES, Long, Method, MethodId, Table, TableWriter, Value, put_method};
use crate::failure::{Code, Failure};
use crate::limits::CREDENTIAL_BYTES_MAX;
use crate::settings::Settings;

const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

/// What is compatible: Celery takes the meaning of `basic.qos` from these two, and would stall workers of any other product.
const PRODUCT: &str = "RabbitMQ";
/// The last version in which `basic.qos` has the meaning that it has here.
const VERSION: &str = "3.13.7";

const START_OK: MethodId = MethodId::new(10, 11);
const TUNE_OK: MethodId = MethodId::new(10, 31);

/// Says what the server is.
pub(super) fn put_start(out: &mut Outbound) {
    let mut properties = bytes::BytesMut::new();
    let mut table = TableWriter::begin(&mut properties);
    let mut capabilities = table.table("capabilities");
    for name in CAPABILITIES {
        capabilities.flag(name, true);
    }
    capabilities.end();
    for (key, value) in [
        ("cluster_name", "framegate"),
        ("copyright", "The framegate authors"),
        ("information", "framegate, licensed under the Apache License 2.0"),
        ("platform", concat!("framegate ", env!("CARGO_PKG_VERSION"))),
        ("product", PRODUCT),
        ("version", VERSION),
    ] {
        table.text(key, value.as_bytes());
    }
    table.end();
    let start = Method::ConnectionStart {
        version_major: 0,
        version_minor: 9,
        server_properties: Table::parse(properties.get(4..).unwrap_or_default()).unwrap_or_default(),
        mechanisms: Long(b"PLAIN AMQPLAIN"),
        locales: Long(b"en_US"),
    };
    put_method(out.buffer(), 0, &start);
}

/// Proposes limits.
pub(super) fn put_tune(settings: &Settings, out: &mut Outbound) {
    let tune = Method::ConnectionTune {
        channel_max: settings.channel_max,
        frame_max: settings.frame_max,
        heartbeat: settings.heartbeat_s,
    };
    put_method(out.buffer(), 0, &tune);
}

/// What the client can.
pub(super) fn capabilities(client: &Table<'_>) -> Capabilities {
    let Some(Value::Table(table)) = client.get("capabilities") else { return Capabilities::default() };
    let has = |name| table.get(name) == Some(Value::Bool(true));
    Capabilities {
        authentication_failure_close: has("authentication_failure_close"),
        consumer_cancel_notify: has("consumer_cancel_notify"),
        connection_blocked: has("connection.blocked"),
    }
}

/// Credentials of a response.
///
/// ```text
/// PLAIN     [authzid] NUL user NUL password
/// AMQPLAIN  entries of a table without its length: LOGIN, PASSWORD
/// EXTERNAL  the name in the peer's certificate, so refused without one
/// ```
///
/// # Errors
/// 503 for a mechanism that is not offered, 502 for a response that makes no sense; the texts are those of RabbitMQ's log.
pub(super) fn credentials(mechanism: &[u8], response: &[u8]) -> Result<Credentials, Failure> {
    let invalid = |what: &str| {
        let name = String::from_utf8_lossy(mechanism);
        Failure::new(Code::CommandInvalid, START_OK, format!("{what} authentication mechanism '{name}'"))
    };
    let pair = match mechanism {
        b"PLAIN" => plain(response),
        b"AMQPLAIN" => amqplain(response),
        b"EXTERNAL" => return Err(invalid("invalid")),
        _ => return Err(invalid("unknown")),
    };
    // not what it was: it may hold a password
    let nonsense = || Failure::new(Code::SyntaxError, START_OK, "response invalid");
    let (user, password) = pair.ok_or_else(nonsense)?;
    if user.len().max(password.len()) > CREDENTIAL_BYTES_MAX {
        return Err(nonsense());
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| nonsense());
    Ok(Credentials::Password { user: text(user)?, password: Secret(text(password)?) })
}

fn plain(response: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = response.splitn(3, |byte| *byte == 0);
    let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    Some((user, password))
}

fn amqplain(response: &[u8]) -> Option<(&[u8], &[u8])> {
    let table = Table::parse(response).ok()?;
    match (table.get("LOGIN")?, table.get("PASSWORD")?) {
        (Value::Str(user), Value::Str(password)) => Some((user, password)),
        _ => None,
    }
}

/// Checks what the client makes of the limits.
///
/// # Errors
/// 530, naming the limit.
pub(super) fn check_tune(settings: &Settings, channel_max: u16, frame_max: u32) -> Result<(), Failure> {
    check_limit("channel_max", channel_max.into(), 1, settings.channel_max.into())?;
    check_limit("frame_max", frame_max, FRAME_MIN_BYTES, settings.frame_max)
}

fn check_limit(what: &str, value: u32, min: u32, max: u32) -> Result<(), Failure> {
    let refuse = |text| Err(Failure::new(Code::NotAllowed, TUNE_OK, text));
    if value == 0 || value > max {
        return refuse(format!(
            "negotiated {what} = {value} is higher than the maximum allowed value ({max})"
        ));
    }
    if value < min {
        return refuse(format!(
            "negotiated {what} = {value} is lower than the minimum allowed value ({min})"
        ));
    }
    Ok(())
}
