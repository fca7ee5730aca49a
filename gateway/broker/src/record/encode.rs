//! Writing records into the chunks of a block. Small pieces share a chunk; a large frame is a chunk of its own, so
//! that it is written from where it is.

use bytes::{BufMut, Bytes, BytesMut};
use framegate_frame::Frame;
use framegate_storage::put_varint;

use super::{Body, Record, RecordKind, SeqSet, definition, envelope, group, job, standing};
use crate::limits::CACHE_COPY_BELOW_BYTES;
use crate::state::OPEN_BLOCK;

/// Collects the records of a block.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    chunks: Vec<Bytes>,
    current: BytesMut,
    scratch: Vec<u8>,
    before: usize,
    count: u32,
}

impl Encoder {
    /// Records so far.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Record bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.before + self.current.len()
    }

    /// Takes the chunks; the next record begins a new block.
    pub(crate) fn take(&mut self) -> (Vec<Bytes>, u32) {
        self.cut();
        self.before = 0;
        (std::mem::take(&mut self.chunks), std::mem::take(&mut self.count))
    }

    /// Adds a record. A message's frame is written behind it unless its body says that it stands elsewhere; then the
    /// body is returned as it is. `next` is the sequence number that a reader expects, `name` the queue's or topic's.
    pub(crate) fn put(
        &mut self,
        record: &Record,
        frame: Option<&Frame>,
        next: u64,
        name: &str,
    ) -> Option<Body> {
        let mut content = std::mem::take(&mut self.scratch);
        content.clear();
        let kind = RecordKind::for_record(record);
        let mut flags = kind.flags();
        let mut with_frame = None;
        match record {
            Record::Enqueue { queue, seq, envelope, body } => {
                put_varint(&mut content, queue.0.into());
                flags |= envelope::put(&mut content, seq.0, next, envelope, name);
                with_frame = put_body(&mut content, *body, frame);
            }
            Record::Append { topic, offset, envelope, body } => {
                put_varint(&mut content, topic.0.into());
                flags |= envelope::put(&mut content, offset.0, next, envelope, name);
                with_frame = put_body(&mut content, *body, frame);
            }
            Record::Ack { queue, seqs } | Record::Return { queue, seqs } => {
                put_varint(&mut content, queue.0.into());
                put_seqs(&mut content, seqs);
            }
            Record::Delivered { queue, upto } => {
                put_varint(&mut content, queue.0.into());
                put_varint(&mut content, upto.0);
            }
            Record::Retain { topic, first } => {
                put_varint(&mut content, topic.0.into());
                put_varint(&mut content, first.0);
            }
            Record::DeleteQueue { id } => put_varint(&mut content, id.0.into()),
            Record::DeleteTopic { id } => put_varint(&mut content, id.0.into()),
            Record::Start { clean } => content.push(u8::from(*clean)),
            Record::Spill { queue, seq, .. } => {
                put_varint(&mut content, queue.0.into());
                put_varint(&mut content, seq.0);
                with_frame = frame;
            }
            Record::Move { queue, seq, body } => {
                put_varint(&mut content, queue.0.into());
                put_varint(&mut content, seq.0);
                with_frame = put_body(&mut content, *body, frame);
            }
            Record::MoveEvent { topic, offset, body } => {
                put_varint(&mut content, topic.0.into());
                put_varint(&mut content, offset.0);
                with_frame = put_body(&mut content, *body, frame);
            }
            Record::Tick | Record::Lost => {}
            Record::DefineGroup { .. }
            | Record::DeleteGroup { .. }
            | Record::SeekGroup { .. }
            | Record::SettleGroup { .. }
            | Record::FailGroup { .. }
            | Record::GroupStands { .. } => group::put(&mut content, record),
            other => {
                if !standing::put(&mut content, other) && !job::put(&mut content, other) {
                    definition::put(&mut content, other);
                }
            }
        }
        let frame_len = with_frame.map_or(0, |f| f.as_bytes().len());
        self.current.put_u8(kind as u8);
        self.current.put_u8(flags);
        let len = (content.len() + frame_len) as u64;
        put_len(&mut self.current, len);
        self.current.put_slice(&content);
        self.scratch = content;
        self.count += 1;
        let frame = with_frame?;
        let offset = u32::try_from(self.len()).ok()?;
        if frame_len < CACHE_COPY_BELOW_BYTES {
            self.current.put_slice(frame.as_bytes());
        } else {
            self.cut();
            self.chunks.push(frame.as_bytes().clone());
            self.before += frame_len;
        }
        Some(Body::Here { offset, len: u32::try_from(frame_len).ok()? })
    }

    fn cut(&mut self) {
        if !self.current.is_empty() {
            self.before += self.current.len();
            self.chunks.push(self.current.split().freeze());
        }
    }
}

/// The same as `put_varint`, into the chunk itself.
fn put_len(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value as u8) | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn put_body<'f>(content: &mut Vec<u8>, body: Body, frame: Option<&'f Frame>) -> Option<&'f Frame> {
    if let Body::At(at) = body {
        // 0: in this block
        put_varint(content, if at.block.0 == OPEN_BLOCK { 0 } else { at.block.0 + 1 });
        put_varint(content, at.offset.into());
        put_varint(content, at.len.into());
        return None;
    }
    frame
}

pub(super) fn put_seqs(content: &mut Vec<u8>, seqs: &SeqSet) {
    let mut end = 0;
    for (first, len) in seqs.runs() {
        put_varint(content, first - end);
        put_varint(content, *len);
        end = first + len;
    }
}
