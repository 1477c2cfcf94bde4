//! The HTTP server: histories for browsers, programs and the clients of other systems.
//!
//! It reads `.kine` files that other processes, or other threads of this one, write, and never writes to them. Each
//! request opens its history again, so that it includes everything recorded so far.

mod api_error;
mod auth;
mod catalog;
mod connections;
mod explanations;
mod extractors;
mod file_stamp;
mod gardener;
mod health;
mod histories;
mod kai;
mod metrics;
mod openapi;
mod overview;
mod page;
mod recordings;
mod replays;
mod route;
mod routes;
mod scratch;
mod simkube;
mod worker_pool;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::{Router, middleware};
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use hyper_util::rt::TokioTimer;
use recorder::RecorderMetrics;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

use self::api_error::ApiError;
use self::auth::Token;
use self::connections::{ConnectionLimits, ConnectionService, Connections, EvictingAcceptor};
use self::metrics::ServerMetrics;
use self::overview::OverviewCache;
use self::replays::ReplayRegistry;
use self::worker_pool::WorkerPool;

pub use self::catalog::HistoryCatalog;
pub use self::scratch::ScratchSpace;

/// The largest request body accepted, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;
/// How long a client may take to send its request headers, or to finish the TLS handshake.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The total is half of the usual limit of open files per process.
const CLIENT_CONNECTIONS: ConnectionLimits = ConnectionLimits { total: 512, per_peer: 128 };
/// A kubelet opens one or two.
const PROBE_CONNECTIONS: ConnectionLimits = ConnectionLimits { total: 64, per_peer: 16 };
/// How long responses in progress may continue after the program is asked to stop.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_millis(800);

/// The server's configuration: its listeners, and how clients authenticate.
pub struct ServerSettings {
    /// The listener for clients.
    listener: TcpListener,
    /// The listener for probes; `None` if they share the one for clients.
    probe_listener: Option<TcpListener>,
    /// The bearer token that clients must send; `None` if none is required.
    token: Option<Token>,
    /// The TLS configuration; `None` for plain HTTP.
    tls: Option<Arc<rustls::ServerConfig>>,
    /// Whether clients must present a certificate.
    requires_client_certificates: bool,
}

/// The state that all handlers share.
#[derive(Clone)]
struct AppState {
    catalog: HistoryCatalog,
    /// Metrics of the recordings that this process makes; empty if it makes none.
    recorder_metrics: Arc<RecorderMetrics>,
    token: Option<Token>,
    /// Whether the TLS handshake has already authenticated every client by its certificate.
    requires_client_certificates: bool,
    /// Whether `/healthz` and `/readyz` need no token on the listener for clients.
    allows_anonymous_probes: bool,
    workers: WorkerPool,
    metrics: Arc<ServerMetrics>,
    overviews: Arc<OverviewCache>,
    scratch: Arc<ScratchSpace>,
    replays: Arc<ReplayRegistry>,
}

/// A socket, with its TLS configuration, connection limits and router.
struct HttpListener {
    socket: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: ConnectionLimits,
    router: Router,
}

// === impl ServerSettings ===

impl ServerSettings {
    /// Binds the listener for clients to the first of the addresses that is free.
    pub fn listen(address: &[SocketAddr]) -> anyhow::Result<ServerSettings> {
        let listener = bind(address)?;
        Ok(ServerSettings {
            listener,
            probe_listener: None,
            token: None,
            tls: None,
            requires_client_certificates: false,
        })
    }

    /// Serves probes on a separate listener, without TLS and without a token. On the listener for clients they then
    /// require the token.
    pub fn listen_for_probes(&mut self, address: &[SocketAddr]) -> anyhow::Result<()> {
        self.probe_listener = Some(bind(address)?);
        Ok(())
    }

    /// Requires clients to send the token in the file.
    pub fn set_token(&mut self, file: &Path) -> anyhow::Result<()> {
        self.token = Some(Token::from_file(file)?);
        Ok(())
    }

    /// Serves TLS with a certificate, its chain and its key, all PEM. With `clients`, accepts only client certificates
    /// issued by one of the authorities in that file.
    pub fn set_tls(&mut self, certificate: &Path, key: &Path, clients: Option<&Path>) -> anyhow::Result<()> {
        let chain = read_certificates(certificate)?;
        let key_of = || format!("cannot read a PEM private key from {}", key.display());
        let secret = PrivateKeyDer::from_pem_file(key).with_context(key_of)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = match clients {
            Some(file) => {
                let mut roots = rustls::RootCertStore::empty();
                for authority in read_certificates(file)? {
                    let bad = || format!("invalid CA certificate in {}", file.display());
                    roots.add(authority).with_context(bad)?;
                }
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build()?
            }
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS 1.2 and 1.3")
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, secret)
            .with_context(|| format!("{} and {} do not match", certificate.display(), key.display()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.tls = Some(Arc::new(config));
        self.requires_client_certificates = clients.is_some();
        Ok(())
    }

    /// The URL that clients use.
    pub fn url(&self) -> anyhow::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.listener.local_addr()?))
    }

    /// The URL that probes use, if they have a separate listener.
    pub fn probe_url(&self) -> anyhow::Result<Option<String>> {
        let Some(listener) = &self.probe_listener else { return Ok(None) };
        Ok(Some(format!("http://{}", listener.local_addr()?)))
    }
}

fn bind(address: &[SocketAddr]) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn read_certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let all: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .with_context(|| format!("cannot read a PEM certificate from {}", file.display()))?;
    anyhow::ensure!(!all.is_empty(), "no PEM certificate found in {}", file.display());
    Ok(all)
}

/// Serves until `stop` resolves.
pub async fn serve(
    catalog: HistoryCatalog,
    recorder_metrics: Arc<RecorderMetrics>,
    scratch: ScratchSpace,
    settings: ServerSettings,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let ServerSettings { listener, probe_listener, token, tls, requires_client_certificates: knows_clients } =
        settings;
    let scratch = Arc::new(scratch);
    let replays = Arc::new(ReplayRegistry::new());
    let app = AppState {
        catalog,
        recorder_metrics,
        token,
        requires_client_certificates: knows_clients,
        allows_anonymous_probes: probe_listener.is_none(),
        workers: WorkerPool::new(),
        metrics: Arc::new(ServerMetrics::new()),
        overviews: Arc::default(),
        scratch: scratch.clone(),
        replays: replays.clone(),
    };
    // A worker pool of their own, so that probes do not wait for the requests of clients.
    let probe_app = Arc::new(AppState { workers: WorkerPool::new(), ..app.clone() });
    let clients =
        HttpListener { socket: listener, tls, limits: CLIENT_CONNECTIONS, router: router(Arc::new(app)) };
    let probes = probe_listener.map(|socket| {
        let router = probe_router(probe_app);
        HttpListener { socket, tls: None, limits: PROBE_CONNECTIONS, router }
    });
    let handles = [Handle::new(), Handle::new()];
    let [client_handle, probe_handle] = handles.clone();
    let serving = async {
        let answering_probes = async {
            match probes {
                Some(probes) => probes.run(probe_handle).await,
                None => Ok(()),
            }
        };
        tokio::try_join!(clients.run(client_handle), answering_probes)
    };
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stop => {
            for handle in &handles {
                handle.graceful_shutdown(Some(SHUTDOWN_GRACE_PERIOD));
            }
            serving.await
        }
    };
    scratch.remove();
    // Their clients are disconnected.
    replays.cancel_all();
    ended?;
    Ok(())
}

// === impl HttpListener ===

impl HttpListener {
    /// Accepts connections and serves them until the handle requests a shutdown.
    async fn run(self, handle: Handle<SocketAddr>) -> io::Result<()> {
        let HttpListener { socket, tls, limits, router } = self;
        let connections = Connections::new(limits);
        let make_service = tower::service_fn(move |peer: SocketAddr| {
            let slot = connections.admit(peer);
            let service = slot.map(|slot| ConnectionService::new(router.clone(), slot));
            async move { service.ok_or("too many connections") }
        });
        let mut server = axum_server::from_tcp(socket)?.handle(handle);
        server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT);
        // HTTP/1 only: for HTTP/2 the server would wait for the preface without a time limit, and one connection would
        // carry many clients. Set last, because setting another acceptor resets it.
        match tls {
            Some(config) => {
                let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(config));
                let acceptor = acceptor.handshake_timeout(HEADER_READ_TIMEOUT).acceptor(EvictingAcceptor);
                server.acceptor(acceptor).http1_only().serve(make_service).await
            }
            None => server.acceptor(EvictingAcceptor).http1_only().serve(make_service).await,
        }
    }
}

fn router(app: Arc<AppState>) -> Router {
    routes::all()
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(|| async { ApiError::new(StatusCode::NOT_FOUND, "not found; see /openapi.json") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed; see /openapi.json")
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(app.clone(), auth::authenticate))
        .layer(middleware::from_fn_with_state(app.clone(), metrics::measure))
        .with_state(app)
}

/// The router of the listener for probes.
fn probe_router(app: Arc<AppState>) -> Router {
    Router::new()
        .route("/healthz", axum::routing::get(auth::healthz))
        .route("/readyz", axum::routing::get(auth::readyz))
        .fallback(|| async {
            ApiError::new(StatusCode::NOT_FOUND, "not found; only /healthz and /readyz are served here")
        })
        .layer(middleware::from_fn(auth::answer_and_close))
        .layer(middleware::from_fn_with_state(app.clone(), metrics::measure))
        .with_state(app)
}
