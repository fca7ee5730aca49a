//! Hello and Ping.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{Call, Conversation};
use crate::codec::put_texts;
use crate::commands::Refusal;
use crate::reply::{put_data, put_ok};

/// Version of the protocol; a client that declares less looks for a job's name in its data.
const PROTOCOL_VERSION: i64 = 3;
/// What the original can do, and this too.
const CAPABILITIES: [&str; 2] = ["pipelining", "separate-job-name"];
/// Names that clients may look for.
const SERVER: &str = "bunqueue";
const VERSION: &str = "2.9.5";

impl Conversation {
    pub(super) fn hello(&mut self, call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let version = call.fields.lenient("protocolVersion");
        self.is_legacy |= version.is_some_and(|version| version < PROTOCOL_VERSION);
        put_ok(call.req_id, call.out, |map| {
            map.int("protocolVersion", PROTOCOL_VERSION);
            put_texts(map.name("capabilities"), CAPABILITIES.into_iter());
            map.text("server", SERVER);
            map.text("version", VERSION);
        });
        Ok(())
    }

    pub(super) fn ping(call: &mut Call<'_, '_>) -> Result<(), Refusal> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        put_data(call.req_id, call.out, |map| {
            map.bool("pong", true);
            map.int("time", i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        });
        Ok(())
    }
}
