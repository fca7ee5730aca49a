//! One JSON object per path on standard output, one line for people on standard error.

use serde_json::json;

/// What one run of one path gave.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// What was measured.
    pub(crate) path: String,
    /// Which server.
    pub(crate) server: &'static str,
    /// Messages or deliveries.
    pub(crate) count: u64,
    /// Seconds it took.
    pub(crate) seconds: f64,
    /// CPU seconds of the server.
    pub(crate) cpu_seconds: f64,
    /// Peak memory of the server in KiB.
    pub(crate) peak_kib: u64,
    /// Memory that the server gained for each connection before anything was sent, in KiB.
    pub(crate) idle_kib_each: Option<f64>,
    /// Latencies in microseconds, unsorted.
    pub(crate) latencies_us: Vec<u32>,
}

impl Figures {
    /// Messages a second.
    pub(crate) fn rate(&self) -> f64 {
        self.count as f64 / self.seconds
    }

    /// Server CPU of one message in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.count as f64
    }

    /// Median latency in microseconds.
    pub(crate) fn p50_us(&self) -> f64 {
        f64::from(self.latency(0.5))
    }

    /// 99 of 100 are at most this, in microseconds.
    pub(crate) fn p99_us(&self) -> f64 {
        f64::from(self.latency(0.99))
    }

    fn latency(&self, share: f64) -> u32 {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        sorted
            .get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0)
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        let max = self.latencies_us.iter().max().copied().unwrap_or(0);
        let (p50, p99) = (self.latency(0.5), self.latency(0.99));
        let object = json!({
            "path": self.path, "server": self.server, "count": self.count, "seconds": self.seconds,
            "rate_per_second": self.rate(), "cpu_us_per_message": self.cpu_us(), "peak_rss_kib": self.peak_kib,
            "idle_kib_per_connection": self.idle_kib_each,
            "p50_us": p50, "p99_us": p99, "max_us": max,
        });
        println!("{object}");
        let (path, server, rate, cpu) = (&self.path, self.server, self.rate(), self.cpu_us());
        eprintln!("{path:<40} {server:<10} {rate:>10.0}/s {cpu:>8.2} us CPU  p50 {p50} us  p99 {p99} us");
    }
}

/// The run with the median CPU.
pub(crate) fn median(mut runs: Vec<Figures>) -> Option<Figures> {
    runs.sort_by(|a, b| a.cpu_us().total_cmp(&b.cpu_us()));
    let middle = runs.len() / 2;
    (!runs.is_empty()).then(|| runs.swap_remove(middle))
}

/// Prints ours against a peer's. `aims`: CPU ratio at most, rate ratio at least.
pub(crate) fn compare(ours: &Figures, peer: &Figures, aims: Option<(f64, f64)>) {
    let (cpu, rate) = (ours.cpu_us() / peer.cpu_us(), ours.rate() / peer.rate());
    let mut object = json!({"path": ours.path, "peer": peer.server, "cpu_ratio": cpu, "rate_ratio": rate});
    let mut line = format!("{} against {}: cpu ratio {cpu:.2}, rate ratio {rate:.2}", ours.path, peer.server);
    if let Some((cpu_aim, rate_aim)) = aims {
        let met = |ok: bool| if ok { "met" } else { "missed" };
        let (cpu_met, rate_met) = (met(cpu <= cpu_aim), met(rate >= rate_aim));
        object["cpu_aim"] = json!({"at_most": cpu_aim, "result": cpu_met});
        object["rate_aim"] = json!({"at_least": rate_aim, "result": rate_met});
        line += &format!(" (aims: cpu at most {cpu_aim} {cpu_met}, rate at least {rate_aim} {rate_met})");
    }
    println!("{object}");
    eprintln!("{line}");
}
