//! Every command and alias of the table: the request that the broker gets, and the response that the client gets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod harness;

use framegate_broker::{
    Answer, BindTarget, BindingInfo, Define, ExchangeInfo, ExchangeKind, HashOn, HashProperty, HeaderValue,
    Lease, Name, Outcome, Published, Query, QueueInfo, QueueProperties, Reply, Request, Seq, Settle, Stats,
};
use harness::{Peer, delivery, text_frame};
use serde_json::{Value, json};

fn queue_info() -> QueueInfo {
    QueueInfo {
        name: Name::from_static("orders"),
        durable: true,
        exclusive: false,
        auto_delete: false,
        properties: QueueProperties {
            dead_letter_exchange: Some(Name::from_static("dlx")),
            ..QueueProperties::default()
        },
        ready: 3,
        unacked: 2,
        bytes: 99,
        consumers: 1,
    }
}

fn exchange_info() -> ExchangeInfo {
    ExchangeInfo {
        name: Name::from_static("shop"),
        kind: ExchangeKind::Topic,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
    }
}

/// Runs a command under its name and its aliases; `check` looks at the request, `reply` answers it.
fn run(words: &[&str], payload: &Value, check: impl Fn(&Request) -> bool, reply: &Reply, response: &Value) {
    for word in words {
        let mut peer = Peer::logged_in();
        peer.send(word, "r1", payload.clone());
        let (id, request) = peer.request();
        assert!(check(&request), "{word}: {request:?}");
        assert!(peer.received().is_empty());
        peer.reply(id, Ok(reply.clone()));
        let message = peer.one();
        let expected = json!({
            "version": 1, "type": "RESPONSE", "requestId": "r1", "success": true, "payload": response,
        });
        assert_eq!(message, expected, "{word}");
    }
}

#[test]
fn queue_commands() {
    run(
        &["QUEUE_DECLARE"],
        &json!({"name": "orders", "durable": true, "arguments": {"deadLetterExchange": "dlx", "x-dead-letter-routing-key": "k"}}),
        |request| {
            matches!(request, Request::Define(Define::Queue(spec)) if spec.name == "orders" && spec.durable
                && !spec.exclusive && !spec.auto_delete
                && spec.properties.dead_letter_exchange.as_deref() == Some("dlx")
                && spec.properties.dead_letter_key.as_deref() == Some("k"))
        },
        &Reply::Queue(queue_info()),
        &json!({"name": "orders", "durable": true, "exclusive": false, "autoDelete": false, "messageCount": 3, "consumerCount": 1}),
    );
    run(
        &["QUEUE_DECLARE"],
        &json!({"name": "orders", "passive": true}),
        |request| matches!(request, Request::Define(Define::QueuePassive(name)) if *name == "orders"),
        &Reply::Queue(queue_info()),
        &json!({"name": "orders", "durable": true, "exclusive": false, "autoDelete": false, "messageCount": 3, "consumerCount": 1}),
    );
    run(
        &["QUEUE_DELETE"],
        &json!({"name": "orders", "ifUnused": true}),
        |request| matches!(request, Request::Define(Define::DeleteQueue { name, if_unused: true, if_empty: false }) if *name == "orders"),
        &Reply::Removed { messages: 4 },
        &json!({"name": "orders", "messageCount": 4}),
    );
    run(
        &["QUEUE_PURGE"],
        &json!({"name": "orders"}),
        |request| matches!(request, Request::Define(Define::Purge(name)) if *name == "orders"),
        &Reply::Removed { messages: 4 },
        &json!({"name": "orders", "messageCount": 4}),
    );
    let object = json!({
        "name": "orders", "durable": true, "exclusive": false, "autoDelete": false, "messageCount": 3,
        "unackedCount": 2, "consumerCount": 1, "arguments": {"deadLetterExchange": "dlx"},
    });
    run(
        &["QUEUE_LIST"],
        &json!({}),
        |request| matches!(request, Request::Query(Query::Queues)),
        &Reply::Queues(vec![queue_info(), queue_info()]),
        &json!({"queues": [object, object]}),
    );
    run(
        &["QUEUE_GET", "QUEUE_INFO"],
        &json!({"name": "orders"}),
        |request| matches!(request, Request::Query(Query::Queue(name)) if *name == "orders"),
        &Reply::Queue(queue_info()),
        &object,
    );
}

#[test]
fn server_makes_the_name_of_a_queue_without_one() {
    let mut peer = Peer::logged_in();
    peer.send("QUEUE_DECLARE", "r", json!({"name": ""}));
    let (_, request) = peer.request();
    assert!(
        matches!(&request, Request::Define(Define::Queue(spec)) if spec.name.is_empty() && spec.prefix == "mx.gen-"),
        "{request:?}"
    );
}

#[test]
fn bindings() {
    let payload = json!({"queueName": "orders", "exchangeName": "shop", "routingKey": "order.*", "arguments": {"x-match": "any", "n": 5}});
    let response = json!({"queueName": "orders", "exchangeName": "shop", "routingKey": "order.*"});
    let fits = |spec: &framegate_broker::BindingSpec| {
        spec.exchange == "shop"
            && spec.key == "order.*"
            && spec.target == BindTarget::Queue(Name::from_static("orders"))
            && spec.arguments[1].1 == HeaderValue::Int(5)
    };
    run(
        &["QUEUE_BIND", "BIND"],
        &payload,
        |request| matches!(request, Request::Define(Define::Bind(spec)) if fits(spec)),
        &Reply::Done,
        &response,
    );
    run(
        &["QUEUE_UNBIND", "UNBIND"],
        &payload,
        |request| matches!(request, Request::Define(Define::Unbind(spec)) if fits(spec)),
        &Reply::Done,
        &response,
    );
    let binding = |target| BindingInfo {
        exchange: Name::from_static("shop"),
        target,
        key: Name::from_static("k"),
        arguments: vec![
            (Name::from_static("a"), HeaderValue::Bool(true)),
            (Name::from_static("b"), HeaderValue::Null),
        ],
    };
    run(
        &["BINDING_LIST"],
        &json!({"queueName": "orders"}),
        |request| matches!(request, Request::Query(Query::Bindings { exchange: None, queue: Some(queue) }) if *queue == "orders"),
        &Reply::Bindings(vec![
            binding(BindTarget::Queue(Name::from_static("orders"))),
            binding(BindTarget::Exchange(Name::from_static("other"))),
        ]),
        &json!({"bindings": [
            {"queueName": "orders", "exchangeName": "shop", "routingKey": "k", "arguments": {"a": true, "b": null}},
            {"destinationExchange": "other", "exchangeName": "shop", "routingKey": "k", "arguments": {"a": true, "b": null}},
        ]}),
    );
}

#[test]
fn exchanges_are_bound_to_each_other_and_show_their_arguments() {
    for (word, make) in [("EXCHANGE_BIND", true), ("EXCHANGE_UNBIND", false)] {
        run(
            &[word],
            &json!({"destinationExchange": "to", "exchangeName": "from", "routingKey": "k"}),
            |request| {
                let spec = match request {
                    Request::Define(Define::Bind(spec)) if make => spec,
                    Request::Define(Define::Unbind(spec)) if !make => spec,
                    _ => return false,
                };
                spec.exchange == "from" && spec.target == BindTarget::Exchange(Name::from_static("to"))
            },
            &Reply::Done,
            &json!({"destinationExchange": "to", "exchangeName": "from", "routingKey": "k"}),
        );
    }
    let hash = HashOn::Property(HashProperty::MessageId);
    let kind = ExchangeKind::Delayed(Box::new(ExchangeKind::ConsistentHash(hash)));
    let alternate = Some(Name::from_static("other"));
    let info = ExchangeInfo { kind: kind.clone(), alternate: alternate.clone(), ..exchange_info() };
    for (delayed, property, id, other) in [
        ("delayedType", "hashProperty", "messageId", "alternateExchange"),
        ("x-delayed-type", "hash-property", "message_id", "alternate-exchange"),
    ] {
        let arguments = json!({delayed: "x-consistent-hash", property: id, other: "other"});
        run(
            &["EXCHANGE_DECLARE"],
            &json!({"name": "shop", "type": "x-delayed-message", "durable": true, "arguments": arguments}),
            |request| match request {
                Request::Define(Define::Exchange(spec)) => spec.kind == kind && spec.alternate == alternate,
                _ => false,
            },
            &Reply::Exchange(info.clone()),
            &json!({"name": "shop", "type": "x-delayed-message", "durable": true, "autoDelete": false,
                "internal": false, "arguments": {"delayedType": "x-consistent-hash",
                "hashProperty": "message_id", "alternateExchange": "other"}}),
        );
    }
}

#[test]
fn exchange_commands() {
    let object =
        json!({"name": "shop", "type": "topic", "durable": true, "autoDelete": false, "internal": false});
    run(
        &["EXCHANGE_DECLARE"],
        &json!({"name": "shop", "type": "topic", "durable": true, "arguments": {"alternateExchange": "other"}}),
        |request| {
            matches!(request, Request::Define(Define::Exchange(spec)) if spec.name == "shop" && spec.durable
                && spec.kind == ExchangeKind::Topic && spec.alternate.as_deref() == Some("other"))
        },
        &Reply::Exchange(exchange_info()),
        &object,
    );
    run(
        &["EXCHANGE_DECLARE"],
        &json!({"name": "shop", "passive": true}),
        |request| matches!(request, Request::Define(Define::ExchangePassive(name)) if *name == "shop"),
        &Reply::Exchange(exchange_info()),
        &object,
    );
    run(
        &["EXCHANGE_DELETE"],
        &json!({"name": "shop", "ifUnused": true}),
        |request| matches!(request, Request::Define(Define::DeleteExchange { name, if_unused: true }) if *name == "shop"),
        &Reply::Done,
        &json!({"name": "shop"}),
    );
    run(
        &["EXCHANGE_LIST"],
        &json!({}),
        |request| matches!(request, Request::Query(Query::Exchanges)),
        &Reply::Exchanges(vec![exchange_info()]),
        &json!({"exchanges": [object]}),
    );
}

#[test]
fn publish_is_answered_by_its_confirm() {
    run(
        &["PUBLISH", "MESSAGE_PUBLISH"],
        &json!({
            "exchangeName": "shop", "routingKey": "order.new", "body": {"id": 7}, "persistent": true,
            "properties": {"messageId": "m-1", "priority": 4, "expiration": "5000", "userId": "guest"}, "headers": {"tenant": "a"},
        }),
        |request| {
            matches!(request, Request::Publish(publish) if publish.exchange == "shop" && publish.keys[0] == "order.new"
                && publish.answer == Answer::Reply && publish.persistent && !publish.mandatory
                && !publish.create_queue && !publish.create_topic
                && publish.priority == Some(4) && publish.ttl_ms == Some(5000)
                && publish.publisher.as_deref() == Some("guest")
                && publish.frame.data() == br#"{"id":7}"# && publish.frame.attr("id") == Some("m-1"))
        },
        &Reply::Published(Published { queues: 2, routed: true, ..Published::default() }),
        &json!({"messageId": "m-1", "routed": true, "queues": 2}),
    );
    run(
        &["PUBLISH"],
        &json!({"queueName": "orders", "body": "x", "properties": {"messageId": "m", "deliveryMode": 2, "userId": "eve"}}),
        |request| {
            matches!(request, Request::Publish(publish) if publish.exchange.is_empty() && publish.keys[0] == "orders"
                && publish.persistent && publish.publisher.is_none())
        },
        &Reply::Published(Published::default()),
        &json!({"messageId": "m", "routed": false, "queues": 0}),
    );
}

#[test]
fn message_id_is_made_when_absent() {
    let mut peer = Peer::logged_in();
    peer.send("PUBLISH", "r", json!({"routingKey": "orders", "body": null}));
    let (id, request) = peer.request();
    let Request::Publish(publish) = request else { panic!("{request:?}") };
    let made = publish.frame.attr("id").unwrap().to_owned();
    assert_eq!(made.len(), 36);
    assert!(!publish.persistent);
    peer.reply(id, Ok(Reply::Published(Published::default())));
    assert_eq!(peer.success()["messageId"], made);
}

#[test]
fn consume_cancel_and_what_they_tell_the_broker() {
    for word in ["CONSUME", "SUBSCRIBE", "QUEUE_CONSUME"] {
        let mut peer = Peer::logged_in();
        peer.send(word, "r1", json!({"queueName": "orders", "consumerTag": "ct-1", "prefetch": 10, "priority": 5, "exclusive": true}));
        let mut requests = peer.requests();
        // The limit that all consumers of a connection share comes first.
        assert!(matches!(requests[0].1, Request::Credit(framegate_broker::Credit::Pool(_, Some(65_535)))));
        let (id, request) = requests.remove(1);
        let Request::Consume(consume) = request else { panic!("{request:?}") };
        assert_eq!((consume.prefetch, consume.priority), (Some(10), 5));
        assert!(consume.exclusive && !consume.auto_ack && consume.pool.is_some());
        peer.reply(id, Ok(Reply::Done));
        assert_eq!(peer.success(), json!({"consumerTag": "ct-1", "queueName": "orders"}));
        for word in ["CANCEL", "UNSUBSCRIBE"] {
            peer.consumer(word, false);
            peer.send(word, "r2", json!({"consumerTag": word}));
            let (id, request) = peer.request();
            assert!(matches!(request, Request::Cancel(_)));
            peer.reply(id, Ok(Reply::Done));
            assert_eq!(peer.success(), json!({"consumerTag": word}));
        }
    }
}

#[test]
fn consumer_without_a_tag_gets_one() {
    let mut peer = Peer::logged_in();
    peer.send("CONSUME", "r", json!({"queueName": "orders", "autoAck": true}));
    let (id, request) = peer.request();
    assert!(
        matches!(request, Request::Consume(consume) if consume.auto_ack && consume.pool.is_none() && consume.prefetch.is_none())
    );
    peer.reply(id, Ok(Reply::Done));
    assert_eq!(peer.success()["consumerTag"], "mx.ctag-1");
}

#[test]
fn get_gives_a_delivery_payload_or_null() {
    for word in ["GET", "MESSAGE_GET"] {
        let mut peer = Peer::logged_in();
        peer.send(word, "r1", json!({"queueName": "orders"}));
        let (id, request) = peer.request();
        let Request::Fetch(fetch) = request else { panic!("{request:?}") };
        assert_eq!((fetch.max, fetch.wait_ms, fetch.auto_ack), (1, 0, false));
        peer.reply(id, Ok(Reply::Fetched { messages: vec![], remaining: 0 }));
        assert_eq!(peer.success(), json!({"message": null}));

        peer.send(word, "r2", json!({"queueName": "orders"}));
        let (id, _) = peer.request();
        let messages = vec![delivery(fetch.consumer, 9, text_frame("hi"))];
        peer.reply(id, Ok(Reply::Fetched { messages, remaining: 4 }));
        let payload = peer.success();
        assert_eq!(payload["messageCount"], 4);
        let message = &payload["message"];
        assert_eq!((&message["body"], &message["queueName"]), (&json!("hi"), &json!("orders")));
        assert!(message.get("consumerTag").is_none());
        peer.send("ACK", "r3", json!({"deliveryTag": message["deliveryTag"]}));
        let (_, request) = peer.request();
        assert!(
            matches!(&request, Request::Settle(Settle { lease: Lease::Positions(holder, seqs), outcome: Outcome::Ack, .. })
                if *holder == fetch.consumer && seqs == &[Seq(9)]),
            "{request:?}"
        );
    }
}

/// Settles one delivery and gives the outcome that the broker was told and the response.
fn settled(word: &str, payload: &Value) -> (Outcome, Value) {
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct", false);
    let tag = peer.deliver(consumer, 1);
    let mut payload = payload.clone();
    payload["deliveryTag"] = json!(tag);
    peer.send(word, "r", payload);
    let (id, request) = peer.request();
    let (Request::Settle(settle) | Request::SettleAs(settle, _)) = request else { panic!("{request:?}") };
    assert!(matches!(&settle.lease, Lease::Positions(id, seqs) if *id == consumer && seqs == &[Seq(1)]));
    peer.reply(id, Ok(Reply::Settled { count: 1 }));
    (settle.outcome, peer.success())
}

#[test]
fn settlements() {
    let requeue = Outcome::Requeue { delay_ms: 0 };
    for word in ["ACK", "MESSAGE_ACK"] {
        assert_eq!(settled(word, &json!({})), (Outcome::Ack, json!({"acked": 1})));
    }
    for word in ["NACK", "MESSAGE_NACK"] {
        assert_eq!(settled(word, &json!({})), (requeue, json!({"nacked": 1})));
        assert_eq!(settled(word, &json!({"requeue": false})), (Outcome::Reject, json!({"nacked": 1})));
    }
    for word in ["REJECT", "MESSAGE_REJECT"] {
        assert_eq!(settled(word, &json!({})), (Outcome::Reject, json!({"rejected": 1})));
        assert_eq!(settled(word, &json!({"requeue": true})), (requeue, json!({"rejected": 1})));
    }
}

#[test]
fn multiple_settles_the_earlier_ones_of_the_same_consumer() {
    let mut peer = Peer::logged_in();
    let (a, b) = (peer.consumer("a", false), peer.consumer("b", false));
    peer.deliver(a, 1);
    peer.deliver(b, 2);
    let third = peer.deliver(a, 3);
    peer.deliver(a, 4);
    peer.send("ACK", "r", json!({"deliveryTag": third, "multiple": true}));
    let (id, request) = peer.request();
    assert!(
        matches!(&request, Request::Settle(Settle { lease: Lease::Positions(consumer, seqs), .. })
            if *consumer == a && seqs == &[Seq(1), Seq(3)]),
        "{request:?}"
    );
    peer.reply(id, Ok(Reply::Settled { count: 2 }));
    assert_eq!(peer.success(), json!({"acked": 2}));
}

#[test]
fn tags_of_several_consumers_are_one_command_with_one_answer() {
    let mut peer = Peer::logged_in();
    let (a, b) = (peer.consumer("a", false), peer.consumer("b", false));
    let tags = [peer.deliver(a, 1), peer.deliver(b, 2), peer.deliver(a, 3)];
    peer.send("ACK", "r", json!({"deliveryTags": tags}));
    let requests = peer.requests();
    assert_eq!(requests.len(), 2);
    peer.reply(requests[0].0, Ok(Reply::Settled { count: 2 }));
    assert!(peer.received().is_empty());
    peer.reply(requests[1].0, Ok(Reply::Settled { count: 1 }));
    assert_eq!(peer.success(), json!({"acked": 3}));
}

#[test]
fn qos_holds_for_later_consumers_or_for_all_together() {
    for word in ["QOS", "SET_PREFETCH"] {
        let mut peer = Peer::logged_in();
        peer.send(word, "r", json!({"prefetch": 5}));
        assert_eq!(peer.success(), json!({"prefetch": 5}));
        peer.send("CONSUME", "c", json!({"queueName": "orders"}));
        let (_, request) = peer.requests().pop().unwrap();
        assert!(matches!(request, Request::Consume(consume) if consume.prefetch == Some(5)));
        peer.received();
        peer.send(word, "r", json!({"prefetch": 7, "global": true}));
        assert_eq!(peer.success(), json!({"prefetch": 7}));
        let (_, request) = peer.request();
        assert!(matches!(request, Request::Credit(framegate_broker::Credit::Pool(_, Some(7)))));
    }
}

#[test]
fn recover_ends_all_tags() {
    let mut peer = Peer::logged_in();
    let consumer = peer.consumer("ct", false);
    let tag = peer.deliver(consumer, 1);
    peer.send("RECOVER", "r", json!({}));
    let (id, request) = peer.request();
    assert!(matches!(request, Request::Recover(None)));
    peer.reply(id, Ok(Reply::Settled { count: 1 }));
    assert_eq!(peer.success(), json!({"requeued": 1}));
    peer.send("ACK", "r", json!({"deliveryTag": tag}));
    assert_eq!(peer.failure(), "UNKNOWN_DELIVERY_TAG");
}

#[test]
fn stats_ping_and_disconnect() {
    for word in ["STATS", "STATUS"] {
        let stats = Stats {
            connections: 1,
            exchanges: 2,
            queues: 3,
            consumers: 4,
            ready: 5,
            unacked: 6,
            ..Stats::default()
        };
        run(
            &[word],
            &json!({}),
            |request| matches!(request, Request::Query(Query::Stats)),
            &Reply::Stats(stats),
            &json!({"connections": 1, "exchanges": 2, "queues": 3, "consumers": 4, "messages": 11}),
        );
    }
    let mut peer = Peer::logged_in();
    peer.send("PING", "r", json!({}));
    let pong = peer.success();
    assert_eq!(pong["pong"], true);
    assert!(pong["time"].as_u64().unwrap() > 1_600_000_000_000);
    for word in ["DISCONNECT", "CLOSE"] {
        let mut peer = Peer::logged_in();
        peer.send(word, "r", json!({}));
        assert_eq!(peer.success(), json!({}));
        assert!(peer.out.close.is_some());
    }
}

#[test]
fn disconnect_is_answered_after_the_commands_in_progress() {
    let mut peer = Peer::logged_in();
    peer.send("PUBLISH", "p", json!({"queueName": "orders", "body": 1}));
    peer.send("DISCONNECT", "d", json!({}));
    peer.send("PING", "late", json!({}));
    assert!(peer.received().is_empty());
    let (id, _) = peer.request();
    peer.reply(id, Ok(Reply::Published(Published::default())));
    let answers: Vec<_> = peer.received().into_iter().map(|message| message["requestId"].clone()).collect();
    assert_eq!(answers, ["p", "d"]);
    assert!(peer.out.close.is_some());
}

#[test]
fn thousand_pipelined_commands_are_answered_once_each() {
    let mut peer = Peer::logged_in();
    for number in 0..1000 {
        peer.send("PUBLISH", &format!("r{number}"), json!({"queueName": "orders", "body": number}));
    }
    let requests = peer.requests();
    assert_eq!(requests.len(), 1000);
    for (id, _) in requests {
        peer.reply(id, Ok(Reply::Published(Published::default())));
    }
    let ids: Vec<_> = peer.received().into_iter().map(|message| message["requestId"].clone()).collect();
    let expected: Vec<_> = (0..1000).map(|number| json!(format!("r{number}"))).collect();
    assert_eq!(ids, expected);
}

#[test]
fn nothing_is_read_above_the_commands_in_progress() {
    let mut peer = Peer::logged_in();
    for number in 0..1030 {
        peer.send("QUEUE_LIST", &format!("r{number}"), json!({}));
    }
    let requests = peer.requests();
    assert_eq!(requests.len(), 1024);
    for (id, _) in requests {
        peer.reply(id, Ok(Reply::Queues(vec![])));
    }
    peer.read();
    assert_eq!(peer.requests().len(), 6);
}

#[test]
fn long_list_is_cut_at_the_packet_and_says_so() {
    let mut peer = Peer::logged_in();
    peer.send("QUEUE_LIST", "r", json!({}));
    let (id, _) = peer.request();
    peer.reply(id, Ok(Reply::Queues(vec![queue_info(); 10_000])));
    let payload = peer.success();
    assert_eq!(payload["truncated"], true);
    assert!(payload["queues"].as_array().unwrap().len() > 4000);
}
