//! Builds a frame into one buffer: attributes at once, data in fragments. The only copy of a message on its way
//! in. Never reserves what a peer merely announced.

use bytes::Bytes;

use crate::error::FrameError;
use crate::frame::Frame;
use crate::head::FrameHead;
use crate::kind::FrameKind;
use crate::layout::{HEADER_BYTES, Header};
use crate::limits::{Limits, NameRule};
use crate::names::PRIVATE_PREFIX;
use crate::plan::Plan;
use crate::private::Private;
use crate::unique::{NameIndex, NameScan};

/// Bytes reserved ahead of the data received, at first.
const AHEAD_BYTES: usize = 64 << 10;

/// An unfinished frame: header and attributes are written, data is still coming.
///
/// The exact size is known from the start, so a frame whose data is at most 64 KiB takes one allocation. For
/// larger ones the buffer is never further ahead of the bytes received than 64 KiB or as much as has been received,
/// whichever is more, and never beyond the announced size: an announcement costs at most 64 KiB, and each data byte
/// is moved about once more on average.
#[derive(Debug)]
pub struct FrameBuilder {
    buffer: Vec<u8>,
    data_start: usize,
    header: Header,
    names: NameIndex,
}

impl FrameBuilder {
    /// Starts a frame: writes header and attributes, and makes room for `data_bytes` bytes of data (at most 64 KiB
    /// for now). The attributes are walked twice, first to measure and check them; they keep their order, and the
    /// head's private attribute goes before them. For a slice pass `slice.iter().copied()`.
    ///
    /// # Errors
    /// The limit that the frame would break; [`FrameError::EmptyName`] or [`FrameError::DuplicateName`] under
    /// [`NameRule::Public`]; [`FrameError::UnstableAttributes`] if the second walk has another size than the first.
    pub fn new<'a, I>(
        head: FrameHead<'_>,
        attrs: I,
        data_bytes: usize,
        limits: &Limits,
    ) -> Result<Self, FrameError>
    where
        I: IntoIterator<Item = (&'a str, &'a str)>,
        I::IntoIter: Clone,
    {
        let attrs = attrs.into_iter();
        let plan = Plan::measure(&head, attrs.clone(), data_bytes, limits)?;
        let mut buffer = Vec::with_capacity(plan.data_start + data_bytes.min(AHEAD_BYTES));
        buffer.extend_from_slice(&plan.header.to_bytes());
        let mut scan = NameScan::new();
        if let Some(private) = &head.private {
            let start = buffer.len();
            put_name(&mut buffer, private.adaptor().len() + 1);
            buffer.push(PRIVATE_PREFIX as u8);
            buffer.extend_from_slice(private.adaptor().as_bytes());
            let name_end = buffer.len();
            buffer.extend_from_slice(&(private.value_len() as u32).to_be_bytes());
            private.write_value(&mut buffer);
            scan.add(&[], buffer.get(start + 2..name_end).unwrap_or_default());
        }
        for (name, value) in attrs {
            scan.add(buffer.get(HEADER_BYTES..).unwrap_or_default(), name.as_bytes());
            put_name(&mut buffer, name.len());
            buffer.extend_from_slice(name.as_bytes());
            buffer.extend_from_slice(&(value.len() as u32).to_be_bytes());
            buffer.extend_from_slice(value.as_bytes());
        }
        if buffer.len() != plan.data_start {
            return Err(FrameError::UnstableAttributes);
        }
        let names = match limits.names {
            NameRule::Trusted => scan.finish(),
            NameRule::Public => scan
                .finish_unique(buffer.get(HEADER_BYTES..).unwrap_or_default())
                .map_err(|start| FrameError::DuplicateName { offset: HEADER_BYTES + start })?,
        };
        Ok(Self { buffer, data_start: plan.data_start, header: plan.header, names })
    }

    /// Appends a fragment of the data, of any length.
    ///
    /// # Errors
    /// [`FrameError::DataMismatch`] if that is more data than was announced; the builder is then unchanged.
    pub fn push(&mut self, fragment: &[u8]) -> Result<(), FrameError> {
        if fragment.len() > self.remaining() {
            let have = self.received() + fragment.len();
            return Err(FrameError::DataMismatch { need: self.announced(), have });
        }
        if fragment.len() > self.buffer.capacity() - self.buffer.len() {
            self.grow(fragment.len());
        }
        self.buffer.extend_from_slice(fragment);
        Ok(())
    }

    /// Bytes of data still to come.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.announced() - self.received()
    }

    /// Bytes of memory that this unfinished frame holds, for the budget that all of them share.
    #[inline]
    pub fn reserved_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// The frame.
    ///
    /// # Errors
    /// [`FrameError::DataMismatch`] if data is missing.
    pub fn finish(self) -> Result<Frame, FrameError> {
        if self.remaining() != 0 {
            return Err(FrameError::DataMismatch { need: self.announced(), have: self.received() });
        }
        Ok(Frame::over(Bytes::from(self.buffer), self.header, self.names))
    }

    fn announced(&self) -> usize {
        self.header.data_bytes as usize
    }

    fn received(&self) -> usize {
        self.buffer.len() - self.data_start
    }

    #[cold]
    fn grow(&mut self, fragment_bytes: usize) {
        let received = self.received() + fragment_bytes;
        let ahead = received.max(AHEAD_BYTES).min(self.announced() - received);
        self.buffer.reserve_exact(fragment_bytes + ahead);
    }
}

impl Frame {
    /// Builds a frame whose data is at hand, in one allocation if data is at most 64 KiB and two otherwise.
    /// Flags are derived as [`FrameHead`] says; the sequence number is 0.
    ///
    /// # Errors
    /// As [`FrameBuilder::new`].
    pub fn build<'a, I>(kind: FrameKind, attrs: I, data: &[u8], limits: &Limits) -> Result<Frame, FrameError>
    where
        I: IntoIterator<Item = (&'a str, &'a str)>,
        I::IntoIter: Clone,
    {
        let mut builder = FrameBuilder::new(FrameHead::new(kind), attrs, data.len(), limits)?;
        builder.push(data)?;
        builder.finish()
    }

    /// A copy with other values of some attributes, which then come last; `None`: without that one. Kind, data and what only
    /// adaptors read stay.
    ///
    /// # Errors
    /// As [`FrameBuilder::new`].
    pub fn with_attributes(
        &self,
        changes: &[(&str, Option<&str>)],
        limits: &Limits,
    ) -> Result<Frame, FrameError> {
        let is_changed = |name: &str| changes.iter().any(|(changed, _)| *changed == name);
        let kept = self.attrs().filter(|(name, _)| !name.starts_with(PRIVATE_PREFIX) && !is_changed(name));
        let set = changes.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        let private = self.private().map(|(adaptor, text)| Private::escaped(adaptor, text));
        let head = FrameHead::new(self.kind()).private(private);
        let mut builder = FrameBuilder::new(head, kept.chain(set), self.data().len(), limits)?;
        builder.push(self.data())?;
        builder.finish()
    }
}

#[inline]
fn put_name(buffer: &mut Vec<u8>, name_bytes: usize) {
    buffer.extend_from_slice(&(name_bytes as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Flags;

    const EVENT: FrameHead<'_> = FrameHead::new(FrameKind::Event);

    fn event(data_bytes: usize) -> FrameBuilder {
        FrameBuilder::new(EVENT, [("id", "1")], data_bytes, &Limits::GATEWAY).unwrap()
    }

    #[test]
    fn copy_has_other_values_and_keeps_the_rest() {
        let attributes = [("id", "1"), ("replyto", "old"), ("type", "t")];
        let head = EVENT.private(Some(Private::bytes("a", b"\0\x01")));
        let mut builder = FrameBuilder::new(head, attributes, 2, &Limits::GATEWAY).unwrap();
        builder.push(b"hi").unwrap();
        let frame = builder.finish().unwrap();
        let copy = frame
            .with_attributes(
                &[("replyto", Some("new")), ("type", None), ("more", Some("m"))],
                &Limits::GATEWAY,
            )
            .unwrap();
        let shown: Vec<_> = copy.attrs().filter(|(name, _)| !name.starts_with('~')).collect();
        assert_eq!(shown, [("id", "1"), ("replyto", "new"), ("more", "m")]);
        assert_eq!((copy.kind(), copy.data(), copy.private()), (frame.kind(), frame.data(), frame.private()));
    }

    #[test]
    fn announcement_alone_reserves_no_more_than_64_kib() {
        for data_bytes in [0, 1, AHEAD_BYTES, AHEAD_BYTES + 1, 64 << 20] {
            let builder = event(data_bytes);
            assert_eq!(builder.reserved_bytes(), 23 + data_bytes.min(AHEAD_BYTES));
            assert_eq!(builder.remaining(), data_bytes);
        }
        let refused = FrameBuilder::new(EVENT, [], (64 << 20) + 1, &Limits::GATEWAY).unwrap_err();
        assert_eq!(refused, FrameError::DataLength { have: (64 << 20) + 1, max: 64 << 20 });
    }

    #[test]
    fn buffer_grows_with_what_was_received_and_ends_exact() {
        let (data_bytes, fragment) = (5_000_001, vec![7; 4096]);
        let mut builder = event(data_bytes);
        let (mut moves, mut reserved) = (0, builder.reserved_bytes());
        while builder.remaining() > 0 {
            let length = fragment.len().min(builder.remaining());
            builder.push(&fragment[..length]).unwrap();
            let received = data_bytes - builder.remaining();
            assert!(builder.reserved_bytes() <= 23 + received + received.max(AHEAD_BYTES));
            moves += usize::from(builder.reserved_bytes() != reserved);
            reserved = builder.reserved_bytes();
        }
        assert_eq!(reserved, 23 + data_bytes);
        assert!(moves <= 7, "{moves} moves");
        let frame = builder.finish().unwrap();
        assert_eq!(Frame::parse(frame.as_bytes().clone(), &Limits::GATEWAY).unwrap(), frame);
        assert!(frame.data().iter().all(|&byte| byte == 7));
    }

    #[test]
    fn data_of_another_length_than_announced_is_refused() {
        let mut builder = event(3);
        assert_eq!(builder.push(b"1234"), Err(FrameError::DataMismatch { need: 3, have: 4 }));
        builder.push(b"12").unwrap();
        assert_eq!(builder.push(b"34"), Err(FrameError::DataMismatch { need: 3, have: 4 }));
        assert_eq!(builder.finish(), Err(FrameError::DataMismatch { need: 3, have: 2 }));
    }

    #[test]
    fn limits_hold_for_builds_and_a_value_equal_to_the_limit_is_legal() {
        let limits = &Limits::EVENTMESH;
        let build = |attrs: &[(&str, &str)]| {
            Frame::build(FrameKind::Event, attrs.iter().copied(), b"", limits).map(|frame| frame.attr_count())
        };
        assert_eq!(build(&[("k", "v"); 64]), Ok(64));
        assert_eq!(build(&[("k", "v"); 65]), Err(FrameError::AttributeCount { have: 65, max: 64 }));
        let (name, value) = ("n".repeat(257), "v".repeat(4097));
        assert_eq!(build(&[(&name[1..], &value[1..])]), Ok(1));
        assert_eq!(build(&[(&name, "")]), Err(FrameError::NameLength { offset: 14, have: 257, max: 256 }));
        let refused = FrameError::ValueLength { offset: 21, have: 4097, max: 4096 };
        assert_eq!(build(&[("k", ""), ("k", &value)]), Err(refused));
        let small = Limits { frame_bytes_max: 22, ..Limits::EVENTMESH };
        let refused = Frame::build(FrameKind::Event, [("k", "v")], b"d", &small).map(|_| ());
        assert_eq!(refused, Err(FrameError::TooLong { have: 23, max: 22 }));
    }

    #[test]
    fn public_build_refuses_empty_and_duplicate_names() {
        let build = |attrs: &[(&str, &str)], limits: &Limits| {
            Frame::build(FrameKind::Event, attrs.iter().copied(), b"", limits)
        };
        let public = &Limits::GATEWAY.public();
        assert_eq!(build(&[("", "")], public), Err(FrameError::EmptyName { offset: 14 }));
        let twice = [("id", "1"), ("id", "2")];
        assert_eq!(build(&twice, public), Err(FrameError::DuplicateName { offset: 23 }));
        let trusted = build(&twice, &Limits::GATEWAY).unwrap();
        assert_eq!(trusted.attr("id"), Some("2"));
        assert!(build(&twice[..1], public).is_ok());
    }

    #[test]
    fn private_attribute_goes_first_and_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let head = EVENT.private(Some(Private::bytes("amqp", &all)));
        let builder = FrameBuilder::new(head, [("id", "1")], 0, &Limits::GATEWAY.public()).unwrap();
        let frame = builder.finish().unwrap();
        let (adaptor, text) = frame.private().unwrap();
        assert_eq!(adaptor, "amqp");
        assert_eq!(Private::escaped(adaptor, text).to_bytes().unwrap(), all);
        assert_eq!(frame.attrs().map(|(name, _)| name).collect::<Vec<_>>(), ["~amqp", "id"]);
        assert_eq!(frame.attr("~amqp"), Some(text));
        assert_eq!(Frame::parse(frame.as_bytes().clone(), &Limits::GATEWAY).unwrap(), frame);
    }

    #[test]
    fn flags_of_a_chunk_are_derived_unless_given() {
        let flags = |head: FrameHead<'_>, attrs: &[(&str, &str)]| {
            let builder = FrameBuilder::new(head, attrs.iter().copied(), 0, &Limits::EVENTMESH).unwrap();
            builder.finish().unwrap().flags()
        };
        let chunk = FrameHead::new(FrameKind::StreamChunk);
        assert_eq!(flags(chunk, &[("sid", "s")]), Flags::NONE);
        assert_eq!(flags(chunk, &[("err", "")]), Flags::NONE);
        assert_eq!(flags(chunk, &[("err", "x"), ("meta", "")]), Flags::HAS_ERROR | Flags::HAS_META);
        assert_eq!(flags(chunk.done(true), &[("err", "x")]), Flags::DONE | Flags::HAS_ERROR);
        assert_eq!(flags(chunk.flags(Flags::DONE), &[("err", "x")]), Flags::DONE);
        assert_eq!(flags(EVENT, &[("err", "x"), ("meta", "{}")]), Flags::NONE);
    }

    #[test]
    fn attributes_that_change_between_the_walks_are_refused() {
        let walks = std::cell::Cell::new(0);
        let attrs = std::iter::once(()).map(|()| {
            walks.set(walks.get() + 1);
            ("id", if walks.get() == 1 { "1" } else { "22" })
        });
        let refused = FrameBuilder::new(EVENT, attrs, 0, &Limits::GATEWAY).map(|_| ());
        assert_eq!(refused, Err(FrameError::UnstableAttributes));
    }
}
