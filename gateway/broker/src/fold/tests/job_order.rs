//! The order in which jobs are handed out.

use super::jobs::{ask, check, ids, new, pull, push, started};
use super::rig::Rig;
use crate::job::JobState;
use crate::request::{JobChange, JobReply, JobRequest, NewJob};

fn lifo(id: &str, priority: i32) -> NewJob {
    let mut job = new(id);
    (job.terms.newest_first, job.terms.priority) = (true, priority);
    job
}

#[test]
fn newest_first_ones_go_before_others_of_their_priority() {
    let (mut rig, mut peer) = started();
    let mut high = new("high");
    high.terms.priority = 5;
    let jobs = vec![new("a"), lifo("b", 0), high, lifo("c", 0), new("d"), lifo("low", -1), lifo("top", 5)];
    push(&mut rig, &mut peer, jobs);
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["top", "high", "c", "b", "a", "d", "low"]);
    check(&mut rig);
}

#[test]
fn order_is_the_same_after_a_restart() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("a"), lifo("b", 0), lifo("c", 0), new("d")]);
    let (store, now) = (rig.store.clone(), rig.now);
    drop(rig);
    let mut rig = Rig::on(store, now);
    let mut peer = rig.connect();
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["c", "b", "a", "d"]);
    check(&mut rig);
}

#[test]
fn one_that_is_not_durable_yet_holds_no_older_one_back() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![lifo("a", 0), new("b")]);
    let taken = pull(&mut rig, &mut peer);
    assert_eq!(ids(&taken), ["a", "b"]);
    let back = JobRequest::Change("a".into(), taken[0].token, JobChange::Requeue);
    ask(&mut rig, &mut peer, back).expect("given back");
    push(&mut rig, &mut peer, vec![new("c"), lifo("d", 0)]);
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["d", "a", "c"]);
    check(&mut rig);
}

#[test]
fn delayed_one_goes_first_when_its_time_has_come() {
    let (mut rig, mut peer) = started();
    let mut late = lifo("late", 0);
    late.delay_ms = 50;
    push(&mut rig, &mut peer, vec![new("a"), late]);
    rig.wait(50);
    rig.settle();
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["late", "a"]);
    check(&mut rig);
}

#[test]
fn change_of_priority_may_change_it_too() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, ["a", "b"].map(new).to_vec());
    let change = JobChange::Priority { priority: 0, newest_first: Some(true) };
    ask(&mut rig, &mut peer, JobRequest::Change("b".into(), None, change)).expect("changed");
    let Ok(JobReply::Job(Some(job))) = ask(&mut rig, &mut peer, JobRequest::Peek("b".into())) else {
        panic!("b is there");
    };
    assert!(job.0.terms.newest_first && job.1 == JobState::Waiting);
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["b", "a"]);
    check(&mut rig);
}
