//! Tests of the driver: a fake broker behind `Port`, a fake protocol of lines, duplex pipes, paused time.

mod fake_broker;
mod fake_session;
mod flow;
mod life;
mod sockets;
mod topics;
mod unfinished;
mod wakes;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use framegate_broker::Name;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::fake_broker::FakeBroker;
use self::fake_session::FakeSession;
use super::connection::Connection;
use super::drive;
use super::metrics::DriverMetrics;
use super::stream::StreamWire;
use crate::budget::UnfinishedBudget;
use crate::registry::Adaptors;
use crate::session::SessionContext;

/// A connection that is being driven, and the client's end of it.
struct Rig {
    client: DuplexStream,
    broker: FakeBroker,
    budget: UnfinishedBudget,
    stop: watch::Sender<bool>,
    metrics: Arc<DriverMetrics>,
    task: JoinHandle<()>,
}

fn context(budget: &UnfinishedBudget) -> SessionContext {
    let adaptors = Adaptors::collect().unwrap();
    SessionContext {
        peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 1234)),
        listener: "lines",
        vhost: Name::from_static("/"),
        anonymous: true,
        headers: adaptors.headers().clone(),
        adaptors,
        budget: budget.clone(),
        settings: Arc::default(),
        message_bytes_max: 1 << 20,
    }
}

impl Rig {
    /// A pipe that holds `pipe` bytes each way, a budget of `budget` bytes.
    fn new(pipe: usize, budget: usize, session: FakeSession) -> Self {
        let (client, server) = tokio::io::duplex(pipe);
        let broker = FakeBroker::default();
        let budget = UnfinishedBudget::new(budget);
        let (stop, stopped) = watch::channel(false);
        let metrics = Arc::<DriverMetrics>::default();
        let wire = StreamWire::new(server);
        let (port, context, counted) = (broker.clone(), context(&budget), Arc::clone(&metrics));
        let connection = Connection::new(Box::new(session), wire, port, &context, stopped, counted);
        let counted = Arc::clone(&metrics);
        let task = tokio::spawn(async move { drive(Box::new(connection), &counted).await });
        Self { client, broker, budget, stop, metrics, task }
    }

    fn start() -> Self {
        Self::new(64 * 1024, 1 << 20, FakeSession::default())
    }

    async fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads exactly this.
    async fn expect(&mut self, text: &str) {
        let mut got = vec![0; text.len()];
        self.client.read_exact(&mut got).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&got), text);
    }

    /// Reads exactly this, then the end.
    async fn expect_end(mut self, text: &str) {
        let mut got = Vec::new();
        self.client.read_to_end(&mut got).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&got), text);
        drop(self.client);
        self.task.await.unwrap();
        assert_eq!(self.broker.lines_open(), 0, "leases return");
        assert_eq!(self.budget.used(), 0);
    }
}
