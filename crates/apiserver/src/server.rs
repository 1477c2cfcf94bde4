//! The listener: TLS, authentication, and shutdown.

use std::fs::File;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header;
use axum::http::uri::Authority;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;

use crate::handler::handle;
use crate::registry::Registry;
use crate::request_log::{RequestLog, log_request};
use crate::status::ApiError;

/// A server that listens, and does not answer yet.
pub struct ApiServer {
    listener: TcpListener,
    security: Option<ServerSecurity>,
}

/// The certificate of a server, and the token that its clients must send.
pub struct ServerSecurity {
    /// The TLS configuration.
    pub tls: Arc<rustls::ServerConfig>,
    /// The bearer token.
    pub token: String,
}

/// What a server does besides serving a store.
#[derive(Default)]
pub struct ServeOptions {
    /// Routes beside the Kubernetes API.
    pub other_routes: Router,
    /// The file to which an audit event of each request is appended.
    pub audit_log: Option<File>,
}

/// How long responses in progress may continue after the program is asked to stop. Watches never end by themselves.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_millis(200);

// === impl ApiServer ===

impl ApiServer {
    /// Listens on an address; port 0 selects a free port. Without security it serves plain HTTP to anyone.
    pub fn listen(address: SocketAddr, security: Option<ServerSecurity>) -> io::Result<ApiServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(ApiServer { listener, security })
    }

    /// The address that it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the store of a registry until `stop` resolves.
    pub async fn serve(
        self,
        registry: Arc<Registry>,
        options: ServeOptions,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let router = router(registry, options);
        let handle = Handle::new();
        let serving = async {
            match self.security {
                Some(ServerSecurity { tls, token }) => {
                    let router =
                        router.layer(middleware::from_fn_with_state(Arc::<str>::from(token), authenticate));
                    axum_server::from_tcp_rustls(self.listener, RustlsConfig::from_config(tls))?
                        .handle(handle.clone())
                        .serve(router.into_make_service())
                        .await
                }
                None => {
                    let router = router.layer(middleware::from_fn(refuse_other_hosts));
                    axum_server::from_tcp(self.listener)?
                        .handle(handle.clone())
                        .serve(router.into_make_service())
                        .await
                }
            }
        };
        tokio::pin!(serving);
        tokio::select! {
            ended = &mut serving => ended,
            () = stop => {
                handle.graceful_shutdown(Some(SHUTDOWN_GRACE_PERIOD));
                serving.await
            }
        }
    }
}

/// All routes, without authentication.
pub(crate) fn router(registry: Arc<Registry>, options: ServeOptions) -> Router {
    let log = Arc::new(RequestLog::new(registry.clone(), options.audit_log));
    let router = Router::new().fallback(handle).with_state(registry).merge(options.other_routes);
    router.layer(middleware::from_fn_with_state(log, log_request))
}

/// Middleware that refuses requests without the token.
async fn authenticate(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    let authorization = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let candidate = authorization.and_then(|value| value.strip_prefix(b"Bearer "));
    if candidate.is_some_and(|candidate| is_equal(candidate, token.as_bytes())) {
        next.run(request).await
    } else {
        ApiError::unauthorized().into_response()
    }
}

/// Middleware that prevents DNS rebinding: without a token, a page in a browser on this machine could read the cluster
/// under a domain that resolves to this machine. Its requests have that domain as `Host`.
async fn refuse_other_hosts(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let is_own = host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || name.parse::<IpAddr>().is_ok()
    });
    if is_own { next.run(request).await } else { ApiError::forbidden_host().into_response() }
}

/// Compares in constant time, so that response times do not reveal how much of a guess is right.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let difference =
        one.iter().zip(other).fold(0, |difference, (a, b)| std::hint::black_box(difference | (a ^ b)));
    one.len() == other.len() && difference == 0
}
