//! The server: its address, its routes, and the authentication of requests.

use std::fs::File;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Version, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use crate::connections::{ConnectionLimits, ConnectionSlot};
use crate::handler::{HandlerState, handle};
use crate::listener::HttpListener;
use crate::registry::Registry;
use crate::request_log::{RequestLog, log_request};
use crate::status::ApiError;
use crate::user::UserInfo;

/// A server that listens, and does not answer yet.
pub struct ApiServer {
    listener: TcpListener,
    security: Option<ServerSecurity>,
    limits: ConnectionLimits,
}

/// The certificate of a server, and the token that its clients must send.
pub struct ServerSecurity {
    /// The TLS configuration.
    pub tls: Arc<rustls::ServerConfig>,
    /// The bearer token.
    pub token: String,
}

/// The tokens that a server accepts: its own, and those of service accounts.
struct Authenticator {
    token: String,
    registry: Arc<Registry>,
}

/// What a server does besides serving a store.
#[derive(Default)]
pub struct ServeOptions {
    /// Routes beside the Kubernetes API.
    pub other_routes: Router,
    /// The file to which an audit event of each request is appended.
    pub audit_log: Option<File>,
}

/// The authentication scheme, in any case, and the space after it.
const BEARER: &[u8] = b"bearer ";

// === impl ApiServer ===

impl ApiServer {
    /// Listens on an address; port 0 selects a free port. Without security it serves plain HTTP to anyone.
    pub fn listen(address: SocketAddr, security: Option<ServerSecurity>) -> io::Result<ApiServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(ApiServer { listener, security, limits: ConnectionLimits::default() })
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
        let router = router(registry.clone(), options);
        let (router, tls) = match self.security {
            Some(ServerSecurity { tls, token }) => {
                let authenticator = Arc::new(Authenticator { token, registry });
                let authenticated = middleware::from_fn_with_state(authenticator, authenticate);
                (router.layer(authenticated), Some(tls))
            }
            None => (router.layer(middleware::from_fn(refuse_other_hosts)), None),
        };
        HttpListener::new(self.listener, tls, self.limits, router)?.run(stop).await;
        Ok(())
    }
}

// === impl Authenticator ===

impl Authenticator {
    /// The user whose token a request has.
    fn user_of(&self, request: &Request) -> Option<UserInfo> {
        let authorization = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes)?;
        let (scheme, token) = authorization.split_at_checked(BEARER.len())?;
        if !scheme.eq_ignore_ascii_case(BEARER) {
            return None;
        }
        if is_equal(token, self.token.as_bytes()) {
            return Some(UserInfo::admin());
        }
        self.registry.user_of_token(std::str::from_utf8(token).ok()?)
    }
}

/// All routes, without authentication.
pub(crate) fn router(registry: Arc<Registry>, options: ServeOptions) -> Router {
    let log = Arc::new(RequestLog::new(registry.clone(), options.audit_log));
    let state = HandlerState { registry, documents: Arc::default() };
    let router = Router::new().fallback(handle).with_state(state).merge(options.other_routes);
    router.layer(middleware::from_fn_with_state(log, log_request))
}

/// Middleware that refuses requests without a valid token.
async fn authenticate(
    State(authenticator): State<Arc<Authenticator>>,
    request: Request,
    next: Next,
) -> Response {
    match authenticator.user_of(&request) {
        Some(user) => pass(user, request, next).await,
        None => refuse(&request, ApiError::unauthorized()),
    }
}

/// Middleware that prevents DNS rebinding: without a token, a page in a browser on this machine could read the cluster
/// under a domain that resolves to this machine. Its requests have that domain as `Host`.
async fn refuse_other_hosts(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let is_own = host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    });
    if is_own {
        pass(UserInfo::admin(), request, next).await
    } else {
        refuse(&request, ApiError::forbidden_host())
    }
}

/// Continues as this user, or as the one that the request impersonates: every user may do everything.
async fn pass(user: UserInfo, mut request: Request, next: Next) -> Response {
    let user = match UserInfo::impersonated(request.headers()) {
        Ok(impersonated) => impersonated.unwrap_or(user),
        Err(error) => return error.into_response(),
    };
    request.extensions_mut().insert(user);
    if let Some(slot) = request.extensions().get::<Arc<ConnectionSlot>>() {
        slot.set_authenticated();
    }
    next.run(request).await
}

/// A client that is refused does not keep its connection. HTTP/2 has no such header; there the time limit for
/// authentication ends the connection.
fn refuse(request: &Request, error: ApiError) -> Response {
    let mut response = error.into_response();
    if request.version() < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Compares in constant time, so that response times do not reveal how much of a guess is right.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let difference =
        one.iter().zip(other).fold(0, |difference, (a, b)| std::hint::black_box(difference | (a ^ b)));
    one.len() == other.len() && difference == 0
}

#[cfg(test)]
mod tests;
