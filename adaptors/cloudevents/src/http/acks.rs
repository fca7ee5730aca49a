//! `POST /v1/acks`: settles what long polls have given, from any connection.
//!
//! ```text
//! {"acks": ["<id>", ...], "nacks": ["<id>", {"id": "<id>", "delay": ms, "requeue": true}, ...], "extends": [{"id": .., "by": ms}]}
//! ```

use framegate_adaptor_api::Client;
use framegate_broker::{BrokerError, Outcome, Token};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use super::poll::settle;
use super::problem::Problem;
use crate::limits::{ACK_WAIT, DELAY_MAX, POLL_EVENTS_MAX};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct Body {
    acks: Vec<String>,
    nacks: Vec<Nack>,
    extends: Vec<Extend>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Nack {
    Id(String),
    Full {
        id: String,
        #[serde(default)]
        delay: u64,
        #[serde(default = "yes")]
        requeue: bool,
    },
}

#[derive(Debug, Deserialize)]
struct Extend {
    id: String,
    by: Option<u64>,
}

fn yes() -> bool {
    true
}

/// What one id asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    id: String,
    outcome: Outcome,
}

fn bad(detail: String) -> Problem {
    Problem::new(400, "bad_request", detail)
}

fn read(body: &[u8]) -> Result<Vec<Asked>, Problem> {
    let body: Body = serde_json::from_slice(body).map_err(|error| bad(format!("acks: {error}")))?;
    let ms = |name: &str, ms: u64| match u128::from(ms) <= DELAY_MAX.as_millis() {
        true => Ok(ms),
        false => Err(bad(format!("{name} {ms} is more than a day"))),
    };
    let mut asked: Vec<Asked> = body.acks.into_iter().map(|id| Asked { id, outcome: Outcome::Ack }).collect();
    for nack in body.nacks {
        asked.push(match nack {
            Nack::Id(id) => Asked { id, outcome: Outcome::Requeue { delay_ms: 0 } },
            Nack::Full { id, requeue: false, .. } => Asked { id, outcome: Outcome::Reject },
            Nack::Full { id, delay, .. } => {
                Asked { id, outcome: Outcome::Requeue { delay_ms: ms("delay", delay)? } }
            }
        });
    }
    for Extend { id, by } in body.extends {
        let by = by.unwrap_or(ACK_WAIT.as_millis() as u64).max(1);
        asked.push(Asked { id, outcome: Outcome::Extend { lease_ms: ms("by", by)? } });
    }
    if asked.is_empty() || asked.len() > POLL_EVENTS_MAX as usize {
        return Err(bad(format!("{} ids: there must be 1 to {POLL_EVENTS_MAX}", asked.len())));
    }
    Ok(asked)
}

fn token(id: &str) -> Option<Token> {
    (id.len() == 32).then(|| u128::from_str_radix(id, 16).ok().map(Token)).flatten()
}

/// Settles all that the body names, and says which of them are unknown.
///
/// # Errors
/// 400 for a body of another shape, 404 when none of the ids is known, else what the broker answers.
pub(crate) async fn settle_all(client: &Client, body: &[u8]) -> Result<Value, Problem> {
    let asked = read(body)?;
    let answers = join_all(asked.iter().map(async |one| match token(&one.id) {
        Some(token) => settle(client, token, one.outcome).await,
        None => Err(BrokerError::UnknownDelivery),
    }));
    let (mut settled, mut unknown) = (0, Vec::new());
    for (one, answer) in asked.iter().zip(answers.await) {
        match answer {
            Ok(()) => settled += 1,
            Err(BrokerError::UnknownDelivery) => unknown.push(one.id.as_str()),
            Err(error) => return Err(error.into()),
        }
    }
    if settled == 0 {
        let shown: String = unknown.first().copied().unwrap_or_default().chars().take(40).collect();
        let detail = format!("{} ids, {shown:?} first, are no outstanding deliveries", unknown.len());
        return Err(Problem::new(404, "unknown_delivery", detail));
    }
    Ok(json!({"settled": settled, "unknown": unknown}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stand_alone_or_with_what_is_to_be_done() {
        let asked = read(br#"{"acks":["a"],"nacks":["b",{"id":"c","delay":5},{"id":"d","requeue":false}],"extends":[{"id":"e","by":9}]}"#);
        let outcomes: Vec<Outcome> = asked.unwrap().into_iter().map(|asked| asked.outcome).collect();
        let expected = [
            Outcome::Ack,
            Outcome::Requeue { delay_ms: 0 },
            Outcome::Requeue { delay_ms: 5 },
            Outcome::Reject,
            Outcome::Extend { lease_ms: 9 },
        ];
        assert_eq!(outcomes, expected);
        for wrong in [
            &b"{}"[..],
            b"[]x",
            br#"{"acks":[1]}"#,
            br#"{"ack":["a"]}"#,
            br#"{"nacks":[{"id":"a","delay":86400001}]}"#,
        ] {
            assert_eq!(read(wrong).unwrap_err().status, 400, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn id_is_32_hexadecimal_digits() {
        assert_eq!(token(&format!("{:032x}", 7)), Some(Token(7)));
        assert_eq!((token("7"), token(&"z".repeat(32))), (None, None));
    }
}
