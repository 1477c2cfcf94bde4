//! Floods of connections and slow readers on a virtual cluster: other clients are served, and memory stays bounded.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::command;
use crate::kube_client::connect;
use crate::server::Server;

/// More than the server's limit of connections.
const FLOOD: usize = 600;

#[tokio::test]
async fn idle_connections_do_not_lock_out_clients() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::of(command(folder.path()).args(["cluster", "--nodes", "1"]));
    let mut idle: Vec<TcpStream> = (0..FLOOD).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for _ in 0..5 {
        let client = connect(folder.path()).await;
        assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    }
    // The oldest is closed first.
    idle[0].set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(!matches!(idle[0].read(&mut [0; 100]), Ok(1..)));
}

#[test]
fn slow_clients_do_not_lock_out_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::of(command(folder.path()).args(["cluster", "--insecure"]));
    let begin_request = || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(b"GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
        stream
    };
    let _slow: Vec<TcpStream> = (0..FLOOD).map(|_| begin_request()).collect();
    for _ in 0..20 {
        server.get("/api/v1/nodes").success();
    }
}

#[test]
fn slow_readers_hold_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::of(command(folder.path()).args(["cluster", "--insecure", "--nodes", "3000"]));
    // The nodes are made ready first, which takes memory of its own.
    let deadline = Instant::now() + Duration::from_secs(60);
    let length = loop {
        let nodes = server.get("/api/v1/nodes").success();
        if String::from_utf8_lossy(&nodes).matches(r#""reason":"KubeletReady""#).count() == 3000 {
            break nodes.len();
        }
        assert!(Instant::now() < deadline, "{}", nodes.len());
    };
    assert!(length > 2_000_000, "{length}");
    let before = server.peak();
    let mut slow = Vec::new();
    for path in ["/api/v1/nodes", "/api/v1/nodes?watch=true"] {
        for _ in 0..50 {
            let mut stream = server.send("GET", path, &[], b"");
            stream.read_exact(&mut [0; 1000]).unwrap();
            slow.push(stream);
        }
    }
    server.get("/api/v1/nodes").success();
    let used = server.peak() - before;
    // All responses in memory would be 100 times the length.
    assert!(used < 30 * length as u64, "{used} bytes for {} readers of {length} bytes", slow.len());
}
