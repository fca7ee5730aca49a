//! An accepted socket: its options, and the stream that carries its place in the gate with it, through an upgrade too.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::gate::Held;

const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Sets what every accepted socket has, so that a peer that vanished is noticed within two minutes.
///
/// # Errors
/// The system's; the socket is then of no use.
pub(crate) fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(())
}

/// Where an upgraded connection keeps its permit of the listener's streams.
pub(crate) type StreamSlot = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

/// A socket with its place in the gate. Whoever owns the stream owns the place.
#[derive(Debug)]
pub(crate) struct HeldStream {
    stream: TcpStream,
    slot: StreamSlot,
    _held: Held,
}

impl HeldStream {
    /// Puts both together.
    pub(crate) fn new(stream: TcpStream, held: Held) -> Self {
        Self { stream, slot: StreamSlot::default(), _held: held }
    }

    /// The slot for a stream permit.
    pub(crate) fn slot(&self) -> StreamSlot {
        Arc::clone(&self.slot)
    }
}

impl Drop for HeldStream {
    fn drop(&mut self) {
        drop(self.slot.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl AsyncRead for HeldStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for HeldStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_accepted_socket_has_its_options() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
        let (stream, _) = listener.accept().await.expect("accepted");
        set_options(&stream).expect("set");
        assert!(stream.nodelay().expect("read"));
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().expect("read"));
        #[cfg(target_os = "linux")]
        {
            assert_eq!(socket.tcp_keepalive_time().expect("read"), KEEPALIVE_TIME);
            assert_eq!(socket.tcp_keepalive_interval().expect("read"), KEEPALIVE_INTERVAL);
            assert_eq!(socket.tcp_keepalive_retries().expect("read"), KEEPALIVE_PROBES);
            assert_eq!(socket.tcp_user_timeout().expect("read"), Some(USER_TIMEOUT));
        }
        drop(client);
    }
}
