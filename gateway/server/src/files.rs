//! The open-file limit and the ports file.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

/// Below this many open files a broker runs out with an ordinary number of clients.
const OPEN_FILES_WANTED: u64 = 4096;

/// Raises the limit of open files to the hard limit and says so when that is low.
pub(crate) fn raise_open_files() {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(files) if files < OPEN_FILES_WANTED => tracing::warn!(
            "at most {files} files and connections can be open; raise the hard limit (ulimit -Hn, LimitNOFILE=) to \
             {OPEN_FILES_WANTED} or more"
        ),
        Ok(files) => tracing::debug!("at most {files} files and connections can be open"),
        Err(error) => tracing::warn!("the limit of open files cannot be raised: {error}"),
    }
}

/// Writes `{"name":"addr",...}` so that a reader sees all of it or nothing.
///
/// # Errors
/// The file system's.
pub(crate) fn write_ports(path: &Path, bound: &[(String, String)]) -> std::io::Result<()> {
    let ports: BTreeMap<&str, &str> =
        bound.iter().map(|(name, addr)| (name.as_str(), addr.as_str())).collect();
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(&serde_json::to_vec(&ports)?)?;
    file.write_all(b"\n")?;
    drop(file);
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_file_is_json_and_replaces_an_older_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ports.json");
        std::fs::write(&path, "old").expect("write");
        let bound =
            [("http".to_owned(), "127.0.0.1:1".to_owned()), ("amqp".to_owned(), "127.0.0.1:2".to_owned())];
        write_ports(&path, &bound).expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(text, "{\"amqp\":\"127.0.0.1:2\",\"http\":\"127.0.0.1:1\"}\n");
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
    }
}
