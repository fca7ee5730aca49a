//! Log lines on standard error. Standard output belongs to what was asked for.

use tracing_subscriber::filter::LevelFilter;

use crate::config::{LogFormat, LogLevel};

/// Starts printing. Called once.
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    let filter = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    use std::io::IsTerminal as _;
    let builder = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Human => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    // A second subscriber is a test's own; its lines go there.
    drop(started);
}
