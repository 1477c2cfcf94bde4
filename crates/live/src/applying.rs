//! Deeds done to a real API server: in their order, as fast as it goes or when they are due.
//!
//! Order is kept for each object, and from what an object needs to the object: its namespace, its owners, its claim,
//! its priority class. All else goes side by side. What the server refuses is told and the rest goes on.

mod cleaning;
mod course;
mod foreign;
mod identities;
mod order;
mod pace;
mod performing;
mod run;
mod run_times;
mod stamping;
mod tally;
mod target;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{Kind, Moment};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::Value;
use tokio::sync::{Semaphore, SetOnce, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub use crate::transplant::OWNER;
use crate::transplant::{Address, Deed, Transplant};
use crate::{Connection, Error, Result};
pub use cleaning::{Cleaned, clean};
use course::Course;
pub use foreign::kinds_before;
use identities::Identities;
use order::Order;
use pace::Clock;
pub use pace::Pace;
pub use run::{Begun, Run, State, runs, tell};
pub use run_times::RunTimes;
pub use stamping::{Stamped, stamp};
pub use tally::{Done, Left, Outcome, Tally, Told};
use target::Target;
pub use target::UID;

pub use crate::run_label::RUN;

/// Does deeds to an API server.
pub struct Applier {
    target: Target,
    identities: Mutex<Identities>,
    order: Mutex<Order>,
    course: Mutex<Course>,
    tally: Mutex<Tally>,
    /// What was there before: it is not ours to change.
    others: Mutex<HashSet<Address>>,
    /// Kinds that were defined here: the server may need a while until it has them.
    defined: Mutex<HashSet<Kind>>,
    /// What was deleted here, by its uid in the target, if anybody wants to know.
    deleted: Mutex<Option<HashSet<Box<str>>>>,
    /// Draws how long is waited, so that not all come back together.
    chance: Mutex<Pcg64>,
    stopped: SetOnce<()>,
    /// It goes on with what an earlier process began.
    resumes: SetOnce<()>,
    is_paused: watch::Sender<bool>,
    /// How long it has been paused.
    paused_for: Mutex<Duration>,
}

/// So many requests are under way at once.
const AT_ONCE: usize = 64;

// === impl Applier ===

impl Applier {
    /// Finds out what the server has. All that is created carries the name of the run.
    pub async fn connect(connection: Connection, run: &str) -> Result<Arc<Applier>> {
        Ok(Arc::new(Applier {
            target: Target::find(connection, run).await?,
            identities: Mutex::default(),
            order: Mutex::default(),
            course: Mutex::default(),
            tally: Mutex::default(),
            others: Mutex::default(),
            defined: Mutex::default(),
            deleted: Mutex::default(),
            chance: Mutex::new(Pcg64::seed_from_u64(1)),
            stopped: SetOnce::new(),
            resumes: SetOnce::new(),
            paused_for: Mutex::default(),
            is_paused: watch::Sender::new(false),
        }))
    }

    /// Goes on with a run that ended early: what was made in it is found by its label. `transplant` has come to where the
    /// run goes on.
    pub async fn recall(&self, transplant: &Transplant) -> Result<()> {
        let mut missing: HashSet<Address> =
            transplant.expected().map(|(address, _)| address.clone()).collect();
        let kinds: HashSet<_> = missing.iter().map(|address| address.kind.clone()).collect();
        let _ = self.resumes.set(());
        for kind in kinds.into_iter().filter(|kind| self.target.has(kind)) {
            let found = self.target.labelled(&kind, Some(&self.target.run)).await;
            let found =
                found.map_err(|failure| Error::Server { doing: "list what was made before", failure })?;
            for (address, object) in found {
                let metadata = &object["metadata"];
                let old = metadata["annotations"].get(UID).and_then(Value::as_str);
                if let (Some(old), Some(new)) = (old, metadata["uid"].as_str()) {
                    lock(&self.identities).learn(old, new);
                }
                missing.remove(&address);
            }
        }
        *lock(&self.others) = missing;
        Ok(())
    }

    /// Does all deeds in their order, until there are no more, every one is done, and the end has come.
    pub async fn apply(self: &Arc<Applier>, mut deeds: mpsc::Receiver<Deed>, pace: Pace, end: Moment) {
        let mut clock = Clock::start(pace);
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        while let Some(deed) = self.unless_stopped(deeds.recv()).await.flatten() {
            let Some(due) = self.unless_stopped(self.come_to(&mut clock, deed.at)).await else { break };
            // Whoever a deed waits for began before it: so there is always one that goes on.
            let Ok(permit) = permits.clone().acquire_owned().await else { break };
            let (before, turn) = lock(&self.order).take_turn(&deed);
            let number = lock(&self.course).begin(deed.at);
            lock(&self.defined).extend(deed.defines());
            let applier = self.clone();
            tasks.spawn(async move {
                for other in before {
                    other.wait().await;
                }
                let late = due.map(|due| Instant::now().saturating_duration_since(due));
                let outcome = applier.perform(&deed).await;
                lock(&applier.order).done(&deed, &turn);
                // Nobody else sets it.
                let _ = turn.set(());
                lock(&applier.course).end(number);
                lock(&applier.tally).note(&deed, &outcome, late);
                drop(permit);
            });
            while tasks.try_join_next().is_some() {}
        }
        // Nothing is changed any more, but time goes on for those who live in the target.
        self.unless_stopped(self.come_to(&mut clock, end)).await;
        while tasks.join_next().await.is_some() {}
    }

    /// Waits until something is due that happened then, and says when that was. A pause moves all that is to come.
    async fn come_to(&self, clock: &mut Clock, at: Moment) -> Option<Instant> {
        let mut is_paused = self.is_paused.subscribe();
        loop {
            if *is_paused.borrow_and_update() {
                let since = Instant::now();
                // The sender lives as long as this does.
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

    /// Begins nothing more; what is under way is brought to an end.
    pub fn stop(&self) {
        // It may have been told before.
        let _ = self.stopped.set(());
    }

    /// Whether it was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.initialized()
    }

    /// Begins nothing more until it is told to go on.
    pub fn pause(&self, paused: bool) {
        self.is_paused.send_if_modified(|now| std::mem::replace(now, paused) != paused);
    }

    /// How long it has been paused.
    pub fn paused_for(&self) -> Duration {
        *lock(&self.paused_for)
    }

    /// Whether it waits to be told to go on.
    pub fn is_paused(&self) -> bool {
        *self.is_paused.borrow()
    }

    /// Waits for something, but not when it is told to stop.
    pub async fn unless_stopped<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            _ = self.stopped.wait() => None,
            outcome = what => Some(outcome),
        }
    }

    /// The moment before which everything is done; `None` if nothing has begun.
    pub fn position(&self) -> Option<Moment> {
        lock(&self.course).position()
    }

    /// What has been done until now.
    pub fn tally(&self) -> Tally {
        lock(&self.tally).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
