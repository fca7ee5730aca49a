//! What the two stream views share: the required session id, text as data, and optional values that are left out
//! when empty. Never used for events, where an empty value differs from an absent one.

use crate::error::FrameError;
use crate::frame::Frame;
use crate::kind::FrameKind;
use crate::names::SID;

/// The session id and the data of a stream frame of the expected kind.
pub(crate) fn sid_and_text(frame: &Frame, expected: FrameKind) -> Result<(&str, &str), FrameError> {
    if frame.kind() != expected {
        return Err(FrameError::WrongKind { expected, actual: frame.kind() });
    }
    let sid = frame.attr(SID).ok_or(FrameError::MissingAttribute { name: SID })?;
    let text = std::str::from_utf8(frame.data())
        .map_err(|error| FrameError::DataNotText { offset: error.valid_up_to() })?;
    Ok((sid, text))
}

/// The value of an attribute that is there and not empty.
pub(crate) fn filled_attr<'a>(frame: &'a Frame, name: &str) -> Option<&'a str> {
    frame.attr(name).filter(|value| !value.is_empty())
}

/// The attribute to write for an optional value, if it is there and not empty.
pub(crate) fn filled<'a>(name: &'a str, value: Option<&'a str>) -> Option<(&'a str, &'a str)> {
    value.filter(|value| !value.is_empty()).map(|value| (name, value))
}
