//! A connection to an API server: bodies of lists and lines of watches as bytes.

mod origin;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use k8s_openapi::jiff;
use kube::client::{Body, Client};
use model::Moment;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::url::encoded;
use crate::watching::Failure;
use crate::{Error, Result};
use origin::Origin;

/// A connection to an API server. A clone is the same connection.
///
/// Credentials expire, and authorities are replaced: when the server no longer takes what was once read, or is no longer
/// trusted, the same kubeconfig is read again.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    origin: Origin,
    /// How often it was read again, and what came of it.
    client: RwLock<(u64, Client)>,
    /// When it was last read again. Held while that goes on.
    renewed: Arc<Mutex<Option<Instant>>>,
    /// What time it is at the server, and when it said so.
    server_time: RwLock<Option<(Moment, Instant)>>,
}

/// The lines of a watch that is going on.
pub(crate) struct Lines {
    body: Body,
    /// What was received, from `start` on not yet given out; up to `searched` there is no end of a line.
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
}

/// What a request that writes sends.
pub(crate) struct Sent {
    pub(crate) method: Method,
    pub(crate) content: &'static str,
    pub(crate) body: Vec<u8>,
}

/// For a whole page, or the beginning of a watch.
const ANSWER: Duration = Duration::from_secs(120);
/// What is taken at once: no line is this big, and pages that are get asked for in parts. Claimed lengths are not
/// believed: it is counted as it comes.
const MOST: usize = 32 << 20;
/// Not more often than this are credentials read again: it may cost a program run, or a user's patience.
const BETWEEN_RENEWALS: Duration = Duration::from_secs(30);
const JSON: &str = "application/json";
/// Marks a node whose kubelet KWOK plays.
const PLAYED: &str = "kwok.x-k8s.io/node";
/// What is kept of the words with which a server refuses.
const MOST_WORDS: usize = 64 << 10;

// === impl Connection ===

impl Connection {
    /// Connects as a kubeconfig says: the file, or those of `$KUBECONFIG`, or `~/.kube/config`; without any of them as
    /// a pod does in its cluster. Nothing is sent yet.
    pub async fn open(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Connection> {
        let origin = Origin::find(kubeconfig, context)?;
        let client = RwLock::new((0, origin.client().await?));
        Ok(Connection {
            inner: Arc::new(Inner {
                origin,
                client,
                renewed: Arc::default(),
                server_time: RwLock::default(),
            }),
        })
    }

    /// The name of the context that would be opened: `in-cluster` if that is where this runs.
    pub fn name(kubeconfig: Option<&Path>, context: Option<&str>) -> String {
        let context = context.map(str::to_owned).or_else(|| origin::current_context(kubeconfig));
        context.unwrap_or_else(|| origin::IN_CLUSTER.to_owned())
    }

    /// The name of the context, for messages and as the name of a recording.
    pub fn context(&self) -> &str {
        self.inner.origin.context()
    }

    /// What the server says of its version, as it says it.
    pub async fn version(&self) -> Result<String> {
        let version = self.get("/version", "application/json").await.and_then(|body| {
            serde_json::from_slice::<serde::de::IgnoredAny>(&body)
                .map_err(|error| Failure::said(error.to_string()))?;
            String::from_utf8(body).map_err(|error| Failure::said(error.to_string()))
        });
        version.map_err(|failure| Error::Server { doing: "ask for the server's version", failure })
    }

    /// What time it was at the server when it last answered, by the `Date` of the answer, and when that came; `None` before
    /// the first. It is exact to a second, and as late as answers are.
    pub fn server_time(&self) -> Option<(Moment, Instant)> {
        *self.inner.server_time.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tells the cluster from others: the uid of the namespace that every cluster has. `None` if it has none.
    pub async fn uid(&self) -> Result<Option<String>> {
        let doing = "ask which cluster it is";
        let namespace = match self.get("/api/v1/namespaces/kube-system", JSON).await {
            Err(failure) if failure.status == Some(404) => return Ok(None),
            answer => answer.map_err(|failure| Error::Server { doing, failure })?,
        };
        let namespace = understood(&namespace, doing)?;
        match namespace.pointer("/metadata/uid").and_then(Value::as_str) {
            Some(uid) if !uid.is_empty() => Ok(Some(uid.to_owned())),
            _ => Err(not_understood(doing, "a namespace without a uid")),
        }
    }

    /// The name of a node that KWOK does not play and that this run did not make: it may have a real kubelet.
    pub async fn real_node(&self, run: &str) -> Result<Option<String>> {
        let doing = "ask which nodes there are";
        let is_real = |node: &&Value| {
            let has = |place: &str, key: &str| node.pointer(place).and_then(|it| it.get(key));
            has("/metadata/annotations", PLAYED).is_none()
                && has("/metadata/labels", crate::run_label::RUN).is_none_or(|label| label != run)
        };
        let mut next = String::new();
        loop {
            let page = self.get(&format!("/api/v1/nodes?limit=500&continue={}", encoded(&next)), JSON).await;
            let page = understood(&page.map_err(|failure| Error::Server { doing, failure })?, doing)?;
            let Some(nodes) = page["items"].as_array() else {
                return Err(not_understood(doing, "an answer that is no list"));
            };
            if let Some(node) = nodes.iter().find(is_real) {
                let name = node.pointer("/metadata/name").and_then(Value::as_str);
                return Ok(Some(name.unwrap_or("without a name").to_owned()));
            }
            match page["metadata"]["continue"].as_str() {
                Some(more) if !more.is_empty() => more.clone_into(&mut next),
                _ => return Ok(None),
            }
        }
    }

    /// The body of an answer.
    pub(crate) async fn get(&self, path: &str, accept: &str) -> std::result::Result<Vec<u8>, Failure> {
        self.whole(path, accept, None).await
    }

    /// The body of the answer to a request that writes.
    pub(crate) async fn write(&self, path: &str, sent: &Sent) -> std::result::Result<Vec<u8>, Failure> {
        self.whole(path, JSON, Some(sent)).await
    }

    async fn whole(
        &self,
        path: &str,
        accept: &str,
        sent: Option<&Sent>,
    ) -> std::result::Result<Vec<u8>, Failure> {
        let whole = async {
            let mut body = self.send(path, accept, sent).await?.into_body();
            let mut bytes = Vec::new();
            while let Some(piece) = next(&mut body).await? {
                if bytes.len() + piece.len() > MOST {
                    return Err(Failure::said(format!("an answer of more than {} MiB", MOST >> 20)));
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes)
        };
        timeout(ANSWER, whole).await.unwrap_or_else(|_| Err(late()))
    }

    /// The lines of an answer that goes on.
    pub(crate) async fn lines(&self, path: &str) -> std::result::Result<Lines, Failure> {
        let answer = timeout(ANSWER, self.send(path, JSON, None)).await.unwrap_or_else(|_| Err(late()))?;
        Ok(Lines { body: answer.into_body(), buffer: Vec::new(), start: 0, searched: 0 })
    }

    async fn send(
        &self,
        path: &str,
        accept: &str,
        sent: Option<&Sent>,
    ) -> std::result::Result<Response<Body>, Failure> {
        let (age, client) = self.client();
        let mut answer = ask(&client, path, accept, sent).await;
        if is_estranged(&answer)
            && let Some(client) = self.renew(age).await
        {
            answer = ask(&client, path, accept, sent).await;
        }
        if let Some(date) = answer.as_ref().ok().and_then(date) {
            *self.inner.server_time.write().unwrap_or_else(PoisonError::into_inner) =
                Some((date, Instant::now()));
        }
        match answer {
            Ok(answer) if answer.status().is_success() => Ok(answer),
            Ok(answer) => Err(refusal(answer).await),
            Err(error) => Err(Failure::said(in_words(&error))),
        }
    }

    fn client(&self) -> (u64, Client) {
        self.inner.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client with other credentials than that one; `None` if there is none yet.
    async fn renew(&self, age: u64) -> Option<Client> {
        let mut renewed = self.inner.renewed.clone().lock_owned().await;
        let is_due = renewed.is_none_or(|last| last.elapsed() >= BETWEEN_RENEWALS);
        if self.client().0 == age && is_due {
            *renewed = Some(Instant::now());
            let inner = self.inner.clone();
            // By a task of its own: whoever gives up waiting must not make others begin anew.
            let renewing = tokio::spawn(async move {
                let outcome = inner.origin.client().await;
                if let Ok(client) = outcome {
                    *inner.client.write().unwrap_or_else(PoisonError::into_inner) = (age + 1, client);
                }
                drop(renewed);
            });
            let _ = renewing.await;
        }
        let (now, client) = self.client();
        (now != age).then_some(client)
    }
}

fn understood(answer: &[u8], doing: &'static str) -> Result<Value> {
    serde_json::from_slice(answer).map_err(|error| not_understood(doing, &error.to_string()))
}

/// Who cannot be understood is not taken for somebody harmless.
fn not_understood(doing: &'static str, why: &str) -> Error {
    Error::Server { doing, failure: Failure::said(format!("the answer cannot be understood: {why}")) }
}

async fn ask(
    client: &Client,
    path: &str,
    accept: &str,
    sent: Option<&Sent>,
) -> std::result::Result<Response<Body>, kube::Error> {
    let mut request = Request::builder()
        .uri(path)
        .header(header::ACCEPT, accept)
        // Kubernetes 1.37 compresses each event of a watch by itself, which clients take for the end after the first.
        .header(header::ACCEPT_ENCODING, "identity");
    let mut body = Body::empty();
    if let Some(sent) = sent {
        request = request.method(sent.method.clone()).header(header::CONTENT_TYPE, sent.content);
        body = Body::from(sent.body.clone());
    }
    client.send(request.body(body).map_err(kube::Error::HttpError)?).await
}

/// When the server says that it answered: in the middle of the second that it names.
fn date(answer: &Response<Body>) -> Option<Moment> {
    let text = answer.headers().get(header::DATE)?.to_str().ok()?;
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Moment::from(date.timestamp()).plus_nanos(500_000_000))
}

/// Whether the server does not know us, or we do not know the server.
fn is_estranged(answer: &std::result::Result<Response<Body>, kube::Error>) -> bool {
    match answer {
        Ok(answer) => answer.status() == StatusCode::UNAUTHORIZED,
        Err(error) => {
            let mut reasons =
                std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| {
                    error.source()
                });
            reasons.any(is_of_tls)
        }
    }
}

/// An error of the system may hold another one without naming it as its source.
fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>() || held.is_some_and(|held| is_of_tls(held))
}

// === impl Lines ===

impl Lines {
    /// The next line that has already come, without its end.
    pub(crate) fn come(&mut self) -> Option<&[u8]> {
        let end = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.buffer.len();
            return None;
        };
        let start = std::mem::replace(&mut self.start, end + 1);
        self.searched = self.start;
        Some(&self.buffer[start..end])
    }

    /// Waits for more. `false` at the end, in whatever way it came, and if nothing comes for so long; a line without an
    /// end is lost then.
    pub(crate) async fn wait(&mut self, patience: Duration) -> bool {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        match timeout(patience, next(&mut self.body)).await {
            Ok(Ok(Some(piece))) if self.buffer.len() + piece.len() <= MOST => {
                self.buffer.extend_from_slice(&piece);
                true
            }
            _ => false,
        }
    }
}

async fn next(
    body: &mut Body,
) -> std::result::Result<Option<impl AsRef<[u8]> + std::ops::Deref<Target = [u8]>>, Failure> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::said(in_words(&error)))?;
        // What is no data is a trailer.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

async fn refusal(answer: Response<Body>) -> Failure {
    let status = answer.status();
    let seconds =
        answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let mut body = answer.into_body();
    let mut words = Vec::new();
    while words.len() < MOST_WORDS
        && let Ok(Some(piece)) = next(&mut body).await
    {
        words.extend_from_slice(&piece);
    }
    let failure = Failure::of_status(&String::from_utf8_lossy(&words), Some(status.as_u16()));
    Failure { retry_after: seconds.map(Duration::from_secs).or(failure.retry_after), ..failure }
}

fn late() -> Failure {
    Failure::said(format!("no answer within {} s", ANSWER.as_secs()))
}

/// An error with its reasons, of which the last says most.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(reason) = source {
        let reason_words = reason.to_string();
        if !words.contains(&reason_words) {
            words = format!("{words}: {reason_words}");
        }
        source = reason.source();
    }
    words
}
