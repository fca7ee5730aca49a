//! The adaptor `a2a`: a JSON-RPC message to a frame and back, as EventMesh maps it (reference `eventmesh.md` 2.4). The data is
//! the message, byte for byte, both ways.
//!
//! | message | frame |
//! |---|---|
//! | | `specversion` 1.0, `source` eventmesh-a2a, `protocol` a2a |
//! | `id`, as text; a random UUID when it has none | `id` |
//! | `jsonrpc` | `ema2aversion` |
//! | `method` | `a2amethod`, `ema2amethod`; `type` org.apache.eventmesh.a2a.METHOD.req, with `.` for `/` |
//! | `result` or `error` | `type` org.apache.eventmesh.a2a.common.response |
//! | `params._topic`, else `org_id`, `unit_id` and `agent_id` together | `subject` |
//! | `params._seq`, `params._agentId` | `seq`, `targetagent` |

use std::borrow::Cow;

use bytes::Bytes;
use framegate_adaptor_api::{AdaptError, Egress, FrameAdaptor, Inbound, WireMessage};
use framegate_broker::Keys;
use framegate_frame::{Frame, FrameKind, Limits, names};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::text::{Texts, text_of};

const NAME: &str = "a2a";

/// The adaptor.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct A2a;

#[derive(Deserialize, Default)]
struct Message<'a> {
    #[serde(default, borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

impl FrameAdaptor for A2a {
    fn name(&self) -> &'static str {
        NAME
    }

    /// `head` is not used; `body` is the JSON-RPC message, or a batch of them, which has no method.
    fn to_frame(&self, message: WireMessage) -> Result<Inbound, AdaptError> {
        let invalid = |reason: String| AdaptError::Invalid { what: "message".to_owned(), reason };
        let json = std::str::from_utf8(&message.body).map_err(|error| invalid(error.to_string()))?;
        let read: Message<'_> = match json.trim_ascii_start().starts_with('{') {
            true => serde_json::from_str(json).map_err(|error| invalid(error.to_string()))?,
            false => serde_json::from_str::<&RawValue>(json)
                .map(|_| Message::default())
                .map_err(|error| invalid(error.to_string()))?,
        };
        let params: Texts<'_> = read
            .params
            .filter(|params| params.get().starts_with('{'))
            .and_then(|params| serde_json::from_str(params.get()).ok())
            .unwrap_or_default();
        let param =
            |wanted: &str| params.0.iter().find(|(name, _)| name == wanted).map(|(_, value)| &**value);
        let kind = match &read.method {
            Some(method) => Cow::Owned(format!("org.apache.eventmesh.a2a.{}.req", method.replace('/', "."))),
            None if read.result.is_some() || read.error.is_some() => {
                Cow::Borrowed("org.apache.eventmesh.a2a.common.response")
            }
            None => Cow::Borrowed(NAME),
        };
        let id = read.id.and_then(text_of).unwrap_or_else(|| Uuid::new_v4().to_string().into());
        let identity = match (param("org_id"), param("unit_id"), param("agent_id")) {
            (Some(org), Some(unit), Some(agent)) => Some(format!("a2a/v1/discovery/{org}/{unit}/{agent}")),
            _ => None,
        };
        let attributes = [
            (names::SPECVERSION, Some("1.0")),
            (names::ID, Some(&*id)),
            (names::SOURCE, Some("eventmesh-a2a")),
            (names::TYPE, Some(&*kind)),
            (names::SUBJECT, param("_topic").or(identity.as_deref())),
            ("protocol", Some(NAME)),
            ("ema2aversion", read.jsonrpc.as_deref()),
            ("a2amethod", read.method.as_deref()),
            ("ema2amethod", read.method.as_deref()),
            ("targetagent", param("_agentId")),
            ("seq", param("_seq")),
        ];
        let attributes = attributes.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Ok(Inbound {
            frame: Frame::build(FrameKind::Event, attributes, &message.body, &Limits::EVENTMESH.public())?,
            persistent: true,
            priority: None,
            ttl_ms: None,
            delay_ms: 0,
            keys: Keys::new(),
        })
    }

    fn to_wire(&self, message: Egress<'_>) -> Result<WireMessage, AdaptError> {
        Ok(WireMessage { head: Bytes::new(), body: message.frame.data_bytes() })
    }
}
