//! What a Deployment says of itself.

use model::Moment;

use super::{Progress, Work};
use crate::api::{DeploymentSpec, DeploymentStatus};
use crate::stamp::{Condition, Stamp};
use crate::{Context, Controller};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";

/// Whether all pods are new and available.
pub(super) fn is_complete(spec: &DeploymentSpec, generation: i64, status: &DeploymentStatus) -> bool {
    let wanted = spec.replicas();
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= generation
}

// === impl Work ===

impl Work<'_> {
    /// Notes that it was stopped, or goes on: the time between is not without progress.
    pub(super) fn note_pause(&mut self, context: &Context<'_>) {
        let known = Condition::find(&self.status.conditions, PROGRESSING).map(Condition::reason);
        if self.held.spec.deadline().is_none() || known == Some("ProgressDeadlineExceeded") {
            return;
        }
        let condition = match (self.held.spec.paused, known == Some("DeploymentPaused")) {
            (true, false) => progressing("Unknown", "DeploymentPaused", "Deployment is paused"),
            (false, true) => progressing("Unknown", "DeploymentResumed", "Deployment is resumed"),
            (true, true) | (false, false) => return,
        };
        set(&mut self.status.conditions, condition, context.now);
    }

    pub(super) fn note_found(&mut self, now: Moment) {
        let (Some(new), Some(_)) = (&self.sets.new, self.held.spec.deadline()) else { return };
        if Condition::find(&self.status.conditions, PROGRESSING).is_none() {
            let message = format!("Found new replica set {:?}", new.held.name.name);
            set(&mut self.status.conditions, progressing("True", "FoundNewReplicaSet", &message), now);
        }
    }

    pub(super) fn note_made(&mut self, now: Moment, name: &str) {
        if self.held.spec.deadline().is_some() {
            let message = format!("Created new replica set {name:?}");
            set(&mut self.status.conditions, progressing("True", "NewReplicaSetCreated", &message), now);
        }
    }

    /// Writes the Deployment, if it is another now.
    pub(super) fn tell(&mut self, context: &mut Context<'_>, progress: Progress) {
        let status = match progress {
            Progress::Collision => self.status.clone(),
            Progress::NotEstimated => self.counted(context.now),
            Progress::Estimated => self.estimated(context.now),
        };
        let metadata = self.metadata();
        if status != self.held.status || metadata.is_some() {
            context.update(match metadata {
                Some(metadata) => self.held.with_metadata(&metadata, &status),
                None => self.held.with_status(&status),
            });
            return;
        }
        let known = Condition::find(&status.conditions, PROGRESSING);
        let (Some(seconds), Some(known)) = (self.held.spec.deadline(), known) else { return };
        // Pods that are lost after a rollout are not waited for.
        let is_over = is_complete(&self.held.spec, self.held.meta.generation, &status)
            || matches!(known.reason(), "NewReplicaSetAvailable" | "ProgressDeadlineExceeded");
        if progress == Progress::Estimated
            && !is_over
            && let Some(last) = known.last_update_time
        {
            // A second more, as the original waits to be safe from clocks that differ.
            let at = last.plus_seconds(seconds.saturating_add(1));
            context.look_again(at, Controller::Deployment, self.held.name.clone());
        }
    }

    /// What its ReplicaSets add up to.
    fn counted(&self, now: Moment) -> DeploymentStatus {
        let statuses = || self.sets.all().map(|set| &set.held.status);
        let available = self.sets.available();
        let terminating = statuses()
            .filter(|status| status.observed_generation != 0 || status.terminating_replicas.is_some());
        let spec = &self.held.spec;
        let mut status = DeploymentStatus {
            observed_generation: self.held.meta.generation,
            replicas: statuses().map(|status| status.replicas).sum(),
            updated_replicas: self.sets.new.as_ref().map_or(0, |new| new.held.status.replicas),
            ready_replicas: statuses().map(|status| status.ready_replicas).sum(),
            available_replicas: available,
            unavailable_replicas: (self.sets.size() - available).max(0),
            terminating_replicas: terminating.map(|status| status.terminating_replicas).sum(),
            conditions: self.status.conditions.clone(),
            collision_count: self.status.collision_count,
        };
        let condition = if available >= spec.replicas() - spec.unavailable() {
            let message = "Deployment has minimum availability.";
            Condition::new(AVAILABLE, true, "MinimumReplicasAvailable", message)
        } else {
            let message = "Deployment does not have minimum availability.";
            Condition::new(AVAILABLE, false, "MinimumReplicasUnavailable", message)
        };
        set(&mut status.conditions, condition, now);
        status
    }

    /// The same, and how far it has come.
    fn estimated(&self, now: Moment) -> DeploymentStatus {
        let mut status = self.counted(now);
        status.conditions.retain(|condition| condition.kind != "ReplicaFailure");
        let Some(seconds) = self.held.spec.deadline() else {
            status.conditions.retain(|condition| condition.kind != PROGRESSING);
            return status;
        };
        let known = Condition::find(&self.status.conditions, PROGRESSING).cloned();
        let reason = known.as_ref().map(Condition::reason);
        if status.replicas == status.updated_replicas && reason == Some("NewReplicaSetAvailable") {
            return status;
        }
        let name = match &self.sets.new {
            Some(new) => format!("ReplicaSet {:?}", new.held.name.name),
            None => format!("Deployment {:?}", self.held.name.name),
        };
        let timed_out = known.as_ref().is_some_and(|known| match known.reason() {
            "NewReplicaSetAvailable" => false,
            "ProgressDeadlineExceeded" => true,
            _ => known.last_update_time.is_some_and(|last| last.plus_seconds(seconds) < now),
        });
        if is_complete(&self.held.spec, self.held.meta.generation, &status) {
            let message = format!("{name} has successfully progressed.");
            set(&mut status.conditions, progressing("True", "NewReplicaSetAvailable", &message), now);
        } else if has_progressed(&self.held.status, &status) {
            let mut condition = progressing("True", "ReplicaSetUpdated", &format!("{name} is progressing."));
            condition.last_update_time = Some(Stamp::at(now));
            let since =
                known.filter(|known| known.status == "True").and_then(|known| known.last_transition_time);
            condition.last_transition_time = since.or(condition.last_update_time);
            status.conditions.retain(|condition| condition.kind != PROGRESSING);
            status.conditions.push(condition);
        } else if timed_out {
            let message = format!("{name} has timed out progressing.");
            set(&mut status.conditions, progressing("False", "ProgressDeadlineExceeded", &message), now);
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

fn progressing(status: &str, reason: &str, message: &str) -> Condition {
    Condition { status: status.to_owned(), ..Condition::new(PROGRESSING, true, reason, message) }
}

/// Puts a condition among others; one that says the same already stays as it is.
fn set(conditions: &mut Vec<Condition>, mut condition: Condition, now: Moment) {
    let known = Condition::find(conditions, &condition.kind);
    if known.is_some_and(|known| known.status == condition.status && known.reason == condition.reason) {
        return;
    }
    let since =
        known.filter(|known| known.status == condition.status).and_then(|known| known.last_transition_time);
    condition.last_update_time = Some(Stamp::at(now));
    condition.last_transition_time = since.or(condition.last_update_time);
    conditions.retain(|known| known.kind != condition.kind);
    conditions.push(condition);
}
