//! Rolling updates and proportional scaling.

use super::replica_sets::ReplicaSets;
use super::{DeploymentSync, PlannedReplicaSet, StatusUpdate, status};
use crate::SyncContext;

impl DeploymentSync<'_> {
    /// One step of a rolling update.
    pub(super) fn rollout_rolling(&mut self, context: &mut SyncContext<'_>) -> StatusUpdate {
        self.sync_new_replica_set(context);
        if self.sets.new.is_none() && !self.create_new_replica_set(context) {
            return StatusUpdate::Collision;
        }
        if !self.reconcile_new_replica_set() && !self.reconcile_old_replica_sets() {
            let (spec, generation) = (&self.deployment.spec, self.deployment.meta.generation);
            if status::is_complete(spec, generation, &self.deployment.status) {
                self.clean_up_old_replica_sets(context);
            }
        }
        StatusUpdate::Rollout
    }

    /// The replicas that the new ReplicaSet can have now, where it has `size`.
    pub(super) fn new_replica_set_size(&self, size: i64) -> i64 {
        let spec = &self.deployment.spec;
        if spec.is_recreate() {
            return spec.replicas();
        }
        let scale_up_count = spec.max_replicas().saturating_sub(self.sets.replicas());
        if scale_up_count <= 0 { size } else { size + scale_up_count.min(spec.replicas() - size) }
    }

    fn reconcile_new_replica_set(&mut self) -> bool {
        let desired_replicas = self.deployment.spec.replicas();
        let size = self.sets.new.as_ref().map_or(0, |new| new.replicas);
        let size = if size > desired_replicas { desired_replicas } else { self.new_replica_set_size(size) };
        self.sets.new.as_mut().is_some_and(|new| new.scale(size))
    }

    /// Scales old ReplicaSets down: first by their unhealthy pods, then by as many as may be unavailable.
    fn reconcile_old_replica_sets(&mut self) -> bool {
        let spec = &self.deployment.spec;
        let min_available = spec.replicas() - spec.max_unavailable();
        let Some(new) = &self.sets.new else { return false };
        let new_set_unavailable = new.replicas - new.replica_set.status.available_replicas;
        let max_scaled_down =
            self.sets.replicas().saturating_sub(min_available).saturating_sub(new_set_unavailable);
        if self.sets.old.iter().all(|set| set.replicas == 0) || max_scaled_down <= 0 {
            return false;
        }
        let mut cleanup_count = 0;
        for set in self.sets.old.iter_mut().filter(|set| set.replicas > 0) {
            let unhealthy = set.replicas - set.replica_set.status.available_replicas;
            let count = unhealthy.min(max_scaled_down - cleanup_count);
            if count > 0 {
                set.scale(set.replicas - count);
                cleanup_count += count;
            }
        }
        let total_scale_down = self.sets.available_replicas().saturating_sub(min_available);
        let mut total_scaled_down = 0;
        for set in self.sets.old.iter_mut().filter(|set| set.replicas > 0) {
            let count = set.replicas.min(total_scale_down - total_scaled_down);
            if count > 0 {
                set.scale(set.replicas - count);
                total_scaled_down += count;
            }
        }
        cleanup_count + total_scaled_down > 0
    }

    /// Scales the ReplicaSets proportionally, so that a change of `spec.replicas` does not advance a rollout.
    pub(super) fn scale(&mut self) {
        let desired_replicas = self.deployment.spec.replicas();
        let active = self.sets.all().filter(|set| set.replicas > 0).count();
        if active <= 1 {
            // The only active ReplicaSet, or the newest one.
            let ReplicaSets { new, old } = &mut self.sets;
            let is_active = |set: &&mut PlannedReplicaSet| active == 0 || set.replicas > 0;
            if let Some(active_set) = new.iter_mut().chain(old.iter_mut().rev()).find(is_active) {
                active_set.scale(desired_replicas);
            }
            return;
        }
        let new = self.sets.new.as_ref();
        let is_saturated = new.is_some_and(|new| {
            new.replicas == desired_replicas
                && new.desired_replicas() == Some(desired_replicas)
                && new.replica_set.status.available_replicas == desired_replicas
        });
        if is_saturated {
            for set in &mut self.sets.old {
                set.scale(0);
            }
        } else if !self.deployment.spec.is_recreate() {
            self.scale_proportionally();
        }
    }

    fn scale_proportionally(&mut self) {
        let allowed_size =
            if self.deployment.spec.replicas() > 0 { self.deployment.spec.max_replicas() } else { 0 };
        let replicas_to_add = allowed_size.saturating_sub(self.sets.replicas());
        let proportional_scaling = ProportionalScaling {
            desired_replicas: self.deployment.spec.replicas(),
            max_replicas: self.deployment.spec.max_replicas(),
            status_replicas: self.deployment.status.replicas,
        };
        let ReplicaSets { new, old } = &mut self.sets;
        let mut active: Vec<&mut PlannedReplicaSet> =
            old.iter_mut().chain(new).filter(|set| set.replicas > 0).collect();
        // The largest first; among equals the newest first when scaling up, the oldest first when scaling down.
        active.sort_by(|a, b| {
            let by_age = if replicas_to_add > 0 {
                b.age_key().cmp(&a.age_key())
            } else {
                a.age_key().cmp(&b.age_key())
            };
            b.replicas.cmp(&a.replicas).then(by_age)
        });
        let mut remaining_replicas = replicas_to_add;
        let mut sizes: Vec<i64> = Vec::with_capacity(active.len());
        for set in &active {
            let fraction = proportional_scaling.replica_set_fraction(set);
            let fraction = if replicas_to_add > 0 {
                fraction.min(remaining_replicas)
            } else {
                fraction.max(remaining_replicas)
            };
            let fraction = if remaining_replicas == 0 { 0 } else { fraction };
            sizes.push(set.replicas + fraction);
            remaining_replicas -= fraction;
        }
        if let Some(largest_size) = sizes.first_mut() {
            *largest_size = (*largest_size + remaining_replicas).max(0);
        }
        for (set, size) in active.into_iter().zip(sizes) {
            set.scale_with_annotations(size);
        }
    }
}

/// The parameters of proportional scaling.
struct ProportionalScaling {
    desired_replicas: i64,
    /// The replicas of the Deployment plus surge.
    max_replicas: i64,
    /// The replicas in the Deployment's status.
    status_replicas: i64,
}

impl ProportionalScaling {
    /// The change of replicas that keeps a ReplicaSet's fraction of the Deployment.
    fn replica_set_fraction(&self, set: &PlannedReplicaSet) -> i64 {
        if self.desired_replicas == 0 {
            return -set.replicas;
        }
        match set.max_replicas().filter(|max_replicas| *max_replicas != 0).unwrap_or(self.status_replicas) {
            0 => 0,
            before => {
                (set.replicas.saturating_mul(self.max_replicas) as f64 / before as f64).round() as i64
                    - set.replicas
            }
        }
    }
}
