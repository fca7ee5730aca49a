//! CONTRIBUTING.md is true: a protocol is one folder and one line, inside the workspace or outside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace").to_owned()
}

/// The blocks of CONTRIBUTING.md whose first line has `KEY=PATH`, as (path, text).
fn blocks(key: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let mut found = Vec::new();
    for block in text.split("\n```").filter(|b| !b.starts_with('\n')) {
        let (head, body) = block.split_once('\n').unwrap_or((block, ""));
        if let Some(path) = head.split(' ').find_map(|w| w.strip_prefix(key)?.strip_prefix('=')) {
            found.push((path.to_owned(), format!("{body}\n")));
        }
    }
    found
}

/// Copies the workspace's sources (no build output) below `to`.
fn copy_workspace(to: &Path) {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        fs::create_dir_all(to.join(&folder)).expect("folder");
        for entry in fs::read_dir(root().join(&folder)).expect("folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            if entry.path().is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "framegate-data" | "interop") {
                    folders.push(path);
                }
            } else {
                fs::copy(entry.path(), to.join(&path)).expect("copied");
            }
        }
    }
}

/// Runs cargo in a folder with a target folder that stays between runs.
fn cargo(folder: &Path, args: &[&str]) {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let target = harness::gateway::binary().parent().and_then(Path::parent).expect("target").join("toy");
    let output = Command::new(cargo)
        .args(args)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .expect("cargo runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "cargo {args:?}:\n{}\n{}", text(&output.stdout), text(&output.stderr));
    let out = text(&output.stdout);
    assert!(
        !args.contains(&"test") || out.contains(" 1 passed") || out.contains(" 2 passed"),
        "nothing ran: {out}"
    );
}

#[test]
fn one_folder_and_one_line_add_a_protocol_that_passes_compliance_and_the_matrix() {
    let dir = tempfile::tempdir().expect("folder");
    copy_workspace(dir.path());
    let files = blocks("file");
    assert_eq!(files.len(), 5);
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("folder")).expect("folder");
        fs::write(path, text).expect("written");
    }
    let lines = blocks("line");
    assert_eq!((lines.len(), lines[0].1.lines().count()), (1, 1), "one line");
    let manifest = dir.path().join(&lines[0].0);
    let text = fs::read_to_string(&manifest).expect("manifest");
    fs::write(&manifest, text.replace("[dependencies]\n", &format!("[dependencies]\n{}", lines[0].1)))
        .expect("written");
    cargo(
        dir.path(),
        &[
            "test",
            "-p",
            "framegate-tests",
            "--test",
            "wire",
            "--",
            "--exact",
            "matrix::whatever_one_protocol_publishes_any_other_can_consume",
        ],
    );
    cargo(
        dir.path(),
        &[
            "test",
            "-p",
            "framegate-tests",
            "--test",
            "wire",
            "--",
            "--exact",
            "compliance::every_registered_adaptor_and_session_complies",
        ],
    );

    // outside the workspace: a main of three lines
    let outside = tempfile::tempdir().expect("folder");
    fs::create_dir_all(outside.path().join("src")).expect("folder");
    let at = |crate_folder: &str| dir.path().join(crate_folder).display().to_string();
    let manifest = format!(
        "[package]\nname = \"mine\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         framegate = {{ path = {:?} }}\nframegate-toy = {{ path = {:?} }}\n",
        at("gateway/server"),
        at("adaptors/toy")
    );
    fs::write(outside.path().join("Cargo.toml"), manifest).expect("written");
    let main = "use framegate_toy as _;\n\nfn main() -> std::process::ExitCode { framegate::main() }\n";
    fs::write(outside.path().join("src/main.rs"), main).expect("written");
    fs::copy(root().join("Cargo.lock"), outside.path().join("Cargo.lock")).expect("copied");
    cargo(outside.path(), &["run", "--", "--check"]);
}
