//! What `cargo metadata` and the folders say about the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace").to_owned()
}

/// One package of the dependency graph.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: String,
    pub(crate) member: bool,
    /// Names of normal dependencies (not dev, not build).
    pub(crate) dependencies: BTreeSet<String>,
    /// Features asked of each normal dependency.
    pub(crate) features: BTreeMap<String, Vec<String>>,
    /// Ids of resolved normal dependencies.
    pub(crate) resolved: BTreeSet<String>,
}

/// The graph, by package id.
pub(crate) fn packages() -> BTreeMap<String, Package> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let target = "x86_64-unknown-linux-gnu";
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let members: BTreeSet<String> = list(&metadata["workspace_members"]).iter().map(text).collect();
    let mut packages = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let normal = || list(&package["dependencies"]).iter().filter(|d| d["kind"].is_null());
        let id = text(&package["id"]);
        packages.insert(
            id.clone(),
            Package {
                name: text(&package["name"]),
                version: text(&package["version"]),
                license: text(&package["license"]),
                member: members.contains(&id),
                dependencies: normal().map(|d| text(&d["name"])).collect(),
                features: normal()
                    .map(|d| (text(&d["name"]), list(&d["features"]).iter().map(text).collect()))
                    .collect(),
                resolved: BTreeSet::new(),
            },
        );
    }
    for node in list(&metadata["resolve"]["nodes"]) {
        let is_normal = |d: &&Value| list(&d["dep_kinds"]).iter().any(|k| k["kind"].is_null());
        let resolved = list(&node["deps"]).iter().filter(is_normal).map(|d| text(&d["pkg"])).collect();
        packages.get_mut(&text(&node["id"])).expect("listed").resolved = resolved;
    }
    packages
}

/// Name and version of every package that is built for the platform, with tests and build scripts.
pub(crate) fn built() -> BTreeSet<(String, String)> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let target = "x86_64-unknown-linux-gnu";
    let output = Command::new(cargo)
        .args(["tree", "--workspace", "--locked", "--prefix", "none", "--no-dedupe", "--format", "{p}"])
        .args(["--edges", "normal,build,dev", "--target", target])
        .current_dir(root())
        .output()
        .expect("cargo tree runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let package = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    let built: BTreeSet<_> = text.lines().filter_map(package).collect();
    assert!(built.len() > 50, "cargo tree lists the packages");
    built
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Every tracked or new source file below the root with one of these endings, without build output.
pub(crate) fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "node_modules" | "framegate-data" | "vectors")
                {
                    folders.push(path);
                }
            } else if endings.iter().any(|e| name.ends_with(e)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
