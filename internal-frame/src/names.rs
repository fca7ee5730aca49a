//! Attribute names with a meaning: CloudEvents context, framework, stream, trusted ones, and their order.
//! Never gives them behaviour: time to live, correlation and the rest belong to the gateway and the adaptors.

/// First character of a private attribute's name; see [`Private`](crate::Private).
pub const PRIVATE_PREFIX: char = '~';

/// CloudEvents version, normally `1.0`.
pub const SPECVERSION: &str = "specversion";
/// Event id, unique per source.
pub const ID: &str = "id";
/// Event source, a URI reference.
pub const SOURCE: &str = "source";
/// Event type.
pub const TYPE: &str = "type";
/// Media type of the data.
pub const DATACONTENTTYPE: &str = "datacontenttype";
/// URI of the schema of the data.
pub const DATASCHEMA: &str = "dataschema";
/// Subject; the topic of an EventMesh message.
pub const SUBJECT: &str = "subject";
/// Time of the event, RFC 3339; seconds may be missing in frames of JVM producers.
pub const TIME: &str = "time";

/// Time to live in milliseconds, decimal text, counted from `time`.
pub const EMTTL: &str = "emttl";
/// Links a reply to its request.
pub const EMCORRELATIONID: &str = "emcorrelationid";
/// Where a reply goes.
pub const REPLYTO: &str = "replyto";
/// Key of sticky distribution.
pub const PARTITIONKEY: &str = "partitionkey";
/// Tenant, principal of permissions and quotas.
pub const EMTENANTID: &str = "emtenantid";
/// Lower-case hex HMAC-SHA256 over `id|source|type`.
pub const EMSIGNATURE: &str = "emsignature";

/// Stream session id, `<workerId>:<32 hex>`.
pub const SID: &str = "sid";
/// Reply address of a stream, `parent#lite` (the stream frames' spelling).
pub const STREAM_REPLY_TO: &str = "replyTo";
/// Model or capability a stream request asks for.
pub const MODEL: &str = "model";
/// Conversation id of a stream request.
pub const CONV: &str = "conv";
/// Error text of a chunk.
pub const ERR: &str = "err";
/// What a chunk is: `text`, `thought`, `tool`, `structured`.
pub const ETYPE: &str = "etype";
/// Flat JSON object beside a chunk.
pub const META: &str = "meta";

/// Offset of the record a message was read from, decimal text. Reserved.
pub const EMMQOFFSET: &str = "emmqoffset";
/// Partition of the record a message was read from, decimal text. Reserved.
pub const EMMQPARTITION: &str = "emmqpartition";
/// Ack key of a storage backend. Reserved.
pub const EMPOPCK: &str = "empopck";
/// Format a message came in, `meshmessage`. Reserved.
pub const EMORIGIN: &str = "emorigin";

/// CloudEvents context attributes in canonical order; they come first (after a private attribute).
pub const CONTEXT: [&str; 8] = [SPECVERSION, ID, SOURCE, TYPE, DATACONTENTTYPE, DATASCHEMA, SUBJECT, TIME];

/// Framework attributes in canonical order; they come after [`CONTEXT`], and before all others, which keep the
/// order in which they arrived.
pub const FRAMEWORK: [&str; 6] = [EMTTL, EMCORRELATIONID, REPLYTO, PARTITIONKEY, EMTENANTID, EMSIGNATURE];

/// Names that steer acks and cursors inside, so that no client may send them.
pub const RESERVED: [&str; 4] = [EMMQOFFSET, EMMQPARTITION, EMPOPCK, EMORIGIN];

/// Whether an attribute of this name is removed from everything a client sends: it starts with `~` or is one of
/// [`RESERVED`].
#[inline]
pub fn is_reserved_from_clients(name: &str) -> bool {
    name.starts_with(PRIVATE_PREFIX) || RESERVED.contains(&name)
}

/// Whether the name is one of [`CONTEXT`].
#[inline]
pub(crate) fn is_context(name: &str) -> bool {
    matches!(name, SPECVERSION | ID | SOURCE | TYPE | DATACONTENTTYPE | DATASCHEMA | SUBJECT | TIME)
}

/// The place of the name in [`FRAMEWORK`]; the number of its names for all others.
#[inline]
pub(crate) fn framework_rank(name: &str) -> usize {
    match name {
        EMTTL => 0,
        EMCORRELATIONID => 1,
        REPLYTO => 2,
        PARTITIONKEY => 3,
        EMTENANTID => 4,
        EMSIGNATURE => 5,
        _ => FRAMEWORK.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_may_use_every_name_but_the_private_and_the_steering_ones() {
        for name in ["~", "~amqp", "emmqoffset", "emmqpartition", "empopck", "emorigin"] {
            assert!(is_reserved_from_clients(name), "{name}");
        }
        let open =
            CONTEXT.iter().chain(&FRAMEWORK).copied().chain(["", "a~", "EMORIGIN", "emoriginx", "sid"]);
        for name in open {
            assert!(!is_reserved_from_clients(name), "{name}");
        }
    }

    #[test]
    fn canonical_lists_and_their_tests_agree() {
        assert!(CONTEXT.iter().all(|name| is_context(name) && framework_rank(name) == FRAMEWORK.len()));
        for (rank, name) in FRAMEWORK.iter().enumerate() {
            assert!(!is_context(name));
            assert_eq!(framework_rank(name), rank);
        }
        assert!(!is_context("") && !is_context("times"));
    }
}
