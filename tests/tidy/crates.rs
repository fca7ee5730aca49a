//! Rules about crates: direction, rights, versions, licences, plugins.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::{Package, built, packages, root};

/// Position in the import line: a crate may import crates with a smaller number (and the few pairs below).
fn rank(name: &str) -> Option<u32> {
    Some(match name {
        "framegate-frame" => 0,
        "framegate-storage" => 1,
        "framegate-storage-memory" | "framegate-storage-journal" | "framegate-broker" => 2,
        "framegate-adaptor-api" => 3,
        "framegate-web" => 4,
        "framegate-adaptors" => 5,
        "framegate" => 6,
        "framegate-tests" => 7,
        protocol if protocol.starts_with("framegate-") => 4,
        _ => return None,
    })
}

fn members(packages: &BTreeMap<String, Package>) -> impl Iterator<Item = &Package> {
    packages.values().filter(|p| p.member)
}

#[test]
fn imports_go_one_way_only() {
    let packages = packages();
    for package in members(&packages) {
        let own =
            rank(&package.name).unwrap_or_else(|| panic!("{} has no place in the import line", package.name));
        for import in package.dependencies.iter().filter_map(|d| Some((d, rank(d)?))) {
            assert!(import.1 < own, "{} must not import {}", package.name, import.0);
        }
        let backends = ["framegate-storage-memory", "framegate-storage-journal"];
        if package.name != "framegate" {
            let backend = package.dependencies.iter().find(|d| backends.contains(&d.as_str()));
            assert_eq!(backend, None, "{}: only the server imports a backend", package.name);
        }
    }
}

#[test]
fn no_protocol_reaches_another_protocol() {
    let packages = packages();
    let plugins: BTreeSet<String> = plugin_folders().into_iter().map(|f| format!("framegate-{f}")).collect();
    for (id, package) in packages.iter().filter(|(_, p)| plugins.contains(&p.name)) {
        let mut closure = BTreeSet::new();
        let mut open = vec![id.clone()];
        while let Some(id) = open.pop() {
            if closure.insert(id.clone()) {
                open.extend(packages[&id].resolved.iter().cloned());
            }
        }
        for other in closure.iter().map(|id| &packages[id].name).filter(|n| plugins.contains(*n)) {
            assert_eq!(other, &package.name, "{} must not reach {other}", package.name);
        }
    }
}

/// Third-party crates that only some may use.
const RIGHTS: &[(&str, &[&str])] = &[
    (
        "axum",
        &[
            "framegate-adaptor-api",
            "framegate-cloudevents",
            "framegate-messagex",
            "framegate-web",
            "framegate",
        ],
    ),
    // the server's connections, and the client of web hooks
    ("hyper", &["framegate", "framegate-cloudevents"]),
    ("hyper-util", &["framegate", "framegate-cloudevents"]),
    ("rustls", &["framegate-cloudevents"]),
    ("aws-lc-rs", &["framegate-cloudevents"]),
    ("tower", &["framegate"]),
    ("tungstenite", &["framegate-adaptor-api", "framegate-tests"]),
    ("rmp-serde", &[]),
    ("clap", &["framegate"]),
    ("toml", &["framegate"]),
    ("ureq", &["framegate"]),
    ("crc32c", &["framegate-storage-journal"]),
    (
        "serde_json",
        &[
            "framegate-adaptor-api",
            "framegate-amqp",
            "framegate-bunqueue",
            "framegate-cloudevents",
            "framegate-eventmesh",
            "framegate-messagex",
            "framegate-web",
            "framegate",
            "framegate-tests",
        ],
    ),
];

#[test]
fn each_crate_uses_only_what_it_has_a_right_to() {
    let packages = packages();
    for package in members(&packages) {
        for (dependency, users) in RIGHTS {
            let uses = package.dependencies.contains(*dependency);
            assert!(
                !uses || users.contains(&package.name.as_str()),
                "{} must not use {dependency}",
                package.name
            );
        }
        match package.name.as_str() {
            "framegate-frame" => {
                assert_eq!(
                    package.dependencies,
                    BTreeSet::from(["bytes".to_owned()]),
                    "the frame needs bytes only"
                );
            }
            "framegate-broker" => {
                let features = &package.features["tokio"];
                assert_eq!(features, &["sync"], "the broker has no sockets, files or runtime");
            }
            _ => {}
        }
    }
}

#[test]
fn there_is_one_version_of_each_crate() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // of what is built: the lock file also holds what only features that nobody asks for would bring
    let built = built();
    let is_built = |p: &Package| built.contains(&(p.name.clone(), p.version.clone()));
    for package in packages().into_values().filter(is_built) {
        versions.entry(package.name).or_default().insert(package.version);
    }
    let twice: Vec<_> = versions.iter().filter(|(_, v)| v.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn licences_are_ones_that_can_be_shipped() {
    let allowed = [
        "MIT",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "Zlib",
        "Unicode-3.0",
        "Unlicense",
        "CC0-1.0",
        "BSL-1.0",
        "0BSD",
        "MIT-0",
    ];
    for package in packages().values() {
        let expression = package.license.replace(['(', ')'], " ").replace('/', " OR ");
        // every AND-part needs one allowed alternative
        let fine = expression.split(" AND ").all(|part| {
            part.split(" OR ").any(|l| allowed.contains(&l.trim().trim_end_matches(" WITH LLVM-exception")))
        });
        assert!(fine, "{} {} has licence '{}'", package.name, package.version, package.license);
    }
}

/// Folders under `adaptors/` that hold a protocol.
fn plugin_folders() -> Vec<String> {
    let mut folders: Vec<String> = std::fs::read_dir(root().join("adaptors"))
        .expect("adaptors")
        .flatten()
        .filter(|e| e.path().is_dir())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|f| f != "api" && f != "bundle")
        .collect();
    folders.sort();
    folders
}

#[test]
fn every_protocol_folder_is_linked_in_and_registered() {
    let bundle = std::fs::read_to_string(root().join("adaptors/bundle/Cargo.toml")).expect("bundle");
    for folder in plugin_folders() {
        let dependency = format!("\nframegate-{folder} ");
        assert!(bundle.contains(&dependency), "adaptors/bundle/Cargo.toml lacks {folder}");
    }
    let registered: Vec<_> =
        framegate_adaptor_api::protocols().expect("registry").iter().map(|p| p.name.to_owned()).collect();
    assert_eq!(registered, plugin_folders(), "registered protocols and folders under adaptors/");
}

#[test]
fn every_dependency_in_the_root_manifest_has_a_reason() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("manifest");
    let table =
        manifest.split("[workspace.dependencies]").nth(1).and_then(|t| t.split("\n[").next()).expect("table");
    for line in table.lines().filter(|l| l.contains('=') && !l.starts_with("framegate")) {
        let reason = line.split_once(" # ").map_or("", |(_, r)| r);
        assert!(reason.len() > 8, "no reason: {line}");
    }
}
