//! T1 and T3: offsets, replay from any place, retention, and the cursor that a client resumes with.

use std::time::Duration;

use framegate_broker::feed::From;
use framegate_broker::{
    Broker, Define, FeedItem, Offset, Publish, Query, Reply, Request, Subscribe, Subscription, TopicInfo,
    TopicSpec,
};

use crate::home::Home;
use crate::support::{Client, anyone, frame, name, text};

/// An event as a subscriber sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) topic: String,
    pub(crate) offset: u64,
    pub(crate) time_ms: u64,
    pub(crate) cursor: String,
    pub(crate) text: String,
}

/// Publishes to a topic and waits until it is safe; its offset.
pub(crate) async fn post(client: &mut Client, topic: &str, body: &str) -> u64 {
    let publish = Publish::to_topic(name(topic), frame(body));
    match client.call(Request::Publish(publish)).await {
        Ok(Reply::Published(published)) => published.offset.expect("the topic keeps it").0,
        other => panic!("{topic}: {other:?}"),
    }
}

/// A topic as it is now.
pub(crate) async fn topic(client: &mut Client, topic: &str) -> TopicInfo {
    match client.call(Request::Query(Query::Topic(name(topic)))).await {
        Ok(Reply::Topic(info)) => info,
        other => panic!("{topic}: {other:?}"),
    }
}

async fn subscribe(broker: &Broker, pattern: &str, from: From) -> Subscription {
    let what = Subscribe { patterns: vec![name(pattern)], from };
    broker.subscribe(&anyone(), &name("/"), what).await.expect("subscribed")
}

/// The next items, until there are so many events; losses are counted.
async fn take(subscription: &mut Subscription, n: usize) -> (Vec<Seen>, usize) {
    let (mut events, mut lost, mut items) = (Vec::new(), 0, Vec::new());
    while events.len() < n {
        assert!(subscription.next(&mut items, 64).await, "the broker runs");
        for item in items.drain(..) {
            match item {
                FeedItem::Event(event) => events.push(Seen {
                    topic: event.topic.to_string(),
                    offset: event.kept.expect("a topic keeps it").1.0,
                    time_ms: event.envelope.time_ms,
                    cursor: event.cursor.to_string(),
                    text: text(&event.frame),
                }),
                FeedItem::Lost { .. } => lost += 1,
            }
        }
    }
    (events, lost)
}

/// Exactly these events come from a start, and then what is published next.
async fn check(broker: &Broker, pattern: &str, from: From, expected: &[Seen], lost: usize) {
    let what = format!("{pattern} from {from:?}");
    let mut subscription = subscribe(broker, pattern, from).await;
    assert_eq!(subscription.resumed_exactly(), lost == 0, "{what}");
    let (seen, losses) = take(&mut subscription, expected.len()).await;
    assert_eq!(seen, expected, "{what}");
    if !expected.is_empty() {
        assert_eq!(losses, lost, "{what}");
    }
}

/// Everything that is kept of a pattern; `n` events.
pub(crate) async fn replay(broker: &Broker, pattern: &str, n: usize) -> Vec<Seen> {
    take(&mut subscribe(broker, pattern, From::Earliest).await, n).await.0
}

async fn declare(client: &mut Client, topic: &str, age_ms_max: Option<u64>, bytes_max: Option<u64>) {
    let spec = TopicSpec { name: name(topic), age_ms_max, bytes_max };
    client.call(Request::Define(Define::Topic(spec))).await.expect("declared");
}

/// Looks again until the topic is as wanted.
async fn until(client: &mut Client, of: &str, what: &str, wanted: impl Fn(&TopicInfo) -> bool) -> TopicInfo {
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    for _ in 0..1500 {
        let info = topic(client, of).await;
        if wanted(&info) {
            return info;
        }
        looks.tick().await;
    }
    panic!("gave up waiting until {what}");
}

/// T1.
pub(crate) async fn t1_offsets_and_retention(home: &mut Home) -> String {
    let mut broker = home.fresh().await;
    let mut c = Client::new(&broker);
    for n in 0..60 {
        assert_eq!(post(&mut c, "t", &format!("t {n}")).await, n, "dense");
        if n % 4 == 0 {
            assert_eq!(post(&mut c, "other", &format!("other {n}")).await, n / 4, "dense beside it");
        }
    }
    let all = replay(&broker, "t", 60).await;
    assert_eq!(all.iter().map(|e| e.text.clone()).collect::<Vec<_>>(), texts("t", 0..60));
    for life in 0..2 {
        for offset in 0..60 {
            check(&broker, "t", From::Offset(Offset(offset)), &all[offset as usize..], 0).await;
        }
        let times = all.iter().flat_map(|e| [e.time_ms - 1, e.time_ms, e.time_ms + 1]);
        for time in times.step_by(5).chain([0]) {
            let first = all.iter().position(|e| e.time_ms >= time).unwrap_or(60);
            check(&broker, "t", From::Time(time), &all[first..], 0).await;
        }
        check(&broker, "t", From::Last(7), &all[53..], 0).await;
        if life == 0 {
            drop(c);
            broker = home.crash().await;
            c = Client::new(&broker);
        }
    }
    assert_eq!(post(&mut c, "t", "t 60").await, 60, "dense after a kill");
    by_size(home).await;
    by_age(home).await;
    String::new()
}

fn texts(of: &str, range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|n| format!("{of} {n}")).collect()
}

async fn by_size(home: &mut Home) {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    let bytes = frame("s 10").as_bytes().len() as u64;
    declare(&mut c, "s", None, Some(3 * bytes + 1)).await;
    for n in 10..30 {
        post(&mut c, "s", &format!("s {n}")).await;
    }
    let info = until(&mut c, "s", "the topic is small", |t| t.bytes <= 3 * bytes + 1).await;
    assert_eq!((info.first, info.next, info.bytes), (Offset(17), Offset(20), 3 * bytes), "the newest stay");
    let kept = replay(&broker, "s", 3).await;
    assert_eq!(kept.iter().map(|e| e.text.clone()).collect::<Vec<_>>(), texts("s", 27..30));
    check(&broker, "s", From::Offset(Offset(2)), &kept, 0).await;
    check(&broker, "s", From::Offset(Offset(18)), &kept[1..], 0).await;
    post(&mut c, "s", "s 99").await;
    drop(c);
    let broker = home.crash().await;
    let mut c = Client::new(&broker);
    let info = until(&mut c, "s", "it is small again", |t| t.first == Offset(18)).await;
    assert_eq!((info.next, info.bytes), (Offset(21), 3 * bytes), "after a kill");
}

async fn by_age(home: &mut Home) {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    declare(&mut c, "young", Some(1), None).await;
    declare(&mut c, "old", Some(3_600_000), None).await;
    for n in 0..5 {
        post(&mut c, "young", &format!("young {n}")).await;
        post(&mut c, "old", &format!("old {n}")).await;
    }
    let info = until(&mut c, "young", "all are too old", |t| t.first == t.next).await;
    assert_eq!((info.next, info.bytes), (Offset(5), 0));
    assert_eq!(topic(&mut c, "old").await.first, Offset(0), "only what is too old goes");
    assert_eq!(post(&mut c, "young", "young 5").await, 5, "numbers go on");
}

/// T3.
pub(crate) async fn t3_resume(home: &mut Home) -> String {
    let mut broker = home.fresh().await;
    let mut c = Client::new(&broker);
    for n in 0..40 {
        post(&mut c, ["a.x", "a.y", "b"][n % 3], &format!("{n}")).await;
    }
    let of_a = replay(&broker, "a.*", 27).await;
    let numbers = (0..40).filter(|n| n % 3 != 2).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(of_a.iter().map(|e| e.text.clone()).collect::<Vec<_>>(), numbers, "merged by position");
    let of_x: Vec<_> = of_a.iter().filter(|e| e.topic == "a.x").cloned().collect();
    for life in 0..2 {
        for (n, event) in of_a.iter().enumerate() {
            check(&broker, "a.*", From::After(event.cursor.clone()), &of_a[n + 1..], 0).await;
            // a cursor is a place in the log, whatever was subscribed to
            let place = of_x.iter().filter(|x| of_a[..=n].contains(x)).count();
            check(&broker, "a.x", From::After(event.cursor.clone()), &of_x[place..], 0).await;
        }
        for wrong in ["", "nonsense", "zz.0:1", "1.1:1"] {
            check(&broker, "a.*", From::After(wrong.to_owned()), &of_a, 1).await;
        }
        if life == 0 {
            drop(c);
            broker = home.crash().await;
            c = Client::new(&broker);
        }
    }
    live(&broker, &mut c, &of_a).await;
    below_retention(home).await;
    String::new()
}

/// A replay goes on with what is published meanwhile, each event once.
async fn live(broker: &Broker, c: &mut Client, of_a: &[Seen]) {
    let mut subscription = subscribe(broker, "a.*", From::After(of_a[20].cursor.clone())).await;
    for n in 40..60 {
        post(c, ["a.x", "a.y", "b"][n % 3], &format!("{n}")).await;
    }
    let (seen, lost) = take(&mut subscription, 6 + 13).await;
    let numbers = (0..60).filter(|n| n % 3 != 2).map(|n| n.to_string()).skip(21).collect::<Vec<_>>();
    assert_eq!(seen.iter().map(|e| e.text.clone()).collect::<Vec<_>>(), numbers[..19]);
    assert_eq!(lost, 0);
}

async fn below_retention(home: &mut Home) {
    let broker = home.fresh().await;
    let mut c = Client::new(&broker);
    let bytes = frame("r 10").as_bytes().len() as u64;
    declare(&mut c, "r", None, Some(4 * bytes)).await;
    post(&mut c, "r", "r 10").await;
    let first = replay(&broker, "r", 1).await;
    for n in 11..20 {
        post(&mut c, "r", &format!("r {n}")).await;
    }
    until(&mut c, "r", "the topic is small", |t| t.first == Offset(6)).await;
    let kept = replay(&broker, "r", 4).await;
    check(&broker, "r", From::After(first[0].cursor.clone()), &kept, 1).await;
    check(&broker, "r", From::After(kept[1].cursor.clone()), &kept[2..], 0).await;
}
