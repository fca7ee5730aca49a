//! A broker that does what a test says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use framegate_broker::{
    BrokerError, ConnectionId, ConsumerId, Cursor, Delivery, Effect, Envelope, FeedEvent, FeedItem, Name,
    Origin, Position, Principal, Request, RequestId, Seq, Subscribe,
};
use framegate_frame::{Frame, FrameKind, Limits};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::{mpsc, watch};

use crate::driver::port::{Effects, Feed, Line, Port};
use crate::session::{Credentials, LoginError};

#[derive(Clone)]
pub(super) struct FakeBroker {
    state: Arc<Mutex<State>>,
    pub(super) blocked: Arc<watch::Sender<bool>>,
    pub(super) batches: Arc<watch::Sender<usize>>,
}

#[derive(Default)]
struct State {
    batches: VecDeque<Vec<(RequestId, Request)>>,
    effects: Option<mpsc::UnboundedSender<Vec<Effect>>>,
    feeds: Vec<mpsc::UnboundedSender<FeedItem>>,
    log: Vec<String>,
    written: usize,
    lines: usize,
    connections: u64,
}

impl Default for FakeBroker {
    fn default() -> Self {
        let (blocked, batches) = (watch::channel(false).0, watch::channel(0).0);
        Self { state: Arc::default(), blocked: Arc::new(blocked), batches: Arc::new(batches) }
    }
}

impl FakeBroker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn lines_open(&self) -> usize {
        self.state().lines
    }

    pub(super) fn written(&self) -> usize {
        self.state().written
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// Waits for the next batch; gives the ids.
    pub(super) async fn batch(&self) -> Vec<u64> {
        let mut batches = self.batches.subscribe();
        batches.wait_for(|_| !self.state().batches.is_empty()).await.unwrap();
        let batch = self.state().batches.pop_front().unwrap();
        batch.into_iter().map(|(id, _)| id.0).collect()
    }

    pub(super) fn has_batch(&self) -> bool {
        !self.state().batches.is_empty()
    }

    pub(super) fn say(&self, effects: Vec<Effect>) {
        self.state().effects.as_ref().unwrap().send(effects).unwrap();
    }

    /// The broker stops: effects end.
    pub(super) fn stop(&self) {
        self.state().effects = None;
    }

    pub(super) fn publish(&self, subscription: usize, text: &str) {
        self.state().feeds.get(subscription).unwrap().send(event(text)).unwrap();
    }

    pub(super) fn feed_is_live(&self, subscription: usize) -> bool {
        self.state().feeds.get(subscription).is_some_and(|feed| !feed.is_closed())
    }
}

fn origin() -> Origin {
    Origin { vhost: Name::from_static("/"), name: Name::from_static("q"), id: 1, seq: 1 }
}

fn frame(data: &[u8]) -> Frame {
    Frame::build(FrameKind::Event, [], data, &Limits::GATEWAY).unwrap()
}

pub(super) fn delivery(data: &str) -> Effect {
    Effect::Delivery(Delivery {
        consumer: ConsumerId(1),
        position: Position::Queue(Seq(1)),
        token: None,
        attempt: 1,
        redelivered: false,
        envelope: Envelope::default(),
        frame: frame(data.as_bytes()),
        origin: origin(),
    })
}

fn cursor() -> Cursor {
    "1.0:1".parse().unwrap()
}

fn event(text: &str) -> FeedItem {
    let topic = Name::from_static("t");
    let frame = frame(text.as_bytes());
    FeedItem::Event(Arc::new(FeedEvent::new(topic, None, cursor(), Envelope::default(), frame, origin())))
}

impl Port for FakeBroker {
    type Line = FakeLine;
    type Feed = FakeFeed;

    fn authenticate(&self, credentials: Credentials) -> BoxFuture<'static, Result<Principal, LoginError>> {
        let mut blocked = self.blocked.subscribe();
        Box::pin(async move {
            blocked.wait_for(|blocked| !blocked).await.map_err(|_| LoginError::Refused)?;
            match credentials {
                Credentials::Password { user, .. } if user != "mallory" => {
                    Ok(Principal::unrestricted(Name::new(&user)?))
                }
                _ => Err(LoginError::Refused),
            }
        })
    }

    fn connect(
        &self,
        principal: &Principal,
        vhost: &Name,
        label: &str,
    ) -> Result<(FakeLine, Effects), BrokerError> {
        let mut state = self.state();
        let (sender, receiver) = mpsc::unbounded_channel();
        state.effects = Some(sender);
        state.lines += 1;
        state.connections += 1;
        state.log.push(format!("connect {} {vhost} {label}", principal.name()));
        let effects = stream::unfold(receiver, |mut r| async move { r.recv().await.map(|e| (e, r)) });
        Ok((FakeLine { id: ConnectionId(state.connections), broker: self.clone() }, effects.boxed()))
    }

    fn subscribe(
        &self,
        principal: Principal,
        _vhost: Name,
        what: Subscribe,
    ) -> BoxFuture<'static, Result<FakeFeed, BrokerError>> {
        let broker = self.clone();
        Box::pin(async move {
            let mut blocked = broker.blocked.subscribe();
            blocked.wait_for(|blocked| !blocked).await.map_err(|_| BrokerError::Stopping)?;
            if what.patterns.iter().any(|p| p == "secret") {
                return Err(BrokerError::NotSupported { what: "secrets" });
            }
            let (sender, items) = mpsc::unbounded_channel();
            broker.state().feeds.push(sender);
            broker.state().log.push(format!("subscribe {}", principal.name()));
            Ok(FakeFeed { items })
        })
    }
}

pub(super) struct FakeLine {
    id: ConnectionId,
    broker: FakeBroker,
}

impl Line for FakeLine {
    fn id(&self) -> ConnectionId {
        self.id
    }

    fn submit(&self, batch: Vec<(RequestId, Request)>) -> BoxFuture<'static, Result<(), BrokerError>> {
        let broker = self.broker.clone();
        Box::pin(async move {
            let mut blocked = broker.blocked.subscribe();
            blocked.wait_for(|blocked| !blocked).await.map_err(|_| BrokerError::Stopping)?;
            broker.state().batches.push_back(batch);
            broker.batches.send_modify(|count| *count += 1);
            Ok(())
        })
    }

    fn written(&self, bytes: usize) {
        self.broker.state().written += bytes;
    }
}

impl Drop for FakeLine {
    fn drop(&mut self) {
        let mut state = self.broker.state();
        state.lines -= 1;
        state.log.push(format!("disconnect {}", self.id));
    }
}

pub(super) struct FakeFeed {
    items: mpsc::UnboundedReceiver<FeedItem>,
}

impl Feed for FakeFeed {
    fn poll_next(&mut self, cx: &mut Context<'_>, into: &mut Vec<FeedItem>, max: usize) -> Poll<bool> {
        self.items.poll_recv_many(cx, into, max).map(|count| count > 0)
    }

    fn cursor(&self) -> Cursor {
        cursor()
    }

    fn exact(&self) -> bool {
        true
    }
}
