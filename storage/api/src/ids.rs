//! Identities of the storage interface: shard, epoch, log position, block position, store generation.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// The unit of log, ownership, recovery and garbage collection. Only shard 0 exists for now.
    ShardId(u8)
);
id!(
    /// Fencing token: grows with every claim of a shard; an append of an older epoch never succeeds.
    Epoch(u64)
);
id!(
    /// Log sequence number: the ordinal of a record in its shard's log, contiguous, first record is 1.
    Lsn(u64)
);
id!(
    /// Where a block starts in its shard's log: strictly increasing, opaque to everybody but the
    /// backend (the journal packs segment number and byte offset).
    Pos(u64)
);
id!(
    /// Names a store: a random number made when the store is created and never changed, so that a
    /// cursor into another (or recreated) store is noticed.
    Generation(u64)
);
