//! Definitions in a record: queues, exchanges, topics, bindings. Rare, so written plainly.
//!
//! ```text
//! DEFINE_QUEUE     id, vhost, name, bits u8 (0 durable, 1 auto-delete, 2 deliver-durable, 3 dead-letter exchange,
//!                  4 dead-letter key, 5 order and limits), [exchange], [key], [order and limits],
//!                  arguments: count, (name, value text) each
//! order and limits mask varint, then for each bit: 0 highest priority u8, 1 full priorities (nothing follows), 2 message
//!                  ttl, 3 expires, 4 length, 5 bytes, 6 overflow u8 (1 reject, 2 reject and dead-letter), 7 single active
//!                  (nothing follows), 8 delivery limit
//! DEFINE_EXCHANGE  vhost, name, kind text, bits u8 (0 durable, 1 auto-delete, 2 internal, 3 alternate, 4 arguments),
//!                  [alternate], [arguments of the kind: as those of a binding]
//! DELETE_EXCHANGE  vhost, name
//! BIND, UNBIND     vhost, exchange, bit u8 (0 queue, 1 exchange), target, key, arguments: count, (name, type u8, value)
//! DEFINE_TOPIC     id, vhost, name, age + 1 or 0, bytes + 1 or 0
//! ```

use framegate_storage::put_varint;

use super::decode::{DecodeError, Fields};
use super::envelope::put_text;
use super::{Record, RecordKind};
use crate::definition::{
    Arguments, BindTarget, BindingSpec, ExchangeKind, ExchangeSpec, HeaderValue, Overflow, PriorityMode,
    QueueProperties, QueueSpec, TopicSpec,
};
use crate::ids::{QueueId, TopicId};
use crate::name::Name;

/// Appends the content of a definition.
pub(super) fn put(out: &mut Vec<u8>, record: &Record) {
    match record {
        Record::DefineQueue { id, vhost, spec } => {
            put_varint(out, id.0.into());
            put_text(out, vhost);
            put_queue(out, spec);
        }
        Record::DefineExchange { vhost, spec } => {
            put_text(out, vhost);
            put_text(out, &spec.name);
            put_text(out, spec.kind.as_str());
            let arguments = spec.kind.arguments();
            let alternate = spec.alternate.is_some();
            let bits = [spec.durable, spec.auto_delete, spec.internal, alternate, !arguments.is_empty()];
            out.push(pack(&bits));
            if let Some(alternate) = &spec.alternate {
                put_text(out, alternate);
            }
            if !arguments.is_empty() {
                put_arguments(out, &arguments);
            }
        }
        Record::DeleteExchange { vhost, name } => {
            put_text(out, vhost);
            put_text(out, name);
        }
        Record::Bind { vhost, binding } | Record::Unbind { vhost, binding } => {
            put_text(out, vhost);
            put_binding(out, binding);
        }
        Record::DefineTopic { id, vhost, spec } => {
            put_varint(out, id.0.into());
            put_text(out, vhost);
            put_text(out, &spec.name);
            put_varint(out, spec.age_ms_max.map_or(0, |v| v.saturating_add(1)));
            put_varint(out, spec.bytes_max.map_or(0, |v| v.saturating_add(1)));
        }
        _ => debug_assert!(false, "not a definition"),
    }
}

fn put_queue(out: &mut Vec<u8>, spec: &QueueSpec) {
    let p = &spec.properties;
    put_text(out, &spec.name);
    let (exchange, key) = (&p.dead_letter_exchange, &p.dead_letter_key);
    let (mask, limits) = limits_of(p);
    let bits =
        [spec.durable, spec.auto_delete, p.deliver_durable, exchange.is_some(), key.is_some(), mask != 0];
    out.push(pack(&bits));
    for name in [exchange, key].into_iter().flatten() {
        put_text(out, name);
    }
    if mask != 0 {
        put_varint(out, mask);
        out.extend_from_slice(&limits);
    }
    put_varint(out, p.arguments.len() as u64);
    for (name, value) in &p.arguments {
        put_text(out, name);
        put_text(out, value);
    }
}

/// Order and limits: their mask, and what follows it.
fn limits_of(p: &QueueProperties) -> (u64, Vec<u8>) {
    let (mut mask, mut out) = (0, Vec::new());
    match p.priority {
        PriorityMode::None => {}
        PriorityMode::Max(max) => {
            mask |= 1;
            out.push(max);
        }
        PriorityMode::Full => mask |= 2,
    }
    for (bit, value) in [(4, p.message_ttl_ms), (8, p.expires_ms), (16, p.length_max), (32, p.bytes_max)] {
        if let Some(value) = value {
            mask |= bit;
            put_varint(&mut out, value);
        }
    }
    let overflow = match p.overflow {
        Overflow::DropHead => 0,
        Overflow::RejectPublish => 1,
        Overflow::RejectPublishDeadLetter => 2,
    };
    if overflow != 0 {
        mask |= 64;
        out.push(overflow);
    }
    if p.single_active {
        mask |= 128;
    }
    if let Some(limit) = p.delivery_limit {
        mask |= 256;
        put_varint(&mut out, limit.into());
    }
    (mask, out)
}

/// Reads order and limits into the properties.
fn take_limits(f: &mut Fields<'_>, p: &mut QueueProperties) -> Result<(), DecodeError> {
    let mask = f.number("mask")?;
    if mask >= 512 {
        // a property that is not acted on would change what the queue does
        return Err(DecodeError(format!("queue properties {mask:#x} are unknown to this version")));
    }
    if mask & 1 != 0 {
        p.priority = PriorityMode::Max(f.byte("highest priority")?);
    } else if mask & 2 != 0 {
        p.priority = PriorityMode::Full;
    }
    let mut optional = |bit, what| if mask & bit != 0 { f.number(what).map(Some) } else { Ok(None) };
    p.message_ttl_ms = optional(4, "message ttl")?;
    p.expires_ms = optional(8, "expires")?;
    p.length_max = optional(16, "length")?;
    p.bytes_max = optional(32, "bytes")?;
    if mask & 64 != 0 {
        p.overflow = match f.byte("overflow")? {
            1 => Overflow::RejectPublish,
            2 => Overflow::RejectPublishDeadLetter,
            code => return Err(DecodeError(format!("overflow {code} is unknown"))),
        };
    }
    p.single_active = mask & 128 != 0;
    if mask & 256 != 0 {
        p.delivery_limit = Some(f.number32("delivery limit")?);
    }
    Ok(())
}

fn put_binding(out: &mut Vec<u8>, binding: &BindingSpec) {
    put_text(out, &binding.exchange);
    let (bit, target) = match &binding.target {
        BindTarget::Queue(name) => (0, name),
        BindTarget::Exchange(name) => (1, name),
        BindTarget::Topic(name) => (2, name),
    };
    out.push(bit);
    put_text(out, target);
    put_text(out, &binding.key);
    put_arguments(out, &binding.arguments);
}

fn put_arguments(out: &mut Vec<u8>, arguments: &Arguments) {
    put_varint(out, arguments.len() as u64);
    for (name, value) in arguments {
        put_text(out, name);
        put_value(out, value);
    }
}

fn put_value(out: &mut Vec<u8>, value: &HeaderValue<'_>) {
    match value {
        HeaderValue::Null => out.push(0),
        HeaderValue::Bool(v) => out.extend_from_slice(&[1, u8::from(*v)]),
        HeaderValue::Int(v) => {
            out.push(2);
            out.extend_from_slice(&v.to_le_bytes());
        }
        HeaderValue::Float(v) => {
            out.push(3);
            out.extend_from_slice(&v.to_bits().to_le_bytes());
        }
        HeaderValue::Text(v) => {
            out.push(4);
            put_text(out, v);
        }
        HeaderValue::Bytes(v) => {
            out.push(5);
            put_varint(out, v.len() as u64);
            out.extend_from_slice(v);
        }
        HeaderValue::Time(v) => {
            out.push(6);
            out.extend_from_slice(&v.to_le_bytes());
        }
    }
}

/// Reads the content of a definition.
pub(super) fn take(kind: RecordKind, f: &mut Fields<'_>) -> Result<Record, DecodeError> {
    Ok(match kind {
        RecordKind::DefineQueue => Record::DefineQueue {
            id: QueueId(f.number32("id")?),
            vhost: f.name("vhost")?,
            spec: Box::new(take_queue(f)?),
        },
        RecordKind::DefineExchange => {
            Record::DefineExchange { vhost: f.name("vhost")?, spec: take_exchange(f)? }
        }
        RecordKind::DeleteExchange => {
            Record::DeleteExchange { vhost: f.name("vhost")?, name: f.name("name")? }
        }
        RecordKind::Bind => Record::Bind { vhost: f.name("vhost")?, binding: take_binding(f)? },
        RecordKind::Unbind => Record::Unbind { vhost: f.name("vhost")?, binding: take_binding(f)? },
        _ => Record::DefineTopic {
            id: TopicId(f.number32("id")?),
            vhost: f.name("vhost")?,
            spec: TopicSpec {
                name: f.name("name")?,
                age_ms_max: f.number("age")?.checked_sub(1),
                bytes_max: f.number("bytes")?.checked_sub(1),
            },
        },
    })
}

fn take_queue(f: &mut Fields<'_>) -> Result<QueueSpec, DecodeError> {
    let name = f.name("name")?;
    let bits = f.byte("bits")?;
    let mut optional = |bit: u8| if bits & bit != 0 { f.name("dead letter").map(Some) } else { Ok(None) };
    let (dead_letter_exchange, dead_letter_key) = (optional(8)?, optional(16)?);
    let mut properties = QueueProperties {
        deliver_durable: bits & 4 != 0,
        dead_letter_exchange,
        dead_letter_key,
        ..QueueProperties::default()
    };
    if bits & 32 != 0 {
        take_limits(f, &mut properties)?;
    }
    let count = f.number("arguments")?.min(f.rest.len() as u64);
    properties.arguments = (0..count)
        .map(|_| Ok((f.name("argument")?, f.text("value")?.to_owned())))
        .collect::<Result<_, _>>()?;
    Ok(QueueSpec {
        name,
        prefix: "",
        durable: bits & 1 != 0,
        exclusive: false,
        auto_delete: bits & 2 != 0,
        properties,
    })
}

fn take_exchange(f: &mut Fields<'_>) -> Result<ExchangeSpec, DecodeError> {
    let name = f.name("name")?;
    let word = f.text("kind")?;
    let bits = f.byte("bits")?;
    let alternate = if bits & 8 != 0 { Some(f.name("alternate")?) } else { None };
    let arguments = if bits & 16 != 0 { take_arguments(f)? } else { Arguments::new() };
    let kind = ExchangeKind::declared(word, &arguments).map_err(|e| DecodeError(e.to_string()))?;
    Ok(ExchangeSpec {
        name,
        kind,
        durable: bits & 1 != 0,
        auto_delete: bits & 2 != 0,
        internal: bits & 4 != 0,
        alternate,
    })
}

fn take_arguments(f: &mut Fields<'_>) -> Result<Arguments, DecodeError> {
    let count = f.number("arguments")?.min(f.rest.len() as u64);
    (0..count).map(|_| Ok((f.name("argument")?, take_value(f)?))).collect()
}

fn take_binding(f: &mut Fields<'_>) -> Result<BindingSpec, DecodeError> {
    let exchange = f.name("exchange")?;
    let target: fn(Name) -> BindTarget = match f.byte("target")? {
        0 => BindTarget::Queue,
        1 => BindTarget::Exchange,
        2 => BindTarget::Topic,
        other => return Err(DecodeError(format!("target {other} of a binding is unknown"))),
    };
    let target = target(f.name("target")?);
    let key = f.name("key")?;
    let arguments = take_arguments(f)?;
    Ok(BindingSpec { exchange, target, key, arguments })
}

fn take_value(f: &mut Fields<'_>) -> Result<HeaderValue<'static>, DecodeError> {
    let code = f.byte("type")?;
    let mut eight = || -> Result<[u8; 8], DecodeError> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(f.bytes(8, "value")?);
        Ok(bytes)
    };
    Ok(match code {
        0 => HeaderValue::Null,
        1 => HeaderValue::Bool(f.byte("value")? != 0),
        2 => HeaderValue::Int(i64::from_le_bytes(eight()?)),
        3 => HeaderValue::Float(f64::from_bits(u64::from_le_bytes(eight()?))),
        4 => HeaderValue::Text(f.text("value")?.to_owned().into()),
        5 => {
            let len = f.number32("value")? as usize;
            HeaderValue::Bytes(f.bytes(len, "value")?.to_vec().into())
        }
        6 => HeaderValue::Time(u64::from_le_bytes(eight()?)),
        _ => return Err(DecodeError(format!("argument type {code} is unknown"))),
    })
}

/// Bits of a byte, lowest first.
fn pack(bits: &[bool]) -> u8 {
    bits.iter().enumerate().fold(0, |byte, (n, bit)| byte | (u8::from(*bit) << n))
}
