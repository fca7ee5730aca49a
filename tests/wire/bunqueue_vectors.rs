//! What was recorded at the real bunqueue server, sent to this one in the same order: every reply is the recorded one, by the
//! rules of the comparer, or the better one that is listed here with its reason.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::bunqueue::{Bunqueue, Value, decode, encode};
use harness::bunqueue_compare::{Comparer, Interval};
use harness::{Gateway, Options, wait_until};

/// One recorded exchange, or an event that the server sent unasked.
struct Entry {
    name: String,
    /// The whole packet; empty for an event.
    request: Vec<u8>,
    reply: Value,
}

/// Where this server answers something else, and why.
enum Better {
    /// Not compared at all.
    Skip(&'static str),
    /// An error, with this text.
    Error(&'static str),
    /// Success.
    Success(&'static str),
}

fn entries(text: &str) -> Vec<Entry> {
    let file: serde_json::Value = serde_json::from_str(text).expect("JSON");
    file.as_array()
        .expect("a list")
        .iter()
        .map(|entry| {
            let bytes = |field: &str| {
                let hex = entry[field].as_str().unwrap_or_default();
                (0..hex.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
                    .collect()
            };
            let reply: Vec<u8> = bytes("response_hex");
            Entry {
                name: entry["name"].as_str().expect("a name").to_owned(),
                request: if entry["push"] == true { Vec::new() } else { bytes("request_hex") },
                reply: decode(&reply[4..]).expect("a recorded value"),
            }
        })
        .collect()
}

fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as f64
}

/// One server with the connections that a recording was made on, and what is known of it.
struct Replay {
    gateway: Gateway,
    main: Bunqueue,
    comparer: Comparer,
    wrong: Vec<String>,
    compared: usize,
}

impl Replay {
    fn start(options: Options) -> Self {
        let gateway = Gateway::start_with(options);
        let main = Bunqueue::connect(&gateway.address("bunqueue"));
        Self { gateway, main, comparer: Comparer::default(), wrong: Vec::new(), compared: 0 }
    }

    fn connect(&self) -> Bunqueue {
        Bunqueue::connect(&self.gateway.address("bunqueue"))
    }

    /// Sends a recorded request and compares the reply.
    fn exchange(&mut self, client: &mut Bunqueue, entry: &Entry, better: Option<&Better>) {
        let interval = |sent_ms| Interval { sent_ms, received_ms: now_ms() };
        let sent_ms = now_ms();
        if !entry.request.is_empty() {
            let bytes = self.own_request(entry, sent_ms);
            std::io::Write::write_all(client.socket(), &bytes).expect("sent");
        }
        let own = match entry.request.is_empty() {
            true => {
                Value::Map(vec![("type".to_owned(), "event".into()), ("event".to_owned(), client.event())])
            }
            false => client.next_reply(),
        };
        self.compared += 1;
        let result = match better {
            None => self.comparer.reply(&entry.reply, &own, interval(sent_ms)),
            Some(Better::Skip(_)) => Ok(()),
            Some(Better::Error(text)) if *own.get("error") == Value::from(*text) => Ok(()),
            Some(Better::Success(_)) if *own.get("ok") == Value::Bool(true) => Ok(()),
            Some(_) => Err(format!("{own:?} is not the listed outcome")),
        };
        if let Err(why) = result {
            self.wrong.push(format!("{}: {why}", entry.name));
        }
    }

    /// The recorded bytes, unless an id in them is another here.
    fn own_request(&mut self, entry: &Entry, sent_ms: f64) -> Vec<u8> {
        let Ok(recorded) = decode(entry.request.get(4..).unwrap_or_default()) else {
            return entry.request.clone();
        };
        let own = self.comparer.request(&recorded);
        self.comparer.sending(&own, sent_ms);
        if format!("{own:?}") == format!("{recorded:?}") {
            return entry.request.clone();
        }
        let payload = encode(&own);
        let mut bytes = u32::try_from(payload.len()).expect("length fits").to_be_bytes().to_vec();
        bytes.extend_from_slice(&payload);
        bytes
    }

    fn finish(self) {
        assert!(
            self.wrong.is_empty(),
            "{} of {} differ:\n{}",
            self.wrong.len(),
            self.compared,
            self.wrong.join("\n")
        );
        assert!(self.compared > 0);
        println!("{} replies compared", self.compared);
    }
}

/// The token of the recording.
const TOKENS: &str = "[[auth.tokens]]\nname = \"one\"\ntoken = \"secret-two\"\npermissions = [{ vhost = \"*\", configure = \".*\", write = \".*\", read = \".*\" }]\n";

#[test]
fn handshake() {
    let mut open = Replay::start(Options::default());
    let mut closed = Replay::start(Options::default().config(TOKENS));
    for entry in entries(include_str!("../vectors/bunqueue/01-handshake.json")) {
        let better = match entry.name.as_str() {
            "auth_when_no_tokens_configured" => {
                Some(Better::Success("who needs no token is let in with one, so that clients do not loop"))
            }
            "authserver_missing_token" => Some(Better::Error("Invalid token")),
            _ => None,
        };
        let replay = if entry.name.starts_with("authserver_") { &mut closed } else { &mut open };
        let placeholder = replay.connect();
        let mut main = std::mem::replace(&mut replay.main, placeholder);
        replay.exchange(&mut main, &entry, better.as_ref());
        if entry.name != "oversize_frame" {
            replay.main = main;
        } else {
            assert!(main.try_next_reply().is_err(), "the connection is closed");
        }
    }
    open.finish();
    closed.finish();
}
