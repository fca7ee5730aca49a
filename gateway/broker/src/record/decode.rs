//! Reading records. Total: any bytes give records or one error.

use framegate_storage::{BodyRef, Pos, take_varint};

use super::{Body, Record, RecordKind, SeqSet, definition, envelope, group, job, standing};
use crate::ids::{Offset, QueueId, Seq, TopicId};
use crate::name::Name;

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecodeError(pub(crate) String);

/// What a reader must know of the state: abbreviated fields are completed from it.
pub(crate) trait Expected {
    /// Sequence number that the queue gives next, and its name.
    fn queue(&self, id: QueueId) -> Option<(u64, Name)>;
    /// Offset that the topic gives next, and its name.
    fn topic(&self, id: TopicId) -> Option<(u64, Name)>;
}

/// Reads one record after the other out of a block's record bytes.
pub(crate) struct Reader<'a> {
    all: &'a [u8],
    rest: &'a [u8],
}

/// A field reader that fails with the field's name.
pub(super) struct Fields<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Over the record bytes of one block.
    pub(crate) fn new(records: &'a [u8]) -> Self {
        Self { all: records, rest: records }
    }

    /// The next record; `None` inside when it is passed over (an unknown kind that may be, a spilled frame); `None` at the
    /// end.
    ///
    /// # Errors
    /// Bytes that are no record, and unknown kinds that may not be skipped.
    pub(crate) fn next(&mut self, expected: &dyn Expected) -> Result<Option<Option<Record>>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut fields = Fields { rest: self.rest };
        let (code, flags) = (fields.byte("kind")?, fields.byte("flags")?);
        let len = fields.number("length")?;
        let len = usize::try_from(len).ok().filter(|l| *l <= fields.rest.len());
        let len = len.ok_or_else(|| DecodeError("record is longer than its block".to_owned()))?;
        let start = self.all.len() - fields.rest.len();
        let content = &fields.rest[..len];
        self.rest = &fields.rest[len..];
        let Some(kind) = RecordKind::of(code) else {
            if flags & super::kind::MAY_BE_SKIPPED != 0 {
                return Ok(Some(None));
            }
            return Err(DecodeError(format!("record kind {code} is unknown to this version")));
        };
        if kind == RecordKind::Spill {
            // what it belongs to is not in the log
            return Ok(Some(None));
        }
        if kind == RecordKind::Lost {
            // whatever it holds
            return Ok(Some(Some(Record::Lost)));
        }
        content_of(kind, flags, content, start, expected).map(|record| Some(Some(record)))
    }
}

fn content_of(
    kind: RecordKind,
    flags: u8,
    content: &[u8],
    start: usize,
    expected: &dyn Expected,
) -> Result<Record, DecodeError> {
    let mut fields = Fields { rest: content };
    let f = &mut fields;
    let here = |f: &Fields<'_>| {
        let len = f.rest.len();
        let offset = start + content.len() - len;
        match (u32::try_from(offset), u32::try_from(len)) {
            (Ok(offset), Ok(len)) => Ok(Body::Here { offset, len }),
            _ => Err(DecodeError("a body is larger than 4 GiB".to_owned())),
        }
    };
    let record = match kind {
        RecordKind::Enqueue | RecordKind::EnqueueRef => {
            let queue = QueueId(f.number32("queue")?);
            let (next, name) =
                expected.queue(queue).ok_or_else(|| DecodeError(format!("queue {queue} is not defined")))?;
            let (seq, envelope) = envelope::take(f, flags, next, &name)?;
            let body = if kind == RecordKind::Enqueue { here(f)? } else { f.body()? };
            return Ok(Record::Enqueue { queue, seq: Seq(seq), envelope, body });
        }
        RecordKind::Append | RecordKind::AppendRef => {
            let topic = TopicId(f.number32("topic")?);
            let (next, name) =
                expected.topic(topic).ok_or_else(|| DecodeError(format!("topic {topic} is not defined")))?;
            let (offset, envelope) = envelope::take(f, flags, next, &name)?;
            let body = if kind == RecordKind::Append { here(f)? } else { f.body()? };
            return Ok(Record::Append { topic, offset: Offset(offset), envelope, body });
        }
        RecordKind::Ack => Record::Ack { queue: QueueId(f.number32("queue")?), seqs: f.seqs()? },
        RecordKind::Return => Record::Return { queue: QueueId(f.number32("queue")?), seqs: f.seqs()? },
        RecordKind::Delivered => {
            Record::Delivered { queue: QueueId(f.number32("queue")?), upto: Seq(f.number("upto")?) }
        }
        RecordKind::Retain => {
            Record::Retain { topic: TopicId(f.number32("topic")?), first: Offset(f.number("first")?) }
        }
        RecordKind::DeleteQueue => Record::DeleteQueue { id: QueueId(f.number32("queue")?) },
        RecordKind::DeleteTopic => Record::DeleteTopic { id: TopicId(f.number32("topic")?) },
        RecordKind::Start => Record::Start { clean: f.byte("clean")? != 0 },
        RecordKind::Tick | RecordKind::Spill | RecordKind::Lost => Record::Tick,
        RecordKind::Move | RecordKind::MoveRef => {
            let (queue, seq) = (QueueId(f.number32("queue")?), Seq(f.number("seq")?));
            let body = if kind == RecordKind::Move { here(f)? } else { f.body()? };
            return Ok(Record::Move { queue, seq, body });
        }
        RecordKind::MoveEvent | RecordKind::MoveEventRef => {
            let (topic, offset) = (TopicId(f.number32("topic")?), Offset(f.number("offset")?));
            let body = if kind == RecordKind::MoveEvent { here(f)? } else { f.body()? };
            return Ok(Record::MoveEvent { topic, offset, body });
        }
        RecordKind::Standing
        | RecordKind::At
        | RecordKind::QueueNumbers
        | RecordKind::TopicNumbers
        | RecordKind::Remembered => {
            standing::take(kind, f)?.ok_or_else(|| DecodeError("no record of a snapshot".to_owned()))?
        }
        RecordKind::DefineQueue
        | RecordKind::DefineExchange
        | RecordKind::DeleteExchange
        | RecordKind::Bind
        | RecordKind::Unbind
        | RecordKind::DefineTopic => definition::take(kind, f)?,
        RecordKind::DefineGroup
        | RecordKind::DeleteGroup
        | RecordKind::SeekGroup
        | RecordKind::SettleGroup
        | RecordKind::FailGroup
        | RecordKind::GroupStands => group::take(kind, f)?,
        RecordKind::Job | RecordKind::PauseJobs | RecordKind::JobRules | RecordKind::JobCare => {
            job::take(kind, f)?
        }
    };
    if !fields.rest.is_empty() {
        return Err(DecodeError(format!("{} bytes after a record of kind {kind:?}", fields.rest.len())));
    }
    Ok(record)
}

impl<'a> Fields<'a> {
    pub(super) fn byte(&mut self, what: &str) -> Result<u8, DecodeError> {
        let (first, rest) =
            self.rest.split_first().ok_or_else(|| DecodeError(format!("{what} is missing")))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self, what: &str) -> Result<u64, DecodeError> {
        take_varint(&mut self.rest).ok_or_else(|| DecodeError(format!("{what} is not a number")))
    }

    pub(super) fn number32(&mut self, what: &str) -> Result<u32, DecodeError> {
        u32::try_from(self.number(what)?).map_err(|_| DecodeError(format!("{what} is larger than 32 bits")))
    }

    pub(super) fn bytes(&mut self, len: usize, what: &str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) =
            self.rest.split_at_checked(len).ok_or_else(|| DecodeError(format!("{what} is cut short")))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn text(&mut self, what: &str) -> Result<&'a str, DecodeError> {
        let len = self.number32(what)? as usize;
        let bytes = self.bytes(len, what)?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError(format!("{what} is not UTF-8")))
    }

    pub(super) fn name(&mut self, what: &str) -> Result<Name, DecodeError> {
        Name::new(self.text(what)?).map_err(|e| DecodeError(e.to_string()))
    }

    pub(super) fn seqs(&mut self) -> Result<SeqSet, DecodeError> {
        let mut set = SeqSet::default();
        let mut end = 0_u64;
        while !self.rest.is_empty() {
            let (gap, len) = (self.number("gap")?, self.number("run")?);
            let first = end.checked_add(gap).ok_or_else(|| DecodeError("a run is too far".to_owned()))?;
            if !set.push_run(first, len) {
                return Err(DecodeError("runs are not ascending".to_owned()));
            }
            end = first + len;
        }
        Ok(set)
    }

    fn body(&mut self) -> Result<Body, DecodeError> {
        let block = self.number("block")?;
        let (offset, len) = (self.number32("offset")?, self.number32("length")?);
        Ok(match block.checked_sub(1) {
            None => Body::Here { offset, len },
            Some(block) => Body::At(BodyRef { block: Pos(block), offset, len }),
        })
    }
}
