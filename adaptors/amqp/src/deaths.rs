//! Deaths of a message as headers: `x-death`, `x-first-death-*`, `x-last-death-*`.

use framegate_broker::Death;

use crate::codec::{Properties, TableWriter, Value};

/// The header belongs to the broker when a message has died.
pub(crate) fn is_header(key: &[u8]) -> bool {
    key == b"x-death" || key.starts_with(b"x-first-death-") || key.starts_with(b"x-last-death-")
}

/// Appends what is known of deaths, the newest first; nothing when there are none. `own` are the properties that the message
/// came with.
pub(crate) fn put(table: &mut TableWriter<'_>, deaths: &[Death], own: &Properties<'_>) {
    let Some(last) = deaths.first() else { return };
    // of those at the same time the one that stands last is the oldest
    let Some(first) = deaths.iter().rev().min_by_key(|death| death.time_ms) else { return };
    let cc_keys = 1 + keys_in_cc(own);
    let mut entries = table.array("x-death");
    for death in deaths {
        let mut entry = entries.item_table();
        entry.long("count", i64::try_from(death.count).unwrap_or(i64::MAX));
        entry.text("reason", death.reason.as_str().as_bytes());
        entry.text("queue", death.queue.as_bytes());
        entry.time("time", death.time_ms / 1000);
        entry.text("exchange", death.exchange.as_bytes());
        let mut keys = entry.array("routing-keys");
        // those of BCC come last, and nobody may see them
        for key in death.keys.iter().take(cc_keys) {
            keys.item_text(key.as_bytes());
        }
        keys.end();
        if let Some(ttl_ms) = death.ttl_ms {
            entry.text("original-expiration", ttl_ms.to_string().as_bytes());
        }
        entry.end();
    }
    entries.end();
    for (which, death) in [("first", first), ("last", last)] {
        table.text(&format!("x-{which}-death-reason"), death.reason.as_str().as_bytes());
        table.text(&format!("x-{which}-death-queue"), death.queue.as_bytes());
        table.text(&format!("x-{which}-death-exchange"), death.exchange.as_bytes());
    }
}

fn keys_in_cc(own: &Properties<'_>) -> usize {
    match own.headers.and_then(|headers| headers.get("CC")) {
        Some(Value::Array(keys)) => keys.iter().count(),
        _ => 0,
    }
}
