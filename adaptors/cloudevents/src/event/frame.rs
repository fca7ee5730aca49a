//! From an event to the frame: canonical order, private attribute, data copied once. Reading back is `json_write`.

use framegate_frame::names::{DATACONTENTTYPE, DATASCHEMA, ID, SOURCE, SPECVERSION, SUBJECT, TIME, TYPE};
use framegate_frame::{Frame, FrameError, Limits, Private};

use super::model::{Data, Event};
use super::private;
use crate::adaptor::NAME;

/// Limits of frames that come from clients.
pub(crate) const EVENT_LIMITS: Limits = Limits::GATEWAY.public();

/// Builds the frame of an event.
///
/// # Errors
/// A limit of `limits` that the event breaks.
pub(crate) fn to_frame(event: &Event, limits: &Limits) -> Result<Frame, FrameError> {
    let kept = private::write(event);
    // what the JSON format implies is written for other protocols; the private attribute says that it was not given
    let implied = matches!(event.data, Data::Json(_)).then_some("application/json");
    let pairs: Vec<(&str, &str)> = event
        .attributes
        .iter()
        .map(|attribute| (attribute.name.as_str(), attribute.value.as_str()))
        .collect();
    let view = framegate_frame::Event {
        private: kept.as_deref().map(|text| Private::bytes(NAME, text.as_bytes())),
        specversion: event.get(SPECVERSION),
        id: event.get(ID),
        source: event.get(SOURCE),
        event_type: event.get(TYPE),
        datacontenttype: event.get(DATACONTENTTYPE).or(implied),
        dataschema: event.get(DATASCHEMA),
        subject: event.get(SUBJECT),
        time: event.get(TIME),
        extensions: pairs.as_slice().into(),
        data: event.data.bytes(),
    };
    view.to_frame(limits)
}
