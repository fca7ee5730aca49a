//! Events: every one of the table, and that a response stands before what it causes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod harness;

use framegate_broker::{
    CancelReason, Death, DeathReason, Effect, Envelope, Lease, Name, Outcome, Position, Published, Reply,
    Request, Seq, Settle,
};
use harness::{Peer, delivery, frame, text_frame};
use serde_json::{Value, json};

fn with_events() -> Peer {
    let mut peer = Peer::open();
    peer.send("CONNECT", "auth", json!({"token": "t", "returnEvents": true}));
    peer.welcome();
    peer.received();
    peer
}

#[test]
fn delivery_has_every_key_in_order() {
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct-1", false);
    let mut message = delivery(consumer, 1, text_frame("hello"));
    message.redelivered = true;
    message.attempt = 3;
    peer.effect(Effect::Delivery(message));
    let event = peer.one();
    let tag = event["payload"]["deliveryTag"].clone();
    assert_eq!(tag.as_str().unwrap().len(), 36);
    let expected = json!({"version": 1, "type": "EVENT", "event": "MESSAGE_DELIVERED", "payload": {
        "queueName": "orders", "deliveryTag": tag, "consumerTag": "ct-1", "messageId": "m-1", "exchangeName": "shop",
        "routingKey": "order.new", "body": "hello", "properties": {"contentType": "text/plain", "messageId": "m-1"},
        "headers": {}, "redelivered": true, "deliveryCount": 3, "timestamp": 1_704_164_645_000_u64,
    }});
    assert_eq!(event.to_string(), expected.to_string());
}

#[test]
fn response_of_consume_stands_before_its_first_delivery() {
    let mut peer = Peer::logged_in();
    peer.send("CONSUME", "r1", json!({"queueName": "orders", "consumerTag": "ct"}));
    let (id, request) = peer.requests().pop().unwrap();
    let Request::Consume(consume) = request else { panic!("{request:?}") };
    peer.effect(Effect::Delivery(delivery(consume.consumer, 1, text_frame("a"))));
    peer.effect(Effect::Delivery(delivery(consume.consumer, 2, text_frame("b"))));
    assert!(peer.received().is_empty());
    peer.reply(id, Ok(Reply::Done));
    peer.effect(Effect::Delivery(delivery(consume.consumer, 3, text_frame("c"))));
    let messages = peer.received();
    assert_eq!(messages[0]["requestId"], "r1");
    let bodies: Vec<_> = messages[1..].iter().map(|message| message["payload"]["body"].clone()).collect();
    assert_eq!(bodies, ["a", "b", "c"]);
}

#[test]
fn auto_acked_delivery_has_a_tag_that_is_not_outstanding() {
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct", true);
    let tag = peer.deliver(consumer, 1);
    peer.send("ACK", "r", json!({"deliveryTag": tag}));
    assert_eq!(peer.failure(), "UNKNOWN_DELIVERY_TAG");
}

#[test]
fn consumer_of_a_deleted_queue_is_told() {
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct", false);
    peer.effect(Effect::Cancelled { consumer, reason: CancelReason::QueueDeleted });
    assert_eq!(
        peer.one(),
        json!({"version": 1, "type": "EVENT", "event": "CONSUMER_CANCELLED",
            "payload": {"consumerTag": "ct", "queueName": "orders", "reason": "QUEUE_DELETED"}})
    );
    peer.send("CANCEL", "r", json!({"consumerTag": "ct"}));
    assert_eq!(peer.failure(), "CONSUMER_NOT_FOUND");
    // What was on the way to it goes back.
    peer.effect(Effect::Delivery(delivery(consumer, 4, text_frame("late"))));
    assert!(matches!(
        peer.request().1,
        Request::Settle(Settle { outcome: Outcome::Requeue { delay_ms: 0 }, answer: false, .. })
    ));
}

fn mandatory(peer: &mut Peer) -> Vec<Value> {
    let payload = json!({"exchangeName": "shop", "routingKey": "k", "body": 1, "mandatory": true,
        "properties": {"messageId": "m"}});
    peer.send("PUBLISH", "r", payload);
    let (id, request) = peer.request();
    let Request::Publish(publish) = request else { panic!("{request:?}") };
    assert!(publish.mandatory);
    peer.effect(Effect::Returned { id, envelope: Box::new(Envelope::default()), frame: publish.frame });
    peer.reply(id, Ok(Reply::Published(Published::default())));
    peer.received()
}

#[test]
fn unroutable_mandatory_publish_fails_and_is_returned_only_to_who_asked() {
    let messages = mandatory(&mut Peer::logged_in());
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["error"]["code"], "UNROUTABLE");
    let messages = mandatory(&mut with_events());
    assert_eq!(messages[0]["error"]["code"], "UNROUTABLE");
    assert_eq!(
        messages[1],
        json!({"version": 1, "type": "EVENT", "event": "MESSAGE_RETURNED",
            "payload": {"exchangeName": "shop", "routingKey": "k", "messageId": "m", "reason": "UNROUTABLE"}})
    );
}

#[test]
fn blocked_publishers_are_told_only_when_they_asked() {
    let mut peer = Peer::logged_in();
    peer.effect(Effect::Blocked(true));
    assert!(peer.received().is_empty());
    let mut peer = with_events();
    peer.effect(Effect::Blocked(true));
    peer.effect(Effect::Blocked(false));
    let events: Vec<_> = peer.received().into_iter().map(|message| message["event"].clone()).collect();
    assert_eq!(events, ["CONNECTION_BLOCKED", "CONNECTION_UNBLOCKED"]);
}

#[test]
fn shutdown_is_said_and_waits_for_commands_in_progress() {
    let mut peer = Peer::logged_in();
    peer.drain();
    assert_eq!(peer.one()["event"], "SERVER_SHUTDOWN");
    assert!(peer.out.close.is_some());

    let mut peer = Peer::logged_in();
    peer.send("PUBLISH", "p", json!({"queueName": "orders", "body": 1}));
    let (id, _) = peer.request();
    peer.drain();
    assert_eq!(peer.one()["event"], "SERVER_SHUTDOWN");
    assert!(peer.out.close.is_none());
    peer.reply(id, Ok(Reply::Published(Published::default())));
    assert_eq!(peer.one()["requestId"], "p");
    assert!(peer.out.close.is_some());
}

#[test]
fn message_that_no_packet_can_carry_is_settled_as_undeliverable() {
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct", false);
    // 900 KiB of bytes are 1.2 MB of base64.
    for data in [vec![0xFF; 900 * 1024], vec![b'x'; 2 << 20]] {
        peer.effect(Effect::Delivery(delivery(consumer, 5, frame(&[], &data))));
        assert!(peer.received().is_empty());
        let (_, request) = peer.request();
        assert!(
            matches!(&request, Request::Settle(Settle { lease: Lease::Positions(id, seqs), outcome: Outcome::Undeliverable, answer: false })
                if *id == consumer && seqs == &[Seq(5)]),
            "{request:?}"
        );
    }
    // Nothing is outstanding, and the connection goes on.
    let tag = peer.deliver(consumer, 6);
    peer.send("ACK", "r", json!({"deliveryTag": tag, "multiple": true}));
    assert!(
        matches!(&peer.request().1, Request::Settle(Settle { lease: Lease::Positions(_, seqs), .. }) if seqs == &[Seq(6)])
    );
}

#[test]
fn pulled_message_that_no_packet_can_carry_fails_the_get() {
    let mut peer = Peer::logged_in();
    peer.send("GET", "r", json!({"queueName": "orders"}));
    let (id, request) = peer.request();
    let Request::Fetch(fetch) = request else { panic!("{request:?}") };
    let messages = vec![delivery(fetch.consumer, 1, frame(&[], &vec![0xFF; 900 * 1024]))];
    peer.reply(id, Ok(Reply::Fetched { messages, remaining: 0 }));
    assert_eq!(peer.failure(), "MESSAGE_TOO_LARGE");
    assert!(matches!(peer.request().1, Request::Settle(Settle { outcome: Outcome::Undeliverable, .. })));
}

#[test]
fn deaths_are_shown_as_headers_and_left_out_when_they_do_not_fit() {
    let death = Death {
        queue: Name::from_static("orders"),
        reason: DeathReason::Expired,
        exchange: Name::from_static("shop"),
        keys: [Name::from_static("k")].into_iter().collect(),
        count: 2,
        time_ms: 5,
        ttl_ms: Some(100),
    };
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct", false);
    let mut message = delivery(consumer, 1, text_frame("a"));
    message.envelope.deaths = vec![death.clone()];
    peer.effect(Effect::Delivery(message));
    assert_eq!(
        peer.one()["payload"]["headers"],
        json!({
            "x-death": [{"count": 2, "reason": "expired", "queue": "orders", "time": 5, "exchange": "shop",
                "routing-keys": ["k"], "original-expiration": "100"}],
            "x-first-death-reason": "expired", "x-first-death-queue": "orders", "x-first-death-exchange": "shop",
        })
    );
    let mut message = delivery(consumer, 2, text_frame(&"x".repeat(1_048_576 - 600)));
    message.envelope.deaths = vec![death; 16];
    peer.effect(Effect::Delivery(message));
    assert_eq!(peer.one()["payload"]["headers"], json!({}));
}

#[test]
fn topic_events_need_no_settlement() {
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct", false);
    let mut message = delivery(consumer, 1, text_frame("a"));
    message.position = Position::Topic(framegate_broker::TopicId(1), framegate_broker::Offset(4));
    peer.effect(Effect::Delivery(message));
    let tag = peer.one()["payload"]["deliveryTag"].clone();
    peer.send("ACK", "r", json!({"deliveryTag": tag}));
    assert_eq!(peer.failure(), "UNKNOWN_DELIVERY_TAG");
}
