//! The worker pool for blocking requests, and the streaming of their responses to clients.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use tokio::runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::Stream;

use super::api_error::{ApiError, Result};

/// The most requests at once that read large parts of a history.
const MAX_HEAVY_REQUESTS: usize = 16;
/// The most requests at once that take milliseconds; others queue.
const MAX_LIGHT_REQUESTS: usize = 16;
/// How long a light request may queue.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a response waits for its client to read the next chunk.
const CLIENT_READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a response may take. While a history is being read SQLite cannot checkpoint its write-ahead log, which
/// grows.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(3600);
/// The size of a chunk, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks queued for the client; a full queue blocks the worker.
const CHUNK_QUEUE_LENGTH: usize = 4;

/// Runs blocking work on tokio's blocking threads, with a limit for each class of request.
#[derive(Clone)]
pub(super) struct WorkerPool {
    heavy: Arc<Semaphore>,
    light: Arc<Semaphore>,
}

/// Writes the response body. Writes fail once the client has disconnected.
pub(super) struct BodyWriter {
    chunks: mpsc::Sender<BodyChunk>,
    buffer: Vec<u8>,
    started: Instant,
    runtime: runtime::Handle,
}

/// Checks whether the client is still connected, for work that has nothing to write yet.
#[derive(Clone)]
pub(super) struct ClientHandle(mpsc::Sender<BodyChunk>);

/// A message from the worker. A response without `End` is incomplete.
enum BodyChunk {
    Bytes(Bytes),
    Failed(ApiError),
    End,
}

/// The chunks as a body. An incomplete response is aborted, so that the client notices.
struct BodyStream {
    first: Option<Bytes>,
    rest: mpsc::Receiver<BodyChunk>,
}

// === impl WorkerPool ===

impl WorkerPool {
    pub(super) fn new() -> WorkerPool {
        WorkerPool {
            heavy: Arc::new(Semaphore::new(MAX_HEAVY_REQUESTS)),
            light: Arc::new(Semaphore::new(MAX_LIGHT_REQUESTS)),
        }
    }

    /// Runs work that takes milliseconds; queues if too many others run.
    pub(super) async fn run_light<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let waited = tokio::time::timeout(QUEUE_TIMEOUT, self.light.clone().acquire_owned()).await;
        let permit = waited.map_err(|_| ApiError::unavailable("too many requests: retry in a second"))?;
        let permit = permit.expect("the semaphore is never closed");
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.unwrap_or_else(|_| Err(panicked_error()))
    }

    /// Runs work that may take long, or fails with 503 if too many others run. The body is what the work writes; an
    /// error before the first chunk becomes the response.
    pub(super) async fn run_heavy(
        &self,
        work: impl FnOnce(&mut BodyWriter) -> Result<()> + Send + 'static,
    ) -> Result<Body> {
        let permit = self.heavy.clone().try_acquire_owned().map_err(|_| {
            ApiError::unavailable(format!(
                "{MAX_HEAVY_REQUESTS} long requests are running, the maximum: retry in a second"
            ))
        })?;
        let (parts, mut rest) = mpsc::channel(CHUNK_QUEUE_LENGTH);
        let mut sink = BodyWriter {
            chunks: parts,
            buffer: Vec::new(),
            started: Instant::now(),
            runtime: runtime::Handle::current(),
        };
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            // A client that has disconnected, or no longer reads, does not receive the error.
            let _ = match work(&mut sink).and_then(|()| Ok(sink.send_buffer()?)) {
                Ok(()) => sink.send(BodyChunk::End),
                Err(problem) => {
                    sink.chunks.try_send(BodyChunk::Failed(problem)).map_err(|_| disconnected_error())
                }
            };
        });
        match rest.recv().await {
            Some(BodyChunk::Bytes(first)) => Ok(Body::from_stream(BodyStream { first: Some(first), rest })),
            Some(BodyChunk::End) => Ok(Body::empty()),
            Some(BodyChunk::Failed(problem)) => Err(problem),
            None => Err(panicked_error()),
        }
    }
}

// === impl BodyWriter ===

impl BodyWriter {
    pub(super) fn client(&self) -> ClientHandle {
        ClientHandle(self.chunks.clone())
    }

    fn send_buffer(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let part = BodyChunk::Bytes(std::mem::take(&mut self.buffer).into());
        self.send(part)
    }

    fn send(&self, part: BodyChunk) -> io::Result<()> {
        if self.started.elapsed() > MAX_RESPONSE_TIME {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the client is too slow"));
        }
        let sending = tokio::time::timeout(CLIENT_READ_TIMEOUT, self.chunks.send(part));
        match self.runtime.block_on(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(disconnected_error()),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")),
        }
    }
}

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.send_buffer()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // The rest is sent when the work is done: many small chunks would only cost more.
        Ok(())
    }
}

// === impl ClientHandle ===

impl ClientHandle {
    /// A client that is connected until the second value is dropped.
    #[cfg(test)]
    pub(super) fn new() -> (ClientHandle, impl Sized) {
        let (parts, connection) = mpsc::channel(1);
        (ClientHandle(parts), connection)
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.0.is_closed()
    }

    /// Returns an error once the client has disconnected.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.is_connected() { Ok(()) } else { Err(disconnected_error().into()) }
    }
}

// === impl BodyStream ===

impl Stream for BodyStream {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        self.rest.poll_recv(context).map(|part| match part {
            Some(BodyChunk::Bytes(bytes)) => Some(Ok(bytes)),
            Some(BodyChunk::End) => None,
            Some(BodyChunk::Failed(problem)) => Some(Err(problem)),
            None => Some(Err(panicked_error())),
        })
    }
}

fn disconnected_error() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client disconnected")
}

fn panicked_error() -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the request handler panicked")
}
