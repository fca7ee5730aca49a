//! Lists the matrix's clients: every protocol folder brings its own in `peer.rs`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let adaptors =
        PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("../adaptors");
    println!("cargo::rerun-if-changed={}", adaptors.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(&adaptors)? {
        let path = entry?.path().join("peer.rs");
        let folder = path.parent().and_then(|f| f.file_name()).map(|n| n.to_string_lossy().into_owned());
        if let Some(folder) = folder.filter(|_| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
            found.push((folder, path.canonicalize()?));
        }
    }
    found.sort();
    let mut code = String::new();
    let mut list = String::new();
    for (name, path) in found {
        let _ = writeln!(code, "#[path = {path:?}]\n#[doc(hidden)]\npub mod {name};");
        let _ = write!(list, "all.extend({name}::peers()); ");
    }
    let _ = writeln!(
        code,
        "/// Every way in and out that there is a client for.\n#[must_use]\npub fn peers() -> Vec<Peer> {{ let mut all = Vec::new(); {list} all }}"
    );
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(out.join("peers.rs"), code)
}
