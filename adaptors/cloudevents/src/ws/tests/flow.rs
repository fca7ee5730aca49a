//! Subscriptions: announcement, credit, acks, pauses, renewal, goodbye.

use super::*;

#[test]
fn a_topic_subscription_is_announced_then_fed() {
    let mut c = Harness::ready();
    c.send(&json!({"op": "subscribe", "id": 1, "sub": "s\"", "topic": "t.*", "from": "5.0:1"}));
    let (consumer, what) = c.out.subscribe.remove(0);
    assert_eq!((what.patterns[0].as_str(), what.from), ("t.*", Start::After("5.0:1".to_owned())));
    c.session.subscribed(consumer, Ok(Subscribed { cursor: cursor(1), exact: false }), &mut c.out).unwrap();
    assert_eq!(c.one(), json!({"op": "ok", "id": 1, "sub": "s\"", "cursor": "5.0:1", "lost": true}));
    assert!(c.feed(consumer, 2));
    assert_eq!(
        c.one(),
        json!({"op": "event", "sub": "s\"", "cursor": "5.0:2", "seq": 1, "attempt": 1, "event": {
            "specversion": "1.0", "id": "2", "source": "/t", "type": "t", "datacontenttype": "application/json", "data": 2}})
    );
    c.send(&json!({"op": "subscribe", "id": 2, "sub": "s\"", "topic": "t"}));
    assert_eq!(c.one()["code"], "exists");
    c.send(&json!({"op": "unsubscribe", "id": 3, "sub": "s\""}));
    assert_eq!((c.one()["op"].clone(), c.out.unsubscribe.clone()), (json!("ok"), vec![consumer]));
}

#[test]
fn events_before_the_announcement_wait_for_it() {
    let mut c = Harness::ready();
    let event: Value = serde_json::from_str(EVENT).unwrap();
    c.send(&json!([{"op": "publish", "id": 1, "topic": "t", "event": event}, {"op": "subscribe", "id": 2, "sub": "s", "topic": "t"}]));
    let (publish, _) = c.request();
    let (consumer, _) = c.out.subscribe.remove(0);
    c.session.subscribed(consumer, Ok(Subscribed { cursor: cursor(1), exact: true }), &mut c.out).unwrap();
    assert!(!c.feed(consumer, 2), "no more before the answer");
    assert!(c.messages().is_empty());
    c.effect(Effect::Reply(publish, Ok(Reply::Published(Published::default()))));
    let order: Vec<_> = c.messages().iter().map(|m| m["op"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, ["ok", "ok", "event"]);
    assert_eq!(c.out.resume_feed, [consumer]);
}

#[test]
fn a_refused_subscription_frees_its_name() {
    let mut c = Harness::ready();
    for _ in 0..2 {
        c.send(&json!({"op": "subscribe", "id": 1, "sub": "s", "topic": "t"}));
        let (consumer, _) = c.out.subscribe.remove(0);
        let limit = BrokerError::Limit { what: "topics", max: 1 };
        c.session.subscribed(consumer, Err(limit), &mut c.out).unwrap();
        let refused = c.one();
        assert_eq!(
            (&refused["code"], &refused["sub"], &refused["retryable"]),
            (&json!("limit"), &json!("s"), &json!(true))
        );
    }
}

#[test]
fn a_feed_stops_without_credit_and_goes_on_after_acks() {
    let mut c = Harness::ready();
    let consumer = c.subscribe_topic(&json!({"ack": "cumulative", "credit": 2}));
    assert!(c.feed(consumer, 1));
    assert!(!c.feed(consumer, 2), "credit is used up");
    assert_eq!(c.messages()[1]["ackId"], "a2");
    c.send(&json!({"op": "ack", "sub": "s", "upTo": "5.0:1"}));
    assert_eq!(c.out.resume_feed, [consumer]);
    assert!(c.messages().is_empty(), "an ack without id has no answer");
    assert!(!c.feed(consumer, 3));
    c.send(&json!({"op": "ack", "id": 1, "sub": "s", "upTo": "5.0:99"}));
    assert_eq!(c.messages()[1]["code"], "unknown_delivery");
    c.send(&json!({"op": "nack", "id": 1, "sub": "s", "ackIds": ["a3"]}));
    assert_eq!(c.one()["code"], "bad_request", "a topic's events are not leased");
}

#[test]
fn a_paused_feed_holds_what_was_on_its_way() {
    let mut c = Harness::ready();
    let consumer = c.subscribe_topic(&json!({}));
    c.send(&json!({"op": "pause", "id": 1, "sub": "s"}));
    assert_eq!(c.one()["op"], "ok");
    assert!(!c.feed(consumer, 1));
    assert!(c.messages().is_empty());
    c.send(&json!({"op": "resume", "id": 2, "sub": "s"}));
    let order: Vec<_> = c.messages().iter().map(|m| m["op"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, ["ok", "event"]);
    assert_eq!(c.out.resume_feed, [consumer]);
}

#[test]
fn a_queue_is_consumed_with_credit_acks_nacks_and_extensions() {
    let mut c = Harness::ready();
    c.send(&json!({"op": "subscribe", "id": 1, "sub": "s", "queue": "q", "ack": "explicit", "credit": 2}));
    let (id, request) = c.request();
    let Request::Consume(consume) = request else { panic!("{request:?}") };
    assert_eq!((consume.prefetch, consume.auto_ack, consume.lease_ms), (Some(2), false, Some(30_000)));
    c.effect(Effect::Reply(id, Ok(Reply::Done)));
    c.one();
    for seq in [11, 12, 13] {
        c.effect(delivery(consume.consumer, seq));
    }
    let first = &c.messages()[0];
    assert_eq!(
        (&first["ackId"], &first["cursor"], &first["event"]["data"]["a"]),
        (&json!("a11"), &json!("3-11"), &json!(1))
    );
    let cases = [
        (json!({"op": "ack", "id": 2, "sub": "s", "ackIds": ["a11"]}), 11, Outcome::Ack),
        (
            json!({"op": "extend", "id": 3, "sub": "s", "ackIds": ["a12"], "by": 5000}),
            12,
            Outcome::Extend { lease_ms: 5000 },
        ),
        (
            json!({"op": "nack", "id": 4, "sub": "s", "ackIds": ["a12"], "delay": 7}),
            12,
            Outcome::Requeue { delay_ms: 7 },
        ),
        (
            json!({"op": "nack", "id": 5, "sub": "s", "ackIds": ["a13"], "requeue": false}),
            13,
            Outcome::Reject,
        ),
    ];
    for (op, seq, outcome) in cases {
        c.send(&op);
        let (id, request) = c.request();
        let Request::Settle(settle) = request else { panic!("{request:?}") };
        assert_eq!(settle.outcome, outcome);
        assert!(matches!(&settle.lease, Lease::Positions(_, seqs) if *seqs == [Seq(seq)]), "{op}");
        c.effect(Effect::Reply(id, Ok(Reply::Settled { count: 1 })));
        assert_eq!(c.one()["id"], op["id"]);
    }
    c.send(&json!({"op": "ack", "id": 6, "sub": "s", "ackIds": ["a11"]}));
    assert_eq!(c.one()["code"], "unknown_delivery", "settled already");
}

#[test]
fn credit_pause_and_resume_of_a_queue_are_told_to_the_broker() {
    let mut c = Harness::ready();
    let consumer = c.subscribe_queue(&json!({"ack": "explicit", "credit": 2}));
    let mut told = |op: Value| {
        c.send(&op);
        assert_eq!(c.one()["op"], "ok");
        let (_, request) = c.request();
        let Request::Credit(Credit::Consumer(who, credit)) = request else { panic!("{request:?}") };
        assert_eq!(who, consumer);
        credit
    };
    assert_eq!(told(json!({"op": "pause", "id": 1, "sub": "s"})), Some(0));
    assert_eq!(told(json!({"op": "credit", "id": 2, "sub": "s", "add": 2})), Some(0), "paused is paused");
    assert_eq!(told(json!({"op": "resume", "id": 3, "sub": "s"})), Some(4));
}

#[test]
fn an_ended_queue_subscription_gives_back_what_it_holds() {
    let mut c = Harness::ready();
    let consumer = c.subscribe_queue(&json!({"ack": "explicit"}));
    c.send(&json!({"op": "unsubscribe", "id": 1, "sub": "s"}));
    let requests: Vec<Request> = c.out.requests.drain(..).map(|(_, request)| request).collect();
    assert!(
        matches!(requests[..], [Request::Cancel(a), Request::Recover(Some(b))] if a == consumer && b == consumer)
    );
    assert_eq!(c.one()["op"], "ok");
    c.effect(delivery(consumer, 1));
    assert!(c.messages().is_empty(), "nothing comes after the end");
    let consumer = c.subscribe_queue(&json!({}));
    c.effect(Effect::Cancelled { consumer, reason: CancelReason::QueueDeleted });
    let ended = c.one();
    assert_eq!((&ended["code"], &ended["sub"], &ended["status"]), (&json!("gone"), &json!("s"), &json!(410)));
}

#[test]
fn what_cannot_be_carried_is_settled_as_such() {
    let mut c = Harness::ready();
    let consumer = c.subscribe_queue(&json!({"ack": "explicit"}));
    let Effect::Delivery(mut piece) = delivery(consumer, 5) else { unreachable!() };
    piece.frame = Frame::build(FrameKind::StreamChunk, [("sid", "x")], b"", &Limits::GATEWAY).unwrap();
    c.effect(Effect::Delivery(piece));
    assert!(c.messages().is_empty());
    let (_, request) = c.request();
    assert!(matches!(request, Request::Settle(settle) if settle.outcome == Outcome::Undeliverable));
}

#[test]
fn encoding_data_shows_only_the_payload() {
    let mut c = Harness::ready();
    let consumer = c.subscribe_topic(&json!({"encoding": "data"}));
    c.feed(consumer, 4);
    assert_eq!(
        c.one(),
        json!({"op": "event", "sub": "s", "cursor": "5.0:4", "seq": 1, "attempt": 1, "data": 4})
    );
}

#[test]
fn a_loss_on_the_way_is_a_notice() {
    let mut c = Harness::ready();
    let consumer = c.subscribe_topic(&json!({}));
    let lost = FeedItem::Lost { requested: None, resumed_from: cursor(8) };
    assert!(c.session.feed(consumer, &lost, &mut c.out).unwrap());
    let notice = c.one();
    assert_eq!(
        (&notice["op"], &notice["code"], &notice["resumedFrom"]),
        (&json!("notice"), &json!("lost"), &json!("5.0:8"))
    );
}

#[test]
fn one_event_is_encoded_once_for_all_subscriptions() {
    let mut c = Harness::ready();
    let mut d = Harness::ready();
    let (of_c, of_d) = (c.subscribe_topic(&json!({})), d.subscribe_topic(&json!({})));
    let event = Arc::new(feed_event(1));
    let item = FeedItem::Event(Arc::clone(&event));
    c.session.feed(of_c, &item, &mut c.out).unwrap();
    let kept = event.encoded("cloudevents/json", |_| unreachable!("encoded by the first"));
    d.session.feed(of_d, &item, &mut d.out).unwrap();
    let again: Bytes = event.encoded("cloudevents/json", |_| unreachable!("kept"));
    assert_eq!(kept.as_ptr(), again.as_ptr());
}

#[test]
fn a_renewed_token_keeps_topics_and_consumes_queues_again() {
    let mut c = Harness::ready();
    let consumer = c.subscribe_queue(&json!({"ack": "explicit"}));
    c.send(&json!({"op": "refresh", "id": 5, "token": "new"}));
    assert_eq!(c.out.login.as_ref().unwrap().credentials, Credentials::Token(Secret("new".into())));
    c.log_in("guest");
    assert_eq!(c.one(), json!({"op": "ok", "id": 5}));
    let (_, request) = c.request();
    assert!(matches!(request, Request::Consume(consume) if consume.consumer == consumer));
    let mut c = Harness::ready();
    c.send(&json!({"op": "refresh", "id": 5, "token": "other"}));
    c.log_in("somebody else");
    assert_eq!(c.out.close.as_ref().unwrap().code, 4403);
}

#[test]
fn a_drained_session_answers_what_is_under_way_and_closes_with_1001() {
    let mut c = Harness::ready();
    c.send(&json!({"op": "publish", "id": 1, "topic": "t", "event": serde_json::from_str::<Value>(EVENT).unwrap()}));
    let (id, _) = c.request();
    c.session.drain(&mut c.out);
    let notice = c.one();
    assert_eq!((&notice["code"], &notice["reconnectInMs"]), (&json!("draining"), &json!(5000)));
    assert!(c.out.close.is_none());
    c.effect(Effect::Reply(id, Ok(Reply::Published(Published::default()))));
    assert_eq!((c.one()["op"].clone(), c.out.close.as_ref().unwrap().code), (json!("ok"), 1001));
}
