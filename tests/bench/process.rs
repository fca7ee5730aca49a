//! What a server costs: CPU seconds and memory of its whole process tree, from /proc.

use std::fs;

/// Clock ticks of /proc/PID/stat a second; fixed by Linux for user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// A server's processes: a parent and all below it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree(pub(crate) u32);

impl Tree {
    fn pids(self) -> Vec<u32> {
        let mut pids = vec![self.0];
        let mut at = 0;
        while let Some(pid) = pids.get(at) {
            pids.extend(children(*pid));
            at += 1;
        }
        pids
    }

    /// User and system seconds so far.
    pub(crate) fn cpu_seconds(self) -> f64 {
        self.pids().iter().filter_map(|pid| cpu_of(*pid)).sum()
    }

    /// Resident memory now, in KiB.
    pub(crate) fn rss_kib(self) -> u64 {
        self.pids().iter().filter_map(|pid| status_of(*pid, "VmRSS:")).sum()
    }

    /// Peak resident memory, in KiB.
    pub(crate) fn peak_kib(self) -> u64 {
        self.pids().iter().filter_map(|pid| status_of(*pid, "VmHWM:")).sum()
    }
}

/// A child belongs to the thread that started it.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

fn cpu_of(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // behind the command in parentheses: state is field 3, user and system ticks are fields 14 and 15
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}

fn status_of(pid: u32, key: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|l| l.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}
