//! A WebSocket client of the `framegate.v1.json` grammar, over tungstenite.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

/// One connection.
pub struct Ws {
    socket: WebSocket<TcpStream>,
    next_id: u64,
}

impl Ws {
    /// Connects to `/v1/ws` with a query (with its `?`, or empty) and subprotocols.
    ///
    /// # Errors
    /// What the handshake says.
    pub fn try_connect(address: &str, query: &str, protocols: &str) -> Result<Self, Box<tungstenite::Error>> {
        let stream = TcpStream::connect(address).expect("websocket connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout set");
        let mut request = format!("ws://{address}/v1/ws{query}").into_client_request().expect("request");
        if !protocols.is_empty() {
            request.headers_mut().insert("Sec-WebSocket-Protocol", protocols.parse().expect("header"));
        }
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Self { socket, next_id: 0 }),
            Err(tungstenite::HandshakeError::Failure(error)) => Err(Box::new(error)),
            Err(tungstenite::HandshakeError::Interrupted(_)) => panic!("handshake timed out"),
        }
    }

    /// Connects with the framegate grammar.
    ///
    /// # Panics
    /// When it cannot.
    #[must_use]
    pub fn connect(address: &str) -> Self {
        Self::try_connect(address, "", "framegate.v1.json").expect("websocket")
    }

    /// Sends one text message.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).expect("message sent");
    }

    /// Sends one binary message.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn send_binary(&mut self, bytes: &[u8]) {
        self.socket.send(Message::binary(bytes.to_vec())).expect("message sent");
    }

    /// Sends an op with a new id and gives the id.
    pub fn send(&mut self, mut op: Value) -> u64 {
        self.next_id += 1;
        op["id"] = json!(self.next_id);
        self.send_text(&op.to_string());
        self.next_id
    }

    /// The next JSON message, or the close code.
    ///
    /// # Panics
    /// When the connection breaks otherwise.
    pub fn receive(&mut self) -> Result<Value, u16> {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Ok(serde_json::from_str(&text).expect("JSON")),
                Ok(Message::Close(frame)) => return Err(frame.map_or(1005, |f| f.code.into())),
                Ok(_) => {}
                Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                    return Err(1006);
                }
                Err(error) => panic!("websocket: {error}"),
            }
        }
    }

    /// The next JSON message.
    ///
    /// # Panics
    /// When the connection is closed.
    pub fn message(&mut self) -> Value {
        self.receive().expect("open")
    }

    /// Sends an op and waits for its answer, which must be the next message.
    pub fn call(&mut self, op: Value) -> Value {
        let id = self.send(op);
        let answer = self.message();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Subscribes to a topic from now on.
    pub fn subscribe(&mut self, sub: &str, topic: &str) {
        let answer = self.call(json!({"op": "subscribe", "sub": sub, "topic": topic}));
        assert_eq!(answer["op"], "ok", "{answer}");
    }
}
