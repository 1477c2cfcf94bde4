//! The jobs of a snapshot: pod groups with their subgroup trees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::objects::ObjectMeta;
use model::Moment;
use rustc_hash::FxHashMap;

use super::fit_errors::JobFitError;
use super::ids::{JobId, QueueId};
use super::job::{Job, JobGroup};
use super::resources::ResourceNames;
use super::sub_group::{PodSet, SubGroupSet, SubGroupTree, TopologyConstraint};
use crate::objects::{PodGroupView, SubGroupView, TopologyConstraintView};
use crate::snapshot::Snapshot;
use crate::{Error, Result};

/// The jobs, sorted by name, still without pods.
pub(super) struct JobLoader {
    pub jobs: Vec<Job>,
    pub ids: FxHashMap<Arc<str>, JobId>,
}

/// For each topology, the labels of its levels by their aliases.
type Aliases = BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<str>>>;

const LAST_START: &str = "kai.scheduler/last-start-timestamp";
const LAST_EVICTION: &str = "kai.scheduler/last-eviction-timestamp";
const STALE_SINCE: &str = "kai.scheduler/stale-podgroup-timestamp";

const DEFAULT_PRIORITY: i32 = 50;
/// From this priority on a job is not preemptible unless it says so.
const NON_PREEMPTIBLE_PRIORITY: i32 = 100;
/// How deep subgroups may be nested.
const MAX_SUB_GROUP_DEPTH: usize = 64;

/// Loads the pod groups that the scheduler has to look at.
pub(super) fn load_jobs(
    snapshot: &Snapshot,
    queues: &FxHashMap<Arc<str>, QueueId>,
    names: &ResourceNames,
) -> Result<JobLoader> {
    let pool = &snapshot.settings.params.node_pool;
    let aliases = aliases(snapshot);
    let priorities = Priorities::new(snapshot);
    let mut views: Vec<&PodGroupView> = snapshot
        .pod_groups
        .iter()
        .filter(|view| pool.contains(&view.metadata.labels) && !is_backing_off(view, snapshot))
        .collect();
    views.sort_by(|a, b| {
        (&a.metadata.name, &a.metadata.namespace).cmp(&(&b.metadata.name, &b.metadata.namespace))
    });
    // The name alone identifies a job: of two in different namespaces the last one counts, with the pods of both.
    views.reverse();
    views.dedup_by(|a, b| a.metadata.name == b.metadata.name);
    views.reverse();
    let (mut jobs, mut ids) = (Vec::with_capacity(views.len()), FxHashMap::default());
    for (index, view) in views.into_iter().enumerate() {
        let id = JobId::of(index);
        ids.insert(view.metadata.name.clone(), id);
        jobs.push(load_job(id, view, queues, names, &aliases, &priorities)?);
    }
    Ok(JobLoader { jobs, ids })
}

fn load_job(
    id: JobId,
    view: &PodGroupView,
    queues: &FxHashMap<Arc<str>, QueueId>,
    names: &ResourceNames,
    aliases: &Aliases,
    priorities: &Priorities<'_>,
) -> Result<Job> {
    let (metadata, spec) = (&view.metadata, &view.spec);
    let queue = queues.get(&spec.queue).copied();
    let priority = if queue.is_some() { priorities.of(&spec.priority_class_name) } else { 0 };
    let is_preemptible = match &*spec.preemptibility {
        _ if queue.is_none() => false,
        "preemptible" => true,
        "non-preemptible" => false,
        _ => priority < NON_PREEMPTIBLE_PRIORITY,
    };
    let group = JobGroup {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        queue_name: spec.queue.clone(),
        queue,
        priority,
        is_preemptible,
        created: metadata.creation_timestamp,
        preemption_delay: spec.preemption_delay,
        staleness_grace_period: spec.staleness_grace_period,
        signature: 0,
    };
    let mut job = Job::new(id, Arc::new(group), load_tree(view, aliases)?, names);
    if queue.is_none() {
        let message = format!("Queue '{}' does not exist", spec.queue);
        job.add_fit_error(JobFitError::new("QueueDoesNotExist", message));
    }
    job.last_start = timestamp(metadata, LAST_START);
    job.last_eviction = timestamp(metadata, LAST_EVICTION);
    job.stale_since = timestamp(metadata, STALE_SINCE);
    Ok(job)
}

/// The priorities of priority classes.
struct Priorities<'a> {
    by_name: BTreeMap<&'a str, i32>,
    default: i32,
}

impl Priorities<'_> {
    fn new(snapshot: &Snapshot) -> Priorities<'_> {
        let classes = &snapshot.priority_classes;
        let by_name = classes.iter().map(|class| (&*class.metadata.name, class.value)).collect();
        let defaults = classes.iter().filter(|class| class.global_default);
        let default = defaults.min_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Priorities { by_name, default: default.map_or(DEFAULT_PRIORITY, |class| class.value) }
    }

    fn of(&self, class: &str) -> i32 {
        self.by_name.get(class).copied().unwrap_or(self.default)
    }
}

/// Whether a pod group was found unschedulable in this node pool and is not to be tried again.
fn is_backing_off(view: &PodGroupView, snapshot: &Snapshot) -> bool {
    if view.spec.scheduling_backoff.is_none_or(|backoff| backoff == -1) {
        return false;
    }
    let pool = snapshot.settings.params.node_pool.name_of(&view.metadata.labels);
    view.last_scheduling_condition().is_some_and(|condition| *condition.node_pool == *pool)
}

/// A malformed timestamp counts as absent.
fn timestamp(metadata: &ObjectMeta, annotation: &str) -> Option<Moment> {
    metadata.annotations.get(annotation)?.parse().ok()
}

fn aliases(snapshot: &Snapshot) -> Aliases {
    let mut aliases = Aliases::new();
    for topology in &snapshot.topologies {
        for level in topology.spec.levels.iter().filter(|level| !level.alias.is_empty()) {
            let of_topology = aliases.entry(topology.metadata.name.clone()).or_default();
            of_topology.insert(level.alias.clone(), level.node_label.clone());
        }
    }
    aliases
}

/// The subgroup tree of a pod group. Subgroups without their parent, or two of one name, make the original ignore all
/// subgroups.
fn load_tree(view: &PodGroupView, aliases: &Aliases) -> Result<SubGroupTree> {
    let sub_groups = &view.spec.sub_groups;
    let mut by_name: BTreeMap<&str, &SubGroupView> = BTreeMap::new();
    let mut children: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for sub_group in sub_groups {
        let is_first = by_name.insert(&sub_group.name, sub_group).is_none();
        if !is_first || sub_group.name.is_empty() {
            return Ok(SubGroupTree::of_default_pod_set(1, None));
        }
        let parent = sub_group.parent.as_deref().unwrap_or_default().to_lowercase();
        children.entry(parent).or_default().insert(&sub_group.name);
    }
    if children.keys().any(|parent| !parent.is_empty() && !by_name.contains_key(parent.as_str())) {
        return Ok(SubGroupTree::of_default_pod_set(1, None));
    }
    let own = &view.spec.topology_constraint;
    let root_constraint = (!own.topology.is_empty()).then(|| constraint(own, aliases));
    let root = SubGroupSet::new("".into(), None, root_constraint, view.spec.min_sub_group);
    let mut loader = TreeLoader { by_name, children, aliases, sets: vec![root], pod_sets: Vec::new() };
    if !loader.add_children(0, "", 0) {
        let name = format!("{}/{}", view.metadata.namespace, view.metadata.name);
        let why = format!("spec.subGroups: nested deeper than {MAX_SUB_GROUP_DEPTH} levels");
        return Err(Error::object("PodGroup", name, why));
    }
    let TreeLoader { mut sets, mut pod_sets, .. } = loader;
    if pod_sets.is_empty() {
        let min_available = view.spec.min_member.unwrap_or(1).max(1);
        let root = sets.swap_remove(0);
        let mut tree = SubGroupTree::of_default_pod_set(min_available, root.constraint);
        tree.sets[0].min_sub_group = root.min_sub_group;
        return Ok(tree);
    }
    pod_sets.sort_by(|a, b| a.name.cmp(&b.name));
    for (index, pod_set) in pod_sets.iter().enumerate() {
        sets[pod_set.parent].pod_sets.push(index);
    }
    Ok(SubGroupTree { sets, pod_sets })
}

struct TreeLoader<'a> {
    by_name: BTreeMap<&'a str, &'a SubGroupView>,
    children: BTreeMap<String, BTreeSet<&'a str>>,
    aliases: &'a Aliases,
    sets: Vec<SubGroupSet>,
    pod_sets: Vec<PodSet>,
}

impl TreeLoader<'_> {
    /// Adds what is below a set. Returns whether that is not too deep.
    fn add_children(&mut self, set: usize, name: &str, depth: usize) -> bool {
        if depth > MAX_SUB_GROUP_DEPTH {
            return false;
        }
        for child in self.children.get(name).cloned().unwrap_or_default() {
            let view = self.by_name[child];
            let constraint = view.topology_constraint.as_ref().map(|view| constraint(view, self.aliases));
            if self.children.contains_key(child) {
                let index = self.sets.len();
                let name = view.name.clone();
                self.sets.push(SubGroupSet::new(name, Some(set), constraint, view.min_sub_group));
                self.sets[set].sets.push(index);
                if !self.add_children(index, child, depth + 1) {
                    return false;
                }
            } else {
                let min_available = view.min_member.unwrap_or(0).max(0);
                self.pod_sets.push(PodSet::new(view.name.clone(), set, constraint, min_available));
            }
        }
        true
    }
}

fn constraint(view: &TopologyConstraintView, aliases: &Aliases) -> Arc<TopologyConstraint> {
    let of_topology = aliases.get(&view.topology);
    let label =
        |level: &Arc<str>| of_topology.and_then(|aliases| aliases.get(level)).unwrap_or(level).clone();
    Arc::new(TopologyConstraint {
        topology: view.topology.clone(),
        required_level: label(&view.required_topology_level),
        preferred_level: label(&view.preferred_topology_level),
    })
}
