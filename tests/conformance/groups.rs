//! T2: consumer groups of a topic.

use std::collections::{BTreeMap, BTreeSet};

use framegate_broker::{
    Define, Delivery, Distribution, GroupInfo, GroupSpec, GroupStart, KeySource, Member, Outcome, Publish,
    Query, Reply, Request, Retry, TopicSpec,
};

use crate::home::Home;
use crate::queues::{deliveries, texts};
use crate::support::{Client, consumer, name, text};
use crate::topics;

async fn declare(client: &mut Client, group: &str, distribution: Distribution) {
    let (start, retry) = (GroupStart::Earliest, Retry::AT_ONCE);
    let spec = GroupSpec { start, retry, distribution, ..GroupSpec::new(name("t"), name(group)) };
    client.call(Request::Define(Define::Group(spec))).await.expect("declared");
}

async fn join(client: &mut Client, id: u32, group: &str, prefetch: Option<u32>) {
    let member = Member::of(name(group));
    client.call(Request::ConsumeGroup(consumer(id, "t", prefetch), member)).await.expect("joined");
}

async fn info(client: &mut Client, group: &str) -> GroupInfo {
    let query = Query::Group { topic: name("t"), group: name(group) };
    match client.call(Request::Query(query)).await {
        Ok(Reply::Group(info)) => *info,
        other => panic!("{group}: {other:?}"),
    }
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

/// T2.
pub(crate) async fn t2_groups(home: &mut Home) -> String {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    for n in 0..20 {
        topics::post(&mut c, "t", &n.to_string()).await;
    }
    declare(&mut c, "one", Distribution::LoadBalance).await;
    declare(&mut c, "two", Distribution::LoadBalance).await;
    join(&mut c, 1, "one", Some(12)).await;
    let of_one = deliveries(&mut c, 12).await;
    assert_eq!(texts(&of_one), numbers(0..12));
    // settled out of order: a floor and what is settled above it
    let acked: Vec<&Delivery> = [0, 1, 2, 5, 8].iter().map(|at| &of_one[*at]).collect();
    c.settle(&acked, Outcome::Ack).await.expect("acked");
    assert_eq!(texts(&deliveries(&mut c, 5).await), numbers(12..17), "as many as were settled");
    let (one, two) = (info(&mut c, "one").await, info(&mut c, "two").await);
    assert_eq!((one.floor.0, one.settled_above, one.lag), (3, 2, 15), "{one:?}");
    assert_eq!((two.floor.0, two.settled_above, two.lag), (0, 0, 20), "the other group saw nothing of it");
    join(&mut c, 2, "two", None).await;
    let of_two = deliveries(&mut c, 20).await;
    assert_eq!(texts(&of_two), numbers(0..20));
    c.settle(&of_two[..18].iter().collect::<Vec<_>>(), Outcome::Ack).await.expect("acked");
    // makes the acks safe
    topics::post(&mut c, "t", "20").await;
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    join(&mut c, 1, "one", None).await;
    let left = [3, 4, 6, 7].into_iter().chain(9..21).map(|n: u32| n.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(&deliveries(&mut c, left.len()).await), left, "what was settled does not come back");
    join(&mut c, 2, "two", None).await;
    assert_eq!(texts(&deliveries(&mut c, 3).await), numbers(18..21));
    drop(c);
    sticky(home).await
}

/// Each key is one member's; the keys of one that leaves go to those that stay, and no others move.
async fn sticky(home: &mut Home) -> String {
    const KEYS: u32 = 40;
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    let spec = TopicSpec { name: name("t"), age_ms_max: None, bytes_max: None };
    c.call(Request::Define(Define::Topic(spec))).await.expect("declared");
    declare(&mut c, "keys", Distribution::Sticky(KeySource::Attribute(name("datacontenttype")))).await;
    let mut members: Vec<Client> = (0..3).map(|_| Client::new(&broker)).collect();
    for (at, client) in members.iter_mut().enumerate() {
        let member = Member { name: Some(name(&format!("m{at}"))), ..Member::of(name("keys")) };
        let id = u32::try_from(at).expect("few");
        client.call(Request::ConsumeGroup(consumer(id, "t", None), member)).await.expect("joined");
    }
    let before = round(&mut c, &mut members, KEYS).await;
    let gone = members.len() - 1;
    let left = members.pop().expect("three");
    drop(left);
    while info(&mut c, "keys").await.members.len() > gone {}
    let after = round(&mut c, &mut members, KEYS).await;
    for (key, member) in &before {
        assert!(*member == gone || after[key] == *member, "key {key} moved from {member} to {}", after[key]);
    }
    let of = |member: usize| before.values().filter(|m| **m == member).count();
    assert!((0..3).all(|member| of(member) > 0), "every member has keys: {before:?}");
    format!("two groups, gaps over a kill; {KEYS} keys to 3 members, {} moved when one left", of(gone))
}

/// Publishes three events of each key; which member got each key.
async fn round(c: &mut Client, members: &mut [Client], keys: u32) -> BTreeMap<u32, usize> {
    for n in 0..keys * 3 {
        let key = n % keys;
        let mime = format!("text/k{key}");
        let attributes = [("datacontenttype", mime.as_str())];
        let limits = framegate_frame::Limits::GATEWAY;
        let body = format!("{key}");
        let frame = framegate_frame::Frame::build(
            framegate_frame::FrameKind::Event,
            attributes,
            body.as_bytes(),
            &limits,
        )
        .expect("a frame");
        c.call(Request::Publish(Publish::to_topic(name("t"), frame))).await.expect("published");
    }
    let mut owners: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    let mut left = keys * 3;
    while left > 0 {
        for (at, client) in members.iter_mut().enumerate() {
            if client.pending() == 0 {
                tokio::task::yield_now().await;
                continue;
            }
            let delivery = client.delivery().await;
            let key = text(&delivery.frame).parse().expect("a key");
            owners.entry(key).or_default().insert(at);
            client.settle(&[&delivery], Outcome::Ack).await.expect("acked");
            left -= 1;
        }
    }
    let one = |(key, owners): (u32, BTreeSet<usize>)| {
        assert_eq!(owners.len(), 1, "key {key} went to several members: {owners:?}");
        (key, owners.into_iter().next().expect("one"))
    };
    owners.into_iter().map(one).collect()
}
