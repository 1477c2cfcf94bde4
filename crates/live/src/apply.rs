//! Execution of API operations on a real API server: in order, as fast as possible or when they are due.
//!
//! Operations on one object are ordered, and an object comes after those it needs: its namespace, owners, claim and
//! priority class. All others run concurrently. Operations that the server rejects are counted, and the rest continues.

mod cleanup;
mod execute;
mod foreign;
mod operation_order;
mod outcomes;
mod pod_lifecycle;
mod progress;
mod run;
mod run_times;
mod speed;
mod target;
mod uid_map;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{Kind, Moment, ObjectRef};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::Value;
use tokio::sync::{Semaphore, SetOnce, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub use crate::translate::OWNER_ANNOTATION;
use crate::translate::{ApiOperation, Translator};
use crate::{Connection, Error, Result};
pub use cleanup::{CleanupReport, clean};
pub use foreign::kinds_before_run;
use operation_order::OperationOrder;
pub use outcomes::{AppliedEffect, CountedExample, OperationOutcome, OutcomeCounts, SkipReason};
pub use pod_lifecycle::{PodLifecycleOptions, drive_pod_lifecycles};
use progress::Progress;
pub use run::{RunState, RunStatus, StartedRun, list_runs, set_paused};
pub use run_times::RunTimes;
use speed::DueClock;
pub use speed::ReplaySpeed;
use target::TargetCluster;
pub use target::UID_ANNOTATION;
use uid_map::UidMap;

pub use crate::run_label::RUN_LABEL;

/// Executes API operations on a target cluster.
pub struct Applier {
    target: TargetCluster,
    uids: Mutex<UidMap>,
    order: Mutex<OperationOrder>,
    progress: Mutex<Progress>,
    outcomes: Mutex<OutcomeCounts>,
    /// Objects that the run must not change: created by others, or not found when the run was resumed.
    untouchable: Mutex<HashSet<ObjectRef>>,
    /// Kinds defined by this run: the server may need a while until it serves them.
    defined_kinds: Mutex<HashSet<Kind>>,
    /// The target uids of objects that this run deleted; `None` if they are not tracked.
    deleted: Mutex<Option<HashSet<Box<str>>>>,
    /// The jitter of the backoff.
    rng: Mutex<Pcg64>,
    stopped: SetOnce<()>,
    /// It resumes the run of an earlier process.
    is_resuming: SetOnce<()>,
    is_paused: watch::Sender<bool>,
    /// The total duration of all pauses.
    paused_for: Mutex<Duration>,
}

/// The maximum number of concurrent operations.
const MAX_CONCURRENT_OPERATIONS: usize = 64;

// === impl Applier ===

impl Applier {
    /// Runs discovery. Every object created is labeled with the name of the run.
    pub async fn connect(connection: Connection, run: &str) -> Result<Arc<Applier>> {
        Ok(Arc::new(Applier {
            target: TargetCluster::connect(connection, run).await?,
            uids: Mutex::default(),
            order: Mutex::default(),
            progress: Mutex::default(),
            outcomes: Mutex::default(),
            untouchable: Mutex::default(),
            defined_kinds: Mutex::default(),
            deleted: Mutex::default(),
            rng: Mutex::new(Pcg64::seed_from_u64(1)),
            stopped: SetOnce::new(),
            is_resuming: SetOnce::new(),
            paused_for: Mutex::default(),
            is_paused: watch::Sender::new(false),
        }))
    }

    /// Resumes a run that ended early: objects it created are found by their label. `translator` has advanced to the
    /// position at which the run resumes.
    pub async fn recover_created(&self, translator: &Translator) -> Result<()> {
        let mut missing: HashSet<ObjectRef> =
            translator.expected_objects().map(|(object_ref, _)| object_ref.clone()).collect();
        let kinds: HashSet<_> = missing.iter().map(|object_ref| object_ref.kind.clone()).collect();
        let _ = self.is_resuming.set(());
        for kind in kinds.into_iter().filter(|kind| self.target.has_kind(kind)) {
            let objects = self.target.list_labeled(&kind, Some(&self.target.run)).await;
            let objects =
                objects.map_err(|failure| Error::Server { doing: "list the objects of the run", failure })?;
            for (object_ref, object) in objects {
                let metadata = &object["metadata"];
                let recorded_uid = metadata["annotations"].get(UID_ANNOTATION).and_then(Value::as_str);
                if let (Some(recorded_uid), Some(target_uid)) = (recorded_uid, metadata["uid"].as_str()) {
                    lock(&self.uids).insert(recorded_uid, target_uid);
                }
                missing.remove(&object_ref);
            }
        }
        *lock(&self.untouchable) = missing;
        Ok(())
    }

    /// Executes all operations, and returns when all are done and the end of the replay is reached.
    pub async fn apply(
        self: &Arc<Applier>,
        mut operations: mpsc::Receiver<ApiOperation>,
        speed: ReplaySpeed,
        end: Moment,
    ) {
        let mut clock = DueClock::start(speed);
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_OPERATIONS));
        let mut tasks = JoinSet::new();
        while let Some(operation) = self.unless_stopped(operations.recv()).await.flatten() {
            let Some(due) = self.unless_stopped(self.wait_until_due(&mut clock, operation.at)).await else {
                break;
            };
            // An operation only waits for earlier ones, so at least one can always proceed.
            let Ok(permit) = permits.clone().acquire_owned().await else { break };
            let (predecessors, done) = lock(&self.order).enqueue(&operation);
            let number = lock(&self.progress).begin(operation.at);
            lock(&self.defined_kinds).extend(operation.defined_kind());
            let applier = self.clone();
            tasks.spawn(async move {
                for predecessor in predecessors {
                    predecessor.wait().await;
                }
                let lateness = due.map(|due| Instant::now().saturating_duration_since(due));
                let outcome = applier.execute(&operation).await;
                lock(&applier.order).remove(&operation, &done);
                // It is set only here.
                let _ = done.set(());
                lock(&applier.progress).end(number);
                lock(&applier.outcomes).add(&operation, &outcome, lateness);
                drop(permit);
            });
            while tasks.try_join_next().is_some() {}
        }
        // There are no more operations, but the target's components run until the end.
        self.unless_stopped(self.wait_until_due(&mut clock, end)).await;
        while tasks.join_next().await.is_some() {}
    }

    /// Waits until an operation of this moment is due, and returns the due time. A pause delays everything that
    /// follows.
    async fn wait_until_due(&self, clock: &mut DueClock, at: Moment) -> Option<Instant> {
        let mut is_paused = self.is_paused.subscribe();
        loop {
            if *is_paused.borrow_and_update() {
                let since = Instant::now();
                // The sender is owned by `self`.
                let _ = is_paused.wait_for(|paused| !paused).await;
                clock.shift(since.elapsed());
                *lock(&self.paused_for) += since.elapsed();
            }
            let due = clock.due(at)?;
            tokio::select! {
                () = sleep_until(due) => return Some(due),
                _ = is_paused.wait_for(|paused| *paused) => {}
            }
        }
    }

    /// Starts no further operations; running ones are completed.
    pub fn stop(&self) {
        // It may have been set before.
        let _ = self.stopped.set(());
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.initialized()
    }

    /// Pauses or resumes.
    pub fn pause(&self, paused: bool) {
        self.is_paused.send_if_modified(|current| std::mem::replace(current, paused) != paused);
    }

    /// The total duration of all pauses.
    pub fn paused_for(&self) -> Duration {
        *lock(&self.paused_for)
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        *self.is_paused.borrow()
    }

    /// Awaits a future; returns `None` when stopped.
    pub async fn unless_stopped<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            _ = self.stopped.wait() => None,
            outcome = what => Some(outcome),
        }
    }

    /// The moment before which all operations are done; `None` if none has started.
    pub fn done_until(&self) -> Option<Moment> {
        lock(&self.progress).done_until()
    }

    /// The outcomes so far.
    pub fn outcomes(&self) -> OutcomeCounts {
        lock(&self.outcomes).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
