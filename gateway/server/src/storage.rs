//! Opens the configured backend, and says in one line what an operator can do about a storage error.

use std::sync::Arc;
use std::time::Duration;

use framegate_storage::{ShardStore, StoreError};
use framegate_storage_journal::{Journal, Options, SyncMode as JournalSync};
use framegate_storage_memory::MemoryStore;

use crate::config::{Backend, Config, SyncMode};
use crate::exit::Ending;

/// Opens the backend. Blocks.
///
/// # Errors
/// An ending with its message.
pub(crate) fn open(config: &Config) -> Result<Arc<dyn ShardStore>, Ending> {
    match config.storage.backend {
        Backend::Memory => Ok(Arc::new(MemoryStore::new())),
        Backend::Journal => {
            let mut options = Options::new(&config.data_dir);
            options.segment_bytes = config.storage.segment_bytes;
            options.sync = match config.storage.sync {
                SyncMode::Group => JournalSync::Group,
                SyncMode::Interval => {
                    JournalSync::Interval(Duration::from_millis(config.storage.interval_ms))
                }
            };
            #[cfg(feature = "faults")]
            {
                options.faults = faults::from_environment()?;
            }
            let journal = Journal::open(options).map_err(|error| cannot_start(&error))?;
            Ok(Arc::new(journal))
        }
    }
}

/// The ending of a start that storage refused.
pub(crate) fn cannot_start(error: &StoreError) -> Ending {
    match error {
        StoreError::InUse { path } => Ending::usage(format!(
            "data directory {} is in use by another process; stop the other framegate, or pass --data-dir with \
             another directory",
            path.display()
        )),
        StoreError::Version { path, found, supported } => Ending::usage(format!(
            "{} has format version {found}, this version of framegate reads up to {supported}; start the version \
             that wrote it, or pass --data-dir with another directory",
            path.display()
        )),
        StoreError::Io { .. } => Ending::usage(format!(
            "{error}; make the data directory writable for this user, or pass --data-dir with another directory"
        )),
        StoreError::Full { .. } => {
            Ending::usage(format!("{error}; free some space, or pass --data-dir with another directory"))
        }
        StoreError::Corrupt { file, .. } => {
            // a file of the directory, or the directory itself
            let inside = file.extension().is_some() || file.ends_with("MANIFEST");
            let dir = file.parent().filter(|_| inside).unwrap_or(file).display();
            Ending::storage(format!(
                "{error}; nothing was changed: restore the directory from a backup, or save what is outside the \
                 damage with: framegate repair {dir} {dir}-repaired"
            ))
        }
        other => Ending::storage(what_to_do(other)),
    }
}

/// The line for a shard that failed while it ran.
pub(crate) fn what_to_do(error: &StoreError) -> String {
    let way_out = match error {
        StoreError::Fenced { .. } => "another process took the shard over; stop one of the two",
        _ => {
            "check the disk (dmesg, SMART, mount), then start framegate again: what was confirmed is in the journal"
        }
    };
    format!("{error}; {way_out}")
}

#[cfg(feature = "faults")]
mod faults {
    //! Faults for tests of the whole binary: `FRAMEGATE_FAULTS`, a comma-separated list.

    use std::path::PathBuf;

    use framegate_storage_journal::Faults;

    use crate::exit::Ending;

    const ALLOWED: &str = "confirm-before-sync, hold-unsynced, block-sync-while=PATH, fail-sync-when=PATH, \
                           full-when=PATH, fail-write-when=PATH, low-when=PATH, quota=BYTES";

    /// Reads the variable.
    pub(super) fn from_environment() -> Result<Faults, Ending> {
        parse(&std::env::var("FRAMEGATE_FAULTS").unwrap_or_default())
    }

    fn parse(list: &str) -> Result<Faults, Ending> {
        let mut faults = Faults::default();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None if word == "confirm-before-sync" => faults.confirm_before_sync = true,
                None if word == "hold-unsynced" => faults.hold_unsynced = true,
                Some(("block-sync-while", path)) => faults.block_sync_while = Some(PathBuf::from(path)),
                Some(("fail-sync-when", path)) => faults.fail_sync_when = Some(PathBuf::from(path)),
                Some(("full-when", path)) => faults.full_when = Some(PathBuf::from(path)),
                Some(("fail-write-when", path)) => faults.fail_write_when = Some(PathBuf::from(path)),
                Some(("low-when", path)) => faults.low_when = Some(PathBuf::from(path)),
                Some(("quota", bytes)) if bytes.parse::<u64>().is_ok() => faults.quota = bytes.parse().ok(),
                _ => {
                    return Err(Ending::usage(format!(
                        "environment FRAMEGATE_FAULTS: {word:?} is not a fault; allowed are {ALLOWED}"
                    )));
                }
            }
        }
        if list.is_empty() {
            return Ok(faults);
        }
        tracing::warn!("storage faults are switched on: {list}");
        Ok(faults)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_fault_can_be_named_and_nothing_else() {
            let faults = parse(
                "confirm-before-sync, hold-unsynced,block-sync-while=/a,fail-sync-when=/b,full-when=/c,\
                 fail-write-when=/d,low-when=/e,quota=4096",
            )
            .expect("parses");
            assert_eq!(faults.fail_write_when, Some(PathBuf::from("/d")));
            assert_eq!((faults.low_when, faults.quota), (Some(PathBuf::from("/e")), Some(4096)));
            assert!(parse("quota=much").is_err());
            assert!(faults.confirm_before_sync && faults.hold_unsynced);
            assert_eq!(faults.block_sync_while, Some(PathBuf::from("/a")));
            assert_eq!(faults.fail_sync_when, Some(PathBuf::from("/b")));
            assert_eq!(faults.full_when, Some(PathBuf::from("/c")));
            assert!(parse("slow").expect_err("refused").message.contains("\"slow\" is not a fault"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use framegate_storage::Resource;

    use super::*;
    use crate::exit::Exit;

    #[test]
    fn every_refusal_at_the_start_names_the_way_out() {
        let path = || PathBuf::from("/d");
        let ending = cannot_start(&StoreError::InUse { path: path() });
        assert_eq!(ending.exit, Exit::Usage);
        assert_eq!(
            ending.message,
            "data directory /d is in use by another process; stop the other framegate, or pass --data-dir with \
             another directory"
        );
        let ending = cannot_start(&StoreError::Version { path: path(), found: 9, supported: 1 });
        assert_eq!(ending.exit, Exit::Usage);
        assert!(ending.message.contains("format version 9") && ending.message.contains("--data-dir"));
        let denied = StoreError::Io {
            action: "create",
            path: path(),
            detail: "Permission denied (os error 13)".into(),
        };
        let ending = cannot_start(&denied);
        assert_eq!(ending.exit, Exit::Usage);
        assert!(
            ending.message.starts_with("create /d: Permission denied (os error 13); make the data directory")
        );
        assert_eq!(cannot_start(&StoreError::Full { what: Resource::Disk }).exit, Exit::Usage);
        let file = PathBuf::from("/d/seg-00000000000000000001.log");
        let corrupt = StoreError::Corrupt { file, offset: 7, detail: "checksum".into() };
        let ending = cannot_start(&corrupt);
        assert_eq!(ending.exit, Exit::Storage);
        let command = "with: framegate repair /d /d-repaired";
        assert!(ending.message.contains("at byte 7: checksum") && ending.message.ends_with(command));
    }
}
