//! Tests of the server under load: many clients, slow clients, clients that disconnect, and shutdown.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::folders::{EXPORT, demo_history, many, shop};
use crate::server::{HttpResponse, Server};

#[test]
fn a_large_response_to_a_slow_reader_takes_little_memory() {
    let folder = many(150_000);
    let server = Server::start(folder.path(), &[]);
    let mut first = server.send("GET", "/api/v1/histories/many/changes", &[], b"");
    let mut begin = [0; 1000];
    first.read_exact(&mut begin).unwrap();
    // While this response is blocked others are served, and it continues where it was.
    server.get("/api/v1/histories").success();
    let mut rest = begin.to_vec();
    let mut piece = [0; 3_001];
    for _ in 0..1_000 {
        let length = first.read(&mut piece).unwrap();
        rest.extend_from_slice(&piece[..length]);
    }
    first.read_to_end(&mut rest).unwrap();
    let response = HttpResponse::read(&mut &rest[..]);
    let body = response.success();
    assert!(body.len() > 150_000_000, "{}", body.len());
    assert_eq!(body.iter().filter(|byte| **byte == b'\n').count(), 150_000);
    assert!(server.peak() < 80_000_000, "{} bytes of memory", server.peak());
}

#[test]
fn long_responses_are_limited_and_end_with_their_clients() {
    let folder = many(60_000);
    let server = Server::start(folder.path(), &[]);
    let changes_path = "/api/v1/histories/many/changes";
    let mut slow: Vec<TcpStream> = Vec::new();
    for _ in 0..16 {
        let mut stream = server.send("GET", changes_path, &[], b"");
        stream.read_exact(&mut [0; 100]).unwrap();
        slow.push(stream);
    }
    for path in
        [changes_path, "/api/v1/histories/many/objects", "/api/v1/histories/many/download", "/get-snapshot"]
    {
        assert!(server.get(path).failure(503).contains("16 long requests are running"), "{path}");
    }
    assert!(
        server
            .post("/export", &serde_json::from_str(EXPORT).unwrap())
            .failure(503)
            .contains("retry in a second")
    );
    // Light requests are still served.
    server.get("/api/v1/histories/many").success();
    server.get("/metrics").success();
    drop(slow);
    wait_for_free_slots(&server, Duration::from_secs(60));

    // Work that writes nothing until its end is stopped too: all of it would take many times as long.
    let silent: Vec<TcpStream> = (0..16).map(|_| server.send("GET", "/api/db/many.db", &[], b"")).collect();
    let began = Instant::now();
    while server.get(SHORT_HEAVY_REQUEST).code == 200 {
        assert!(began.elapsed() < Duration::from_secs(60), "no heavy request is running");
    }
    drop(silent);
    wait_for_free_slots(&server, Duration::from_secs(20));
}

/// A heavy request with a short response.
const SHORT_HEAVY_REQUEST: &str = "/api/v1/histories/many/changes?to=start";

/// Retries until all slots for heavy requests are free.
#[track_caller]
fn wait_for_free_slots(server: &Server, timeout: Duration) {
    let began = Instant::now();
    loop {
        let streams: Vec<TcpStream> =
            (0..16).map(|_| server.send("GET", SHORT_HEAVY_REQUEST, &[], b"")).collect();
        let responses = streams.into_iter().map(|mut stream| HttpResponse::read(&mut stream).code);
        if responses.collect::<Vec<_>>() == [200; 16] {
            return;
        }
        assert!(began.elapsed() < timeout, "requests of disconnected clients do not end");
    }
}

#[test]
fn a_hundred_concurrent_clients_are_served() {
    let day = demo_history();
    let server = Server::start(day.path(), &[]);
    let info = server.get("/api/v1/histories/day").success();
    let codes: Vec<u16> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..100)
            .map(|number| {
                let (server, info) = (&server, &info);
                scope.spawn(move || {
                    assert!(server.get("/api/v1/histories/day").success() == *info);
                    let heavy = ["/api/v1/histories/day/objects", "/get-snapshot"][number % 2];
                    let response = server.get(heavy);
                    let code = response.code;
                    if code == 200 {
                        assert!(!response.success().is_empty());
                    } else {
                        response.failure(503);
                    }
                    code
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(codes.iter().filter(|code| **code == 200).count() >= 16, "{codes:?}");
    server.get("/get-snapshot").success();
}

#[test]
fn an_aborted_response_is_incomplete() {
    let folder = many(20_000);
    let server = Server::start(folder.path(), &[]);
    let damage = |frame: &str| {
        let sqlite = rusqlite::Connection::open(folder.path().join("many.kine")).unwrap();
        let sql = format!("UPDATE frame SET bytes = zeroblob(100) WHERE id = (SELECT {frame} FROM block)");
        assert_eq!(sqlite.execute(&sql, []).unwrap(), 1);
    };
    damage("max(frame)");
    let response = server.get("/api/v1/histories/many/changes");
    assert_eq!((response.code, response.is_complete), (200, false));
    assert!(response.body.len() > 1_000_000);
    // An error before the first chunk has its own status code.
    damage("min(frame)");
    assert!(server.get("/api/v1/histories/many/changes").failure(409).contains("is damaged"));
    assert!(server.get("/api/db/many.db").failure(409).contains("is damaged"));
}

#[test]
fn a_locked_history_is_reported_as_retryable() {
    let shop = shop();
    let server = Server::start(shop.path(), &[]);
    let sqlite = rusqlite::Connection::open(shop.path().join("shop.kine")).unwrap();
    sqlite.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(server.get("/api/v1/histories/shop").failure(503).contains("database is locked"));
    sqlite.execute_batch("ROLLBACK").unwrap();
    server.get("/api/v1/histories/shop").success();
}

#[test]
fn a_history_that_has_not_changed_is_not_opened_for_each_list() {
    let shop = shop();
    let server = Server::start(shop.path(), &[]);
    let path = shop.path().join("shop.kine");
    // Right after a change another one might leave the same timestamp.
    while path.metadata().unwrap().modified().unwrap().elapsed().unwrap() < Duration::from_secs(2) {
        std::thread::yield_now();
    }
    let lists = || {
        let metrics = server.get("/metrics").text();
        let figures =
            metrics.lines().filter(|line| line.starts_with("kinescope_history_") && !line.contains("_age_"));
        let figures: Vec<String> = figures.map(str::to_owned).collect();
        (figures, server.get("/").text(), server.get("/api/v1/histories").text())
    };
    let before = lists();
    assert!(before.0.contains(&"kinescope_history_changes{history=\"shop\"} 4".to_owned()), "{before:?}");
    // This lock keeps all readers out.
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    sqlite.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert_eq!(lists(), before);
    sqlite.execute_batch("DELETE FROM gap; COMMIT").unwrap();
    drop(sqlite);
    let after = lists();
    assert!(after.0.contains(&"kinescope_history_gaps{history=\"shop\"} 0".to_owned()), "{after:?}");
}

#[test]
fn idle_clients_are_evicted_for_others() {
    let shop = shop();
    let server = Server::start(shop.path(), &[]);
    let mut connections: Vec<TcpStream> =
        (0..600).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for _ in 0..10 {
        server.get("/healthz").success();
        server.get("/api/v1/histories").success();
    }
    // The oldest idle connection is evicted first.
    connections[0].set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let read = connections[0].read(&mut [0; 100]);
    assert!(matches!(read, Ok(0)) || read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
}

#[test]
fn the_server_shuts_down_gracefully_within_seconds() {
    let folder = many(60_000);
    for (name, path, has_response) in [
        ("-TERM", "/healthz", true),
        ("-INT", "/api/v1/histories/many/changes", true),
        ("-TERM", "/api/db/many.db", false),
    ] {
        let mut server = Server::start(folder.path(), &[]);
        let mut client = server.send("GET", path, &[], b"");
        if has_response {
            client.read_exact(&mut [0; 50]).unwrap();
        }
        let began = Instant::now();
        server.signal(name);
        let code = server.child.wait().unwrap();
        assert!(code.success(), "{name}: {code}");
        assert!(began.elapsed() < Duration::from_secs(3), "{name}: {:?}", began.elapsed());
        // An aborted response is recognizable as incomplete.
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        assert!(path == "/healthz" || !rest.ends_with(b"0\r\n\r\n"), "{path}");
        assert!(TcpStream::connect(server.address).is_err());
    }
}

#[test]
fn a_client_without_a_request_is_disconnected() {
    let shop = shop();
    let server = Server::start(shop.path(), &[]);
    let began = Instant::now();
    let mut silent = TcpStream::connect(server.address).unwrap();
    let mut half = TcpStream::connect(server.address).unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nHost: local").unwrap();
    let mut hesitant = TcpStream::connect(server.address).unwrap();
    hesitant.write_all(b"POST /export HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{").unwrap();
    for stream in [&mut silent, &mut half, &mut hesitant] {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut output = Vec::new();
        let _ = stream.read_to_end(&mut output);
        let output = String::from_utf8_lossy(&output);
        assert!(output.is_empty() || output.starts_with("HTTP/1.1 408 "), "{output}");
    }
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
}
