//! The status of a Deployment.

use model::Moment;

use super::{DeploymentSync, StatusUpdate};
use crate::api::{DeploymentSpec, DeploymentStatus};
use crate::k8s_time::{Condition, K8sTime};
use crate::{Controller, SyncContext};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";

/// Whether a rollout is complete: all pods are updated and available.
pub(super) fn is_complete(spec: &DeploymentSpec, generation: i64, status: &DeploymentStatus) -> bool {
    let desired_replicas = spec.replicas();
    status.updated_replicas == desired_replicas
        && status.replicas == desired_replicas
        && status.available_replicas == desired_replicas
        && status.observed_generation >= generation
}

// === impl DeploymentSync ===

impl DeploymentSync<'_> {
    /// Sets the condition for pausing or resuming, so that the pause does not count against the progress deadline.
    pub(super) fn check_paused_conditions(&mut self, context: &SyncContext<'_>) {
        let current = Condition::find(&self.status.conditions, PROGRESSING).map(Condition::reason);
        if self.deployment.spec.progress_deadline().is_none() || current == Some("ProgressDeadlineExceeded") {
            return;
        }
        let condition = match (self.deployment.spec.paused, current == Some("DeploymentPaused")) {
            (true, false) => progressing_condition("Unknown", "DeploymentPaused", "Deployment is paused"),
            (false, true) => progressing_condition("Unknown", "DeploymentResumed", "Deployment is resumed"),
            (true, true) | (false, false) => return,
        };
        set_condition(&mut self.status.conditions, condition, context.now);
    }

    pub(super) fn note_found_replica_set(&mut self, now: Moment) {
        let (Some(new), Some(_)) = (&self.sets.new, self.deployment.spec.progress_deadline()) else { return };
        if Condition::find(&self.status.conditions, PROGRESSING).is_none() {
            let message = format!("Found new replica set {:?}", new.replica_set.name.name);
            set_condition(
                &mut self.status.conditions,
                progressing_condition("True", "FoundNewReplicaSet", &message),
                now,
            );
        }
    }

    pub(super) fn note_created_replica_set(&mut self, now: Moment, name: &str) {
        if self.deployment.spec.progress_deadline().is_some() {
            let message = format!("Created new replica set {name:?}");
            set_condition(
                &mut self.status.conditions,
                progressing_condition("True", "NewReplicaSetCreated", &message),
                now,
            );
        }
    }

    /// Writes the Deployment if it changed.
    pub(super) fn write_deployment(&mut self, context: &mut SyncContext<'_>, progress: StatusUpdate) {
        let status = match progress {
            StatusUpdate::Collision => self.status.clone(),
            StatusUpdate::CountsOnly => self.calculate_status(context.now),
            StatusUpdate::Rollout => self.calculate_rollout_status(context.now),
        };
        let metadata = self.updated_metadata();
        if status != self.deployment.status || metadata.is_some() {
            context.update(match metadata {
                Some(metadata) => self.deployment.with_metadata(&metadata, &status),
                None => self.deployment.with_status(&status),
            });
            return;
        }
        let current = Condition::find(&status.conditions, PROGRESSING);
        let (Some(seconds), Some(current)) = (self.deployment.spec.progress_deadline(), current) else {
            return;
        };
        // Pods lost after a rollout do not start the progress deadline.
        let is_finished = is_complete(&self.deployment.spec, self.deployment.meta.generation, &status)
            || matches!(current.reason(), "NewReplicaSetAvailable" | "ProgressDeadlineExceeded");
        if progress == StatusUpdate::Rollout
            && !is_finished
            && let Some(last) = current.last_update_time
        {
            // A second more, as the original does to be safe from clock skew.
            let at = last.plus_seconds(seconds.saturating_add(1));
            context.enqueue_at(at, Controller::Deployment, self.deployment.name.clone());
        }
    }

    /// The status with the sums over its ReplicaSets.
    fn calculate_status(&self, now: Moment) -> DeploymentStatus {
        let statuses = || self.sets.all().map(|set| &set.replica_set.status);
        let available = self.sets.available_replicas();
        let terminating = statuses()
            .filter(|status| status.observed_generation != 0 || status.terminating_replicas.is_some());
        let spec = &self.deployment.spec;
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.meta.generation,
            replicas: statuses().map(|status| status.replicas).sum(),
            updated_replicas: self.sets.new.as_ref().map_or(0, |new| new.replica_set.status.replicas),
            ready_replicas: statuses().map(|status| status.ready_replicas).sum(),
            available_replicas: available,
            unavailable_replicas: (self.sets.replicas() - available).max(0),
            terminating_replicas: terminating.map(|status| status.terminating_replicas).sum(),
            conditions: self.status.conditions.clone(),
            collision_count: self.status.collision_count,
        };
        let condition = if available >= spec.replicas() - spec.max_unavailable() {
            let message = "Deployment has minimum availability.";
            Condition::new(AVAILABLE, true, "MinimumReplicasAvailable", message)
        } else {
            let message = "Deployment does not have minimum availability.";
            Condition::new(AVAILABLE, false, "MinimumReplicasUnavailable", message)
        };
        set_condition(&mut status.conditions, condition, now);
        status
    }

    /// The same, with the condition Progressing.
    fn calculate_rollout_status(&self, now: Moment) -> DeploymentStatus {
        let mut status = self.calculate_status(now);
        status.conditions.retain(|condition| condition.kind != "ReplicaFailure");
        let Some(seconds) = self.deployment.spec.progress_deadline() else {
            status.conditions.retain(|condition| condition.kind != PROGRESSING);
            return status;
        };
        let current = Condition::find(&self.status.conditions, PROGRESSING).cloned();
        let reason = current.as_ref().map(Condition::reason);
        if status.replicas == status.updated_replicas && reason == Some("NewReplicaSetAvailable") {
            return status;
        }
        let name = match &self.sets.new {
            Some(new) => format!("ReplicaSet {:?}", new.replica_set.name.name),
            None => format!("Deployment {:?}", self.deployment.name.name),
        };
        let timed_out = current.as_ref().is_some_and(|current| match current.reason() {
            "NewReplicaSetAvailable" => false,
            "ProgressDeadlineExceeded" => true,
            _ => current.last_update_time.is_some_and(|last| last.plus_seconds(seconds) < now),
        });
        if is_complete(&self.deployment.spec, self.deployment.meta.generation, &status) {
            let message = format!("{name} has successfully progressed.");
            set_condition(
                &mut status.conditions,
                progressing_condition("True", "NewReplicaSetAvailable", &message),
                now,
            );
        } else if has_progressed(&self.deployment.status, &status) {
            let mut condition =
                progressing_condition("True", "ReplicaSetUpdated", &format!("{name} is progressing."));
            condition.last_update_time = Some(K8sTime::at(now));
            let since = current
                .filter(|current| current.status == "True")
                .and_then(|current| current.last_transition_time);
            condition.last_transition_time = since.or(condition.last_update_time);
            status.conditions.retain(|condition| condition.kind != PROGRESSING);
            status.conditions.push(condition);
        } else if timed_out {
            let message = format!("{name} has timed out progressing.");
            set_condition(
                &mut status.conditions,
                progressing_condition("False", "ProgressDeadlineExceeded", &message),
                now,
            );
        }
        status
    }
}

fn has_progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    new.updated_replicas > old.updated_replicas
        || new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

fn progressing_condition(status: &str, reason: &str, message: &str) -> Condition {
    Condition { status: status.to_owned(), ..Condition::new(PROGRESSING, true, reason, message) }
}

/// Sets a condition; one with the same status and reason stays unchanged.
fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition, now: Moment) {
    let current = Condition::find(conditions, &condition.kind);
    if current.is_some_and(|current| current.status == condition.status && current.reason == condition.reason)
    {
        return;
    }
    let since = current
        .filter(|current| current.status == condition.status)
        .and_then(|current| current.last_transition_time);
    condition.last_update_time = Some(K8sTime::at(now));
    condition.last_transition_time = since.or(condition.last_update_time);
    conditions.retain(|current| current.kind != condition.kind);
    conditions.push(condition);
}
