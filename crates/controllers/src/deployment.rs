//! The Deployment controller.
//!
//! A sync computes the new state of the ReplicaSets and of the Deployment; each is written once.

mod replica_sets;
mod rolling;
mod status;

use std::sync::Arc;

use kubernetes::go;
use serde_json::Value;

use self::replica_sets::{PlannedReplicaSet, ReplicaSets};
use super::api::{DeploymentSpec, DeploymentStatus};
use super::informer_cache::OwnershipKind;
use super::object_table::CachedObject;
use super::{EventText, SyncContext};

pub(super) fn sync(context: &mut SyncContext<'_>, deployment: &Arc<CachedObject<DeploymentSpec>>) {
    let is_empty = |key: &str| match deployment.spec.selector.get(key) {
        Some(Value::Object(labels)) => labels.is_empty(),
        Some(Value::Array(expressions)) => expressions.is_empty(),
        _ => true,
    };
    if is_empty("matchLabels") && is_empty("matchExpressions") {
        context.unsupported.add("Deployment ignored: it selects all pods".to_owned());
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        context.report(deployment, EventText::warning("SelectingAll", message));
        return;
    }
    if deployment.meta.annotations.get("deprecated.deployment.rollback.to").is_some() {
        context
            .unsupported
            .add("annotation deprecated.deployment.rollback.to of a Deployment ignored".to_owned());
    }
    let mut deployment_sync = DeploymentSync {
        deployment,
        sets: ReplicaSets::of(context.cache, deployment),
        status: deployment.status.clone(),
        revision: None,
    };
    let progress = if deployment.is_deleting() {
        deployment_sync.sync_new_replica_set(context);
        StatusUpdate::CountsOnly
    } else {
        deployment_sync.check_paused_conditions(context);
        if deployment.spec.paused || deployment_sync.is_scaling_event() {
            deployment_sync.sync_new_replica_set(context);
            deployment_sync.scale();
            if deployment.spec.paused {
                deployment_sync.clean_up_old_replica_sets(context);
            }
            StatusUpdate::CountsOnly
        } else if deployment.spec.is_recreate() {
            deployment_sync.rollout_recreate(context)
        } else {
            deployment_sync.rollout_rolling(context)
        }
    };
    deployment_sync.write_changes(context, progress);
}

/// The sync of a Deployment.
struct DeploymentSync<'a> {
    deployment: &'a CachedObject<DeploymentSpec>,
    sets: ReplicaSets,
    status: DeploymentStatus,
    /// The revision number of the new ReplicaSet.
    revision: Option<String>,
}

/// The status update at the end of a sync.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatusUpdate {
    Rollout,
    CountsOnly,
    /// The name of the new ReplicaSet is taken: the collision count is written, and the next sync tries another name.
    Collision,
}

// === impl DeploymentSync ===

impl DeploymentSync<'_> {
    /// Whether `spec.replicas` has changed since the ReplicaSets were scaled.
    fn is_scaling_event(&self) -> bool {
        let desired_replicas = self.deployment.spec.replicas();
        self.sets.all().filter(|set| set.replicas > 0).any(|set| {
            set.desired_replicas().is_some_and(|annotated_replicas| annotated_replicas != desired_replicas)
        })
    }

    /// Rolls out with the strategy Recreate: the new ReplicaSet is scaled up when the old pods are gone.
    fn rollout_recreate(&mut self, context: &mut SyncContext<'_>) -> StatusUpdate {
        self.sync_new_replica_set(context);
        let mut is_scaled = false;
        for set in &mut self.sets.old {
            is_scaled |= set.scale(0);
        }
        if is_scaled || self.old_pods_running(context) {
            return StatusUpdate::Rollout;
        }
        if self.sets.new.is_none() && !self.create_new_replica_set(context) {
            return StatusUpdate::Collision;
        }
        if let Some(new) = &mut self.sets.new {
            new.scale(self.deployment.spec.replicas());
        }
        if status::is_complete(
            &self.deployment.spec,
            self.deployment.meta.generation,
            &self.deployment.status,
        ) {
            self.clean_up_old_replica_sets(context);
        }
        StatusUpdate::Rollout
    }

    fn old_pods_running(&self, context: &SyncContext<'_>) -> bool {
        self.sets.old.iter().any(|set| {
            set.replica_set.status.replicas > 0
                || context.cache.pods_of(&set.replica_set.uid).iter().any(|pod| !pod.is_finished())
        })
    }

    /// Deletes old ReplicaSets beyond the revision history limit.
    fn clean_up_old_replica_sets(&self, context: &mut SyncContext<'_>) {
        let Some(limit) = self.deployment.spec.history_limit() else { return };
        let mut old: Vec<&PlannedReplicaSet> =
            self.sets.old.iter().filter(|set| !set.replica_set.is_deleting()).collect();
        let surplus = usize::try_from(old.len() as i64 - limit).unwrap_or(0).min(old.len());
        // If some have no revision number this is not a strict weak order: the result depends on every comparison.
        go::sort(&mut old, |a, b| match (a.revision(), b.revision()) {
            (Some(one), Some(other)) if one != other => one < other,
            _ => a.age_key() < b.age_key(),
        });
        for set in &old[..surplus] {
            let (deployment, status) = (&set.replica_set, &set.replica_set.status);
            let is_observed = deployment.meta.generation <= status.observed_generation;
            if status.replicas == 0 && set.replicas == 0 && deployment.spec.replicas() == 0 && is_observed {
                context.delete(OwnershipKind::ReplicaSet, &deployment.name, &deployment.uid);
            }
        }
    }

    /// Writes the ReplicaSets that changed, and then the Deployment itself.
    fn write_changes(mut self, context: &mut SyncContext<'_>, progress: StatusUpdate) {
        let spec = &self.deployment.spec;
        for set in self.sets.all() {
            if let Some(object) = set.updated_object(spec) {
                context.update(object);
                if let Some(scaled) = set.scaling_event() {
                    context.report_call(self.deployment, scaled, None);
                }
            }
        }
        self.write_deployment(context, progress);
    }
}
