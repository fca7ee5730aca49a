//! Jobs: nothing is seen before it is durable, locks, retries, what survives a restart, and other protocols' words for them.

use bytes::Bytes;

use super::rig::{Peer, Rig, consumer, frame, message, name, seq, settlement};
use crate::error::BrokerError;
use crate::ids::{ConsumerId, Token};
use crate::job::{JobBackoff, JobGrowth, JobPhase, JobReason, JobState, JobTerms, JobUnique};
use crate::request::{
    Effect, JobAck, JobChange, JobCounts, JobError, JobEventKind, JobExtend, JobFail, JobInfo, JobPull,
    JobReply, JobRequest, NewJob, Outcome, Reply, Request,
};

pub(super) fn terms() -> JobTerms {
    JobTerms {
        priority: 0,
        newest_first: false,
        max_attempts: 3,
        backoff: JobBackoff { delay_ms: 1000, growth: JobGrowth::Fixed },
        ttl_ms: None,
        timeout_ms: None,
        stall_ms: None,
        remove_on_complete: false,
        remove_on_fail: false,
        stack_lines_max: 10,
        unique: None,
    }
}

pub(super) fn new(id: &str) -> NewJob {
    NewJob {
        queue: name("q"),
        id: Some(id.into()),
        frame: frame(id),
        delay_ms: 0,
        created_ms: None,
        terms: terms(),
    }
}

pub(super) fn ask(rig: &mut Rig, peer: &mut Peer, request: JobRequest) -> Result<JobReply, BrokerError> {
    match rig.call(peer, Request::Job(Box::new(request))) {
        Ok(Reply::Job(reply)) => Ok(reply),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    }
}

pub(super) fn push(rig: &mut Rig, peer: &mut Peer, jobs: Vec<NewJob>) {
    ask(rig, peer, JobRequest::Push(jobs)).expect("pushed");
}

pub(super) fn pull_with(rig: &mut Rig, peer: &mut Peer, holder: u32, lock_ms: Option<u64>) -> Vec<JobInfo> {
    let (consumer, queue) = (ConsumerId(holder), name("q"));
    let pull = JobPull { consumer, queue, max: 10, wait_ms: 0, lock_ms, detach: false };
    match ask(rig, peer, JobRequest::Pull(pull)) {
        Ok(JobReply::Pulled(jobs)) => jobs,
        other => panic!("{other:?}"),
    }
}

pub(super) fn pull(rig: &mut Rig, peer: &mut Peer) -> Vec<JobInfo> {
    pull_with(rig, peer, 1, Some(30_000))
}

pub(super) fn ids(jobs: &[JobInfo]) -> Vec<&str> {
    jobs.iter().map(|info| &*info.job.id).collect()
}

pub(super) fn state(rig: &mut Rig, peer: &mut Peer, id: &str) -> Option<JobState> {
    match ask(rig, peer, JobRequest::Peek(id.into())) {
        Ok(JobReply::Job(job)) => job.map(|job| job.1),
        other => panic!("{other:?}"),
    }
}

pub(super) fn get(rig: &mut Rig, peer: &mut Peer, id: &str) -> JobInfo {
    let id = rig.send(peer, vec![Request::Job(Box::new(JobRequest::Get(id.into())))])[0];
    loop {
        rig.settle();
        for effect in peer.effects() {
            if let Effect::Reply(of, Ok(Reply::Job(JobReply::Jobs(mut jobs)))) = effect
                && of == id
            {
                return jobs.pop().expect("one job");
            }
        }
    }
}

pub(super) fn counts(rig: &mut Rig, peer: &mut Peer) -> JobCounts {
    match ask(rig, peer, JobRequest::Counts(name("q"))) {
        Ok(JobReply::Counts(counts)) => counts,
        other => panic!("{other:?}"),
    }
}

pub(super) fn ack(id: &str, token: Option<Token>) -> JobAck {
    JobAck { id: id.into(), token, result: Some(Bytes::from_static(b"result")), remove: None }
}

pub(super) fn fail(id: &str, token: Option<Token>) -> JobRequest {
    JobRequest::Fail(JobFail {
        id: id.into(),
        token,
        error: Some("boom".into()),
        stack: vec!["line".into(), " ".into()],
        is_final: false,
        remove: None,
    })
}

pub(super) fn started() -> (Rig, Peer) {
    let mut rig = Rig::new();
    let peer = rig.connect();
    (rig, peer)
}

/// What a reader of the log would know is what this core knows.
pub(super) fn check(rig: &mut Rig) {
    rig.settle();
    assert_eq!(rig.hashes().0, rig.hashes().1);
}

#[test]
fn job_is_seen_when_it_is_durable_and_kept_when_it_is_done() {
    let (mut rig, mut peer) = started();
    rig.send(&mut peer, vec![Request::Job(Box::new(JobRequest::Push(vec![new("a")])))]);
    let pull_now = JobPull {
        consumer: ConsumerId(5),
        queue: name("q"),
        max: 1,
        wait_ms: 0,
        lock_ms: Some(1000),
        detach: false,
    };
    rig.send(&mut peer, vec![Request::Job(Box::new(JobRequest::Pull(pull_now)))]);
    rig.pass();
    assert!(peer.effects().is_empty(), "neither an id nor a job before the log is durable");
    rig.settle();
    rig.wait(5);
    rig.settle();
    let mut jobs: Vec<JobInfo> = Vec::new();
    for effect in peer.effects() {
        if let Effect::Reply(_, Ok(Reply::Job(JobReply::Pulled(pulled)))) = effect {
            jobs.extend(pulled);
        }
    }
    assert_eq!(ids(&jobs), ["a"]);
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Active));
    let acks = vec![ack("a", jobs[0].token)];
    assert!(
        matches!(ask(&mut rig, &mut peer, JobRequest::Ack(acks)), Ok(JobReply::Ignored(i)) if i.is_empty())
    );
    let done = get(&mut rig, &mut peer, "a");
    assert_eq!((done.state, done.job.result.as_deref()), (JobState::Completed, Some(&b"result"[..])));
    assert_eq!(done.frame, frame("a"));
    check(&mut rig);
}

#[test]
fn priorities_and_delays_decide_the_order() {
    let (mut rig, mut peer) = started();
    let with = |id: &str, priority, delay_ms| NewJob {
        delay_ms,
        terms: JobTerms { priority, ..terms() },
        ..new(id)
    };
    push(
        &mut rig,
        &mut peer,
        vec![with("low", -1, 0), with("a", 0, 0), with("late", 9, 500), with("high", 9, 0), with("b", 0, 0)],
    );
    let got = counts(&mut rig, &mut peer);
    assert_eq!((got.waiting, got.prioritized, got.delayed), (3, 1, 1));
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["high", "a", "b", "low"]);
    rig.wait(499);
    assert!(pull(&mut rig, &mut peer).is_empty());
    rig.wait(1);
    rig.settle();
    assert_eq!(ids(&pull(&mut rig, &mut peer)), ["late"]);
    check(&mut rig);
}

#[test]
fn failed_attempt_waits_and_the_last_one_ends_in_death() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![NewJob { terms: JobTerms { max_attempts: 2, ..terms() }, ..new("a") }]);
    let token = pull(&mut rig, &mut peer)[0].token;
    assert!(ask(&mut rig, &mut peer, fail("a", token)).is_ok());
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Delayed));
    rig.wait(799);
    assert!(pull(&mut rig, &mut peer).is_empty(), "at least eight tenths of the backoff");
    rig.wait(401);
    rig.settle();
    let again = pull(&mut rig, &mut peer);
    assert_eq!((ids(&again), again[0].job.attempts), (vec!["a"], 1));
    assert!(ask(&mut rig, &mut peer, fail("a", again[0].token)).is_ok());
    let dead = get(&mut rig, &mut peer, "a");
    assert_eq!((dead.state, dead.job.attempts), (JobState::Failed, 2));
    let reasons: Vec<_> = dead.job.failures.iter().map(|failure| failure.reason).collect();
    assert_eq!(reasons, [JobReason::Explicit, JobReason::Attempts]);
    assert_eq!(dead.job.stack.as_deref().map(<[_]>::len), Some(1), "blank lines are left out");
    check(&mut rig);
    let retry = JobRequest::RetryDead { queue: name("q"), id: None, max: 10 };
    assert!(matches!(ask(&mut rig, &mut peer, retry), Ok(JobReply::Count(1))));
    let first = pull(&mut rig, &mut peer);
    assert_eq!((ids(&first), first[0].job.attempts), (vec!["a"], 0));
    check(&mut rig);
}

#[test]
fn job_that_gets_another_message_keeps_its_place_and_its_worker() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("a"), new("b"), new("c")]);
    let change = |id: &str| JobRequest::Change(id.into(), None, JobChange::Message(frame("another, longer")));
    ask(&mut rig, &mut peer, change("a")).expect("while it waits");
    check(&mut rig);
    let jobs = pull(&mut rig, &mut peer);
    assert_eq!((ids(&jobs), &jobs[0].frame), (vec!["a", "b", "c"], &frame("another, longer")));
    ask(&mut rig, &mut peer, change("b")).expect("while somebody works on it");
    let acks = vec![ack("b", jobs[1].token)];
    assert!(ask(&mut rig, &mut peer, JobRequest::Ack(acks)).is_ok(), "its worker has it still");
    check(&mut rig);
    let (store, now) = (rig.store.clone(), rig.now);
    drop(rig);
    let mut rig = Rig::on(&store, now);
    let mut peer = rig.connect();
    assert_eq!(get(&mut rig, &mut peer, "a").frame, frame("another, longer"));
    assert_eq!(get(&mut rig, &mut peer, "b").frame, frame("another, longer"));
}

#[test]
fn removal_that_was_answered_survives_a_power_cut() {
    let (mut rig, mut peer) = started();
    let brief = JobTerms { remove_on_complete: true, ..terms() };
    push(&mut rig, &mut peer, vec![NewJob { terms: brief, ..new("a") }, new("b")]);
    let jobs = pull(&mut rig, &mut peer);
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("a", jobs[0].token)])).expect("answered");
    let (store, now) = (rig.store.clone(), rig.now);
    store.cut_unsynced();
    drop(rig);
    let mut rig = Rig::on(store, now);
    let mut peer = rig.connect();
    assert_eq!(state(&mut rig, &mut peer, "a"), None);
    assert_eq!(state(&mut rig, &mut peer, "b"), Some(JobState::Waiting));
}

#[test]
fn only_the_token_of_the_attempt_ends_it() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("a"), new("b")]);
    let jobs = pull(&mut rig, &mut peer);
    let wrong =
        |error: &BrokerError| matches!(error, BrokerError::Job(JobError::WrongToken(id)) if &**id == "b");
    let acks = vec![ack("a", jobs[0].token), ack("b", Some(Token(1)))];
    assert!(ask(&mut rig, &mut peer, JobRequest::Ack(acks)).is_err_and(|e| wrong(&e)));
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Active), "all or nothing");
    let none = ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("a", None)]));
    assert!(matches!(none, Err(BrokerError::Job(JobError::TokenRequired(_)))));
    let mut other = rig.connect();
    let acks = vec![ack("a", jobs[0].token), ack("b", jobs[1].token)];
    assert!(ask(&mut rig, &mut other, JobRequest::Ack(acks)).is_ok(), "from any connection");
    let again = ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("a", jobs[0].token)]));
    assert!(matches!(again, Err(BrokerError::Job(JobError::Unknown(_)))));
    check(&mut rig);
}

#[test]
fn lock_that_runs_out_is_an_attempt_and_the_last_one_is_death() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![NewJob { terms: JobTerms { max_attempts: 2, ..terms() }, ..new("a") }]);
    let first = pull_with(&mut rig, &mut peer, 1, Some(100));
    rig.wait(60);
    let extend = JobExtend { id: "a".into(), token: first[0].token, lock_ms: Some(100), needs_token: true };
    assert!(matches!(ask(&mut rig, &mut peer, JobRequest::Extend(vec![extend])), Ok(JobReply::Count(1))));
    rig.wait(99);
    rig.settle();
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Active), "it was renewed");
    rig.wait(1);
    rig.settle();
    let second = pull_with(&mut rig, &mut peer, 2, Some(100));
    assert_eq!((second[0].job.attempts, second[0].job.stalls), (1, 1));
    assert_ne!(first[0].token, second[0].token);
    let late = ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("a", first[0].token)]));
    assert!(matches!(late, Err(BrokerError::Job(JobError::WrongToken(_)))), "never two workers for one job");
    rig.wait(100);
    rig.settle();
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Failed));
    check(&mut rig);
}

#[test]
fn attempt_that_takes_too_long_fails_and_its_worker_is_told() {
    let (mut rig, mut peer) = started();
    let timed = JobTerms { timeout_ms: Some(100), max_attempts: 1, ..terms() };
    push(&mut rig, &mut peer, vec![NewJob { terms: timed, ..new("a") }]);
    let token = pull(&mut rig, &mut peer)[0].token;
    rig.wait(100);
    rig.settle();
    assert_eq!(state(&mut rig, &mut peer, "a"), Some(JobState::Failed));
    let late = ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("a", token)]));
    assert!(matches!(late, Ok(JobReply::Ignored(indices)) if indices == [0]));
}

#[test]
fn lost_connection_gives_back_what_was_not_renewed() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("a"), new("b")]);
    let mut worker = rig.connect();
    let jobs = pull_with(&mut rig, &mut worker, 1, Some(1000));
    let extend = JobExtend { id: "b".into(), token: jobs[1].token, lock_ms: None, needs_token: false };
    ask(&mut rig, &mut worker, JobRequest::Extend(vec![extend])).expect("renewed");
    rig.disconnect(worker);
    let back = pull(&mut rig, &mut peer);
    assert_eq!((ids(&back), back[0].job.attempts), (vec!["a"], 0), "no attempt is counted");
    assert_eq!(state(&mut rig, &mut peer, "b"), Some(JobState::Active));
    assert!(ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("b", jobs[1].token)])).is_ok());
    check(&mut rig);
}

#[test]
fn restart_keeps_jobs_their_attempts_and_their_messages() {
    let (mut rig, mut peer) = started();
    push(
        &mut rig,
        &mut peer,
        vec![new("done"), new("failed"), new("held"), NewJob { delay_ms: 5000, ..new("later") }],
    );
    let jobs = pull(&mut rig, &mut peer);
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("done", jobs[0].token)])).expect("acked");
    ask(&mut rig, &mut peer, fail("failed", jobs[1].token)).expect("failed");
    ask(&mut rig, &mut peer, JobRequest::Pause(name("q"), true)).expect("paused");
    let (store, now) = (rig.store.clone(), rig.now);
    drop(rig);
    let mut rig = Rig::on(&store, now);
    let mut peer = rig.connect();
    let got = counts(&mut rig, &mut peer);
    assert_eq!((got.completed, got.waiting, got.delayed, got.is_paused), (1, 1, 2, true));
    let done = get(&mut rig, &mut peer, "done");
    assert_eq!((done.job.result.as_deref(), &done.frame), (Some(&b"result"[..]), &frame("done")));
    assert!(pull(&mut rig, &mut peer).is_empty(), "it is held back still");
    ask(&mut rig, &mut peer, JobRequest::Pause(name("q"), false)).expect("goes on");
    rig.wait(5000);
    rig.settle();
    let mut seen: Vec<String> = Vec::new();
    while seen.len() < 3 {
        seen.extend(pull(&mut rig, &mut peer).iter().map(|info| info.job.id.to_string()));
    }
    seen.sort();
    assert_eq!(seen, ["failed", "held", "later"]);
    check(&mut rig);
}

#[test]
fn snapshot_of_jobs_is_the_same_state() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("a"), new("b"), new("c")]);
    let jobs = pull(&mut rig, &mut peer);
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("a", jobs[0].token)])).expect("acked");
    ask(&mut rig, &mut peer, fail("b", jobs[1].token)).expect("failed");
    ask(&mut rig, &mut peer, JobRequest::Log { id: "c".into(), level: 1, text: "line".into() })
        .expect("logged");
    let state = &rig.core.durable;
    let loaded = crate::fold::load::of_pages(crate::state::Export::new(state.freeze(), 0)).expect("pages");
    assert_eq!(loaded.state.content_hash(), state.content_hash());
}

#[test]
fn other_words_settle_jobs_too_and_messages_become_jobs() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![new("acked"), new("rejected")]);
    let mut reader = rig.connect();
    rig.send(&mut reader, vec![Request::Consume(consumer(3, "q", Some(5)))]);
    rig.settle();
    let deliveries = reader.deliveries();
    assert_eq!(deliveries.len(), 2);
    assert_eq!(state(&mut rig, &mut peer, "acked"), Some(JobState::Active));
    let settle = |at: usize, outcome| Request::Settle(settlement(3, &[seq(&deliveries[at])], outcome));
    rig.call(&mut reader, settle(0, Outcome::Ack)).expect("acked");
    rig.call(&mut reader, settle(1, Outcome::Reject)).expect("rejected");
    assert_eq!(state(&mut rig, &mut peer, "acked"), Some(JobState::Completed));
    assert_eq!(state(&mut rig, &mut peer, "rejected"), Some(JobState::Delayed), "its own retry policy");
    rig.disconnect(reader);
    rig.put(&mut peer, message("q", "plain"));
    let got = pull(&mut rig, &mut peer);
    assert_eq!((got.len(), &got[0].frame), (1, &frame("plain")));
    let id = got[0].job.id.to_string();
    assert!(ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack(&id, got[0].token)])).is_ok());
    check(&mut rig);
}

#[test]
fn key_is_held_by_one_job_and_replaced_when_asked() {
    let (mut rig, mut peer) = started();
    let keyed = |id: &str, replace| {
        let unique = JobUnique { key: "k".into(), until_ms: None, ttl_ms: None, extend: false, replace };
        NewJob { terms: JobTerms { unique: Some(unique), ..terms() }, ..new(id) }
    };
    let pushed = |rig: &mut Rig, peer: &mut Peer, job| match ask(rig, peer, JobRequest::Push(vec![job])) {
        Ok(JobReply::Pushed(ids)) => ids[0].to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(pushed(&mut rig, &mut peer, keyed("a", false)), "a");
    assert_eq!(pushed(&mut rig, &mut peer, keyed("b", false)), "a");
    assert_eq!(pushed(&mut rig, &mut peer, keyed("c", true)), "c");
    assert_eq!(state(&mut rig, &mut peer, "a"), None);
    let token = pull(&mut rig, &mut peer)[0].token;
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("c", token)])).expect("acked");
    assert_eq!(pushed(&mut rig, &mut peer, keyed("d", false)), "d", "the key is free again");
    check(&mut rig);
}

#[test]
fn watcher_hears_in_order_and_before_the_answer() {
    let (mut rig, mut peer) = started();
    ask(&mut rig, &mut peer, JobRequest::Watch(Some(name("q")))).expect("watching");
    rig.send(&mut peer, vec![Request::Job(Box::new(JobRequest::Push(vec![new("a")])))]);
    rig.settle();
    let told: Vec<_> = peer
        .effects()
        .into_iter()
        .map(|effect| match effect {
            Effect::Reply(_, Ok(Reply::Job(JobReply::Event(event)))) => match event.kind {
                JobEventKind::Pushed => "event",
                _ => "another event",
            },
            Effect::Reply(_, Ok(Reply::Job(JobReply::Pushed(_)))) => "answer",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["event", "answer"]);
}

#[test]
fn changes_of_one_job() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![NewJob { delay_ms: 60_000, ..new("a") }, new("b"), new("c")]);
    let mut change =
        |rig: &mut Rig, id: &str, change| ask(rig, &mut peer, JobRequest::Change(id.into(), None, change));
    assert!(change(&mut rig, "a", JobChange::Promote).is_ok());
    assert!(change(&mut rig, "a", JobChange::Promote).is_err(), "not delayed any more");
    assert!(change(&mut rig, "b", JobChange::Cancel).is_ok());
    assert!(change(&mut rig, "b", JobChange::Cancel).is_err());
    assert!(change(&mut rig, "c", JobChange::Priority { priority: 5, newest_first: None }).is_ok());
    assert!(change(&mut rig, "a", JobChange::Message(frame("other"))).is_ok());
    let got = pull(&mut rig, &mut peer);
    assert_eq!(ids(&got), ["c", "a"]);
    assert_eq!(got[1].frame, frame("other"));
    assert!(matches!(got[0].job.phase, JobPhase::Queued));
    assert!(matches!(ask(&mut rig, &mut peer, JobRequest::Drain(name("q"))), Ok(JobReply::Count(0))));
    ask(&mut rig, &mut peer, JobRequest::Obliterate(name("q"))).expect("gone");
    assert_eq!(counts(&mut rig, &mut peer), JobCounts::default());
    check(&mut rig);
}
