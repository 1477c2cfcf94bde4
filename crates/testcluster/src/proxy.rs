//! A proxy in front of a real API server that injects planned faults. Clients use plain HTTP with one request per
//! connection, so that the proxy controls every byte they receive.

pub(crate) mod plan;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::error::{Doing, Error, Result};
use crate::http::{Chunks, END_OF_CHUNKS, Head, write_chunk};
use crate::{Cluster, kubeconfig};
use plan::{Asked, Midway, Plan, Progress, Refusal, Step, Trouble};

/// A proxy in front of a real API server. Requests and responses pass unchanged except for the planned faults. All its
/// connections close when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    desk: Arc<Desk>,
    accepting: Option<JoinHandle<()>>,
    port: u16,
    kubeconfig: PathBuf,
    _folder: TempDir,
}

/// A fault that the proxy injected.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The time.
    pub at: SystemTime,
    /// The request's path and query.
    pub request: String,
    /// The planned fault.
    pub step: Step,
}

/// The beginning of a bookmark event as kube-apiserver writes it.
const BOOKMARK: &[u8] = br#"{"type":"BOOKMARK""#;

/// The state that all connections share.
#[derive(Debug)]
struct Desk {
    server: u16,
    tls: Arc<ClientConfig>,
    token: String,
    progress: Mutex<Progress>,
    faults: Mutex<Vec<Fault>>,
    clients: Mutex<Clients>,
    is_closed: AtomicBool,
}

/// The connected clients, by number.
#[derive(Debug, Default)]
struct Clients {
    sockets: BTreeMap<u64, TcpStream>,
    next: u64,
}

/// A request that the proxy is handling.
struct Request<'a> {
    desk: &'a Desk,
    /// Its path and query.
    target: &'a str,
    is_watch: bool,
    step: Option<Step>,
}

// === impl Proxy ===

impl Proxy {
    /// Starts a proxy in front of a cluster and prints its plan.
    #[expect(clippy::print_stderr, reason = "a failure must be found again by its seed")]
    pub fn start(target: &Cluster, plan: Plan) -> Result<Proxy> {
        let folder = tempfile::tempdir().doing("create", &std::env::temp_dir())?;
        let network = |source| Error::Network { doing: "start a proxy", source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(network)?;
        let port = listener.local_addr().map_err(network)?.port();
        let kubeconfig = folder.path().join("kubeconfig");
        kubeconfig::write(&kubeconfig, &format!("http://127.0.0.1:{port}"), target.token(), None)?;
        eprintln!("proxy: {plan}");
        let desk = Arc::new(Desk {
            server: target.port(),
            tls: trusting(&target.certificates())?,
            token: target.token().to_owned(),
            progress: Mutex::new(Progress::new(plan)),
            faults: Mutex::default(),
            clients: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let accepting = thread::spawn({
            let desk = desk.clone();
            move || desk.accept(&listener)
        });
        Ok(Proxy { desk, accepting: Some(accepting), port, kubeconfig, _folder: folder })
    }

    /// The kubeconfig file for clients of the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The faults injected so far, in order.
    pub fn faults(&self) -> Vec<Fault> {
        lock(&self.desk.faults).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.desk.is_closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for socket in lock(&self.desk.clients).sockets.values() {
            // It may have been closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

// === impl Desk ===

impl Desk {
    fn accept(self: &Arc<Desk>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
            let Ok(client) = client else { continue };
            let Ok(number) = self.enter(&client) else { continue };
            let desk = self.clone();
            thread::spawn(move || {
                // The client sees any error as the end of the connection.
                let _ = desk.serve(&client);
                let _ = client.shutdown(Shutdown::Both);
                desk.leave(number);
            });
        }
    }

    fn enter(&self, client: &TcpStream) -> io::Result<u64> {
        let socket = client.try_clone()?;
        let mut clients = lock(&self.clients);
        let number = clients.next;
        clients.next += 1;
        clients.sockets.insert(number, socket);
        Ok(number)
    }

    fn leave(&self, number: u64) {
        lock(&self.clients).sockets.remove(&number);
    }

    /// Answers the one request of a connection.
    fn serve(&self, mut client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut from_client = BufReader::new(client);
        let Some(mut head) = Head::read(&mut from_client)? else { return Ok(()) };
        let first = head.first.clone();
        let request = self.request(&first);
        match request.trouble() {
            Some(Trouble::Refuse(refusal)) => {
                request.note();
                return client.write_all(refusal.answer().as_bytes());
            }
            Some(Trouble::HangUp) => {
                request.note();
                return Ok(());
            }
            Some(Trouble::Delay(by)) => {
                request.note();
                thread::sleep(by);
            }
            Some(Trouble::Unanswered | Trouble::Truncate | Trouble::NoBookmarks | Trouble::Midway { .. })
            | None => {}
        }
        if head.field("transfer-encoding").is_some() {
            return client.write_all(
                b"HTTP/1.1 411 Length Required\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            );
        }
        let length = head.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        head.set("Host", format!("127.0.0.1:{}", self.server));
        head.set("Authorization", format!("Bearer {}", self.token));
        head.set("Connection", "close".to_owned());
        head.remove("Expect");
        if request.is_watch {
            // The lines of a compressed watch could not be separated.
            head.remove("Accept-Encoding");
        }
        let (mut server, socket) = self.connect()?;
        server.write_all(&head.to_bytes())?;
        io::copy(&mut from_client.take(length), &mut server)?;
        server.flush()?;
        end_with(client.try_clone()?, socket);

        let mut server = BufReader::new(server);
        let answer = Head::read(&mut server)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if request.trouble() == Some(Trouble::Unanswered) {
            request.note();
            return Ok(());
        }
        client.write_all(&answer.to_bytes())?;
        if request.is_watch && has_events(&answer) {
            return request.pass_events(BufReader::new(Chunks::new(server)), client);
        }
        if request.trouble() == Some(Trouble::Truncate) {
            request.note();
            let mut whole = Vec::new();
            // Some servers close a connection without a TLS close_notify.
            let _ = server.read_to_end(&mut whole);
            return client.write_all(&whole[..whole.len() / 2]);
        }
        // Chunked or not, it ends with the connection.
        io::copy(&mut server, &mut client).map(drop)
    }

    /// The request with that start line. It is counted.
    fn request<'a>(&'a self, first: &'a str) -> Request<'a> {
        let mut words = first.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let is_watch = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"));
        let (path, asked) = match (method, is_watch) {
            ("GET", true) => (path, Asked::Watch),
            ("GET", false) => (path, Asked::List),
            _ => ("", Asked::Write),
        };
        let step = lock(&self.progress).next(path, asked);
        Request { desk: self, target, is_watch, step }
    }

    fn connect(&self) -> io::Result<(StreamOwned<ClientConnection, TcpStream>, TcpStream)> {
        let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
        let tls = ClientConnection::new(self.tls.clone(), name).map_err(io::Error::other)?;
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server))?;
        socket.set_nodelay(true)?;
        Ok((StreamOwned::new(tls, socket.try_clone()?), socket))
    }
}

// === impl Request ===

impl Request<'_> {
    fn trouble(&self) -> Option<Trouble> {
        self.step.as_ref().map(|step| step.trouble)
    }

    /// Records that the fault was injected.
    fn note(&self) {
        if let Some(step) = self.step.clone() {
            let fault = Fault { at: SystemTime::now(), request: self.target.to_owned(), step };
            lock(&self.desk.faults).push(fault);
        }
    }

    /// Passes the events of a watch to the client, with its fault.
    fn pass_events(&self, mut events: impl BufRead, mut client: &TcpStream) -> io::Result<()> {
        let midway = match self.trouble() {
            // Before the first event there is none to repeat.
            Some(Trouble::Midway { after, what: Midway::Repeat }) => Some((after.max(1), Midway::Repeat)),
            Some(Trouble::Midway { after, what }) => Some((after, what)),
            Some(
                Trouble::Refuse(_)
                | Trouble::HangUp
                | Trouble::Delay(_)
                | Trouble::Unanswered
                | Trouble::Truncate
                | Trouble::NoBookmarks,
            )
            | None => None,
        };
        let mut has_dropped = false;
        let mut passed = 0;
        let mut event = Vec::new();
        loop {
            let now = midway.filter(|(after, _)| *after == passed).map(|(_, what)| what);
            match now {
                Some(Midway::Gone) => {
                    self.note();
                    write_chunk(&mut client, Refusal::Gone.event().as_bytes())?;
                    return client.write_all(END_OF_CHUNKS);
                }
                Some(Midway::Silence) => {
                    self.note();
                    return client.read(&mut [0]).map(drop);
                }
                Some(Midway::Repeat) => {
                    self.note();
                    write_chunk(&mut client, &event)?;
                }
                Some(Midway::Cut) | None => {}
            }
            event.clear();
            if events.read_until(b'\n', &mut event)? == 0 {
                return client.write_all(END_OF_CHUNKS);
            }
            if self.trouble() == Some(Trouble::NoBookmarks) && event.starts_with(BOOKMARK) {
                if !has_dropped {
                    self.note();
                    has_dropped = true;
                }
                continue;
            }
            if now == Some(Midway::Cut) {
                self.note();
                // The chunk's length is that of the whole event.
                write!(client, "{:x}\r\n", event.len())?;
                return client.write_all(&event[..event.len() / 2]);
            }
            write_chunk(&mut client, &event)?;
            passed += 1;
        }
    }
}

/// Closes a connection to the server when its client leaves: a watch would stay open there until the next event.
fn end_with(mut client: TcpStream, server: TcpStream) {
    thread::spawn(move || {
        // One request per connection: the next read returns at its end.
        let _ = client.read(&mut [0]);
        let _ = server.shutdown(Shutdown::Both);
    });
}

/// Whether a response is a stream of JSON events, one per line. Protobuf and error responses are not.
fn has_events(answer: &Head) -> bool {
    answer.first.split(' ').nth(1) == Some("200")
        && answer.field("transfer-encoding") == Some("chunked")
        && answer.field("content-type").is_some_and(|kind| kind.starts_with("application/json"))
}

fn trusting(certificates: &Path) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let bad =
        |source| Error::Io { doing: "read", path: certificates.to_owned(), source: io::Error::other(source) };
    for certificate in CertificateDer::pem_file_iter(certificates).map_err(bad)? {
        // Certificates it cannot parse are not needed.
        roots.add_parsable_certificates([certificate.map_err(bad)?]);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("ring has what those versions need");
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Ignores poisoning: a thread that panicked leaves the data consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
