//! Headers of a message, read by the adaptor that wrote them. Nothing is stored twice.

use std::collections::HashMap;

use framegate_frame::Frame;

use crate::definition::{HashProperty, HeaderValue};

/// Reads the headers of a frame that its adaptor made and hands each to the visitor.
pub type HeadersFn = fn(&Frame, &mut dyn FnMut(&str, HeaderValue<'_>));

/// Which function reads the headers of which frame: by the name of its private attribute.
#[derive(Debug, Clone, Default)]
pub struct HeaderTable {
    by_adaptor: HashMap<&'static str, HeadersFn>,
}

impl HeaderTable {
    /// A table of (adaptor name, function).
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = (&'static str, HeadersFn)>) -> Self {
        Self { by_adaptor: entries.into_iter().collect() }
    }

    /// Hands every header of `frame` to `visit`: by the function of its private attribute's adaptor; without one
    /// the frame's extension attributes as text.
    pub fn read(&self, frame: &Frame, visit: &mut dyn FnMut(&str, HeaderValue<'_>)) {
        if let Some(read) = frame.private().and_then(|(adaptor, _)| self.by_adaptor.get(adaptor)) {
            return read(frame, visit);
        }
        for (name, value) in frame.attrs() {
            if !name.starts_with('~') && !framegate_frame::names::CONTEXT.contains(&name) {
                visit(name, HeaderValue::Text(value.into()));
            }
        }
    }
}

/// A property of a message, as its frame says it.
pub(crate) fn property(frame: &Frame, property: HashProperty) -> Option<String> {
    let attribute = match property {
        HashProperty::MessageId => framegate_frame::names::ID,
        HashProperty::CorrelationId => framegate_frame::names::EMCORRELATIONID,
        HashProperty::Timestamp => framegate_frame::names::TIME,
    };
    frame.attr(attribute).map(str::to_owned)
}
