//! What is known of the groups: which nodes are ready, which are still to come, which groups failed lately.

mod look;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::time::{after, nanos};
use model::Moment;
use scheduler::ids::NodeId;

use super::AutoscalingContext;
use super::backoff::{BackedOff, Backoffs};
use super::clock::Clock;
use super::cloud::{Cloud, GroupId, Instance};
use super::cluster::Cluster;
use super::decision::{About, Event};
use super::settings::{Settings, Version};
use super::standing::Standings;
use super::templates::Templates;
use look::by_error;

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
    /// When nodes were last counted.
    pub counted: Moment,
    registered: RegisteredCounts,
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
}

/// The nodes that are there, by state.
#[derive(Debug, Default)]
struct RegisteredCounts {
    /// The revision of nodes for which they come to the same again, whatever the time.
    holds: Option<u64>,
    groups: Vec<Option<Counts>>,
    total: Counts,
}

/// How many nodes a group should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acceptable {
    min: i64,
    pub target: i64,
}

/// An instance that is not a node yet.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq)]
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
    cached: Vec<Option<Arc<[Instance]>>>,
    /// As the last loop saw them.
    current: Vec<Arc<[Instance]>>,
    /// As the loop before saw them.
    previous: Vec<Arc<[Instance]>>,
    /// Whether one of those that the last loop saw could not be made, by group.
    has_failed: Vec<bool>,
    /// The nodes that they were last held against.
    revision: Option<u64>,
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

/// What the registry reads in every loop: the context without the registry itself.
struct Looking<'a> {
    clock: &'a Clock,
    settings: &'a Settings,
    cloud: &'a mut dyn Cloud,
    cluster: &'a mut Cluster,
    templates: &'a Templates,
    standings: &'a Standings,
    events: &'a mut Vec<Event>,
}

/// How long a cloud takes to delete a node.
const DELETION_TIME: Duration = Duration::from_secs(5 * 60);
/// How often the instances of all groups are asked for.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2 * 60);

/// Updates the registry of a context with all nodes and instances.
pub(crate) fn update(context: &mut AutoscalingContext<'_>) {
    let AutoscalingContext {
        registry, clock, settings, cloud, cluster, templates, standings, events, ..
    } = context;
    registry.update(&mut Looking { clock, settings, cloud: *cloud, cluster, templates, standings, events });
}

impl Registry {
    pub(crate) fn new(settings: &Settings, start: Moment) -> Registry {
        Registry {
            scale_ups: BTreeMap::new(),
            scale_downs: BTreeMap::new(),
            failed_scale_downs: BTreeMap::new(),
            backoffs: Backoffs::default(),
            total: Counts::default(),
            counted: start,
            registered: RegisteredCounts::default(),
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

    /// Asks for the instances of all groups, if it is time. Says whether there is something new.
    pub(crate) fn refresh(&mut self, now: Moment, cloud: &dyn Cloud) -> bool {
        if self.instances.next_refresh > now {
            return false;
        }
        let told = ids(cloud).map(|group| Some(cloud.instances(group))).collect();
        let known = std::mem::replace(&mut self.instances.cached, told);
        let interval = nanos(REFRESH_INTERVAL);
        let late = now.nanos_since(self.instances.next_refresh) / interval;
        self.instances.next_refresh =
            self.instances.next_refresh.plus_nanos(interval.saturating_mul(late.saturating_add(1)));
        let is_known = |(told, known): (&Option<_>, &Option<_>)| match (told, known) {
            (Some(told), Some(known)) => is_same(told, known),
            _ => false,
        };
        self.instances.cached.len() != known.len() || !self.instances.cached.iter().zip(&known).all(is_known)
    }

    /// Takes in all nodes and instances.
    fn update(&mut self, looking: &mut Looking<'_>) {
        let groups = looking.cloud.groups().len();
        self.groups.resize_with(groups, Group::default);
        for (place, group) in self.groups.iter_mut().enumerate() {
            group.has_template = looking.templates.has(GroupId(place as u32));
        }
        // As the loop found them: what the registry itself changes below is not seen until the next one.
        let targets: Vec<i64> = ids(looking.cloud).map(|group| looking.cloud.target(group)).collect();
        let before = self.memory();
        self.look_at_instances(looking.cloud);
        self.find_unregistered(looking);
        self.count(looking);
        self.counted = looking.clock.now();
        self.set_acceptable(&targets);
        self.update_requests(looking);
        self.find_creation_errors(looking);
        self.set_acceptable(&targets);
        self.find_wrong_sizes(looking.clock.now());
        if self.memory() != before || !self.instances.are_as_before() {
            looking.clock.disturb();
        }
    }

    /// What one look leaves for the next.
    fn memory(&self) -> impl PartialEq + use<> {
        let wrong_sizes: Vec<_> = self.groups.iter().map(|group| group.wrong_size).collect();
        let requests = (self.growing.clone(), self.shrinking.clone(), self.backoffs.clone());
        (requests, self.unregistered.clone(), wrong_sizes)
    }

    /// A loop at that moment would have looked, and seen the same.
    pub(crate) fn counted_again(&mut self, last: Moment, now: Moment) {
        if self.counted == last {
            self.counted = now;
        }
    }

    /// What groups were told to do, and when.
    pub(crate) fn requests(&self) -> Requests {
        Requests { growing: self.growing.clone(), scale_ups: self.scale_ups.clone() }
    }

    /// As if groups had been told only that. What was found to be done since, or to have failed, stays so.
    pub(crate) fn restore(&mut self, mut requests: Requests) {
        requests.growing.retain(|group, _| self.growing.contains_key(group));
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
    pub(crate) fn backed_off(&self, group: GroupId, clock: &Clock) -> Option<&BackedOff> {
        self.group(group).has_template.then(|| self.backoffs.get(group, clock))?
    }

    /// Whether a group may grow.
    pub(crate) fn safety(&self, group: GroupId, clock: &Clock, settings: &Settings) -> Safety {
        if !self.is_healthy(group, settings) {
            Safety::Unhealthy
        } else if self.backed_off(group, clock).is_some() {
            Safety::BackedOff
        } else {
            Safety::Safe
        }
    }

    /// Nodes still to come, by group in the cloud's order.
    pub(crate) fn upcoming(&self, clock: &Clock) -> Vec<Upcoming> {
        let groups = (0..self.groups.len()).map(|place| GroupId(place as u32));
        let upcoming = groups.filter_map(|group| {
            let counts = self.group(group).counts.as_ref();
            let target = self.group(group).acceptable.unwrap_or_default().target;
            let count = target - counts.map_or(0, Counts::arrived);
            let expected = self.version < Version::V1_36
                || (self.growing.contains_key(&group) && self.backed_off(group, clock).is_none());
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
        if !self.instances.has_failed.get(group.index()).copied().unwrap_or(false) {
            return Vec::new();
        }
        by_error(&self.instances.current[group.index()])
            .into_values()
            .flatten()
            .map(|(id, _)| id.clone())
            .collect()
    }
}

// === impl Instances ===

impl Instances {
    /// Whether this loop sees what the loop before saw.
    fn are_as_before(&self) -> bool {
        self.current.len() == self.previous.len()
            && self.current.iter().zip(&self.previous).all(|(a, b)| is_same(a, b))
    }
}

/// Whether lists of instances are the same. The cloud gives the same list again as long as nothing changes.
fn is_same(a: &Arc<[Instance]>, b: &Arc<[Instance]>) -> bool {
    Arc::ptr_eq(a, b) || a == b
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
