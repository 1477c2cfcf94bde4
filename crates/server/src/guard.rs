//! Who may read, and whether there is anything to read.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::connections::ConnectionSlot;
use super::health::Health;
use super::problem::Problem;

/// A shorter token could be guessed.
const SHORTEST: usize = 16;

/// What a client must know.
#[derive(Clone)]
pub(crate) struct Token(String);

// === impl Token ===

impl Token {
    /// The token in a file, without the blanks and line ends around it.
    pub(crate) fn in_file(path: &Path) -> anyhow::Result<Token> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the token in {}", path.display()))?;
        let token = text.trim();
        ensure!(
            token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic()),
            "the token in {} must be {SHORTEST} letters, digits or signs at least, without blanks: \
             `openssl rand -hex 32` makes one",
            path.display()
        );
        Ok(Token(token.to_owned()))
    }

    /// Whether this is the token, in a time that does not tell how much of it is right.
    fn is(&self, given: &[u8]) -> bool {
        let token = self.0.as_bytes();
        let differs =
            token.iter().zip(given).fold(0, |differs, (a, b)| std::hint::black_box(differs | (a ^ b)));
        token.len() == given.len() && differs == 0
    }
}

/// Lets through who may read.
pub(super) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    // Whoever watches over the process has no token.
    let is_open = app.has_open_probes && matches!(request.uri().path(), "/healthz" | "/readyz");
    let refused = match &app.token {
        Some(token) => refuse_stranger(token, &request),
        // Whoever is here has shown a certificate.
        None if app.knows_clients => None,
        None => refuse_misled_browser(&request),
    };
    let mut response = match refused {
        Some(_) if is_open => return answer_stranger(request, next).await,
        Some(mut refused) => {
            close(&mut refused);
            refused
        }
        None => {
            if let Some(slot) = request.extensions().get::<Arc<ConnectionSlot>>() {
                slot.set_authenticated();
            }
            next.run(request).await
        }
    };
    secure(&mut response);
    response
}

/// Lets through everybody, and ends the connection with the answer.
pub(super) async fn answer_stranger(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    close(&mut response);
    secure(&mut response);
    response
}

/// Whoever has not authenticated does not keep a connection.
fn close(response: &mut Response) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// Answers are not to be kept by browsers, nor taken for something else.
fn secure(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

fn refuse_stranger(token: &Token, request: &Request) -> Option<Response> {
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let given = given.and_then(|given| given.split_at_checked(7));
    if given.is_some_and(|(scheme, given)| scheme.eq_ignore_ascii_case(b"bearer ") && token.is(given)) {
        return None;
    }
    let words = "this needs the token that the server was started with: Authorization: Bearer TOKEN";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, words).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Some(response)
}

/// Without a token only this machine is served. A page of a stranger whose name is made to mean this machine asks under
/// that name; names that nobody else can have are let through.
fn refuse_misled_browser(request: &Request) -> Option<Response> {
    let host = request.headers().get(header::HOST)?;
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let is_own = host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    });
    let words = "ask for localhost or an address: without a token no other name is answered to";
    (!is_own).then(|| Problem::new(StatusCode::MISDIRECTED_REQUEST, words).into_response())
}

/// That what records here is alive.
pub(super) async fn alive(State(app): State<Arc<App>>) -> Response {
    Health::alive(&app.board).into_response()
}

/// That histories can be looked for, and if something is recorded here that some of it is.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let shelf = app.clone();
    let looked = app.hands.light(move || Ok(shelf.shelf.all()?)).await;
    Health::ready(looked.is_ok(), &app.board).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token("0123456789abcdef".to_owned());
        assert!(token.is(b"0123456789abcdef"));
        for wrong in ["", "0", "0123456789abcde", "0123456789abcdeg", "0123456789abcdef0"] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
    }
}
