//! How subscriptions are kept: one durable queue per vhost whose messages are the subscriptions, each whole. The gateway is its only
//! consumer and holds them all; a change publishes the new version and settles the old one as one block. Knows no worker.

use framegate_broker::{
    Answer, Consume, ConsumerId, Define, Delivery, Lease, Name, Outcome, Principal, Publish, Query,
    QueueProperties, QueueSpec, Reply, Request, Seq, Settle,
};
use framegate_frame::{Frame, FrameKind, names};

use super::record::Record;
use crate::event::EVENT_LIMITS;

/// The queue, and the user that its messages are from. What others put into it is thrown away.
pub(crate) const QUEUE: &str = "framegate.webhooks";
const TYPE: &str = "framegate.webhook.subscription";
pub(crate) const CONSUMER: ConsumerId = ConsumerId(1);

/// Who writes subscriptions. No login gives this user unless the operator names one so.
pub(crate) fn keeper() -> Principal {
    Principal::unrestricted(Name::from_static(QUEUE))
}

/// Declares the queue.
pub(crate) fn declare() -> Request {
    // seen only when it is on disk: what is seen is what survives
    let properties = QueueProperties { deliver_durable: true, ..QueueProperties::default() };
    let name = Name::from_static(QUEUE);
    Request::Define(Define::Queue(QueueSpec { name, durable: true, properties, ..QueueSpec::default() }))
}

/// Takes everything that is in it, and keeps it.
pub(crate) fn consume() -> Request {
    Request::Consume(Consume {
        consumer: CONSUMER,
        queue: Name::from_static(QUEUE),
        prefetch: None,
        pool: None,
        exclusive: true,
        auto_ack: false,
        lease_ms: None,
        tokens: false,
        priority: 0,
    })
}

/// Asks how much of it has not been handed out yet.
pub(crate) fn look() -> Request {
    Request::Query(Query::Queue(Name::from_static(QUEUE)))
}

/// Whether all of it has.
pub(crate) fn is_handed_out(reply: &Reply) -> bool {
    matches!(reply, Reply::Queue(queue) if queue.ready == 0)
}

/// Writes a version, in place of an older one.
///
/// # Errors
/// The record is too large for a frame.
pub(crate) fn put(record: &Record, old: Option<Seq>) -> Result<Request, String> {
    let json = serde_json::to_vec(record).map_err(|error| error.to_string())?;
    let attributes =
        [(names::ID, record.id.as_str()), (names::TYPE, TYPE), (names::DATACONTENTTYPE, "application/json")];
    let frame = Frame::build(FrameKind::Event, attributes, &json, &EVENT_LIMITS)
        .map_err(|error| error.to_string())?;
    let publish = Publish {
        persistent: true,
        answer: Answer::Reply,
        publisher: Some(Name::from_static(QUEUE)),
        ..Publish::new(Name::default(), Name::from_static(QUEUE), frame)
    };
    Ok(match old {
        Some(old) => Request::Atomic(vec![Request::Publish(publish), forget(vec![old])]),
        None => Request::Publish(publish),
    })
}

/// Whether the queue was there to take the version.
pub(crate) fn is_kept(reply: &Reply) -> bool {
    match reply {
        Reply::Published(published) => published.queues > 0,
        Reply::Atomic(published) => published.iter().all(|published| published.queues > 0),
        _ => true,
    }
}

/// Removes versions.
pub(crate) fn forget(seqs: Vec<Seq>) -> Request {
    let lease = Lease::Positions(CONSUMER, seqs);
    Request::Settle(Settle { lease, outcome: Outcome::Ack, answer: false })
}

/// A subscription, if the message is one and the gateway wrote it.
pub(crate) fn read(delivery: &Delivery) -> Option<Record> {
    if delivery.envelope.publisher.as_deref() != Some(QUEUE) || delivery.frame.attr(names::TYPE) != Some(TYPE)
    {
        return None;
    }
    serde_json::from_slice(delivery.frame.data()).ok()
}
