//! Q12, adapted: a deep queue whose bodies do not fit the cache comes back in order and intact.

use std::sync::atomic::Ordering;

use framegate_broker::{
    Answer, ConsumerId, Effect, Lease, Limits, Outcome, Publish, Request, RequestId, Settle,
};
use framegate_frame::{Frame, FrameKind, Limits as FrameLimits};

use crate::home::Home;
use crate::queues::counts;
use crate::support::{Client, name, seq};

const MESSAGES: u64 = 100_000;
const BODY_BYTES: usize = 1024;
const CACHE_BYTES: usize = 4 << 20;
const BATCH: u64 = 200;
/// Above the ids that the client gives.
const FIRST_REQUEST: u64 = 1_000_000;

/// The body of a message: its number, then bytes that follow from it.
fn body(n: u64, into: &mut [u8; BODY_BYTES]) {
    into[..8].copy_from_slice(&n.to_le_bytes());
    into[8..].fill(n.wrapping_mul(0x9e37_79b9) as u8);
    into[BODY_BYTES - 8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
}

/// Q12.
pub(crate) async fn q12_deep_queue(home: &mut Home) -> String {
    home.limits = Limits { cache_bytes_max: CACHE_BYTES, read_ahead_bytes_max: 2 << 20, ..Limits::default() };
    let broker = home.fresh_with_limits().await;
    let mut c = Client::new(&broker);
    c.declare("q").await;
    let mut bytes = [0; BODY_BYTES];
    for from in (0..MESSAGES).step_by(BATCH as usize) {
        let mut batch = Vec::with_capacity(BATCH as usize);
        for n in from..from + BATCH {
            body(n, &mut bytes);
            let frame = Frame::build(FrameKind::Event, [], &bytes, &FrameLimits::GATEWAY).expect("a frame");
            let answer = Answer::Watermark;
            let publish = Publish { persistent: true, answer, ..Publish::new(name(""), name("q"), frame) };
            batch.push((RequestId(FIRST_REQUEST + n), Request::Publish(publish)));
        }
        c.connection.submit(batch).await.expect("taken");
        c.pending();
    }
    while !matches!(c.effect().await, Effect::Confirmed { upto } if upto.0 == FIRST_REQUEST + MESSAGES - 1) {}
    drop(c);
    let mut c = Client::new(&broker);
    assert_eq!(counts(&mut c, "q").await, (MESSAGES, 0));
    let cached = broker.metrics().cache_bytes.load(Ordering::Relaxed);
    assert!(cached <= (CACHE_BYTES + 16 * BODY_BYTES) as u64, "{cached} bytes are cached");
    drop(c);
    let broker = home.restart().await;
    let mut c = Client::new(&broker);
    c.consume(1, "q", Some(1000)).await;
    let mut unsettled = Vec::new();
    for n in 0..MESSAGES {
        let d = c.delivery().await;
        body(n, &mut bytes);
        assert!(d.frame.data() == bytes, "message {n} is not what was published");
        unsettled.push(seq(&d));
        if unsettled.len() as u64 == BATCH {
            let lease = Lease::Positions(ConsumerId(1), std::mem::take(&mut unsettled));
            let settle = Settle { lease, outcome: Outcome::Ack, answer: false };
            c.send(Request::Settle(settle)).await;
        }
    }
    assert_eq!(counts(&mut c, "q").await, (0, 0));
    let cached = broker.metrics().cache_bytes.load(Ordering::Relaxed);
    assert!(cached <= (CACHE_BYTES + 16 * BODY_BYTES) as u64, "{cached} bytes are cached");
    "100,000 messages, 4 MiB cache: order and bodies; not measured: 10^6 messages, RSS, head latency"
        .to_owned()
}
