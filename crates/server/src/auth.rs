//! Authentication of requests, and the handlers of `/healthz` and `/readyz`.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::AppState;
use super::api_error::ApiError;
use super::connections::ConnectionSlot;
use super::health::Health;

/// The shortest token accepted; a shorter one could be guessed.
const MIN_TOKEN_LENGTH: usize = 16;

/// The bearer token that clients must send.
#[derive(Clone)]
pub(crate) struct Token(String);

// === impl Token ===

impl Token {
    /// Reads the token in a file, without surrounding whitespace.
    pub(crate) fn from_file(path: &Path) -> anyhow::Result<Token> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the token from {}", path.display()))?;
        let token = text.trim();
        ensure!(
            token.len() >= MIN_TOKEN_LENGTH && token.bytes().all(|byte| byte.is_ascii_graphic()),
            "the token in {} must have at least {MIN_TOKEN_LENGTH} printable ASCII characters and no spaces: create one \
             with `openssl rand -hex 32`",
            path.display()
        );
        Ok(Token(token.to_owned()))
    }

    /// Compares in constant time, so that response times do not reveal how much of a guess is right.
    fn matches(&self, candidate: &[u8]) -> bool {
        let token = self.0.as_bytes();
        let differs =
            token.iter().zip(candidate).fold(0, |differs, (a, b)| std::hint::black_box(differs | (a ^ b)));
        token.len() == candidate.len() && differs == 0
    }
}

/// Middleware that rejects unauthenticated requests.
pub(super) async fn authenticate(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    // The kubelet's probes have no token.
    let is_open = app.allows_anonymous_probes && matches!(request.uri().path(), "/healthz" | "/readyz");
    let rejection = match &app.token {
        Some(token) => reject_without_token(token, &request),
        // The TLS handshake has authenticated the client.
        None if app.requires_client_certificates => None,
        None => reject_dns_rebinding(&request),
    };
    let mut response = match rejection {
        Some(_) if is_open => return answer_and_close(request, next).await,
        Some(mut rejection) => {
            close_connection(&mut rejection);
            rejection
        }
        None => {
            if let Some(slot) = request.extensions().get::<Arc<ConnectionSlot>>() {
                slot.set_authenticated();
            }
            next.run(request).await
        }
    };
    add_security_headers(&mut response);
    response
}

/// Passes the request on without authentication, and closes the connection after the response.
pub(super) async fn answer_and_close(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    close_connection(&mut response);
    add_security_headers(&mut response);
    response
}

/// An unauthenticated client does not keep its connection.
fn close_connection(response: &mut Response) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// Tells browsers neither to cache the response nor to guess its content type.
fn add_security_headers(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

fn reject_without_token(token: &Token, request: &Request) -> Option<Response> {
    let authorization = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let authorization = authorization.and_then(|authorization| authorization.split_at_checked(7));
    if authorization.is_some_and(|(scheme, authorization)| {
        scheme.eq_ignore_ascii_case(b"bearer ") && token.matches(authorization)
    }) {
        return None;
    }
    let message = "unauthorized: send the server's token as Authorization: Bearer TOKEN";
    let mut response = ApiError::new(StatusCode::UNAUTHORIZED, message).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Some(response)
}

/// Rejects DNS rebinding. Without a token only this machine is served, and a browser on it may have loaded a page from
/// a domain that an attacker lets resolve to this machine; its requests carry that domain as `Host`. Only `localhost`
/// and IP addresses are accepted.
fn reject_dns_rebinding(request: &Request) -> Option<Response> {
    let host = request.headers().get(header::HOST)?;
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let is_own = host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    });
    let message = "invalid Host: without a token only localhost and IP addresses are accepted";
    (!is_own).then(|| ApiError::new(StatusCode::MISDIRECTED_REQUEST, message).into_response())
}

/// `GET /healthz`: whether the recordings of this process are alive.
pub(super) async fn healthz(State(app): State<Arc<AppState>>) -> Response {
    Health::liveness(&app.recorder_metrics).into_response()
}

/// `GET /readyz`: whether histories can be listed, and, if this process records, whether at least one recording is
/// running.
pub(super) async fn readyz(State(app): State<Arc<AppState>>) -> Response {
    let state = app.clone();
    let listing = app.workers.run_light(move || Ok(state.catalog.list()?)).await;
    Health::readiness(listing.is_ok(), &app.recorder_metrics).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_complete_token_matches() {
        let token = Token("0123456789abcdef".to_owned());
        assert!(token.matches(b"0123456789abcdef"));
        for wrong in ["", "0", "0123456789abcde", "0123456789abcdeg", "0123456789abcdef0"] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong}");
        }
    }
}
