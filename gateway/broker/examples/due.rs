//! 100,000 messages that are due within one second, for each way in which something can be due: how late the latest is, and
//! what it costs. `tests/bench/run due`; docs/benchmarks.md says what the figures mean.
//!
//! The broker runs in this process, over a journal in a directory of its own, with its real clock and threads; the one
//! consumer runs here too, and its CPU counts.

use std::error::Error;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use framegate_broker::{
    Broker, Connection, Consume, ConsumerId, Define, Delivery, Distribution, Effect, GroupSpec, GroupStart,
    HeaderTable, Lease, Limits, Member, Name, Outbox, Outcome, Position, Principal, Publish, QueueProperties,
    QueueSpec, Request, RequestId, Retry, Settle, Startup,
};
use framegate_frame::{Frame, FrameKind, Limits as FrameLimits};
use framegate_storage::ShardStore;
use framegate_storage_journal::{Journal, Options};

/// Messages, and the time within which all of them are due.
const MESSAGES: u64 = 100_000;
const SPREAD_MS: u64 = 1000;
/// Time before the first one is due: enough to publish them all.
const AHEAD_MS: u64 = 6000;
/// Requests of one batch.
const BATCH: u64 = 250;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for path in ["delay", "time to live, dead letter", "group retry"] {
        let dir = std::env::temp_dir().join(format!("framegate-due-{}", std::process::id()));
        let figures = runtime.block_on(run(path, &dir));
        let _ = std::fs::remove_dir_all(&dir);
        let (mut late, seconds, cpu) = figures?;
        late.sort_unstable();
        let at = |share: f64| late.get(((late.len() as f64 * share) as usize).min(late.len() - 1)).copied();
        let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
        let early = late.iter().filter(|late| **late < 0).count();
        println!(
            "{{\"path\":\"due: {path}\",\"count\":{},\"early\":{early},\"late_p50_ms\":{},\"late_p99_ms\":{},\
             \"late_max_ms\":{},\"seconds\":{seconds:.2},\"cores\":{:.2}}}",
            late.len(),
            p50.unwrap_or(0),
            p99.unwrap_or(0),
            max.unwrap_or(0),
            cpu / seconds
        );
        let met = |yes: bool| if yes { "met" } else { "missed" };
        eprintln!(
            "due: {path}: latest {} ms (aim 1000): {}; {:.2} cores (aim 1): {}",
            max.unwrap_or(0),
            met(early == 0 && max.is_some_and(|max| max <= 1000)),
            cpu / seconds,
            met(cpu / seconds < 1.0)
        );
    }
    Ok(())
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// CPU seconds of this process so far; 0 where there is no procfs.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let own: f64 = text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let all: f64 = tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<f64>().ok())
        .sum();
    all.max(own) / 1e9
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap_or_default()
}

/// One connection to a broker.
struct Bench {
    broker: Broker,
    connection: Connection,
    outbox: Outbox,
    next: u64,
}

impl Bench {
    async fn send(&mut self, requests: Vec<Request>) -> Result<(), Failure> {
        let numbered = requests.into_iter().map(|request| {
            self.next += 1;
            (RequestId(self.next), request)
        });
        let batch = numbered.collect();
        self.connection.submit(batch).await?;
        Ok(())
    }

    /// One request to its answer.
    async fn call(&mut self, request: Request) -> Result<(), Failure> {
        self.send(vec![request]).await?;
        let wanted = RequestId(self.next);
        while let Some(effects) = self.outbox.recv().await {
            for effect in effects {
                match effect {
                    Effect::Reply(id, result) if id == wanted => return result.map(drop).map_err(Into::into),
                    _ => {}
                }
            }
        }
        Err("the broker is gone".into())
    }

    /// Deliveries that come next.
    async fn deliveries(&mut self) -> Result<Vec<Delivery>, Failure> {
        let effects = self.outbox.recv().await.ok_or("the broker is gone")?;
        let delivery = |effect| if let Effect::Delivery(delivery) = effect { Some(delivery) } else { None };
        let deliveries: Vec<Delivery> = effects.into_iter().filter_map(delivery).collect();
        self.connection.written(deliveries.iter().map(Delivery::window_bytes).sum());
        Ok(deliveries)
    }

    /// Publishes all of them; `make` gets the number and what is left of its time in ms.
    async fn publish(&mut self, due: &[u64], make: &dyn Fn(u64, u64) -> Publish) -> Result<(), Failure> {
        let mut at = 0;
        while at < MESSAGES {
            let now = wall_ms();
            let end = (at + BATCH).min(MESSAGES);
            let one = |n: u64| Request::Publish(make(n, due[n as usize].saturating_sub(now)));
            self.send((at..end).map(one).collect()).await?;
            at = end;
        }
        Ok(())
    }
}

/// Ms between the time of each and its arrival, seconds from the first time to the last arrival, CPU seconds in them.
async fn run(path: &str, dir: &std::path::Path) -> Result<(Vec<i64>, f64, f64), Failure> {
    let store: Arc<dyn ShardStore> = Arc::new(Journal::open(Options::new(dir))?);
    let (limits, headers) = (Limits::default(), HeaderTable::default());
    let broker = Broker::start(Startup { store, limits, headers, vhosts: vec![name("/")] })?;
    let (connection, outbox) =
        broker.connect(&Principal::unrestricted(name("bench")), &name("/"), "bench")?;
    let mut bench = Bench { broker, connection, outbox, next: 0 };
    let first = wall_ms() + AHEAD_MS;
    let due: Vec<u64> = (0..MESSAGES).map(|n| first + n * SPREAD_MS / MESSAGES).collect();
    match path {
        "delay" => delays(&mut bench, &due).await?,
        "group retry" => retries(&mut bench, &due).await?,
        _ => dead_letters(&mut bench, &due).await?,
    }
    if wall_ms() > first {
        return Err("publishing took longer than there is time".into());
    }
    let cpu = cpu_seconds();
    let mut late = Vec::new();
    while (late.len() as u64) < MESSAGES {
        let deliveries = bench.deliveries().await?;
        let now = wall_ms();
        for delivery in &deliveries {
            let n: usize = std::str::from_utf8(delivery.frame.data())?.parse()?;
            late.push(i64::try_from(now)? - i64::try_from(due[n])?);
        }
    }
    let seconds = (wall_ms() - first) as f64 / 1000.0;
    let cpu = cpu_seconds() - cpu;
    bench.broker.stop().await?;
    Ok((late, seconds, cpu))
}

fn body(n: u64) -> Frame {
    let text = n.to_string();
    let none: [(&str, &str); 0] = [];
    Frame::build(FrameKind::Event, none, text.as_bytes(), &FrameLimits::GATEWAY)
        .unwrap_or_else(|_| unreachable!("a small frame"))
}

fn consume(queue: &str, auto_ack: bool) -> Consume {
    Consume {
        consumer: ConsumerId(1),
        queue: name(queue),
        prefetch: None,
        pool: None,
        exclusive: false,
        auto_ack,
        lease_ms: None,
        tokens: false,
        priority: 0,
    }
}

fn queue(name_: &str, properties: QueueProperties) -> Request {
    let spec = QueueSpec { name: name(name_), durable: true, properties, ..QueueSpec::default() };
    Request::Define(Define::Queue(spec))
}

async fn delays(bench: &mut Bench, due: &[u64]) -> Result<(), Failure> {
    bench.call(queue("q", QueueProperties::default())).await?;
    let make =
        |n, left| Publish { persistent: true, delay_ms: left, ..Publish::new(name(""), name("q"), body(n)) };
    bench.publish(due, &make).await?;
    bench.call(Request::Consume(consume("q", true))).await
}

async fn dead_letters(bench: &mut Bench, due: &[u64]) -> Result<(), Failure> {
    bench.call(queue("dead", QueueProperties::default())).await?;
    let (exchange, key) = (Some(name("")), Some(name("dead")));
    let properties = QueueProperties {
        dead_letter_exchange: exchange,
        dead_letter_key: key,
        ..QueueProperties::default()
    };
    bench.call(queue("q", properties)).await?;
    let make = |n, left| Publish {
        persistent: true,
        ttl_ms: Some(left),
        ..Publish::new(name(""), name("q"), body(n))
    };
    bench.publish(due, &make).await?;
    bench.call(Request::Consume(consume("dead", true))).await
}

/// Two groups of two topics, since a group holds at most 65,536 events above its floor.
async fn retries(bench: &mut Bench, due: &[u64]) -> Result<(), Failure> {
    for topic in 0..2 {
        let (topic, group) = (format!("t{topic}"), name("g"));
        let spec = GroupSpec {
            start: GroupStart::Earliest,
            distribution: Distribution::LoadBalance,
            retry: Retry::AT_ONCE,
            ..GroupSpec::new(name(&topic), group)
        };
        bench.call(Request::Define(Define::Group(spec))).await?;
    }
    let make = |n: u64, _| Publish::to_topic(name(&format!("t{}", n % 2)), body(n));
    bench.publish(due, &make).await?;
    for topic in 0..2 {
        let consume = Consume { consumer: ConsumerId(topic), ..consume(&format!("t{topic}"), false) };
        bench.send(vec![Request::ConsumeGroup(consume, Member::of(name("g")))]).await?;
    }
    let mut seen = 0;
    while seen < MESSAGES {
        let (deliveries, now) = (bench.deliveries().await?, wall_ms());
        seen += deliveries.len() as u64;
        let mut again = Vec::new();
        for delivery in deliveries {
            let n: usize = std::str::from_utf8(delivery.frame.data())?.parse()?;
            let Position::Queue(seq) = delivery.position else { continue };
            let lease = Lease::Positions(delivery.consumer, vec![seq]);
            let outcome = Outcome::Requeue { delay_ms: due[n].saturating_sub(now).max(1) };
            again.push(Request::Settle(Settle { lease, outcome, answer: false }));
        }
        bench.send(again).await?;
    }
    Ok(())
}
