//! Records of consumer groups.
//!
//! ```text
//! DEFINE_GROUP  id, topic, vhost, topic name, name, floor, bits u8 (0 dead-letter topic, 1 ttl, 2 lease), [dead-letter
//!               topic], [ttl], [lease], distribution u8 (0 load-balance, 1 sticky by routing key, 2 by attribute, 3 by
//!               header, 4 filtered), [name], attempts, base, longest wait, jitter u8
//! DELETE_GROUP  id
//! SEEK_GROUP    id, floor
//! SETTLE_GROUP  id, how u8 (0 acked, 1 skipped, 2 expired, 3 dead-lettered, 4 dropped, 5 dropped as nested, 6 damaged),
//!               runs as in ACK
//! FAIL_GROUP    id, then for each: gap to the offset behind the one before, due (0: at once)
//! GROUP_STANDS  id, seen, lost, skipped, expired, dead-lettered, dropped, dropped as nested, damaged, count of failed,
//!               then for each: gap as above, attempts, due; then runs of what is settled as in ACK
//! ```
//! Where a group began is its floor; the word that it was declared with is not kept.

use framegate_storage::put_varint;

use super::decode::{DecodeError, Fields};
use super::encode::put_seqs;
use super::envelope::put_text;
use super::{Record, RecordKind};
use crate::group::{Distribution, GroupCounts, GroupSpec, GroupStart, KeySource, Retry};
use crate::ids::{Offset, QueueId, TopicId};

/// How an offset of a group was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// A member acked it.
    Acked,
    /// It matched no member's filter.
    Skipped,
    /// It was too old.
    Expired,
    /// It went to the dead-letter topic.
    DeadLettered,
    /// It should have, but the group has none.
    Dropped,
    /// It was a dead letter before.
    DroppedNested,
    /// It could not be read back.
    Damaged,
}

const SETTLED: [Settled; 7] = [
    Settled::Acked,
    Settled::Skipped,
    Settled::Expired,
    Settled::DeadLettered,
    Settled::Dropped,
    Settled::DroppedNested,
    Settled::Damaged,
];

/// Appends the content of a group's record.
pub(super) fn put(out: &mut Vec<u8>, record: &Record) {
    match record {
        Record::DefineGroup { id, topic, vhost, spec, floor } => {
            put_varint(out, id.0.into());
            put_varint(out, topic.0.into());
            put_text(out, vhost);
            put_spec(out, spec, *floor);
        }
        Record::DeleteGroup { id } => put_varint(out, id.0.into()),
        Record::SeekGroup { id, floor } => {
            put_varint(out, id.0.into());
            put_varint(out, *floor);
        }
        Record::SettleGroup { id, how, offsets } => {
            put_varint(out, id.0.into());
            out.push(SETTLED.iter().position(|s| s == how).unwrap_or(0) as u8);
            put_seqs(out, offsets);
        }
        Record::FailGroup { id, failed } => {
            put_varint(out, id.0.into());
            let mut end = 0;
            for (offset, due_ms) in failed {
                put_varint(out, offset.saturating_sub(end));
                put_varint(out, *due_ms);
                end = offset + 1;
            }
        }
        Record::GroupStands { id, seen, counts, settled, failed } => {
            put_varint(out, id.0.into());
            put_varint(out, *seen);
            let c = counts;
            for count in
                [c.lost, c.skipped, c.expired, c.dead_lettered, c.dropped, c.dropped_nested, c.damaged]
            {
                put_varint(out, count);
            }
            put_varint(out, failed.len() as u64);
            let mut end = 0;
            for (offset, attempts, due_ms) in failed {
                put_varint(out, offset.saturating_sub(end));
                put_varint(out, (*attempts).into());
                put_varint(out, *due_ms);
                end = offset + 1;
            }
            put_seqs(out, settled);
        }
        _ => debug_assert!(false, "not of a group"),
    }
}

fn put_spec(out: &mut Vec<u8>, spec: &GroupSpec, floor: u64) {
    put_text(out, &spec.topic);
    put_text(out, &spec.name);
    put_varint(out, floor);
    let bits = [spec.dead_letter_topic.is_some(), spec.ttl_ms.is_some(), spec.lease_ms.is_some()];
    out.push(bits.iter().enumerate().fold(0, |byte, (n, bit)| byte | (u8::from(*bit) << n)));
    if let Some(dead) = &spec.dead_letter_topic {
        put_text(out, dead);
    }
    for ms in [spec.ttl_ms, spec.lease_ms].into_iter().flatten() {
        put_varint(out, ms);
    }
    let (code, name) = match &spec.distribution {
        Distribution::LoadBalance => (0, None),
        Distribution::Sticky(KeySource::RoutingKey) => (1, None),
        Distribution::Sticky(KeySource::Attribute(name)) => (2, Some(name)),
        Distribution::Sticky(KeySource::Header(name)) => (3, Some(name)),
        Distribution::Filtered => (4, None),
    };
    out.push(code);
    if let Some(name) = name {
        put_text(out, name);
    }
    put_varint(out, spec.retry.attempts_max.into());
    put_varint(out, spec.retry.base_ms);
    put_varint(out, spec.retry.max_ms);
    out.push(spec.retry.jitter_percent);
}

/// Reads the content of a group's record.
pub(super) fn take(kind: RecordKind, f: &mut Fields<'_>) -> Result<Record, DecodeError> {
    let id = QueueId(f.number32("group")?);
    Ok(match kind {
        RecordKind::DefineGroup => {
            let topic = TopicId(f.number32("topic")?);
            let vhost = f.name("vhost")?;
            let (spec, floor) = take_spec(f)?;
            Record::DefineGroup { id, topic, vhost, spec: Box::new(spec), floor }
        }
        RecordKind::SeekGroup => Record::SeekGroup { id, floor: f.number("floor")? },
        RecordKind::SettleGroup => {
            let code = f.byte("how")?;
            let how = SETTLED.get(usize::from(code)).copied();
            let how = how.ok_or_else(|| DecodeError(format!("way {code} of settling is unknown")))?;
            Record::SettleGroup { id, how, offsets: f.seqs()? }
        }
        RecordKind::FailGroup => {
            let (mut failed, mut end) = (Vec::new(), 0_u64);
            while !f.rest.is_empty() {
                let offset = take_offset(f, &mut end)?;
                failed.push((offset, f.number("due")?));
            }
            Record::FailGroup { id, failed }
        }
        RecordKind::GroupStands => {
            let seen = f.number("seen")?;
            let mut count = || f.number("count");
            let counts = GroupCounts {
                lost: count()?,
                skipped: count()?,
                expired: count()?,
                dead_lettered: count()?,
                dropped: count()?,
                dropped_nested: count()?,
                damaged: count()?,
            };
            let (mut failed, mut end) = (Vec::new(), 0);
            for _ in 0..f.number("failed")? {
                failed.push((take_offset(f, &mut end)?, f.number32("attempts")?, f.number("due")?));
            }
            Record::GroupStands { id, seen, counts, settled: f.seqs()?, failed }
        }
        _ => Record::DeleteGroup { id },
    })
}

fn take_offset(f: &mut Fields<'_>, end: &mut u64) -> Result<u64, DecodeError> {
    let offset = end.checked_add(f.number("offset")?).filter(|o| *o < u64::MAX);
    let offset = offset.ok_or_else(|| DecodeError("an offset is too far".to_owned()))?;
    *end = offset + 1;
    Ok(offset)
}

fn take_spec(f: &mut Fields<'_>) -> Result<(GroupSpec, u64), DecodeError> {
    let (topic, name) = (f.name("topic")?, f.name("name")?);
    let floor = f.number("floor")?;
    let bits = f.byte("bits")?;
    let dead_letter_topic = if bits & 1 != 0 { Some(f.name("dead-letter topic")?) } else { None };
    let ttl_ms = if bits & 2 != 0 { Some(f.number("ttl")?) } else { None };
    let lease_ms = if bits & 4 != 0 { Some(f.number("lease")?) } else { None };
    let distribution = match f.byte("distribution")? {
        0 => Distribution::LoadBalance,
        1 => Distribution::Sticky(KeySource::RoutingKey),
        2 => Distribution::Sticky(KeySource::Attribute(f.name("attribute")?)),
        3 => Distribution::Sticky(KeySource::Header(f.name("header")?)),
        4 => Distribution::Filtered,
        code => return Err(DecodeError(format!("distribution {code} is unknown"))),
    };
    let retry = Retry {
        attempts_max: f.number32("attempts")?,
        base_ms: f.number("base")?,
        max_ms: f.number("longest wait")?,
        jitter_percent: f.byte("jitter")?,
    };
    let start = GroupStart::Offset(Offset(floor));
    let spec = GroupSpec { topic, name, start, distribution, retry, dead_letter_topic, ttl_ms, lease_ms };
    Ok((spec, floor))
}
