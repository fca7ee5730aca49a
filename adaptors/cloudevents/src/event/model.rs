//! An event as a client sent it: checked attributes in canonical text form, and data as it was carried.

use bytes::Bytes;
use framegate_frame::is_reserved_from_clients;
use framegate_frame::names::{DATACONTENTTYPE, EMTTL};

use super::EventError;
use super::fault::{Faults, Place};
use super::rules::{REQUIRED, check_name, check_value};

/// JSON type of an attribute value, which its text alone does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// A string, whatever it means.
    Text,
    /// A number.
    Integer,
    /// true or false.
    Boolean,
}

/// One attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    /// Canonical text.
    pub(crate) value: String,
    pub(crate) scalar: Scalar,
}

/// Payload, by how it was carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Data {
    /// No data member, or an empty body.
    Absent,
    /// `data` as a JSON value: the exact source text.
    Json(Bytes),
    /// `data` as a JSON string that holds text of another media type.
    Text(Bytes),
    /// `data_base64`, or a body: bytes.
    Binary(Bytes),
}

impl Data {
    /// The payload bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Absent => &[],
            Self::Json(bytes) | Self::Text(bytes) | Self::Binary(bytes) => bytes,
        }
    }
}

/// An event that obeys the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// In the order in which they came; no name twice, none that is reserved.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) data: Data,
}

impl Event {
    /// Checks attributes. `place` says where an attribute stands. Names that clients may not set are removed.
    pub(crate) fn checked(
        attributes: Vec<Attribute>,
        data: Data,
        place: &dyn Fn(&str) -> Place,
        mut faults: Faults,
    ) -> Result<Self, EventError> {
        for attribute in &attributes {
            if let Err(detail) = check_name(&attribute.name) {
                faults.add(place(&attribute.name), detail);
            } else if let Err(detail) = check_value(&attribute.name, &attribute.value) {
                faults.add(place(&attribute.name), detail);
            }
        }
        for name in REQUIRED {
            // what could not be read is not among the attributes, and is not missing either
            if !attributes.iter().any(|attribute| attribute.name == name) && !faults.has(&place(name)) {
                faults.add(place(name), "is missing");
            }
        }
        let mut event = Self { attributes, data };
        event.attributes.retain(|attribute| !is_reserved_from_clients(&attribute.name));
        faults.or_ok(event)
    }

    /// The text of an attribute.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
            .map(|attribute| attribute.value.as_str())
    }

    /// Media type of the data, if one was given.
    pub(crate) fn content_type(&self) -> Option<&str> {
        self.get(DATACONTENTTYPE)
    }

    /// Time to live in ms: `emttl`, else what is left until `expirytime` at `now_ms` (at least 1).
    pub(crate) fn ttl_ms(&self, now_ms: Option<u64>) -> Option<u64> {
        let given = self.get(EMTTL).and_then(|text| text.parse().ok());
        given.or_else(|| {
            let expires = super::to_unix_ms(self.get("expirytime")?)?;
            let left = expires.saturating_sub(i64::try_from(now_ms?).ok()?);
            Some(u64::try_from(left).unwrap_or(0).max(1))
        })
    }
}
