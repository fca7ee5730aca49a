//! Memory of idle connections.

use std::io;

use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::servers::Server;
use crate::subscriber::{Hello, text_message, upgrade};

const CONNECTIONS: u64 = 2000;

/// Resident memory that the server gains per connection of each kind, a fresh server for each.
///
/// # Errors
/// A connection is refused.
pub(crate) fn run(runtime: &Runtime) -> io::Result<()> {
    let websocket = Hello {
        then: text_message(r#"{"op":"subscribe","id":1,"sub":"s","topic":"idle","ack":"auto"}"#),
        ready: r#""op":"ok""#,
        ..Hello::get("/v1/ws", &upgrade("Sec-WebSocket-Protocol: framegate.v1.json\r\n"))
    };
    let kinds = [
        ("messagex", None),
        ("sse", Some(Hello::get("/v1/sse?topic=idle", "Accept: text/event-stream\r\n"))),
        ("websocket", Some(websocket)),
    ];
    for (kind, hello) in kinds {
        let server = Server::framegate()?;
        let before = server.tree().rss_kib();
        let sockets = runtime.block_on(connect(&server, hello.as_ref()))?;
        let grown = server.tree().rss_kib().saturating_sub(before);
        drop(sockets);
        let each = grown as f64 / CONNECTIONS as f64;
        let object =
            serde_json::json!({"path": format!("idle {kind}"), "connections": CONNECTIONS, "kib_each": each});
        println!("{object}");
        eprintln!("idle {kind}: {each:.1} KiB a connection");
    }
    Ok(())
}

async fn connect(server: &Server, hello: Option<&Hello>) -> io::Result<Vec<TcpStream>> {
    let mut sockets = Vec::new();
    for _ in 0..CONNECTIONS {
        sockets.push(match hello {
            Some(hello) => {
                let mut socket = hello.connect(&server.http).await?;
                hello.subscribe(&mut socket).await?;
                socket
            }
            None => {
                let mut socket = TcpStream::connect(&server.messagex).await?;
                crate::messagex::ping(&mut socket).await?;
                socket
            }
        });
    }
    Ok(sockets)
}
