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
    Skip,
    /// An error, with this text.
    Error(&'static str),
    /// Success.
    Success,
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
        let command = decode(entry.request.get(4..).unwrap_or_default()).ok();
        let command = command.as_ref().map(|request| request.get("cmd")).and_then(|cmd| match cmd {
            Value::Text(cmd) => Some(cmd.as_str()),
            _ => None,
        });
        if let Some(command) = command.filter(|command| UNSERVED.contains(command)) {
            assert_eq!(own.get("error").text(), format!("Unknown command: {command}"), "{}", entry.name);
            return;
        }
        let result = match better {
            None => self.comparer.reply(&entry.reply, &own, interval(sent_ms)),
            Some(Better::Skip) => Ok(()),
            Some(Better::Error(text)) if *own.get("error") == Value::from(*text) => Ok(()),
            Some(Better::Success) if *own.get("ok") == Value::Bool(true) => Ok(()),
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
            // who needs no token is let in with one, so that clients do not loop
            "auth_when_no_tokens_configured" => Some(Better::Success),
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

/// Commands that this server does not have yet, as `docs/bunqueue.md` lists them.
const UNSERVED: [&str; 39] = [
    "AddWebhook",
    "CompactMemory",
    "Cron",
    "CronDelete",
    "CronGet",
    "CronList",
    "DashboardOverview",
    "DashboardQueue",
    "DashboardQueues",
    "GetChildrenValues",
    "GetFailedChildrenValues",
    "GetGroupActiveCount",
    "GetGroupConcurrency",
    "GetGroupJobsCount",
    "GetGroupRateLimit",
    "GetGroupRateLimitTtl",
    "GetGroupsJobsCount",
    "GetIgnoredChildrenFailures",
    "IsGroupPaused",
    "ListWebhooks",
    "Metrics",
    "MoveToWaitingChildren",
    "PUSHF",
    "PauseGroup",
    "Prometheus",
    "RateLimitGroup",
    "RemoveChildDependency",
    "RemoveGroupConcurrency",
    "RemoveGroupRateLimit",
    "RemoveUnprocessedChildren",
    "RemoveWebhook",
    "ResumeGroup",
    "SetGroupConcurrency",
    "SetGroupRateLimit",
    "SetWebhookEnabled",
    "Stats",
    "StorageStatus",
    "TrimEvents",
    "UpdateParent",
];

/// Replays a recording on one connection.
fn replay(text: &str, before: impl Fn(&str, &mut Replay), better: impl Fn(&str) -> Option<Better>) {
    let mut replay = Replay::start(Options::default());
    let mut other = None;
    for entry in entries(text) {
        before(&entry.name, &mut replay);
        if entry.name == "other_conn_pull" {
            let mut client = replay.connect();
            replay.exchange(&mut client, &entry, better(&entry.name).as_ref());
            other = Some(client);
            continue;
        }
        if entry.name == "state_after_disconnect" {
            drop(other.take());
            until_state(&mut replay, "d1", "waiting");
        }
        let placeholder = replay.connect();
        let mut main = std::mem::replace(&mut replay.main, placeholder);
        replay.exchange(&mut main, &entry, better(&entry.name).as_ref());
        replay.main = main;
    }
    replay.finish();
}

/// Waits until a job is in a state.
fn until_state(replay: &mut Replay, id: &str, state: &str) {
    let mut client = replay.connect();
    wait_until("a job's state", || {
        (client.ok("GetState", [("id", id.into())]).get("state").text() == state).then_some(())
    });
}

/// What PUSH does not take yet.
const UNSERVED_OPTIONS: [(&str, &str); 6] = [
    ("push_error_depends_missing", "dependsOn is not supported yet"),
    ("push_error_repeat_bad", "repeat is not supported yet"),
    ("push_error_repeat_bad_pattern", "repeat is not supported yet"),
    ("pushb_intra_batch_dependency", "jobs[0]: dependsOn is not supported yet"),
    ("pushb_missing_dependency", "jobs[0]: dependsOn is not supported yet"),
    // no exception of a runtime leaks
    ("pushb_no_jobs", "jobs is required"),
];

fn unserved(name: &str) -> Option<Better> {
    UNSERVED_OPTIONS.iter().find(|(own, _)| *own == name).map(|(_, text)| Better::Error(text))
}

#[test]
fn push() {
    replay(
        include_str!("../vectors/bunqueue/02-push.json"),
        |_, _| (),
        |name| match name {
            // the same connection looks for the name in the data, and finds it
            "push_legacy_pull" | "flow_parent_state" => Some(Better::Success),
            // created long ago with an hour to live: what has expired goes at once, not when somebody pulls
            "getjob_after_push_all_options" => Some(Better::Error("Job not found")),
            name => unserved(name),
        },
    );
}

#[test]
fn pull_ack_fail() {
    let before = |name: &str, replay: &mut Replay| match name {
        "ack_after_timeout" => until_state(replay, "to1", "failed"),
        "pull_expired_ttl" => until_state(replay, "ttl1", "unknown"),
        _ => {}
    };
    replay(include_str!("../vectors/bunqueue/04-pull-ack-fail.json"), before, unserved);
}

#[test]
fn queries() {
    replay(
        include_str!("../vectors/bunqueue/05-queries.json"),
        |_, _| (),
        |name| match name {
            // the recording's server had queues of other recordings
            "listqueues" | "clean_completed" => Some(Better::Skip),
            _ => None,
        },
    );
}

#[test]
fn limits() {
    replay(
        include_str!("../vectors/bunqueue/08-limits-config-groups.json"),
        |_, _| (),
        |name| match name {
            // groups are not served yet
            "group_pushb" => Some(Better::Error("jobs[0]: groupId is not supported yet")),
            "group_push_max" => Some(Better::Error("groupId is not supported yet")),
            "group_pullb" | "group_pullb_no_limits" => Some(Better::Success),
            // jobs that are being worked on when the limit is set count: one of two is handed out, and no third one can be
            "pullb_concurrency" | "get_queue_limits_conc" => Some(Better::Success),
            name => unserved(name),
        },
    );
}

#[test]
fn workers() {
    replay(include_str!("../vectors/bunqueue/07-workers.json"), |_, _| (), |_| None);
}

#[test]
fn locks_and_stalls() {
    let before = |name: &str, replay: &mut Replay| match name {
        "job_after_lock_expiry" => until_state(replay, "lk1", "waiting"),
        "dlq_stalled" => until_state(replay, "st1", "failed"),
        _ => {}
    };
    replay(include_str!("../vectors/bunqueue/11-locks-stalls.json"), before, |name| match name {
        // a job that comes back is ready from then on
        "job_after_lock_expiry" => Some(Better::Success),
        // whoever comes late has lost the job: another attempt may have begun
        "late_ack_after_requeue" => Some(Better::Error("Job not found or not in processing state: lk1")),
        "state_after_late_ack" => Some(Better::Success),
        // a lock runs out at its time, not at the next look; it may not have yet
        "heartbeat_after_expiry_before_sweep" | "ack_lockless_after_that" => Some(Better::Skip),
        // the failure is a step too, so that clients see why
        "dlq_stalled" => Some(Better::Success),
        _ => None,
    });
}
