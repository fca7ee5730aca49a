//! RabbitMQ as a peer: a node of its own on free loopback ports, stopped with its port mapper.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::servers::{Server, free_port, wait};

/// The inner script: the outer one changes the user and writes its own logs.
const SCRIPT: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Erlang's port mapper, which the node starts by itself and leaves behind.
#[derive(Debug)]
pub(crate) struct PortMapper(u16);

impl Drop for PortMapper {
    fn drop(&mut self) {
        let port = self.0.to_string();
        let _ = Command::new("epmd").args(["-port", &port, "-kill"]).stdout(Stdio::null()).status();
    }
}

impl Server {
    /// RabbitMQ, as Debian packages it.
    pub(crate) fn rabbitmq() -> io::Result<Self> {
        if !Path::new(SCRIPT).exists() {
            return Err(io::Error::other("RabbitMQ is not installed (Debian package rabbitmq-server)"));
        }
        let home = tempfile::tempdir()?;
        let dir = home.path();
        let (amqp, mapper, node) = (free_port()?, free_port()?, free_port()?);
        let config = format!(
            "listeners.tcp.1 = 127.0.0.1:{amqp}\nloopback_users = none\nvm_memory_high_watermark.relative = 0.6\n"
        );
        fs::write(dir.join("rabbitmq.conf"), config)?;
        fs::write(dir.join("enabled_plugins"), "[].")?;
        let child = Command::new(SCRIPT)
            .env("HOME", dir)
            .env("RABBITMQ_CONFIG_FILE", dir.join("rabbitmq.conf"))
            .env("RABBITMQ_MNESIA_BASE", dir.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", dir.join("log"))
            .env("RABBITMQ_LOGS", dir.join("log/node"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", dir.join("enabled_plugins"))
            .env("RABBITMQ_NODENAME", format!("bench{node}@localhost"))
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", mapper.to_string())
            .env("RABBITMQ_DIST_PORT", node.to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
            .stdout(fs::File::create(dir.join("out"))?)
            .stderr(fs::File::create(dir.join("err"))?)
            .spawn()?;
        let out = dir.join("out");
        let mut server = Self::started(child, home, "rabbitmq", Some(PortMapper(mapper)));
        wait(|| fs::read_to_string(&out).ok()?.contains("completed with").then_some(()))
            .ok_or_else(|| io::Error::other("RabbitMQ did not start"))?;
        server.amqp = format!("127.0.0.1:{amqp}");
        Ok(server)
    }
}
