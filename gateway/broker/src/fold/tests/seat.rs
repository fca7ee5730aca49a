//! Who runs a pass: the one that brings a little when the fold sits idle, its own thread otherwise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;

use super::super::inbox::Inbox;
use super::super::seat::{Fold, Seat, Then};
use super::rig::Rig;
use crate::ids::WatchId;

/// A fold that has nothing to do, and the way into its inbox.
fn seated() -> (Seat, std::sync::mpsc::Sender<Inbox>) {
    let (sender, inbox) = channel();
    let seat = Seat::default();
    seat.sit(Fold::new(Rig::new().core, inbox), std::thread::current());
    while matches!(seat.pass(), Some((Then::Again, _))) {}
    (seat, sender)
}

fn message(id: u32) -> Inbox {
    Inbox::Unwatch(WatchId(id))
}

#[test]
fn a_little_is_done_at_once_by_who_brings_it_when_the_fold_is_idle() {
    let (seat, inbox) = seated();
    assert!(seat.run(message(1), |_| true).is_none());
    assert!(seat.run(message(2), |_| false).is_some(), "the core says no");
    inbox.send(message(3)).unwrap();
    assert!(seat.run(message(4), |_| true).is_some(), "something came before it");
    assert!(matches!(seat.pass(), Some((Then::Again, None))), "and is still there");
    assert!(seat.run(message(5), |_| true).is_none());
}

#[test]
fn nobody_waits_for_a_pass_that_another_thread_runs() {
    let (seat, _inbox) = seated();
    let inner = std::cell::Cell::new(None);
    let outer = seat.run(message(1), |_| {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| seat.run(message(2), |_| true).is_some());
            inner.set(other.join().ok());
        });
        true
    });
    assert!(outer.is_none() && inner.get() == Some(true));
}

#[test]
fn half_a_pass_is_the_end_of_the_fold() {
    let (seat, _inbox) = seated();
    let panics = || seat.run(message(1), |_| panic!("as asked"));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert!(seat.run(message(2), |_| true).is_some());
    assert!(seat.pass().is_none(), "its thread ends");
    assert!(seat.run(message(3), |_| true).is_some() && seat.pass().is_none());
}
