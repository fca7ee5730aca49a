//! Figures, never tests: starts the release binary and, when asked, a peer and a server without logic, drives all with
//! the same client, and prints one JSON object per path. Loopback only, bounded in count and time.

mod amqp;
mod fanout;
mod idle;
mod load;
mod messagex;
mod null;
mod process;
mod publisher;
mod rabbitmq;
mod report;
mod servers;
mod steady;
mod subscriber;

use std::process::ExitCode;

use fanout::{Options, Transport};

const USAGE: &str = "usage: framegate-bench sse|ws|messagex|amqp|hostile-amqp|idle [--peer nchan|rabbitmq|redis|nats|null] [--quick] \
     [--only TEXT] [--subscribers N] [--window N]";

fn main() -> ExitCode {
    let Some((group, options)) = read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // thousands of sockets on both sides
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let result = match group.as_str() {
        "sse" => fanout::run(&runtime, Transport::Sse, &options),
        "ws" => fanout::run(&runtime, Transport::WebSocket, &options),
        "messagex" => messagex::run(&runtime, options.quick),
        "amqp" => amqp::run(&runtime, options.peer.as_deref(), options.quick, options.only.as_deref()),
        "hostile-amqp" => amqp::hostile(&runtime, options.quick, options.only.as_deref()),
        "idle" => idle::run(&runtime),
        "null-server" => runtime.block_on(null::serve()),
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

fn read(mut arguments: impl Iterator<Item = String>) -> Option<(String, Options)> {
    let mut group = None;
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--peer" => options.peer = Some(arguments.next()?),
            "--quick" => options.quick = true,
            "--only" => options.only = Some(arguments.next()?),
            "--subscribers" => options.subscribers = Some(arguments.next()?.parse().ok()?),
            "--window" => options.window = arguments.next()?.parse().ok().filter(|window| *window > 0)?,
            name if group.is_none() && !name.starts_with('-') => group = Some(name.to_owned()),
            _ => return None,
        }
    }
    Some((group?, options))
}
