//! What is done with many jobs of a queue: more than one slice of them, those that come meanwhile, and what a queue leaves behind.

use super::jobs::{ack, ask, check, counts, fail, ids, new, pull, push, started, state, terms};
use super::rig::{Rig, frame, message, name};
use crate::definition::QueueSpec;
use crate::error::BrokerError;
use crate::ids::ConsumerId;
use crate::job::{JobState, JobTerms};
use crate::limits::SLICE_MESSAGES_MAX;
use crate::request::{Define, JobList, JobPull, JobReply, JobRequest, NewJob, Publish, Reply, Request};

const MANY: usize = 2 * SLICE_MESSAGES_MAX + 300;

fn many(prefix: &str, delay_ms: u64) -> Vec<NewJob> {
    (0..MANY).map(|n| NewJob { delay_ms, ..new(&format!("{prefix}{n:05}")) }).collect()
}

/// Asks for something that goes on for more than one pass.
fn ask_long(rig: &mut Rig, peer: &mut super::rig::Peer, request: JobRequest) -> JobReply {
    let id = rig.send(peer, vec![Request::Job(Box::new(request))])[0];
    loop {
        rig.settle();
        for effect in peer.effects() {
            if let crate::request::Effect::Reply(of, result) = effect
                && of == id
            {
                match result {
                    Ok(Reply::Job(reply)) => return reply,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[test]
fn drain_takes_all_that_is_queued_and_nothing_that_is_worked_on_or_dead() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("held"), new("done")]);
    let held = pull(&mut rig, &mut peer);
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("done", held[1].token)])).expect("acked");
    push(&mut rig, &mut peer, many("w", 0));
    push(&mut rig, &mut peer, many("d", 60_000));
    rig.put(&mut peer, message("q", "no job yet"));
    let before = counts(&mut rig, &mut peer);
    assert_eq!((before.waiting, before.delayed, before.active), (MANY as u64 + 1, MANY as u64, 1));
    let drained = ask_long(&mut rig, &mut peer, JobRequest::Drain(name("q")));
    assert!(matches!(drained, JobReply::Count(count) if count == 2 * MANY as u64 + 1), "{drained:?}");
    let after = counts(&mut rig, &mut peer);
    assert_eq!((after.waiting, after.delayed, after.active, after.completed), (0, 0, 1, 1));
    check(&mut rig);
    rig.wait(60_000);
    rig.settle();
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["held"], "no timer brings another one back");
}

#[test]
fn clean_takes_the_oldest_that_are_old_enough_and_names_them() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("a"), new("b")]);
    rig.wait(1000);
    push(&mut rig, &mut peer, vec![new("c")]);
    let clean = |grace_ms, max| JobRequest::Clean { queue: name("q"), grace_ms, state: None, max };
    let removed = |reply| match reply {
        JobReply::Removed(ids) => ids.iter().map(|id| id.to_string()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(removed(ask_long(&mut rig, &mut peer, clean(1000, 1))), ["a"]);
    assert_eq!(removed(ask_long(&mut rig, &mut peer, clean(1000, 10))), ["b"], "the others are too young");
    check(&mut rig);
}

#[test]
fn obliterated_queue_has_nothing_and_whoever_works_on_it_is_refused() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("held"), new("done"), new("failed")]);
    let jobs = pull(&mut rig, &mut peer);
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("done", jobs[1].token)])).expect("acked");
    ask(&mut rig, &mut peer, fail("failed", jobs[2].token)).expect("failed");
    ask(&mut rig, &mut peer, JobRequest::Pause(name("q"), true)).expect("paused");
    push(&mut rig, &mut peer, many("w", 0));
    assert!(matches!(ask_long(&mut rig, &mut peer, JobRequest::Obliterate(name("q"))), JobReply::Done));
    let after = counts(&mut rig, &mut peer);
    assert_eq!(after, crate::request::JobCounts::default());
    assert!(ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("held", jobs[0].token)])).is_err());
    check(&mut rig);
}

#[test]
fn promoted_and_retried_jobs_are_ready_in_their_order() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, many("d", 60_000));
    let promoted = ask_long(&mut rig, &mut peer, JobRequest::PromoteAll(name("q"), 3));
    assert!(matches!(promoted, JobReply::Count(3)));
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["d00000", "d00001", "d00002"]);
    let promoted = ask_long(&mut rig, &mut peer, JobRequest::PromoteAll(name("q"), u32::MAX));
    assert!(matches!(promoted, JobReply::Count(count) if count == MANY as u64 - 3));
    assert_eq!(counts(&mut rig, &mut peer).waiting, MANY as u64 - 3);
    check(&mut rig);
}

#[test]
fn list_of_one_state_shows_a_page_of_it_in_order() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("a"), new("b"), new("c"), new("d")]);
    let jobs = pull(&mut rig, &mut peer);
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("c", jobs[2].token)])).expect("acked");
    rig.wait(5);
    push(&mut rig, &mut peer, vec![new("e")]);
    let mut page = |states: &[JobState], offset, descending| {
        let list = JobList {
            queue: name("q"),
            states: states.to_vec(),
            held_back: false,
            offset,
            max: 2,
            descending,
        };
        match ask_long(&mut rig, &mut peer, JobRequest::List(list)) {
            JobReply::Jobs(jobs) => jobs.iter().map(|info| info.job.id.to_string()).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(page(&[JobState::Active], 1, false), ["b", "d"]);
    assert_eq!(page(&[JobState::Active], 0, true), ["d", "b"]);
    assert_eq!(page(&[], 1, false), ["b", "c"], "by creation, whatever they are");
    assert_eq!(page(&[], 0, true), ["e", "d"]);
    assert_eq!(page(&[JobState::Completed, JobState::Waiting], 0, false), ["c", "e"]);
}

#[test]
fn queue_that_holds_nothing_durable_has_no_jobs() {
    let (mut rig, mut peer) = started();
    let spec = QueueSpec { name: name("q"), durable: false, ..QueueSpec::default() };
    rig.call(&mut peer, Request::Define(Define::Queue(spec))).expect("made");
    let pushed = ask(&mut rig, &mut peer, JobRequest::Push(vec![new("a")]));
    assert!(matches!(pushed, Err(BrokerError::NotSupported { .. })), "{pushed:?}");
    let pull = JobPull {
        consumer: ConsumerId(1),
        queue: name("q"),
        max: 1,
        wait_ms: 0,
        lock_ms: None,
        detach: false,
    };
    assert!(matches!(
        ask(&mut rig, &mut peer, JobRequest::Pull(pull)),
        Err(BrokerError::NotSupported { .. })
    ));
}

#[test]
fn job_of_a_message_that_a_restart_loses_is_lost_with_it() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![NewJob { terms: JobTerms { priority: 9, ..terms() }, ..new("stays") }]);
    let passing = Publish { persistent: false, ..Publish::new(name(""), name("q"), frame("passing")) };
    rig.put(&mut peer, passing);
    assert_eq!(pull(&mut rig, &mut peer).len(), 2, "it became a job");
    let (store, now) = (rig.store.clone(), rig.now);
    drop(rig);
    let mut rig = Rig::on(store, now);
    let mut peer = rig.connect();
    let got = counts(&mut rig, &mut peer);
    assert_eq!((got.waiting, got.prioritized, got.active), (0, 1, 0));
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["stays"]);
    check(&mut rig);
}

#[test]
fn deleted_queue_takes_its_finished_jobs_with_it() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("done"), new("waits")]);
    let jobs = pull(&mut rig, &mut peer);
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("done", jobs[0].token)])).expect("acked");
    let delete = Define::DeleteQueue { name: name("q"), if_unused: false, if_empty: false };
    rig.call(&mut peer, Request::Define(delete)).expect("deleted");
    assert_eq!(state(&mut rig, &mut peer, "done"), None);
    assert_eq!(state(&mut rig, &mut peer, "waits"), None);
    let left: u64 = rig.core.durable.queues().map(|queue| queue.count).sum();
    assert_eq!(left, 0, "no message stays behind unseen");
    check(&mut rig);
}
