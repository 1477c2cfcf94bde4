//! Tests of floods of unauthenticated connections: probes and authenticated clients are still served.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};

use crate::folders::{EXPORT, shop};
use crate::server::{HttpResponse, Server, write_request};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The connection limit of a server.
const CONNECTION_LIMIT: usize = 512;

/// Connects from a loopback address that no other test uses.
fn connect_from(runtime: &Runtime, last: u8, to: SocketAddr) -> TcpStream {
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(Ipv4Addr::new(127, 0, 7, last).into(), 0)).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Whether the server has closed a connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1000]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Unauthenticated clients on more connections than the limit. They send a byte of a header now and then, and reconnect
/// when they are evicted, until `stop`.
fn flood(address: SocketAddr, is_full: &AtomicBool, stop: &AtomicBool) {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let connect = |number: usize| {
        let mut stream = connect_from(&runtime, 1 + (number % 6) as u8, address);
        let _ = stream.write_all(b"GET /api/v1/histories HTTP/1.1\r\nHost: localhost\r\nX: ");
        stream
    };
    let mut all: Vec<TcpStream> = (0..CONNECTION_LIMIT + 20).map(connect).collect();
    while !stop.load(Ordering::Relaxed) {
        for (number, stream) in all.iter_mut().enumerate() {
            if is_closed(stream) || stream.write_all(b"x").is_err() {
                is_full.store(true, Ordering::Relaxed);
                *stream = connect(number);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_flood_of_connections_blocks_neither_probes_nor_clients() {
    let shop = shop();
    std::fs::write(shop.path().join("token"), TOKEN).unwrap();
    let mut server =
        Server::start(shop.path(), &["--token-file", "token", "--health-probe-bind-address", "127.0.0.1:0"]);
    let probes = server.next_line();
    let probes = probes.trim().rsplit_once("//").unwrap_or_else(|| panic!("{probes}")).1.parse().unwrap();
    for (address, path) in [(server.address, "/api/v1/histories"), (probes, "/readyz")] {
        let (is_full, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| flood(address, &is_full, &stop));
            let send_request = |address: SocketAddr, path: &str| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let token = format!("Authorization: Bearer {TOKEN}");
                write_request(&mut stream, "GET", path, &[&token], b"", &address.to_string());
                let mut response = Vec::new();
                let _ = stream.read_to_end(&mut response);
                String::from_utf8(response).unwrap()
            };
            let begun = Instant::now();
            while !is_full.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                std::thread::yield_now();
            }
            let responses: Vec<String> = (0..20)
                .flat_map(|_| {
                    [
                        send_request(probes, "/healthz"),
                        send_request(probes, "/readyz"),
                        send_request(address, path),
                    ]
                })
                .collect();
            // Before any assertion, or the threads of the flood would never end.
            stop.store(true, Ordering::Relaxed);
            assert!(is_full.load(Ordering::Relaxed));
            for response in responses {
                assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response:?}");
            }
        });
    }
}

#[test]
fn probes_are_served_on_their_own_listener() {
    let shop = shop();
    std::fs::write(shop.path().join("token"), TOKEN).unwrap();
    let mut server =
        Server::start(shop.path(), &["--token-file", "token", "--health-probe-bind-address", "127.0.0.1:0"]);
    let output = server.next_line();
    let probes: SocketAddr = output.trim().strip_prefix("health probes on http://").unwrap().parse().unwrap();
    let send_request = |path: &str| {
        let mut stream = TcpStream::connect(probes).unwrap();
        write_request(&mut stream, "GET", path, &["Host: kinescope-0.kinescope"], b"", "");
        HttpResponse::read(&mut stream)
    };
    for path in ["/healthz", "/readyz"] {
        let response = send_request(path);
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.success(), b"ok\n");
        // On the other listener unauthenticated requests are rejected without any work.
        server.get(path).failure(401);
        server.request("GET", path, &[&format!("Authorization: Bearer {TOKEN}")], b"").success();
    }
    for path in ["/", "/metrics", "/api/v1/histories", "/openapi.json"] {
        send_request(path).failure(404);
    }
    let error = crate::common::run(shop.path(), &["serve", "--health-probe-bind-address", "8081"]).failure(1);
    assert!(error.contains("invalid address \"8081\": expected ADDRESS:PORT"), "{error}");
}

#[test]
fn unauthenticated_connections_are_closed_after_the_response() {
    let shop = shop();
    std::fs::write(shop.path().join("token"), TOKEN).unwrap();
    let server = Server::start(shop.path(), &["--token-file", "token"]);
    let long = format!("Content-Length: {}\r\n\r\n{EXPORT}", EXPORT.len() + 1);
    for (line, rest, code) in [
        ("GET /api/v1/histories", "\r\n", "401"),
        ("GET /healthz", "\r\n", "200"),
        ("GET /nowhere", "Authorization: Bearer 0123456789abcdef\r\n\r\n", "401"),
        // A request body that does not end is not awaited.
        ("POST /export", &*long, "401"),
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(format!("{line} HTTP/1.1\r\nHost: localhost\r\n{rest}").as_bytes()).unwrap();
        let response = HttpResponse::read(&mut stream);
        assert_eq!(response.header("connection"), Some("close"), "{line}");
        assert_eq!(response.code.to_string(), code, "{line}");
    }
    // Connections of authenticated clients stay open.
    let mut stream = TcpStream::connect(server.address).unwrap();
    for _ in 0..3 {
        let token = format!("Authorization: Bearer {TOKEN}");
        let request = format!("GET /api/v1/recordings HTTP/1.1\r\nHost: localhost\r\n{token}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"{\"recordings\":[]}") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            response.extend(byte);
        }
        assert!(!String::from_utf8(response).unwrap().contains("connection: close"));
    }
}
