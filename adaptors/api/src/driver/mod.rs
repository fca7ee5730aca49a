//! The drivers: one connection loop for sockets and WebSockets. A driver owns a connection's socket, its session, its broker
//! connection and its subscriptions; dropping its future at any point gives the leases back.
//!
//! - Input is read by readiness into a buffer of the worker thread. Only an unfinished message stays with the connection, charged
//!   to the process's budget beyond 4 KiB; without growth for 60 s it ends the connection.
//! - One read makes one batch. While the batch waits for the broker, or a login is under way, the peer is not
//!   read; effects, subscriptions and ticks go on.
//! - Everything that one round makes is written with one call. While output waits, nothing more is taken from
//!   the broker, and when that piles up the peer is not read; one that takes nothing for 30 s is closed.
//! - A panic of a session ends its own connection only.

mod alarm;
mod answers;
mod bell;
mod connection;
mod deps;
mod end;
mod feeds;
mod limits;
mod metrics;
mod output;
mod port;
mod stream;
mod uplink;
mod websocket;
mod wire;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;

use axum::extract::ws::WebSocket;
use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite};

use self::connection::Connection;
use self::port::{BrokerPort, Port};
use self::stream::StreamWire;
use self::websocket::WebSocketWire;
use self::wire::Wire;
use crate::session::Session;

pub use self::deps::DriverDeps;
pub(crate) use self::limits::{WEBSOCKET_READ_BYTES, WEBSOCKET_WRITE_BYTES};
pub use self::metrics::DriverMetrics;

/// Drives a byte stream to its end. Run it as a task of its own; to cut the connection, drop or abort it.
pub fn drive_stream<S>(
    stream: S,
    session: Box<dyn Session>,
    deps: DriverDeps,
) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    drive_broker(StreamWire::new(stream), session, deps)
}

/// Drives a WebSocket to its end, as `drive_stream` does a socket. Sizes of messages and buffers are set where the socket is
/// upgraded; see `websocket_router`.
pub fn drive_websocket(
    socket: WebSocket,
    session: Box<dyn Session>,
    deps: DriverDeps,
) -> impl Future<Output = ()> + Send {
    let format = session.message_format();
    drive_broker(WebSocketWire::new(socket, format), session, deps)
}

/// Not an `async fn`, and the connection in a box: a future keeps room for whatever was moved through it.
fn drive_broker<W: Wire>(
    wire: W,
    session: Box<dyn Session>,
    deps: DriverDeps,
) -> impl Future<Output = ()> + Send + use<W> {
    let DriverDeps { broker, authenticator, context, stop, metrics } = deps;
    let port = BrokerPort { broker, authenticator, anonymous: context.anonymous };
    let connection = Box::new(Connection::new(session, wire, port, &context, stop, metrics.clone()));
    async move {
        let _open = metrics.open();
        drive(connection, &metrics).await;
    }
}

async fn drive<P: Port, W: Wire>(mut connection: Box<Connection<P, W>>, metrics: &DriverMetrics)
where
    P::Feed: 'static,
{
    let span = connection.span().clone();
    let end = AssertUnwindSafe(poll_fn(|cx| connection.poll(cx))).catch_unwind().await;
    drop(connection);
    span.in_scope(|| match end {
        Ok(end) => end.log(),
        Err(panic) => {
            DriverMetrics::add(&metrics.panics_total, 1);
            tracing::error!(
                panic = panic_text(&*panic),
                "connection closed: its session panicked; its messages go back to their queues; report this as a bug"
            );
        }
    });
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
