//! Drives the core and the model by the same random commands. `MODEL_COMMANDS` sets how many, `MODEL_SEED` the first seed.
//!
//! On a mismatch the sequence is shortened while it still fails, and the seed, the last commands and the difference are
//! printed.

mod commands;
mod compare;
mod counters;
mod crashes;
mod determinism;
mod groups;
mod life;
mod looks;
mod requests;
mod snapshots;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use commands::{Command, Random};
pub(in crate::fold::model) use compare::text;
use life::{Life, Room};

/// Commands of one seed.
const LIFE: usize = 2500;
/// Commands by default.
const COMMANDS: usize = 100_000;
/// Commands that are printed.
const SHOWN: usize = 30;
/// Attempts to shorten a sequence that fails.
const ATTEMPTS: usize = 100;

/// Enough for everything, a cache that holds little, a window that holds little.
const ROOMS: [Room; 4] = [
    Room { cache_bytes: 1 << 30, window_bytes: 1 << 40 },
    Room { cache_bytes: 1 << 30, window_bytes: 1 << 40 },
    Room { cache_bytes: 3000, window_bytes: 1 << 40 },
    Room { cache_bytes: 1 << 30, window_bytes: 1500 },
];

type Counts = BTreeMap<&'static str, u64>;

/// Runs commands to their end, or to the first that fails.
fn run(room: Room, commands: &[Command]) -> Result<Counts, (usize, String)> {
    let mut life = Life::new(room).map_err(|why| (0, why))?;
    for (at, command) in commands.iter().enumerate() {
        let step = life.step(command);
        step.map_err(|why| (at, format!("{why}\nthe model has\n{}", life.model.picture())))?;
    }
    Ok(life.model.counts)
}

/// Leaves out what is not needed to fail.
fn shorten(room: Room, commands: Vec<Command>) -> (Vec<Command>, String) {
    let mut shortest = commands;
    let mut why = String::new();
    let mut piece = shortest.len().div_ceil(2);
    let mut attempts = 0;
    loop {
        let mut at = 0;
        while at < shortest.len() && attempts < ATTEMPTS {
            attempts += 1;
            let mut shorter = shortest.clone();
            shorter.drain(at..(at + piece).min(shortest.len()));
            match run(room, &shorter) {
                Err((last, reason)) => {
                    shorter.truncate(last + 1);
                    (shortest, why) = (shorter, reason);
                }
                Ok(_) => at += piece,
            }
        }
        if piece == 1 || attempts >= ATTEMPTS {
            return (shortest, why);
        }
        piece = piece.div_ceil(2);
    }
}

fn life_of(seed: u64, count: usize) -> Result<Counts, String> {
    let mut random = Random::new(seed);
    let room = ROOMS[(random.next() % ROOMS.len() as u64) as usize];
    let commands: Vec<Command> = (0..count).map(|_| random.command()).collect();
    static FAILED: AtomicBool = AtomicBool::new(false);
    if FAILED.load(Ordering::Relaxed) {
        return Ok(Counts::new());
    }
    run(room, &commands).map_err(|(at, why)| {
        // one is enough to look at
        if FAILED.swap(true, Ordering::Relaxed) {
            return format!("MODEL_SEED={seed} failed at command {at} ({room:?}): {why}");
        }
        let (short, shortest_why) = shorten(room, commands[..=at].to_vec());
        let list = |commands: &[Command]| {
            let last = &commands[commands.len().saturating_sub(SHOWN)..];
            last.iter().map(|c| format!("  {c:?}\n")).collect::<String>()
        };
        format!(
            "MODEL_SEED={seed} failed at command {at} ({room:?}): {why}\nlast commands:\n{}shortened to {}: \
             {shortest_why}\n{}",
            list(&commands[..=at]),
            short.len(),
            list(&short),
        )
    })
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Every kind of command and of outcome that a run must have met.
const MET: &[&str] = &[
    "a dead letter that would go round",
    "a delay passed",
    "a duplicate",
    "a full queue refused",
    "a topic was bound",
    "an event came by a binding",
    "a kept event",
    "a lease ran out",
    "a live-only event",
    "a loss notice",
    "a publish made its queue",
    "a publish was refused",
    "a pull whose queue went",
    "a replayed event",
    "a dead event without a dead-letter topic",
    "a dead letter that died again",
    "a filtered event",
    "a lease of a group ran out",
    "a slow member",
    "a sticky event",
    "acked",
    "acked in a group",
    "an auto-delete queue went",
    "an empty pull",
    "an empty pull of a group",
    "an event again",
    "an event of a group",
    "an event was dead-lettered",
    "an exclusive queue went",
    "an idle topic",
    "an unused queue went",
    "atomic",
    "atomic done",
    "atomic refused",
    "bind",
    "browse",
    "browsed",
    "cancel",
    "cancelled",
    "confirmed",
    "conflict",
    "consume",
    "consumer exists",
    "credit",
    "credit of a pool",
    "cut",
    "dead-lettered",
    "declare a group",
    "declare a queue",
    "declare a topic",
    "declare an exchange",
    "delete a group",
    "delete a queue",
    "delete a topic",
    "delete an exchange",
    "delivered",
    "delivered too often",
    "died again for the same reason",
    "done",
    "dropped",
    "events lost to a group",
    "events matched no filter",
    "events of a group expired",
    "expired",
    "extended",
    "extended in a group",
    "failed in a group",
    "fetch",
    "history",
    "in use",
    "join a group",
    "leases of a group returned",
    "pull from a group",
    "pulled from a group",
    "rejected in a group",
    "seek",
    "settle in a group",
    "inequivalent",
    "kill",
    "leases of a lost connection",
    "locked",
    "look for a queue",
    "lose a connection",
    "not empty",
    "not found",
    "publish",
    "published",
    "queue full",
    "pulled",
    "purge",
    "recover",
    "redelivered",
    "rejected",
    "release",
    "removed",
    "requeued",
    "requeued with a delay",
    "reserved",
    "retention",
    "returned",
    "settle",
    "settled",
    "settles",
    "several confirmed at once",
    "shown while held",
    "stop",
    "subscribe",
    "unbind",
    "undeliverable",
    "unknown delivery",
    "unroutable",
    "unsubscribe",
    "wait",
    "wait until something is due",
];

#[test]
fn whatever_is_asked_the_core_does_what_the_model_does() {
    let commands = number("MODEL_COMMANDS", COMMANDS as u64) as usize;
    let first = number("MODEL_SEED", 1);
    let seeds: Vec<u64> = (0..commands.div_ceil(LIFE) as u64).map(|n| first + n).collect();
    let run =
        |seeds: Vec<u64>| seeds.into_iter().map(|seed| life_of(seed, LIFE.min(commands))).collect::<Vec<_>>();
    let lives: Vec<_> = std::thread::scope(|scope| {
        let halves: Vec<Vec<u64>> =
            [0, 1].map(|half| seeds.iter().copied().filter(|s| s % 2 == half).collect()).into();
        let threads: Vec<_> = halves.into_iter().map(|half| scope.spawn(|| run(half))).collect();
        threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect()
    });
    let mut met = Counts::new();
    for life in lives {
        for (what, count) in life.unwrap_or_else(|why| panic!("{why}")) {
            *met.entry(what).or_default() += count;
        }
    }
    println!("{met:?}");
    if commands >= COMMANDS {
        let missing: Vec<_> = MET.iter().filter(|what| !met.contains_key(**what)).collect();
        assert!(missing.is_empty(), "never met: {missing:?}");
    }
}
