//! Publishing: ASYNC_MESSAGE_TO_SERVER and BROADCAST_MESSAGE_TO_SERVER, which differ in the command only (reference
//! `eventmesh.md` 3.6). The ack leaves when the message is stored.

use framegate_adaptor_api::{Inbound, Outbound};
use framegate_broker::{Answer, Name, Publish, Request};
use framegate_frame::names;

use super::conversation::{Conversation, Waiting};
use crate::format::{self, Format};
use crate::header::Header;

/// Topic of a MeshMessage that names none.
const TOPIC_DEFAULT: &str = "default";

impl Conversation {
    /// Publishes the body of a package.
    ///
    /// # Errors
    /// The words of a refusal.
    pub(super) fn publish(
        &mut self,
        header: &Header<'_>,
        body: &[u8],
        out: &mut Outbound,
    ) -> Result<(), String> {
        let (topic, inbound, _) = self.message(header, body)?;
        let seq = header.seq.to_string();
        let Some(answer) = header.command.answer() else { return Ok(()) };
        let publish = to_topic(topic, inbound);
        self.ask_for(Waiting::Published { answer, seq }, Request::Publish(publish), out);
        Ok(())
    }

    /// Reads a message and where it goes.
    pub(super) fn message(
        &self,
        header: &Header<'_>,
        body: &[u8],
    ) -> Result<(Name, Inbound, Format), String> {
        let format = Format::of(header.protocol.as_deref())?;
        let inbound = format.read(&self.adaptors, body, &header.seq)?;
        format::note(&self.process, format);
        let topic = match (inbound.frame.attr(names::SUBJECT), format) {
            (Some(topic), _) => topic,
            (None, Format::Mesh) => TOPIC_DEFAULT,
            (None, Format::CloudEvents) => return Err("subject: is missing; it is the topic".to_owned()),
        };
        Ok((Name::topic(topic).map_err(|error| error.to_string())?, inbound, format))
    }
}

/// A topic publish that is answered when it is stored.
pub(super) fn to_topic(topic: Name, inbound: Inbound) -> Publish {
    Publish {
        answer: Answer::Reply,
        persistent: inbound.persistent,
        priority: inbound.priority,
        ttl_ms: inbound.ttl_ms,
        ..Publish::to_topic(topic, inbound.frame)
    }
}
