//! Rolling updates, and how a change of size is shared between old and new.

use super::sets::Sets;
use super::{Progress, Set, Work, status};
use crate::Context;

impl Work<'_> {
    /// One step from the old pods to the new ones.
    pub(super) fn roll(&mut self, context: &mut Context<'_>) -> Progress {
        self.sync_revision(context);
        if self.sets.new.is_none() && !self.make_new(context) {
            return Progress::Collision;
        }
        if !self.scale_new() && !self.scale_old() {
            let (spec, generation) = (&self.held.spec, self.held.meta.generation);
            if status::is_complete(spec, generation, &self.held.status) {
                self.forget_old(context);
            }
        }
        Progress::Estimated
    }

    /// The size that the newest ReplicaSet can have now, where it has `size`.
    pub(super) fn new_size(&self, size: i64) -> i64 {
        let spec = &self.held.spec;
        if spec.recreates() {
            return spec.replicas();
        }
        let room = spec.most().saturating_sub(self.sets.size());
        if room <= 0 { size } else { size + room.min(spec.replicas() - size) }
    }

    fn scale_new(&mut self) -> bool {
        let wanted = self.held.spec.replicas();
        let size = self.sets.new.as_ref().map_or(0, |new| new.size);
        let size = if size > wanted { wanted } else { self.new_size(size) };
        self.sets.new.as_mut().is_some_and(|new| new.scale(size))
    }

    /// Takes away old pods: first those that do not run well, then as many as may be missing.
    fn scale_old(&mut self) -> bool {
        let spec = &self.held.spec;
        let least = spec.replicas() - spec.unavailable();
        let Some(new) = &self.sets.new else { return false };
        let coming = new.size - new.held.status.available_replicas;
        let most = self.sets.size().saturating_sub(least).saturating_sub(coming);
        if self.sets.old.iter().all(|set| set.size == 0) || most <= 0 {
            return false;
        }
        let mut taken = 0;
        for set in self.sets.old.iter_mut().filter(|set| set.size > 0) {
            let unhealthy = set.size - set.held.status.available_replicas;
            let count = unhealthy.min(most - taken);
            if count > 0 {
                set.scale(set.size - count);
                taken += count;
            }
        }
        let spare = self.sets.available().saturating_sub(least);
        let mut freed = 0;
        for set in self.sets.old.iter_mut().filter(|set| set.size > 0) {
            let count = set.size.min(spare - freed);
            if count > 0 {
                set.scale(set.size - count);
                freed += count;
            }
        }
        taken + freed > 0
    }

    /// Follows a change of the number of pods wanted: in proportion, so that an update under way is not sped up by it.
    pub(super) fn scale(&mut self) {
        let wanted = self.held.spec.replicas();
        let active = self.sets.all().filter(|set| set.size > 0).count();
        if active <= 1 {
            // The only one that has pods, or the newest.
            let Sets { new, old } = &mut self.sets;
            let is_active = |set: &&mut Set| active == 0 || set.size > 0;
            if let Some(only) = new.iter_mut().chain(old.iter_mut().rev()).find(is_active) {
                only.scale(wanted);
            }
            return;
        }
        let new = self.sets.new.as_ref();
        let is_saturated = new.is_some_and(|new| {
            new.size == wanted
                && new.desired() == Some(wanted)
                && new.held.status.available_replicas == wanted
        });
        if is_saturated {
            for set in &mut self.sets.old {
                set.scale(0);
            }
        } else if !self.held.spec.recreates() {
            self.scale_in_proportion();
        }
    }

    fn scale_in_proportion(&mut self) {
        let allowed = if self.held.spec.replicas() > 0 { self.held.spec.most() } else { 0 };
        let change = allowed.saturating_sub(self.sets.size());
        let shares = Shares {
            wanted: self.held.spec.replicas(),
            most: self.held.spec.most(),
            before: self.held.status.replicas,
        };
        let Sets { new, old } = &mut self.sets;
        let mut active: Vec<&mut Set> = old.iter_mut().chain(new).filter(|set| set.size > 0).collect();
        // The greatest first; of equals the newest when they grow, the oldest when they shrink.
        active.sort_by(|a, b| {
            let by_age = if change > 0 { b.by_age().cmp(&a.by_age()) } else { a.by_age().cmp(&b.by_age()) };
            b.size.cmp(&a.size).then(by_age)
        });
        let mut left = change;
        let mut sizes: Vec<i64> = Vec::with_capacity(active.len());
        for set in &active {
            let share = shares.of(set);
            let share = if change > 0 { share.min(left) } else { share.max(left) };
            let share = if left == 0 { 0 } else { share };
            sizes.push(set.size + share);
            left -= share;
        }
        if let Some(greatest) = sizes.first_mut() {
            *greatest = (*greatest + left).max(0);
        }
        for (set, size) in active.into_iter().zip(sizes) {
            set.scale_and_tell(size);
        }
    }
}

/// By what ReplicaSets grow or shrink with their Deployment.
struct Shares {
    wanted: i64,
    /// How many pods there may be at most.
    most: i64,
    /// How many pods there were.
    before: i64,
}

impl Shares {
    /// What would keep a ReplicaSet's part of the whole.
    fn of(&self, set: &Set) -> i64 {
        if self.wanted == 0 {
            return -set.size;
        }
        match set.most().filter(|most| *most != 0).unwrap_or(self.before) {
            0 => 0,
            before => (set.size.saturating_mul(self.most) as f64 / before as f64).round() as i64 - set.size,
        }
    }
}
