//! The part of the suite for adaptors.

use std::sync::Arc;

use bytes::Bytes;
use framegate_broker::{Envelope, Keys, Name, Origin};
use framegate_frame::{Frame, Limits, is_reserved_from_clients, names, unescape_bytes};

use super::frames::{synthetic_frames, with_private};
use super::mutation::{claiming, damaged};
use super::random::Random;
use super::report::{Report, show};
use crate::adaptor::{AdaptError, Egress, FrameAdaptor, Inbound, WireMessage};
use crate::registry::Adaptors;

/// Damaged copies of each sample.
const DAMAGED: usize = 200;
/// Messages of noise.
const NOISE: usize = 500;
/// When the messages of the suite were published, in ms since the Unix epoch.
const TIME_MS: u64 = 1_700_000_000_000;

/// Messages that a client of one adaptor's protocol may send.
#[derive(Debug, Clone)]
pub struct Samples {
    /// Registry name of the adaptor.
    pub adaptor: &'static str,
    /// Good messages; the more corners of the protocol they show, the better.
    pub messages: Vec<WireMessage>,
}

/// Checks every registered adaptor, with samples where the caller has some.
#[must_use]
pub fn check_adaptors(adaptors: &Adaptors, samples: &[Samples]) -> Report {
    let mut report = Report::default();
    for given in samples {
        report.check(adaptors.get(given.adaptor).is_some(), || {
            format!("samples for '{}', which is not registered", given.adaptor)
        });
    }
    let messages = |adaptor: &Arc<dyn FrameAdaptor>| {
        let name = adaptor.name();
        samples.iter().filter(move |s| s.adaptor == name).flat_map(|s| &s.messages).cloned()
    };
    let mut frames: Vec<(String, Frame)> = synthetic_frames();
    for adaptor in adaptors.iter() {
        private_attribute_is_lossless(&mut report, adaptor.name());
        frames.extend(odd_private_attributes(adaptor.name()));
        for (at, message) in messages(adaptor).enumerate() {
            let what = format!("{} sample {at}", adaptor.name());
            frames.extend(ingress(&mut report, &**adaptor, message, &what).map(|made| (what, made.frame)));
        }
    }
    for adaptor in adaptors.iter() {
        let suite = Suite { adaptor: &**adaptor, adaptors };
        suite.takes_every_frame(&mut report, &frames);
        for (at, message) in messages(adaptor).enumerate() {
            suite.round_trip(&mut report, &message, at);
        }
        suite.takes_every_message(&mut report, &messages(adaptor).collect::<Vec<_>>());
    }
    for (what, frame) in &frames {
        report.total(
            || adaptors.headers().read(frame, &mut |_, _| {}),
            || format!("reading the headers of {what}"),
        );
    }
    report
}

fn private_attribute_is_lossless(report: &mut Report, name: &str) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let back = with_private(name, &every_byte, b"data")
        .and_then(|frame| Frame::parse(frame.as_bytes().clone(), &Limits::GATEWAY))
        .and_then(|frame| {
            let (adaptor, text) = frame.private().unwrap_or_default();
            Ok((adaptor == name, unescape_bytes(text)?.into_owned()))
        });
    report.check(back == Ok((true, every_byte)), || {
        format!("{name}: its private attribute came back as {back:?}")
    });
}

/// Private attributes that the adaptor of that name did not write: damage must not bring it down.
fn odd_private_attributes(name: &str) -> Vec<(String, Frame)> {
    let mut random = Random::new(2);
    let mut contents: Vec<Vec<u8>> = (0..64).map(|size| random.bytes(size)).collect();
    contents.push((0..=255).collect());
    contents.push(b"{}".to_vec());
    contents.push(b"[]".to_vec());
    contents.push(b"{\"headers\":{\"a\":[{}]},\"properties\":[]}".to_vec());
    let frames = contents.into_iter().filter_map(|content| {
        let frame = with_private(name, &content, b"x").ok()?;
        Some((format!("~{name} {}", show(&content)), frame))
    });
    frames.collect()
}

/// Converts one message and checks what every frame must be.
fn ingress(
    report: &mut Report,
    adaptor: &dyn FrameAdaptor,
    message: WireMessage,
    what: &str,
) -> Option<Inbound> {
    let (head, body) = (message.head.clone(), message.body.clone());
    let context = || format!("{what}: to_frame of head {} body {}", show(&head), show(&body));
    let inbound = report.total(|| adaptor.to_frame(message), context)?.ok()?;
    let bytes = inbound.frame.as_bytes().clone();
    let parsed = match Frame::parse(bytes, &Limits::GATEWAY.public()) {
        Ok(parsed) => parsed,
        Err(error) => {
            report.check(false, || format!("{}: made a frame that is none: {error}", context()));
            return None;
        }
    };
    let own = format!("~{}", adaptor.name());
    for (at, (name, value)) in parsed.attrs().enumerate() {
        let is_origin = name == names::EMORIGIN && value == adaptor.name();
        let holds = !is_reserved_from_clients(name) || (at == 0 && name == own) || is_origin;
        report.check(holds, || format!("{}: attribute {at} is '{name}'", context()));
    }
    Some(inbound)
}

struct Suite<'a> {
    adaptor: &'a dyn FrameAdaptor,
    adaptors: &'a Adaptors,
}

impl Suite<'_> {
    fn name(&self) -> &'static str {
        self.adaptor.name()
    }

    fn egress(&self, envelope: &Envelope, frame: &Frame) -> Result<WireMessage, AdaptError> {
        let origin = Origin { vhost: Name::from_static("/"), name: Name::from_static("q"), id: 7, seq: 42 };
        let headers = self.adaptors.headers();
        self.adaptor.to_wire(Egress { envelope, frame, origin: &origin, headers })
    }

    fn takes_every_frame(&self, report: &mut Report, frames: &[(String, Frame)]) {
        let plain = envelope(None);
        for (what, frame) in frames {
            let context = || format!("{}: to_wire of {what}", self.name());
            let Some(first) = report.total(|| self.egress(&plain, frame), context) else { continue };
            let again = report.total(|| self.egress(&plain, frame), context);
            report.check(again.as_ref() == Some(&first), || {
                format!("{}: differs from time to time", context())
            });
            report.check(matches!(first, Ok(_) | Err(AdaptError::Undeliverable { .. })), || {
                format!("{}: {first:?} is neither a message nor Undeliverable", context())
            });
        }
    }

    fn round_trip(&self, report: &mut Report, sample: &WireMessage, at: usize) {
        let what = format!("{} sample {at}", self.name());
        let first = report.total(|| self.adaptor.to_frame(sample.clone()), || what.clone());
        let Some(Ok(first)) = first else {
            report.check(false, || format!("{what}: is refused: {first:?}"));
            return;
        };
        let wire = self.egress(&envelope(Some(&first)), &first.frame);
        let second = wire.clone().and_then(|wire| self.adaptor.to_frame(wire)).map(|inbound| inbound.frame);
        let same = second.as_ref().is_ok_and(|frame| frame.as_bytes() == first.frame.as_bytes());
        report.check(same, || {
            let (made, back) = (show(first.frame.as_bytes()), second.map(|f| show(f.as_bytes())));
            format!("{what}: does not come back: {made} became {wire:?} became {back:?}")
        });
    }

    fn takes_every_message(&self, report: &mut Report, samples: &[WireMessage]) {
        let mut random = Random::new(3);
        let what = self.name();
        for sample in samples {
            for head in claiming(&sample.head) {
                let message = WireMessage { head: head.into(), body: sample.body.clone() };
                ingress(report, self.adaptor, message, what);
            }
            for body in claiming(&sample.body) {
                let message = WireMessage { head: sample.head.clone(), body: body.into() };
                ingress(report, self.adaptor, message, what);
            }
            for _ in 0..DAMAGED {
                let mut message = sample.clone();
                if random.below(3) > 0 {
                    message.head = damaged(&message.head, &mut random).into();
                }
                if random.below(3) == 0 {
                    message.body = damaged(&message.body, &mut random).into();
                }
                ingress(report, self.adaptor, message, what);
            }
        }
        for round in 0..NOISE {
            let mut noise = || {
                let size = random.below(2 + round);
                Bytes::from(random.bytes(size))
            };
            let message = WireMessage { head: noise(), body: noise() };
            ingress(report, self.adaptor, message, what);
        }
    }
}

/// The envelope of a message as the broker would make it.
fn envelope(inbound: Option<&Inbound>) -> Envelope {
    let mut keys = Keys::new();
    keys.push(Name::from_static("q"));
    let mut envelope = Envelope { keys, time_ms: TIME_MS, ..Envelope::default() };
    if let Some(inbound) = inbound {
        envelope.keys.extend(inbound.keys.iter().cloned());
        envelope.persistent = inbound.persistent;
        envelope.priority = inbound.priority;
        envelope.expires_at_ms = inbound.ttl_ms.map_or(0, |ttl| TIME_MS.saturating_add(ttl));
        envelope.deliver_at_ms =
            if inbound.delay_ms > 0 { TIME_MS.saturating_add(inbound.delay_ms) } else { 0 };
    }
    envelope
}
