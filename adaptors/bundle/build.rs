//! Turns each `framegate-` dependency of this crate into the `use` line that keeps it linked in, so that the manifest is
//! the one list of protocols.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let manifest = fs::read_to_string("Cargo.toml")?;
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default();
    let dependencies = dependencies.split("\n[").next().unwrap_or_default();
    let mut code = String::new();
    for line in dependencies.lines() {
        let Some(name) = line.strip_prefix("framegate-").and_then(|l| l.split([' ', '.']).next()) else {
            continue;
        };
        let name = name.replace('-', "_");
        let feature = format!("CARGO_FEATURE_{}", name.to_uppercase());
        if !line.contains("optional = true") || env::var_os(feature).is_some() {
            let _ = writeln!(code, "use framegate_{name} as _;");
        }
    }
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(PathBuf::from(out).join("protocols.rs"), code)
}
