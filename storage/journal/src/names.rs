//! File names of a data directory, made and parsed in one place.

use framegate_storage::{Lsn, Pos};

pub(crate) const LOCK: &str = "LOCK";
pub(crate) const MANIFEST: &str = "MANIFEST";

pub(crate) fn segment(base: Lsn) -> String {
    format!("seg-{:020}.log", base.0)
}

pub(crate) fn snapshot(upto: Lsn) -> String {
    format!("snap-{:020}.fgs", upto.0)
}

pub(crate) fn spare(number: u64) -> String {
    format!("spare-{number}.log")
}

/// Name under which a file is written before it is renamed to `name`.
pub(crate) fn temporary(name: &str) -> String {
    format!("{name}.tmp")
}

pub(crate) fn parse_segment(name: &str) -> Option<Lsn> {
    parse(name, "seg-", ".log")
}

pub(crate) fn parse_snapshot(name: &str) -> Option<Lsn> {
    parse(name, "snap-", ".fgs")
}

/// Left behind by a crash and of no use.
pub(crate) fn is_leftover(name: &str) -> bool {
    name.ends_with(".tmp") || (name.starts_with("spare-") && name.ends_with(".log"))
}

fn parse(name: &str, prefix: &str, suffix: &str) -> Option<Lsn> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    (digits.len() == 20).then(|| digits.parse().ok().map(Lsn)).flatten()
}

/// Packs a position: segment number in the upper 32 bits, byte offset in the lower.
pub(crate) fn pack(segment: u32, offset: u64) -> Pos {
    debug_assert!(offset <= u64::from(u32::MAX), "segments stay below 4 GiB");
    Pos(u64::from(segment) << 32 | offset)
}

/// Segment number and byte offset of a position.
pub(crate) fn unpack(pos: Pos) -> (u32, u64) {
    ((pos.0 >> 32) as u32, pos.0 & u64::from(u32::MAX))
}
