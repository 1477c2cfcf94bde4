//! What is known of the groups: which nodes are ready, which are still to come, which groups failed lately.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::Moment;

use super::backoff::{BackedOff, Backoffs};
use super::cloud::{Cloud, CreationError, GroupId, Instance, InstanceState, Registered};
use super::cluster::Cluster;
use super::decision::{About, Event};
use super::go_duration;
use super::readiness::Readiness;
use super::settings::{Settings, Version};
use super::templates::Templates;
use super::time::{after, nanos};
use super::{SUSPENDED, TO_BE_DELETED};
use crate::scheduler::ids::NodeId;

/// What is known of the groups.
#[derive(Debug)]
pub(crate) struct Registry {
    /// When a group last grew, was last made smaller, and last could not be.
    pub scale_ups: BTreeMap<GroupId, Moment>,
    pub scale_downs: BTreeMap<GroupId, Moment>,
    pub failed_scale_downs: BTreeMap<GroupId, Moment>,
    pub backoffs: Backoffs,
    /// All nodes together.
    pub total: Counts,
    groups: Vec<Group>,
    unregistered: BTreeMap<Arc<str>, Unregistered>,
    instances: Instances,
    growing: BTreeMap<GroupId, Growing>,
    /// Nodes being deleted, until when that should be seen.
    shrinking: Vec<(GroupId, Moment)>,
    version: Version,
}

/// What is known of one group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Its nodes by state; `None` if it has none at all.
    pub counts: Option<Counts>,
    /// How many it should have; `None` until the cloud was asked.
    pub acceptable: Option<Acceptable>,
    /// It has another size than it should, and since when.
    wrong_size: Option<WrongSize>,
    has_template: bool,
}

/// Nodes by state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub registered: i64,
    pub ready: i64,
    pub unready: i64,
    pub lacks_device: i64,
    pub not_started: Vec<NodeId>,
    pub suspended: i64,
    pub deleted: i64,
    pub unregistered: i64,
    pub long_unregistered: i64,
    pub at: Moment,
}

/// How many nodes a group should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acceptable {
    min: i64,
    pub target: i64,
}

/// An instance that is not a node yet.
#[derive(Clone, Debug)]
pub(crate) struct Unregistered {
    pub group: GroupId,
    pub since: Moment,
}

/// A group of another size than it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongSize {
    pub expected: i64,
    pub current: i64,
    pub since: Moment,
}

/// A group that was told to grow.
#[derive(Clone, Copy, Debug)]
struct Growing {
    by: i64,
    since: Moment,
    expected: Moment,
}

/// What groups were told to do, and when.
pub(crate) struct Requests {
    growing: BTreeMap<GroupId, Growing>,
    scale_ups: BTreeMap<GroupId, Moment>,
}

/// The clouds' instances as last heard of.
#[derive(Debug, Default)]
struct Instances {
    /// By group; `None` if they are to be asked for.
    cached: Vec<Option<Vec<Instance>>>,
    /// As the last loop saw them.
    current: Vec<Vec<Instance>>,
    /// As the loop before saw them.
    previous: Vec<Vec<Instance>>,
    next_refresh: Moment,
}

/// Whether a group may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    Safe,
    Unhealthy,
    BackedOff,
}

/// Nodes that a group is still to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upcoming {
    pub group: GroupId,
    pub count: i64,
    /// Those of them that have registered and not started yet.
    pub registered: Vec<NodeId>,
}

/// What the registry looks at in every loop.
pub(crate) struct Looking<'a> {
    pub now: Moment,
    pub settings: &'a Settings,
    pub cloud: &'a mut dyn Cloud,
    pub cluster: &'a mut Cluster,
    pub templates: &'a Templates,
    pub readiness: &'a [Option<Readiness>],
    pub events: &'a mut Vec<Event>,
}

/// How long a cloud takes to delete a node.
const DELETION_TIME: Duration = Duration::from_secs(5 * 60);
/// How often the instances of all groups are asked for.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2 * 60);

impl Registry {
    pub(crate) fn new(settings: &Settings, start: Moment) -> Registry {
        Registry {
            scale_ups: BTreeMap::new(),
            scale_downs: BTreeMap::new(),
            failed_scale_downs: BTreeMap::new(),
            backoffs: Backoffs::default(),
            total: Counts::default(),
            groups: Vec::new(),
            unregistered: BTreeMap::new(),
            instances: Instances { next_refresh: start, ..Instances::default() },
            growing: BTreeMap::new(),
            shrinking: Vec::new(),
            version: settings.version,
        }
    }

    // What happens.

    /// A group was told to grow.
    pub(crate) fn register_scale_up(
        &mut self,
        group: GroupId,
        by: i64,
        now: Moment,
        expected_within: Duration,
    ) {
        self.scale_ups.insert(group, now);
        self.change_request(group, by, now, expected_within);
    }

    /// A group could not grow: it is left alone for a while.
    pub(crate) fn register_failed_scale_up(
        &mut self,
        group: GroupId,
        code: &str,
        message: &str,
        now: Moment,
        settings: &Settings,
    ) {
        if self.group(group).has_template {
            self.backoffs.add(group, code, message, now, settings);
        }
    }

    /// A node of a group was deleted.
    pub(crate) fn register_scale_down(&mut self, group: GroupId, now: Moment) {
        self.scale_downs.insert(group, now);
        self.shrinking.push((group, after(now, DELETION_TIME)));
    }

    /// A node of a group could not be deleted.
    pub(crate) fn register_failed_scale_down(&mut self, group: GroupId, now: Moment) {
        self.failed_scale_downs.insert(group, now);
    }

    /// The cloud's targets changed.
    pub(crate) fn recalculate(&mut self, cloud: &dyn Cloud) {
        let targets: Vec<i64> = ids(cloud).map(|group| cloud.target(group)).collect();
        self.set_acceptable(&targets);
    }

    /// The instances of a group are to be asked for again.
    pub(crate) fn forget_instances(&mut self, group: GroupId) {
        if let Some(cached) = self.instances.cached.get_mut(group.index()) {
            *cached = None;
        }
    }

    /// When the instances of all groups are asked for next.
    pub(crate) fn next_refresh(&self) -> Moment {
        self.instances.next_refresh
    }

    /// Asks for the instances of all groups, if it is time.
    pub(crate) fn refresh(&mut self, now: Moment, cloud: &dyn Cloud) {
        if self.instances.next_refresh > now {
            return;
        }
        self.instances.cached = ids(cloud).map(|group| Some(cloud.instances(group))).collect();
        let interval = nanos(REFRESH_INTERVAL);
        let late = now.nanos_since(self.instances.next_refresh) / interval;
        self.instances.next_refresh =
            self.instances.next_refresh.plus_nanos(interval.saturating_mul(late.saturating_add(1)));
    }

    /// Takes in all nodes and instances.
    pub(crate) fn update(&mut self, looking: &mut Looking<'_>) {
        let groups = looking.cloud.groups().len();
        self.groups.resize_with(groups, Group::default);
        for (place, group) in self.groups.iter_mut().enumerate() {
            group.has_template = looking.templates.get(GroupId(place as u32)).is_some();
        }
        // As the loop found them: what the registry itself changes below is not seen until the next one.
        let targets: Vec<i64> = ids(looking.cloud).map(|group| looking.cloud.target(group)).collect();
        self.look_at_instances(looking.cloud);
        self.find_unregistered(looking);
        self.count(looking);
        self.set_acceptable(&targets);
        self.update_requests(looking);
        self.find_creation_errors(looking);
        self.set_acceptable(&targets);
        self.find_wrong_sizes(looking.now);
    }

    /// What groups were told to do, and when.
    pub(crate) fn requests(&self) -> Requests {
        Requests { growing: self.growing.clone(), scale_ups: self.scale_ups.clone() }
    }

    /// As if groups had been told only that.
    pub(crate) fn restore(&mut self, requests: Requests) {
        (self.growing, self.scale_ups) = (requests.growing, requests.scale_ups);
    }

    // What is known.

    /// What is known of a group.
    pub(crate) fn group(&self, group: GroupId) -> &Group {
        const NOTHING: &Group =
            &Group { counts: None, acceptable: None, wrong_size: None, has_template: false };
        self.groups.get(group.index()).unwrap_or(NOTHING)
    }

    /// Whether the cluster as a whole is well enough to be changed.
    pub(crate) fn is_cluster_healthy(&self, settings: &Settings) -> bool {
        let unready = self.total.unready;
        unready <= settings.ok_total_unready_count
            || unready as f64 <= settings.max_total_unready_percentage / 100.0 * self.total.registered as f64
    }

    /// Whether a group has as many ready nodes as it should.
    pub(crate) fn is_healthy(&self, group: GroupId, settings: &Settings) -> bool {
        let Group { counts, acceptable: Some(acceptable), .. } = self.group(group) else { return false };
        let Some(counts) = counts else {
            return acceptable.target == 0 || (acceptable.min == 0 && acceptable.target > 0);
        };
        let missing = (acceptable.min - counts.ready - counts.suspended).max(0);
        let all = counts.ready + counts.unready + counts.not_started.len() as i64 + counts.suspended;
        missing <= settings.ok_total_unready_count
            || missing as f64 <= settings.max_total_unready_percentage / 100.0 * all as f64
    }

    /// What a group is left alone for, if it is.
    pub(crate) fn backed_off(&self, group: GroupId, now: Moment) -> Option<&BackedOff> {
        self.group(group).has_template.then(|| self.backoffs.get(group, now))?
    }

    /// Whether a group may grow.
    pub(crate) fn safety(&self, group: GroupId, now: Moment, settings: &Settings) -> Safety {
        if !self.is_healthy(group, settings) {
            Safety::Unhealthy
        } else if self.backed_off(group, now).is_some() {
            Safety::BackedOff
        } else {
            Safety::Safe
        }
    }

    /// Nodes still to come, by group in the cloud's order.
    pub(crate) fn upcoming(&self, now: Moment) -> Vec<Upcoming> {
        let groups = (0..self.groups.len()).map(|place| GroupId(place as u32));
        let upcoming = groups.filter_map(|group| {
            let counts = self.group(group).counts.as_ref();
            let target = self.group(group).acceptable.unwrap_or_default().target;
            let count = target - counts.map_or(0, Counts::arrived);
            let expected = self.version < Version::V1_36
                || (self.growing.contains_key(&group) && self.backed_off(group, now).is_none());
            let registered = counts.map_or_else(Vec::new, |counts| counts.not_started.clone());
            (count > 0 && expected).then_some(Upcoming { group, count, registered })
        });
        upcoming.collect()
    }

    /// Whether a group was told to grow and has not yet.
    pub(crate) fn is_scaling_up(&self, group: GroupId) -> bool {
        self.has_upcoming(group) && self.growing.contains_key(&group)
    }

    /// A group of another size than it should have.
    pub(crate) fn wrong_size(&self, group: GroupId) -> Option<WrongSize> {
        self.group(group).wrong_size
    }

    /// Instances that are not nodes, by name.
    pub(crate) fn unregistered(&self) -> impl Iterator<Item = (&Arc<str>, &Unregistered)> {
        self.unregistered.iter()
    }

    /// Instances of a group that could not be made, by error and then in the cloud's order.
    pub(crate) fn failed_instances(&self, group: GroupId) -> Vec<Arc<str>> {
        let instances = self.instances.current.get(group.index()).map_or(&[][..], Vec::as_slice);
        by_error(instances).into_values().flatten().map(|(id, _)| id.clone()).collect()
    }

    // How it is found out.

    fn has_upcoming(&self, group: GroupId) -> bool {
        let Group { counts, acceptable: Some(acceptable), .. } = self.group(group) else { return false };
        let Some(counts) = counts else { return acceptable.target > 0 };
        let arrived = if self.version < Version::V1_36 {
            counts.registered - counts.not_started.len() as i64
        } else {
            counts.arrived()
        };
        acceptable.target > arrived
    }

    fn change_request(&mut self, group: GroupId, by: i64, now: Moment, expected_within: Duration) {
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
    fn look_at_instances(&mut self, cloud: &dyn Cloud) {
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
        let current = current.collect();
        self.instances.previous = std::mem::replace(&mut self.instances.current, current);
    }

    fn find_unregistered(&mut self, looking: &Looking<'_>) {
        let snapshot = &looking.cluster.snapshot;
        let registered: BTreeSet<&str> =
            looking.cluster.nodes().map(|id| &**snapshot.node(id).instance()).collect();
        let mut found = BTreeMap::new();
        for (group, instances) in ids(looking.cloud).zip(&self.instances.current) {
            let expected = instances
                .iter()
                .filter(|one| matches!(one.state, InstanceState::Running | InstanceState::Creating));
            for instance in expected.filter(|one| !registered.contains(&*one.id)) {
                let known = self.unregistered.get(&instance.id).cloned();
                let new = Unregistered { group, since: looking.now };
                found.insert(instance.id.clone(), known.unwrap_or(new));
            }
        }
        self.unregistered = found;
    }

    fn count(&mut self, looking: &mut Looking<'_>) {
        let (now, settings) = (looking.now, looking.settings);
        let mut total = Counts { at: now, ..Counts::default() };
        let mut groups: Vec<Option<Counts>> = vec![None; self.groups.len()];
        // An oversight of cluster-autoscaler: what was last heard of a group holds for nodes of none.
        let mut startup_time = Duration::from_secs(15 * 60);
        let nodes: Vec<NodeId> = looking.cluster.nodes().collect();
        for id in nodes {
            let group = looking.cluster.group_of(id, looking.cloud);
            if let Some(group) = group {
                let options = looking.cloud.groups()[group.index()].options.as_ref();
                startup_time = settings.of_group(options).max_node_startup_time;
            }
            let node = looking.cluster.snapshot.node(id);
            let exists = looking.cloud.has_instance(&Registered(node));
            let readiness = looking.readiness.get(id.index()).copied().flatten();
            let state = |counts: &mut Counts| {
                counts.registered += 1;
                if !exists.unwrap_or_else(|| node.taint(TO_BE_DELETED).is_none()) {
                    counts.deleted += 1;
                } else if node.condition(SUSPENDED).is_some_and(|condition| &*condition.status == "True")
                    && settings.version >= Version::V1_36
                {
                    counts.suspended += 1;
                } else if readiness.is_some_and(|readiness| readiness.ready) {
                    counts.ready += 1;
                } else if after(node.created, startup_time) > now {
                    counts.not_started.push(id);
                } else {
                    counts.unready += 1;
                    counts.lacks_device +=
                        i64::from(readiness.is_some_and(|readiness| readiness.lacks_device));
                }
            };
            if let Some(group) = group {
                state(groups[group.index()].get_or_insert_default());
            }
            state(&mut total);
        }
        for Unregistered { group, since } in self.unregistered.values() {
            let counts = groups[group.index()].get_or_insert_default();
            if after(*since, provision_time(looking.cloud, *group, settings)) < now {
                counts.long_unregistered += 1;
                total.long_unregistered += 1;
            } else {
                counts.unregistered += 1;
                total.unregistered += 1;
            }
        }
        for (group, counts) in self.groups.iter_mut().zip(groups) {
            group.counts = counts.map(|counts| Counts { at: now, ..counts });
        }
        self.total = total;
    }

    fn set_acceptable(&mut self, targets: &[i64]) {
        for (place, (group, target)) in self.groups.iter_mut().zip(targets).enumerate() {
            let gone = group.counts.as_ref().map_or(0, |counts| counts.long_unregistered);
            let pending = self.growing.get(&GroupId(place as u32)).map_or(0, |growing| growing.by);
            group.acceptable = Some(Acceptable { min: target - gone - pending, target: *target });
        }
    }

    fn update_requests(&mut self, looking: &mut Looking<'_>) {
        let (now, settings) = (looking.now, looking.settings);
        self.backoffs.forget_old(now, settings);
        for (group, growing) in self.growing.clone() {
            if !self.has_upcoming(group) {
                self.growing.remove(&group);
                continue;
            }
            if growing.expected >= now {
                continue;
            }
            let name = looking.cloud.groups()[group.index()].name.clone();
            let waited = go_duration::format(now.nanos_since(growing.since));
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
        self.shrinking.retain(|(_, expected)| *expected > now);
    }

    /// Instances that could not be made, and were not known to be so, count as a failure of their group.
    fn find_creation_errors(&mut self, looking: &mut Looking<'_>) {
        let (now, settings) = (looking.now, looking.settings);
        for group in ids(looking.cloud) {
            let place = group.index();
            let before = self.instances.previous.get(place).map_or(&[][..], Vec::as_slice);
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

    fn find_wrong_sizes(&mut self, now: Moment) {
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

// === impl Counts ===

impl Counts {
    /// Those that need not be waited for any more.
    fn arrived(&self) -> i64 {
        self.ready + self.unready + self.suspended + self.long_unregistered
    }
}

/// How long a new node of a group may take.
pub(crate) fn provision_time(cloud: &dyn Cloud, group: GroupId, settings: &Settings) -> Duration {
    settings.of_group(cloud.groups()[group.index()].options.as_ref()).max_node_provision_time
}

/// All groups, in the cloud's order.
pub(crate) fn ids(cloud: &dyn Cloud) -> impl Iterator<Item = GroupId> + use<> {
    (0..cloud.groups().len()).map(|place| GroupId(place as u32))
}

/// Instances that could not be made, by the code of their error and whether there were none to be had.
type ByError<'a> = BTreeMap<(&'a str, bool), Vec<(&'a Arc<str>, &'a CreationError)>>;

fn by_error(instances: &[Instance]) -> ByError<'_> {
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

pub(crate) fn warning(reason: &'static str, message: String) -> Event {
    Event { about: About::Status, warning: true, reason, message }
}

#[cfg(test)]
impl Registry {
    /// One that has nothing against any of so many groups.
    pub(crate) fn at_ease(settings: &Settings, groups: usize) -> Registry {
        let mut registry = Registry::new(settings, Moment::default());
        registry.groups.resize_with(groups, || Group {
            counts: Some(Counts::default()),
            acceptable: Some(Acceptable::default()),
            has_template: true,
            ..Group::default()
        });
        registry
    }
}
