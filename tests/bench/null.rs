//! The ceiling: a server that only copies bytes. A `GET` becomes a subscriber, a `POST` is written to all of them, one
//! write each; nothing is stored, routed or parsed beyond lengths. Its cost is what the kernel takes for the sockets.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Half of the subscribers each, as many as the client has threads.
const WRITERS: usize = 2;
/// Events on the way to a writer.
const QUEUE: usize = 64;

enum Order {
    Join(TcpStream, Kind),
    Write(Arc<[u8]>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sse,
    WebSocket,
}

impl Kind {
    fn answer(self) -> &'static [u8] {
        match self {
            Self::Sse => b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n:\n",
            Self::WebSocket => b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        }
    }
}

type Senders = Arc<Vec<mpsc::Sender<Order>>>;

/// Serves until it is killed. Prints its port first.
pub(crate) async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let mut senders = Vec::new();
    for _ in 0..WRITERS {
        let (sender, orders) = mpsc::channel(QUEUE);
        tokio::spawn(write(orders));
        senders.push(sender);
    }
    let (senders, joined) = (Arc::new(senders), Arc::new(Mutex::new(0)));
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let (senders, joined) = (Arc::clone(&senders), Arc::clone(&joined));
        tokio::spawn(async move { request(socket, &senders, &joined).await });
    }
}

async fn request(mut socket: TcpStream, senders: &Senders, joined: &Mutex<usize>) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if socket.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
        if head.starts_with("get") {
            let websocket = head.contains("upgrade: websocket");
            let kind = if websocket { Kind::WebSocket } else { Kind::Sse };
            let turn = {
                let mut joined = joined.lock().unwrap_or_else(PoisonError::into_inner);
                *joined += 1;
                *joined
            };
            let _ = senders[turn % WRITERS].send(Order::Join(socket, kind)).await;
            return Ok(());
        }
        let length =
            head.lines().find_map(|l| l.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
        let whole = end + length.unwrap_or(0);
        while buffer.len() < whole {
            if socket.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let event: Arc<[u8]> = buffer[end..whole].into();
        buffer.drain(..whole);
        for sender in senders.iter() {
            let _ = sender.send(Order::Write(Arc::clone(&event))).await;
        }
        socket.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").await?;
    }
}

async fn write(mut orders: mpsc::Receiver<Order>) -> io::Result<()> {
    let mut subscribers: Vec<(TcpStream, Kind)> = Vec::new();
    while let Some(order) = orders.recv().await {
        let body = match order {
            Order::Join(mut socket, kind) => {
                // Answered here, not before: who has the answer misses nothing.
                socket.write_all(kind.answer()).await?;
                subscribers.push((socket, kind));
                continue;
            }
            Order::Write(body) => body,
        };
        let sse = [b"id: 1700000000:0\ndata: ", &body[..], b"\n\n"].concat();
        // a text message of at most 65,535 bytes, unmasked
        let websocket = [&[0x81, 126][..], &(body.len() as u16).to_be_bytes(), &body[..]].concat();
        for (socket, kind) in &mut subscribers {
            let bytes = if *kind == Kind::Sse { &sse } else { &websocket };
            // tokio tries the write first and waits only when the socket is full
            socket.write_all(bytes).await?;
        }
    }
    Ok(())
}
