//! A receiver of web hooks: a plain HTTP server over sockets that notes what it is asked and answers as a test says, also in ways in
//! which no server should.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Channel, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::wait::WAIT_MAX;

/// A request that came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// `POST`, `OPTIONS`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Whole.
    pub body: Vec<u8>,
    /// When its head was read.
    pub at: Instant,
}

impl Asked {
    /// A header's value; empty when it is not there.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The body.
    ///
    /// # Panics
    /// When it is not JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// What a receiver does with a request.
#[derive(Debug, Clone)]
pub enum Reaction {
    /// A status, more header lines (each with its line end), a body.
    Answer(u16, String, Vec<u8>),
    /// Says nothing and keeps the connection open.
    Hang,
    /// Closes without a word.
    Close,
    /// Resets the connection.
    Reset,
    /// Sends these bytes one by one, for ever, until the other side has enough.
    Drip(Vec<u8>),
    /// A head, then a body that never ends.
    Endless(u16),
    /// These bytes, whatever they are, and then the end.
    Raw(Vec<u8>),
}

impl Reaction {
    /// An empty answer.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Answer(status, String::new(), Vec::new())
    }

    /// An empty answer with one header.
    #[must_use]
    pub fn with(status: u16, header: &str) -> Self {
        Self::Answer(status, format!("{header}\r\n"), Vec::new())
    }
}

type Decide = Box<dyn FnMut(&Asked) -> Reaction + Send>;

/// A running receiver. Every `OPTIONS` is consented to, unless a test says otherwise.
pub struct Receiver {
    address: String,
    posts: Channel<Asked>,
    asked: Arc<Mutex<Vec<Asked>>>,
    decide: Arc<Mutex<Decide>>,
}

impl Receiver {
    /// Starts one that takes everything.
    ///
    /// # Panics
    /// Without a free port.
    #[must_use]
    pub fn start() -> Self {
        Self::with(|_| Reaction::status(204))
    }

    /// Starts one that answers each `POST` as `decide` says.
    ///
    /// # Panics
    /// Without a free port.
    #[must_use]
    pub fn with(mut decide: impl FnMut(&Asked) -> Reaction + Send + 'static) -> Self {
        Self::with_all(move |asked| match asked.method.as_str() {
            "OPTIONS" => {
                let rate = if asked.header("webhook-request-rate").is_empty() {
                    ""
                } else {
                    "WebHook-Allowed-Rate: *\r\n"
                };
                Reaction::Answer(200, format!("WebHook-Allowed-Origin: *\r\n{rate}"), Vec::new())
            }
            _ => decide(asked),
        })
    }

    /// Starts one that answers everything as `decide` says.
    ///
    /// # Panics
    /// Without a free port.
    #[must_use]
    pub fn with_all(decide: impl FnMut(&Asked) -> Reaction + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (found, posts) = channel();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let decide: Arc<Mutex<Decide>> = Arc::new(Mutex::new(Box::new(decide)));
        let (shown, decides) = (Arc::clone(&asked), Arc::clone(&decide));
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (found, shown, decides) = (found.clone(), Arc::clone(&shown), Arc::clone(&decides));
                std::thread::spawn(move || serve(socket, &found, &shown, &decides));
            }
        });
        Self { address, posts, asked, decide }
    }

    /// Answers each `POST` as `decide` says from now on, and consents to everything.
    ///
    /// # Panics
    /// Never.
    pub fn react(&self, mut decide: impl FnMut(&Asked) -> Reaction + Send + 'static) {
        *self.decide.lock().expect("unpoisoned") = Box::new(move |asked| match asked.method.as_str() {
            "OPTIONS" => Reaction::with(200, "WebHook-Allowed-Origin: *"),
            _ => decide(asked),
        });
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/in?k=v", self.address)
    }

    /// The next `POST`.
    ///
    /// # Panics
    /// When none comes.
    #[must_use]
    pub fn post(&self) -> Asked {
        self.posts.recv_timeout(WAIT_MAX).expect("a POST")
    }

    /// A `POST` that came already.
    #[must_use]
    pub fn try_post(&self) -> Option<Asked> {
        self.posts.try_recv().ok()
    }

    /// Every request so far.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("unpoisoned").clone()
    }
}

fn serve(socket: TcpStream, found: &Sender<Asked>, shown: &Mutex<Vec<Asked>>, decide: &Mutex<Decide>) {
    // several requests may come on one connection
    let mut reader = BufReader::new(socket.try_clone().expect("a second handle"));
    while let Some(asked) = read(&mut reader) {
        let reaction = (decide.lock().expect("unpoisoned"))(&asked);
        shown.lock().expect("unpoisoned").push(asked.clone());
        if asked.method == "POST" {
            let _ = found.send(asked);
        }
        if !react(&socket, &mut reader, reaction) {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut raw = Vec::new();
        reader.read_until(b'\n', &mut raw).ok().filter(|bytes| *bytes > 0)?;
        let line = String::from_utf8_lossy(&raw).trim_end().to_owned();
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let at = Instant::now();
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { method, path, headers, body, at })
}

/// Whether the connection goes on.
fn react(mut socket: &TcpStream, reader: &mut BufReader<TcpStream>, reaction: Reaction) -> bool {
    match reaction {
        Reaction::Answer(status, headers, body) => {
            let length =
                if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
            let head = format!("HTTP/1.1 {status} X\r\n{headers}{length}\r\n");
            socket.write_all(&[head.as_bytes(), &body].concat()).is_ok()
        }
        Reaction::Hang => {
            // until the other side has enough
            let _ = reader.read(&mut [0]);
            false
        }
        Reaction::Close => {
            let _ = socket.shutdown(std::net::Shutdown::Both);
            false
        }
        Reaction::Reset => {
            // closed with a byte unread: the other side gets a reset
            let _ = nix::sys::socket::setsockopt(
                &socket,
                nix::sys::socket::sockopt::Linger,
                &nix::libc::linger { l_onoff: 1, l_linger: 0 },
            );
            false
        }
        Reaction::Drip(bytes) => {
            socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
            for byte in bytes.iter().cycle() {
                // the pause between two bytes is the wait for the other side's end
                let ended = matches!(reader.read(&mut [0]), Ok(0));
                if ended || socket.write_all(&[*byte]).is_err() {
                    break;
                }
            }
            false
        }
        Reaction::Endless(status) => {
            let head = format!("HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n\r\n");
            let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
            let mut sent = socket.write_all(head.as_bytes());
            while sent.is_ok() {
                sent = socket.write_all(chunk.as_bytes());
            }
            false
        }
        Reaction::Raw(bytes) => {
            let _ = socket.write_all(&bytes);
            let _ = socket.shutdown(std::net::Shutdown::Both);
            false
        }
    }
}
