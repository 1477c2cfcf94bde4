//! Deployments: from one template of pods to the next, bit by bit.
//!
//! A look at a Deployment works out what its ReplicaSets are to be and what it then is; each is written once.

mod rolling;
mod sets;
mod status;

use std::sync::Arc;

use kubernetes::go;
use kubernetes::read::nullable;
use serde::Deserialize;
use serde_json::Value;

use self::sets::{Set, Sets};
use super::Context;
use super::amount::{Amount, Round};
use super::table::{Held, Spec};
use super::template::Template;
use super::world::Thing;

pub(super) use self::status::DeploymentStatus;

/// What a Deployment is to be.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeploymentSpec {
    replicas: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    selector: Value,
    template: Template,
    #[serde(deserialize_with = "nullable")]
    strategy: StrategyJson,
    #[serde(deserialize_with = "nullable")]
    min_ready_seconds: i64,
    revision_history_limit: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    paused: bool,
    progress_deadline_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StrategyJson {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(deserialize_with = "nullable")]
    rolling_update: RollingJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RollingJson {
    max_unavailable: Option<Amount>,
    max_surge: Option<Amount>,
}

impl Spec for DeploymentSpec {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "Deployment";
    type Status = DeploymentStatus;
}

// === impl DeploymentSpec ===

impl DeploymentSpec {
    pub(super) fn replicas(&self) -> i64 {
        self.replicas.unwrap_or(1).max(0)
    }

    fn recreates(&self) -> bool {
        self.strategy.kind.as_deref() == Some("Recreate")
    }

    /// How many pods more there may be, as long as it is not worked out with how many may be missing.
    fn surge(&self) -> i64 {
        let surge = self.strategy.rolling_update.max_surge.unwrap_or(Amount::Percent(25));
        if self.recreates() { 0 } else { surge.of(self.replicas(), Round::Up) }
    }

    /// How many pods may be missing.
    fn unavailable(&self) -> i64 {
        if self.recreates() || self.replicas() == 0 {
            return 0;
        }
        let missing = self.strategy.rolling_update.max_unavailable.unwrap_or(Amount::Percent(25));
        let missing = missing.of(self.replicas(), Round::Down);
        // Something must be able to move.
        let missing = if missing == 0 && self.surge() == 0 { 1 } else { missing };
        missing.min(self.replicas())
    }

    /// How many pods there may be at most.
    fn most(&self) -> i64 {
        self.replicas().saturating_add(self.surge())
    }

    /// After how many seconds without progress it counts as stuck. The highest number is never.
    fn deadline(&self) -> Option<i64> {
        let seconds = self.progress_deadline_seconds.unwrap_or(600);
        (seconds != i64::from(i32::MAX)).then_some(seconds)
    }

    fn history_limit(&self) -> Option<i64> {
        let limit = self.revision_history_limit.unwrap_or(10);
        (limit != i64::from(i32::MAX)).then_some(limit)
    }
}

pub(super) fn sync(context: &mut Context<'_>, held: &Arc<Held<DeploymentSpec>>) {
    let is_empty = |key: &str| match held.spec.selector.get(key) {
        Some(Value::Object(labels)) => labels.is_empty(),
        Some(Value::Array(expressions)) => expressions.is_empty(),
        _ => true,
    };
    if is_empty("matchLabels") && is_empty("matchExpressions") {
        context.left_out.add("a Deployment selects all pods and is not worked on".to_owned());
        return;
    }
    if held.meta.annotations.get("deprecated.deployment.rollback.to").is_some() {
        context
            .left_out
            .add("a Deployment asks to be rolled back by annotation, which is not done".to_owned());
    }
    let mut work =
        Work { held, sets: Sets::of(context.world, held), status: held.status.clone(), revision: None };
    let progress = if held.is_deleted() {
        work.sync_revision(context);
        Progress::NotEstimated
    } else {
        work.note_pause(context);
        if held.spec.paused || work.is_scaling() {
            work.sync_revision(context);
            work.scale();
            if held.spec.paused {
                work.forget_old(context);
            }
            Progress::NotEstimated
        } else if held.spec.recreates() {
            work.recreate(context)
        } else {
            work.roll(context)
        }
    };
    work.finish(context, progress);
}

/// A Deployment being looked at.
struct Work<'a> {
    held: &'a Held<DeploymentSpec>,
    sets: Sets,
    status: DeploymentStatus,
    /// The number of the newest ReplicaSet.
    revision: Option<String>,
}

/// Whether it is said how far a Deployment has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Estimated,
    NotEstimated,
    /// A name was taken: it is looked at again.
    Collision,
}

// === impl Work ===

impl Work<'_> {
    /// Whether the number of pods wanted has changed since the ReplicaSets got theirs.
    fn is_scaling(&self) -> bool {
        let wanted = self.held.spec.replicas();
        self.sets.all().filter(|set| set.size > 0).any(|set| set.desired().is_some_and(|said| said != wanted))
    }

    /// Makes all pods anew: the old ones go first.
    fn recreate(&mut self, context: &mut Context<'_>) -> Progress {
        self.sync_revision(context);
        let mut is_scaled = false;
        for set in &mut self.sets.old {
            is_scaled |= set.scale(0);
        }
        if is_scaled || self.old_pods_run(context) {
            return Progress::Estimated;
        }
        if self.sets.new.is_none() && !self.make_new(context) {
            return Progress::Collision;
        }
        if let Some(new) = &mut self.sets.new {
            new.scale(self.held.spec.replicas());
        }
        if status::is_complete(&self.held.spec, self.held.meta.generation, &self.held.status) {
            self.forget_old(context);
        }
        Progress::Estimated
    }

    fn old_pods_run(&self, context: &Context<'_>) -> bool {
        self.sets.old.iter().any(|set| {
            set.held.status.replicas > 0
                || context.world.pods_of(&set.held.uid).iter().any(|pod| !pod.is_finished())
        })
    }

    /// Deletes ReplicaSets that are too old to go back to.
    fn forget_old(&self, context: &mut Context<'_>) {
        let Some(limit) = self.held.spec.history_limit() else { return };
        let mut old: Vec<&Set> = self.sets.old.iter().filter(|set| !set.held.is_deleted()).collect();
        let surplus = usize::try_from(old.len() as i64 - limit).unwrap_or(0).min(old.len());
        // Where some have no number, this is no order: the outcome then hangs on every comparison.
        go::sort(&mut old, |a, b| match (a.revision(), b.revision()) {
            (Some(one), Some(other)) if one != other => one < other,
            _ => a.by_age() < b.by_age(),
        });
        for set in &old[..surplus] {
            let (held, status) = (&set.held, &set.held.status);
            let is_observed = held.meta.generation <= status.observed_generation;
            if status.replicas == 0 && set.size == 0 && held.spec.replicas() == 0 && is_observed {
                context.delete(Thing::ReplicaSet, &held.name, &held.uid);
            }
        }
    }

    /// Writes what has changed: the ReplicaSets, and then the Deployment itself.
    fn finish(mut self, context: &mut Context<'_>, progress: Progress) {
        let spec = &self.held.spec;
        for set in self.sets.all() {
            if let Some(object) = set.written(spec) {
                context.update(object);
            }
        }
        self.tell(context, progress);
    }
}
