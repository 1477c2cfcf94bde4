//! The queue of requests to the packer, and the requests that it has not finished.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Moment;

use crate::error::Result;
use crate::pack::WrittenBlock;

/// Maximum number of queued requests; a stream that found the queue full is requested again after the next commit.
const CAPACITY: usize = 1024;

/// A request of the writer thread.
pub(crate) enum PackerRequest {
    /// Pack a block of a stream that has enough rows for one.
    Pack(i64),
    /// Train a dictionary for a stream that has enough rows to sample.
    Train(i64),
    /// Count a block that the writer has packed itself: a keyframe or an index segment may be due.
    Count(WrittenBlock),
    /// Prune everything before a moment; the reply is sent if there is a sender.
    Prune(Moment, Option<SyncSender<Result<Moment>>>),
}

/// The writer's end of the queue.
pub(crate) struct PackerQueue {
    requests: SyncSender<PackerRequest>,
    unfinished: Arc<UnfinishedRequests>,
}

/// The requests that may replace rows or blocks and are not finished. The writer itself packs no rows of their streams.
#[derive(Default)]
pub(crate) struct UnfinishedRequests {
    counts: Mutex<HashMap<RequestScope, usize>>,
}

/// The streams whose rows and blocks a request may replace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RequestScope {
    Stream(i64),
    AllStreams,
}

// === impl PackerRequest ===

impl PackerRequest {
    /// `None` if it replaces nothing.
    pub(crate) fn scope(&self) -> Option<RequestScope> {
        match self {
            PackerRequest::Pack(stream) => Some(RequestScope::Stream(*stream)),
            PackerRequest::Prune(..) => Some(RequestScope::AllStreams),
            PackerRequest::Train(_) | PackerRequest::Count(_) => None,
        }
    }
}

// === impl PackerQueue ===

impl PackerQueue {
    /// Both ends of a new queue.
    pub(crate) fn new() -> (PackerQueue, Receiver<PackerRequest>) {
        let (requests, receiver) = sync_channel(CAPACITY);
        (PackerQueue { requests, unfinished: Arc::default() }, receiver)
    }

    /// Sends a request unless the queue is full or the packer has ended.
    pub(crate) fn try_send(
        &self,
        request: PackerRequest,
    ) -> std::result::Result<(), TrySendError<PackerRequest>> {
        let scope = request.scope();
        self.unfinished.add(scope);
        let sent = self.requests.try_send(request);
        if sent.is_err() {
            self.unfinished.finish(scope);
        }
        sent
    }

    /// Whether the packer may replace rows or blocks of a stream.
    pub(crate) fn is_packing(&self, stream: i64) -> bool {
        let counts = self.unfinished.lock();
        [RequestScope::Stream(stream), RequestScope::AllStreams]
            .iter()
            .any(|scope| counts.contains_key(scope))
    }

    pub(crate) fn unfinished(&self) -> &Arc<UnfinishedRequests> {
        &self.unfinished
    }
}

// === impl UnfinishedRequests ===

impl UnfinishedRequests {
    fn add(&self, scope: Option<RequestScope>) {
        if let Some(scope) = scope {
            *self.lock().entry(scope).or_default() += 1;
        }
    }

    /// Removes a request that is finished.
    pub(crate) fn finish(&self, scope: Option<RequestScope>) {
        let mut counts = self.lock();
        if let Some(scope) = scope
            && let Some(count) = counts.get_mut(&scope)
        {
            *count -= 1;
            if *count == 0 {
                counts.remove(&scope);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestScope, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
