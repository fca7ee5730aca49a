//! Looking at messages without taking them.

use super::rig::{Peer, Rig, consumer, frame, message, name, queue, text};
use crate::definition::QueueProperties;
use crate::error::BrokerError;
use crate::ids::Seq;
use crate::request::{Browse, Define, Publish, Reply, Request};

/// What a browse shows: texts, whether each is held, whether there are more.
fn look(
    rig: &mut Rig,
    peer: &mut Peer,
    after: Option<u64>,
    max: u32,
    bytes_max: u64,
) -> (Vec<(String, bool)>, bool) {
    let browse = Browse { queue: name("q"), after: after.map(Seq), max, bytes_max };
    match rig.call(peer, Request::Browse(browse)) {
        Ok(Reply::Browsed { messages, more }) => {
            let shown = |m: &crate::request::Browsed| {
                (String::from_utf8(m.frame.data().to_vec()).expect("text"), m.held)
            };
            (messages.iter().map(shown).collect(), more)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_browse_shows_ready_leased_and_delayed_messages_and_takes_none() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "leased"));
    rig.put(&mut peer, Publish { delay_ms: 1000, ..message("q", "late") });
    rig.put(&mut peer, message("q", "ready"));
    rig.send(&mut peer, vec![Request::Consume(consumer(1, "q", Some(1)))]);
    rig.settle();
    assert_eq!(peer.texts(), ["leased"]);
    let all = vec![("leased".to_owned(), true), ("late".to_owned(), true), ("ready".to_owned(), false)];
    for _ in 0..2 {
        assert_eq!(look(&mut rig, &mut peer, None, 10, 1 << 20), (all.clone(), false));
    }
    let mut other = rig.connect();
    rig.send(&mut other, vec![Request::Consume(consumer(1, "q", None))]);
    rig.settle();
    assert_eq!(
        other.deliveries().iter().map(|d| (text(d), d.redelivered)).collect::<Vec<_>>(),
        [("ready".to_owned(), false)]
    );
}

#[test]
fn a_browse_goes_on_behind_the_last_one_within_its_bounds() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    for body in ["a", "b", "c"] {
        rig.put(&mut peer, message("q", body));
    }
    let ready = |bodies: &[&str]| bodies.iter().map(|b| ((*b).to_owned(), false)).collect::<Vec<_>>();
    assert_eq!(look(&mut rig, &mut peer, None, 2, 1 << 20), (ready(&["a", "b"]), true));
    assert_eq!(look(&mut rig, &mut peer, Some(2), 2, 1 << 20), (ready(&["c"]), false));
    assert_eq!(look(&mut rig, &mut peer, Some(u64::MAX), 2, 1 << 20), (ready(&[]), false));
    let one = frame("a").as_bytes().len() as u64;
    assert_eq!(look(&mut rig, &mut peer, None, 9, 2 * one), (ready(&["a", "b"]), true));
    assert_eq!(look(&mut rig, &mut peer, None, 9, 0), (ready(&["a"]), true), "one in any case");
}

#[test]
fn bodies_that_are_not_in_memory_are_read() {
    let mut rig = Rig::new();
    let mut peer = rig.connect();
    rig.call(&mut peer, queue("q", QueueProperties::default())).expect("declared");
    rig.put(&mut peer, message("q", "a"));
    rig.put(&mut peer, message("q", "b"));
    rig = Rig::on(&rig.store, rig.now);
    let mut peer = rig.connect();
    rig.put(&mut peer, message("q", "c"));
    let request = Browse { queue: name("q"), after: None, max: 10, bytes_max: 1 << 20 };
    rig.send(&mut peer, vec![Request::Browse(request)]);
    let shown = rig.until_browsed(&mut peer);
    let texts: Vec<_> = shown.iter().map(|m| String::from_utf8_lossy(m.frame.data()).into_owned()).collect();
    assert_eq!(texts, ["a", "b", "c"]);
}

#[test]
fn a_browse_of_a_missing_or_foreign_queue_is_refused() {
    let mut rig = Rig::new();
    let (mut peer, mut other) = (rig.connect(), rig.connect());
    let browse = |queue| Request::Browse(Browse { queue: name(queue), after: None, max: 1, bytes_max: 1 });
    assert!(matches!(rig.call(&mut peer, browse("q")), Err(BrokerError::NotFound { .. })));
    let spec = crate::definition::QueueSpec { name: name("q"), exclusive: true, ..Default::default() };
    rig.call(&mut peer, Request::Define(Define::Queue(spec))).expect("declared");
    assert!(matches!(rig.call(&mut other, browse("q")), Err(BrokerError::Locked { .. })));
    assert!(matches!(rig.call(&mut peer, browse("q")), Ok(Reply::Browsed { more: false, .. })));
}
