//! Settings of a journal. Plain data with its bounds; reads no configuration.

use std::path::PathBuf;
use std::time::Duration;

use framegate_storage::StoreError;

/// Smallest segment a journal accepts. Only tests go that low; a server should not go below 16 MiB.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 4096;
/// Positions hold 32 bits of offset.
const SEGMENT_BYTES_MAX: u64 = 1 << 31;

/// When a block counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// After the sync of its group, when it asks for one; else after the write.
    Group,
    /// After the write. A sync follows at most this much later, so a power cut loses up to that.
    Interval(Duration),
}

/// How a journal behaves. `Options::new(dir)` gives the defaults.
#[derive(Debug, Clone)]
pub struct Options {
    /// Data directory; made if missing.
    pub dir: PathBuf,
    /// Size of a full segment in bytes (default 64 MiB; 4 KiB to 2 GiB, use 16 MiB and more).
    pub segment_bytes: u64,
    /// Size of the first segment after a start (default 4 MiB); each later one is four times larger,
    /// up to `segment_bytes`, so that a start needs little preallocated space.
    pub first_segment_bytes: u64,
    /// When a block counts as durable (default `Group`).
    pub sync: SyncMode,
    /// Blocks in flight before the caller lets its open block grow (default 64).
    pub pipelining: usize,
    /// Largest block in record bytes (default 160 MiB, so that a frame of 128 MiB fits; at most 1 GiB).
    pub block_bytes_max: usize,
    /// Idle time after which the last group is covered by a mark that says it was synced (default
    /// 200 ms); `None`: only an orderly stop writes one.
    pub idle_mark: Option<Duration>,
    /// How often a write that found no room is tried again (default 100 ms).
    pub full_retry: Duration,
    /// Faults of the real files, for tests of the whole binary.
    #[cfg(feature = "faults")]
    pub faults: crate::faults::Faults,
}

impl Options {
    /// The defaults, in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            segment_bytes: 64 << 20,
            first_segment_bytes: 4 << 20,
            sync: SyncMode::Group,
            pipelining: 64,
            block_bytes_max: 160 << 20,
            idle_mark: Some(Duration::from_millis(200)),
            full_retry: Duration::from_millis(100),
            #[cfg(feature = "faults")]
            faults: crate::faults::Faults::default(),
        }
    }

    /// Checks the bounds.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let refused = |detail: String| StoreError::Io { action: "open", path: self.dir.clone(), detail };
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes) {
            let allowed = format!("{SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}");
            return Err(refused(format!("segment_bytes is {}, allowed are {allowed}", self.segment_bytes)));
        }
        if !(1..=1 << 30).contains(&self.block_bytes_max) {
            return Err(refused(format!(
                "block_bytes_max is {}, allowed are 1 to 1 GiB",
                self.block_bytes_max
            )));
        }
        if self.pipelining == 0 {
            return Err(refused("pipelining is 0, at least 1 block must be in flight".to_owned()));
        }
        Ok(())
    }

    /// Fault: report a group before it is synced.
    pub(crate) fn confirms_before_sync(&self) -> bool {
        #[cfg(feature = "faults")]
        return self.faults.confirm_before_sync;
        #[cfg(not(feature = "faults"))]
        false
    }

    /// Size of the segment after `rolls` earlier ones of this claim.
    pub(crate) fn capacity(&self, rolls: u32) -> u64 {
        let first = self.first_segment_bytes.clamp(SEGMENT_BYTES_MIN, self.segment_bytes);
        let grown = first.saturating_mul(4u64.saturating_pow(rolls));
        grown.min(self.segment_bytes)
    }
}
