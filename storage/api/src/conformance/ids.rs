//! The list of storage-level cases. An id that is listed and did not run is a failure.

/// Id and what it shows.
pub const IDS: &[(&str, &str)] = &[
    ("L1", "blocks of random size are read back in order, byte-identical, before and after a restart"),
    ("L2", "10,000 appends: positions strictly increase, log order is call order, reports are in order"),
    ("L3", "a block of exactly the maximum passes, one byte more is too large, an empty one is allowed"),
    ("L4", "a dropped read has no effect; blocks are neither lost nor doubled when the caller goes away"),
    ("L5", "fetch of live, released, trimmed and never-written positions: right bytes or not found"),
    ("L6", "trim is monotonic and idempotent; reads below give not found; usage shrinks"),
    ("L7", "snapshot replace is atomic: killed between parts the old one loads; a corrupt one falls back"),
    ("L8", "written survives a process kill, synced survives the backend's strongest fault"),
    ("L9", "no room is reported, nothing partial is visible, writing goes on when room returns"),
    ("F2", "torn write at every byte of the last block is cut; a flipped bit in an earlier one is refused"),
    ("F3", "unsynced data dropped: what was reported synced is there, and the log is a prefix"),
    ("F4", "a failed sync is reported once, nothing later succeeds, a restart recovers"),
    ("F6", "a newer format is refused; unknown flags follow their may-be-skipped bit"),
];
