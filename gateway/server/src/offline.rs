//! `framegate inspect` and `framegate repair`: a data directory without a broker. Inspect changes nothing and may look at
//! the directory of a running broker; repair writes into a new directory only.

use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use framegate_broker::{Inspection, StartError, inspect as fold, lost_records};
use framegate_storage::{ShardId, ShardStore as _, StoreError};
use framegate_storage_journal::{Journal, Repaired, repair as repair_journal};
use serde_json::{Value, json};

use crate::cli::{InspectArgs, RepairArgs};
use crate::exit::{Ending, Exit};
use crate::storage::cannot_start;

/// A running broker can replace what is being read; then it is read again, so often.
const TRIES: usize = 5;

/// Prints what a data directory holds.
///
/// # Errors
/// An ending with its message.
pub(crate) fn inspect(args: &InspectArgs) -> Result<Exit, Ending> {
    let mut tries = 0;
    let found = loop {
        tries += 1;
        match look(&args.dir) {
            // it was replaced while it was read
            Err(StartError::Store(StoreError::Io { .. } | StoreError::NotFound { .. })) if tries < TRIES => {}
            outcome => break outcome.map_err(|error| not_read(&error))?,
        }
    };
    if args.json {
        say(&found.to_string());
    } else {
        text(&found).iter().for_each(|line| say(line));
    }
    Ok(Exit::Done)
}

/// Copies what is valid into a new directory and says what is lost.
///
/// # Errors
/// An ending with its message.
pub(crate) fn repair(args: &RepairArgs) -> Result<Exit, Ending> {
    let repaired = repair_journal(&args.dir, &args.new_dir, &lost_records).map_err(|error| match error {
        StoreError::InUse { path } => Ending::usage(format!(
            "data directory {} is in use by another process; stop framegate first",
            path.display()
        )),
        error => Ending::usage(error),
    })?;
    // a directory that cannot be read is no repair
    let found = look(&args.new_dir).map_err(|error| {
        Ending::storage(format!(
            "{error}; {} was written but cannot be read: keep both directories",
            args.new_dir.display()
        ))
    })?;
    if args.json {
        say(&json!({ "lost": lost(&repaired), "snapshots_lost": repaired.snapshots_lost, "found": found })
            .to_string());
        return Ok(Exit::Done);
    }
    for range in lost(&repaired) {
        say(&format!(
            "lost: {} bytes {} to {}, {} records from {}",
            range["file"].as_str().unwrap_or_default(),
            range["from"],
            range["to"],
            range["records"],
            range["first"]
        ));
    }
    for path in &repaired.snapshots_lost {
        say(&format!("lost: snapshot {}", path.display()));
    }
    if repaired.lost.is_empty() && repaired.snapshots_lost.is_empty() {
        say("nothing is lost");
    }
    let dir = args.new_dir.display();
    say(&format!("{} segments and {} snapshots are in {dir}", repaired.segments, repaired.snapshots));
    say(&format!("start with: framegate --data-dir {dir}"));
    Ok(Exit::Done)
}

fn lost(repaired: &Repaired) -> Vec<Value> {
    let range = |lost: &framegate_storage_journal::LostRange| {
        json!({
            "file": lost.file, "from": lost.from, "to": lost.to, "first": lost.first.0, "records": lost.records,
        })
    };
    repaired.lost.iter().map(range).collect()
}

fn look(dir: &Path) -> Result<Value, StartError> {
    let journal = Journal::open_read_only(dir)?;
    let found = fold(&journal)?;
    let usage = journal.usage(ShardId(0));
    Ok(json_of(dir, &journal, &found, usage.disk_bytes))
}

fn json_of(dir: &Path, journal: &Journal, found: &Inspection, disk_bytes: u64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = (found.snapshot_time_ms > 0)
        .then(|| (now.as_millis() as u64).saturating_sub(found.snapshot_time_ms) as f64 / 1000.0);
    let live = |first| found.extents.iter().find(|(extent, _)| extent.first == first).map(|(_, live)| *live);
    let segments: Vec<Value> = journal
        .segment_files()
        .into_iter()
        .map(|file| json!({ "file": file.name, "bytes": file.bytes, "live_bytes": live(file.first) }))
        .collect();
    let queues: Vec<Value> = found
        .queues
        .iter()
        .map(|q| {
            json!({
                "vhost": &*q.vhost, "name": &*q.name, "messages": q.messages, "bytes": q.bytes,
                "next": q.next, "delivered": q.delivered,
            })
        })
        .collect();
    let topics: Vec<Value> = found
        .topics
        .iter()
        .map(|t| {
            json!({
                "vhost": &*t.vhost, "name": &*t.name, "events": t.events, "bytes": t.bytes,
                "first": t.first, "next": t.next,
            })
        })
        .collect();
    json!({
        "dir": dir, "next_record": found.next.0, "disk_bytes": disk_bytes, "live_bytes": found.live_bytes,
        "snapshot": age.map(|age| json!({ "age_seconds": age, "covers_below": found.from.0 })),
        "log_bytes_behind_snapshot": found.log_bytes, "segments": segments, "queues": queues, "topics": topics,
        "exchanges": found.exchanges, "bindings": found.bindings, "remembered_publishes": found.remembered,
    })
}

fn text(found: &Value) -> Vec<String> {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let items = |name: &str| found[name].as_array().cloned().unwrap_or_default();
    let snapshot = match &found["snapshot"] {
        Value::Null => "none".to_owned(),
        some => format!("age {} s, covers records below {}", some["age_seconds"], some["covers_below"]),
    };
    let mut lines = vec![
        format!("directory  {}", word(&found["dir"])),
        format!("snapshot   {snapshot}"),
        format!(
            "log        next record {}, {} bytes behind the snapshot",
            found["next_record"], found["log_bytes_behind_snapshot"]
        ),
        format!("disk       {} bytes, {} of them live", found["disk_bytes"], found["live_bytes"]),
    ];
    for segment in items("segments") {
        let live = match &segment["live_bytes"] {
            Value::Null => "newest".to_owned(),
            live => format!("{live} live"),
        };
        lines.push(format!("segment    {} {} bytes, {live}", word(&segment["file"]), segment["bytes"]));
    }
    for queue in items("queues") {
        let (vhost, name) = (word(&queue["vhost"]), word(&queue["name"]));
        lines.push(format!(
            "queue      {vhost} {name} {} messages, {} bytes",
            queue["messages"], queue["bytes"]
        ));
    }
    for topic in items("topics") {
        let (vhost, name) = (word(&topic["vhost"]), word(&topic["name"]));
        lines.push(format!(
            "topic      {vhost} {name} {} events, {} bytes, offsets {} to {}",
            topic["events"], topic["bytes"], topic["first"], topic["next"]
        ));
    }
    lines
}

fn not_read(error: &StartError) -> Ending {
    match error {
        StartError::Store(error) => cannot_start(error),
        other => Ending::storage(other),
    }
}

/// One line; a closed output changes nothing.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
}
