//! Stream queues beyond reading them again: bindings, what comes back of a message, where a time span begins, filters.

use harness::Gateway;
use harness::peers::amqp::{Amqp, Args, Content, Field, args};

fn connect(gateway: &Gateway) -> Amqp {
    let mut c = Amqp::connect(&gateway.address("amqp"));
    c.send(1, 85, 10, args().octet(0));
    c.expect(85, 11);
    c.send(1, 60, 10, args().long(0).short(100).octet(0));
    c.expect(60, 11);
    c
}

fn stream(c: &mut Amqp, name: &str) {
    c.send_declare(1, name, 2, &[("x-queue-type", Field::Text("stream"))]);
    c.expect(50, 11);
}

fn publish(c: &mut Amqp, exchange: &str, key: &str, properties: &[u8], body: &str) {
    c.publish(1, exchange, key, 0, properties, body.as_bytes());
    c.expect(60, 80);
}

fn bind(c: &mut Amqp, method: u16, queue: &str, exchange: &str, key: &str) {
    let nowait = if method == 20 { args().octet(0) } else { args() };
    let arguments = args().short(0).text(queue).text(exchange).text(key);
    c.send(1, 50, method, Args([arguments.0, nowait.table(&[]).0].concat()));
    c.expect(50, method + 1);
}

fn consume(c: &mut Amqp, queue: &str, arguments: &[(&str, Field)]) {
    c.send(1, 60, 20, args().short(0).text(queue).text("").octet(0).table(arguments));
    c.expect(60, 21);
}

fn from_first() -> (&'static str, Field) {
    ("x-stream-offset", Field::Text("first"))
}

/// The next delivery: exchange, key, content.
fn delivered(c: &mut Amqp) -> (String, String, Content) {
    let deliver = c.expect(60, 60);
    // consumer tag, delivery tag, redelivered
    let at = 1 + deliver.text_at(0).len() + 8 + 1;
    let exchange = deliver.text_at(at);
    let key = deliver.text_at(at + 1 + exchange.len());
    (exchange, key, c.content())
}

fn bodies(c: &mut Amqp, count: usize) -> Vec<String> {
    (0..count).map(|_| String::from_utf8_lossy(&delivered(c).2.body).into_owned()).collect()
}

#[test]
fn a_stream_can_be_bound_like_a_queue_also_after_a_restart() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    c.send(1, 40, 10, args().short(0).text("x").text("topic").octet(2).table(&[]));
    c.expect(40, 11);
    stream(&mut c, "log");
    stream(&mut c, "other");
    for (queue, key) in [("log", "a.#"), ("other", "a.b"), ("log", "a.b")] {
        bind(&mut c, 20, queue, "x", key);
    }
    publish(&mut c, "x", "a.b", &[0, 0], "both");
    publish(&mut c, "x", "a.c", &[0, 0], "one");
    let gateway = gateway.kill_and_restart();
    let mut c = connect(&gateway);
    publish(&mut c, "x", "a.d", &[0, 0], "later");
    bind(&mut c, 50, "log", "x", "a.#");
    publish(&mut c, "x", "a.e", &[0, 0], "unbound");
    publish(&mut c, "x", "a.b", &[0, 0], "last");
    consume(&mut c, "log", &[from_first()]);
    let first = delivered(&mut c);
    assert_eq!((first.0.as_str(), first.1.as_str(), first.2.body.as_slice()), ("x", "a.b", &b"both"[..]));
    assert_eq!(bodies(&mut c, 3), ["one", "later", "last"]);
    let mut d = connect(&gateway);
    consume(&mut d, "other", &[from_first()]);
    assert_eq!(bodies(&mut d, 2), ["both", "last"]);
    // live, too; by one who gets no deliveries between the confirms
    publish(&mut connect(&gateway), "x", "a.b", &[0, 0], "now");
    assert_eq!((bodies(&mut c, 1), bodies(&mut d, 1)), (vec!["now".to_owned()], vec!["now".to_owned()]));
    // the bindings go with the stream
    d.send(1, 50, 40, args().short(0).text("other").octet(0));
    d.expect(50, 41);
    c.publish(1, "x", "a.q", 1, &[0, 0], b"nobody");
    c.expect(60, 50);
}

#[test]
fn a_stream_gives_back_what_the_publisher_said_of_delivery_mode() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    stream(&mut c, "log");
    let modes: [&[u8]; 3] = [&[0, 0], &[0x10, 0, 1], &[0x10, 0, 2]];
    for mode in modes {
        publish(&mut c, "", "log", mode, "x");
    }
    let gateway = gateway.kill_and_restart();
    let mut c = connect(&gateway);
    publish(&mut c, "", "log", &[0, 0], "x");
    consume(&mut c, "log", &[from_first()]);
    for (n, mode) in (0..).zip(modes.into_iter().chain([&[0, 0][..]])) {
        let flags = u16::from_be_bytes([mode[0], mode[1]]) | 0x2000;
        let shown = args().short(flags).table(&[("x-stream-offset", Field::Long(n))]).0;
        assert_eq!(delivered(&mut c).2.properties, [&shown, &mode[2..]].concat(), "{n}");
    }
}

#[test]
fn a_consumer_of_a_stream_begins_a_time_span_ago_and_sees_what_its_filter_wants() {
    let gateway = Gateway::start();
    let mut c = connect(&gateway);
    stream(&mut c, "log");
    for (body, value) in [("1", "red"), ("2", "blue"), ("3", ""), ("4", "red"), ("5", "green")] {
        let properties = match value {
            "" => vec![0, 0],
            value => args().short(0x2000).table(&[("x-stream-filter-value", Field::Text(value))]).0,
        };
        publish(&mut c, "", "log", &properties, body);
    }
    let span = || ("x-stream-offset", Field::Text("1h"));
    consume(&mut c, "log", &[span(), ("x-stream-filter", Field::Text("red"))]);
    assert_eq!(bodies(&mut c, 2), ["1", "4"]);
    let mut d = connect(&gateway);
    let colours = ("x-stream-filter", Field::List(&["blue", "green"]));
    consume(&mut d, "log", &[span(), colours, ("x-stream-match-unfiltered", Field::Bool(true))]);
    assert_eq!(bodies(&mut d, 3), ["2", "3", "5"]);
    c.send(
        1,
        60,
        20,
        args().short(0).text("log").text("").octet(0).table(&[("x-stream-filter", Field::Int(1))]),
    );
    let text = "x-stream-filter is neither a text nor an array of texts";
    assert_eq!(c.method().told(), format!("channel 406 PRECONDITION_FAILED - {text} 60.20"));
}
