//! Topics through the whole broker: visible when durable, resumed after a restart; admission; the end by a storage failure.

mod support;

use framegate_broker::feed::From;
use framegate_broker::{BrokerError, FeedItem, Limits, Publish, Reply, Request, Subscribe, Subscription};
use framegate_storage_memory::MemoryStore;
use support::{Client, anyone, frame, name, start_on, text};

async fn subscribe(broker: &framegate_broker::Broker, from: From) -> Subscription {
    let what = Subscribe { patterns: vec![name("orders.*")], from };
    broker.subscribe(&anyone(), &name("/"), what).await.expect("subscribed")
}

async fn next_texts(feed: &mut Subscription, count: usize) -> Vec<String> {
    let mut texts = Vec::new();
    while texts.len() < count {
        let mut items = Vec::new();
        assert!(feed.next(&mut items, count - texts.len()).await);
        for item in items {
            match item {
                FeedItem::Event(event) => texts.push(text(&event.frame)),
                lost => panic!("{lost:?}"),
            }
        }
    }
    texts
}

fn event(topic: &str, body: &str) -> Request {
    Request::Publish(Publish::to_topic(name(topic), frame(body)))
}

#[tokio::test]
async fn a_feed_resumes_after_its_cursor_when_the_broker_was_restarted() {
    let store = MemoryStore::new();
    let broker = start_on(&store, Limits::default());
    let mut c = Client::new(&broker);
    for n in 0..5 {
        c.call(event(&format!("orders.{}", n % 2), &n.to_string())).await.expect("published");
    }
    let mut feed = subscribe(&broker, From::Earliest).await;
    assert_eq!(next_texts(&mut feed, 3).await, ["0", "1", "2"]);
    let cursor = feed.cursor().to_string();
    drop((feed, c));
    broker.stop().await.expect("stopped");
    drop(broker);
    let broker = start_on(&store, Limits::default());
    let mut feed = subscribe(&broker, From::After(cursor)).await;
    assert!(feed.resumed_exactly());
    assert_eq!(next_texts(&mut feed, 2).await, ["3", "4"]);
    broker.stop().await.expect("stopped");
}

#[tokio::test]
async fn an_event_is_seen_when_it_is_durable_and_not_before() {
    let store = MemoryStore::paused();
    let broker = start_on(&store, Limits::default());
    let mut feed = subscribe(&broker, From::Latest).await;
    let mut c = Client::new(&broker);
    let id = c.send(event("orders.1", "a")).await;
    broker.call(&anyone(), &name("/"), Request::Query(framegate_broker::Query::Stats)).await.expect("stats");
    let mut items = Vec::new();
    {
        let mut next = std::pin::pin!(feed.next(&mut items, 1));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending(), "not durable yet");
    }
    assert_eq!(c.pending(), 0);
    let _pump = Pump::start(&store);
    assert_eq!(next_texts(&mut feed, 1).await, ["a"]);
    assert!(matches!(c.reply(id).await, Ok(Reply::Published(p)) if p.offset.is_some()));
}

#[tokio::test]
async fn publishers_wait_for_the_budget_and_others_pass() {
    let store = MemoryStore::paused();
    let limits = Limits { admission_bytes_max: 16 * 1024, ..Limits::default() };
    let broker = start_on(&store, limits);
    let (a, b) = (Client::new(&broker), Client::new(&broker));
    let body = "x".repeat(12 * 1024);
    let publish =
        || Request::Publish(Publish { persistent: true, ..Publish::new(name(""), name("q"), frame(&body)) });
    let query = || Request::Query(framegate_broker::Query::Stats);
    let ids =
        |requests: Vec<Request>| (1..).map(framegate_broker::RequestId).zip(requests).collect::<Vec<_>>();
    a.connection.submit(ids(vec![support_queue("q"), publish()])).await.expect("taken");
    {
        let requests = ids(vec![publish()]);
        let mut waiting = std::pin::pin!(b.connection.submit(requests));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending(), "the budget is used up");
        a.connection.submit(ids(vec![query()])).await.expect("what publishes nothing passes");
        let _pump = Pump::start(&store);
        waiting.await.expect("taken");
    }
}

/// Lets everything that is written become durable while it lives.
struct Pump(#[expect(dead_code, reason = "its drop ends the thread")] std::sync::Arc<()>);

impl Pump {
    fn start(store: &MemoryStore) -> Self {
        let alive = std::sync::Arc::new(());
        let (store, seen) = (store.clone(), std::sync::Arc::downgrade(&alive));
        std::thread::spawn(move || {
            while seen.strong_count() > 0 {
                store.release(1);
                std::thread::yield_now();
            }
        });
        Self(alive)
    }
}

fn support_queue(queue: &str) -> Request {
    let spec = framegate_broker::QueueSpec { name: name(queue), durable: true, ..Default::default() };
    Request::Define(framegate_broker::Define::Queue(spec))
}

#[tokio::test]
async fn after_a_storage_failure_everybody_hears_the_end() {
    let store = MemoryStore::paused();
    let broker = start_on(&store, Limits::default());
    let mut c = Client::new(&broker);
    c.send(support_queue("q")).await;
    broker.call(&anyone(), &name("/"), Request::Query(framegate_broker::Query::Stats)).await.expect("stats");
    let mut failure = broker.failure();
    store.fail_next_sync();
    let _pump = Pump::start(&store);
    failure.changed().await.expect("told");
    assert!(failure.borrow().is_some());
    let query = vec![(framegate_broker::RequestId(9), Request::Query(framegate_broker::Query::Stats))];
    assert!(matches!(c.connection.submit(query).await, Err(BrokerError::StorageFailed)));
    assert!(broker.stop().await.is_err());
}
