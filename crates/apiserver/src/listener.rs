//! The accept loop of a server: connections with TLS or without it, over HTTP/1.1 and HTTP/2, with bounded buffers.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::connections::{Admission, ConnectionLimits, ConnectionSlot, Connections};

/// A socket that accepts connections, and the service of their requests.
pub(crate) struct HttpListener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    connections: Arc<Connections>,
}

/// A connection before its protocol is known.
struct NewConnection {
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    slot: Arc<ConnectionSlot>,
    /// Changes when the server is asked to stop.
    stopped: watch::Receiver<()>,
}

/// The protocol of a connection.
#[derive(Clone, Copy)]
enum HttpVersion {
    Http1,
    Http2,
}

/// How long responses in progress may continue after the program is asked to stop. Watches never end by themselves.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_millis(200);
/// The pause after a connection that could not be accepted, for example because too many files are open.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How long an authenticated HTTP/1.1 connection may wait for its next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The interval of the pings that find out whether an HTTP/2 client is still there, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The most bytes of the headers of a request: a URL may contain long selectors.
const MAX_HEADER_BYTES: usize = 128 << 10;
/// The most bytes of a response that wait in an HTTP/2 stream for a slow reader.
const MAX_SEND_BUFFER: usize = 64 << 10;
/// The most concurrent requests of an HTTP/2 connection. Clients open another connection for more.
const MAX_STREAMS: u32 = 250;

// === impl HttpListener ===

impl HttpListener {
    pub(crate) fn new(
        socket: StdTcpListener,
        tls: Option<Arc<ServerConfig>>,
        limits: ConnectionLimits,
        router: Router,
    ) -> io::Result<HttpListener> {
        Ok(HttpListener {
            socket: TcpListener::from_std(socket)?,
            tls: tls.map(TlsAcceptor::from),
            router,
            connections: Connections::new(limits),
        })
    }

    /// Accepts and serves connections until `stop` resolves.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) {
        let (stop_sender, stopped) = watch::channel(());
        // Each task has its place among the admitted connections, or is about to end.
        let mut tasks = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = tasks.join_next() => {}
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, peer)) => {
                        if let Some(admission) = self.connections.admit(peer) {
                            tasks.spawn(self.connection(stream, &admission, &stopped).serve(admission));
                        }
                    }
                    Err(_) => sleep(ACCEPT_RETRY_INTERVAL).await,
                },
            }
        }
        drop(self.socket);
        drop(stop_sender);
        let all_ended = async { while tasks.join_next().await.is_some() {} };
        // Those that have not ended by then are aborted with the set of tasks.
        let _ = timeout(SHUTDOWN_GRACE_PERIOD, all_ended).await;
    }

    fn connection(
        &self,
        stream: TcpStream,
        admission: &Admission,
        stopped: &watch::Receiver<()>,
    ) -> NewConnection {
        NewConnection {
            stream,
            tls: self.tls.clone(),
            router: self.router.clone(),
            slot: admission.slot().clone(),
            stopped: stopped.clone(),
        }
    }
}

// === impl NewConnection ===

impl NewConnection {
    /// Serves the connection until it ends, or is no longer admitted.
    async fn serve(self, admission: Admission) {
        tokio::select! {
            () = self.exchange() => {}
            () = admission.withdrawn() => {}
        }
    }

    async fn exchange(self) {
        let NewConnection { stream, tls, router, slot, stopped } = self;
        // Watch events are small, and must not wait for the client's acknowledgment of earlier ones.
        let _ = stream.set_nodelay(true);
        match tls {
            Some(tls) => {
                let Ok(stream) = tls.accept(stream).await else { return };
                let version = match stream.get_ref().1.alpn_protocol() {
                    Some(b"h2") => HttpVersion::Http2,
                    Some(_) | None => HttpVersion::Http1,
                };
                exchange_http(stream, version, router, slot, stopped).await;
            }
            None => exchange_http(stream, HttpVersion::Http1, router, slot, stopped).await,
        }
    }
}

/// Serves requests until the connection ends; after a stop, those in progress.
async fn exchange_http<S>(
    stream: S,
    version: HttpVersion,
    router: Router,
    slot: Arc<ConnectionSlot>,
    mut stopped: watch::Receiver<()>,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = router.map_request(move |mut request: Request<_>| {
        request.extensions_mut().insert(slot.clone());
        request
    });
    let builder = version.builder();
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    tokio::select! {
        // An error is one of the client or the network.
        _ = &mut connection => return,
        _ = stopped.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

// === impl HttpVersion ===

impl HttpVersion {
    fn builder(self) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        match self {
            HttpVersion::Http1 => {
                builder
                    .http1()
                    .timer(TokioTimer::new())
                    .header_read_timeout(IDLE_TIMEOUT)
                    .max_buf_size(MAX_HEADER_BYTES);
                builder.http1_only()
            }
            HttpVersion::Http2 => {
                builder
                    .http2()
                    .timer(TokioTimer::new())
                    .keep_alive_interval(PING_INTERVAL)
                    .keep_alive_timeout(PING_TIMEOUT)
                    .max_header_list_size(MAX_HEADER_BYTES as u32)
                    .max_send_buf_size(MAX_SEND_BUFFER)
                    .max_concurrent_streams(MAX_STREAMS);
                builder.http2_only()
            }
        }
    }
}
