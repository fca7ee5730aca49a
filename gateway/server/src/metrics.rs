//! `/metrics` in the OpenMetrics text form. It collects on request and keeps nothing but the start time.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use framegate_adaptor_api::UnfinishedBudget;
use framegate_broker::Broker;
use framegate_storage::{ShardId, ShardStore};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric as _,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::listeners::ListenerStats;

/// Content type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters of the broker that go up and down.
const BROKER_GAUGES: [&str; 12] = [
    "admission_bytes",
    "log_queue_bytes",
    "index_bytes",
    "held_disk_full",
    "held_disk_low",
    "held_index_memory",
    "held_log_queue",
    "cache_bytes",
    "snapshot_entries",
    "snapshot_time_ms",
    "snapshot_freeze_us",
    "live_bytes",
];

/// Clock ticks a second in `/proc/self/stat`; fixed by the kernel's interface on every platform we run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Everything that is measured.
pub(crate) struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Metrics of a running server.
    pub(crate) fn new(
        broker: Broker,
        store: Arc<dyn ShardStore>,
        budget: UnfinishedBudget,
        listeners: Vec<Arc<ListenerStats>>,
    ) -> Self {
        let mut registry = Registry::with_prefix("framegate");
        registry.register_collector(Box::new(ServerCollector {
            broker,
            store,
            budget,
            listeners,
            started: Instant::now(),
        }));
        Self { registry }
    }

    /// The text, as of now.
    ///
    /// # Errors
    /// Never in practice: writing to a `String` does not fail.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

struct ServerCollector {
    broker: Broker,
    store: Arc<dyn ShardStore>,
    budget: UnfinishedBudget,
    listeners: Vec<Arc<ListenerStats>>,
    started: Instant,
}

impl fmt::Debug for ServerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerCollector")
    }
}

impl Collector for ServerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, value) in self.broker.metrics().snapshot() {
            if name == "snapshot_time_ms" && value > 0 {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                let age = (now - value as f64 / 1000.0).max(0.0);
                gauge(&mut encoder, "snapshot_age_seconds", "Age of the newest snapshot of this start", age)?;
            }
            let help = format!("Broker: {}", name.replace('_', " "));
            if BROKER_GAUGES.contains(&name) {
                gauge(&mut encoder, name, &help, value)?;
            } else {
                counter(&mut encoder, name, &help, value)?;
            }
        }
        gauge(
            &mut encoder,
            "unfinished_bytes",
            "Bytes of messages still arriving",
            self.budget.used() as u64,
        )?;
        self.storage(&mut encoder)?;
        self.listener_families(&mut encoder)?;
        for (protocol, name, value) in framegate_adaptor_api::counters() {
            let help = format!("Protocol {protocol}: {}", name.replace('_', " "));
            counter(&mut encoder, &format!("{protocol}_{name}"), &help, value)?;
        }
        gauge(&mut encoder, "uptime_seconds", "Time since the start", self.started.elapsed().as_secs_f64())?;
        if let Some(process) = Process::read() {
            gauge(&mut encoder, "process_resident_memory_bytes", "Resident memory", process.resident_bytes)?;
            counter(&mut encoder, "process_cpu_seconds", "User and system CPU time", process.cpu_seconds)?;
        }
        Ok(())
    }
}

impl ServerCollector {
    fn storage(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let usage = self.store.usage(ShardId(0));
        gauge(encoder, "storage_disk_bytes", "Bytes on disk, preallocated ones included", usage.disk_bytes)?;
        gauge(encoder, "storage_log_bytes", "Bytes of blocks that can be read", usage.log_bytes)?;
        gauge(encoder, "storage_segments", "Segments", usage.segments)?;
        if let Some(free) = usage.free_bytes {
            gauge(encoder, "storage_free_bytes", "Free bytes of the file system", free)?;
        }
        gauge(encoder, "storage_blocks_in_flight", "Blocks not yet durable", usage.blocks_in_flight)?;
        counter(encoder, "storage_syncs", "Syncs", usage.syncs)?;
        counter(encoder, "storage_writes", "Group writes", usage.writes)
    }

    fn listener_families(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let families: Vec<Vec<(&'static str, &'static str, u64)>> =
            self.listeners.iter().map(|listener| listener.snapshot()).collect();
        let Some(first) = families.first() else { return Ok(()) };
        for (index, (name, help, _)) in first.iter().enumerate() {
            let open = name.ends_with("_open");
            let kind = if open { MetricType::Gauge } else { MetricType::Counter };
            let metric_name = format!("listener_{name}");
            let mut family = encoder.encode_descriptor(&metric_name, help, None, kind)?;
            for (listener, values) in self.listeners.iter().zip(&families) {
                let value = values.get(index).map_or(0, |(_, _, value)| *value);
                let labels = [("listener", listener.name())];
                let metric = family.encode_family(&labels)?;
                if open {
                    ConstGauge::new(value).encode(metric)?;
                } else {
                    ConstCounter::new(value).encode(metric)?;
                }
            }
        }
        Ok(())
    }
}

fn gauge<V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: V,
) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

fn counter<V: EncodeCounterValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: V,
) -> fmt::Result {
    let counter = ConstCounter::new(value);
    counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
}

/// What the kernel says about this process.
struct Process {
    resident_bytes: f64,
    cpu_seconds: f64,
}

impl Process {
    fn read() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: f64 = resident.split_whitespace().next()?.parse().ok()?;
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The command name may hold spaces; fields are counted from the parenthesis behind it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
        Some(Self { resident_bytes: kib * 1024.0, cpu_seconds: ticks / TICKS_PER_SECOND })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_says_its_memory_and_cpu() {
        let process = Process::read().expect("linux says");
        assert!(process.resident_bytes > 100_000.0);
        assert!(process.cpu_seconds >= 0.0);
    }
}
