//! The view of an event: CloudEvents context, extensions and data. Never converts values: `time` is not parsed,
//! `source` is not a URI, names are not checked. That is the work of the adaptors.

use crate::builder::FrameBuilder;
use crate::error::FrameError;
use crate::extensions::Extensions;
use crate::frame::Frame;
use crate::head::FrameHead;
use crate::kind::FrameKind;
use crate::limits::Limits;
use crate::names::{
    DATACONTENTTYPE, DATASCHEMA, FRAMEWORK, ID, SOURCE, SPECVERSION, SUBJECT, TIME, TYPE, framework_rank,
};
use crate::private::Private;

/// An event as fields. All context attributes are optional: a frame holds what its origin said, and the egress
/// adaptor makes up what its protocol needs. An empty value is not an absent one.
#[derive(Debug, Clone, Default)]
pub struct Event<'a> {
    /// What only the origin's adaptor understands.
    pub private: Option<Private<'a>>,
    /// CloudEvents version, normally `1.0`.
    pub specversion: Option<&'a str>,
    /// Event id, unique per source.
    pub id: Option<&'a str>,
    /// Event source, a URI reference.
    pub source: Option<&'a str>,
    /// Event type.
    pub event_type: Option<&'a str>,
    /// Media type of the data.
    pub datacontenttype: Option<&'a str>,
    /// URI of the schema of the data.
    pub dataschema: Option<&'a str>,
    /// Subject; the topic of an EventMesh message.
    pub subject: Option<&'a str>,
    /// Time of the event, RFC 3339 text as the origin wrote it.
    pub time: Option<&'a str>,
    /// All other attributes, framework attributes included.
    pub extensions: Extensions<'a>,
    /// The payload, as it was received.
    pub data: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads a frame of kind [`FrameKind::Event`] in one walk. Of duplicate context attributes the last one counts.
    ///
    /// # Errors
    /// [`FrameError::WrongKind`].
    pub fn from_frame(frame: &'a Frame) -> Result<Self, FrameError> {
        if frame.kind() != FrameKind::Event {
            return Err(FrameError::WrongKind { expected: FrameKind::Event, actual: frame.kind() });
        }
        let mut event = Self {
            private: frame.private().map(|(adaptor, text)| Private::escaped(adaptor, text)),
            extensions: Extensions::of_frame(frame.attrs()),
            data: frame.data(),
            ..Self::default()
        };
        for (name, value) in frame.attrs() {
            if let Some(field) = event.field(name) {
                *field = Some(value);
            }
        }
        Ok(event)
    }

    /// Builds the frame in canonical order: private attribute, context, framework attributes, then the other
    /// extensions in their order. Flags and sequence number are 0.
    ///
    /// # Errors
    /// As [`FrameBuilder::new`].
    pub fn to_frame(&self, limits: &Limits) -> Result<Frame, FrameError> {
        let mut builder = self.to_builder(self.data.len(), limits)?;
        builder.push(self.data)?;
        builder.finish()
    }

    /// As [`Event::to_frame`], for data of `data_bytes` bytes that comes in fragments; `data` is not used.
    ///
    /// # Errors
    /// As [`FrameBuilder::new`].
    pub fn to_builder(&self, data_bytes: usize, limits: &Limits) -> Result<FrameBuilder, FrameError> {
        let context = [
            (SPECVERSION, self.specversion),
            (ID, self.id),
            (SOURCE, self.source),
            (TYPE, self.event_type),
            (DATACONTENTTYPE, self.datacontenttype),
            (DATASCHEMA, self.dataschema),
            (SUBJECT, self.subject),
            (TIME, self.time),
        ];
        let context = context.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        let sorted = self.extensions.clone().map(|(name, _)| framework_rank(name)).is_sorted();
        let framework = if sorted { &[][..] } else { &FRAMEWORK };
        let framework = framework
            .iter()
            .flat_map(|&framework| self.extensions.clone().filter(move |&(name, _)| name == framework));
        let others = self
            .extensions
            .clone()
            .filter(move |&(name, _)| sorted || framework_rank(name) == FRAMEWORK.len());
        let head = FrameHead::new(FrameKind::Event).private(self.private);
        FrameBuilder::new(head, context.chain(framework).chain(others), data_bytes, limits)
    }

    fn field(&mut self, name: &str) -> Option<&mut Option<&'a str>> {
        Some(match name {
            SPECVERSION => &mut self.specversion,
            ID => &mut self.id,
            SOURCE => &mut self.source,
            TYPE => &mut self.event_type,
            DATACONTENTTYPE => &mut self.datacontenttype,
            DATASCHEMA => &mut self.dataschema,
            SUBJECT => &mut self.subject,
            TIME => &mut self.time,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_written_in_canonical_order() {
        let extensions =
            [("b", "1"), ("emttl", "5"), ("a", ""), ("partitionkey", "k"), ("id", "no"), ("~x", "no")];
        let event = Event {
            private: Some(Private::bytes("cloudevents", b"n\xFF")),
            specversion: Some("1.0"),
            id: Some("1"),
            source: Some(""),
            time: Some("2026-01-01T00:00Z"),
            extensions: Extensions::from(&extensions[..]),
            data: b"{}",
            ..Event::default()
        };
        let frame = event.to_frame(&Limits::EVENTMESH.public()).unwrap();
        let expected = [
            ("~cloudevents", "n\u{ff}"),
            ("specversion", "1.0"),
            ("id", "1"),
            ("source", ""),
            ("time", "2026-01-01T00:00Z"),
            ("emttl", "5"),
            ("partitionkey", "k"),
            ("b", "1"),
            ("a", ""),
        ];
        assert_eq!(frame.attrs().collect::<Vec<_>>(), expected);
        let read = Event::from_frame(&frame).unwrap();
        assert_eq!((read.id, read.source, read.event_type), (Some("1"), Some(""), None));
        assert_eq!(read.extensions.clone().collect::<Vec<_>>(), expected[5..]);
        assert_eq!(read.private.unwrap().to_bytes().unwrap(), &b"n\xFF"[..]);
        assert_eq!(read.to_frame(&Limits::EVENTMESH).unwrap(), frame);
    }

    #[test]
    fn last_duplicate_of_a_context_attribute_counts() {
        let attrs = [("id", "first"), ("x", "1"), ("id", "second"), ("x", "2")];
        let frame = Frame::build(FrameKind::Event, attrs, b"", &Limits::GATEWAY).unwrap();
        let event = Event::from_frame(&frame).unwrap();
        assert_eq!(event.id, Some("second"));
        assert_eq!(event.extensions.collect::<Vec<_>>(), [("x", "1"), ("x", "2")]);
    }

    #[test]
    fn stream_frame_is_no_event() {
        let frame = Frame::build(FrameKind::StreamChunk, [("sid", "s")], b"", &Limits::GATEWAY).unwrap();
        let expected = FrameError::WrongKind { expected: FrameKind::Event, actual: FrameKind::StreamChunk };
        assert_eq!(Event::from_frame(&frame).map(|_| ()), Err(expected));
    }
}
