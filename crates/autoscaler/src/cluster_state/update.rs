//! The registry's update in every loop: instances, node counts, scale-up requests and creation errors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kubernetes::go::duration;
use kubernetes::time::after;
use model::Moment;

use super::{
    AcceptableRange, ClusterStateRegistry, GroupEntry, IncorrectNodeGroupSize, NodeCounts, RegisteredCounts,
    ScaleUpRequest, UnregisteredNode, UpdateInput, group_ids, max_node_provision_time, warning_event,
};
use crate::cloud::{CloudProvider, CreationError, GroupId, Instance, InstanceState};
use crate::settings::Version;

impl ClusterStateRegistry {
    pub(super) fn has_upcoming(&self, group: GroupId) -> bool {
        let GroupEntry { counts, acceptable_range: Some(acceptable), .. } = self.group(group) else {
            return false;
        };
        let Some(counts) = counts else { return acceptable.target > 0 };
        let provisioned = if self.version < Version::V1_36 {
            counts.registered - counts.not_started.len() as i64
        } else {
            counts.provisioned()
        };
        acceptable.target > provisioned
    }

    pub(super) fn change_scale_up_request(
        &mut self,
        group: GroupId,
        delta: i64,
        now: Moment,
        expected_within: Duration,
    ) {
        let expected = after(now, expected_within);
        match self.scale_up_requests.get_mut(&group) {
            None if delta > 0 => {
                let request = ScaleUpRequest { increase: delta, time: now, expected_add_time: expected };
                self.scale_up_requests.insert(group, request);
            }
            None => {}
            Some(request) if request.increase + delta <= 0 => drop(self.scale_up_requests.remove(&group)),
            Some(request) => {
                request.increase += delta;
                if delta > 0 {
                    (request.time, request.expected_add_time) = (now, expected);
                }
            }
        }
    }

    /// Lists instances where the cache is invalid, and keeps those of the previous loop.
    pub(super) fn update_instances(&mut self, cloud: &dyn CloudProvider) {
        for group in group_ids(cloud) {
            if self.is_scaling_up(group) {
                self.invalidate_instances(group);
            }
        }
        self.instance_cache.cached.resize_with(cloud.groups().len(), || None);
        let current = group_ids(cloud).zip(&mut self.instance_cache.cached).map(|(group, cached)| {
            let instances = cached.get_or_insert_with(|| cloud.instances(group));
            instances.clone()
        });
        let current: Vec<_> = current.collect();
        self.instance_cache.has_creation_errors.resize(current.len(), false);
        for (index, instances) in current.iter().enumerate() {
            let before = self.instance_cache.current.get(index);
            if !before.is_some_and(|before| Arc::ptr_eq(before, instances)) {
                let has_failed = |instance: &Instance| matches!(instance.state, InstanceState::Failed(_));
                self.instance_cache.has_creation_errors[index] = instances.iter().any(has_failed);
            }
        }
        self.instance_cache.previous = std::mem::replace(&mut self.instance_cache.current, current);
    }

    pub(super) fn update_unregistered_nodes(&mut self, input: &UpdateInput<'_>) {
        let revision = Some(input.cluster.revision());
        if std::mem::replace(&mut self.instance_cache.revision, revision) == revision
            && self.instance_cache.is_unchanged()
        {
            return;
        }
        self.instance_cache.update_registered(input.cluster);
        let mut unregistered_nodes = BTreeMap::new();
        let lists = self.instance_cache.current.iter().zip(&self.instance_cache.registered);
        for (group, (instances, registered)) in group_ids(input.cloud).zip(lists) {
            let unregistered = instances.iter().zip(registered).filter(|(_, is_registered)| !**is_registered);
            let expected = unregistered.map(|(instance, _)| instance).filter(|instance| {
                matches!(instance.state, InstanceState::Running | InstanceState::Creating)
            });
            for instance in expected {
                let existing = self.unregistered_nodes.get(&instance.id).cloned();
                let new = UnregisteredNode { group, since: input.clock.now() };
                unregistered_nodes.insert(instance.id.clone(), existing.unwrap_or(new));
            }
        }
        self.unregistered_nodes = unregistered_nodes;
    }

    /// Counts registered and unregistered nodes by state.
    pub(super) fn update_node_counts(&mut self, input: &mut UpdateInput<'_>) {
        if self.registered.valid_for_revision != Some(input.node_eligibilities.revision) {
            self.count_registered_nodes(input);
        }
        let (mut groups, mut total) = (self.registered.groups.clone(), self.registered.total.clone());
        for UnregisteredNode { group, since } in self.unregistered_nodes.values() {
            let counts = groups[group.index()].get_or_insert_default();
            let max_provision_time = max_node_provision_time(input.cloud, *group, input.settings);
            if input.clock.is_past(after(*since, max_provision_time)) {
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

    fn count_registered_nodes(&mut self, input: &mut UpdateInput<'_>) {
        let (clock, settings) = (input.clock, input.settings);
        let mut total = NodeCounts::default();
        let mut groups: Vec<Option<NodeCounts>> = vec![None; self.groups.len()];
        // A bug of cluster-autoscaler: nodes without a group get the startup time of the last group read.
        let mut startup_time = Duration::from_secs(15 * 60);
        let startup_times: Vec<Duration> = input
            .cloud
            .groups()
            .iter()
            .map(|group| settings.group_options(group.options.as_ref()).max_node_startup_time)
            .collect();
        let are_answers_stable = input.cloud.has_instance_until_node_changes();
        let mut knows_instances = false;
        for id in input.cluster.node_order().to_vec() {
            let Some(eligibility) = input.node_eligibilities.get(id) else { continue };
            if let Some(group) = eligibility.group {
                startup_time = startup_times[group.index()];
            }
            let exists = match are_answers_stable {
                true => eligibility.has_instance,
                false => input.cloud.has_instance(input.cluster.snapshot.node(id)),
            };
            knows_instances |= exists.is_some();
            let state = |counts: &mut NodeCounts| {
                counts.registered += 1;
                if !exists.unwrap_or(!eligibility.is_being_deleted) {
                    counts.deleted += 1;
                } else if eligibility.is_suspended && settings.version >= Version::V1_36 {
                    counts.suspended += 1;
                } else if eligibility.readiness.ready {
                    counts.ready += 1;
                } else if !clock.has_reached(after(eligibility.created, startup_time)) {
                    counts.not_started.push(id);
                } else {
                    counts.unready += 1;
                    counts.resource_unready += i64::from(eligibility.readiness.resource_unready);
                }
            };
            if let Some(group) = eligibility.group {
                state(groups[group.index()].get_or_insert_default());
            }
            state(&mut total);
        }
        let is_time_independent = (!knows_instances || are_answers_stable) && total.not_started.is_empty();
        self.registered = RegisteredCounts {
            valid_for_revision: is_time_independent.then_some(input.node_eligibilities.revision),
            groups,
            total,
        };
    }

    pub(super) fn update_acceptable_ranges(&mut self, targets: &[i64]) {
        for (index, (group, target)) in self.groups.iter_mut().zip(targets).enumerate() {
            let long_unregistered = group.counts.as_ref().map_or(0, |counts| counts.long_unregistered);
            let pending =
                self.scale_up_requests.get(&GroupId(index as u32)).map_or(0, |request| request.increase);
            group.acceptable_range =
                Some(AcceptableRange { min: target - long_unregistered - pending, target: *target });
        }
    }

    pub(super) fn update_scale_requests(&mut self, input: &mut UpdateInput<'_>) {
        let (clock, settings) = (input.clock, input.settings);
        let now = clock.now();
        self.backoff.remove_stale(clock, settings);
        for (group, request) in self.scale_up_requests.clone() {
            if !self.has_upcoming(group) {
                self.scale_up_requests.remove(&group);
                continue;
            }
            if !clock.is_past(request.expected_add_time) {
                continue;
            }
            let name = input.cloud.groups()[group.index()].name.clone();
            let waited = duration::format(now.nanos_since(request.time));
            let timed_out = format!("Nodes added to group {name} failed to register within {waited}");
            input.events.push(warning_event("ScaleUpTimedOut", timed_out));
            let message = format!("Scale-up timed out for node group {name} after {waited}");
            self.register_failed_scale_up(group, "timeout", &message, now, settings);
            if request.increase > 0
                && self.version >= Version::V1_36
                && let Err(error) = input.cloud.decrease_target_size(now, group, request.increase)
            {
                let message = format!(
                    "Failed to decrease target size for group {name} after scale-up timeout: {error}"
                );
                input.events.push(warning_event("FailedToRevertScaleUp", message));
            }
            self.scale_up_requests.remove(&group);
        }
        self.scale_down_requests.retain(|(_, expected)| !clock.has_reached(*expected));
    }

    /// Registers a failed scale-up for groups with new creation errors.
    pub(super) fn handle_instance_creation_errors(&mut self, input: &mut UpdateInput<'_>) {
        let (now, settings) = (input.clock.now(), input.settings);
        for group in group_ids(input.cloud) {
            let index = group.index();
            let before = self.instance_cache.previous.get(index).map_or(&[][..], |instances| instances);
            if std::ptr::eq(before, &*self.instance_cache.current[index]) {
                continue;
            }
            let previous_ids: BTreeSet<Arc<str>> =
                group_by_error(before).into_values().flatten().map(|(id, _)| id.clone()).collect();
            let mut failures = Vec::new();
            for ((code, out_of_resources), instances) in group_by_error(&self.instance_cache.current[index]) {
                let new = instances.iter().filter(|(id, _)| !previous_ids.contains(*id)).count() as i64;
                let messages: BTreeSet<&str> = instances.iter().map(|(_, error)| &*error.message).collect();
                failures.push((code.to_owned(), out_of_resources, new, join_messages(&messages)));
            }
            for (code, out_of_resources, new, error_messages) in failures {
                if new == 0 || !self.is_scaling_up(group) {
                    continue;
                }
                let name = input.cloud.groups()[index].name.clone();
                let error_class = if out_of_resources { "OutOfResource" } else { "Other" };
                let message = format!(
                    "Failed adding {new} nodes to group {name} due to {error_class}.{code}; source errors: {error_messages}"
                );
                input.events.push(warning_event("ScaleUpFailed", message));
                let max_provision_time = max_node_provision_time(input.cloud, group, settings);
                self.change_scale_up_request(group, -new, now, max_provision_time);
                self.register_failed_scale_up(group, &code, &error_messages, now, settings);
            }
        }
    }

    pub(super) fn update_incorrect_node_group_sizes(&mut self, now: Moment) {
        for group in &mut self.groups {
            let (Some(counts), Some(acceptable)) = (&group.counts, group.acceptable_range) else {
                group.incorrect_size = None;
                continue;
            };
            let unregistered = counts.unregistered + counts.long_unregistered;
            let (current, expected) = (counts.registered, acceptable.target);
            if current <= expected && current >= expected - unregistered {
                group.incorrect_size = None;
                continue;
            }
            let is_same = |existing: &IncorrectNodeGroupSize| {
                existing.current == current && existing.expected == expected
            };
            let existing = group.incorrect_size.filter(is_same);
            group.incorrect_size =
                Some(existing.unwrap_or(IncorrectNodeGroupSize { expected, current, since: now }));
        }
    }
}

/// Instances with creation errors, by error code and whether the error is `OutOfResources`.
pub(super) type InstancesByError<'a> = BTreeMap<(&'a str, bool), Vec<(&'a Arc<str>, &'a CreationError)>>;

pub(super) fn group_by_error(instances: &[Instance]) -> InstancesByError<'_> {
    let mut by_error_map = InstancesByError::new();
    for instance in instances {
        if let InstanceState::Failed(error) = &instance.state {
            let key = (&*error.code, error.out_of_resources);
            by_error_map.entry(key).or_default().push((&instance.id, error));
        }
    }
    by_error_map
}

fn join_messages(messages: &BTreeSet<&str>) -> String {
    let mut text = messages.iter().copied().collect::<Vec<_>>().join(", ");
    if messages.len() > 3 {
        text.push_str(", ...");
    }
    text
}
