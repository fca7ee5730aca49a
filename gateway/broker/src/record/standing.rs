//! Records of snapshots (what no single decision says) and of moves (a body that was written again elsewhere).
//!
//! ```text
//! STANDING       queues, topics (numbers given so far), block time in ms: first record of a snapshot
//! AT             LSN: where the record that follows stood in the log
//! QUEUE_NUMBERS  queue, next sequence number, delivered up to
//! TOPIC_NUMBERS  topic, next offset, LSN of the newest event that is no longer kept
//! REMEMBERED     time ms, LSN, offset + 1 or 0, key 16 bytes, content u64
//! MOVE           queue, seq, frame bytes to the end;   MOVE_REF        queue, seq, block, offset, length
//! MOVE_EVENT     topic, offset, frame bytes to the end; MOVE_EVENT_REF topic, offset, block, offset, length
//! LOST           any bytes: what stood here was damaged and is gone (written by a repair)
//! ```
//! The content of a move stands in `encode.rs` and `decode.rs`, where bodies are handled.

use framegate_storage::{Lsn, put_varint};

use super::decode::{DecodeError, Fields};
use super::{Record, RecordKind};
use crate::ids::{Offset, QueueId, Seq, TopicId};
use crate::message::Dedup;

/// Records that say that others are lost: exactly so many of exactly so many bytes. `None` when none fit.
#[must_use]
pub fn lost_records(count: u32, bytes: usize) -> Option<Vec<u8>> {
    const LEAST: usize = 3;
    let kind = RecordKind::Lost;
    let one = |out: &mut Vec<u8>, content: usize| {
        out.extend_from_slice(&[kind as u8, kind.flags()]);
        put_varint(out, content as u64);
        out.resize(out.len() + content, 0);
    };
    let others = (count as usize).checked_sub(1)?;
    let last = bytes.checked_sub(others * LEAST)?;
    // the last one is as long as it must be; where a length is not possible, the first one is a byte longer
    let content = |last: usize| {
        (1..=5).find_map(|len| {
            let content = last.checked_sub(2 + len)?;
            (framegate_storage::varint_len(content as u64) == len).then_some(content)
        })
    };
    let (longer, content) = match content(last) {
        Some(content) => (0, content),
        None if others > 0 => (1, content(last.checked_sub(1)?)?),
        None => return None,
    };
    let mut out = Vec::with_capacity(bytes);
    for at in 0..others {
        one(&mut out, if at == 0 { longer } else { 0 });
    }
    one(&mut out, content);
    Some(out)
}

/// Appends the content of a record of a snapshot; false when it is another one.
pub(super) fn put(out: &mut Vec<u8>, record: &Record) -> bool {
    match record {
        Record::Standing { queues, topics, time_ms } => {
            put_varint(out, *queues);
            put_varint(out, *topics);
            put_varint(out, *time_ms);
        }
        Record::At { lsn } => put_varint(out, lsn.0),
        Record::QueueNumbers { queue, next, delivered } => {
            put_varint(out, queue.0.into());
            put_varint(out, next.0);
            put_varint(out, delivered.0);
        }
        Record::TopicNumbers { topic, next, gone_to } => {
            put_varint(out, topic.0.into());
            put_varint(out, next.0);
            put_varint(out, gone_to.0);
        }
        Record::Remembered { dedup, lsn, offset, time_ms } => {
            put_varint(out, *time_ms);
            put_varint(out, lsn.0);
            put_varint(out, offset.map_or(0, |o| o.0 + 1));
            out.extend_from_slice(&dedup.key);
            out.extend_from_slice(&dedup.content.to_le_bytes());
        }
        _ => return false,
    }
    true
}

/// Reads one; `None` when it is another kind.
pub(super) fn take(kind: RecordKind, f: &mut Fields<'_>) -> Result<Option<Record>, DecodeError> {
    Ok(Some(match kind {
        RecordKind::Standing => Record::Standing {
            queues: f.number("queues")?,
            topics: f.number("topics")?,
            time_ms: f.number("time")?,
        },
        RecordKind::At => Record::At { lsn: Lsn(f.number("position")?) },
        RecordKind::QueueNumbers => Record::QueueNumbers {
            queue: QueueId(f.number32("queue")?),
            next: Seq(f.number("next")?),
            delivered: Seq(f.number("delivered")?),
        },
        RecordKind::TopicNumbers => Record::TopicNumbers {
            topic: TopicId(f.number32("topic")?),
            next: Offset(f.number("next")?),
            gone_to: Lsn(f.number("gone to")?),
        },
        RecordKind::Remembered => {
            let (time_ms, lsn) = (f.number("time")?, Lsn(f.number("position")?));
            let offset = f.number("offset")?.checked_sub(1).map(Offset);
            let mut dedup = Dedup { key: [0; 16], content: 0 };
            dedup.key.copy_from_slice(f.bytes(16, "dedup key")?);
            let mut content = [0; 8];
            content.copy_from_slice(f.bytes(8, "dedup content")?);
            dedup.content = u64::from_le_bytes(content);
            Record::Remembered { dedup, lsn, offset, time_ms }
        }
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Reader;
    use crate::state::State;

    #[test]
    fn lost_records_have_exactly_the_length_and_the_number_asked_for() {
        for count in [1, 2, 7] {
            let mut missing = 0;
            for bytes in 0..20_000 {
                let Some(records) = lost_records(count, bytes) else {
                    missing += usize::from(bytes >= 3 * count as usize);
                    continue;
                };
                assert_eq!(records.len(), bytes);
                let mut reader = Reader::new(&records);
                let state = State::default();
                let mut read = 0;
                while let Some(record) = reader.next(&state).expect("records") {
                    assert_eq!(record, Some(Record::Lost));
                    read += 1;
                }
                assert_eq!(read, count);
            }
            // a length byte more makes two lengths of a single record impossible
            assert_eq!(missing, if count == 1 { 2 } else { 0 });
        }
    }
}
