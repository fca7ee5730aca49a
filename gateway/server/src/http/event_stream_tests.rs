//! Event streams over pipes: what is written, in how many writes, and that nothing is lost when the peer is slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::BoxError;
use hyper::body::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;

/// Data from a channel; its end is the body's.
struct Queue(mpsc::UnboundedReceiver<Result<Bytes, BoxError>>);

impl axum::body::HttpBody for Queue {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(context).map(|item| item.map(|data| data.map(Frame::data)))
    }
}

/// Counts the writes that were taken.
struct Counted(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write(context, bytes);
        self.1.fetch_add(usize::from(written.is_ready()), Ordering::Relaxed);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

struct Rig {
    client: DuplexStream,
    data: Option<mpsc::UnboundedSender<Result<Bytes, BoxError>>>,
    writes: Arc<AtomicUsize>,
    task: JoinHandle<io::Result<()>>,
}

/// A stream over a pipe that holds `pipe` bytes.
fn start(pipe: usize) -> Rig {
    let (client, server) = duplex(pipe);
    let (data, queue) = mpsc::unbounded_channel();
    let mut response = Response::new(Body::new(Queue(queue)));
    let fields = [("content-type", "text/event-stream"), ("connection", "keep-alive"), ("x-a", "1")];
    for (name, value) in fields {
        response.headers_mut().insert(name, value.parse().expect("a value"));
    }
    let writes = Arc::<AtomicUsize>::default();
    let stream = EventStream::new(Counted(server, Arc::clone(&writes)), response);
    Rig { client, data: Some(data), writes, task: tokio::spawn(stream.run()) }
}

impl Rig {
    fn send(&self, text: &str) {
        let data = self.data.as_ref().expect("not ended");
        data.send(Ok(Bytes::copy_from_slice(text.as_bytes()))).expect("taken");
    }

    async fn read_until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            assert_ne!(self.client.read_buf(&mut read).await.expect("read"), 0, "ended early");
        }
        String::from_utf8(read).expect("text")
    }
}

/// The data of chunks; None: the last one is missing.
fn unchunked(mut text: &str) -> Option<String> {
    let mut data = String::new();
    loop {
        let (size, rest) = text.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).expect("a size");
        let (piece, rest) = rest.split_at(size);
        data.push_str(piece);
        text = rest.strip_prefix("\r\n").expect("the end of a chunk");
        if size == 0 {
            assert_eq!(text, "");
            return Some(data);
        }
    }
}

#[tokio::test]
async fn head_chunks_and_end_are_written() {
    let mut rig = start(1 << 16);
    let head = rig.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-a: 1\r\ndate: "));
    assert!(head.ends_with(" GMT\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"), "{head}");
    rig.send("data: 1\n\n");
    assert_eq!(rig.read_until("\r\n").await, "9\r\ndata: 1\n\n\r\n");
    rig.send("");
    rig.send("data: twenty bytes.\n\n");
    rig.data = None;
    let mut rest = String::new();
    rig.client.read_to_string(&mut rest).await.expect("read");
    assert_eq!(rest, "15\r\ndata: twenty bytes.\n\n\r\n0\r\n\r\n");
    rig.task.await.expect("joined").expect("ended well");
}

#[tokio::test]
async fn what_is_there_is_one_write() {
    let mut rig = start(1 << 16);
    rig.read_until("\r\n\r\n").await;
    let before = rig.writes.load(Ordering::Relaxed);
    for n in 0..50 {
        rig.send(&format!("data: {n}\n\n"));
    }
    rig.data = None;
    let mut rest = String::new();
    rig.client.read_to_string(&mut rest).await.expect("read");
    assert_eq!(unchunked(&rest).expect("complete").matches("data: ").count(), 50);
    assert_eq!(rig.writes.load(Ordering::Relaxed) - before, 1);
}

#[tokio::test]
async fn a_slow_peer_gets_everything_in_order_whatever_comes_meanwhile() {
    for pipe in [1, 7, 1000] {
        let mut rig = start(pipe);
        rig.read_until("\r\n\r\n").await;
        let mut expected = String::new();
        let mut rest = Vec::new();
        for n in 0..300 {
            // small ones between large ones, and data that comes while the socket is full
            let filling = if n % 100 == 50 { COPIED_BYTES_MAX + n } else { n % 7 };
            let event = format!("data: {n} {}\n\n", "x".repeat(filling));
            rig.send(&event);
            expected.push_str(&event);
            if n % 3 == 0 {
                assert_ne!(rig.client.read_buf(&mut rest).await.expect("read"), 0);
            }
        }
        rig.data = None;
        rig.client.read_to_end(&mut rest).await.expect("read");
        assert!(unchunked(&String::from_utf8(rest).expect("text")) == Some(expected), "pipe of {pipe}");
        rig.task.await.expect("joined").expect("ended well");
    }
}

#[tokio::test]
async fn the_end_of_the_peer_is_noticed_in_silence_and_its_words_are_ignored() {
    let mut rig = start(1 << 16);
    rig.read_until("\r\n\r\n").await;
    rig.client.write_all(&[b'x'; 5000]).await.expect("written");
    rig.send("data: 1\n\n");
    rig.read_until("1\n\n\r\n").await;
    rig.client.shutdown().await.expect("shut");
    rig.task.await.expect("joined").expect("ended well");
    assert!(rig.data.expect("not ended").is_closed(), "the body is dropped");
}

#[tokio::test]
async fn a_body_that_fails_leaves_out_the_last_chunk() {
    let mut rig = start(1 << 16);
    rig.read_until("\r\n\r\n").await;
    rig.send("data: 1\n\n");
    rig.data.take().expect("not ended").send(Err("broken".into())).expect("taken");
    let mut rest = String::new();
    rig.client.read_to_string(&mut rest).await.expect("read");
    assert_eq!(unchunked(&rest), None);
    assert_eq!(rig.task.await.expect("joined").expect_err("failed").to_string(), "broken");
}
