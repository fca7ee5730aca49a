//! The session without a socket: captured clients, split anywhere, and valid frames in any order.

mod orders;

use framegate_adaptor_api::compliance::{self, Random, Transcripts};
use framegate_adaptor_api::testing::{SessionScript, session_context};
use framegate_adaptor_api::{Serve, Subscribed, protocols};
use framegate_amqp as _;
use framegate_broker::{
    BrokerError, Consume, Credit, Cursor, Define, Delivery, Effect, Envelope, FeedEvent, FeedItem, Happening,
    Keys, Name, Offset, Origin, Outcome, Position, Query, QueueInfo, Reply, Request, RequestId, Seq, TopicId,
    TopicInfo, Word,
};
use framegate_frame::{Frame, FrameKind, Limits};

const VECTORS: &str = include_str!("../../../../tests/vectors/amqp/pika-rabbitmq.json");

/// What the client of each captured connection sent, frame by frame.
fn captured() -> Vec<Vec<Vec<u8>>> {
    let file: serde_json::Value = serde_json::from_str(VECTORS).expect("is there");
    let mut connections: Vec<Vec<Vec<u8>>> = Vec::new();
    for vector in file["vectors"].as_array().expect("is there") {
        if vector["direction"] != "client-to-server" {
            continue;
        }
        let hex = vector["hex"].as_str().expect("is there");
        let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("is there");
        let frame: Vec<u8> = (0..hex.len()).step_by(2).map(octet).collect();
        if frame.starts_with(b"AMQP") {
            connections.push(Vec::new());
        }
        connections.last_mut().expect("is there").push(frame);
    }
    connections
}

fn method(channel: u16, class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    let payload = [&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat();
    frame(1, channel, &payload)
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).expect("is there").to_be_bytes();
    [&[kind][..], &channel.to_be_bytes(), &size, payload, &[0xCE]].concat()
}

fn name(text: &str) -> Name {
    Name::new(text).expect("is there")
}

fn queue_info(name: &Name) -> QueueInfo {
    QueueInfo {
        name: if name.is_empty() { Name::from_static("amq.gen-made") } else { name.clone() },
        durable: true,
        exclusive: false,
        auto_delete: false,
        properties: Default::default(),
        ready: 3,
        unacked: 0,
        bytes: 0,
        consumers: 1,
    }
}

/// Answers as a broker would whose queues are all there and empty.
fn answer(id: RequestId, request: &Request) -> Vec<Effect> {
    let queue = |name: &Name| Ok(Reply::Queue(queue_info(name)));
    let result = match request {
        Request::Publish(publish) if publish.answer == framegate_broker::Answer::Watermark => {
            return vec![Effect::Confirmed { upto: id }];
        }
        Request::Publish(_) | Request::Settle(_) | Request::SettleAs(..) | Request::Report(_) => {
            return Vec::new();
        }
        Request::Define(Define::Queue(spec)) => queue(&spec.name),
        Request::Define(Define::QueuePassive(name)) if name == "nosuch" => {
            let vhost = Name::from_static("/");
            Err(BrokerError::NotFound { kind: framegate_broker::Kind::Queue, name: name.clone(), vhost })
        }
        Request::Define(Define::QueuePassive(name)) => queue(name),
        Request::Mailbox { prefix, .. } => queue(&name(&format!("{prefix}made"))),
        Request::Define(Define::Purge(_) | Define::DeleteQueue { .. }) => Ok(Reply::Removed { messages: 2 }),
        Request::Fetch(_) => Ok(Reply::Fetched { messages: Vec::new(), remaining: 0 }),
        _ => Ok(Reply::Done),
    };
    vec![Effect::Reply(id, result)]
}

fn script() -> SessionScript {
    script_answering(answer)
}

fn script_answering(
    answer: impl FnMut(RequestId, &Request) -> Vec<Effect> + Send + 'static,
) -> SessionScript {
    let protocols = protocols().expect("is there");
    let mount = &protocols.iter().find(|p| p.name == "amqp").expect("is there").mounts[0];
    let Serve::Stream(open) = mount.serve else { panic!("a stream") };
    let context = session_context("amqp", serde_json::Value::Null).expect("is there");
    let mut script = SessionScript::new(open(&context)).answering(answer);
    script.open();
    script
}

fn no_queue(name: &Name) -> BrokerError {
    let (kind, vhost) = (framegate_broker::Kind::Queue, Name::from_static("/"));
    BrokerError::NotFound { kind, name: name.clone(), vhost }
}

/// A topic that keeps one event.
fn topic(name: &Name) -> TopicInfo {
    TopicInfo {
        name: name.clone(),
        first: Offset(0),
        next: Offset(1),
        bytes: 5,
        subscribers: 0,
        age_ms_max: 0,
        bytes_max: 0,
    }
}

/// Opens a connection and channel 1.
fn opened() -> SessionScript {
    let mut script = script();
    open_channel(&mut script);
    script
}

fn open_channel(script: &mut SessionScript) {
    script.feed(b"AMQP\x00\x00\x09\x01");
    let response = b"\0\0\0\0\x05PLAIN\0\0\0\x0c\0guest\0guest\x05en_US";
    script.feed(&method(0, 10, 11, response));
    script.feed(&method(0, 10, 31, &[7, 255, 0, 2, 0, 0, 0, 0]));
    script.feed(&method(0, 10, 40, b"\x01/\x00\x00"));
    script.feed(&method(1, 20, 10, b"\0"));
    script.take_output();
}

/// (channel, class, method) of every method in the output.
fn methods(output: &[u8]) -> Vec<(u16, u16, u16)> {
    let mut found = Vec::new();
    let mut rest = output;
    while let [kind, c0, c1, s0, s1, s2, s3, behind @ ..] = rest {
        let size = u32::from_be_bytes([*s0, *s1, *s2, *s3]) as usize;
        if *kind == 1 {
            let number = |at: usize| u16::from_be_bytes([behind[at], behind[at + 1]]);
            found.push((u16::from_be_bytes([*c0, *c1]), number(0), number(2)));
        }
        rest = &behind[size + 1..];
    }
    found
}

fn delivery(consumer: u32, seq: u64) -> Effect {
    let frame = Frame::build(FrameKind::Event, [], b"hello", &Limits::GATEWAY).expect("is there");
    let envelope = Envelope { keys: Keys::from_iter([name("q")]), ..Envelope::default() };
    Effect::Delivery(Delivery {
        consumer: framegate_broker::ConsumerId(consumer),
        position: Position::Queue(Seq(seq)),
        token: None,
        attempt: 1,
        redelivered: false,
        envelope,
        frame,
        origin: Origin { vhost: name("/"), name: name("q"), id: 1, seq },
    })
}

fn consume(tag: &str) -> Vec<u8> {
    let tag = [&[u8::try_from(tag.len()).expect("is there")], tag.as_bytes()].concat();
    method(1, 60, 20, &[&b"\0\0\x01q"[..], &tag, &[0, 0, 0, 0, 0]].concat())
}

#[test]
fn what_captured_clients_send_is_answered_alike_however_it_is_split() {
    // Server-made consumer tags differ from run to run, so connections with them are left out.
    let inputs: Vec<Vec<u8>> = captured()
        .iter()
        .map(|frames| {
            let is_unnamed = |f: &&Vec<u8>| f[0] != 1 || f[7..11] != [0, 60, 0, 20];
            frames.iter().filter(is_unnamed).flatten().copied().collect()
        })
        .collect();
    assert!(inputs.len() >= 3);
    let protocols: Vec<_> = protocols().expect("is there").into_iter().filter(|p| p.name == "amqp").collect();
    let inputs = inputs.into_iter().map(|input: Vec<u8>| input.into_iter().take(1500).collect()).collect();
    compliance::check_sessions(&protocols, &[Transcripts { listener: "amqp", inputs }]).assert();
}

#[test]
fn answers_come_in_the_order_of_the_methods() {
    let mut script = opened();
    let declare = method(1, 50, 10, b"\0\0\x01q\x02\0\0\0\0");
    let qos = method(1, 60, 10, &[0, 0, 0, 0, 0, 5, 0]);
    let purge = method(1, 50, 30, b"\0\0\x01q\0");
    script.feed(&[declare, qos, consume("t"), purge].concat());
    let said = methods(&script.take_output());
    assert_eq!(said, [(1, 50, 11), (1, 60, 11), (1, 60, 21), (1, 50, 31)]);
}

#[test]
fn an_empty_name_waits_for_the_name_that_the_broker_makes() {
    let mut script = opened();
    let declare = method(1, 50, 10, b"\0\0\0\x04\0\0\0\0");
    let bind = method(1, 50, 20, b"\0\0\0\x0aamq.direct\0\0\0\0\0\0");
    script.feed(&[declare, bind].concat());
    assert_eq!(methods(&script.take_output()), [(1, 50, 11), (1, 50, 21)]);
    let bound = script.take_requests().pop().expect("is there").1;
    let Request::Define(Define::Bind(binding)) = bound else { panic!("{bound:?}") };
    assert_eq!(binding.key, "amq.gen-made", "both names empty: the key is the queue's name");
}

#[test]
fn acks_of_one_read_are_one_request_and_confirms_one_ack() {
    let mut script = opened();
    script.feed(&[method(1, 85, 10, b"\0"), consume("t")].concat());
    script.take_output();
    script.take_requests();
    for seq in 1..=3 {
        script.effect(delivery(1, seq));
    }
    assert_eq!(methods(&script.take_output()), [(1, 60, 60); 3]);
    let ack = |tag: u8| method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, tag, 0]);
    script.feed(&[ack(1), ack(2), ack(3)].concat());
    let requests = script.take_requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    script.feed(&ack(3));
    assert_eq!(methods(&script.take_output()), [(1, 20, 40)], "settled already");
}

#[test]
fn channels_and_the_words_of_settlements_are_reported() {
    let mut script = opened();
    let opening = script.take_requests().into_iter().map(|(_, request)| request);
    let reported = |request| if let Request::Report(what) = request { Some(what) } else { None };
    assert_eq!(opening.filter_map(reported).collect::<Vec<_>>(), [Happening::ChannelOpened(1)]);
    script.feed(&consume("t"));
    for seq in 1..=3 {
        script.effect(delivery(1, seq));
    }
    script.take_requests();
    let tag = |number: u8| [0, 0, 0, 0, 0, 0, 0, number];
    let nack = method(1, 60, 120, &[&tag(1)[..], &[0]].concat());
    let reject = method(1, 60, 90, &[&tag(2)[..], &[0]].concat());
    let requeue = method(1, 60, 90, &[&tag(3)[..], &[1]].concat());
    let close = method(1, 20, 40, b"\0\xc8\0\0\0\0\0");
    script.feed(&[nack, reject, requeue, close].concat());
    let requests: Vec<Request> = script.take_requests().into_iter().map(|(_, request)| request).collect();
    let said = |request: &Request| match request {
        Request::SettleAs(settle, said) => Some((said.word, settle.outcome, said.channel)),
        _ => None,
    };
    let back = Outcome::Requeue { delay_ms: 0 };
    assert_eq!(
        requests.iter().filter_map(said).collect::<Vec<_>>(),
        [
            (Word::Nack, Outcome::Reject, Some(1)),
            (Word::Reject, Outcome::Reject, Some(1)),
            (Word::Reject, back, Some(1))
        ]
    );
    assert!(matches!(requests.last(), Some(Request::Report(Happening::ChannelClosed(1)))), "{requests:?}");
}

#[test]
fn a_body_is_split_at_the_negotiated_frame_size() {
    let mut script = opened();
    script.feed(&consume("t"));
    script.take_output();
    let Effect::Delivery(mut large) = delivery(1, 1) else { panic!("a delivery") };
    large.frame = Frame::build(FrameKind::Event, [], &vec![7; 300_000], &Limits::GATEWAY).expect("is there");
    script.effect(Effect::Delivery(large));
    let output = script.take_output();
    let mut sizes = Vec::new();
    let mut rest = output.as_slice();
    while let [kind, _, _, s0, s1, s2, s3, behind @ ..] = rest {
        let size = u32::from_be_bytes([*s0, *s1, *s2, *s3]) as usize;
        if *kind == 3 {
            sizes.push(size);
        }
        rest = &behind[size + 1..];
    }
    assert_eq!(sizes, [131_064, 131_064, 300_000 - 2 * 131_064]);
}

#[test]
fn heartbeats_are_sent_when_nothing_else_is_and_a_silent_peer_is_left() {
    use std::time::Duration;
    let mut script = script();
    script.feed(b"AMQP\x00\x00\x09\x01");
    script.feed(&method(0, 10, 11, b"\0\0\0\0\x05PLAIN\0\0\0\x0c\0guest\0guest\x05en_US"));
    script.feed(&method(0, 10, 31, &[7, 255, 0, 2, 0, 0, 0, 10]));
    script.feed(&method(0, 10, 40, b"\x01/\x00\x00"));
    script.take_output();
    let mut now = Duration::ZERO;
    for _ in 0..100 {
        let Some(wait) = script.tick(now) else { break };
        now += wait.max(Duration::from_millis(10));
    }
    assert!(script.has_ended(), "nothing was heard for {now:?}");
    assert!(now >= Duration::from_secs(20) && now <= Duration::from_secs(35), "{now:?}");
    assert!(script.take_output().starts_with(&[8, 0, 0, 0, 0, 0, 0, 0xCE]));
}

#[test]
fn a_client_that_is_held_is_not_left_for_its_silence() {
    use std::time::Duration;
    let mut script = script();
    script.feed(b"AMQP\x00\x00\x09\x01");
    script.feed(&method(0, 10, 11, b"\0\0\0\0\x05PLAIN\0\0\0\x0c\0guest\0guest\x05en_US"));
    script.feed(&method(0, 10, 31, &[7, 255, 0, 2, 0, 0, 0, 10]));
    script.feed(&method(0, 10, 40, b"\x01/\x00\x00"));
    script.effect(Effect::Blocked(true));
    for second in 0..200 {
        script.tick(Duration::from_secs(second));
    }
    assert!(!script.has_ended(), "its input was not read");
    script.effect(Effect::Blocked(false));
    for second in 200..400 {
        script.session().unread();
        script.tick(Duration::from_secs(second));
    }
    assert!(!script.has_ended(), "the driver did not read it");
    for second in 400..440 {
        script.tick(Duration::from_secs(second));
    }
    assert!(script.has_ended(), "it is read again, and says nothing");
}

#[test]
fn channels_that_come_and_go_do_not_make_new_pools() {
    let mut script = opened();
    let qos = |channel| method(channel, 60, 10, &[0, 0, 0, 0, 0, 5, 1]);
    script.feed(&[method(2, 20, 10, b"\0"), qos(1), qos(2)].concat());
    script.feed(&method(1, 20, 40, b"\0\xc8\0\0\0\0\0"));
    script.feed(&[method(1, 20, 10, b"\0"), qos(1)].concat());
    let pools: Vec<u32> = script
        .take_requests()
        .iter()
        .filter_map(|(_, request)| match request {
            Request::Credit(Credit::Pool(pool, Some(5))) => Some(pool.0),
            _ => None,
        })
        .collect();
    assert_eq!(pools.len(), 3);
    assert!(pools[0] == pools[2] && pools[0] != pools[1], "{pools:?}");
}

/// A publish of 4 MiB on a channel.
fn large_publish(channel: u16) -> Vec<u8> {
    let bytes = 4 << 20;
    let header = frame(2, channel, &[&[0, 60, 0, 0][..], &(bytes as u64).to_be_bytes(), &[0, 0]].concat());
    let mut input = [method(channel, 60, 40, b"\0\0\0\x01q\0"), header].concat();
    for piece in vec![7; bytes].chunks(131_064) {
        input.extend(frame(3, channel, piece));
    }
    input
}

#[test]
fn transactions_of_all_channels_together_are_bounded() {
    let mut script = opened();
    script.feed(&[method(1, 90, 10, b""), method(2, 20, 10, b"\0"), method(2, 90, 10, b"")].concat());
    for _ in 0..7 {
        script.feed(&large_publish(1));
    }
    script.feed(&method(1, 90, 20, b""));
    assert_eq!(methods(&script.take_output()).last(), Some(&(1, 90, 21)), "committed");
    for _ in 0..4 {
        script.feed(&[large_publish(1), large_publish(2)].concat());
    }
    let closed = methods(&script.take_output());
    assert_eq!(closed, [(0, 10, 50)], "32 MiB and the frames' heads are too much");
}

#[test]
fn a_transaction_knows_what_it_has_settled() {
    let mut script = opened();
    script.feed(&[method(1, 90, 10, b""), consume("t")].concat());
    for seq in 1..=4 {
        script.effect(delivery(1, seq));
    }
    script.take_output();
    let ack = |tag: u8, multiple: u8| method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, tag, multiple]);
    script.feed(&[ack(2, 1), ack(4, 0), ack(3, 0)].concat());
    assert_eq!(methods(&script.take_output()), []);
    script.feed(&method(1, 90, 20, b""));
    let committed = script.take_requests().pop().expect("is there").1;
    let Request::Atomic(parts) = committed else { panic!("{committed:?}") };
    assert_eq!(parts.len(), 3);
    script.take_output();
    for seq in 5..=6 {
        script.effect(delivery(1, seq));
    }
    script.take_output();
    script.feed(&[ack(6, 1), ack(5, 0)].concat());
    assert_eq!(methods(&script.take_output()), [(1, 20, 40)], "covered by the one before");
}

#[test]
fn deliveries_of_a_stream_are_settled_in_a_transaction_too() {
    let mut script = script_answering(move |id, request| {
        let result = match request {
            Request::Define(Define::QueuePassive(name)) => Err(no_queue(name)),
            Request::Consume(consume) => Err(no_queue(&consume.queue)),
            Request::Query(Query::Topic(name)) => Ok(Reply::Topic(topic(name))),
            _ => return answer(id, request),
        };
        vec![Effect::Reply(id, result)]
    });
    open_channel(&mut script);
    let qos = method(1, 60, 10, &[0, 0, 0, 0, 0, 1, 0]);
    script.feed(&[method(1, 90, 10, b""), qos, consume("t")].concat());
    let consumer = script.subscriptions.first().expect("is there").0;
    let cursor: Cursor = "1.0:1".parse().expect("is there");
    script.subscribed(consumer, Ok(Subscribed { cursor, exact: true }));
    let Effect::Delivery(Delivery { envelope, frame, origin, .. }) = delivery(1, 1) else {
        panic!("is there")
    };
    let event = FeedEvent::new(name("q"), Some((TopicId(1), Offset(0))), cursor, envelope, frame, origin);
    assert!(!script.item(consumer, &FeedItem::Event(event.into())), "the prefetch is used up");
    script.take_output();
    script.feed(&[method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, 1, 0]), method(1, 90, 20, b"")].concat());
    assert_eq!(methods(&script.take_output()), [(1, 90, 21)]);
    assert_eq!(script.resumed, [consumer], "there is room again");
    let asks = |(_, request): &(RequestId, Request)| matches!(request, Request::Atomic(_));
    assert!(!script.take_requests().iter().any(asks), "the broker knows nothing of it");

    let cursor: Cursor = "1.0:1".parse().expect("is there");
    let Effect::Delivery(Delivery { envelope, frame, origin, .. }) = delivery(1, 2) else {
        panic!("is there")
    };
    let event = FeedEvent::new(name("q"), Some((TopicId(1), Offset(1))), cursor, envelope, frame, origin);
    script.item(consumer, &FeedItem::Event(event.into()));
    script.feed(&method(1, 60, 30, b"\x01t\0"));
    script.take_output();
    script.feed(&[method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, 2, 0]), method(1, 90, 20, b"")].concat());
    assert_eq!(methods(&script.take_output()), [(1, 90, 21)], "its consumer has ended before");
    assert!(!script.take_requests().iter().any(asks), "the broker knows nothing of it");
    script.feed(&method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, 2, 0]));
    assert_eq!(methods(&script.take_output()), [(1, 20, 40)], "it is settled once");
}

#[test]
fn a_channel_that_fails_while_its_stream_starts_holds_up_nobody() {
    let mut script = script_answering(move |id, request| match request {
        Request::Define(Define::QueuePassive(name)) | Request::Consume(Consume { queue: name, .. }) => {
            vec![Effect::Reply(id, Err(no_queue(name)))]
        }
        // answered below
        Request::Query(_) | Request::Define(Define::Bind(_)) => Vec::new(),
        _ => answer(id, request),
    });
    open_channel(&mut script);
    script.feed(&[method(1, 60, 10, &[0, 0, 0, 0, 0, 1, 0]), consume("t")].concat());
    script.feed(&method(1, 50, 20, b"\0\0\x01q\x01x\0\0\0\0\0\0"));
    let asked = script.take_requests();
    let id = |of: fn(&Request) -> bool| asked.iter().find(|(_, request)| of(request)).expect("is there").0;
    let look = id(|request| matches!(request, Request::Query(_)));
    let bind = id(|request| matches!(request, Request::Define(Define::Bind(_))));
    script.take_output();
    script.effect(Effect::Reply(look, Ok(Reply::Topic(topic(&name("q"))))));
    script.effect(Effect::Reply(bind, Err(no_queue(&name("q")))));
    assert_eq!(methods(&script.take_output()), [(1, 20, 40)]);
    assert_eq!(script.unsubscribed.len(), 1);
    script.feed(&[method(1, 20, 41, b""), method(1, 20, 10, b"\0")].concat());
    assert_eq!(methods(&script.take_output()), [(1, 20, 11)], "it is read on");
}

#[test]
fn a_delivery_that_is_never_acked_closes_its_channel() {
    use std::time::Duration;
    let mut script = opened();
    script.feed(&consume("t"));
    script.effect(delivery(1, 1));
    script.take_output();
    for minute in 0..30 {
        script.tick(Duration::from_secs(60 * minute));
        assert_eq!(methods(&script.take_output()), [], "{minute}");
    }
    script.tick(Duration::from_secs(60 * 30));
    let output = script.take_output();
    assert_eq!(methods(&output), [(1, 20, 40)]);
    let text = String::from_utf8_lossy(&output).into_owned();
    assert!(
        text.contains("acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms"),
        "{text}"
    );
}

#[test]
fn a_server_that_stops_says_so_and_waits_for_the_answer() {
    let mut script = opened();
    script.drain();
    assert_eq!(methods(&script.take_output()), [(0, 10, 50)]);
    assert!(!script.has_ended());
    script.feed(&method(0, 10, 51, b""));
    assert!(script.has_ended());
}

#[test]
fn valid_frames_in_any_order_never_panic() {
    let frames: Vec<Vec<u8>> = captured().concat();
    let mut random = Random::new(23);
    for _ in 0..300 {
        let mut script = opened();
        for step in 0..60 {
            let mut input = frames[random.below(frames.len())].clone();
            if random.below(20) == 0 {
                let at = random.below(input.len());
                input[at] = random.bytes(1)[0];
            }
            script.feed(&input);
            if random.below(4) == 0 {
                script.effect(delivery(u32::try_from(random.below(4)).expect("is there"), step));
            }
            if random.below(30) == 0 {
                script.effect(Effect::Blocked(random.below(2) == 0));
            }
            if script.has_ended() {
                break;
            }
        }
        assert!(!script.asked_before_login);
    }
}

#[test]
fn a_content_that_is_announced_and_not_sent_counts_as_unfinished() {
    let mut script = opened();
    let publish = method(1, 60, 40, b"\0\0\0\x01q\0");
    let header = frame(2, 1, &[&[0, 60, 0, 0][..], &(64_u64 << 20).to_be_bytes(), &[0, 0]].concat());
    script.feed(&[publish, header].concat());
    let announced = script.session().unfinished_bytes();
    assert!(announced > 0 && announced < 80 * 1024, "{announced}");
    script.feed(&method(0, 10, 50, b"\0\xc8\0\0\0\0\0"));
    assert!(script.has_ended());
}

#[test]
fn a_queue_with_a_timeout_of_its_own_closes_the_channel_by_that() {
    use std::time::Duration;
    let mut script = script_answering(|id, request| match request {
        Request::Define(Define::QueuePassive(name)) => {
            let timeout = (Name::from_static("x-consumer-timeout"), "120000".to_owned());
            let properties =
                framegate_broker::QueueProperties { arguments: vec![timeout], ..Default::default() };
            let info = QueueInfo { properties, ..queue_info(name) };
            vec![Effect::Reply(id, Ok(Reply::Queue(info)))]
        }
        _ => answer(id, request),
    });
    open_channel(&mut script);
    script.feed(&consume("t"));
    script.effect(delivery(1, 1));
    script.take_output();
    for minute in 0..2 {
        script.tick(Duration::from_secs(60 * minute));
        assert_eq!(methods(&script.take_output()), [], "{minute}");
    }
    script.tick(Duration::from_secs(120));
    let output = script.take_output();
    assert_eq!(methods(&output), [(1, 20, 40)]);
    assert!(String::from_utf8_lossy(&output).contains("Timeout value used: 120000 ms"));
}
