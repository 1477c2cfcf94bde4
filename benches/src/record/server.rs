//! A scripted API server: plain HTTP on loopback, with only the endpoints that a recorder uses.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::script::{KindScript, ServerScript};
use crate::Result;

/// A server that sends the responses of its script to any number of clients. Its threads end with this process.
pub(super) struct ScriptedServer {
    url: String,
    state: Arc<ServerState>,
}

/// The rate at which watches send events.
#[derive(Clone, Copy)]
pub(super) enum WatchRate {
    /// As fast as the client reads.
    Unlimited,
    /// The number of changes per second, of all kinds together.
    PerSecond(usize),
}

struct ServerState {
    script: Arc<ServerScript>,
    rate: WatchRate,
    /// When the watches started sending; `None` before.
    began: Mutex<Option<Instant>>,
    has_begun: Condvar,
    /// The number of watch requests.
    watches: AtomicUsize,
}

/// How often a watch with a limited rate sends the events that are due.
const SEND_INTERVAL: Duration = Duration::from_millis(2);
/// The limit for the head of a request.
const MAX_HEAD: u64 = 64 << 10;

// === impl ScriptedServer ===

impl ScriptedServer {
    /// Starts to respond. Watches send nothing before [`start_watches`](ScriptedServer::start_watches).
    pub(super) fn start(script: Arc<ServerScript>, rate: WatchRate) -> Result<ScriptedServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = Arc::new(ServerState {
            script,
            rate,
            began: Mutex::new(None),
            has_begun: Condvar::new(),
            watches: AtomicUsize::new(0),
        });
        let thread_state = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = thread_state.clone();
                // An error means that the client has disconnected.
                std::thread::spawn(move || drop(state.serve(&client)));
            }
        });
        Ok(ScriptedServer { url, state })
    }

    /// A kubeconfig for this server.
    pub(super) fn kubeconfig(&self) -> String {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "made-up", "cluster": { "server": self.url } }],
            "users": [{ "name": "nobody", "user": {} }],
            "contexts": [{ "name": "made-up", "context": { "cluster": "made-up", "user": "nobody" } }],
            "current-context": "made-up",
        });
        format!("{config:#}\n")
    }

    /// Starts the watches and returns the time of the start.
    pub(super) fn start_watches(&self) -> Instant {
        let mut began = self.state.began.lock().unwrap_or_else(PoisonError::into_inner);
        let now = *began.get_or_insert_with(Instant::now);
        self.state.has_begun.notify_all();
        now
    }

    /// The number of watch requests so far.
    pub(super) fn watches(&self) -> usize {
        self.state.watches.load(Ordering::Relaxed)
    }
}

// === impl ServerState ===

impl ServerState {
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut requests = BufReader::new(client);
        while let Some(path) = read_request(&mut requests)? {
            let (path, query) = path.split_once('?').unwrap_or((&path, ""));
            let parameter = |name: &str| {
                query
                    .split('&')
                    .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
                    .unwrap_or_default()
            };
            let kind_script = self.script.kinds.iter().find(|kind_script| kind_script.path() == path);
            match (path, kind_script) {
                (_, Some(kind_script)) if parameter("watch") == "true" => {
                    let after = parameter("resourceVersion").parse().unwrap_or_default();
                    return self.watch(client, kind_script, after);
                }
                (_, Some(kind_script)) => {
                    let page = parameter("continue").parse().unwrap_or(0);
                    respond(client, kind_script.pages.get(page).map_or(&[], Vec::as_slice))?;
                }
                ("/version", None) => {
                    respond(client, br#"{"major":"1","minor":"36","gitVersion":"v1.36.0"}"#)?
                }
                ("/api", None) => respond(client, self.script.discovery(true).to_string().as_bytes())?,
                ("/apis", None) => respond(client, self.script.discovery(false).to_string().as_bytes())?,
                _ => send(
                    client,
                    "404 Not Found",
                    br#"{"kind":"Status","message":"the path is not in the script"}"#,
                )?,
            }
        }
        Ok(())
    }

    /// Sends the events after a version, and then waits until the client disconnects.
    fn watch(&self, mut client: &TcpStream, kind_script: &KindScript, after: u64) -> io::Result<()> {
        client.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        self.watches.fetch_add(1, Ordering::Relaxed);
        let began = {
            let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
            let began = self.has_begun.wait_while(began, |began| began.is_none());
            began.unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now)
        };
        let mut next = kind_script.events.partition_point(|event| event.version <= after);
        while next < kind_script.events.len() {
            let from = next.checked_sub(1).map_or(0, |last| kind_script.events[last].end);
            next = match self.rate {
                WatchRate::Unlimited => kind_script.events.len(),
                WatchRate::PerSecond(rate) => {
                    let due = (began.elapsed().as_secs_f64() * rate as f64) as usize;
                    kind_script.events.partition_point(|event| event.index < due).max(next)
                }
            };
            let to = next.checked_sub(1).map_or(0, |last| kind_script.events[last].end);
            client.write_all(&kind_script.chunks[from..to])?;
            if matches!(self.rate, WatchRate::PerSecond(_)) {
                std::thread::sleep(SEND_INTERVAL);
            }
        }
        let _ = client.read(&mut [0])?;
        Ok(())
    }
}

/// The path of the next request; `None` at the end of the connection.
fn read_request(requests: &mut BufReader<&TcpStream>) -> io::Result<Option<String>> {
    let mut path = None;
    let mut head = requests.take(MAX_HEAD);
    let mut line = String::new();
    while head.read_line(&mut line)? > 0 {
        if line.trim_end().is_empty() {
            return Ok(path);
        }
        path = path.or_else(|| line.split(' ').nth(1).map(str::to_owned));
        line.clear();
    }
    Ok(None)
}

fn respond(client: &TcpStream, body: &[u8]) -> io::Result<()> {
    send(client, "200 OK", body)
}

fn send(mut client: &TcpStream, status: &str, body: &[u8]) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body)
}
