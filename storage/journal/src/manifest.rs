//! `MANIFEST`: what the store is and who owned it last. Replaced whole, by temporary file and rename.
//!
//! ```text
//! framegate-journal 1          format version
//! generation 4f0c1d2e3a4b5c6d  random, made once
//! epoch 12                     of the newest claim
//! clean 0                      1 after an orderly stop of that claim
//! crc 89abcdef                 crc32c of the lines above
//! ```

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use framegate_storage::{Epoch, Generation, StoreError};

use crate::files::{Files, read_full, write_all};
use crate::header::FORMAT;
use crate::names;

/// Longest manifest that is read.
const BYTES_MAX: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) generation: Generation,
    pub(crate) epoch: Epoch,
    pub(crate) clean: bool,
}

impl Manifest {
    pub(crate) fn encode(&self) -> String {
        let Self { generation, epoch, clean } = self;
        let clean = u8::from(*clean);
        let lines = format!(
            "framegate-journal {FORMAT}\ngeneration {:016x}\nepoch {epoch}\nclean {clean}\n",
            generation.0
        );
        format!("{lines}crc {:08x}\n", crc32c::crc32c(lines.as_bytes()))
    }

    fn decode(text: &str, path: &Path) -> Result<Self, StoreError> {
        let corrupt = |detail: &str| StoreError::Corrupt {
            file: path.to_owned(),
            offset: 0,
            detail: format!("{detail}; the store cannot be opened without it"),
        };
        let version = text.lines().next().and_then(|line| line.strip_prefix("framegate-journal "));
        let found: u16 = version.and_then(|text| text.parse().ok()).ok_or(corrupt("no journal manifest"))?;
        if found > FORMAT {
            return Err(StoreError::Version { path: path.to_owned(), found, supported: FORMAT });
        }
        let crc_at = text.rfind("crc ").ok_or(corrupt("no checksum"))?;
        let crc = u32::from_str_radix(text[crc_at + 4..].trim_end(), 16).ok();
        if crc != Some(crc32c::crc32c(&text.as_bytes()[..crc_at])) {
            return Err(corrupt("the checksum does not match"));
        }
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let generation = field("generation").and_then(|text| u64::from_str_radix(text, 16).ok());
        let epoch = field("epoch").and_then(|text| text.parse().ok());
        Ok(Self {
            generation: Generation(generation.ok_or(corrupt("no generation"))?),
            epoch: Epoch(epoch.ok_or(corrupt("no epoch"))?),
            clean: field("clean") == Some("1"),
        })
    }

    /// The manifest of `dir`; `None` when there is none.
    pub(crate) fn load(files: &dyn Files, dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(names::MANIFEST);
        let file = match files.open(&path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("open", &path, &error)),
        };
        let mut bytes = vec![0; BYTES_MAX];
        let len = read_full(&*file, 0, &mut bytes).map_err(|error| io_error("read", &path, &error))?;
        Self::decode(&String::from_utf8_lossy(&bytes[..len]), &path).map(Some)
    }

    /// Replaces the manifest of `dir`; durable when it returns.
    pub(crate) fn store(&self, files: &dyn Files, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(names::MANIFEST);
        let temporary = dir.join(names::temporary(names::MANIFEST));
        let write = || -> io::Result<()> {
            let file = files.create(&temporary)?;
            write_all(&*file, 0, &mut [IoSlice::new(self.encode().as_bytes())])?;
            file.sync()?;
            files.rename(&temporary, &path)?;
            files.sync_dir(dir)
        };
        write().map_err(|error| io_error("replace", &path, &error))
    }
}

pub(crate) fn io_error(action: &'static str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { action, path: PathBuf::from(path), detail: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_survives_a_round_trip_and_no_changed_byte() {
        let manifest = Manifest { generation: Generation(0xfeed), epoch: Epoch(7), clean: true };
        let text = manifest.encode();
        let path = Path::new("MANIFEST");
        assert_eq!(Manifest::decode(&text, path).expect("just encoded"), manifest);
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'9' { b'8' } else { b'9' };
            let changed = String::from_utf8(bytes).expect("ascii");
            assert!(Manifest::decode(&changed, path).is_err(), "{changed}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let text = "framegate-journal 9\nsomething else\n";
        let error = Manifest::decode(text, Path::new("MANIFEST")).expect_err("newer");
        assert!(matches!(error, StoreError::Version { found: 9, supported: FORMAT, .. }), "{error}");
    }
}
