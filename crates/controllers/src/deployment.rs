//! Deployments: from one template of pods to the next, bit by bit.
//!
//! A look at a Deployment works out what its ReplicaSets are to be and what it then is; each is written once.

mod rolling;
mod sets;
mod status;

use std::sync::Arc;

use kubernetes::go;
use serde_json::Value;

use self::sets::{Set, Sets};
use super::Context;
use super::api::{DeploymentSpec, DeploymentStatus};
use super::table::Held;
use super::world::Thing;

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
