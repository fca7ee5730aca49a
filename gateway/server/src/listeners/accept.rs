//! Accept loops: a permit first, then a connection, then a task for it. They end when the server stops.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use super::gate::Gate;
use super::socket::{HeldStream, set_options};
use super::stats::ListenerStats;
use crate::shutdown::{told, unless_told};

/// First pause after a failure that concerns the process (no file descriptor left).
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What an accept loop needs, whatever it accepts for.
#[derive(Clone)]
pub(crate) struct Accepting {
    /// Permits, and the count of connections.
    pub(crate) gate: Gate,
    /// Counters of the listener.
    pub(crate) stats: Arc<ListenerStats>,
    /// Turns true when the server stops: nothing is accepted any more.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Turns true when the grace period is over: connections are dropped.
    pub(crate) cut: watch::Receiver<bool>,
}

/// Accepts until the server stops, and hands each connection to `serve` in a task of its own.
pub(crate) async fn accept<F, C>(socket: TcpListener, accepting: Accepting, serve: F)
where
    F: Fn(HeldStream, SocketAddr) -> C,
    C: Future<Output = ()> + Send + 'static,
{
    let mut stopping = accepting.stopping.clone();
    let mut pause = PAUSE_MIN;
    let mut full = false;
    loop {
        if accepting.gate.is_full() != full {
            full = !full;
            if full {
                let open = accepting.gate.connections();
                tracing::warn!("{open} connections are open (limits.connections_max); new ones wait");
            }
        }
        let next = async {
            let permit = accepting.gate.permit().await;
            (permit, socket.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = told(&mut stopping) => return,
            next = next => next,
        };
        let Some(permit) = permit else { return };
        match accepted {
            Ok((stream, peer)) => {
                pause = PAUSE_MIN;
                let held = accepting.gate.hold(permit, &accepting.stats);
                if let Err(error) = set_options(&stream) {
                    tracing::debug!("{}: {peer} is gone already: {error}", accepting.stats.name());
                    continue;
                }
                let connection = Box::pin(serve(HeldStream::new(stream, held), peer));
                let mut cut = accepting.cut.clone();
                tokio::spawn(async move { unless_told(&mut cut, connection).await });
            }
            Err(error) if concerns_one_connection(&error) => {
                tracing::debug!(
                    "{}: a connection failed before it was accepted: {error}",
                    accepting.stats.name()
                );
            }
            Err(error) => {
                accepting.stats.accept_error();
                tracing::warn!(
                    "{}: cannot accept: {error}; next try in {} ms",
                    accepting.stats.name(),
                    pause.as_millis()
                );
                tokio::select! {
                    () = told(&mut stopping) => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn connections_beyond_the_permits_wait_and_a_stop_ends_the_loop() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let addr = socket.local_addr().expect("an address");
        let (stop, stopping) = watch::channel(false);
        let (_cut_sender, cut) = watch::channel(false);
        let gate = Gate::new(1, 1);
        let stats = Arc::new(ListenerStats::new("toy"));
        let accepting = Accepting { gate: gate.clone(), stats: Arc::clone(&stats), stopping, cut };
        let running = tokio::spawn(accept(socket, accepting, |mut stream, _| async move {
            let mut byte = [0_u8; 1];
            if stream.read_exact(&mut byte).await.is_ok() {
                let _ = stream.write_all(&byte).await;
            }
        }));
        let mut first = TcpStream::connect(addr).await.expect("connected");
        let mut second = TcpStream::connect(addr).await.expect("connected");
        second.write_all(b"2").await.expect("written");
        first.write_all(b"1").await.expect("written");
        let mut answer = [0_u8; 1];
        first.read_exact(&mut answer).await.expect("answered");
        second.read_exact(&mut answer).await.expect("answered once the first is gone");
        assert_eq!(&answer, b"2");
        assert_eq!(stats.snapshot()[0].2, 2);
        stop.send_replace(true);
        running.await.expect("ended");
        gate.empty().await;
    }

    #[tokio::test]
    async fn a_cut_drops_connections_that_do_not_end() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let addr = socket.local_addr().expect("an address");
        let (_stop, stopping) = watch::channel(false);
        let (cut_all, cut) = watch::channel(false);
        let gate = Gate::new(4, 1);
        let accepting =
            Accepting { gate: gate.clone(), stats: Arc::new(ListenerStats::new("toy")), stopping, cut };
        let running = tokio::spawn(accept(socket, accepting, |mut stream, _| async move {
            let _ = stream.write_all(b"x").await;
            std::future::pending::<()>().await;
        }));
        let mut client = TcpStream::connect(addr).await.expect("connected");
        client.read_exact(&mut [0_u8; 1]).await.expect("served");
        assert_eq!(gate.connections(), 1);
        cut_all.send_replace(true);
        gate.empty().await;
        running.abort();
    }
}
