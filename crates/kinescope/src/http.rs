//! The web application: histories over HTTP, for people, programs and the clients of other systems.
//!
//! It reads `.kine` files that others write, be it another process or a thread of this one, and never writes to them.
//! Each question opens its history anew, so that what was recorded meanwhile is seen.

mod asked;
mod gardener;
mod guard;
mod histories;
mod kai;
mod metrics;
mod openapi;
mod page;
mod problem;
mod recordings;
mod shelf;
mod simkube;
mod work;

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware;
use axum::routing::{any, get, post};
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use hyper_util::rt::TokioTimer;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

use self::guard::Token;
use self::metrics::Metrics;
use self::problem::Problem;
pub(crate) use self::shelf::Shelf;
use self::work::Hands;
use crate::recorder::Board;

/// The most that a request may bring.
const MAX_BODY: usize = 1 << 20;
/// How long a client may take to say what it wants.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// Clients that may be connected at once; others are turned away. Half of the files that a process may usually open.
const MAX_CONNECTIONS: usize = 512;
/// What answers that are under way get when the program is told to stop.
const FAREWELL: Duration = Duration::from_millis(800);

/// How histories are served.
pub(crate) struct Settings {
    /// Where clients connect.
    listener: TcpListener,
    /// What every client must know; `None`: whoever can connect may read.
    token: Option<Token>,
    /// How the connection is encrypted; `None`: not at all.
    tls: Option<Arc<rustls::ServerConfig>>,
    /// Whether clients must show a certificate.
    knows_clients: bool,
}

/// What every answer is made from.
struct App {
    shelf: Shelf,
    /// Of what is recorded here; empty if nothing is.
    board: Arc<Board>,
    token: Option<Token>,
    /// Whether clients have shown a certificate.
    knows_clients: bool,
    hands: Hands,
    metrics: Metrics,
}

// === impl Settings ===

impl Settings {
    /// Listens.
    pub(crate) fn listen(address: &[SocketAddr]) -> anyhow::Result<Settings> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Settings { listener, token: None, tls: None, knows_clients: false })
    }

    /// Only who knows what is in the file may read.
    pub(crate) fn set_token(&mut self, file: &Path) -> anyhow::Result<()> {
        self.token = Some(Token::in_file(file)?);
        Ok(())
    }

    /// Speaks TLS with a certificate, its chain behind it, and its key; only with those whom one of `clients` vouches
    /// for, if there are any. All PEM.
    pub(crate) fn set_tls(
        &mut self,
        certificate: &Path,
        key: &Path,
        clients: Option<&Path>,
    ) -> anyhow::Result<()> {
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
    pub(crate) fn url(&self) -> anyhow::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.listener.local_addr()?))
    }
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
pub(crate) async fn serve(
    shelf: Shelf,
    board: Arc<Board>,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let Settings { listener, token, tls, knows_clients } = settings;
    let app =
        Arc::new(App { shelf, board, token, knows_clients, hands: Hands::new(), metrics: Metrics::new() });
    let router = router(app);
    let handle = Handle::new();
    let connections = handle.clone();
    let make_service = tower::service_fn(move |_: SocketAddr| {
        let router = (connections.connection_count() < MAX_CONNECTIONS).then(|| router.clone());
        async move { router.ok_or("too many connections") }
    });
    // Not HTTP/2: its preface is waited for without a limit of time, and one connection would be many clients.
    let mut server = axum_server::from_tcp(listener)?.handle(handle.clone()).http1_only();
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
    let serving = async {
        match tls {
            Some(config) => {
                let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(config));
                server.acceptor(acceptor.handshake_timeout(HEADER_PATIENCE)).serve(make_service).await
            }
            None => server.serve(make_service).await,
        }
    };
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => ended?,
        () = stop => {
            handle.graceful_shutdown(Some(FAREWELL));
            serving.await?;
        }
    }
    Ok(())
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page::show))
        .route("/api/v1/histories", get(histories::list))
        .route("/api/v1/histories/{name}", get(histories::info))
        .route("/api/v1/histories/{name}/objects", get(histories::objects))
        .route("/api/v1/histories/{name}/changes", get(histories::changes))
        .route("/api/v1/histories/{name}/gaps", get(histories::gaps))
        .route("/api/v1/histories/{name}/download", get(histories::download))
        .route("/api/v1/recordings", get(recordings::list))
        .route("/export", post(simkube::export))
        // The scheduler's own server does not look at the method either.
        .route("/get-snapshot", any(kai::snapshot))
        .route("/api/db", get(gardener::list))
        .route("/api/db/{name}", get(gardener::database))
        .route("/metrics", get(metrics::show))
        .route("/healthz", get(guard::alive))
        .route("/readyz", get(guard::ready))
        .route("/openapi.json", get(openapi::show))
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
