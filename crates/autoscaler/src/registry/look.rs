//! How it is found out what becomes of groups, in every loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kubernetes::go::duration;
use kubernetes::time::after;
use model::Moment;

use super::{
    Acceptable, Counts, Group, Growing, Looking, RegisteredCounts, Registry, Unregistered, WrongSize, ids,
    provision_time, warning,
};
use crate::cloud::{Cloud, CreationError, GroupId, Instance, InstanceState, Registered};
use crate::settings::Version;

impl Registry {
    pub(super) fn has_upcoming(&self, group: GroupId) -> bool {
        let Group { counts, acceptable: Some(acceptable), .. } = self.group(group) else { return false };
        let Some(counts) = counts else { return acceptable.target > 0 };
        let arrived = if self.version < Version::V1_36 {
            counts.registered - counts.not_started.len() as i64
        } else {
            counts.arrived()
        };
        acceptable.target > arrived
    }

    pub(super) fn change_request(&mut self, group: GroupId, by: i64, now: Moment, expected_within: Duration) {
        let expected = after(now, expected_within);
        match self.growing.get_mut(&group) {
            None if by > 0 => drop(self.growing.insert(group, Growing { by, since: now, expected })),
            None => {}
            Some(growing) if growing.by + by <= 0 => drop(self.growing.remove(&group)),
            Some(growing) => {
                growing.by += by;
                if by > 0 {
                    (growing.since, growing.expected) = (now, expected);
                }
            }
        }
    }

    /// Asks the cloud for instances where that is due, and remembers what it said last.
    pub(super) fn look_at_instances(&mut self, cloud: &dyn Cloud) {
        for group in ids(cloud) {
            if self.is_scaling_up(group) {
                self.forget_instances(group);
            }
        }
        self.instances.cached.resize_with(cloud.groups().len(), || None);
        let current = ids(cloud).zip(&mut self.instances.cached).map(|(group, cached)| {
            let instances = cached.get_or_insert_with(|| cloud.instances(group));
            instances.clone()
        });
        let current: Vec<_> = current.collect();
        self.instances.has_failed.resize(current.len(), false);
        for (place, instances) in current.iter().enumerate() {
            let before = self.instances.current.get(place);
            if !before.is_some_and(|before| Arc::ptr_eq(before, instances)) {
                let has_failed = |one: &Instance| matches!(one.state, InstanceState::Failed(_));
                self.instances.has_failed[place] = instances.iter().any(has_failed);
            }
        }
        self.instances.previous = std::mem::replace(&mut self.instances.current, current);
    }

    pub(super) fn find_unregistered(&mut self, looking: &Looking<'_>) {
        let revision = Some(looking.cluster.revision());
        if std::mem::replace(&mut self.instances.revision, revision) == revision
            && self.instances.are_as_before()
        {
            return;
        }
        let mut found = BTreeMap::new();
        for (group, instances) in ids(looking.cloud).zip(&self.instances.current) {
            let expected = instances
                .iter()
                .filter(|one| matches!(one.state, InstanceState::Running | InstanceState::Creating));
            for instance in expected.filter(|one| !looking.cluster.is_registered(&one.id)) {
                let known = self.unregistered.get(&instance.id).cloned();
                let new = Unregistered { group, since: looking.clock.now() };
                found.insert(instance.id.clone(), known.unwrap_or(new));
            }
        }
        self.unregistered = found;
    }

    /// Counts nodes, and instances that are none yet.
    pub(super) fn count(&mut self, looking: &mut Looking<'_>) {
        if self.registered.holds != Some(looking.standings.revision) {
            self.count_registered(looking);
        }
        let (mut groups, mut total) = (self.registered.groups.clone(), self.registered.total.clone());
        for Unregistered { group, since } in self.unregistered.values() {
            let counts = groups[group.index()].get_or_insert_default();
            let patience = provision_time(looking.cloud, *group, looking.settings);
            if looking.clock.is_past(after(*since, patience)) {
                counts.long_unregistered += 1;
                total.long_unregistered += 1;
            } else {
                counts.unregistered += 1;
                total.unregistered += 1;
            }
        }
        for (group, counts) in self.groups.iter_mut().zip(groups) {
            group.counts = counts;
        }
        self.total = total;
    }

    fn count_registered(&mut self, looking: &mut Looking<'_>) {
        let (clock, settings) = (looking.clock, looking.settings);
        let mut total = Counts::default();
        let mut groups: Vec<Option<Counts>> = vec![None; self.groups.len()];
        // An oversight of cluster-autoscaler: what was last heard of a group holds for nodes of none.
        let mut startup_time = Duration::from_secs(15 * 60);
        let startup_times: Vec<Duration> = looking
            .cloud
            .groups()
            .iter()
            .map(|group| settings.of_group(group.options.as_ref()).max_node_startup_time)
            .collect();
        let mut cloud_tells = false;
        for id in looking.cluster.order().to_vec() {
            let Some(standing) = looking.standings.get(id) else { continue };
            if let Some(group) = standing.group {
                startup_time = startup_times[group.index()];
            }
            let exists = looking.cloud.has_instance(&Registered::of(looking.cluster.snapshot.node(id)));
            cloud_tells |= exists.is_some();
            let state = |counts: &mut Counts| {
                counts.registered += 1;
                if !exists.unwrap_or(!standing.going) {
                    counts.deleted += 1;
                } else if standing.suspended && settings.version >= Version::V1_36 {
                    counts.suspended += 1;
                } else if standing.readiness.ready {
                    counts.ready += 1;
                } else if !clock.has_come(after(standing.created, startup_time)) {
                    counts.not_started.push(id);
                } else {
                    counts.unready += 1;
                    counts.lacks_device += i64::from(standing.readiness.lacks_device);
                }
            };
            if let Some(group) = standing.group {
                state(groups[group.index()].get_or_insert_default());
            }
            state(&mut total);
        }
        let holds = !cloud_tells && total.not_started.is_empty();
        self.registered =
            RegisteredCounts { holds: holds.then_some(looking.standings.revision), groups, total };
    }

    pub(super) fn set_acceptable(&mut self, targets: &[i64]) {
        for (place, (group, target)) in self.groups.iter_mut().zip(targets).enumerate() {
            let gone = group.counts.as_ref().map_or(0, |counts| counts.long_unregistered);
            let pending = self.growing.get(&GroupId(place as u32)).map_or(0, |growing| growing.by);
            group.acceptable = Some(Acceptable { min: target - gone - pending, target: *target });
        }
    }

    pub(super) fn update_requests(&mut self, looking: &mut Looking<'_>) {
        let (clock, settings) = (looking.clock, looking.settings);
        let now = clock.now();
        self.backoffs.forget_old(clock, settings);
        for (group, growing) in self.growing.clone() {
            if !self.has_upcoming(group) {
                self.growing.remove(&group);
                continue;
            }
            if !clock.is_past(growing.expected) {
                continue;
            }
            let name = looking.cloud.groups()[group.index()].name.clone();
            let waited = duration::format(now.nanos_since(growing.since));
            let timed_out = format!("Nodes added to group {name} failed to register within {waited}");
            looking.events.push(warning("ScaleUpTimedOut", timed_out));
            let message = format!("Scale-up timed out for node group {name} after {waited}");
            self.register_failed_scale_up(group, "timeout", &message, now, settings);
            if growing.by > 0
                && self.version >= Version::V1_36
                && let Err(error) = looking.cloud.decrease(now, group, growing.by)
            {
                let message = format!(
                    "Failed to decrease target size for group {name} after scale-up timeout: {error}"
                );
                looking.events.push(warning("FailedToRevertScaleUp", message));
            }
            self.growing.remove(&group);
        }
        self.shrinking.retain(|(_, expected)| !clock.has_come(*expected));
    }

    /// Instances that could not be made, and were not known to be so, count as a failure of their group.
    pub(super) fn find_creation_errors(&mut self, looking: &mut Looking<'_>) {
        let (now, settings) = (looking.clock.now(), looking.settings);
        for group in ids(looking.cloud) {
            let place = group.index();
            let before = self.instances.previous.get(place).map_or(&[][..], |instances| instances);
            if std::ptr::eq(before, &*self.instances.current[place]) {
                continue;
            }
            let seen: BTreeSet<Arc<str>> =
                by_error(before).into_values().flatten().map(|(id, _)| id.clone()).collect();
            let mut failures = Vec::new();
            for ((code, out_of_resources), instances) in by_error(&self.instances.current[place]) {
                let new = instances.iter().filter(|(id, _)| !seen.contains(*id)).count() as i64;
                let messages: BTreeSet<&str> = instances.iter().map(|(_, error)| &*error.message).collect();
                failures.push((code.to_owned(), out_of_resources, new, in_words(&messages)));
            }
            for (code, out_of_resources, new, words) in failures {
                if new == 0 || !self.is_scaling_up(group) {
                    continue;
                }
                let name = looking.cloud.groups()[place].name.clone();
                let class = if out_of_resources { "OutOfResource" } else { "Other" };
                let message = format!(
                    "Failed adding {new} nodes to group {name} due to {class}.{code}; source errors: {words}"
                );
                looking.events.push(warning("ScaleUpFailed", message));
                let within = provision_time(looking.cloud, group, settings);
                self.change_request(group, -new, now, within);
                self.register_failed_scale_up(group, &code, &words, now, settings);
            }
        }
    }

    pub(super) fn find_wrong_sizes(&mut self, now: Moment) {
        for group in &mut self.groups {
            let (Some(counts), Some(acceptable)) = (&group.counts, group.acceptable) else {
                group.wrong_size = None;
                continue;
            };
            let unregistered = counts.unregistered + counts.long_unregistered;
            let (current, expected) = (counts.registered, acceptable.target);
            if current <= expected && current >= expected - unregistered {
                group.wrong_size = None;
                continue;
            }
            let same = |known: &WrongSize| known.current == current && known.expected == expected;
            let known = group.wrong_size.filter(same);
            group.wrong_size = Some(known.unwrap_or(WrongSize { expected, current, since: now }));
        }
    }
}

/// Instances that could not be made, by the code of their error and whether there were none to be had.
pub(super) type ByError<'a> = BTreeMap<(&'a str, bool), Vec<(&'a Arc<str>, &'a CreationError)>>;

pub(super) fn by_error(instances: &[Instance]) -> ByError<'_> {
    let mut found = ByError::new();
    for instance in instances {
        if let InstanceState::Failed(error) = &instance.state {
            let key = (&*error.code, error.out_of_resources);
            found.entry(key).or_default().push((&instance.id, error));
        }
    }
    found
}

fn in_words(messages: &BTreeSet<&str>) -> String {
    let mut words = messages.iter().copied().collect::<Vec<_>>().join(", ");
    if messages.len() > 3 {
        words.push_str(", ...");
    }
    words
}
