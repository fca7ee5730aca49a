//! A MessageX client written from the protocol's description: framed JSON over TCP, blocking.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// One connection.
pub struct MessageX {
    socket: TcpStream,
    next_request: u64,
    events: VecDeque<Value>,
    responses: VecDeque<Value>,
}

/// A failure response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Error code.
    pub code: String,
    /// Error message.
    pub message: String,
}

impl MessageX {
    /// Connects.
    ///
    /// # Panics
    /// When it cannot.
    #[must_use]
    pub fn connect(address: &str) -> Self {
        let socket = TcpStream::connect(address).expect("messagex connects");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout set");
        socket.set_nodelay(true).expect("nodelay");
        Self { socket, next_request: 0, events: VecDeque::new(), responses: VecDeque::new() }
    }

    /// The socket, for tests that write raw bytes.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Sends one command and gives its request id.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn try_send(&mut self, command: &str, payload: Value) -> io::Result<String> {
        self.next_request += 1;
        let id = format!("r{}", self.next_request);
        let message =
            json!({"version": 1, "type": "COMMAND", "command": command, "requestId": id, "payload": payload});
        self.write_frame(message.to_string().as_bytes())?;
        Ok(id)
    }

    /// Writes one length-prefixed payload.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn write_frame(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut bytes = u32::try_from(payload.len()).expect("length fits").to_be_bytes().to_vec();
        bytes.extend_from_slice(payload);
        self.socket.write_all(&bytes)
    }

    /// Reads one message of any type.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn read_message(&mut self) -> io::Result<Value> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.socket.read_exact(&mut payload)?;
        serde_json::from_slice(&payload).map_err(io::Error::other)
    }

    /// Waits for the response to a request; events that come first are kept.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn try_response(&mut self, id: &str) -> io::Result<Result<Value, Failure>> {
        if let Some(at) = self.responses.iter().position(|r| r["requestId"] == id) {
            let response = self.responses.remove(at).expect("found");
            return Ok(outcome(&response));
        }
        loop {
            let message = self.read_message()?;
            if message["type"] == "EVENT" {
                self.events.push_back(message);
            } else if message["requestId"] == id {
                return Ok(outcome(&message));
            } else {
                self.responses.push_back(message);
            }
        }
    }

    /// One command and its response.
    ///
    /// # Errors
    /// The failure response.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn call(&mut self, command: &str, payload: Value) -> Result<Value, Failure> {
        let id = self.try_send(command, payload).expect("command sent");
        self.try_response(&id).expect("response")
    }

    /// One command that must succeed.
    ///
    /// # Panics
    /// When it does not.
    pub fn ok(&mut self, command: &str, payload: Value) -> Value {
        self.call(command, payload).unwrap_or_else(|failure| panic!("{command} failed: {failure:?}"))
    }

    /// One command that must fail; gives the error code.
    ///
    /// # Panics
    /// When it succeeds.
    pub fn fails(&mut self, command: &str, payload: Value) -> String {
        match self.call(command, payload) {
            Ok(payload) => panic!("{command} succeeded: {payload}"),
            Err(failure) => failure.code,
        }
    }

    /// The next event (whole message).
    ///
    /// # Panics
    /// When the connection is gone or a response comes instead.
    pub fn event(&mut self) -> Value {
        self.try_event().expect("event")
    }

    /// The next event (whole message).
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn try_event(&mut self) -> io::Result<Value> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let message = self.read_message()?;
            if message["type"] == "EVENT" {
                return Ok(message);
            }
            self.responses.push_back(message);
        }
    }

    /// The next `MESSAGE_DELIVERED` payload.
    ///
    /// # Panics
    /// When something else comes.
    pub fn delivery(&mut self) -> Value {
        let event = self.event();
        assert_eq!(event["event"], "MESSAGE_DELIVERED", "{event}");
        event["payload"].clone()
    }

    /// Declares a durable queue.
    pub fn declare(&mut self, queue: &str) {
        self.ok("QUEUE_DECLARE", json!({"name": queue, "durable": true}));
    }

    /// Publishes a persistent message to a queue and waits for the confirm.
    pub fn publish(&mut self, queue: &str, body: &Value) -> Value {
        self.ok("PUBLISH", json!({"routingKey": queue, "body": body, "persistent": true}))
    }

    /// Starts a consumer.
    pub fn consume(&mut self, queue: &str, prefetch: u32) -> String {
        let reply = self.ok("CONSUME", json!({"queueName": queue, "prefetch": prefetch}));
        reply["consumerTag"].as_str().expect("consumer tag").to_owned()
    }

    /// Acks one delivery.
    pub fn ack(&mut self, delivery: &Value) {
        self.ok("ACK", json!({"deliveryTag": delivery["deliveryTag"]}));
    }

    /// Takes one message now, acked.
    pub fn get(&mut self, queue: &str) -> Option<Value> {
        let reply = self.ok("GET", json!({"queueName": queue, "autoAck": true}));
        Some(reply["message"].clone()).filter(|m| !m.is_null())
    }
}

fn outcome(response: &Value) -> Result<Value, Failure> {
    if response["success"] == true {
        return Ok(response["payload"].clone());
    }
    let text = |key: &str| response["error"][key].as_str().unwrap_or_default().to_owned();
    Err(Failure { code: text("code"), message: text("message") })
}
