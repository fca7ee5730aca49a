//! Which of its two body formats a message is pushed in. A subscriber never says which it reads: the choice goes by what the
//! same process has published, then by the configuration, then by where the message came from (reference `eventmesh.md` 3.8).

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use framegate_adaptor_api::{AdaptError, Adaptors, Egress, Inbound, WireMessage};
use framegate_frame::{Frame, names};

use crate::limits::FORMATS_KEPT_MAX;
use crate::mesh;

/// A body format, by the value of the header property `protocoltype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A MeshMessage as JSON.
    Mesh,
    /// A CloudEvent in the JSON format.
    CloudEvents,
}

impl Format {
    /// By the property; without one it is a MeshMessage.
    ///
    /// # Errors
    /// The value, in the words of the reply.
    pub(crate) fn of(protocol: Option<&str>) -> Result<Self, String> {
        match protocol {
            None | Some("" | "eventmeshmessage") => Ok(Self::Mesh),
            Some("cloudevents") => Ok(Self::CloudEvents),
            Some(other) => {
                Err(format!("protocoltype '{other}' is not supported: eventmeshmessage or cloudevents"))
            }
        }
    }

    /// Value of the property.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Mesh => "eventmeshmessage",
            Self::CloudEvents => "cloudevents",
        }
    }

    /// Name of its adaptor in the registry.
    fn adaptor(self) -> &'static str {
        match self {
            Self::Mesh => mesh::NAME,
            Self::CloudEvents => "cloudevents",
        }
    }

    /// Name of the bytes that subscribers of one event share.
    pub(crate) fn shared(self) -> &'static str {
        match self {
            Self::Mesh => "eventmesh-meshmessage",
            Self::CloudEvents => "eventmesh-cloudevents",
        }
    }

    /// The format in which a message was published here, or that suits it best.
    pub(crate) fn of_origin(frame: &Frame) -> Self {
        if frame.attr(names::EMORIGIN) == Some(mesh::NAME) { Self::Mesh } else { Self::CloudEvents }
    }

    /// Reads the body of a package. `seq` is its header's.
    ///
    /// # Errors
    /// What is wrong with the body.
    pub(crate) fn read(self, adaptors: &Adaptors, body: &[u8], seq: &str) -> Result<Inbound, String> {
        let read = match self {
            Self::Mesh => mesh::to_inbound(body, seq),
            Self::CloudEvents => match adaptors.get(self.adaptor()) {
                Some(adaptor) => {
                    adaptor.to_frame(WireMessage { head: Bytes::copy_from_slice(body), body: Bytes::new() })
                }
                None => return Err("CloudEvents are not built in".to_owned()),
            },
        };
        let mut inbound = read.map_err(|error| error.to_string())?;
        if inbound.ttl_ms.is_none() {
            let given = inbound.frame.attr("ttl").or_else(|| inbound.frame.attr(names::EMTTL));
            inbound.ttl_ms = given.and_then(|ms| ms.trim().parse().ok());
        }
        Ok(inbound)
    }

    /// The body of a package.
    ///
    /// # Errors
    /// This format cannot carry the message.
    pub(crate) fn write(self, adaptors: &Adaptors, message: Egress<'_>) -> Result<Bytes, AdaptError> {
        match (self, adaptors.get(self.adaptor())) {
            (Self::CloudEvents, Some(adaptor)) => adaptor.to_wire(message).map(|wire| wire.head),
            _ => {
                let mut body = BytesMut::with_capacity(256 + message.frame.data().len());
                mesh::put_message(&mut body, message);
                Ok(body.freeze())
            }
        }
    }
}

/// What client processes published last, by `UserAgent::process`.
#[derive(Debug, Default)]
struct Seen {
    by_process: HashMap<String, Format>,
    /// In order of arrival.
    order: VecDeque<String>,
}

static SEEN: LazyLock<Mutex<Seen>> = LazyLock::new(Mutex::default);

impl Seen {
    fn note(&mut self, process: &str, format: Format) {
        if let Some(known) = self.by_process.get_mut(process) {
            *known = format;
            return;
        }
        if self.order.len() >= FORMATS_KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_process.remove(&oldest);
        }
        self.by_process.insert(process.to_owned(), format);
        self.order.push_back(process.to_owned());
    }
}

/// Remembers what a process publishes.
pub(crate) fn note(process: &str, format: Format) {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).note(process, format);
}

/// What a process has published.
pub(crate) fn noted(process: &str) -> Option<Format> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).by_process.get(process).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_process_is_forgotten_when_there_are_too_many() {
        let mut seen = Seen::default();
        for process in 0..=FORMATS_KEPT_MAX {
            seen.note(&process.to_string(), Format::Mesh);
            seen.note(&process.to_string(), Format::CloudEvents);
        }
        assert_eq!((seen.by_process.len(), seen.order.len()), (FORMATS_KEPT_MAX, FORMATS_KEPT_MAX));
        assert_eq!(seen.by_process.get("0"), None);
        assert_eq!(seen.by_process.get("1"), Some(&Format::CloudEvents));
    }
}
