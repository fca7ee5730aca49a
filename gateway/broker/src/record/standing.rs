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
//! ```
//! The content of a move stands in `encode.rs` and `decode.rs`, where bodies are handled.

use framegate_storage::{Lsn, put_varint};

use super::decode::{DecodeError, Fields};
use super::{Record, RecordKind};
use crate::ids::{Offset, QueueId, Seq, TopicId};
use crate::message::Dedup;

/// Appends the content of a record of a snapshot; false when it is another one.
pub(super) fn put(out: &mut Vec<u8>, record: &Record) -> bool {
    match record {
        Record::Standing { queues, topics, time_ms } => {
            put_varint(out, (*queues).into());
            put_varint(out, (*topics).into());
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
            queues: f.number32("queues")?,
            topics: f.number32("topics")?,
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
