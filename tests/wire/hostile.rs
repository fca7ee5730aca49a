//! Hostile peers on every listener: each gets its protocol's refusal, none costs memory or other clients' answers.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use harness::messagex::MessageX;
use harness::{Gateway, wait_until};
use serde_json::json;

/// First bytes of every protocol, and junk.
fn inputs() -> Vec<(&'static str, Vec<u8>)> {
    let garbage: Vec<u8> = (0_u32..4096).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    vec![
        ("garbage", garbage),
        ("zeros", vec![0; 64]),
        ("HTTP request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("TLS hello", vec![0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]),
        ("AMQP header", b"AMQP\x00\x00\x09\x01".to_vec()),
        ("MessageX command", {
            let body = br#"{"version":1,"type":"COMMAND","command":"PING","requestId":"1","payload":{}}"#;
            [&(u32::try_from(body.len()).expect("short")).to_be_bytes()[..], body].concat()
        }),
        (
            "MessagePack command",
            vec![0, 0, 0, 10, 0x81, 0xa3, b'c', b'm', b'd', 0xa4, b'P', b'i', b'n', b'g'],
        ),
        ("EventMesh package", b"EventMesh\x00\x00\x00\x00\x01\x00\x00\x00\x01".to_vec()),
        ("lying length", vec![0xff, 0xff, 0xff, 0xff, b'{']),
        ("oversize length", vec![0x00, 0x10, 0x00, 0x01, b'{', b'"']),
        ("huge header", [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; 256 * 1024]].concat()),
    ]
}

/// How the server answered: the first bytes, as text, and whether it closed.
fn refusal(socket: &mut TcpStream) -> String {
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("timeout");
    let mut seen = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return format!("{} | closed", short(&seen)),
            Ok(n) => seen.extend_from_slice(&buffer[..n]),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                return format!("{} | open", short(&seen));
            }
            Err(_) => return format!("{} | reset", short(&seen)),
        }
        if seen.len() > 64 * 1024 {
            return format!("{} | open", short(&seen));
        }
    }
}

fn short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    line.split("error\":").last().unwrap_or(line).chars().take(70).collect()
}

/// A client that goes on asking; every question must be answered.
fn well_behaved(
    address: String,
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut client = MessageX::connect(&address);
        client.declare("good");
        while !stop.load(Ordering::Relaxed) {
            client.publish("good", &json!(1));
            assert!(client.get("good").is_some());
            answers.fetch_add(1, Ordering::Relaxed);
        }
    })
}

#[test]
fn every_listener_refuses_hostile_input_and_keeps_serving() {
    let gateway = Gateway::start();
    let stop = Arc::new(AtomicBool::new(false));
    let answers = Arc::new(AtomicU64::new(0));
    let good = well_behaved(gateway.address("messagex"), Arc::clone(&stop), Arc::clone(&answers));
    wait_until("the good client", || (answers.load(Ordering::Relaxed) > 10).then_some(()));

    println!("{:<14} {:<22} refusal", "listener", "input");
    let mut rows = 0;
    for (listener, address) in gateway.listeners() {
        for (name, bytes) in inputs() {
            let mut socket = TcpStream::connect(address).expect("connects");
            let _ = socket.write_all(&bytes);
            println!("{listener:<14} {name:<22} {}", refusal(&mut socket));
            rows += 1;
        }
        let mut slow = TcpStream::connect(address).expect("connects");
        slow.set_nodelay(true).expect("nodelay");
        for byte in &inputs()[0].1[..64] {
            if slow.write_all(&[*byte]).is_err() {
                break;
            }
        }
        println!("{listener:<14} {:<22} {}", "a byte at a time", refusal(&mut slow));
        let mut half = TcpStream::connect(address).expect("connects");
        let _ = half.write_all(&[0, 0]);
        half.shutdown(Shutdown::Write).expect("half-closed");
        let seen = refusal(&mut half);
        println!("{listener:<14} {:<22} {seen}", "half-closed");
        assert!(!seen.ends_with("| open"), "{listener}: a half-closed connection is closed");
        rows += 2;
    }
    assert!(rows >= gateway.listeners().len() * (inputs().len() + 2));

    let before = answers.load(Ordering::Relaxed);
    wait_until("answers after it", || (answers.load(Ordering::Relaxed) > before + 50).then_some(()));
    stop.store(true, Ordering::Relaxed);
    good.join().expect("the good client got every answer");
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
}

#[test]
fn hostile_connections_that_stay_open_cost_at_most_64_kib_each() {
    const CONNECTIONS: u64 = 1000;
    let gateway = Gateway::start();
    let stop = Arc::new(AtomicBool::new(false));
    let answers = Arc::new(AtomicU64::new(0));
    let good = well_behaved(gateway.address("messagex"), Arc::clone(&stop), Arc::clone(&answers));
    wait_until("the good client", || (answers.load(Ordering::Relaxed) > 100).then_some(()));
    for (listener, address) in gateway.listeners() {
        let before = gateway.rss_kib();
        let mut open = Vec::new();
        for n in 0..CONNECTIONS {
            let mut socket = TcpStream::connect(address).expect("connects");
            // silent, or announcing the largest packet and sending none of it, or never reading
            match n % 3 {
                0 => {}
                1 => socket.write_all(&[0x00, 0x10, 0x00, 0x00]).expect("written"),
                _ => {
                    let ping = br#"{"version":1,"type":"COMMAND","command":"PING","requestId":"1"}"#;
                    let frame =
                        [&(u32::try_from(ping.len()).expect("short")).to_be_bytes()[..], ping].concat();
                    let _ = socket.write_all(&frame.repeat(20));
                }
            }
            open.push(socket);
        }
        let seen = answers.load(Ordering::Relaxed);
        wait_until("the good client goes on", || (answers.load(Ordering::Relaxed) > seen + 20).then_some(()));
        let grown = gateway.rss_kib().saturating_sub(before);
        println!("{listener}: {grown} KiB for {CONNECTIONS} hostile connections");
        assert!(grown <= CONNECTIONS * 64, "{listener}: {grown} KiB");
    }
    stop.store(true, Ordering::Relaxed);
    good.join().expect("the good client got every answer");
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
}
