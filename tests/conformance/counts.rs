//! Q11: counts and pulls agree with a reference model: exactly while commands come one by one, within what is possible
//! while publishers and workers run at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use framegate_broker::{Answer, ConsumerId, Delivery, Fetch, Lease, Outcome, Reply, Request, Seq, Settle};
use framegate_storage::conformance::SampleRng;

use crate::home::Home;
use crate::queues::counts;
use crate::support::{Client, name, seq, text};

const COMMANDS: u64 = 600;
const MESSAGES: u64 = 600;

fn fetch(max: u32, wait_ms: u64) -> Request {
    Request::Fetch(Fetch {
        consumer: ConsumerId(1),
        queue: name("q"),
        max,
        wait_ms,
        auto_ack: false,
        lease_ms: None,
        tokens: false,
    })
}

async fn pull(client: &mut Client, max: u32, wait_ms: u64) -> (Vec<Delivery>, u64) {
    match client.call(fetch(max, wait_ms)).await {
        Ok(Reply::Fetched { messages, remaining }) => {
            for message in &messages {
                client.connection.written(message.window_bytes());
            }
            (messages, remaining)
        }
        other => panic!("{other:?}"),
    }
}

async fn settle(client: &mut Client, positions: Vec<Seq>, outcome: Outcome) {
    let lease = Lease::Positions(ConsumerId(1), positions);
    let settle = Settle { lease, outcome, answer: true };
    client.call(Request::Settle(settle)).await.expect("settled");
}

/// Q11.
pub(crate) async fn q11_counts(home: &mut Home) -> String {
    one_by_one(home).await;
    at_once(home).await;
    String::new()
}

async fn one_by_one(home: &mut Home) {
    let broker = home.fresh().await;
    let mut clients = [Client::new(&broker), Client::new(&broker), Client::new(&broker)];
    clients[0].declare("q").await;
    let mut rng = SampleRng(11);
    let mut ready: BTreeSet<u64> = BTreeSet::new();
    let mut held: [BTreeMap<u64, Seq>; 3] = Default::default();
    let mut published = 0;
    for step in 0..COMMANDS {
        let who = rng.below(3) as usize;
        match rng.below(10) {
            0..4 => {
                clients[who].put("q", &published.to_string()).await;
                ready.insert(published);
                published += 1;
            }
            4..7 => {
                let max = 1 + rng.below(4) as u32;
                let (messages, remaining) = pull(&mut clients[who], max, 0).await;
                for message in &messages {
                    let first = ready.pop_first();
                    assert_eq!(Some(text(&message.frame)), first.map(|n| n.to_string()), "step {step}");
                    held[who].insert(first.expect("there is one"), seq(message));
                }
                assert!(messages.len() == max as usize || ready.is_empty(), "step {step}: more was there");
                assert_eq!(remaining, ready.len() as u64, "step {step}");
            }
            7..9 => {
                let some: Vec<u64> = held[who].keys().copied().filter(|n| n % 3 != 0).take(3).collect();
                if !some.is_empty() {
                    let positions = some.iter().filter_map(|n| held[who].remove(n)).collect();
                    settle(&mut clients[who], positions, Outcome::Ack).await;
                }
            }
            _ => {
                let all = std::mem::take(&mut held[who]);
                if !all.is_empty() {
                    let positions = all.values().copied().collect();
                    settle(&mut clients[who], positions, Outcome::Requeue { delay_ms: 0 }).await;
                    ready.extend(all.keys());
                }
            }
        }
        let leased = held.iter().map(|h| h.len() as u64).sum();
        let asked = rng.below(3) as usize;
        assert_eq!(counts(&mut clients[asked], "q").await, (ready.len() as u64, leased), "step {step}");
    }
}

/// What the tasks have begun and ended.
#[derive(Default)]
struct Progress {
    publishing: AtomicU64,
    published: AtomicU64,
    acking: AtomicU64,
    acked: AtomicU64,
}

async fn at_once(home: &mut Home) {
    let broker = home.fresh().await;
    let mut observer = Client::new(&broker);
    observer.declare("q").await;
    let progress = std::sync::Arc::new(Progress::default());
    let mut tasks = Vec::new();
    let (mut publisher, p) = (Client::new(&broker), std::sync::Arc::clone(&progress));
    tasks.push(tokio::spawn(Box::pin(async move {
        for n in 0..MESSAGES {
            p.publishing.fetch_add(1, Ordering::SeqCst);
            let id = publisher.publish("q", &n.to_string(), Answer::Reply).await;
            publisher.reply(id).await.expect("published");
            p.published.fetch_add(1, Ordering::SeqCst);
        }
        Vec::new()
    })));
    for _ in 0..2 {
        let (mut worker, p) = (Client::new(&broker), std::sync::Arc::clone(&progress));
        tasks.push(tokio::spawn(Box::pin(async move {
            let mut got = Vec::new();
            while p.acked.load(Ordering::SeqCst) < MESSAGES {
                let (messages, _) = pull(&mut worker, 7, 20).await;
                if messages.is_empty() {
                    continue;
                }
                got.extend(messages.iter().map(|m| text(&m.frame).parse::<u64>().expect("a number")));
                let n = messages.len() as u64;
                p.acking.fetch_add(n, Ordering::SeqCst);
                settle(&mut worker, messages.iter().map(seq).collect(), Outcome::Ack).await;
                p.acked.fetch_add(n, Ordering::SeqCst);
            }
            got
        })));
    }
    let mut looks = 0;
    while progress.acked.load(Ordering::SeqCst) < MESSAGES {
        let (least_in, most_out) =
            (progress.published.load(Ordering::SeqCst), progress.acked.load(Ordering::SeqCst));
        let (ready, leased) = counts(&mut observer, "q").await;
        let (most_in, least_out) =
            (progress.publishing.load(Ordering::SeqCst), progress.acking.load(Ordering::SeqCst));
        let (there, least, most) = (ready + leased, least_in.saturating_sub(least_out), most_in - most_out);
        assert!((least..=most).contains(&there), "{there} is not in {least}..={most}");
        looks += 1;
    }
    let mut all = Vec::new();
    for task in tasks {
        let got = task.await.expect("the task ends");
        assert!(got.is_sorted(), "each worker gets them in order");
        all.extend(got);
    }
    all.sort_unstable();
    assert_eq!(all, (0..MESSAGES).collect::<Vec<_>>(), "each message once");
    assert_eq!(counts(&mut observer, "q").await, (0, 0));
    assert!(looks > 0, "the observer looked");
}
