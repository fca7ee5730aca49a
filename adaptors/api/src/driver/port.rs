//! What the driver needs of the broker, as traits, so that its own tests run without one. The real side is `BrokerPort`.

use std::sync::Arc;
use std::task::{Context, Poll};

use framegate_broker::{
    Broker, BrokerError, Connection, ConnectionId, Cursor, Effect, FeedItem, Happening, Name, Principal,
    Request, RequestId, Subscribe, Subscription,
};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};

use crate::auth::Authenticator;
use crate::session::{Credentials, LoginError};

/// Effects, a pass at a time; ends when the broker has stopped.
pub(super) type Effects = BoxStream<'static, Vec<Effect>>;

/// The way into the broker.
pub(super) trait Port: Send {
    type Line: Line;
    type Feed: Feed;

    fn authenticate(&self, credentials: Credentials) -> BoxFuture<'static, Result<Principal, LoginError>>;

    fn connect(
        &self,
        principal: &Principal,
        vhost: &Name,
        label: &str,
    ) -> Result<(Self::Line, Effects), BrokerError>;

    fn subscribe(
        &self,
        principal: Principal,
        vhost: Name,
        what: Subscribe,
    ) -> BoxFuture<'static, Result<Self::Feed, BrokerError>>;
}

/// An open connection; dropping it returns its leases.
pub(super) trait Line: Send {
    fn id(&self) -> ConnectionId;
    fn submit(&self, batch: Vec<(RequestId, Request)>) -> BoxFuture<'static, Result<(), BrokerError>>;
    fn written(&self, bytes: usize);
    /// Tells why the connection is about to end.
    fn report(&self, _what: Happening) {}
}

/// A subscription; dropping it ends it.
pub(super) trait Feed: Send {
    fn poll_next(&mut self, cx: &mut Context<'_>, into: &mut Vec<FeedItem>, max: usize) -> Poll<bool>;
    fn cursor(&self) -> Cursor;
    fn exact(&self) -> bool;
}

/// The real broker.
pub(super) struct BrokerPort {
    pub(super) broker: Broker,
    pub(super) authenticator: Arc<dyn Authenticator>,
    pub(super) anonymous: bool,
}

impl Port for BrokerPort {
    type Line = Connection;
    type Feed = Subscription;

    fn authenticate(&self, credentials: Credentials) -> BoxFuture<'static, Result<Principal, LoginError>> {
        let (authenticator, anonymous) = (Arc::clone(&self.authenticator), self.anonymous);
        Box::pin(async move { authenticator.authenticate(&credentials, anonymous).await })
    }

    fn connect(
        &self,
        principal: &Principal,
        vhost: &Name,
        label: &str,
    ) -> Result<(Connection, Effects), BrokerError> {
        let (connection, outbox) = self.broker.connect(principal, vhost, label)?;
        let effects = stream::unfold(outbox, |mut outbox| async move {
            outbox.recv().await.map(|effects| (effects, outbox))
        });
        Ok((connection, effects.boxed()))
    }

    fn subscribe(
        &self,
        principal: Principal,
        vhost: Name,
        what: Subscribe,
    ) -> BoxFuture<'static, Result<Subscription, BrokerError>> {
        let broker = self.broker.clone();
        Box::pin(async move { broker.subscribe(&principal, &vhost, what).await })
    }
}

impl Line for Connection {
    fn id(&self) -> ConnectionId {
        Connection::id(self)
    }

    fn submit(&self, batch: Vec<(RequestId, Request)>) -> BoxFuture<'static, Result<(), BrokerError>> {
        Box::pin(Connection::submit(self, batch))
    }

    fn written(&self, bytes: usize) {
        Connection::written(self, bytes);
    }

    fn report(&self, what: Happening) {
        Connection::report(self, what);
    }
}

impl Feed for Subscription {
    fn poll_next(&mut self, cx: &mut Context<'_>, into: &mut Vec<FeedItem>, max: usize) -> Poll<bool> {
        Subscription::poll_next(self, cx, into, max)
    }

    fn cursor(&self) -> Cursor {
        Subscription::cursor(self)
    }

    fn exact(&self) -> bool {
        self.resumed_exactly()
    }
}
