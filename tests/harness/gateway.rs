//! One running server: started on free ports, ready when `start` returns, killed with its process group on drop.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::http;
use crate::wait::{WAIT_MAX, wait_until};

/// How to start a server.
#[derive(Default, Clone)]
pub struct Options {
    /// Configuration file text.
    pub config: String,
    /// More command line arguments.
    pub args: Vec<String>,
    /// Environment.
    pub env: Vec<(String, String)>,
}

impl Options {
    /// Adds configuration text.
    #[must_use]
    pub fn config(mut self, text: &str) -> Self {
        self.config.push_str(text);
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }
}

/// A running server.
pub struct Gateway {
    child: Child,
    home: Arc<TempDir>,
    options: Options,
    listeners: BTreeMap<String, String>,
}

/// The server binary that cargo built beside the tests.
#[must_use]
pub fn binary() -> PathBuf {
    let exe = std::env::current_exe().expect("the test has a path");
    let dir = exe.parent().and_then(Path::parent).expect("target/PROFILE/deps");
    dir.join("framegate-under-test")
}

impl Gateway {
    /// Starts with default options in a new data directory.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(Options::default())
    }

    /// Starts in a new data directory.
    #[must_use]
    pub fn start_with(options: Options) -> Self {
        let home = Arc::new(tempfile::tempdir().expect("temporary folder"));
        Self::start_in(home, options)
    }

    fn start_in(home: Arc<TempDir>, options: Options) -> Self {
        let ports = home.path().join("ports.json");
        let _ = fs::remove_file(&ports);
        let config = home.path().join("framegate.toml");
        fs::write(&config, &options.config).expect("config written");
        let log =
            fs::OpenOptions::new().create(true).append(true).open(home.path().join("log")).expect("log file");
        let mut command = Command::new(binary());
        command.arg("--config").arg(&config).arg("--data-dir").arg(home.path().join("data"));
        command.arg("--ports-file").arg(&ports);
        for name in listener_names() {
            command.arg("--listen").arg(format!("{name}=127.0.0.1:0"));
        }
        command.args(&options.args).envs(options.env.iter().cloned());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("log")).stderr(log).process_group(0);
        let mut child = command.spawn().expect("server starts");
        let listeners: BTreeMap<String, String> = wait_until("the ports file", || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!(
                    "server ended with {status}: {}",
                    fs::read_to_string(home.path().join("log")).unwrap_or_default()
                );
            }
            serde_json::from_slice(&fs::read(&ports).ok()?).ok()
        });
        let gateway = Self { child, home, options, listeners };
        wait_until("ready", || {
            http::try_request(&gateway.address("http"), "GET", "/readyz", &[], b"")
                .ok()
                .filter(|r| r.status == 200)
        });
        gateway
    }

    /// Address of a listener.
    ///
    /// # Panics
    /// When it is not started.
    #[must_use]
    pub fn address(&self, listener: &str) -> String {
        self.listeners
            .get(listener)
            .unwrap_or_else(|| panic!("no listener {listener}: {:?}", self.listeners))
            .clone()
    }

    /// All listeners.
    #[must_use]
    pub fn listeners(&self) -> &BTreeMap<String, String> {
        &self.listeners
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Folder with `data`, `log` and the configuration.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Everything that it has printed.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// `kill -9`, then a new process on the same data.
    #[must_use]
    pub fn kill_and_restart(self) -> Self {
        let options = self.options.clone();
        self.kill_and_restart_with(options)
    }

    /// `kill -9`, then a new process on the same data with other options.
    #[must_use]
    pub fn kill_and_restart_with(mut self, options: Options) -> Self {
        self.kill();
        let home = Arc::clone(&self.home);
        drop(self);
        Self::start_in(home, options)
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    fn signal(&self, signal: Signal) {
        let group = Pid::from_raw(i32::try_from(self.child.id()).expect("process id"));
        let _ = killpg(group, signal);
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        wait_until("the server's end", || self.child.try_wait().expect("child can be waited for"))
    }

    /// SIGTERM, the end, then a new process on the same data.
    #[must_use]
    pub fn restart(mut self) -> Self {
        self.terminate();
        let status = self.wait();
        assert!(status.success(), "clean stop: {status}: {}", self.log());
        let (home, options) = (Arc::clone(&self.home), self.options.clone());
        drop(self);
        Self::start_in(home, options)
    }

    /// A counter or gauge of `/metrics`: the sum over its labels, 0 when it is not there.
    #[must_use]
    pub fn metric(&self, name: &str) -> f64 {
        let text = http::request(&self.address("http"), "GET", "/metrics", &[], b"").text();
        let is_metric = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
        };
        text.lines().filter(is_metric).filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Resident memory in KiB.
    #[must_use]
    pub fn rss_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of the server ---\n{}", self.log());
        }
    }
}

/// Names of all listeners that are linked in and start by default.
fn listener_names() -> Vec<&'static str> {
    let mut names = vec!["http"];
    for protocol in framegate_adaptor_api::protocols().expect("registry") {
        for mount in protocol.mounts {
            if matches!(mount.default, framegate_adaptor_api::DefaultListener::Port(_)) {
                names.push(mount.name);
            }
        }
    }
    names
}

/// Runs the binary to its end and gives exit code, stdout and stderr.
///
/// # Panics
/// When it does not end.
#[must_use]
pub fn run(args: &[&str], env: &[(&str, &str)], dir: &Path) -> (Option<i32>, String, String) {
    let mut child = Command::new(binary())
        .args(args)
        .env("FRAMEGATE_LISTENERS__AMQP__ADDR", "127.0.0.1:0")
        .envs(env.iter().copied())
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(fs::File::create(dir.join("stdout")).expect("stdout"))
        .stderr(fs::File::create(dir.join("stderr")).expect("stderr"))
        .process_group(0)
        .spawn()
        .expect("binary starts");
    let deadline = Instant::now() + WAIT_MAX;
    let status = wait_until("the command's end", || {
        if Instant::now() > deadline {
            let _ = child.kill();
        }
        child.try_wait().expect("child")
    });
    let read = |name| fs::read_to_string(dir.join(name)).unwrap_or_default();
    (status.code(), read("stdout"), read("stderr"))
}
