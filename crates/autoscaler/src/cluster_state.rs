//! The cluster state registry: nodes of each group by state, scale-up requests, upcoming nodes and backoff.

mod update;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::time::{after, nanos};
use model::Moment;
use scheduler::ids::NodeId;

use super::AutoscalingContext;
use super::backoff::{BackoffInfo, ExponentialBackoff};
use super::clock::LoopClock;
use super::cloud::{CloudProvider, GroupId, Instance};
use super::decision::{Event, InvolvedObject};
use super::informer_cache::InformerCache;
use super::node_eligibility::NodeEligibilities;
use super::settings::{Settings, Version};
use super::templates::TemplateNodeInfoProvider;
use update::group_by_error;

/// The state of all groups, like cluster-autoscaler's `ClusterStateRegistry`.
#[derive(Debug)]
pub(crate) struct ClusterStateRegistry {
    /// When a group was last scaled up, was last scaled down, and last failed to scale down.
    pub last_scale_ups: BTreeMap<GroupId, Moment>,
    pub last_scale_downs: BTreeMap<GroupId, Moment>,
    pub last_failed_scale_downs: BTreeMap<GroupId, Moment>,
    pub backoff: ExponentialBackoff,
    /// All nodes together.
    pub total: NodeCounts,
    /// When the registry was last updated.
    pub last_update: Moment,
    registered: RegisteredCounts,
    groups: Vec<GroupEntry>,
    unregistered_nodes: BTreeMap<Arc<str>, UnregisteredNode>,
    instance_cache: InstanceCache,
    scale_up_requests: BTreeMap<GroupId, ScaleUpRequest>,
    /// Nodes being deleted, with the moment by which they should be gone.
    scale_down_requests: Vec<(GroupId, Moment)>,
    version: Version,
}

/// The state of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupEntry {
    /// Its nodes by state; `None` if it has none at all.
    pub counts: Option<NodeCounts>,
    /// The number of nodes it should have; `None` before the first update.
    pub acceptable_range: Option<AcceptableRange>,
    /// The difference between its size and its target, if there is one, and since when.
    incorrect_size: Option<IncorrectNodeGroupSize>,
    has_template: bool,
}

/// Nodes by state.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeCounts {
    pub registered: i64,
    pub ready: i64,
    pub unready: i64,
    pub resource_unready: i64,
    pub not_started: Vec<NodeId>,
    pub suspended: i64,
    pub deleted: i64,
    pub unregistered: i64,
    pub long_unregistered: i64,
}

/// Registered nodes by state, cached.
#[derive(Debug, Default)]
struct RegisteredCounts {
    /// The node revision for which the counts are valid at any time.
    valid_for_revision: Option<u64>,
    groups: Vec<Option<NodeCounts>>,
    total: NodeCounts,
}

/// The acceptable number of nodes of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AcceptableRange {
    min: i64,
    pub target: i64,
}

/// An instance without a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnregisteredNode {
    pub group: GroupId,
    pub since: Moment,
}

/// A group whose size differs from its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IncorrectNodeGroupSize {
    pub expected: i64,
    pub current: i64,
    pub since: Moment,
}

/// An active scale-up request of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScaleUpRequest {
    increase: i64,
    time: Moment,
    expected_add_time: Moment,
}

/// Active scale-up requests and the times of the last scale-ups, to be restored later.
pub(crate) struct SavedScaleUpRequests {
    requests: BTreeMap<GroupId, ScaleUpRequest>,
    last_scale_ups: BTreeMap<GroupId, Moment>,
}

/// A cache of the cloud provider's instances.
#[derive(Debug, Default)]
struct InstanceCache {
    /// By group; `None` if they have to be listed again.
    cached: Vec<Option<Arc<[Instance]>>>,
    /// The instances of the last loop.
    current: Vec<Arc<[Instance]>>,
    /// The instances of the loop before.
    previous: Vec<Arc<[Instance]>>,
    /// By group, whether any instance of the last loop has a creation error.
    has_creation_errors: Vec<bool>,
    /// The node revision that they were last compared with.
    revision: Option<u64>,
    /// By group, which of the instances that were last compared are registered as nodes.
    registered: Vec<Vec<bool>>,
    /// The number of deregistrations up to then.
    deregistration_count: u64,
    next_refresh: Moment,
}

/// Whether a group may be scaled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeGroupScalingSafety {
    Safe,
    Unhealthy,
    BackedOff,
}

/// The upcoming nodes of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpcomingNodes {
    pub group: GroupId,
    pub count: i64,
    /// Registered nodes that have not started yet.
    pub not_started: Vec<NodeId>,
}

/// The input of an update: the context without the registry itself.
struct UpdateInput<'a> {
    clock: &'a LoopClock,
    settings: &'a Settings,
    cloud: &'a mut dyn CloudProvider,
    cluster: &'a mut InformerCache,
    templates: &'a TemplateNodeInfoProvider,
    node_eligibilities: &'a NodeEligibilities,
    events: &'a mut Vec<Event>,
}

/// How long a cloud provider may take to delete a node.
const MAX_NODE_DELETION_TIME: Duration = Duration::from_secs(5 * 60);
/// How often the instances of all groups are listed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2 * 60);

/// Updates the registry of a context with all nodes and instances.
pub(crate) fn update_nodes(context: &mut AutoscalingContext<'_>) {
    let AutoscalingContext {
        registry,
        clock,
        settings,
        cloud,
        cluster,
        templates,
        node_eligibilities: standings,
        events,
        ..
    } = context;
    registry.update_nodes(&mut UpdateInput {
        clock,
        settings,
        cloud: *cloud,
        cluster,
        templates,
        node_eligibilities: standings,
        events,
    });
}

impl ClusterStateRegistry {
    pub(crate) fn new(settings: &Settings, start: Moment) -> ClusterStateRegistry {
        ClusterStateRegistry {
            last_scale_ups: BTreeMap::new(),
            last_scale_downs: BTreeMap::new(),
            last_failed_scale_downs: BTreeMap::new(),
            backoff: ExponentialBackoff::default(),
            total: NodeCounts::default(),
            last_update: start,
            registered: RegisteredCounts::default(),
            groups: Vec::new(),
            unregistered_nodes: BTreeMap::new(),
            instance_cache: InstanceCache { next_refresh: start, ..InstanceCache::default() },
            scale_up_requests: BTreeMap::new(),
            scale_down_requests: Vec::new(),
            version: settings.version,
        }
    }

    // Changes.

    /// Records a scale-up of a group.
    pub(crate) fn register_scale_up(
        &mut self,
        group: GroupId,
        delta: i64,
        now: Moment,
        expected_within: Duration,
    ) {
        self.last_scale_ups.insert(group, now);
        self.change_scale_up_request(group, delta, now, expected_within);
    }

    /// Records a failed scale-up of a group, which puts it in backoff.
    pub(crate) fn register_failed_scale_up(
        &mut self,
        group: GroupId,
        code: &str,
        message: &str,
        now: Moment,
        settings: &Settings,
    ) {
        if self.group(group).has_template {
            self.backoff.back_off(group, code, message, now, settings);
        }
    }

    /// Records the deletion of a node of a group.
    pub(crate) fn register_scale_down(&mut self, group: GroupId, now: Moment) {
        self.last_scale_downs.insert(group, now);
        self.scale_down_requests.push((group, after(now, MAX_NODE_DELETION_TIME)));
    }

    /// Records a failed deletion of a node of a group.
    pub(crate) fn register_failed_scale_down(&mut self, group: GroupId, now: Moment) {
        self.last_failed_scale_downs.insert(group, now);
    }

    /// Recalculates acceptable ranges after target sizes changed.
    pub(crate) fn recalculate(&mut self, cloud: &dyn CloudProvider) {
        let targets: Vec<i64> = group_ids(cloud).map(|group| cloud.target_size(group)).collect();
        self.update_acceptable_ranges(&targets);
    }

    /// Invalidates the cached instances of a group.
    pub(crate) fn invalidate_instances(&mut self, group: GroupId) {
        if let Some(cached) = self.instance_cache.cached.get_mut(group.index()) {
            *cached = None;
        }
    }

    /// When the instances of all groups are listed next.
    pub(crate) fn next_instance_refresh(&self) -> Moment {
        self.instance_cache.next_refresh
    }

    /// Lists the instances of all groups if that is due. Returns whether any changed.
    pub(crate) fn refresh_instances(&mut self, now: Moment, cloud: &dyn CloudProvider) -> bool {
        if self.instance_cache.next_refresh > now {
            return false;
        }
        let listed_instances = group_ids(cloud).map(|group| Some(cloud.instances(group))).collect();
        let previous = std::mem::replace(&mut self.instance_cache.cached, listed_instances);
        let interval = nanos(REFRESH_INTERVAL);
        let missed_intervals = now.nanos_since(self.instance_cache.next_refresh) / interval;
        self.instance_cache.next_refresh = self
            .instance_cache
            .next_refresh
            .plus_nanos(interval.saturating_mul(missed_intervals.saturating_add(1)));
        let is_unchanged =
            |(current_list, previous_list): (&Option<_>, &Option<_>)| match (current_list, previous_list) {
                (Some(current_list), Some(previous_list)) => same_instances(current_list, previous_list),
                _ => false,
            };
        self.instance_cache.cached.len() != previous.len()
            || !self.instance_cache.cached.iter().zip(&previous).all(is_unchanged)
    }

    /// Updates the registry with all nodes and instances.
    fn update_nodes(&mut self, input: &mut UpdateInput<'_>) {
        let groups = input.cloud.groups().len();
        self.groups.resize_with(groups, GroupEntry::default);
        for (index, group) in self.groups.iter_mut().enumerate() {
            group.has_template = input.templates.has(GroupId(index as u32));
        }
        // Targets as of the beginning of the loop: changes made below count from the next loop on.
        let targets: Vec<i64> = group_ids(input.cloud).map(|group| input.cloud.target_size(group)).collect();
        let before = self.persistent_state();
        self.update_instances(input.cloud);
        self.update_unregistered_nodes(input);
        self.update_node_counts(input);
        self.last_update = input.clock.now();
        self.update_acceptable_ranges(&targets);
        self.update_scale_requests(input);
        self.handle_instance_creation_errors(input);
        self.update_acceptable_ranges(&targets);
        self.update_incorrect_node_group_sizes(input.clock.now());
        if self.persistent_state() != before || !self.instance_cache.is_unchanged() {
            input.clock.prevent_repeat();
        }
    }

    /// State that one update leaves for the next, for comparison.
    fn persistent_state(&self) -> impl PartialEq + use<> {
        let wrong_sizes: Vec<_> = self.groups.iter().map(|group| group.incorrect_size).collect();
        let requests =
            (self.scale_up_requests.clone(), self.scale_down_requests.clone(), self.backoff.clone());
        (requests, self.unregistered_nodes.clone(), wrong_sizes)
    }

    /// Records a repeated loop, whose update would have had the same result.
    pub(crate) fn repeat_update(&mut self, last: Moment, now: Moment) {
        if self.last_update == last {
            self.last_update = now;
        }
    }

    /// A copy of the active scale-up requests, for a later [`ClusterStateRegistry::restore_requests`].
    pub(crate) fn save_requests(&self) -> SavedScaleUpRequests {
        SavedScaleUpRequests {
            requests: self.scale_up_requests.clone(),
            last_scale_ups: self.last_scale_ups.clone(),
        }
    }

    /// Restores the saved scale-up requests, except those that were fulfilled or failed since.
    pub(crate) fn restore_requests(&mut self, mut requests: SavedScaleUpRequests) {
        requests.requests.retain(|group, _| self.scale_up_requests.contains_key(group));
        (self.scale_up_requests, self.last_scale_ups) = (requests.requests, requests.last_scale_ups);
    }

    // State.

    /// The state of a group.
    pub(crate) fn group(&self, group: GroupId) -> &GroupEntry {
        const NOTHING: &GroupEntry =
            &GroupEntry { counts: None, acceptable_range: None, incorrect_size: None, has_template: false };
        self.groups.get(group.index()).unwrap_or(NOTHING)
    }

    /// Whether the cluster as a whole is healthy: few enough nodes are unready.
    pub(crate) fn is_cluster_healthy(&self, settings: &Settings) -> bool {
        let unready = self.total.unready;
        unready <= settings.ok_total_unready_count
            || unready as f64 <= settings.max_total_unready_percentage / 100.0 * self.total.registered as f64
    }

    /// Whether a group has as many ready nodes as it should.
    pub(crate) fn is_healthy(&self, group: GroupId, settings: &Settings) -> bool {
        let GroupEntry { counts, acceptable_range: Some(acceptable), .. } = self.group(group) else {
            return false;
        };
        let Some(counts) = counts else {
            return acceptable.target == 0 || (acceptable.min == 0 && acceptable.target > 0);
        };
        let missing = (acceptable.min - counts.ready - counts.suspended).max(0);
        let all = counts.ready + counts.unready + counts.not_started.len() as i64 + counts.suspended;
        missing <= settings.ok_total_unready_count
            || missing as f64 <= settings.max_total_unready_percentage / 100.0 * all as f64
    }

    /// The backoff of a group; `None` if it is not in backoff.
    pub(crate) fn backoff_info(&self, group: GroupId, clock: &LoopClock) -> Option<&BackoffInfo> {
        self.group(group).has_template.then(|| self.backoff.get(group, clock))?
    }

    /// Whether a group may be scaled up.
    pub(crate) fn node_group_scale_up_safety(
        &self,
        group: GroupId,
        clock: &LoopClock,
        settings: &Settings,
    ) -> NodeGroupScalingSafety {
        if !self.is_healthy(group, settings) {
            NodeGroupScalingSafety::Unhealthy
        } else if self.backoff_info(group, clock).is_some() {
            NodeGroupScalingSafety::BackedOff
        } else {
            NodeGroupScalingSafety::Safe
        }
    }

    /// Upcoming nodes, by group in the cloud provider's order.
    pub(crate) fn upcoming_nodes(&self, clock: &LoopClock) -> Vec<UpcomingNodes> {
        let groups = (0..self.groups.len()).map(|index| GroupId(index as u32));
        let upcoming = groups.filter_map(|group| {
            let counts = self.group(group).counts.as_ref();
            let target = self.group(group).acceptable_range.unwrap_or_default().target;
            let count = target - counts.map_or(0, NodeCounts::provisioned);
            let expected = self.version < Version::V1_36
                || (self.scale_up_requests.contains_key(&group) && self.backoff_info(group, clock).is_none());
            let registered = counts.map_or_else(Vec::new, |counts| counts.not_started.clone());
            (count > 0 && expected).then_some(UpcomingNodes { group, count, not_started: registered })
        });
        upcoming.collect()
    }

    /// Whether a group has a scale-up request and upcoming nodes.
    pub(crate) fn is_scaling_up(&self, group: GroupId) -> bool {
        self.has_upcoming(group) && self.scale_up_requests.contains_key(&group)
    }

    /// The difference between a group's size and its target, if there is one.
    pub(crate) fn incorrect_size(&self, group: GroupId) -> Option<IncorrectNodeGroupSize> {
        self.group(group).incorrect_size
    }

    /// Unregistered nodes, by instance ID.
    pub(crate) fn unregistered_nodes(&self) -> impl Iterator<Item = (&Arc<str>, &UnregisteredNode)> {
        self.unregistered_nodes.iter()
    }

    /// Instances of a group with creation errors, by error and then in the cloud provider's order.
    pub(crate) fn instances_with_errors(&self, group: GroupId) -> Vec<Arc<str>> {
        if !self.instance_cache.has_creation_errors.get(group.index()).copied().unwrap_or(false) {
            return Vec::new();
        }
        group_by_error(&self.instance_cache.current[group.index()])
            .into_values()
            .flatten()
            .map(|(id, _)| id.clone())
            .collect()
    }
}

// === impl InstanceCache ===

impl InstanceCache {
    /// Whether this loop has the same instances as the loop before.
    fn is_unchanged(&self) -> bool {
        self.current.len() == self.previous.len()
            && self.current.iter().zip(&self.previous).all(|(a, b)| same_instances(a, b))
    }

    /// Determines which instances are registered as nodes. Only new and unregistered ones are looked up, unless a node
    /// was deregistered since the last time.
    fn update_registered(&mut self, cluster: &InformerCache) {
        let count = cluster.deregistration_count();
        if std::mem::replace(&mut self.deregistration_count, count) != count {
            self.registered.clear();
        }
        self.registered.resize_with(self.current.len(), Vec::new);
        for (index, (instances, registered)) in self.current.iter().zip(&mut self.registered).enumerate() {
            let previous = self.previous.get(index).map_or(&[][..], |instances| instances);
            let mut known = previous.iter().zip(std::mem::take(registered));
            let is_registered = |instance: &Instance| {
                // Lists change at their end, or instances are removed: the others have the same order as before.
                known
                    .find(|(before, _)| Arc::ptr_eq(&before.id, &instance.id))
                    .is_some_and(|(_, known)| known)
                    || cluster.is_registered(&instance.id)
            };
            *registered = instances.iter().map(is_registered).collect();
        }
    }
}

/// Whether lists of instances are equal. The cloud provider returns the same list as long as nothing changes.
fn same_instances(a: &Arc<[Instance]>, b: &Arc<[Instance]>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

// === impl NodeCounts ===

impl NodeCounts {
    /// Nodes that are not upcoming any more.
    fn provisioned(&self) -> i64 {
        self.ready + self.unready + self.suspended + self.long_unregistered
    }
}

/// The `max-node-provision-time` of a group.
pub(crate) fn max_node_provision_time(
    cloud: &dyn CloudProvider,
    group: GroupId,
    settings: &Settings,
) -> Duration {
    settings.group_options(cloud.groups()[group.index()].options.as_ref()).max_node_provision_time
}

/// The IDs of all groups, in the cloud provider's order.
pub(crate) fn group_ids(cloud: &dyn CloudProvider) -> impl Iterator<Item = GroupId> + use<> {
    (0..cloud.groups().len()).map(|index| GroupId(index as u32))
}

pub(crate) fn warning_event(reason: &'static str, message: String) -> Event {
    Event { involved_object: InvolvedObject::StatusConfigMap, is_warning: true, reason, message }
}

#[cfg(test)]
impl ClusterStateRegistry {
    /// A registry in which that many groups are all healthy.
    pub(crate) fn all_healthy(settings: &Settings, groups: usize) -> ClusterStateRegistry {
        let mut registry = ClusterStateRegistry::new(settings, Moment::default());
        registry.groups.resize_with(groups, || GroupEntry {
            counts: Some(NodeCounts::default()),
            acceptable_range: Some(AcceptableRange::default()),
            has_template: true,
            ..GroupEntry::default()
        });
        registry
    }
}
