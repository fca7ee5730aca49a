//! The configuration as structs, one per section, with every default. It reads nothing and checks no ranges.

use std::collections::BTreeMap;
use std::path::PathBuf;

use framegate_adaptor_api::UNFINISHED_BYTES_MAX;
use framegate_broker::Limits;
use serde::{Deserialize, Serialize};

use super::identities::AuthSection;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Where the journal lives.
    pub(crate) data_dir: PathBuf,
    /// Number of shards; 1 for now.
    pub(crate) shards: u16,
    /// Vhosts that exist.
    pub(crate) vhosts: Vec<String>,
    /// `[storage]`
    pub(crate) storage: StorageSection,
    /// `[limits]`
    pub(crate) limits: LimitsSection,
    /// `[http]`
    pub(crate) http: HttpSection,
    /// `[log]`
    pub(crate) log: LogSection,
    /// `[shutdown]`
    pub(crate) shutdown: ShutdownSection,
    /// `[auth]`
    pub(crate) auth: AuthSection,
    /// `[listeners.NAME]`
    pub(crate) listeners: BTreeMap<String, ListenerSection>,
    /// `[protocols.NAME]`, checked by the protocol of that name.
    pub(crate) protocols: BTreeMap<String, serde_json::Value>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./framegate-data"),
            shards: 1,
            vhosts: vec!["/".to_owned()],
            storage: StorageSection::default(),
            limits: LimitsSection::default(),
            http: HttpSection::default(),
            log: LogSection::default(),
            shutdown: ShutdownSection::default(),
            auth: AuthSection::default(),
            listeners: BTreeMap::new(),
            protocols: BTreeMap::new(),
        }
    }
}

/// `[storage]`: which backend, and how it syncs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StorageSection {
    /// Backend.
    pub(crate) backend: Backend,
    /// When the journal syncs.
    pub(crate) sync: SyncMode,
    /// Time between syncs with `sync = "interval"`.
    pub(crate) interval_ms: u64,
    /// Size of a journal segment.
    pub(crate) segment_bytes: u64,
    /// Codec where frames leave the process.
    pub(crate) wire_codec: String,
}

impl Default for StorageSection {
    fn default() -> Self {
        Self {
            backend: Backend::Journal,
            sync: SyncMode::Group,
            interval_ms: 100,
            segment_bytes: 64 * 1024 * 1024,
            wire_codec: "frame".to_owned(),
        }
    }
}

/// Storage backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Backend {
    /// Segmented log in `data_dir`.
    Journal,
    /// Nothing survives the process.
    Memory,
}

/// When a durable block is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SyncMode {
    /// Before it is confirmed, all that wait at once.
    Group,
    /// Every `interval_ms`: a power cut loses what was confirmed since.
    Interval,
}

macro_rules! limits_section {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => {
        /// `[limits]`: bounds of the broker, and of messages that are still arriving.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct LimitsSection {
            $($(#[$doc])* pub(crate) $name: $type,)*
            /// Bytes of messages that are still arriving, all connections together.
            pub(crate) unfinished_bytes_max: usize,
        }

        impl Default for LimitsSection {
            fn default() -> Self {
                let broker = Limits::default();
                Self { $($name: broker.$name,)* unfinished_bytes_max: UNFINISHED_BYTES_MAX }
            }
        }

        impl LimitsSection {
            /// The broker's part.
            pub(crate) fn broker(&self) -> Limits {
                Limits { $($name: self.$name),* }
            }

            /// Every key with its value, for range checks.
            pub(crate) fn values(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name as u64),)*
                     ("unfinished_bytes_max", self.unfinished_bytes_max as u64)]
            }
        }
    };
}

limits_section! {
    /// Connections of all protocols.
    connections_max: usize,
    /// Consumers of one connection.
    consumers_per_connection_max: usize,
    /// Queues of one vhost.
    queues_max: usize,
    /// Topics of one vhost.
    topics_max: usize,
    /// Bindings of one vhost.
    bindings_max: usize,
    /// Pulls that wait for a message.
    waiters_max: usize,
    /// Unanswered queries of one connection.
    queries_per_connection_max: usize,
    /// Bytes accepted but not yet durable.
    admission_bytes_max: usize,
    /// Bytes of bodies kept in memory.
    cache_bytes_max: usize,
    /// Bytes of bodies read ahead.
    read_ahead_bytes_max: usize,
    /// Bytes on the way to one connection.
    window_bytes: usize,
    /// Default retention of a topic by age.
    topic_age_ms_max: u64,
    /// Default retention of a topic by size.
    topic_bytes_max: u64,
    /// How long an idle topic is kept.
    topic_idle_ms: u64,
    /// Largest message in frame bytes.
    message_bytes_max: usize,
    /// Bytes of log after which a snapshot is written.
    snapshot_log_bytes: u64,
    /// Time after a change within which a snapshot is written; 0: only by length of the log.
    snapshot_every_ms: u64,
    /// How long an orderly stop waits for room on a full disk.
    stop_full_ms: u64,
    /// Free disk space below which publishers are held; 0: never.
    disk_free_min_bytes: u64,
    /// Memory of the index of messages and events above which publishers are held.
    index_bytes_max: usize,
    /// Record bytes that wait for the log above which publishers are held.
    log_queue_bytes_max: usize,
    /// Time between two looks at the disk and the index.
    look_every_ms: u64,
}

/// `[http]`: policy of every HTTP listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpSection {
    /// From the request's head to the response's head. Streams are not cut by it.
    pub(crate) request_timeout_ms: u64,
    /// From the first byte of a request's head to its end, and idle time between requests.
    pub(crate) head_timeout_ms: u64,
    /// Largest request body.
    pub(crate) body_bytes_max: usize,
    /// Largest head of a request.
    pub(crate) head_bytes_max: usize,
    /// Header fields of a request.
    pub(crate) headers_max: usize,
    /// Requests worked on at once, a listener; more are refused with 503.
    pub(crate) requests_max: usize,
    /// Event streams and WebSockets at once, a listener; more are refused with 503.
    pub(crate) streams_max: usize,
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            request_timeout_ms: 30_000,
            head_timeout_ms: 15_000,
            body_bytes_max: 16 * 1024 * 1024,
            head_bytes_max: 64 * 1024,
            headers_max: 256,
            requests_max: 1024,
            streams_max: 10_000,
        }
    }
}

/// `[log]`: lines on standard error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSection {
    /// Least important level that is printed.
    pub(crate) level: LogLevel,
    /// For people or for machines.
    pub(crate) format: LogFormat,
}

impl Default for LogSection {
    fn default() -> Self {
        Self { level: LogLevel::Info, format: LogFormat::Human }
    }
}

/// Levels of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The word in the configuration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Forms of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// Text.
    Human,
    /// One JSON object a line.
    Json,
}

/// `[shutdown]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ShutdownSection {
    /// How long connections may take to say goodbye.
    pub(crate) grace_ms: u64,
}

impl Default for ShutdownSection {
    fn default() -> Self {
        Self { grace_ms: 10_000 }
    }
}

/// `[listeners.NAME]`. Keys left out keep the listener's default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ListenerSection {
    /// `IP:PORT`, or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) addr: Option<String>,
    /// Vhost of clients that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vhost: Option<String>,
}
