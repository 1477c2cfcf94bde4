//! A scripted API server: plain HTTP on loopback. It knows no more of Kubernetes than a recorder asks for.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::script::{Reel, Script};
use crate::Result;

/// A server that says what is in its script, to as many as ask. Its threads end with this process.
pub(super) struct Server {
    url: String,
    stage: Arc<Stage>,
}

/// How fast a watch tells what happened.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// As fast as it is taken.
    Any,
    /// So many changes a second, of all kinds together.
    PerSecond(usize),
}

struct Stage {
    script: Arc<Script>,
    pace: Pace,
    /// When watches began to tell; `None` before.
    began: Mutex<Option<Instant>>,
    has_begun: Condvar,
    /// Watches that were asked for.
    watches: AtomicUsize,
}

/// What a paced watch sends is looked at so often.
const BEAT: Duration = Duration::from_millis(2);
/// No request is longer than this.
const MOST_HEAD: u64 = 64 << 10;

// === impl Server ===

impl Server {
    /// Starts to answer. Watches tell nothing before [`go`](Server::go).
    pub(super) fn start(script: Arc<Script>, pace: Pace) -> Result<Server> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let stage = Arc::new(Stage {
            script,
            pace,
            began: Mutex::new(None),
            has_begun: Condvar::new(),
            watches: AtomicUsize::new(0),
        });
        let of_thread = stage.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let stage = of_thread.clone();
                // A client that goes away is nobody's fault.
                std::thread::spawn(move || drop(stage.attend(&client)));
            }
        });
        Ok(Server { url, stage })
    }

    /// A kubeconfig that leads here.
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

    /// Lets the watches begin, and says when that was.
    pub(super) fn go(&self) -> Instant {
        let mut began = self.stage.began.lock().unwrap_or_else(PoisonError::into_inner);
        let now = *began.get_or_insert_with(Instant::now);
        self.stage.has_begun.notify_all();
        now
    }

    /// How many watches were asked for until now.
    pub(super) fn watches(&self) -> usize {
        self.stage.watches.load(Ordering::Relaxed)
    }
}

// === impl Stage ===

impl Stage {
    fn attend(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut requests = BufReader::new(client);
        while let Some(path) = request(&mut requests)? {
            let (path, query) = path.split_once('?').unwrap_or((&path, ""));
            let asked = |name: &str| {
                query
                    .split('&')
                    .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
                    .unwrap_or_default()
            };
            let reel = self.script.reels.iter().find(|reel| reel.path() == path);
            match (path, reel) {
                (_, Some(reel)) if asked("watch") == "true" => {
                    let after = asked("resourceVersion").parse().unwrap_or_default();
                    return self.watch(client, reel, after);
                }
                (_, Some(reel)) => {
                    let page = asked("continue").parse().unwrap_or(0);
                    answer(client, reel.pages.get(page).map_or(&[], Vec::as_slice))?;
                }
                ("/version", None) => {
                    answer(client, br#"{"major":"1","minor":"36","gitVersion":"v1.36.0"}"#)?
                }
                ("/api", None) => answer(client, self.script.discovery(true).to_string().as_bytes())?,
                ("/apis", None) => answer(client, self.script.discovery(false).to_string().as_bytes())?,
                _ => send(
                    client,
                    "404 Not Found",
                    br#"{"kind":"Status","message":"it is not in the script"}"#,
                )?,
            }
        }
        Ok(())
    }

    /// Tells what followed a version, and then stays until the client goes.
    fn watch(&self, mut client: &TcpStream, reel: &Reel, after: u64) -> io::Result<()> {
        client.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        self.watches.fetch_add(1, Ordering::Relaxed);
        let began = {
            let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
            let began = self.has_begun.wait_while(began, |began| began.is_none());
            began.unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now)
        };
        let mut next = reel.events.partition_point(|event| event.version <= after);
        while next < reel.events.len() {
            let from = next.checked_sub(1).map_or(0, |last| reel.events[last].end);
            next = match self.pace {
                Pace::Any => reel.events.len(),
                Pace::PerSecond(rate) => {
                    let due = (began.elapsed().as_secs_f64() * rate as f64) as usize;
                    reel.events.partition_point(|event| event.turn < due).max(next)
                }
            };
            let to = next.checked_sub(1).map_or(0, |last| reel.events[last].end);
            client.write_all(&reel.chunks[from..to])?;
            if matches!(self.pace, Pace::PerSecond(_)) {
                std::thread::sleep(BEAT);
            }
        }
        let _ = client.read(&mut [0])?;
        Ok(())
    }
}

/// The path of the next request; `None` if there is none any more.
fn request(requests: &mut BufReader<&TcpStream>) -> io::Result<Option<String>> {
    let mut path = None;
    let mut head = requests.take(MOST_HEAD);
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

fn answer(client: &TcpStream, body: &[u8]) -> io::Result<()> {
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
