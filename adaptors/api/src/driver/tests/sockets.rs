//! WebSockets: over a fake socket with paused time, and over a real one with a real client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Error;
use axum::extract::ws::Message;
use axum::extract::ws::WebSocketUpgrade;
use bytes::Bytes;
use framegate_broker::RequestId;
use futures_util::{Sink, Stream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

use super::fake_broker::delivery;
use super::{FakeBroker, FakeSession, context};
use crate::driver::connection::Connection;
use crate::driver::drive;
use crate::driver::websocket::WebSocketWire;
use crate::{MessageFormat, UnfinishedBudget};

/// The server's end of a pair of channels.
struct FakeSocket {
    input: mpsc::UnboundedReceiver<Message>,
    output: mpsc::UnboundedSender<Message>,
}

impl Stream for FakeSocket {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.input.poll_recv(cx).map(|message| message.map(Ok))
    }
}

impl Sink<Message> for FakeSocket {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, item: Message) -> Result<(), Error> {
        self.output.send(item).map_err(Error::new)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}

struct Pair {
    send: mpsc::UnboundedSender<Message>,
    receive: mpsc::UnboundedReceiver<Message>,
    broker: FakeBroker,
    task: JoinHandle<()>,
    _stop: watch::Sender<bool>,
}

fn pair(format: MessageFormat) -> Pair {
    let (send, input) = mpsc::unbounded_channel();
    let (output, receive) = mpsc::unbounded_channel();
    let broker = FakeBroker::default();
    let (stop, stopped) = watch::channel(false);
    let wire = WebSocketWire::new(FakeSocket { input, output }, format);
    let context = context(&UnfinishedBudget::default());
    let session = Box::<FakeSession>::default();
    let connection = Connection::new(session, wire, broker.clone(), &context, stopped, Arc::default());
    let task = tokio::spawn(async move { drive(Box::new(connection), &Default::default()).await });
    Pair { send, receive, broker, task, _stop: stop }
}

impl Pair {
    fn text(&self, text: &str) {
        self.send.send(Message::Text(text.into())).unwrap();
    }

    async fn next(&mut self) -> Message {
        self.receive.recv().await.unwrap()
    }

    async fn expect_text(&mut self, text: &str) {
        assert_eq!(self.next().await, Message::Text(text.into()));
    }

    async fn expect_close(mut self, code: u16) {
        let Message::Close(Some(frame)) = self.next().await else { panic!("no close") };
        assert_eq!(frame.code, code);
        drop(self.send);
        self.task.await.unwrap();
        assert_eq!(self.broker.lines_open(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn each_packet_is_a_message() {
    let mut pair = pair(MessageFormat::Text);
    pair.text("echo a\necho b\n");
    pair.expect_text("a\n").await;
    pair.expect_text("b\n").await;
    pair.broker.say(vec![delivery(&"x".repeat(5000)), delivery("y")]);
    pair.expect_text(&format!("{}\n", "x".repeat(5000))).await;
    pair.expect_text("y\n").await;
    pair.text("quit\n");
    pair.expect_text("bye\n").await;
    pair.expect_close(1000).await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_there_make_one_batch() {
    let pair = pair(MessageFormat::Text);
    pair.text("ask\n");
    pair.text("ask\n");
    assert_eq!(pair.broker.batch().await, [1, 2]);
    assert_eq!(RequestId(2).0, 2);
}

#[tokio::test(start_paused = true)]
async fn message_before_the_end_is_handed_over() {
    let mut pair = pair(MessageFormat::Text);
    pair.text("echo up\n");
    pair.expect_text("up\n").await;
    pair.text("ask\n");
    drop(pair.send);
    pair.task.await.unwrap();
    assert_eq!(pair.broker.batch().await, [1]);
    assert_eq!(pair.broker.lines_open(), 0);
}

#[tokio::test(start_paused = true)]
async fn message_of_the_wrong_kind_closes_with_1003() {
    let text = pair(MessageFormat::Text);
    text.send.send(Message::Binary(Bytes::from_static(b"echo a\n"))).unwrap();
    text.expect_close(1003).await;
    let mut binary = pair(MessageFormat::Binary);
    binary.send.send(Message::Binary(Bytes::from_static(b"echo a\n"))).unwrap();
    assert_eq!(binary.next().await, Message::Binary(Bytes::from_static(b"a\n")));
    binary.text("echo a\n");
    binary.expect_close(1003).await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_misses_two_pongs_is_closed() {
    let started = Instant::now();
    let mut pair = pair(MessageFormat::Text);
    assert_eq!(pair.next().await, Message::Ping(Bytes::new()));
    assert_eq!(started.elapsed().as_secs(), 20);
    pair.send.send(Message::Pong(Bytes::new())).unwrap();
    for _ in 0..2 {
        assert_eq!(pair.next().await, Message::Ping(Bytes::new()));
    }
    pair.expect_close(4408).await;
    assert_eq!(started.elapsed().as_secs(), 80);
}

#[tokio::test(start_paused = true)]
async fn pongs_are_not_missed_while_the_peer_is_not_read() {
    let mut pair = pair(MessageFormat::Text);
    pair.text("echo up\n");
    pair.expect_text("up\n").await;
    pair.broker.blocked.send_replace(true);
    pair.text("ask\n");
    for _ in 0..6 {
        assert_eq!(pair.next().await, Message::Ping(Bytes::new()));
        pair.send.send(Message::Pong(Bytes::new())).unwrap();
    }
    pair.broker.blocked.send_replace(false);
    pair.text("echo on\n");
    pair.expect_text("on\n").await;
}

#[tokio::test(start_paused = true)]
async fn session_error_becomes_a_close_frame() {
    let mut pair = pair(MessageFormat::Text);
    pair.text(&format!("{}\n", "ö".repeat(200)));
    pair.expect_text("what?\n").await;
    let Message::Close(Some(frame)) = pair.next().await else { panic!("no close") };
    assert_eq!(frame.code, 1002);
    assert!(frame.reason.len() <= 123, "{}", frame.reason.len());
}

/// A server on a real socket whose messages may have 1000 bytes.
async fn serve() -> String {
    serve_broker(FakeBroker::default()).await
}

/// The same before a broker that the test keeps.
pub(super) async fn serve_broker(broker: FakeBroker) -> String {
    let handler = |upgrade: WebSocketUpgrade| async move {
        let upgrade = upgrade.max_message_size(1000).max_frame_size(1000);
        upgrade.on_upgrade(|socket| async move {
            let wire = WebSocketWire::new(socket, MessageFormat::Text);
            let (_stop, stopped) = watch::channel(false);
            let context = context(&UnfinishedBudget::default());
            let session = Box::<FakeSession>::default();
            let connection = Connection::new(session, wire, broker, &context, stopped, Arc::default());
            drive(Box::new(connection), &Default::default()).await;
        })
    };
    let router = axum::Router::new().route("/ws", axum::routing::any(handler));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Sends one message to a real server and gives what comes back, up to the close.
async fn talk(message: tungstenite::Message) -> (Vec<String>, u16) {
    let url = serve().await;
    let client = move || {
        let address = url.trim_start_matches("ws://").trim_end_matches("/ws");
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (mut socket, _) = tungstenite::client(url.as_str(), stream).unwrap();
        socket.send(message).unwrap();
        let mut texts = Vec::new();
        loop {
            match socket.read().unwrap() {
                tungstenite::Message::Text(text) => texts.push(text.to_string()),
                tungstenite::Message::Close(frame) => return (texts, frame.unwrap().code.into()),
                _ => {}
            }
        }
    };
    tokio::task::spawn_blocking(client).await.unwrap()
}

#[tokio::test]
async fn real_client_is_served_and_closed() {
    let (texts, code) = talk(tungstenite::Message::text("echo a\nquit\n")).await;
    assert_eq!((texts, code), (vec!["a\n".to_owned(), "bye\n".to_owned()], 1000));
}

#[tokio::test]
async fn message_too_big_closes_with_1009() {
    let (texts, code) = talk(tungstenite::Message::text("x".repeat(1001))).await;
    assert_eq!((texts, code), (Vec::new(), 1009));
}
