//! The part of the suite for sessions of byte streams and WebSockets.

use std::time::Duration;

use super::mutation::damaged;
use super::random::Random;
use super::report::{Report, show};
use crate::registry::{ProtocolPlugin, Serve, WebSocketRequest};
use crate::session::{Session, SessionContext};
use crate::testing::{SessionScript, session_context};

/// Damaged copies of each transcript.
const DAMAGED: usize = 30;
/// Inputs of noise.
const NOISE: usize = 40;
/// Random ways to split an input.
const SPLITS: usize = 8;

/// What clients of one listener may send, each from the start of a connection. What the session answers to them must not
/// depend on time or chance.
#[derive(Debug, Clone)]
pub struct Transcripts {
    /// Name of the listener.
    pub listener: &'static str,
    /// Input of one connection each; for WebSockets one message.
    pub inputs: Vec<Vec<u8>>,
}

/// What a connection came to, for comparison.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    output: Vec<u8>,
    requests: String,
    ended: Option<String>,
}

impl Outcome {
    /// The first difference.
    fn against(&self, other: &Self) -> String {
        let same = self.output.iter().zip(&other.output).take_while(|(a, b)| a == b).count();
        if self.output != other.output {
            let tail = |output: &[u8]| show(output.get(same.saturating_sub(20)..).unwrap_or_default());
            return format!("{} where at once gives {}", tail(&self.output), tail(&other.output));
        }
        if self.requests != other.requests {
            return format!("requests {} where at once gives {}", self.requests, other.requests);
        }
        format!("the end {:?} where at once gives {:?}", self.ended, other.ended)
    }
}

/// Checks every mount of every protocol given (`protocols()`) that has sessions.
#[must_use]
pub fn check_sessions(protocols: &[&ProtocolPlugin], transcripts: &[Transcripts]) -> Report {
    let mut report = Report::default();
    let mounts = protocols.iter().flat_map(|plugin| plugin.mounts);
    for mount in mounts.clone() {
        let context = match session_context(mount.name, serde_json::Value::Null) {
            Ok(context) => context,
            Err(error) => {
                report.check(false, || error.to_string());
                return report;
            }
        };
        let given = transcripts.iter().filter(|t| t.listener == mount.name).flat_map(|t| &t.inputs);
        let inputs = inputs(given.cloned().collect());
        match mount.serve {
            Serve::Stream(open) => {
                let suite = Suite { listener: mount.name, open: &|| Some(open(&context)) };
                suite.stream(&mut report, &inputs);
                suite.life(&mut report);
            }
            Serve::WebSocket { subprotocols, open, .. } => {
                let subprotocol = subprotocols.first().copied();
                let request = WebSocketRequest { subprotocol, ..WebSocketRequest::default() };
                let open = |context: &SessionContext| open(context, &request).ok();
                let suite = Suite { listener: mount.name, open: &|| open(&context) };
                suite.messages(&mut report, &inputs);
                suite.life(&mut report);
            }
            Serve::Http(_) => {}
        }
    }
    for given in transcripts {
        let known = mounts.clone().any(|mount| mount.name == given.listener);
        report.check(known, || format!("transcripts for '{}', which is not registered", given.listener));
    }
    report
}

/// Samples, damaged samples, noise.
fn inputs(samples: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut random = Random::new(4);
    let mut inputs =
        vec![Vec::new(), vec![0; 64], vec![0xff; 64], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()];
    for sample in &samples {
        inputs.extend((0..DAMAGED).map(|_| damaged(sample, &mut random)));
    }
    inputs.extend((0..NOISE).map(|round| random.bytes(round * 8)));
    inputs.extend(samples);
    inputs
}

struct Suite<'a> {
    listener: &'a str,
    open: &'a dyn Fn() -> Option<Box<dyn Session>>,
}

impl Suite<'_> {
    /// A session that is open, or nothing when it may not be opened.
    fn script(&self) -> Option<SessionScript> {
        let mut script = SessionScript::new((self.open)()?);
        script.open();
        Some(script)
    }

    fn run(
        &self,
        report: &mut Report,
        what: &dyn Fn() -> String,
        feed: &dyn Fn(&mut SessionScript),
    ) -> Option<Outcome> {
        let outcome = report.total(
            || {
                let mut script = self.script()?;
                feed(&mut script);
                Some((script.asked_before_login, outcome(script)))
            },
            what,
        );
        let (early, outcome) = outcome.flatten()?;
        report.check(!early, || format!("{}: the broker was asked before a login", what()));
        Some(outcome)
    }

    fn stream(&self, report: &mut Report, inputs: &[Vec<u8>]) {
        let mut random = Random::new(5);
        for input in inputs {
            let what = || format!("{}: input {}", self.listener, show(input));
            let Some(whole) = self.run(report, &what, &|script| script.feed(input)) else { continue };
            let compare = |report: &mut Report, how: &str, feed: &dyn Fn(&mut SessionScript)| {
                let split = self.run(report, &|| format!("{} {how}", what()), feed);
                report.check(split.as_ref() == Some(&whole), || {
                    let differs = split.map_or_else(|| "nothing".to_owned(), |split| split.against(&whole));
                    format!("{} {how} gives {differs}", what())
                });
            };
            compare(report, "byte by byte", &|script| script.feed_in_pieces(input, 1));
            compare(report, "with every rest offered again", &|script| {
                for byte in input {
                    script.feed_eagerly(&[*byte]);
                }
            });
            for _ in 0..SPLITS {
                let cuts: Vec<usize> = (0..input.len()).map(|_| 1 + random.below(input.len())).collect();
                compare(report, "split at random", &|script| {
                    let mut rest = input.as_slice();
                    for cut in &cuts {
                        let (piece, behind) = rest.split_at((*cut).min(rest.len()));
                        script.feed(piece);
                        rest = behind;
                    }
                });
            }
        }
    }

    fn messages(&self, report: &mut Report, inputs: &[Vec<u8>]) {
        for input in inputs {
            // Text messages are UTF-8 before a session sees them.
            let text = String::from_utf8_lossy(input).into_owned();
            let what = || format!("{}: message {}", self.listener, show(text.as_bytes()));
            self.run(report, &what, &|script| {
                for _ in 0..3 {
                    script.message(text.as_bytes());
                }
            });
        }
    }

    /// Ticks and drain, with and without a login.
    fn life(&self, report: &mut Report) {
        let hours = |script: &mut SessionScript| {
            let mut now = Duration::ZERO;
            for _ in 0..1000 {
                let Some(wait) = script.tick(now).filter(|_| !script.has_ended()) else { return };
                now = now.saturating_add(wait.clamp(Duration::from_millis(10), Duration::from_secs(60)));
            }
        };
        let name = self.listener;
        self.run(report, &|| format!("{name}: ticks of a silent connection"), &hours);
        self.run(report, &|| format!("{name}: drain, ticks"), &|script| {
            script.drain();
            hours(script);
        });
        let ends = self.run(report, &|| format!("{name}: drain"), &|script| {
            script.drain();
            hours(script);
        });
        report.check(ends.is_none_or(|outcome| outcome.ended.is_some()), || {
            format!("{name}: a silent connection that was drained does not close")
        });
    }
}

fn outcome(script: SessionScript) -> Outcome {
    let ended = match (&script.closed, &script.failed) {
        (_, Some(error)) => Some(format!("failed: {error}")),
        (Some(close), None) => Some(format!("closed: {} {}", close.code, close.reason)),
        (None, None) => None,
    };
    Outcome { output: script.output, requests: format!("{:?}", script.requests), ended }
}
