//! What an AMQP client may hold of the server, and what it may do to others: announced bodies, queues that are gone, answers that
//! nobody reads.

use std::io::Write as _;
use std::time::{Duration, Instant};

use harness::peers::amqp::{Amqp, args};
use harness::{Gateway, wait_until};

fn connect(gateway: &Gateway) -> Amqp {
    Amqp::connect(&gateway.address("amqp"))
}

#[test]
fn two_thousand_announced_bodies_cost_little_and_stop_nobody() {
    const CHANNELS: u16 = 2000;
    const ANNOUNCED_BYTES: u64 = 64 << 20;
    const GROWN_KIB_MAX: u64 = 300 * 1000;
    let gateway = Gateway::start();
    let mut other = connect(&gateway);
    other.declare("others");
    let before = gateway.rss_kib();
    let mut greedy = connect(&gateway);
    for channel in 2..=CHANNELS {
        greedy.send(channel, 20, 10, args().text(""));
    }
    for _ in 2..=CHANNELS {
        greedy.expect(20, 11);
    }
    let header = args().short(60).short(0).longlong(ANNOUNCED_BYTES).short(0).0;
    for channel in 1..=CHANNELS {
        greedy.send(channel, 60, 40, args().short(0).text("").text("others").octet(0));
        greedy.frame(2, channel, &header);
        greedy.frame(3, channel, b"a beginning");
    }
    let started = Instant::now();
    for n in 0..100_u8 {
        other.publish(1, "", "others", 0, &[0, 0], &[n]);
        let (got, content) = wait_until("the message", || other.get("others"));
        assert_eq!(content.body, [n]);
        other.ack(got.longlong_at(0), false);
    }
    let took = started.elapsed();
    let grown = gateway.rss_kib().saturating_sub(before);
    println!("{grown} KiB for {CHANNELS} announced bodies; 100 messages of another connection in {took:?}");
    assert!(grown < GROWN_KIB_MAX, "{grown} KiB");
    assert!(took < Duration::from_secs(10), "{took:?}");
    // the server heard all of it: what was announced is still wanted on the first channel
    greedy.send(1, 60, 10, args().long(0).short(1).octet(0));
    let told = wait_until("the close", || {
        let came = greedy.method();
        (came.id == (10, 50)).then(|| came.told())
    });
    assert!(told.starts_with("connection 505 UNEXPECTED_FRAME - expected content body"), "{told}");
}

#[test]
fn what_was_delivered_from_a_queue_that_is_gone_may_still_be_settled() {
    let gateway = Gateway::start();
    let (mut c, mut other) = (connect(&gateway), connect(&gateway));
    for (queue, pushed) in [("pulled", false), ("pushed", true)] {
        c.declare(queue);
        for n in 0..4_u8 {
            c.publish(1, "", queue, 0, &[0, 0], &[n]);
        }
        let mut tags = Vec::new();
        if pushed {
            c.consume(queue, "t", 0);
            tags.extend((0..4).map(|_| c.delivery().0));
        } else {
            tags.extend((0..4).map(|_| wait_until("the message", || c.get(queue)).0.longlong_at(0)));
        }
        other.send(1, 50, 40, args().short(0).text(queue).octet(0));
        other.expect(50, 41);
        if pushed {
            assert_eq!(c.expect(60, 30).text_at(0), "t");
        }
        c.ack(tags[0], false);
        c.send(1, 60, 90, args().longlong(tags[1]).octet(1));
        c.send(1, 60, 120, args().longlong(tags[2]).octet(0));
        c.ack(0, true);
        // the channel is open and the queue's name is free
        c.send_declare(1, queue, 2, &[]);
        let ok = c.expect(50, 11);
        assert_eq!(ok.long_at(ok.args.len() - 8), 0, "{queue}: nothing came back");
        c.ack(tags[3] + 1, false);
        assert_eq!(c.method().told().split(' ').nth(1), Some("406"), "a tag that never was is a mistake");
        c.send(1, 20, 41, args());
        c.open(1);
    }
}

#[test]
fn a_client_that_never_reads_its_returns_is_not_read_either() {
    const SENT_BYTES_MAX: usize = 256 << 20;
    const GROWN_KIB_MAX: u64 = 64 * 1024;
    let gateway = Gateway::start();
    let mut other = connect(&gateway);
    other.declare("others");
    let before = gateway.rss_kib();
    let mut greedy = connect(&gateway);
    let mut message = Vec::new();
    for (kind, payload) in [
        (1, [&[0, 60, 0, 40][..], &args().short(0).text("").text("nobody").octet(1).0].concat()),
        (2, args().short(60).short(0).longlong(16 * 1024).short(0).0),
        (3, vec![b'x'; 16 * 1024]),
    ] {
        message.extend([kind, 0, 1]);
        message.extend((payload.len() as u32).to_be_bytes());
        message.extend(payload);
        message.push(0xCE);
    }
    greedy.socket().set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let mut sent = 0;
    while sent < SENT_BYTES_MAX && greedy.socket().write_all(&message).is_ok() {
        sent += message.len();
    }
    let grown = gateway.rss_kib().saturating_sub(before);
    println!("{grown} KiB for {sent} bytes of messages that came back");
    assert!(sent < SENT_BYTES_MAX, "all of it was read");
    assert!(grown < GROWN_KIB_MAX, "{grown} KiB");
    other.publish(1, "", "others", 0, &[0, 0], b"goes on");
    wait_until("the message", || other.get("others"));
}
