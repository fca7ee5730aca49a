//! How fast jobs are handed out, and how many at once.

use super::jobs::{ack, ask, check, ids, new, pull, push, started};
use super::rig::{Rig, consumer, name};
use crate::job::{JobRate, JobRules};
use crate::request::{JobLimits, JobReply, JobRequest, Request};

fn limits(rig: &mut Rig, peer: &mut super::rig::Peer) -> JobLimits {
    match ask(rig, peer, JobRequest::Limits(name("q"))) {
        Ok(JobReply::Limits(limits)) => limits,
        other => panic!("{other:?}"),
    }
}

fn rate(max: u32, per_ms: u64, until_ms: Option<u64>) -> JobRequest {
    JobRequest::SetRate(name("q"), Some(JobRate { max, per_ms, until_ms }))
}

#[test]
fn bucket_starts_full_and_is_filled_evenly() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, ["a", "b", "c", "d", "e"].map(new).to_vec());
    ask(&mut rig, &mut peer, rate(2, 1000, None)).expect("set");
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["a", "b"]);
    rig.wait(499);
    assert!(pull(&mut rig, &mut peer).is_empty(), "a token takes 500 ms");
    rig.wait(1);
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["c"]);
    ask(&mut rig, &mut peer, JobRequest::SetRate(name("q"), None)).expect("cleared");
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["d", "e"]);
    check(&mut rig);
}

#[test]
fn consumer_that_waits_gets_each_job_when_its_token_comes() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, ["a", "b", "c"].map(new).to_vec());
    ask(&mut rig, &mut peer, rate(1, 100, None)).expect("set");
    let mut reader = rig.connect();
    rig.send(&mut reader, vec![Request::Consume(consumer(3, "q", None))]);
    rig.settle();
    assert_eq!(reader.texts(), ["a"]);
    rig.wait(100);
    rig.settle();
    assert_eq!(reader.texts(), ["b"]);
    rig.wait(100);
    rig.settle();
    assert_eq!(reader.texts(), ["c"]);
}

#[test]
fn rate_ends_at_its_time() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, ["a", "b", "c"].map(new).to_vec());
    let end = rig.now.wall_ms + 50;
    ask(&mut rig, &mut peer, rate(1, 60_000, Some(end))).expect("set");
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["a"]);
    assert_eq!(limits(&mut rig, &mut peer).rate_ends_in_ms, Some(end - rig.now.wall_ms));
    rig.wait(50);
    assert_eq!(limits(&mut rig, &mut peer), JobLimits::default());
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["b", "c"]);
}

#[test]
fn no_more_are_worked_on_at_once_and_those_before_the_limit_count() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, ["a", "b"].map(new).to_vec());
    let first = pull(&mut rig, &mut peer);
    push(&mut rig, &mut peer, ["c", "d", "e"].map(new).to_vec());
    ask(&mut rig, &mut peer, JobRequest::SetConcurrency(name("q"), Some(3))).expect("set");
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["c"]);
    assert!(limits(&mut rig, &mut peer).is_maxed);
    assert!(pull(&mut rig, &mut peer).is_empty());
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("a", first[0].token)])).expect("acked");
    assert!(!limits(&mut rig, &mut peer).is_maxed);
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["d"]);
    let (store, now) = (rig.store.clone(), rig.now);
    drop(rig);
    let mut rig = Rig::on(store, now);
    let mut peer = rig.connect();
    assert_eq!(limits(&mut rig, &mut peer).concurrency, Some(3), "a limit survives a restart");
    assert_eq!(pull(&mut rig, &mut peer).len(), 3);
    let state = &rig.core.durable;
    let loaded = crate::fold::load::of_pages(crate::state::Export::new(state.freeze(), 0)).expect("pages");
    assert_eq!(loaded.state.content_hash(), state.content_hash(), "and a snapshot");
    let queue = loaded.state.queues().find(|queue| queue.spec.name == *"q").expect("there").id;
    let rules = JobRules { rate: None, concurrency: Some(3) };
    assert_eq!(loaded.state.jobs.rules(queue), Some(&rules));
}

#[test]
fn limit_of_nothing_is_refused() {
    let (mut rig, mut peer) = started();
    assert!(ask(&mut rig, &mut peer, JobRequest::SetConcurrency(name("q"), Some(0))).is_err());
    assert!(ask(&mut rig, &mut peer, rate(0, 1000, None)).is_err());
    assert!(ask(&mut rig, &mut peer, rate(1, 0, None)).is_err());
}
