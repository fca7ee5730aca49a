//! Keys that jobs let go of.

use super::jobs::{ack, ask, check, ids, new, pull, push, started, terms};
use super::rig::{Peer, Rig, name};
use crate::job::{JobTerms, JobUnique};
use crate::request::{JobReply, JobRequest, NewJob};

fn keyed(id: &str) -> NewJob {
    let unique = JobUnique { key: "k".into(), until_ms: None, ttl_ms: None, extend: false, replace: false };
    NewJob { terms: JobTerms { unique: Some(unique), ..terms() }, ..new(id) }
}

fn freed(rig: &mut Rig, peer: &mut Peer, id: &str) -> u64 {
    match ask(rig, peer, JobRequest::FreeKeyOf(id.into())) {
        Ok(JobReply::Count(count)) => count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn job_lets_go_of_its_key_once_and_another_one_takes_it() {
    let (mut rig, mut peer) = started();
    push(&mut rig, &mut peer, vec![keyed("a"), keyed("b"), new("plain")]);
    assert_eq!(freed(&mut rig, &mut peer, "plain"), 0, "it holds none");
    assert_eq!(freed(&mut rig, &mut peer, "b"), 0, "it was not made: a has the key");
    assert_eq!(freed(&mut rig, &mut peer, "a"), 1);
    assert_eq!(freed(&mut rig, &mut peer, "a"), 0);
    push(&mut rig, &mut peer, vec![keyed("c")]);
    let Ok(JobReply::Holder(holder)) = ask(&mut rig, &mut peer, JobRequest::KeyHolder(name("q"), "k".into()))
    else {
        panic!("an answer");
    };
    assert_eq!(holder.as_deref(), Some("c"));
    check(&mut rig);
    let (store, now) = (rig.store.clone(), rig.now);
    drop(rig);
    let mut rig = Rig::on(store, now);
    let mut peer = rig.connect();
    assert_eq!(freed(&mut rig, &mut peer, "a"), 0, "after a restart too");
    let taken = pull(&mut rig, &mut peer);
    assert_eq!(ids(&taken), ["a", "plain", "c"]);
    ask(&mut rig, &mut peer, JobRequest::Ack(vec![ack("c", taken[2].token)])).expect("acked");
    assert_eq!(freed(&mut rig, &mut peer, "c"), 0, "the end of a job lets go of its key");
}
