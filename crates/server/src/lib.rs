//! The web application: histories over HTTP, for people, programs and the clients of other systems.
//!
//! It reads `.kine` files that others write, be it another process or a thread of this one, and never writes to them.
//! Each question opens its history anew, so that what was recorded meanwhile is seen.

mod asked;
mod connections;
mod explaining;
mod file_stamp;
mod gardener;
mod guard;
mod health;
mod histories;
mod kai;
mod metrics;
mod openapi;
mod overview;
mod page;
mod problem;
mod recordings;
mod replaying;
mod route;
mod routes;
mod scratch;
mod shelf;
mod simkube;
mod work;

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
use recorder::Board;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

use self::connections::{ConnectionLimits, ConnectionService, Connections, EvictingAcceptor};
use self::guard::Token;
use self::metrics::Metrics;
use self::overview::Overviews;
use self::problem::Problem;
use self::replaying::Replays;
use self::work::Hands;

pub use self::scratch::Scratch;
pub use self::shelf::Shelf;

/// The most that a request may bring.
const MAX_BODY: usize = 1 << 20;
/// How long a client may take to say what it wants.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// Half of the files that a process may usually open.
const CLIENT_CONNECTIONS: ConnectionLimits = ConnectionLimits { total: 512, per_peer: 128 };
/// A kubelet has one or two.
const PROBE_CONNECTIONS: ConnectionLimits = ConnectionLimits { total: 64, per_peer: 16 };
/// What answers that are under way get when the program is told to stop.
const FAREWELL: Duration = Duration::from_millis(800);

/// How histories are served.
pub struct Settings {
    /// Where clients connect.
    listener: TcpListener,
    /// Where probes connect; `None`: where clients do.
    probe_listener: Option<TcpListener>,
    /// What every client must know; `None`: whoever can connect may read.
    token: Option<Token>,
    /// How the connection is encrypted; `None`: not at all.
    tls: Option<Arc<rustls::ServerConfig>>,
    /// Whether clients must show a certificate.
    knows_clients: bool,
}

/// What every answer is made from.
#[derive(Clone)]
struct App {
    shelf: Shelf,
    /// Of what is recorded here; empty if nothing is.
    board: Arc<Board>,
    token: Option<Token>,
    /// Whether clients have shown a certificate.
    knows_clients: bool,
    /// Whether probes are answered without a token.
    has_open_probes: bool,
    hands: Hands,
    metrics: Arc<Metrics>,
    overviews: Arc<Overviews>,
    scratch: Arc<Scratch>,
    replays: Arc<Replays>,
}

/// A socket, and what answers there.
struct Listener {
    socket: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: ConnectionLimits,
    router: Router,
}

// === impl Settings ===

impl Settings {
    /// Listens.
    pub fn listen(address: &[SocketAddr]) -> anyhow::Result<Settings> {
        let listener = listen(address)?;
        Ok(Settings { listener, probe_listener: None, token: None, tls: None, knows_clients: false })
    }

    /// Answers probes on a listener of their own, without TLS and without a token. Where clients connect they need the
    /// token then.
    pub fn listen_for_probes(&mut self, address: &[SocketAddr]) -> anyhow::Result<()> {
        self.probe_listener = Some(listen(address)?);
        Ok(())
    }

    /// Only who knows what is in the file may read.
    pub fn set_token(&mut self, file: &Path) -> anyhow::Result<()> {
        self.token = Some(Token::in_file(file)?);
        Ok(())
    }

    /// Speaks TLS with a certificate, its chain behind it, and its key; only with those whom one of `clients` vouches
    /// for, if there are any. All PEM.
    pub fn set_tls(&mut self, certificate: &Path, key: &Path, clients: Option<&Path>) -> anyhow::Result<()> {
        let chain = certificates(certificate)?;
        let key_of = || format!("cannot read a private key, PEM, from {}", key.display());
        let secret = PrivateKeyDer::from_pem_file(key).with_context(key_of)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = match clients {
            Some(file) => {
                let mut roots = rustls::RootCertStore::empty();
                for authority in certificates(file)? {
                    let bad = || format!("{} holds what is no authority's certificate", file.display());
                    roots.add(authority).with_context(bad)?;
                }
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build()?
            }
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3")
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, secret)
            .with_context(|| format!("{} and {} do not go together", certificate.display(), key.display()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.tls = Some(Arc::new(config));
        self.knows_clients = clients.is_some();
        Ok(())
    }

    /// What a user types to get here.
    pub fn url(&self) -> anyhow::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.listener.local_addr()?))
    }

    /// The same for probes, if they have a listener of their own.
    pub fn probe_url(&self) -> anyhow::Result<Option<String>> {
        let Some(listener) = &self.probe_listener else { return Ok(None) };
        Ok(Some(format!("http://{}", listener.local_addr()?)))
    }
}

fn listen(address: &[SocketAddr]) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let all: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .with_context(|| format!("cannot read a certificate, PEM, from {}", file.display()))?;
    anyhow::ensure!(!all.is_empty(), "there is no certificate, PEM, in {}", file.display());
    Ok(all)
}

/// Serves until `stop` comes.
pub async fn serve(
    shelf: Shelf,
    board: Arc<Board>,
    scratch: Scratch,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let Settings { listener, probe_listener, token, tls, knows_clients } = settings;
    let scratch = Arc::new(scratch);
    let replays = Arc::new(Replays::new());
    let app = App {
        shelf,
        board,
        token,
        knows_clients,
        has_open_probes: probe_listener.is_none(),
        hands: Hands::new(),
        metrics: Arc::new(Metrics::new()),
        overviews: Arc::default(),
        scratch: scratch.clone(),
        replays: replays.clone(),
    };
    // Probes do not wait for the work of clients.
    let probe_app = Arc::new(App { hands: Hands::new(), ..app.clone() });
    let clients =
        Listener { socket: listener, tls, limits: CLIENT_CONNECTIONS, router: router(Arc::new(app)) };
    let probes = probe_listener.map(|socket| {
        let router = probe_router(probe_app);
        Listener { socket, tls: None, limits: PROBE_CONNECTIONS, router }
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
                handle.graceful_shutdown(Some(FAREWELL));
            }
            serving.await
        }
    };
    scratch.remove();
    // Who waited for them has gone.
    replays.cancel_all();
    ended?;
    Ok(())
}

// === impl Listener ===

impl Listener {
    /// Answers until the handle says that it is over.
    async fn run(self, handle: Handle<SocketAddr>) -> io::Result<()> {
        let Listener { socket, tls, limits, router } = self;
        let connections = Connections::new(limits);
        let make_service = tower::service_fn(move |peer: SocketAddr| {
            let slot = connections.admit(peer);
            let service = slot.map(|slot| ConnectionService::new(router.clone(), slot));
            async move { service.ok_or("too many connections") }
        });
        let mut server = axum_server::from_tcp(socket)?.handle(handle);
        server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
        // Not HTTP/2: its preface is waited for without a limit of time, and one connection would be many clients. Said
        // last: another acceptor makes the server forget it.
        match tls {
            Some(config) => {
                let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(config));
                let acceptor = acceptor.handshake_timeout(HEADER_PATIENCE).acceptor(EvictingAcceptor);
                server.acceptor(acceptor).http1_only().serve(make_service).await
            }
            None => server.acceptor(EvictingAcceptor).http1_only().serve(make_service).await,
        }
    }
}

fn router(app: Arc<App>) -> Router {
    routes::all()
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(|| async {
            Problem::new(StatusCode::NOT_FOUND, "there is nothing here; /openapi.json says what there is")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "not this way; /openapi.json says which methods there are",
            )
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .layer(middleware::from_fn_with_state(app.clone(), metrics::measure))
        .with_state(app)
}

/// What answers on the listener of probes.
fn probe_router(app: Arc<App>) -> Router {
    Router::new()
        .route("/healthz", axum::routing::get(guard::alive))
        .route("/readyz", axum::routing::get(guard::ready))
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "here are /healthz and /readyz alone") })
        .layer(middleware::from_fn(guard::answer_stranger))
        .layer(middleware::from_fn_with_state(app.clone(), metrics::measure))
        .with_state(app)
}
