//! The envelope in a record: a plain message takes 2 to 9 bytes, the rest stands behind flag bits.
//!
//! ```text
//! flags  bit 0  seq          the number is not the next one: varint
//!        bit 1  route        exchange text, count of keys, key texts; without it: exchange "", key = the name
//!        bit 2  persistent
//!        bit 3  extras       mask u8, then for each bit: 0 priority zigzag, 1 deliver-at, 2 expires-at,
//!                            3 dedup (16 bytes + 8 bytes), 4 publisher text, 5 attempts, 6 deaths, 7 more
//!                     more   mask u8: 0 time to live + 1 or 0, when it is not expires-at less time; 1 data bytes,
//!                            2 newest first (nothing follows)
//!        bit 4  exchange     route without exchange: it is "amq.topic", one key = the name
//! always time_ms varint
//! ```

use framegate_storage::put_varint;

use super::decode::{DecodeError, Fields};
use crate::message::{Death, DeathReason, Dedup, Envelope, Keys};
use crate::name::Name;

const SEQ: u8 = 1;
const ROUTE: u8 = 2;
const PERSISTENT: u8 = 4;
const EXTRAS: u8 = 8;
const TOPIC: u8 = 16;

/// Appends number and envelope; gives the flags.
pub(super) fn put(out: &mut Vec<u8>, seq: u64, next: u64, envelope: &Envelope, name: &str) -> u8 {
    let mut flags = 0;
    if seq != next {
        flags |= SEQ;
        put_varint(out, seq);
    }
    put_varint(out, envelope.time_ms);
    let own_key = envelope.keys.len() == 1 && envelope.keys[0] == *name;
    if own_key && envelope.exchange == *crate::AMQ_TOPIC {
        flags |= TOPIC;
    } else if !(own_key && envelope.exchange.is_empty()) {
        flags |= ROUTE;
        put_text(out, &envelope.exchange);
        put_keys(out, &envelope.keys);
    }
    if envelope.persistent {
        flags |= PERSISTENT;
    }
    let at = out.len();
    out.push(0);
    let mask = put_extras(out, envelope);
    if mask == 0 {
        out.truncate(at);
    } else {
        out[at] = mask;
        flags |= EXTRAS;
    }
    flags
}

fn put_extras(out: &mut Vec<u8>, envelope: &Envelope) -> u8 {
    let mut mask = 0;
    if let Some(priority) = envelope.priority {
        mask |= 1;
        put_varint(out, zigzag(priority));
    }
    if envelope.deliver_at_ms != 0 {
        mask |= 2;
        put_varint(out, envelope.deliver_at_ms);
    }
    if envelope.expires_at_ms != 0 {
        mask |= 4;
        put_varint(out, envelope.expires_at_ms);
    }
    if let Some(dedup) = &envelope.dedup {
        mask |= 8;
        out.extend_from_slice(&dedup.key);
        out.extend_from_slice(&dedup.content.to_le_bytes());
    }
    if let Some(publisher) = &envelope.publisher {
        mask |= 16;
        put_text(out, publisher);
    }
    if envelope.attempts != 0 {
        mask |= 32;
        put_varint(out, envelope.attempts.into());
    }
    if !envelope.deaths.is_empty() {
        mask |= 64;
        put_varint(out, envelope.deaths.len() as u64);
        for death in &envelope.deaths {
            put_death(out, death);
        }
    }
    let at = out.len();
    out.push(0);
    let more = put_more(out, envelope);
    if more == 0 {
        out.truncate(at);
    } else {
        out[at] = more;
        mask |= 128;
    }
    mask
}

fn put_more(out: &mut Vec<u8>, envelope: &Envelope) -> u8 {
    let mut mask = 0;
    if envelope.ttl_ms != usual_ttl(envelope) {
        mask |= 1;
        put_varint(out, envelope.ttl_ms.map_or(0, |t| t.saturating_add(1)));
    }
    if envelope.data_bytes != 0 {
        mask |= 2;
        put_varint(out, envelope.data_bytes.into());
    }
    if envelope.newest_first {
        mask |= 4;
    }
    mask
}

/// The publisher's time to live of a message that expires by nothing else.
fn usual_ttl(envelope: &Envelope) -> Option<u64> {
    (envelope.expires_at_ms != 0).then(|| envelope.expires_at_ms.saturating_sub(envelope.time_ms))
}

fn put_death(out: &mut Vec<u8>, death: &Death) {
    put_text(out, &death.queue);
    out.push(reason_code(death.reason));
    put_text(out, &death.exchange);
    put_keys(out, &death.keys);
    put_varint(out, death.count);
    put_varint(out, death.time_ms);
    put_varint(out, death.ttl_ms.map_or(0, |t| t.saturating_add(1)));
}

/// Reads number and envelope.
pub(super) fn take(
    f: &mut Fields<'_>,
    flags: u8,
    next: u64,
    name: &Name,
) -> Result<(u64, Envelope), DecodeError> {
    let seq = if flags & SEQ != 0 { f.number("sequence number")? } else { next };
    let time_ms = f.number("time")?;
    let (exchange, keys) = if flags & ROUTE != 0 {
        (f.name("exchange")?, take_keys(f)?)
    } else if flags & TOPIC != 0 {
        (Name::from_static(crate::AMQ_TOPIC), smallvec::smallvec![name.clone()])
    } else {
        (Name::default(), smallvec::smallvec![name.clone()])
    };
    let mut envelope =
        Envelope { exchange, keys, persistent: flags & PERSISTENT != 0, time_ms, ..Envelope::default() };
    if flags & EXTRAS != 0 {
        take_extras(f, &mut envelope)?;
    }
    Ok((seq, envelope))
}

fn take_extras(f: &mut Fields<'_>, envelope: &mut Envelope) -> Result<(), DecodeError> {
    let mask = f.byte("mask")?;
    if mask & 1 != 0 {
        envelope.priority = Some(unzigzag(f.number32("priority")?));
    }
    if mask & 2 != 0 {
        envelope.deliver_at_ms = f.number("deliver-at")?;
    }
    if mask & 4 != 0 {
        envelope.expires_at_ms = f.number("expires-at")?;
    }
    if mask & 8 != 0 {
        let mut dedup = Dedup { key: [0; 16], content: 0 };
        dedup.key.copy_from_slice(f.bytes(16, "dedup key")?);
        let mut content = [0; 8];
        content.copy_from_slice(f.bytes(8, "dedup content")?);
        dedup.content = u64::from_le_bytes(content);
        envelope.dedup = Some(dedup);
    }
    if mask & 16 != 0 {
        envelope.publisher = Some(f.name("publisher")?);
    }
    if mask & 32 != 0 {
        envelope.attempts = f.number32("attempts")?;
    }
    if mask & 64 != 0 {
        let count = f.number("deaths")?;
        if count > crate::limits::DEATHS_MAX as u64 {
            return Err(DecodeError(format!("{count} deaths are more than fit")));
        }
        for _ in 0..count {
            envelope.deaths.push(take_death(f)?);
        }
    }
    let more = if mask & 128 != 0 { f.byte("more")? } else { 0 };
    envelope.ttl_ms =
        if more & 1 != 0 { f.number("time to live")?.checked_sub(1) } else { usual_ttl(envelope) };
    if more & 2 != 0 {
        envelope.data_bytes = f.number32("data bytes")?;
    }
    envelope.newest_first = more & 4 != 0;
    if more > 7 {
        return Err(DecodeError(format!("envelope fields {more:#x} are unknown to this version")));
    }
    Ok(())
}

fn take_death(f: &mut Fields<'_>) -> Result<Death, DecodeError> {
    Ok(Death {
        queue: f.name("queue")?,
        reason: reason_of(f.byte("reason")?)?,
        exchange: f.name("exchange")?,
        keys: take_keys(f)?,
        count: f.number("count")?,
        time_ms: f.number("time")?,
        ttl_ms: f.number("ttl")?.checked_sub(1),
    })
}

fn reason_code(reason: DeathReason) -> u8 {
    match reason {
        DeathReason::Rejected => 1,
        DeathReason::Expired => 2,
        DeathReason::MaxLen => 3,
        DeathReason::DeliveryLimit => 4,
        DeathReason::Undeliverable => 5,
    }
}

fn reason_of(code: u8) -> Result<DeathReason, DecodeError> {
    Ok(match code {
        1 => DeathReason::Rejected,
        2 => DeathReason::Expired,
        3 => DeathReason::MaxLen,
        4 => DeathReason::DeliveryLimit,
        5 => DeathReason::Undeliverable,
        _ => return Err(DecodeError(format!("death reason {code} is unknown"))),
    })
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_keys(out: &mut Vec<u8>, keys: &Keys) {
    put_varint(out, keys.len() as u64);
    for key in keys {
        put_text(out, key);
    }
}

fn take_keys(f: &mut Fields<'_>) -> Result<Keys, DecodeError> {
    let count = f.number("keys")?;
    // each key takes a byte at least
    if count > f.rest.len() as u64 {
        return Err(DecodeError(format!("{count} keys are more than there are bytes")));
    }
    (0..count).map(|_| f.name("key")).collect()
}

fn zigzag(value: i32) -> u64 {
    (((value << 1) ^ (value >> 31)) as u32).into()
}

fn unzigzag(value: u32) -> i32 {
    ((value >> 1) as i32) ^ -((value & 1) as i32)
}
