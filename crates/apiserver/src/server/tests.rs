//! Clients that connect and do not behave: others are served all the same.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use model::Moment;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::*;
use crate::memory_store::MemoryStore;

const TOKEN: &str = "0123456789abcdef";
/// Long enough for a request on a busy machine, and short enough to wait for.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECTION_LIMIT: usize = 20;

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// A server with TLS and small limits, which stops at the end of the test.
struct TestServer {
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    _stop: oneshot::Sender<()>,
    _runtime: Runtime,
}

impl TestServer {
    fn start() -> TestServer {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let certificate = CertificateDer::from(certificate);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let mut tls =
            tls.unwrap().with_no_client_auth().with_single_cert(vec![certificate.clone()], key).unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let security = ServerSecurity { tls: Arc::new(tls), token: TOKEN.to_owned() };
        let mut server = ApiServer::listen(([127, 0, 0, 1], 0).into(), Some(security)).unwrap();
        server.limits =
            ConnectionLimits { total: CONNECTION_LIMIT, authentication_timeout: AUTHENTICATION_TIMEOUT };
        let address = server.address().unwrap();
        let store = MemoryStore::new(Box::new(|| Moment::from_nanos(0)), "v1.36.4");
        let registry = Arc::new(Registry::new(Arc::new(store), 1));
        let (stop, stopped) = oneshot::channel();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(server.serve(registry, ServeOptions::default(), async { drop(stopped.await) }));
        TestServer { address, certificate, _stop: stop, _runtime: runtime }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Connects and finishes the TLS handshake.
    fn connect_tls(&self, protocol: &str) -> TlsStream {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(connection, self.connect());
        stream.conn.complete_io(&mut stream.sock).unwrap();
        stream
    }
}

/// Sends a request and returns the head of the response.
fn request(stream: &mut impl ReadWrite, token: &str) -> String {
    let request =
        format!("GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    stream.read_exact(&mut vec![0; length.parse().unwrap()]).unwrap();
    head
}

trait ReadWrite: Read + Write {}

impl<S: Read + Write> ReadWrite for S {}

/// Waits until the server closes a connection, which must not send anything before.
#[track_caller]
fn wait_until_closed(stream: &mut impl Read) {
    match stream.read(&mut [0; 100]) {
        Ok(length) => assert_eq!(length, 0),
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof), "{error}")
        }
    }
}

#[test]
fn idle_clients_are_evicted_for_others() {
    let server = TestServer::start();
    let mut silent: Vec<TcpStream> = (0..CONNECTION_LIMIT).map(|_| server.connect()).collect();
    let _shaken: Vec<TlsStream> = (0..CONNECTION_LIMIT).map(|_| server.connect_tls("http/1.1")).collect();
    for stream in &mut silent {
        wait_until_closed(stream);
    }
    for _ in 0..10 {
        assert!(request(&mut server.connect_tls("http/1.1"), TOKEN).starts_with("HTTP/1.1 200 OK"));
    }
}

#[test]
fn authenticated_clients_are_not_evicted() {
    let server = TestServer::start();
    let authenticated = |_| {
        let mut stream = server.connect_tls("http/1.1");
        assert!(request(&mut stream, TOKEN).starts_with("HTTP/1.1 200 OK"));
        stream
    };
    let mut known: Vec<TlsStream> = (0..CONNECTION_LIMIT).map(authenticated).collect();
    // There is no room for another.
    wait_until_closed(&mut server.connect());
    for stream in &mut known {
        assert!(request(stream, TOKEN).starts_with("HTTP/1.1 200 OK"));
    }
}

#[test]
fn clients_that_do_not_authenticate_in_time_are_disconnected() {
    let server = TestServer::start();
    let mut known = server.connect_tls("http/1.1");
    assert!(request(&mut known, TOKEN).starts_with("HTTP/1.1 200 OK"));
    // Without a TLS handshake, without a request, with half a request, and without the preface of HTTP/2.
    let mut silent = server.connect();
    let mut shaken = server.connect_tls("http/1.1");
    let mut half = server.connect_tls("http/1.1");
    half.write_all(b"GET /version HTTP/1.1\r\nHost: local").unwrap();
    let mut http2 = server.connect_tls("h2");
    wait_until_closed(&mut silent);
    wait_until_closed(&mut shaken);
    wait_until_closed(&mut half);
    // The server's preface.
    let mut preface = Vec::new();
    let _ = http2.read_to_end(&mut preface);
    assert!(request(&mut known, TOKEN).starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn a_client_that_is_refused_does_not_keep_its_connection() {
    let server = TestServer::start();
    for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg"] {
        let mut stream = server.connect_tls("http/1.1");
        let response = request(&mut stream, wrong);
        assert!(response.starts_with("HTTP/1.1 401 "), "{wrong}: {response}");
        assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
        wait_until_closed(&mut stream);
    }
}
