//! Silent workers, and dead jobs: how many are kept, for how long, and which come back.

use super::jobs::{ack, ask, check, counts, fail, get, ids, new, pull, pull_with, push, started, state};
use super::rig::{Peer, Rig, name};
use crate::job::{JobCare, JobReason, JobState};
use crate::request::{JobCareChange, JobExtend, JobReply, JobRequest, NewJob};

fn set(rig: &mut Rig, peer: &mut Peer, change: JobCareChange) {
    ask(rig, peer, JobRequest::SetCare(name("q"), change)).expect("set");
}

fn care(rig: &mut Rig, peer: &mut Peer) -> JobCare {
    match ask(rig, peer, JobRequest::Care(name("q"))) {
        Ok(JobReply::Care(care)) => care,
        other => panic!("{other:?}"),
    }
}

fn silence(silence_ms: u64, stalls_max: u32) -> JobCareChange {
    let (silence_ms, stalls_max) = (Some(silence_ms), Some(stalls_max));
    JobCareChange { silence_ms, stalls_max, grace_ms: Some(0), ..JobCareChange::default() }
}

fn once(id: &str) -> NewJob {
    let mut job = new(id);
    job.terms.max_attempts = 1;
    job
}

/// Jobs that failed for the last time, one after the other.
fn dead(rig: &mut Rig, peer: &mut Peer, ids: &[&str]) {
    for id in ids {
        push(rig, peer, vec![once(id)]);
        let taken = pull(rig, peer);
        ask(rig, peer, fail(id, taken[0].token)).expect("failed");
        rig.wait(10);
    }
    rig.settle();
}

fn later(rig: &mut Rig, ms: u64) {
    rig.wait(ms);
    rig.settle();
}

#[test]
fn attempt_without_a_lock_fails_when_its_worker_is_silent() {
    let (mut rig, mut peer) = started();
    set(&mut rig, &mut peer, silence(500, 2));
    push(&mut rig, &mut peer, vec![new("a")]);
    assert_eq!(pull_with(&mut rig, &mut peer, 1, None).len(), 1);
    later(&mut rig, 400);
    let alive = JobExtend { id: "a".into(), token: None, lock_ms: None, needs_token: false };
    ask(&mut rig, &mut peer, JobRequest::Extend(vec![alive])).expect("heard");
    later(&mut rig, 500);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Active), "it was heard 500 ms ago");
    later(&mut rig, 1);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Delayed), "tried again after its backoff");
    later(&mut rig, 1200);
    assert_eq!(pull_with(&mut rig, &mut peer, 1, None).len(), 1);
    later(&mut rig, 501);
    let job = get(&mut rig, &mut peer, "a");
    assert_eq!((job.state, job.job.stalls, job.job.attempts), (JobState::Failed, 2, 2));
    assert_eq!(job.job.failures.last().map(|failure| failure.reason), Some(JobReason::Stalled));
    check(&mut rig);
}

#[test]
fn attempt_under_a_lock_ends_with_its_lock_alone() {
    let (mut rig, mut peer) = started();
    set(&mut rig, &mut peer, silence(100, 1));
    push(&mut rig, &mut peer, vec![new("a")]);
    let taken = pull_with(&mut rig, &mut peer, 1, Some(1000));
    later(&mut rig, 900);
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("a", taken[0].token)])).expect("still its own");
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Completed));
}

#[test]
fn grace_and_a_job_s_own_time_count_and_a_change_counts_for_those_that_are_active() {
    let (mut rig, mut peer) = started();
    let mut own = new("own");
    own.terms.stall_ms = Some(5000);
    push(&mut rig, &mut peer, vec![new("a"), own]);
    assert_eq!(pull_with(&mut rig, &mut peer, 1, None).len(), 2);
    set(&mut rig, &mut peer, JobCareChange { grace_ms: Some(300), ..silence(100, 1) });
    later(&mut rig, 300);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Active));
    later(&mut rig, 1);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Failed));
    assert_eq!(state(&mut rig, &mut peer, "own"), Some(JobState::Active));
    set(&mut rig, &mut peer, JobCareChange { watches_silence: Some(false), ..JobCareChange::default() });
    later(&mut rig, 10_000);
    assert_eq!(state(&mut rig, &mut peer, "own"), Some(JobState::Active), "nobody minds any more");
    check(&mut rig);
}

#[test]
fn newest_dead_jobs_are_kept() {
    let (mut rig, mut peer) = started();
    dead(&mut rig, &mut peer, &["a", "b", "c"]);
    set(&mut rig, &mut peer, JobCareChange { dead_max: Some(2), ..JobCareChange::default() });
    later(&mut rig, 1);
    assert_eq!(state(&mut rig, &mut peer, "a"), None);
    assert_eq!(counts(&mut rig, &mut peer).failed, 2);
    dead(&mut rig, &mut peer, &["d"]);
    assert_eq!(state(&mut rig, &mut peer, "b"), None);
    assert_eq!(counts(&mut rig, &mut peer).failed, 2);
    check(&mut rig);
}

#[test]
fn dead_jobs_go_at_their_age_across_a_restart() {
    let (mut rig, mut peer) = started();
    set(&mut rig, &mut peer, JobCareChange { dead_ms: Some(Some(1000)), ..JobCareChange::default() });
    dead(&mut rig, &mut peer, &["a"]);
    later(&mut rig, 500);
    dead(&mut rig, &mut peer, &["b"]);
    later(&mut rig, 470);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Failed));
    let (store, mut now) = (rig.store.clone(), rig.now);
    drop(rig);
    now.wall_ms += 20;
    let mut rig = Rig::on(store, now);
    let mut peer = rig.connect();
    later(&mut rig, 10);
    assert_eq!(care(&mut rig, &mut peer).dead_ms, Some(1000), "a setting survives a restart");
    assert_eq!(state(&mut rig, &mut peer, "a"), None);
    assert_eq!(state(&mut rig, &mut peer, "b"), Some(JobState::Failed));
    later(&mut rig, 1000);
    assert_eq!(state(&mut rig, &mut peer, "b"), None);
    let known = &rig.core.durable;
    let loaded = crate::fold::load::of_pages(crate::state::Export::new(known.freeze(), 0)).expect("pages");
    assert_eq!(loaded.state.content_hash(), known.content_hash(), "and a snapshot");
    set(&mut rig, &mut peer, JobCareChange { dead_ms: Some(None), ..JobCareChange::default() });
    dead(&mut rig, &mut peer, &["c"]);
    later(&mut rig, 30 * 86_400_000);
    assert_eq!(state(&mut rig, &mut peer, "c"), Some(JobState::Failed), "kept for ever");
}

#[test]
fn dead_jobs_come_back_so_often_each_time_later() {
    let (mut rig, mut peer) = started();
    let change = JobCareChange {
        revives: Some(true),
        revive_ms: Some(1000),
        revivals_max: Some(2),
        ..JobCareChange::default()
    };
    set(&mut rig, &mut peer, change);
    dead(&mut rig, &mut peer, &["a"]);
    later(&mut rig, 980);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Failed));
    later(&mut rig, 10);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Waiting));
    let fail_now = |rig: &mut Rig, peer: &mut Peer| {
        let taken = pull(rig, peer);
        assert_eq!(ids(&taken), ["a"]);
        ask(rig, peer, fail("a", taken[0].token)).expect("failed");
        rig.settle();
    };
    fail_now(&mut rig, &mut peer);
    assert_eq!(get(&mut rig, &mut peer, "a").job.revivals, 1);
    later(&mut rig, 1000);
    later(&mut rig, 999);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Failed), "twice as long");
    later(&mut rig, 1);
    fail_now(&mut rig, &mut peer);
    later(&mut rig, 100_000);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Failed), "no more than twice");
    let retry = JobRequest::RetryDead { queue: name("q"), id: Some("a".into()), max: 1 };
    ask(&mut rig, &mut peer, retry).expect("asked for");
    fail_now(&mut rig, &mut peer);
    assert_eq!(get(&mut rig, &mut peer, "a").job.revivals, 0, "who asks begins anew");
    check(&mut rig);
}
