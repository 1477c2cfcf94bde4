//! The connection to an API server, which returns the bodies of lists and the lines of watches as bytes.

mod config_source;
#[cfg(test)]
pub(crate) mod tests;

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use k8s_openapi::jiff;
use kube::client::{Body, Client};
use model::Moment;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::list_watch::RequestFailure;
use crate::url::percent_encode;
use crate::{Error, Result};
use config_source::ConfigSource;

/// A connection to an API server. Clones share it.
///
/// Credentials expire and certificate authorities are rotated: after a 401 response or a TLS error the kubeconfig is
/// read again.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<ConnectionState>,
}

struct ConnectionState {
    source: ConfigSource,
    /// The generation of the credentials, and the client that uses them.
    client: RwLock<(u64, Client)>,
    /// When the credentials were last renewed. Locked during a renewal.
    last_renewal: Arc<Mutex<Option<Instant>>>,
    /// The server's time, and when it was received.
    server_time: RwLock<Option<(Moment, Instant)>>,
}

/// The lines of an open watch.
pub(crate) struct WatchLines {
    body: Body,
    /// Received bytes: unread from `start` on, without a line end up to `searched`.
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
    /// The body has ended, or cannot be read any further.
    has_ended: bool,
}

/// A write request.
pub(crate) struct WriteRequest {
    pub(crate) method: Method,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

/// The timeout for a complete page, or for the response headers of a watch.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum size of a body or line; larger pages are requested in parts. Received bytes are counted, because
/// Content-Length is not trusted.
const MAX_BODY_BYTES: usize = 32 << 20;
/// The minimum interval between renewals: they may run an exec plugin, or prompt the user.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(30);
const JSON: &str = "application/json";
/// The annotation of nodes that KWOK simulates.
const KWOK_NODE_ANNOTATION: &str = "kwok.x-k8s.io/node";
/// The maximum size of an error body.
const MAX_ERROR_BYTES: usize = 64 << 10;

// === impl Connection ===

impl Connection {
    /// Connects by a kubeconfig: the given file, those of `$KUBECONFIG`, or `~/.kube/config`; without any of them by
    /// the in-cluster configuration. Sends no request.
    pub async fn open(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Connection> {
        let source = ConfigSource::find(kubeconfig, context)?;
        let client = RwLock::new((0, source.client().await?));
        Ok(Connection {
            inner: Arc::new(ConnectionState {
                source,
                client,
                last_renewal: Arc::default(),
                server_time: RwLock::default(),
            }),
        })
    }

    /// The name of the context that would be used; `in-cluster` for the in-cluster configuration.
    pub fn context_name(kubeconfig: Option<&Path>, context: Option<&str>) -> String {
        let context = context.map(str::to_owned).or_else(|| config_source::current_context(kubeconfig));
        context.unwrap_or_else(|| config_source::IN_CLUSTER.to_owned())
    }

    /// The name of the context, for messages and as the name of a recording.
    pub fn context(&self) -> &str {
        self.inner.source.context()
    }

    /// The body of `/version`, unchanged.
    pub async fn version(&self) -> Result<String> {
        let version = self.get("/version", "application/json").await.and_then(|body| {
            serde_json::from_slice::<serde::de::IgnoredAny>(&body)
                .map_err(|error| RequestFailure::from_message(error.to_string()))?;
            String::from_utf8(body).map_err(|error| RequestFailure::from_message(error.to_string()))
        });
        version.map_err(|failure| Error::Server { doing: "get the server's version", failure })
    }

    /// The JSON document at a path beside the Kubernetes API. `doing` is for the message of an error.
    pub async fn get_json(&self, path: &str, doing: &'static str) -> Result<Value> {
        let response = self.get(path, JSON).await;
        parse_json(&response.map_err(|failure| Error::Server { doing, failure })?, doing)
    }

    /// Posts a JSON document to a path beside the Kubernetes API, and returns the response. `doing` is for the message
    /// of an error.
    pub async fn post_json(&self, path: &str, document: &Value, doing: &'static str) -> Result<Value> {
        let request = WriteRequest::post_json(document);
        let response = self.write(path, &request).await;
        parse_json(&response.map_err(|failure| Error::Server { doing, failure })?, doing)
    }

    /// The same for an operation that may take any time: waits for the response until the server ends the connection.
    pub async fn post_json_without_timeout(
        &self,
        path: &str,
        document: &Value,
        doing: &'static str,
    ) -> Result<Value> {
        let request = WriteRequest::post_json(document);
        let response = self.read_body(path, JSON, Some(&request)).await;
        parse_json(&response.map_err(|failure| Error::Server { doing, failure })?, doing)
    }

    /// Calls `each` with every line of a document at a path beside the Kubernetes API.
    pub async fn for_each_line(
        &self,
        path: &str,
        doing: &'static str,
        mut each: impl FnMut(&[u8]),
    ) -> Result<()> {
        let lines = self.watch(path).await;
        let mut lines = lines.map_err(|failure| Error::Server { doing, failure })?;
        loop {
            while let Some(line) = lines.next_buffered() {
                each(line);
            }
            if !lines.fill_buffer(RESPONSE_TIMEOUT).await {
                return Ok(());
            }
        }
    }

    /// The server's time, from the `Date` header of the last response, and when that was received; `None` before the
    /// first. Accurate to a second plus the latency of the response.
    pub fn server_time(&self) -> Option<(Moment, Instant)> {
        *self.inner.server_time.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The identity of the cluster: the uid of the namespace `kube-system`. `None` if there is none.
    pub async fn cluster_uid(&self) -> Result<Option<String>> {
        let doing = "identify the cluster";
        let namespace = match self.get("/api/v1/namespaces/kube-system", JSON).await {
            Err(failure) if failure.status == Some(404) => return Ok(None),
            response => response.map_err(|failure| Error::Server { doing, failure })?,
        };
        let namespace = parse_json(&namespace, doing)?;
        match namespace.pointer("/metadata/uid").and_then(Value::as_str) {
            Some(uid) if !uid.is_empty() => Ok(Some(uid.to_owned())),
            _ => Err(unreadable_response(doing, "namespace kube-system has no uid")),
        }
    }

    /// The name of a node that neither KWOK simulates nor this run created: it may have a real kubelet.
    pub async fn find_real_node(&self, run: &str) -> Result<Option<String>> {
        let doing = "list the nodes";
        let is_real = |node: &&Value| {
            let metadata_entry =
                |pointer: &str, key: &str| node.pointer(pointer).and_then(|entries| entries.get(key));
            metadata_entry("/metadata/annotations", KWOK_NODE_ANNOTATION).is_none()
                && metadata_entry("/metadata/labels", crate::run_label::RUN_LABEL)
                    .is_none_or(|label| label != run)
        };
        let mut continue_token = String::new();
        loop {
            let page = self
                .get(&format!("/api/v1/nodes?limit=500&continue={}", percent_encode(&continue_token)), JSON)
                .await;
            let page = parse_json(&page.map_err(|failure| Error::Server { doing, failure })?, doing)?;
            let Some(nodes) = page["items"].as_array() else {
                return Err(unreadable_response(doing, "the response is not a list"));
            };
            if let Some(node) = nodes.iter().find(is_real) {
                let name = node.pointer("/metadata/name").and_then(Value::as_str);
                return Ok(Some(name.unwrap_or("without a name").to_owned()));
            }
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => token.clone_into(&mut continue_token),
                _ => return Ok(None),
            }
        }
    }

    /// Sends a GET request and returns the body.
    pub(crate) async fn get(&self, path: &str, accept: &str) -> std::result::Result<Vec<u8>, RequestFailure> {
        in_time(self.read_body(path, accept, None)).await
    }

    /// Sends a write request and returns the body.
    pub(crate) async fn write(
        &self,
        path: &str,
        write_request: &WriteRequest,
    ) -> std::result::Result<Vec<u8>, RequestFailure> {
        in_time(self.read_body(path, JSON, Some(write_request))).await
    }

    async fn read_body(
        &self,
        path: &str,
        accept: &str,
        write_request: Option<&WriteRequest>,
    ) -> std::result::Result<Vec<u8>, RequestFailure> {
        let mut body = self.send(path, accept, write_request).await?.into_body();
        let mut bytes = Vec::new();
        while let Some(chunk) = next_chunk(&mut body).await? {
            if bytes.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(RequestFailure::from_message(format!(
                    "response larger than {} MiB",
                    MAX_BODY_BYTES >> 20
                )));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, path: &str) -> std::result::Result<WatchLines, RequestFailure> {
        let response = in_time(self.send(path, JSON, None)).await?;
        Ok(WatchLines {
            body: response.into_body(),
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            has_ended: false,
        })
    }

    async fn send(
        &self,
        path: &str,
        accept: &str,
        write_request: Option<&WriteRequest>,
    ) -> std::result::Result<Response<Body>, RequestFailure> {
        let (generation, client) = self.client();
        let mut response = send_request(&client, path, accept, write_request).await;
        if is_credential_failure(&response)
            && let Some(client) = self.renew(generation).await
        {
            response = send_request(&client, path, accept, write_request).await;
        }
        if let Some(date) = response.as_ref().ok().and_then(response_date) {
            *self.inner.server_time.write().unwrap_or_else(PoisonError::into_inner) =
                Some((date, Instant::now()));
        }
        match response {
            Ok(response) if response.status().is_success() => Ok(response),
            Ok(response) => Err(read_failure(response).await),
            Err(error) if is_refused(&error) => {
                Err(RequestFailure::from_message(RequestFailure::CONNECTION_REFUSED.to_owned()))
            }
            Err(error) => Err(RequestFailure::from_message(with_sources(&error))),
        }
    }

    fn client(&self) -> (u64, Client) {
        self.inner.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client with newer credentials than those of `generation`; `None` if there is none yet.
    async fn renew(&self, generation: u64) -> Option<Client> {
        let mut last_renewal = self.inner.last_renewal.clone().lock_owned().await;
        let is_due = last_renewal.is_none_or(|last| last.elapsed() >= RENEWAL_INTERVAL);
        if self.client().0 == generation && is_due {
            *last_renewal = Some(Instant::now());
            let inner = self.inner.clone();
            // In its own task: a caller that is cancelled must not abort the renewal for the others.
            let task = tokio::spawn(async move {
                let outcome = inner.source.client().await;
                if let Ok(client) = outcome {
                    *inner.client.write().unwrap_or_else(PoisonError::into_inner) = (generation + 1, client);
                }
                drop(last_renewal);
            });
            let _ = task.await;
        }
        let (current_generation, client) = self.client();
        (current_generation != generation).then_some(client)
    }
}

fn parse_json(response: &[u8], doing: &'static str) -> Result<Value> {
    serde_json::from_slice(response).map_err(|error| unreadable_response(doing, &error.to_string()))
}

/// An unreadable response is an error: the safety checks on the target must not pass by it.
fn unreadable_response(doing: &'static str, why: &str) -> Error {
    Error::Server { doing, failure: RequestFailure::from_message(format!("invalid response: {why}")) }
}

async fn send_request(
    client: &Client,
    path: &str,
    accept: &str,
    write_request: Option<&WriteRequest>,
) -> std::result::Result<Response<Body>, kube::Error> {
    let mut request = Request::builder()
        .uri(path)
        .header(header::ACCEPT, accept)
        // Kubernetes 1.37 compresses each watch event separately, and clients take the end of the first for the end of
        // the body.
        .header(header::ACCEPT_ENCODING, "identity");
    let mut body = Body::empty();
    if let Some(write_request) = write_request {
        request = request
            .method(write_request.method.clone())
            .header(header::CONTENT_TYPE, write_request.content_type);
        body = Body::from(write_request.body.clone());
    }
    client.send(request.body(body).map_err(kube::Error::HttpError)?).await
}

/// The time of the `Date` header, in the middle of its second.
fn response_date(response: &Response<Body>) -> Option<Moment> {
    let text = response.headers().get(header::DATE)?.to_str().ok()?;
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Moment::from(date.timestamp()).plus_nanos(500_000_000))
}

/// Whether credentials were rejected, or the server's certificate was.
fn is_credential_failure(response: &std::result::Result<Response<Body>, kube::Error>) -> bool {
    match response {
        Ok(response) => response.status() == StatusCode::UNAUTHORIZED,
        Err(error) => reasons_of(error).any(is_tls_error),
    }
}

/// Whether nobody listens at the server's address.
fn is_refused(error: &kube::Error) -> bool {
    let refused = std::io::ErrorKind::ConnectionRefused;
    reasons_of(error)
        .any(|error| error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == refused))
}

/// An error and its sources.
fn reasons_of(error: &kube::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source())
}

/// An io::Error may wrap another error without returning it as its source.
fn is_tls_error(error: &(dyn std::error::Error + 'static)) -> bool {
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>() || inner.is_some_and(|inner| is_tls_error(inner))
}

// === impl WriteRequest ===

impl WriteRequest {
    fn post_json(document: &Value) -> WriteRequest {
        let body = document.to_string().into_bytes();
        WriteRequest { method: Method::POST, content_type: JSON, body }
    }
}

// === impl WatchLines ===

impl WatchLines {
    /// The next complete line in the buffer, without its line end.
    pub(crate) fn next_buffered(&mut self) -> Option<&[u8]> {
        let end = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.buffer.len();
            return None;
        };
        let start = std::mem::replace(&mut self.start, end + 1);
        self.searched = self.start;
        Some(&self.buffer[start..end])
    }

    /// Waits for more bytes. `false` at the end of the body, on an error, and after the timeout; an incomplete line is
    /// lost then.
    pub(crate) async fn fill_buffer(&mut self, idle_timeout: Duration) -> bool {
        timeout(idle_timeout, self.read_chunk()).await.unwrap_or(false)
    }

    /// Takes bytes that have arrived already. `false` if there are none.
    pub(crate) async fn fill_buffer_now(&mut self) -> bool {
        let mut read = pin!(self.read_chunk());
        poll_fn(|context| Poll::Ready(read.as_mut().poll(context) == Poll::Ready(true))).await
    }

    /// Adds the next chunk of the body to the buffer. `false` if there is none.
    async fn read_chunk(&mut self) -> bool {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.has_ended {
            return false;
        }
        match next_chunk(&mut self.body).await {
            Ok(Some(chunk)) if self.buffer.len() + chunk.len() <= MAX_BODY_BYTES => {
                self.buffer.extend_from_slice(&chunk);
            }
            _ => self.has_ended = true,
        }
        !self.has_ended
    }
}

async fn next_chunk(
    body: &mut Body,
) -> std::result::Result<Option<impl AsRef<[u8]> + std::ops::Deref<Target = [u8]>>, RequestFailure> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| RequestFailure::from_message(with_sources(&error)))?;
        // Other frames are trailers.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

async fn read_failure(response: Response<Body>) -> RequestFailure {
    let status = response.status();
    let retry_after_seconds =
        response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while bytes.len() < MAX_ERROR_BYTES
        && let Ok(Some(chunk)) = next_chunk(&mut body).await
    {
        bytes.extend_from_slice(&chunk);
    }
    let failure = RequestFailure::from_status(&String::from_utf8_lossy(&bytes), Some(status.as_u16()));
    RequestFailure {
        retry_after: retry_after_seconds.map(Duration::from_secs).or(failure.retry_after),
        ..failure
    }
}

/// A response within [`RESPONSE_TIMEOUT`].
async fn in_time<T>(
    response: impl Future<Output = std::result::Result<T, RequestFailure>>,
) -> std::result::Result<T, RequestFailure> {
    timeout(RESPONSE_TIMEOUT, response).await.unwrap_or_else(|_| {
        let message = format!("no response within {} s", RESPONSE_TIMEOUT.as_secs());
        Err(RequestFailure::from_message(message))
    })
}

/// An error with its sources, of which the last is the most specific.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let source_message = cause.to_string();
        if !message.contains(&source_message) {
            message = format!("{message}: {source_message}");
        }
        source = cause.source();
    }
    message
}
