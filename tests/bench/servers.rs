//! The servers under load: ours, and peers installed on the machine. Each in a folder of its own, killed on drop.

use std::fs;
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Tree;
use crate::rabbitmq::PortMapper;

/// A running server.
pub(crate) struct Server {
    child: Child,
    _home: TempDir,
    /// Name in the figures.
    pub(crate) name: &'static str,
    /// `host:port` of its HTTP listener.
    pub(crate) http: String,
    /// `host:port` of its MessageX listener, if it has one.
    pub(crate) messagex: String,
    /// `host:port` of its AMQP listener, if it has one.
    pub(crate) amqp: String,
    /// `host:port` of a peer that speaks a protocol of its own.
    pub(crate) own: String,
    /// Ends after the server.
    _mapper: Option<PortMapper>,
}

impl Server {
    /// A server whose addresses are not known yet.
    pub(crate) fn started(
        child: Child,
        home: TempDir,
        name: &'static str,
        mapper: Option<PortMapper>,
    ) -> Self {
        let [http, messagex, amqp, own] = [const { String::new() }; 4];
        Self { child, _home: home, name, http, messagex, amqp, own, _mapper: mapper }
    }

    /// The release binary.
    pub(crate) fn framegate() -> io::Result<Self> {
        Self::framegate_with(&[])
    }

    /// The same with these in its environment.
    pub(crate) fn framegate_with(environment: &[(&str, &str)]) -> io::Result<Self> {
        let binary = std::env::var_os("FRAMEGATE_BIN").map(PathBuf::from);
        let binary = binary.unwrap_or_else(|| PathBuf::from("target/release/framegate"));
        let home = tempfile::tempdir()?;
        let ports = home.path().join("ports");
        let listeners = listener_names(&binary)?;
        let child = Command::new(&binary)
            .envs(environment.iter().copied())
            .args(listeners.iter().flat_map(|name| ["--listen".to_owned(), format!("{name}=127.0.0.1:0")]))
            .arg("--data-dir")
            .arg(home.path().join("data"))
            .arg("--ports-file")
            .arg(&ports)
            .stdout(Stdio::null())
            .stderr(fs::File::create(home.path().join("log"))?)
            .spawn()?;
        let addresses: serde_json::Value = wait(|| serde_json::from_slice(&fs::read(&ports).ok()?).ok())
            .ok_or_else(|| io::Error::other("not started"))?;
        let address = |name: &str| addresses[name].as_str().unwrap_or_default().to_owned();
        let mut server = Self::started(child, home, "framegate", None);
        (server.http, server.messagex, server.amqp) = (address("http"), address("messagex"), address("amqp"));
        Ok(server)
    }

    /// nginx with nchan, two workers.
    pub(crate) fn nchan() -> io::Result<Self> {
        let module = "/usr/lib/nginx/modules/ngx_nchan_module.so";
        if !Path::new(module).exists() {
            return Err(io::Error::other(
                "nchan is not installed (Debian packages nginx, libnginx-mod-nchan)",
            ));
        }
        let home = tempfile::tempdir()?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let dir = home.path().display();
        let config = format!(
            "load_module {module};\ndaemon off;\npid {dir}/pid;\nerror_log {dir}/error.log;\nworker_processes 2;\n\
             worker_rlimit_nofile 65536;\nevents {{ worker_connections 16384; }}\n\
             http {{ access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;\n\
             fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;\n\
             keepalive_requests 1000000;\nserver {{ listen 127.0.0.1:{port} backlog=8192;\n\
             location = /pub {{ nchan_publisher http; nchan_channel_id $arg_id; nchan_message_buffer_length 1000;\n\
             nchan_message_timeout 60s; }}\n\
             location = /sub {{ nchan_subscriber eventsource websocket; nchan_channel_id $arg_id;\n\
             nchan_subscriber_first_message newest; }} }} }}\n"
        );
        fs::write(home.path().join("nginx.conf"), config)?;
        let child = Command::new("/usr/sbin/nginx")
            .arg("-p")
            .arg(home.path())
            .arg("-c")
            .arg(home.path().join("nginx.conf"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(home.path().join("log"))?)
            .spawn()?;
        let http = format!("127.0.0.1:{port}");
        wait(|| std::net::TcpStream::connect(&http).ok())
            .ok_or_else(|| io::Error::other("nginx did not start"))?;
        let mut server = Self::started(child, home, "nchan", None);
        server.http = http;
        Ok(server)
    }

    /// This program as the null server.
    pub(crate) fn null() -> io::Result<Self> {
        let mut child =
            Command::new(std::env::current_exe()?).arg("null-server").stdout(Stdio::piped()).spawn()?;
        let mut port = String::new();
        if let Some(out) = child.stdout.take() {
            io::BufReader::new(out).read_line(&mut port)?;
        }
        let mut server = Self::started(child, tempfile::tempdir()?, "null", None);
        server.http = format!("127.0.0.1:{}", port.trim());
        Ok(server)
    }

    /// Its processes.
    pub(crate) fn tree(&self) -> Tree {
        Tree(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // nginx's workers end with their master when it is asked, not when it is killed
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// The listeners that a binary starts by itself, as its effective configuration says: none may take a fixed port here.
fn listener_names(binary: &Path) -> io::Result<Vec<String>> {
    let shown = Command::new(binary).arg("--check").output().map_err(|e| {
        io::Error::other(format!("{}: {e}; build it with cargo build --release", binary.display()))
    })?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let mut names = Vec::new();
    let mut lines = shown.lines();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("[listeners.").and_then(|line| line.strip_suffix(']'));
        if let (Some(name), false) = (name, name.is_some() && lines.next() == Some("addr = \"off\"")) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// A port that nobody has right now.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process's state cannot be awaited, only looked at again"
)]
pub(crate) fn wait<T>(mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if let Some(value) = probe() {
            return Some(value);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}
