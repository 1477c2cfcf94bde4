//! Work that waits for disks, on threads of its own, and what it says on its way to the client.

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

use super::problem::{Problem, Result};

/// Questions that read much of a history, at once.
const HEAVY: usize = 16;
/// Questions that are answered in milliseconds, at once; more of them wait for each other.
const LIGHT: usize = 16;
/// How long they wait.
const QUEUE_PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer waits for a client to take the next part of it.
const CLIENT_PATIENCE: Duration = Duration::from_secs(60);
/// How long an answer may take. While it is read a recorder's log cannot be folded into its file, and grows.
const LONGEST: Duration = Duration::from_secs(3600);
/// The bytes of one part.
const PART: usize = 64 << 10;
/// Parts that wait for the client; a full queue makes the work wait.
const PARTS: usize = 4;

/// Who does the work, and how much of it at once.
#[derive(Clone)]
pub(super) struct Hands {
    heavy: Arc<Semaphore>,
    light: Arc<Semaphore>,
}

/// Where work writes its answer. It ends with an error as soon as the client has gone.
pub(super) struct Sink {
    parts: mpsc::Sender<Part>,
    gathered: Vec<u8>,
    began: Instant,
    runtime: runtime::Handle,
}

/// Tells work that has nothing to write yet whether the client is still there.
#[derive(Clone)]
pub(super) struct Client(mpsc::Sender<Part>);

/// What comes from the work. An answer is whole only with its end.
enum Part {
    Bytes(Bytes),
    Failed(Problem),
    End,
}

/// The parts as a body: one that broke off is seen as such by the client.
struct Parts {
    first: Option<Bytes>,
    rest: mpsc::Receiver<Part>,
}

// === impl Hands ===

impl Hands {
    pub(super) fn new() -> Hands {
        Hands { heavy: Arc::new(Semaphore::new(HEAVY)), light: Arc::new(Semaphore::new(LIGHT)) }
    }

    /// Does what takes milliseconds, after others have done so.
    pub(super) async fn light<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let waited = tokio::time::timeout(QUEUE_PATIENCE, self.light.clone().acquire_owned()).await;
        let permit =
            waited.map_err(|_| Problem::busy("too many questions at once: ask again in a second"))?;
        let permit = permit.expect("the semaphore is never closed");
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.unwrap_or_else(|_| Err(broken_off()))
    }

    /// Does what may take long, unless too many do already. What it writes is the body; an error before that is the
    /// answer.
    pub(super) async fn heavy(
        &self,
        work: impl FnOnce(&mut Sink) -> Result<()> + Send + 'static,
    ) -> Result<Body> {
        let permit = self.heavy.clone().try_acquire_owned().map_err(|_| {
            Problem::busy(format!(
                "{HEAVY} long answers are under way, no more at once: ask again in a second"
            ))
        })?;
        let (parts, mut rest) = mpsc::channel(PARTS);
        let mut sink =
            Sink { parts, gathered: Vec::new(), began: Instant::now(), runtime: runtime::Handle::current() };
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            // A client that has gone, or takes nothing any more, does not hear how it ended.
            let _ = match work(&mut sink).and_then(|()| Ok(sink.pass_on()?)) {
                Ok(()) => sink.send(Part::End),
                Err(problem) => sink.parts.try_send(Part::Failed(problem)).map_err(|_| gone()),
            };
        });
        match rest.recv().await {
            Some(Part::Bytes(first)) => Ok(Body::from_stream(Parts { first: Some(first), rest })),
            Some(Part::End) => Ok(Body::empty()),
            Some(Part::Failed(problem)) => Err(problem),
            None => Err(broken_off()),
        }
    }
}

// === impl Sink ===

impl Sink {
    pub(super) fn client(&self) -> Client {
        Client(self.parts.clone())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let part = Part::Bytes(std::mem::take(&mut self.gathered).into());
        self.send(part)
    }

    fn send(&self, part: Part) -> io::Result<()> {
        if self.began.elapsed() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes too long"));
        }
        let sending = tokio::time::timeout(CLIENT_PATIENCE, self.parts.send(part));
        match self.runtime.block_on(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing any more")),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PART {
            self.pass_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // What is left is passed on when the work is done: many small parts would only cost more.
        Ok(())
    }
}

// === impl Client ===

impl Client {
    /// A client, there as long as what is given with it.
    #[cfg(test)]
    pub(super) fn new() -> (Client, impl Sized) {
        let (parts, connection) = mpsc::channel(1);
        (Client(parts), connection)
    }

    pub(super) fn is_there(&self) -> bool {
        !self.0.is_closed()
    }

    /// An error once the client has gone.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.is_there() { Ok(()) } else { Err(gone().into()) }
    }
}

// === impl Parts ===

impl Stream for Parts {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        self.rest.poll_recv(context).map(|part| match part {
            Some(Part::Bytes(bytes)) => Some(Ok(bytes)),
            Some(Part::End) => None,
            Some(Part::Failed(problem)) => Some(Err(problem)),
            None => Some(Err(broken_off())),
        })
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone")
}

fn broken_off() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the work broke off; this is a mistake in the program")
}
