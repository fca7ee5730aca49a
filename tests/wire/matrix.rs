//! Publish by every way in, consume by every way out, over every registered protocol.

use std::collections::BTreeSet;

use harness::Gateway;
use harness::peers::{Keeps, Sample, peers};

fn samples(tag: &str) -> Vec<Sample> {
    let sample = |n: u32, content_type: &str, data: &[u8]| Sample {
        id: format!("{tag}-{n}"),
        kind: "com.example.matrix".to_owned(),
        content_type: content_type.to_owned(),
        data: data.to_vec(),
    };
    vec![
        sample(1, "application/json", br#"{"n":12345678901234567890,"text":"\u20ac","list":[1,2.50,null]}"#),
        sample(2, "text/plain", "plain \u{20ac} text\nwith lines\r\n".as_bytes()),
        sample(3, "application/octet-stream", &[0, 1, 2, 0xff, 0xfe, 0x80, 10, 13]),
        sample(4, "application/json", br#""a string""#),
        sample(5, "text/plain", b""),
        sample(6, "text/plain", b"one line of text"),
    ]
}

#[test]
fn whatever_one_protocol_publishes_any_other_can_consume() {
    let gateway = Gateway::start();
    let mut checked = 0;
    for (i, publisher) in peers().into_iter().enumerate() {
        let Some(publish) = publisher.publish else { continue };
        for (j, consumer) in peers().into_iter().enumerate() {
            let Some(subscribe) = consumer.subscribe else { continue };
            let topic = format!("matrix.{i}.{j}");
            let mut out = subscribe(&gateway, &topic);
            let only_lines = publisher.keeps == Keeps::LineOfText || consumer.keeps == Keeps::LineOfText;
            for sample in samples(&topic).into_iter().filter(|s| !only_lines || s.is_line()) {
                publish(&gateway, &topic, &sample);
                let got = out.next();
                let pair = format!(
                    "{} {} -> {} {}",
                    publisher.protocol, publisher.way, consumer.protocol, consumer.way
                );
                if only_lines {
                    assert_eq!(got.data, sample.data, "{pair}");
                } else if sample.data.is_empty() {
                    assert_eq!((&got.id, &got.kind), (&sample.id, &sample.kind), "{pair}");
                } else {
                    assert!(got.matches(&sample), "{pair}: sent {sample:?}, got {got:?}");
                }
                checked += 1;
            }
        }
    }
    println!("matrix: {checked} messages crossed");
    assert!(checked >= 125);
}

/// Protocols that publish to queues and never to topics: their way in has crossing tests of its own.
const TO_QUEUES_ONLY: [&str; 1] = ["bunqueue"];

#[test]
fn every_registered_protocol_is_in_the_matrix() {
    let ways: BTreeSet<_> = peers().iter().map(|p| p.protocol).collect();
    let registered: BTreeSet<_> =
        framegate_adaptor_api::protocols().expect("registry").iter().map(|p| p.name).collect();
    assert_eq!(ways, registered, "each protocol needs a publisher and a consumer in harness/peers.rs");
    for protocol in registered {
        assert!(
            TO_QUEUES_ONLY.contains(&protocol)
                || peers().iter().any(|p| p.protocol == protocol && p.publish.is_some()),
            "{protocol} has no publisher"
        );
        assert!(
            peers().iter().any(|p| p.protocol == protocol && p.subscribe.is_some()),
            "{protocol} has no consumer"
        );
    }
}
