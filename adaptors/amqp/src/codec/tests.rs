//! The codec against frames captured from RabbitMQ and its clients, and against damage.

use bytes::{BufMut as _, BytesMut};
use framegate_adaptor_api::compliance::Random;

use super::frame::put_frame;
use super::*;

const VECTORS: [&str; 2] = [
    include_str!("../../../../tests/vectors/amqp/pika-rabbitmq.json"),
    include_str!("../../../../tests/vectors/amqp/amqplib-rabbitmq.json"),
];

fn vectors() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for text in VECTORS {
        let file: serde_json::Value = serde_json::from_str(text).unwrap();
        for vector in file["vectors"].as_array().unwrap() {
            let hex = vector["hex"].as_str().unwrap();
            let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let bytes = (0..hex.len()).step_by(2).map(octet).collect();
            all.push((vector["name"].as_str().unwrap().to_owned(), bytes));
        }
    }
    all
}

fn copy_table(table: &Table<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    let mut writer = TableWriter::begin(&mut out);
    for entry in table.iter() {
        writer.copy(&entry);
    }
    writer.end();
    out[4..].to_vec()
}

/// Reads a frame and writes it again from what was read.
fn again(name: &str, frame: &[u8]) -> Vec<u8> {
    let CutFrame::Whole { kind, channel, payload, bytes } = next_frame(frame, 131_072) else {
        panic!("{name}: is no frame");
    };
    assert_eq!(bytes, frame.len(), "{name}");
    let mut out = BytesMut::new();
    match kind {
        FrameType::Method => put_method(&mut out, channel, &Method::decode(payload).expect(name)),
        FrameType::Header => {
            let header = ContentHeader::parse(payload).expect(name);
            let properties = Properties::parse(header.properties).expect(name);
            if let Some(table) = properties.headers {
                assert_eq!(copy_table(&table), table.as_bytes(), "{name}");
            }
            put_frame(&mut out, kind, channel, |out| {
                ContentHeader::put(header.class, header.body_bytes, out, |out| properties.put(out));
            });
        }
        FrameType::Body | FrameType::Heartbeat => {
            put_frame(&mut out, kind, channel, |out| out.put_slice(payload));
        }
    }
    out.to_vec()
}

#[test]
fn every_captured_frame_comes_back_byte_for_byte() {
    let mut kinds = std::collections::BTreeMap::new();
    for (name, frame) in vectors() {
        if frame.starts_with(b"AMQP") {
            continue;
        }
        *kinds.entry(frame[0]).or_insert(0) += 1;
        assert_eq!(again(&name, &frame), frame, "{name}");
    }
    assert!(kinds[&1] > 300 && kinds[&2] > 30 && kinds[&3] > 30 && kinds[&8] > 0, "{kinds:?}");
}

#[test]
fn a_frame_is_cut_only_when_all_of_it_is_there() {
    for (name, frame) in vectors() {
        if frame.starts_with(b"AMQP") {
            continue;
        }
        for end in 0..frame.len() {
            match next_frame(&frame[..end], 131_072) {
                CutFrame::Partial { need } => {
                    assert!(need > end && need <= frame.len(), "{name} {end} {need}");
                }
                other => panic!("{name}: {end} bytes give {other:?}"),
            }
        }
    }
}

#[test]
fn truncated_payloads_are_refused_and_never_panic() {
    for (_, frame) in vectors() {
        let payload = frame.get(7..frame.len().saturating_sub(1)).unwrap_or_default();
        for end in 0..payload.len() {
            let cut = &payload[..end];
            match frame[0] {
                1 => assert!(Method::decode(cut).is_err()),
                2 => {
                    let header = ContentHeader::parse(cut);
                    assert!(header.is_err() || Properties::parse(header.unwrap().properties).is_err());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn damage_never_panics_and_what_is_taken_comes_back() {
    let mut random = Random::new(11);
    let vectors = vectors();
    for round in 0..20_000 {
        let (name, frame) = &vectors[round % vectors.len()];
        let mut frame = frame.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(frame.len());
            frame[at] = random.bytes(1)[0];
        }
        if random.below(4) == 0 {
            let at = random.below(frame.len());
            frame.truncate(at);
        }
        let CutFrame::Whole { kind, payload, .. } = next_frame(&frame, 131_072) else { continue };
        match kind {
            FrameType::Method => {
                if let Ok(method) = Method::decode(payload) {
                    let mut out = BytesMut::new();
                    method.encode(&mut out);
                    assert_eq!(Method::decode(&out), Ok(method), "{name}");
                }
            }
            FrameType::Header => {
                let Ok(header) = ContentHeader::parse(payload) else { continue };
                let Ok(properties) = Properties::parse(header.properties) else { continue };
                let mut out = BytesMut::new();
                properties.put(&mut out);
                assert_eq!(Properties::parse(&out), Ok(properties), "{name}");
                assert!(properties.headers.iter().all(|table| copy_table(table) == table.as_bytes()));
            }
            _ => {}
        }
    }
}

#[test]
fn faults_of_the_outer_frame_are_told_apart() {
    fn cut(bytes: &[u8]) -> CutFrame<'_> {
        next_frame(bytes, 131_072)
    }
    assert_eq!(cut(&[9]), CutFrame::Bad(FrameFault::UnknownType(9)));
    assert_eq!(cut(&[8, 0, 0, 0, 0, 0, 0, 0]), CutFrame::Bad(FrameFault::BadEnd { kind: 8, end: 0 }));
    let large = [3, 0, 1, 0, 3, 0x0d, 0x40];
    let fault = FrameFault::TooLarge { kind: 3, size: 200_000, max: 131_064 };
    assert_eq!(cut(&large), CutFrame::Bad(fault));
    assert_eq!(fault.to_string(), "type 3, all octets = <<>>: {frame_too_large,200000,131064}");
    // 8 bytes too many are let through
    assert_eq!(cut(&[3, 0, 1, 0, 2, 0, 0]), CutFrame::Partial { need: 131_080 });
}

#[test]
fn nesting_has_a_bound() {
    let mut table = Vec::new();
    for _ in 0..200 {
        let mut outer = vec![1, b'k', b'F'];
        outer.extend_from_slice(&u32::try_from(table.len()).unwrap().to_be_bytes());
        outer.extend_from_slice(&table);
        table = outer;
    }
    assert_eq!(Table::parse(&table), Err(DecodeError::Table));
    assert!(Table::parse(&[1, b'k', b'F', 0, 0, 0, 0]).is_ok());
    assert_eq!(Table::parse(&[1, b'k', b'?']), Err(DecodeError::Table));
    assert_eq!(Table::parse(&[1, b'k', b'S', 0, 0, 0, 9, b'x']), Err(DecodeError::Table));
}

#[test]
fn the_first_of_two_equal_keys_counts() {
    let mut out = BytesMut::new();
    let mut writer = TableWriter::begin(&mut out);
    writer.int("a", 1);
    writer.int("a", i64::from(i32::MAX) + 1);
    writer.end();
    let table = Table::parse(&out[4..]).unwrap();
    assert_eq!(table.get("a"), Some(Value::Int(1, b'I')));
    assert_eq!(table.iter().nth(1).unwrap().value.type_word(), "long");
}
