//! The suite finds what it is for: a good adaptor and session pass, and each fault of a bad one is named.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use framegate_broker::Effect;
use framegate_frame::{Frame, FrameBuilder, FrameHead, FrameKind, Limits, Private, is_reserved_from_clients};

use super::{Samples, Transcripts, check_adaptors, check_sessions};
use crate::{
    AdaptError, AdaptorPlugin, Adaptors, DefaultListener, Egress, FrameAdaptor, Inbound, LoginError, Mount,
    Outbound, Packet, Progress, ProtocolPlugin, Serve, Session, SessionContext, SessionError, Welcome,
    WireMessage, next_packet,
};

/// Heads are `name=value` pairs with `;` between them.
struct Pairs {
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    KeepsReservedNames,
    Panics,
    Forgets,
    RefusesForeignFrames,
}

impl FrameAdaptor for Pairs {
    fn name(&self) -> &'static str {
        "pairs"
    }

    fn to_frame(&self, message: WireMessage) -> Result<Inbound, AdaptError> {
        let invalid = |what: &str| AdaptError::Invalid { what: what.to_owned(), reason: "is odd".to_owned() };
        let text = std::str::from_utf8(&message.head).map_err(|_| invalid("head"))?;
        assert!(self.fault != Fault::Panics || !text.contains('!'), "an exclamation mark");
        let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
        let keep = |(name, _): &(&str, &str)| {
            self.fault == Fault::KeepsReservedNames || !is_reserved_from_clients(name)
        };
        let attrs: Vec<(&str, &str)> = pairs.filter(keep).collect();
        let private = (self.fault != Fault::Forgets).then(|| Private::bytes("pairs", b"odd \xff"));
        let head = FrameHead::new(FrameKind::Event).private(private);
        let limits = Limits::GATEWAY.public();
        let mut builder = FrameBuilder::new(head, attrs.iter().copied(), message.body.len(), &limits)?;
        builder.push(&message.body)?;
        let frame = builder.finish()?;
        let keys = framegate_broker::Keys::new();
        Ok(Inbound { frame, persistent: true, priority: None, ttl_ms: None, delay_ms: 0, keys })
    }

    fn to_wire(&self, message: Egress<'_>) -> Result<WireMessage, AdaptError> {
        let frame: &Frame = message.frame;
        if self.fault == Fault::RefusesForeignFrames && frame.private().is_none() {
            return Err(AdaptError::Invalid { what: "frame".to_owned(), reason: "is foreign".to_owned() });
        }
        let mut head = String::new();
        for (name, value) in frame.attrs().filter(|(name, _)| !name.starts_with('~')) {
            if name.contains(['=', ';']) || value.contains(';') {
                return Err(AdaptError::Undeliverable { reason: "has a semicolon".to_owned() });
            }
            if self.fault == Fault::Forgets {
                continue;
            }
            head.push_str(&format!("{name}={value};"));
        }
        Ok(WireMessage { head: head.into(), body: frame.data_bytes() })
    }
}

fn check(fault: Fault) -> BTreeSet<&'static str> {
    let adaptors = Adaptors::of([Arc::new(Pairs { fault }) as Arc<dyn FrameAdaptor>]);
    let message =
        WireMessage { head: Bytes::from_static(b"id=1;subject=a;x=wow!"), body: Bytes::from_static(b"{}") };
    let samples = [Samples { adaptor: "pairs", messages: vec![message] }];
    let report = check_adaptors(&adaptors, &samples);
    assert_eq!(report.failed == 0, report.violations.is_empty());
    let kinds = ["panicked", "does not come back", "is neither a message", "attribute "];
    report.violations.iter().flat_map(|v| kinds.into_iter().find(|kind| v.contains(kind))).collect()
}

#[test]
fn good_adaptor_passes() {
    assert_eq!(check(Fault::None), BTreeSet::new());
}

#[test]
fn faults_of_an_adaptor_are_found() {
    assert_eq!(check(Fault::KeepsReservedNames), BTreeSet::from(["attribute "]));
    assert!(check(Fault::Panics).contains("panicked"));
    assert_eq!(check(Fault::Forgets), BTreeSet::from(["does not come back"]));
    assert_eq!(check(Fault::RefusesForeignFrames), BTreeSet::from(["is neither a message"]));
}

/// Echoes length-prefixed packets; the careless one takes what it has of an unfinished packet for the whole.
struct Echo {
    careless: bool,
}

impl Session for Echo {
    fn open(&mut self, _: &mut Outbound) {}

    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            match next_packet(rest, 100).map_err(|error| SessionError::new(error.to_string()))? {
                Packet::Whole { payload, consumed: bytes } => {
                    consumed += bytes;
                    out.put(payload);
                    out.end_packet();
                }
                Packet::Partial { .. } if self.careless && rest.len() > 5 => {
                    out.put(rest);
                    return Ok(Progress { consumed: input.len(), need: 0 });
                }
                Packet::Partial { need } => return Ok(Progress { consumed, need }),
            }
        }
    }

    fn logged_in(&mut self, _: Result<Welcome, LoginError>, _: &mut Outbound) -> Result<(), SessionError> {
        Ok(())
    }

    fn effect(&mut self, _: Effect, _: &mut Outbound) -> Result<(), SessionError> {
        Ok(())
    }

    fn tick(&mut self, _: Duration, _: &mut Outbound) -> Result<Duration, SessionError> {
        Ok(Duration::MAX)
    }

    fn drain(&mut self, out: &mut Outbound) {
        out.close(1001, "");
    }
}

fn good(_: &SessionContext) -> Box<dyn Session> {
    Box::new(Echo { careless: false })
}

fn careless(_: &SessionContext) -> Box<dyn Session> {
    Box::new(Echo { careless: true })
}

fn check_echo(open: fn(&SessionContext) -> Box<dyn Session>) -> super::Report {
    let mount = Mount { name: "echo", default: DefaultListener::Off(1), serve: Serve::Stream(open) };
    let mounts = Box::leak(Box::new([mount]));
    let plugin = ProtocolPlugin { name: "echo", mounts, check: |_| Ok(()) };
    let inputs = vec![b"\0\0\0\x05hello\0\0\0\x05world".to_vec()];
    check_sessions(&[&plugin], &[Transcripts { listener: "echo", inputs }])
}

#[test]
fn good_session_passes() {
    check_echo(good).assert();
}

#[test]
fn session_that_depends_on_splits_is_found() {
    let report = check_echo(careless);
    assert!(report.violations.iter().any(|violation| violation.contains("byte by byte")), "{report:?}");
}

crate::inventory::submit! {
    AdaptorPlugin { name: "pairs", build: || Arc::new(Pairs { fault: Fault::None }), headers: None }
}

crate::inventory::submit! {
    ProtocolPlugin {
        name: "echo",
        mounts: &[Mount { name: "echo", default: DefaultListener::Off(1), serve: Serve::Stream(good) }],
        check: |_| Ok(()),
    }
}

#[test]
fn registered_plugins_pass() {
    assert_eq!(super::run().failed, 0);
}
