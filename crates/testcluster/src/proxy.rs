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

use crate::error::{Error, IoContext, Result};
use crate::http::{ChunkedReader, END_OF_CHUNKS, MessageHead, write_chunk};
use crate::{Cluster, kubeconfig};
use plan::{ErrorResponse, FaultKind, FaultPlan, PlanProgress, PlannedFault, RequestKind, WatchFault};

/// A proxy in front of a real API server. Requests and responses pass unchanged except for the planned faults. All its
/// connections close when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<ProxyShared>,
    accept_thread: Option<JoinHandle<()>>,
    port: u16,
    kubeconfig: PathBuf,
    _folder: TempDir,
}

/// A fault that the proxy injected.
#[derive(Clone, Debug)]
pub struct InjectedFault {
    /// The time.
    pub at: SystemTime,
    /// The request's path and query.
    pub request: String,
    /// The planned fault.
    pub planned: PlannedFault,
}

/// The beginning of a bookmark event as kube-apiserver writes it.
const BOOKMARK: &[u8] = br#"{"type":"BOOKMARK""#;

/// The state that all connections share.
#[derive(Debug)]
struct ProxyShared {
    server_port: u16,
    tls: Arc<ClientConfig>,
    token: String,
    progress: Mutex<PlanProgress>,
    faults: Mutex<Vec<InjectedFault>>,
    clients: Mutex<ConnectedClients>,
    is_closed: AtomicBool,
}

/// The connected clients, by number.
#[derive(Debug, Default)]
struct ConnectedClients {
    sockets: BTreeMap<u64, TcpStream>,
    next: u64,
}

/// A request that the proxy is handling.
struct ProxiedRequest<'a> {
    shared: &'a ProxyShared,
    /// Its path and query.
    target: &'a str,
    is_watch: bool,
    planned: Option<PlannedFault>,
}

// === impl Proxy ===

impl Proxy {
    /// Starts a proxy in front of a cluster and prints its plan.
    #[expect(clippy::print_stderr, reason = "a failure must be found again by its seed")]
    pub fn start(target: &Cluster, plan: FaultPlan) -> Result<Proxy> {
        let folder = tempfile::tempdir().io_context("create", &std::env::temp_dir())?;
        let network = |source| Error::Network { doing: "start a proxy", source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(network)?;
        let port = listener.local_addr().map_err(network)?.port();
        let kubeconfig = folder.path().join("kubeconfig");
        kubeconfig::write(&kubeconfig, &format!("http://127.0.0.1:{port}"), target.token(), None)?;
        eprintln!("proxy: {plan}");
        let shared = Arc::new(ProxyShared {
            server_port: target.port(),
            tls: tls_config(&target.certificates())?,
            token: target.token().to_owned(),
            progress: Mutex::new(PlanProgress::new(plan)),
            faults: Mutex::default(),
            clients: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let accepting = thread::spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        });
        Ok(Proxy { shared, accept_thread: Some(accepting), port, kubeconfig, _folder: folder })
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
    pub fn faults(&self) -> Vec<InjectedFault> {
        lock(&self.shared.faults).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(accepting) = self.accept_thread.take() {
            let _ = accepting.join();
        }
        for socket in lock(&self.shared.clients).sockets.values() {
            // It may have been closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

// === impl ProxyShared ===

impl ProxyShared {
    fn accept(self: &Arc<ProxyShared>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
            let Ok(client) = client else { continue };
            let Ok(number) = self.register_client(&client) else { continue };
            let shared = self.clone();
            thread::spawn(move || {
                // The client sees any error as the end of the connection.
                let _ = shared.serve(&client);
                let _ = client.shutdown(Shutdown::Both);
                shared.unregister_client(number);
            });
        }
    }

    fn register_client(&self, client: &TcpStream) -> io::Result<u64> {
        let socket = client.try_clone()?;
        let mut clients = lock(&self.clients);
        let number = clients.next;
        clients.next += 1;
        clients.sockets.insert(number, socket);
        Ok(number)
    }

    fn unregister_client(&self, number: u64) {
        lock(&self.clients).sockets.remove(&number);
    }

    /// Answers the one request of a connection.
    fn serve(&self, mut client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut from_client = BufReader::new(client);
        let Some(mut head) = MessageHead::read(&mut from_client)? else { return Ok(()) };
        let first = head.start_line.clone();
        let request = self.start_request(&first);
        match request.fault() {
            Some(FaultKind::Respond(refusal)) => {
                request.record_fault();
                return client.write_all(refusal.to_http().as_bytes());
            }
            Some(FaultKind::CloseConnection) => {
                request.record_fault();
                return Ok(());
            }
            Some(FaultKind::Delay(by)) => {
                request.record_fault();
                thread::sleep(by);
            }
            Some(
                FaultKind::DropResponse
                | FaultKind::TruncateList
                | FaultKind::DropBookmarks
                | FaultKind::DuringWatch { .. },
            )
            | None => {}
        }
        if head.field("transfer-encoding").is_some() {
            return client.write_all(
                b"HTTP/1.1 411 Length Required\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            );
        }
        let length = head.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        head.set("Host", format!("127.0.0.1:{}", self.server_port));
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
        close_with_client(client.try_clone()?, socket);

        let mut server = BufReader::new(server);
        let response = MessageHead::read(&mut server)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if request.fault() == Some(FaultKind::DropResponse) {
            request.record_fault();
            return Ok(());
        }
        client.write_all(&response.to_bytes())?;
        if request.is_watch && is_event_stream(&response) {
            return request.pass_events(BufReader::new(ChunkedReader::new(server)), client);
        }
        if request.fault() == Some(FaultKind::TruncateList) {
            request.record_fault();
            let mut whole = Vec::new();
            // Some servers close a connection without a TLS close_notify.
            let _ = server.read_to_end(&mut whole);
            return client.write_all(&whole[..whole.len() / 2]);
        }
        // Chunked or not, it ends with the connection.
        io::copy(&mut server, &mut client).map(drop)
    }

    /// The request with that start line. It is counted.
    fn start_request<'a>(&'a self, first: &'a str) -> ProxiedRequest<'a> {
        let mut words = first.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let is_watch = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"));
        let (path, request_kind) = match (method, is_watch) {
            ("GET", true) => (path, RequestKind::Watch),
            ("GET", false) => (path, RequestKind::List),
            _ => ("", RequestKind::Write),
        };
        let planned = lock(&self.progress).next_fault(path, request_kind);
        ProxiedRequest { shared: self, target, is_watch, planned }
    }

    fn connect(&self) -> io::Result<(StreamOwned<ClientConnection, TcpStream>, TcpStream)> {
        let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
        let tls = ClientConnection::new(self.tls.clone(), name).map_err(io::Error::other)?;
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server_port))?;
        socket.set_nodelay(true)?;
        Ok((StreamOwned::new(tls, socket.try_clone()?), socket))
    }
}

// === impl ProxiedRequest ===

impl ProxiedRequest<'_> {
    fn fault(&self) -> Option<FaultKind> {
        self.planned.as_ref().map(|planned| planned.fault)
    }

    /// Records that the fault was injected.
    fn record_fault(&self) {
        if let Some(planned) = self.planned.clone() {
            let fault = InjectedFault { at: SystemTime::now(), request: self.target.to_owned(), planned };
            lock(&self.shared.faults).push(fault);
        }
    }

    /// Passes the events of a watch to the client, with its fault.
    fn pass_events(&self, mut events: impl BufRead, mut client: &TcpStream) -> io::Result<()> {
        let midway = match self.fault() {
            // Before the first event there is none to repeat.
            Some(FaultKind::DuringWatch { after, what: WatchFault::RepeatEvent }) => {
                Some((after.max(1), WatchFault::RepeatEvent))
            }
            Some(FaultKind::DuringWatch { after, what }) => Some((after, what)),
            Some(
                FaultKind::Respond(_)
                | FaultKind::CloseConnection
                | FaultKind::Delay(_)
                | FaultKind::DropResponse
                | FaultKind::TruncateList
                | FaultKind::DropBookmarks,
            )
            | None => None,
        };
        let mut has_dropped = false;
        let mut passed = 0;
        let mut event = Vec::new();
        loop {
            let now = midway.filter(|(after, _)| *after == passed).map(|(_, what)| what);
            match now {
                Some(WatchFault::Gone) => {
                    self.record_fault();
                    write_chunk(&mut client, ErrorResponse::Gone.to_watch_event().as_bytes())?;
                    return client.write_all(END_OF_CHUNKS);
                }
                Some(WatchFault::Hang) => {
                    self.record_fault();
                    return client.read(&mut [0]).map(drop);
                }
                Some(WatchFault::RepeatEvent) => {
                    self.record_fault();
                    write_chunk(&mut client, &event)?;
                }
                Some(WatchFault::TruncateEvent) | None => {}
            }
            event.clear();
            if events.read_until(b'\n', &mut event)? == 0 {
                return client.write_all(END_OF_CHUNKS);
            }
            if self.fault() == Some(FaultKind::DropBookmarks) && event.starts_with(BOOKMARK) {
                if !has_dropped {
                    self.record_fault();
                    has_dropped = true;
                }
                continue;
            }
            if now == Some(WatchFault::TruncateEvent) {
                self.record_fault();
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
fn close_with_client(mut client: TcpStream, server: TcpStream) {
    thread::spawn(move || {
        // One request per connection: the next read returns at its end.
        let _ = client.read(&mut [0]);
        let _ = server.shutdown(Shutdown::Both);
    });
}

/// Whether a response is a stream of JSON events, one per line. Protobuf and error responses are not.
fn is_event_stream(response: &MessageHead) -> bool {
    response.start_line.split(' ').nth(1) == Some("200")
        && response.field("transfer-encoding") == Some("chunked")
        && response.field("content-type").is_some_and(|kind| kind.starts_with("application/json"))
}

fn tls_config(certificates: &Path) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let bad =
        |source| Error::Io { doing: "read", path: certificates.to_owned(), source: io::Error::other(source) };
    for certificate in CertificateDer::pem_file_iter(certificates).map_err(bad)? {
        // Certificates it cannot parse are not needed.
        roots.add_parsable_certificates([certificate.map_err(bad)?]);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("ring supports these TLS versions");
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Ignores poisoning: a thread that panicked leaves the data consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
