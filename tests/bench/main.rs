//! Figures, never tests: starts the release binary and, when asked, a peer, drives both with the same client, and prints
//! one JSON object per path. Loopback only, bounded in count.

mod load;
mod messagex;
mod process;
mod report;
mod servers;
mod sse;

use std::process::ExitCode;

const USAGE: &str = "usage: framegate-bench sse|messagex|idle [--peer nchan] [--quick]";

fn main() -> ExitCode {
    let mut group = None;
    let (mut peer, mut quick) = (None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--peer" => peer = arguments.next(),
            "--quick" => quick = true,
            name if group.is_none() && !name.starts_with('-') => group = Some(name.to_owned()),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    // thousands of sockets on both sides
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let result = match group.as_deref() {
        Some("sse") => sse::run(&runtime, peer.as_deref(), quick),
        Some("messagex") => messagex::run(&runtime, quick),
        Some("idle") => sse::idle(&runtime),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
