//! AMQP against the whole binary: what applications of RabbitMQ rely on, by a client that was not written from the codec.

use harness::peers::amqp::{Amqp, Field, args};
use harness::{Gateway, wait_until};

fn connect(gateway: &Gateway) -> Amqp {
    Amqp::connect(&gateway.address("amqp"))
}

fn select(c: &mut Amqp) {
    c.send(1, 85, 10, args().octet(0));
    c.expect(85, 11);
}

fn qos(c: &mut Amqp, count: u16, global: bool) {
    c.send(1, 60, 10, args().long(0).short(count).octet(global.into()));
    c.expect(60, 11);
}

fn bodies(c: &mut Amqp, count: usize) -> Vec<(String, bool)> {
    (0..count)
        .map(|_| {
            let (_, redelivered, content) = c.delivery();
            (String::from_utf8(content.body).expect("text"), redelivered)
        })
        .collect()
}

const PERSISTENT: [u8; 3] = [0x10, 0, 2];

#[test]
fn confirmed_messages_survive_a_kill_and_come_back_in_order() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    select(&mut c);
    c.declare("q");
    for n in 1..=200 {
        c.publish(1, "", "q", 0, &PERSISTENT, format!("{n}").as_bytes());
    }
    let mut confirmed = 0;
    while confirmed < 200 {
        let ack = c.expect(60, 80);
        let tag = ack.longlong_at(0);
        assert!(tag > confirmed, "confirms go up");
        assert!(tag == confirmed + 1 || ack.args[8] & 1 == 1, "several at once say so");
        confirmed = tag;
    }
    let gateway = gateway.kill_and_restart();
    let mut c = connect(&gateway);
    c.consume("q", "t", 2);
    let got = bodies(&mut c, 200);
    assert!(got.iter().enumerate().all(|(at, (body, _))| *body == (at + 1).to_string()), "{got:?}");
}

#[test]
fn a_channel_that_closes_gives_back_what_it_held_in_its_place() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.declare("q");
    for n in 0..5 {
        c.publish(1, "", "q", 0, &[0, 0], format!("{n}").as_bytes());
    }
    qos(&mut c, 3, false);
    c.consume("q", "t", 0);
    assert_eq!(bodies(&mut c, 3).iter().map(|b| b.0.as_str()).collect::<Vec<_>>(), ["0", "1", "2"]);
    c.ack(2, false);
    assert_eq!(bodies(&mut c, 1)[0].0, "3");
    c.send(1, 20, 40, args().short(200).text("").short(0).short(0));
    c.expect(20, 41);
    c.open(1);
    c.consume("q", "t", 2);
    let expected = [("0", true), ("2", true), ("3", true), ("4", false)];
    assert_eq!(bodies(&mut c, 4), expected.map(|(body, again)| (body.to_owned(), again)));
}

#[test]
fn prefetch_of_a_channel_is_shared_and_may_come_after_its_consumers() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.declare("a");
    c.declare("b");
    c.consume("a", "a", 0);
    c.consume("b", "b", 0);
    qos(&mut c, 2, true);
    for queue in ["a", "b", "a", "b"] {
        c.publish(1, "", queue, 0, &[0, 0], queue.as_bytes());
    }
    let first = c.delivery().0;
    c.delivery();
    // no third one: the answer to this comes before it
    qos(&mut c, 2, true);
    c.ack(first, false);
    c.delivery();
}

#[test]
fn two_connections_may_use_the_same_consumer_tag() {
    let gateway = Gateway::start();
    let (mut a, mut b) = (connect(&gateway), connect(&gateway));
    a.declare("q");
    for c in [&mut a, &mut b] {
        qos(c, 2, false);
        c.consume("q", "tag", 0);
    }
    for n in 0..4 {
        a.publish(1, "", "q", 0, &[0, 0], format!("{n}").as_bytes());
    }
    // each holds two before anything is acked: whose ack comes first decides nothing
    let mut seen = Vec::new();
    for c in [&mut a, &mut b] {
        let two = [c.delivery(), c.delivery()];
        seen.extend(two.iter().map(|(_, _, content)| content.body[0]));
        c.ack(two[1].0, true);
    }
    seen.sort_unstable();
    assert_eq!(seen, b"0123");
}

#[test]
fn what_reaches_nobody_comes_back_before_its_confirm() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    select(&mut c);
    let properties = args().short(0x2000).table(&[("b", Field::Tiny(-5)), ("n", Field::Int(1))]).0;
    c.publish(1, "amq.direct", "nowhere", 1, &properties, b"body");
    let returned = c.expect(60, 50);
    assert_eq!(returned.args[..2], 312_u16.to_be_bytes());
    assert_eq!(returned.text_at(2), "NO_ROUTE");
    let content = c.content();
    assert_eq!((content.properties, content.body), (properties, b"body".to_vec()));
    let ack = c.expect(60, 80);
    assert_eq!((ack.longlong_at(0), ack.args[8]), (1, 0));
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let gateway = Gateway::start();
    let (mut c, mut other) = (connect(&gateway), connect(&gateway));
    c.declare("q");
    c.publish(1, "", "q", 0, &[0, 0], b"first");
    let (got, _) = wait_until("the message", || c.get("q"));
    c.send(1, 90, 10, args());
    c.expect(90, 11);
    c.publish(1, "", "q", 0, &[0, 0], b"second");
    c.ack(got.longlong_at(0), false);
    assert!(other.get("q").is_none(), "nothing is there before the commit");
    c.send(1, 90, 30, args());
    c.expect(90, 31);
    // the ack was taken back: it can be given again
    c.ack(got.longlong_at(0), false);
    c.publish(1, "", "q", 0, &[0, 0], b"third");
    c.send(1, 90, 20, args());
    c.expect(90, 21);
    assert_eq!(other.get("q").expect("a message").1.body, b"third");
    assert!(other.get("q").is_none());
}

#[test]
fn replies_come_directly_to_who_asked() {
    let gateway = Gateway::start();
    let (mut client, mut server) = (connect(&gateway), connect(&gateway));
    server.declare("rpc");
    client.send(1, 60, 20, args().short(0).text("amq.rabbitmq.reply-to").text("").octet(2).table(&[]));
    let ask = args().short(0x0600).text("c1").text("amq.rabbitmq.reply-to").0;
    // pipelined: the name of the reply queue is not known yet
    client.publish(1, "", "rpc", 0, &ask, b"question");
    client.expect(60, 21);
    let (_, question) = wait_until("the question", || server.get("rpc"));
    let address = question.text(0x0200).expect("a reply address");
    assert!(address.starts_with("amq.rabbitmq.reply-to."), "{address}");
    server.send_declare(1, &address, 1, &[]);
    server.expect(50, 11);
    server.publish(1, "", &address, 1, &args().short(0x0400).text("c1").0, b"answer");
    let (_, _, answer) = client.delivery();
    assert_eq!((answer.text(0x0400).as_deref(), answer.body.as_slice()), (Some("c1"), &b"answer"[..]));
    drop(client);
    wait_until("the address to be gone", || {
        server.publish(1, "", &address, 1, &[0, 0], b"late");
        server.send_declare(1, "probe", 0, &[]);
        let gone = server.method().id == (60, 50);
        if gone {
            server.content();
            server.expect(50, 11);
        }
        gone.then_some(())
    });
}

#[test]
fn direct_replies_need_no_rights_of_their_own() {
    let users = "[[auth.users]]\nname = \"ann\"\npassword = \"s\"\n\
                 permissions = [{ vhost = \"/\", configure = \"rpc\", write = \"amq\\\\.default\", read = \"rpc\" }]\n";
    let gateway = Gateway::start_with(harness::Options::default().config(users));
    let login = || {
        let mut client = Amqp::login_as(&gateway.address("amqp"), "/", b"\0ann\0s");
        client.expect(10, 41);
        client.open(1);
        client
    };
    let (mut client, mut server) = (login(), login());
    server.declare("rpc");
    client.send(1, 60, 20, args().short(0).text("amq.rabbitmq.reply-to").text("").octet(2).table(&[]));
    client.publish(1, "", "rpc", 0, &args().short(0x0200).text("amq.rabbitmq.reply-to").0, b"question");
    client.expect(60, 21);
    let (_, question) = wait_until("the question", || server.get("rpc"));
    server.publish(1, "", &question.text(0x0200).expect("a reply address"), 1, &[0, 0], b"answer");
    assert_eq!(client.delivery().2.body, b"answer");
    client.send_declare(1, "other", 0, &[]);
    assert!(
        client.method().told().starts_with("channel 403 ACCESS_REFUSED - configure access to queue 'other'")
    );
}

#[test]
fn deleting_a_queue_is_answered_before_its_consumers_hear_of_it() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.declare("q");
    c.consume("q", "t", 0);
    c.send(1, 50, 40, args().short(0).text("q").octet(0));
    c.expect(50, 41);
    let cancel = c.expect(60, 30);
    assert_eq!((cancel.text_at(0).as_str(), cancel.args.last()), ("t", Some(&1)));
}

#[test]
fn extra_keys_route_and_the_hidden_ones_are_not_shown() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    for queue in ["to", "cc", "bcc"] {
        c.declare(queue);
    }
    let headers = [("CC", Field::List(&["cc"])), ("BCC", Field::List(&["bcc"])), ("n", Field::Tiny(1))];
    c.publish(1, "", "to", 0, &args().short(0x2000).table(&headers).0, b"x");
    let shown = args().short(0x2000).table(&[("CC", Field::List(&["cc"])), ("n", Field::Tiny(1))]).0;
    for queue in ["to", "cc", "bcc"] {
        let (_, content) = wait_until("the copy", || c.get(queue));
        assert_eq!(content.properties, shown, "{queue}");
    }
}

#[test]
fn only_delayed_exchanges_look_at_the_delay() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.declare("q");
    let delayed = args().short(0).text("later").text("x-delayed-message").octet(0);
    c.send(1, 40, 10, delayed.table(&[("x-delayed-type", Field::Text("direct"))]));
    c.expect(40, 11);
    c.send(1, 50, 20, args().short(0).text("q").text("later").text("k").octet(0).table(&[]));
    c.expect(50, 21);
    let properties = args().short(0x2000).table(&[("x-delay", Field::Int(300))]).0;
    c.publish(1, "later", "k", 0, &properties, b"late");
    c.publish(1, "", "q", 0, &properties, b"now");
    c.consume("q", "t", 2);
    assert_eq!(bodies(&mut c, 2).iter().map(|b| b.0.as_str()).collect::<Vec<_>>(), ["now", "late"]);
}

#[test]
fn a_stream_is_read_again_from_any_place_and_never_used_up() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    select(&mut c);
    c.send_declare(1, "log", 2, &[("x-queue-type", Field::Text("stream"))]);
    c.expect(50, 11);
    for n in 0..5 {
        c.publish(1, "", "log", 0, &PERSISTENT, format!("{n}").as_bytes());
        c.expect(60, 80);
    }
    qos(&mut c, 2, false);
    let consume = |c: &mut Amqp, tag: &str, offset: Field| {
        let arguments = [("x-stream-offset", offset)];
        c.send(1, 60, 20, args().short(0).text("log").text(tag).octet(0).table(&arguments));
        c.expect(60, 21);
    };
    consume(&mut c, "all", Field::Text("first"));
    let mut last = 0;
    for n in 0..5 {
        let (tag, _, content) = c.delivery();
        assert_eq!(content.body, [b'0' + n]);
        let shown = args().short(0x3000).table(&[("x-stream-offset", Field::Long(n.into()))]).octet(2).0;
        assert_eq!(content.properties, shown);
        last = tag;
        c.ack(tag, true);
    }
    c.send(1, 60, 30, args().text("all").octet(0));
    c.expect(60, 31);
    consume(&mut c, "some", Field::Int(3));
    assert_eq!(bodies(&mut c, 2).iter().map(|b| b.0.as_str()).collect::<Vec<_>>(), ["3", "4"]);
    c.send(1, 60, 120, args().longlong(last + 2).octet(1));
    // what another protocol appends arrives, too
    let event =
        serde_json::json!({"specversion": "1.0", "id": "e", "source": "/s", "type": "t", "data": "5"});
    assert_eq!(harness::http::publish(&gateway.address("http"), "log", &event).status, 202);
    assert_eq!(c.delivery().2.text(0x0080).as_deref(), Some("e"));
    c.send(1, 60, 70, args().short(0).text("log").octet(0));
    let told = c.method().told();
    let text = "basic.get not supported by stream queues queue 'log' in vhost '/'";
    assert_eq!(told, format!("connection 540 NOT_IMPLEMENTED - {text} 60.70"));
}

#[test]
fn two_thousand_announced_bodies_cost_little_and_stop_nobody() {
    let gateway = Gateway::start();
    let mut hostile = connect(&gateway);
    let before = gateway.rss_kib();
    for channel in 2..=2001_u16 {
        hostile.send(channel, 20, 10, args().text(""));
        hostile.send(channel, 60, 40, args().short(0).text("").text("q").octet(0));
        let header = args().short(60).short(0).longlong(64 << 20).short(0).0;
        hostile.frame(2, channel, &header);
        hostile.frame(3, channel, b"a few bytes of it");
    }
    for _ in 0..2000 {
        hostile.expect(20, 11);
    }
    let mut good = connect(&gateway);
    good.declare("good");
    for _ in 0..100 {
        good.publish(1, "", "good", 0, &[0, 0], b"x");
        assert!(good.get("good").is_some());
    }
    let grown = gateway.rss_kib().saturating_sub(before);
    println!("{grown} KiB for 2000 announced bodies");
    assert!(grown < 300 * 1024, "{grown} KiB");
}

#[test]
fn a_server_that_stops_says_so() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    gateway.terminate();
    let told = c.method().told();
    let text = "broker forced connection closure with reason 'shutdown'";
    assert_eq!(told, format!("connection 320 CONNECTION_FORCED - {text} 0.0"));
    c.send(0, 10, 51, args());
    assert!(c.next_frame().is_none());
}
