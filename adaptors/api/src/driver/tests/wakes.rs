//! No wake-up is lost, and none is followed up for nothing: a WebSocket is read when it says so, whatever else goes on.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use axum::Error;
use axum::extract::ws::Message;
use futures_util::{Sink, Stream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::fake_broker::delivery;
use super::sockets::serve_broker;
use super::{FakeBroker, FakeSession, context};
use crate::driver::connection::Connection;
use crate::driver::drive;
use crate::driver::websocket::WebSocketWire;
use crate::{MessageFormat, UnfinishedBudget};

#[derive(Default)]
struct State {
    input: Vec<Message>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    looks: usize,
    /// Whether a flush has to wait.
    full: bool,
    /// What arrives in the middle of the next flush.
    during_flush: Option<Message>,
}

impl State {
    fn arrive(&mut self, message: Message) {
        self.input.push(message);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// A socket whose every readiness is a test's decision. It wakes whom it has been told to, once.
#[derive(Clone)]
struct Socket {
    state: Arc<Mutex<State>>,
    output: mpsc::UnboundedSender<Message>,
}

impl Stream for Socket {
    type Item = Result<Message, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.state.lock().unwrap();
        state.looks += 1;
        if state.input.is_empty() {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(state.input.remove(0))))
    }
}

impl Sink<Message> for Socket {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, item: Message) -> Result<(), Error> {
        self.output.send(item).map_err(Error::new)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = self.state.lock().unwrap();
        if let Some(message) = state.during_flush.take() {
            state.arrive(message);
        }
        if state.full {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}

struct Rig {
    socket: Socket,
    receive: mpsc::UnboundedReceiver<Message>,
    broker: FakeBroker,
    stop: watch::Sender<bool>,
    _task: JoinHandle<()>,
}

impl Rig {
    fn start() -> Self {
        let (output, receive) = mpsc::unbounded_channel();
        let socket = Socket { state: Arc::default(), output };
        let broker = FakeBroker::default();
        let (stop, stopped) = watch::channel(false);
        let wire = WebSocketWire::new(socket.clone(), MessageFormat::Text);
        let context = context(&UnfinishedBudget::default());
        let session = Box::<FakeSession>::default();
        let connection = Connection::new(session, wire, broker.clone(), &context, stopped, Arc::default());
        let task = tokio::spawn(async move { drive(Box::new(connection), &Default::default()).await });
        Self { socket, receive, broker, stop, _task: task }
    }

    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.socket.state.lock().unwrap())
    }

    fn arrive(&self, text: &str) {
        self.state(|state| state.arrive(Message::Text(text.into())));
    }

    fn empty(&self) {
        let writer = self.state(|state| {
            state.full = false;
            state.writer.take()
        });
        writer.expect("the writer waits").wake();
    }

    async fn expect(&mut self, text: &str) {
        assert_eq!(self.receive.recv().await.unwrap(), Message::Text(text.into()));
    }
}

#[tokio::test(start_paused = true)]
async fn output_does_not_look_into_the_socket() {
    let mut rig = Rig::start();
    rig.arrive("echo up\n");
    rig.expect("up\n").await;
    rig.broker.say(vec![delivery("first")]);
    rig.expect("first\n").await;
    let looks = rig.state(|state| state.looks);
    for n in 0..100 {
        rig.broker.say(vec![delivery(&n.to_string())]);
        rig.expect(&format!("{n}\n")).await;
    }
    assert_eq!(rig.state(|state| state.looks), looks);
    rig.arrive("echo heard\n");
    rig.expect("heard\n").await;
}

#[tokio::test(start_paused = true)]
async fn message_that_arrives_while_output_is_written_is_read() {
    let mut rig = Rig::start();
    rig.arrive("echo up\n");
    rig.expect("up\n").await;
    for n in 0..100 {
        let message = Message::Text(format!("echo in {n}\n").into());
        rig.state(|state| state.during_flush = Some(message));
        rig.broker.say(vec![delivery(&n.to_string())]);
        rig.expect(&format!("{n}\n")).await;
        rig.expect(&format!("in {n}\n")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn delivery_and_message_that_come_while_the_socket_is_full_both_get_through() {
    let mut rig = Rig::start();
    rig.arrive("echo up\n");
    rig.expect("up\n").await;
    for n in 0..100 {
        rig.state(|state| state.full = true);
        rig.broker.say(vec![delivery("held")]);
        rig.expect("held\n").await;
        // the message cannot be answered, the next delivery not be taken, until the peer takes what is there
        rig.broker.say(vec![delivery(&n.to_string())]);
        rig.arrive("echo in\n");
        tokio::task::yield_now().await;
        rig.empty();
        let mut texts = [rig.receive.recv().await.unwrap(), rig.receive.recv().await.unwrap()];
        texts.sort_by_key(|message| message.to_text().unwrap().to_owned());
        assert_eq!(texts, [Message::Text(format!("{n}\n").into()), Message::Text("in\n".into())]);
    }
}

#[tokio::test(start_paused = true)]
async fn stop_is_noticed_by_a_connection_that_nothing_else_wakes() {
    let mut rig = Rig::start();
    rig.arrive("echo up\n");
    rig.expect("up\n").await;
    rig.stop.send_replace(true);
    rig.expect("draining\n").await;
    let Message::Close(Some(frame)) = rig.receive.recv().await.unwrap() else { panic!("no close") };
    assert_eq!(frame.code, 1001);
}

/// Both directions at once over a real socket, on several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_delivery_and_every_answer_arrives_when_both_directions_are_busy() {
    const EACH: usize = 2000;
    let broker = FakeBroker::default();
    let url = serve_broker(broker.clone()).await;
    let client = tokio::task::spawn_blocking(move || {
        let address = url.trim_start_matches("ws://").trim_end_matches("/ws");
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let (mut socket, _) = tungstenite::client(url.as_str(), stream).unwrap();
        let (mut answers, mut deliveries) = (0, 0);
        socket.send(tungstenite::Message::text("ask\n")).unwrap();
        socket.send(tungstenite::Message::text("echo 0\n")).unwrap();
        while answers < EACH || deliveries < EACH {
            match socket.read().unwrap() {
                tungstenite::Message::Text(text) if text.starts_with("of broker ") => {
                    assert_eq!(text.trim_end(), format!("of broker {deliveries}"));
                    deliveries += 1;
                }
                tungstenite::Message::Text(text) => {
                    assert_eq!(text.trim_end(), answers.to_string());
                    answers += 1;
                    if answers < EACH {
                        socket.send(tungstenite::Message::text(format!("echo {answers}\n"))).unwrap();
                    }
                }
                _ => {}
            }
        }
    });
    broker.batch().await;
    for n in 0..EACH {
        broker.say(vec![delivery(&format!("of broker {n}"))]);
        if n % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    client.await.unwrap();
}
