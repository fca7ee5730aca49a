//! What RabbitMQ answers to each mistake, as observed on 3.10: code, text, class, method and what is closed. Where framegate
//! answers otherwise on purpose, the row says why.

use harness::Gateway;
use harness::peers::amqp::{Amqp, Args, Field, args};

type Provoke = fn(&mut Amqp);

fn declare(queue: &str, bits: u8, arguments: &[(&str, Field)]) -> Args {
    args().short(0).text(queue).octet(bits).table(arguments)
}

/// A classic declaration that is expected to fail.
fn bad(c: &mut Amqp, bits: u8, arguments: &[(&str, Field)]) {
    c.send_declare(1, "qa", bits, arguments);
}

/// Declares `queue` twice, differently.
fn twice(c: &mut Amqp, queue: &str, first: (u8, &[(&str, Field)]), second: (u8, &[(&str, Field)])) {
    c.send_declare(1, queue, first.0, first.1);
    c.expect(50, 11);
    c.send_declare(1, queue, second.0, second.1);
}

fn bind(c: &mut Amqp, queue: &str, exchange: &str, arguments: &[(&str, Field)]) {
    c.send(1, 50, 20, args().short(0).text(queue).text(exchange).text("k").octet(0).table(arguments));
}

fn exchange(c: &mut Amqp, name: &str, kind: &str, bits: u8, arguments: &[(&str, Field)]) {
    c.send(1, 40, 10, args().short(0).text(name).text(kind).octet(bits).table(arguments));
}

fn consume(c: &mut Amqp, queue: &str, tag: &str, bits: u8, arguments: &[(&str, Field)]) {
    c.send(1, 60, 20, args().short(0).text(queue).text(tag).octet(bits).table(arguments));
}

fn select(c: &mut Amqp, class: u16) {
    let arguments = if class == 85 { args().octet(0) } else { args() };
    c.send(1, class, 10, arguments);
}

#[rustfmt::skip]
const CASES: &[(&str, Provoke, &str)] = &[
    // connection and framing
    ("open twice", |c| c.send(1, 20, 10, args().text("")), "connection 504 CHANNEL_ERROR - second 'channel.open' seen 20.10"),
    ("unopened channel", |c| c.send_declare(5, "x", 0, &[]), "connection 504 CHANNEL_ERROR - expected 'channel.open' 50.10"),
    ("queue.declare on channel 0", |c| c.send_declare(0, "x", 0, &[]), "connection 504 CHANNEL_ERROR - unexpected method in connection state running 50.10"),
    ("connection method on channel 1", |c| c.send(1, 10, 40, args().text("/").text("").octet(0)), "connection 503 COMMAND_INVALID - unimplemented method 10.40"),
    ("connection.open again", |c| c.send(0, 10, 40, args().text("/").text("").octet(0)), "connection 504 CHANNEL_ERROR - unexpected method in connection state running 10.40"),
    ("tune-ok again", |c| c.send(0, 10, 31, args().short(1).long(4096).short(0)), "connection 504 CHANNEL_ERROR - unexpected method in connection state running 10.31"),
    ("bad frame end", |c| c.bytes(&[8, 0, 0, 0, 0, 0, 0, 0]), "connection 501 FRAME_ERROR - type 8, all octets = <<>>: {invalid_frame_end_marker,0} 0.0"),
    ("bad frame type", |c| c.bytes(&[9, 0, 0, 0, 0, 0, 0, 0xCE]), "connection 501 FRAME_ERROR - type 9, all octets = <<>>: unknown_frame 0.0"),
    ("too large frame", |c| c.bytes(&[3, 0, 1, 0, 3, 0x0d, 0x40]), "connection 501 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,200000,131064} 0.0"),
    ("heartbeat on channel 1", |c| c.frame(8, 1, &[]), "connection 505 UNEXPECTED_FRAME - type 8, all octets = <<>> 0.0"),
    // RabbitMQ drops the connection without a word
    ("unknown class", |c| c.send(1, 99, 10, args()), "connection 503 COMMAND_INVALID - unknown method 99.10"),
    ("unknown method", |c| c.send(1, 50, 99, args()), "connection 503 COMMAND_INVALID - unknown method 50.99"),
    ("bad field table", |c| c.send(1, 50, 10, args().short(0).text("x").octet(0).long_text(&[1, b'k', b'?'])), "connection 502 SYNTAX_ERROR - malformed field table 50.10"),
    ("truncated arguments", |c| c.send(1, 50, 10, args().short(0)), "connection 501 FRAME_ERROR - cannot decode <<>> 50.10"),
    ("header without publish", |c| c.frame(2, 1, &args().short(60).short(0).longlong(0).short(0).0), "connection 505 UNEXPECTED_FRAME - expected method frame, got non method frame instead 0.0"),
    ("body without header", |c| c.frame(3, 1, b"x"), "connection 505 UNEXPECTED_FRAME - expected method frame, got non method frame instead 0.0"),
    ("method instead of header", |c| { let p = args().short(0).text("").text("x").octet(0); c.send(1, 60, 40, p.clone()); c.send(1, 60, 40, p); }, "connection 505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead 60.40"),
    ("header of another class", |c| { c.send(1, 60, 40, args().short(0).text("").text("x").octet(0)); c.frame(2, 1, &args().short(61).short(0).longlong(0).short(0).0); }, "connection 505 UNEXPECTED_FRAME - expected content header for class 60, got one for class 61 instead 60.40"),
    ("weight", |c| { c.send(1, 60, 40, args().short(0).text("").text("x").octet(0)); c.frame(2, 1, &args().short(60).short(1).longlong(0).short(0).0); }, "connection 505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead 60.40"),
    ("immediate", |c| c.publish(1, "", "x", 2, &[0, 0], b""), "connection 540 NOT_IMPLEMENTED - immediate=true 60.40"),
    // publish
    ("unknown exchange", |c| c.publish(1, "nosuchx", "x", 0, &[0, 0], b"x"), "channel 404 NOT_FOUND - no exchange 'nosuchx' in vhost '/' 60.40"),
    ("internal exchange", |c| { exchange(c, "intx", "direct", 8, &[]); c.expect(40, 11); c.publish(1, "intx", "x", 0, &[0, 0], b"x"); }, "channel 403 ACCESS_REFUSED - cannot publish to internal exchange 'intx' in vhost '/' 60.40"),
    ("bad expiration", |c| c.publish(1, "", "x", 0, &args().short(0x0100).text("abc").0, b"x"), "channel 406 PRECONDITION_FAILED - invalid expiration 'abc': no_integer 60.40"),
    ("negative expiration", |c| c.publish(1, "", "x", 0, &args().short(0x0100).text("-1").0, b"x"), "channel 406 PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1} 60.40"),
    ("bad user-id", |c| c.publish(1, "", "x", 0, &args().short(0x0010).text("bob").0, b"x"), "channel 406 PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'guest' 60.40"),
    ("CC that is no array", |c| c.publish(1, "", "x", 0, &args().short(0x2000).table(&[("CC", Field::Text("a"))]).0, b"x"), "channel 406 PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,\"CC\",longstr} 60.40"),
    // queues
    ("passive queue", |c| c.send_declare(1, "nosuch", 1, &[]), "channel 404 NOT_FOUND - no queue 'nosuch' in vhost '/' 50.10"),
    ("reserved queue name", |c| c.send_declare(1, "amq.foo", 0, &[]), "channel 403 ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*' 50.10"),
    ("bad x-message-ttl", |c| bad(c, 0, &[("x-message-ttl", Field::Text("x"))]), "channel 406 PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'qa' in vhost '/': \"expected integer, got longstr\" 50.10"),
    ("negative x-message-ttl", |c| bad(c, 0, &[("x-message-ttl", Field::Int(-1))]), "channel 406 PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'qa' in vhost '/': {value_negative,-1} 50.10"),
    ("x-expires 0", |c| bad(c, 0, &[("x-expires", Field::Int(0))]), "channel 406 PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'qa' in vhost '/': {value_zero,0} 50.10"),
    ("bad overflow", |c| bad(c, 0, &[("x-overflow", Field::Text("x"))]), "channel 406 PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'qa' in vhost '/': invalid_overflow 50.10"),
    ("bad queue type", |c| bad(c, 0, &[("x-queue-type", Field::Text("foo"))]), "channel 406 PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'qa' in vhost '/': \"unsupported queue type 'foo'\" 50.10"),
    ("priority 300", |c| bad(c, 0, &[("x-max-priority", Field::Int(300))]), "channel 406 PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'qa' in vhost '/': {max_value_exceeded,300} 50.10"),
    ("dead-letter key alone", |c| bad(c, 0, &[("x-dead-letter-routing-key", Field::Text("x"))]), "channel 406 PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue 'qa' in vhost '/': routing_key_but_no_dlx_defined 50.10"),
    ("quorum non-durable", |c| bad(c, 0, &[("x-queue-type", Field::Text("quorum"))]), "channel 406 PRECONDITION_FAILED - invalid property 'non-durable' for queue 'qa' in vhost '/' 50.10"),
    ("quorum exclusive", |c| bad(c, 6, &[("x-queue-type", Field::Text("quorum"))]), "channel 406 PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 'qa' in vhost '/' 50.10"),
    ("quorum auto-delete", |c| bad(c, 10, &[("x-queue-type", Field::Text("quorum"))]), "channel 406 PRECONDITION_FAILED - invalid property 'auto-delete' for queue 'qa' in vhost '/' 50.10"),
    ("quorum priority", |c| bad(c, 2, &[("x-queue-type", Field::Text("quorum")), ("x-max-priority", Field::Int(3))]), "channel 406 PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'qa' in vhost '/' of queue type rabbit_quorum_queue 50.10"),
    ("quorum server-named", |c| c.send_declare(1, "", 2, &[("x-queue-type", Field::Text("quorum"))]), "channel 406 PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue 50.10"),
    ("stream exclusive", |c| bad(c, 6, &[("x-queue-type", Field::Text("stream"))]), "channel 406 PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 'qa' in vhost '/' 50.10"),
    ("stream ttl", |c| bad(c, 2, &[("x-queue-type", Field::Text("stream")), ("x-message-ttl", Field::Int(1))]), "channel 406 PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'qa' in vhost '/' of queue type rabbit_stream_queue 50.10"),
    ("other durable", |c| twice(c, "q1", (0, &[]), (2, &[])), "channel 406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q1' in vhost '/': received 'true' but current is 'false' 50.10"),
    ("other exclusive", |c| twice(c, "q2", (0, &[]), (4, &[])), "channel 405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q2' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration. 50.10"),
    ("other auto-delete", |c| twice(c, "q3", (0, &[]), (8, &[])), "channel 406 PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q3' in vhost '/': received 'true' but current is 'false' 50.10"),
    ("other ttl", |c| twice(c, "q4", (0, &[("x-message-ttl", Field::Int(1000))]), (0, &[("x-message-ttl", Field::Int(2000))])), "channel 406 PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q4' in vhost '/': received '2000' but current is '1000' 50.10"),
    ("ttl missing", |c| twice(c, "q5", (0, &[("x-message-ttl", Field::Int(1000))]), (0, &[])), "channel 406 PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q5' in vhost '/': received none but current is the value '1000' of type 'signedint' 50.10"),
    ("ttl added", |c| twice(c, "q6", (0, &[]), (0, &[("x-message-ttl", Field::Int(2000))])), "channel 406 PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q6' in vhost '/': received the value '2000' of type 'signedint' but current is none 50.10"),
    ("type added", |c| twice(c, "q7", (2, &[]), (2, &[("x-queue-type", Field::Text("quorum"))])), "channel 406 PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q7' in vhost '/': received the value 'quorum' of type 'longstr' but current is none 50.10"),
    ("purge of nothing", |c| c.send(1, 50, 30, args().short(0).text("nosuch").octet(0)), "channel 404 NOT_FOUND - no queue 'nosuch' in vhost '/' 50.30"),
    ("no last queue", |c| c.send(1, 50, 30, args().short(0).text("").octet(0)), "channel 404 NOT_FOUND - no previously declared queue 50.30"),
    ("delete of a full queue if empty", |c| { c.declare("full"); c.publish(1, "", "full", 0, &[0, 0], b"x"); c.send(1, 50, 40, args().short(0).text("full").octet(2)); }, "channel 406 PRECONDITION_FAILED - queue 'full' in vhost '/' not empty 50.40"),
    ("delete of a used queue if unused", |c| { c.declare("used"); c.consume("used", "t", 0); c.send(1, 50, 40, args().short(0).text("used").octet(1)); }, "channel 406 PRECONDITION_FAILED - queue 'used' in vhost '/' in use 50.40"),
    // bindings
    ("bind no queue", |c| bind(c, "nosuch", "amq.direct", &[]), "channel 404 NOT_FOUND - no queue 'nosuch' in vhost '/' 50.20"),
    ("bind no exchange", |c| { c.declare("bq"); bind(c, "bq", "nosuchx", &[]); }, "channel 404 NOT_FOUND - no exchange 'nosuchx' in vhost '/' 50.20"),
    ("bind the default exchange", |c| { c.declare("bq"); bind(c, "bq", "", &[]); }, "channel 403 ACCESS_REFUSED - operation not permitted on the default exchange 50.20"),
    ("bad x-match", |c| { c.declare("bq"); bind(c, "bq", "amq.headers", &[("x-match", Field::Text("zzz"))]); }, "channel 406 PRECONDITION_FAILED - Invalid x-match field value <<\"zzz\">>; expected all, any, all-with-x, or any-with-x 50.20"),
    // exchanges
    ("passive exchange", |c| exchange(c, "nosuch", "direct", 1, &[]), "channel 404 NOT_FOUND - no exchange 'nosuch' in vhost '/' 40.10"),
    ("reserved exchange name", |c| exchange(c, "amq.foo", "direct", 0, &[]), "channel 403 ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*' 40.10"),
    ("exchange without a name", |c| exchange(c, "", "direct", 0, &[]), "channel 403 ACCESS_REFUSED - operation not permitted on the default exchange 40.10"),
    ("passive exchange without a name", |c| exchange(c, "", "direct", 1, &[]), "channel 403 ACCESS_REFUSED - operation not permitted on the default exchange 40.10"),
    // 3.10 closes the connection with 503; clients of today expect this
    ("unknown exchange type", |c| exchange(c, "xx", "foo", 0, &[]), "channel 406 PRECONDITION_FAILED - unknown exchange type 'foo' 40.10"),
    ("other exchange type", |c| exchange(c, "amq.direct", "fanout", 2, &[]), "channel 406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received 'fanout' but current is 'direct' 40.10"),
    ("other exchange durable", |c| exchange(c, "amq.direct", "direct", 0, &[]), "channel 406 PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.direct' in vhost '/': received 'false' but current is 'true' 40.10"),
    ("other alternate exchange", |c| { exchange(c, "aex", "direct", 0, &[("alternate-exchange", Field::Text("a"))]); c.expect(40, 11); exchange(c, "aex", "direct", 0, &[]); }, "channel 406 PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'aex' in vhost '/': received none but current is the value 'a' of type 'longstr' 40.10"),
    ("delete the default exchange", |c| c.send(1, 40, 20, args().short(0).text("").octet(0)), "channel 403 ACCESS_REFUSED - operation not permitted on the default exchange 40.20"),
    ("delete amq.direct", |c| c.send(1, 40, 20, args().short(0).text("amq.direct").octet(0)), "channel 403 ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed 40.20"),
    ("delete a used exchange if unused", |c| { exchange(c, "usedx", "direct", 0, &[]); c.expect(40, 11); c.declare("uq"); bind(c, "uq", "usedx", &[]); c.expect(50, 21); c.send(1, 40, 20, args().short(0).text("usedx").octet(1)); }, "channel 406 PRECONDITION_FAILED - exchange 'usedx' in vhost '/' in use 40.20"),
    ("exchange.bind of nothing", |c| c.send(1, 40, 30, args().short(0).text("nosuch").text("amq.direct").text("").octet(0).table(&[])), "channel 404 NOT_FOUND - no exchange 'nosuch' in vhost '/' 40.30"),
    ("exchange.bind of the default", |c| c.send(1, 40, 30, args().short(0).text("amq.direct").text("").text("").octet(0).table(&[])), "channel 403 ACCESS_REFUSED - operation not permitted on the default exchange 40.30"),
    // consumers
    ("consume nothing", |c| consume(c, "nosuch", "t", 0, &[]), "channel 404 NOT_FOUND - no queue 'nosuch' in vhost '/' 60.20"),
    ("consumer tag again", |c| { c.declare("ct1"); c.consume("ct1", "t", 0); consume(c, "ct1", "t", 0, &[]); }, "connection 530 NOT_ALLOWED - attempt to reuse consumer tag 't' 60.20"),
    ("beside an exclusive consumer", |c| { c.declare("ct2"); c.consume("ct2", "t", 4); consume(c, "ct2", "u", 0, &[]); }, "channel 403 ACCESS_REFUSED - queue 'ct2' in vhost '/' in exclusive use 60.20"),
    ("exclusive beside a consumer", |c| { c.declare("ct3"); c.consume("ct3", "t", 0); consume(c, "ct3", "u", 4, &[]); }, "channel 403 ACCESS_REFUSED - queue 'ct3' in vhost '/' in exclusive use 60.20"),
    ("bad x-priority", |c| { c.declare("ct4"); consume(c, "ct4", "t", 0, &[("x-priority", Field::Text("x"))]); }, "channel 406 PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'ct4' in vhost '/': \"expected integer, got longstr\" 60.20"),
    ("get of nothing", |c| c.send(1, 60, 70, args().short(0).text("nosuch").octet(0)), "channel 404 NOT_FOUND - no queue 'nosuch' in vhost '/' 60.70"),
    ("unknown tag", |c| c.ack(99, false), "channel 406 PRECONDITION_FAILED - unknown delivery tag 99 60.80"),
    ("tag 0", |c| c.ack(0, false), "channel 406 PRECONDITION_FAILED - unknown delivery tag 0 60.80"),
    ("multiple without any", |c| c.ack(5, true), "channel 406 PRECONDITION_FAILED - unknown delivery tag 5 60.80"),
    ("reject of an unknown tag", |c| c.send(1, 60, 90, args().longlong(9).octet(0)), "channel 406 PRECONDITION_FAILED - unknown delivery tag 9 60.90"),
    ("qos by size", |c| c.send(1, 60, 10, args().long(10).short(0).octet(0)), "connection 540 NOT_IMPLEMENTED - prefetch_size!=0 (10) 60.10"),
    ("recover without requeue", |c| c.send(1, 60, 110, args().octet(0)), "connection 540 NOT_IMPLEMENTED - requeue=false 60.110"),
    ("flow off", |c| c.send(1, 20, 20, args().octet(0)), "connection 540 NOT_IMPLEMENTED - active=false 20.20"),
    ("quorum with global qos", |c| { c.send_declare(1, "pqq", 2, &[("x-queue-type", Field::Text("quorum"))]); c.expect(50, 11); c.send(1, 60, 10, args().long(0).short(1).octet(1)); c.expect(60, 11); consume(c, "pqq", "t", 0, &[]); }, "connection 540 NOT_IMPLEMENTED - queue 'pqq' in vhost '/' does not support global qos 60.20"),
    // transactions, confirms, direct replies
    ("tx, then confirm", |c| { select(c, 90); c.expect(90, 11); select(c, 85); }, "channel 406 PRECONDITION_FAILED - cannot switch from tx to confirm mode 85.10"),
    ("confirm, then tx", |c| { select(c, 85); c.expect(85, 11); select(c, 90); }, "channel 406 PRECONDITION_FAILED - cannot switch from confirm to tx mode 90.10"),
    ("commit without tx", |c| c.send(1, 90, 20, args()), "channel 406 PRECONDITION_FAILED - channel is not transactional 90.20"),
    ("rollback without tx", |c| c.send(1, 90, 30, args()), "channel 406 PRECONDITION_FAILED - channel is not transactional 90.30"),
    ("replies with ack", |c| consume(c, "amq.rabbitmq.reply-to", "t", 0, &[]), "channel 406 PRECONDITION_FAILED - reply consumer cannot acknowledge 60.20"),
    ("replies without consumer", |c| c.publish(1, "", "x", 0, &args().short(0x0200).text("amq.rabbitmq.reply-to").0, b""), "channel 406 PRECONDITION_FAILED - fast reply consumer does not exist 60.40"),
    ("reply queue of nobody", |c| c.send_declare(1, "amq.rabbitmq.reply-to.foo", 1, &[]), "channel 404 NOT_FOUND - no queue 'amq.rabbitmq.reply-to.foo' in vhost '/' 50.10"),
];

/// Reads until something is closed.
fn closed(client: &mut Amqp) -> String {
    while let Some((kind, _, payload)) = client.next_frame() {
        let number = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
        if kind == 1 && matches!((number(0), number(2)), (10, 50) | (20, 40)) {
            let id = (number(0), number(2));
            return harness::peers::amqp::Came { channel: 0, id, args: payload[4..].to_vec() }.told();
        }
    }
    "the connection was dropped".to_owned()
}

#[test]
fn every_mistake_is_answered_as_rabbitmq_answers_it() {
    let gateway = Gateway::start();
    let address = gateway.address("amqp");
    let mut wrong = Vec::new();
    for (name, provoke, expected) in CASES {
        let mut client = Amqp::connect(&address);
        provoke(&mut client);
        let told = closed(&mut client);
        if told != *expected {
            wrong.push(format!("{name}:\n  expected {expected}\n  answered {told}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}

#[test]
fn what_others_hold_exclusively_is_locked_in_every_way() {
    let gateway = Gateway::start();
    let address = gateway.address("amqp");
    let mut owner = Amqp::connect(&address);
    owner.send_declare(1, "exq", 4, &[]);
    owner.expect(50, 11);
    let ways: &[(Args, u16, u16)] = &[
        (declare("exq", 4, &[]), 50, 10),
        (declare("exq", 1, &[]), 50, 10),
        (args().short(0).text("exq").text("t").octet(0).table(&[]), 60, 20),
        (args().short(0).text("exq").octet(0), 60, 70),
        (args().short(0).text("exq").octet(0), 50, 30),
        (args().short(0).text("exq").octet(0), 50, 40),
        (args().short(0).text("exq").text("amq.direct").text("").octet(0).table(&[]), 50, 20),
    ];
    let mut other = Amqp::connect(&address);
    for (number, (arguments, class, method)) in ways.iter().enumerate() {
        let channel = u16::try_from(number + 2).expect("few");
        other.open(channel);
        other.send(channel, *class, *method, arguments.clone());
        let told = closed(&mut other);
        assert!(told.starts_with("channel 405 RESOURCE_LOCKED - cannot obtain exclusive access"), "{told}");
        assert!(told.ends_with(&format!("{class}.{method}")), "{told}");
        other.send(channel, 20, 41, args());
    }
    // publishing is open to all
    other.publish(1, "", "exq", 0, &[0, 0], b"x");
    let got = harness::wait_until("the message", || owner.get("exq"));
    assert_eq!(got.1.body, b"x");
}

#[test]
fn what_is_missing_or_done_already_is_no_mistake() {
    let gateway = Gateway::start();
    let mut c = Amqp::connect(&gateway.address("amqp"));
    c.send(1, 50, 40, args().short(0).text("nosuch").octet(0));
    assert_eq!(c.expect(50, 41).long_at(0), 0);
    c.send(1, 40, 20, args().short(0).text("nosuch").octet(0));
    c.expect(40, 21);
    c.declare("q");
    for exchange in ["amq.direct", "nosuchx"] {
        c.send(1, 50, 50, args().short(0).text("q").text(exchange).text("").table(&[]));
        c.expect(50, 51);
    }
    c.send(1, 60, 30, args().text("nobody").octet(0));
    assert_eq!(c.expect(60, 31).text_at(0), "nobody");
    c.ack(0, true);
    c.send(1, 60, 120, args().longlong(0).octet(1));
    c.send_declare(1, "q", 2, &[("x-unknown", Field::Int(1)), ("x-queue-type", Field::Text("classic"))]);
    c.expect(50, 11);
    c.send_declare(1, "t", 0, &[("x-message-ttl", Field::Int(1000))]);
    c.expect(50, 11);
    c.send_declare(1, "t", 0, &[("x-message-ttl", Field::Long(1000))]);
    c.expect(50, 11);
    c.send(1, 20, 20, args().octet(1));
    c.expect(20, 21);
    c.send(1, 30, 10, args().text("/data").octet(0));
    assert_eq!(c.expect(30, 11).args, [0, 1]);
    c.send(0, 10, 70, args().long_text(b"secret").text("because"));
    c.expect(10, 71);
    c.send_declare(1, "amq.rabbitmq.reply-to", 1, &[]);
    let ok = c.expect(50, 11);
    assert_eq!((ok.text_at(0).as_str(), ok.long_at(ok.args.len() - 4)), ("amq.rabbitmq.reply-to", 1));
    // above channel_max in number, not in count
    c.open(3000);
}

#[test]
fn a_handshake_that_goes_wrong_ends_in_the_protocols_words() {
    let gateway = Gateway::start();
    let address = gateway.address("amqp");
    let mut lost = Amqp::login(&address, "zzz");
    assert_eq!(lost.method().told(), "connection 530 NOT_ALLOWED - vhost zzz not found 10.40");

    let start_ok = |capabilities: bool, mechanism: &str, response: &[u8]| {
        let can = Field::Table(vec![("authentication_failure_close", Field::Bool(true))]);
        let properties = if capabilities { vec![("capabilities", can)] } else { Vec::new() };
        args().table(&properties).text(mechanism).long_text(response).text("en_US")
    };
    let answer = |arguments: Args| {
        let mut client = Amqp::raw(&address);
        client.expect(10, 10);
        client.send(0, 10, 11, arguments);
        client.next_frame().map(|(_, _, payload)| {
            let id =
                (u16::from_be_bytes([payload[0], payload[1]]), u16::from_be_bytes([payload[2], payload[3]]));
            harness::peers::amqp::Came { channel: 0, id, args: payload[4..].to_vec() }.told()
        })
    };
    let refused = "connection 403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. \
                   For details see the broker logfile. 0.0";
    assert_eq!(answer(start_ok(true, "PLAIN", b"\0guest\0wrong")).as_deref(), Some(refused));
    assert_eq!(answer(start_ok(false, "PLAIN", b"\0guest\0wrong")), None);
    // RabbitMQ says these only in its log, and drops the connection
    let told = |mechanism, response: &[u8]| answer(start_ok(true, mechanism, response)).unwrap_or_default();
    let external = "connection 503 COMMAND_INVALID - invalid authentication mechanism 'EXTERNAL' 10.11";
    assert_eq!(told("EXTERNAL", b""), external);
    assert_eq!(
        told("FOO", b""),
        "connection 503 COMMAND_INVALID - unknown authentication mechanism 'FOO' 10.11"
    );
    assert_eq!(told("PLAIN", b"nonsense"), "connection 502 SYNTAX_ERROR - response invalid 10.11");
    assert_eq!(answer(start_ok(false, "EXTERNAL", b"")), None);
    let table = args().table(&[("LOGIN", Field::Text("guest")), ("PASSWORD", Field::Text("guest"))]).0;
    assert_eq!(answer(start_ok(true, "AMQPLAIN", &table[4..])).as_deref(), Some("10.30"));

    for (channel_max, frame_max, text) in [
        (2048, 131_072, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (2047, 1_048_576, "negotiated frame_max = 1048576 is higher than the maximum allowed value (131072)"),
        (2047, 100, "negotiated frame_max = 100 is lower than the minimum allowed value (4096)"),
        (0, 131_072, "negotiated channel_max = 0 is higher than the maximum allowed value (2047)"),
    ] {
        let mut client = Amqp::raw(&address);
        client.expect(10, 10);
        client.send(0, 10, 11, start_ok(true, "PLAIN", b"\0guest\0guest"));
        client.expect(10, 30);
        client.send(0, 10, 31, args().short(channel_max).long(frame_max).short(0));
        assert_eq!(client.method().told(), format!("connection 530 NOT_ALLOWED - {text} 10.31"));
    }
}
