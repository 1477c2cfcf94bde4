//! The subgroup tree of a job: sets of subgroups, and pod sets as its leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ids::{PodId, PodInfoId};
use super::status::PodStatus;

/// The pod set of a job without subgroups.
pub(crate) const DEFAULT_SUB_GROUP: &str = "default";

/// The subgroup tree of a job. The first set is the root.
#[derive(Clone, Debug)]
pub(crate) struct SubGroupTree {
    pub sets: Vec<SubGroupSet>,
    /// Sorted by name.
    pub pod_sets: Vec<PodSet>,
}

/// A set of subgroups, of which some are needed together.
#[derive(Clone, Debug)]
pub(crate) struct SubGroupSet {
    /// Empty for the root.
    pub name: Arc<str>,
    pub parent: Option<usize>,
    pub constraint: Option<Arc<TopologyConstraint>>,
    /// How many members are needed; all if absent.
    pub min_sub_group: Option<i32>,
    /// Indexes of its sets.
    pub sets: Vec<usize>,
    /// Indexes of its pod sets.
    pub pod_sets: Vec<usize>,
}

/// A set of pods, of which some are needed together.
#[derive(Clone, Debug)]
pub(crate) struct PodSet {
    pub name: Arc<str>,
    /// The index of its set.
    pub parent: usize,
    pub constraint: Option<Arc<TopologyConstraint>>,
    pub min_available: i32,
    /// The pods, each with its current state, and its status when that was assigned.
    infos: BTreeMap<PodId, (PodInfoId, PodStatus)>,
    active_allocated: usize,
    active_used: usize,
    alive: usize,
    gated: usize,
}

/// A member of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// A set of subgroups, by index.
    Set(usize),
    /// A pod set, by index.
    PodSet(usize),
}

/// A topology constraint, its levels as node labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopologyConstraint {
    pub topology: Arc<str>,
    /// Empty if there is none.
    pub required_level: Arc<str>,
    /// Empty if there is none.
    pub preferred_level: Arc<str>,
}

// === impl SubGroupTree ===

impl SubGroupTree {
    /// A tree of one pod set.
    pub(crate) fn of_default_pod_set(
        min_available: i32,
        constraint: Option<Arc<TopologyConstraint>>,
    ) -> SubGroupTree {
        let mut root = SubGroupSet::new("".into(), None, constraint, None);
        root.pod_sets.push(0);
        let pod_set = PodSet::new(DEFAULT_SUB_GROUP.into(), 0, None, min_available);
        SubGroupTree { sets: vec![root], pod_sets: vec![pod_set] }
    }

    /// The same tree without pods.
    pub(crate) fn without_pods(&self) -> SubGroupTree {
        let pod_sets = self.pod_sets.iter().map(|pod_set| {
            let PodSet { name, parent, constraint, min_available, .. } = pod_set;
            PodSet::new(name.clone(), *parent, constraint.clone(), *min_available)
        });
        SubGroupTree { sets: self.sets.clone(), pod_sets: pod_sets.collect() }
    }

    /// The index of a pod set.
    pub(crate) fn find_pod_set(&self, name: &str) -> Option<usize> {
        self.pod_sets.binary_search_by(|pod_set| (*pod_set.name).cmp(name)).ok()
    }

    /// The members of a set: sets first.
    pub(crate) fn members(&self, set: usize) -> Vec<Member> {
        let set = &self.sets[set];
        let sets = set.sets.iter().map(|index| Member::Set(*index));
        sets.chain(set.pod_sets.iter().map(|index| Member::PodSet(*index))).collect()
    }

    /// The pod sets below a set, sorted by name.
    pub(crate) fn descendant_pod_sets(&self, set: usize) -> Vec<usize> {
        let mut pod_sets = self.sets[set].pod_sets.clone();
        for child in &self.sets[set].sets {
            pod_sets.extend(self.descendant_pod_sets(*child));
        }
        pod_sets.sort_unstable();
        pod_sets
    }

    /// The pod sets of a member, sorted by name.
    pub(crate) fn pod_sets_of(&self, member: Member) -> Vec<usize> {
        match member {
            Member::Set(set) => self.descendant_pod_sets(set),
            Member::PodSet(pod_set) => vec![pod_set],
        }
    }

    /// How many members of a set have the minimum of their own.
    pub(crate) fn satisfied_members(&self, set: usize) -> usize {
        let is_set_satisfied = |index: &&usize| self.is_satisfied(**index);
        let is_pod_set_satisfied = |index: &&usize| self.pod_sets[**index].is_satisfied();
        self.sets[set].sets.iter().filter(is_set_satisfied).count()
            + self.sets[set].pod_sets.iter().filter(is_pod_set_satisfied).count()
    }

    /// How many members a set needs.
    pub(crate) fn needed_members(&self, set: usize) -> i64 {
        let set = &self.sets[set];
        match set.min_sub_group {
            Some(count) => i64::from(count),
            None => (set.sets.len() + set.pod_sets.len()) as i64,
        }
    }

    /// Whether a set has as many satisfied members as it needs.
    pub(crate) fn is_satisfied(&self, set: usize) -> bool {
        self.satisfied_members(set) as i64 >= self.needed_members(set)
    }

    /// Whether enough pods exist.
    pub(crate) fn is_ready(&self, set: usize) -> bool {
        let ready = self.sets[set].sets.iter().filter(|index| self.is_ready(**index)).count()
            + self.sets[set].pod_sets.iter().filter(|index| self.pod_sets[**index].is_ready()).count();
        ready as i64 >= self.needed_members(set)
    }

    /// The name of a member.
    pub(crate) fn name(&self, member: Member) -> &Arc<str> {
        match member {
            Member::Set(index) => &self.sets[index].name,
            Member::PodSet(index) => &self.pod_sets[index].name,
        }
    }

    /// The topology constraint of a member.
    pub(crate) fn constraint(&self, member: Member) -> Option<&Arc<TopologyConstraint>> {
        match member {
            Member::Set(index) => self.sets[index].constraint.as_ref(),
            Member::PodSet(index) => self.pod_sets[index].constraint.as_ref(),
        }
    }

    /// The number of members or pods with the minimum of their own, and how many are needed.
    pub(crate) fn allocation(&self, member: Member) -> (i64, i64) {
        match member {
            Member::Set(index) => (self.satisfied_members(index) as i64, self.needed_members(index)),
            Member::PodSet(index) => {
                let pod_set = &self.pod_sets[index];
                (pod_set.active_allocated as i64, i64::from(pod_set.min_available))
            }
        }
    }
}

// === impl SubGroupSet ===

impl SubGroupSet {
    pub(crate) fn new(
        name: Arc<str>,
        parent: Option<usize>,
        constraint: Option<Arc<TopologyConstraint>>,
        min_sub_group: Option<i32>,
    ) -> SubGroupSet {
        SubGroupSet { name, parent, constraint, min_sub_group, sets: Vec::new(), pod_sets: Vec::new() }
    }
}

// === impl PodSet ===

impl PodSet {
    pub(crate) fn new(
        name: Arc<str>,
        parent: usize,
        constraint: Option<Arc<TopologyConstraint>>,
        min_available: i32,
    ) -> PodSet {
        PodSet {
            name,
            parent,
            constraint,
            min_available,
            infos: BTreeMap::new(),
            active_allocated: 0,
            active_used: 0,
            alive: 0,
            gated: 0,
        }
    }

    /// Sets the state of a pod, which may be another copy than before.
    pub(crate) fn assign(&mut self, pod: PodId, info: PodInfoId, status: PodStatus) {
        if let Some((_, before)) = self.infos.insert(pod, (info, status)) {
            self.active_allocated -= usize::from(before.is_active_allocated());
            self.active_used -= usize::from(before.is_active_used());
            self.alive -= usize::from(before.is_alive());
            self.gated -= usize::from(before == PodStatus::Gated);
        }
        self.active_allocated += usize::from(status.is_active_allocated());
        self.active_used += usize::from(status.is_active_used());
        self.alive += usize::from(status.is_alive());
        self.gated += usize::from(status == PodStatus::Gated);
    }

    /// Puts another copy of a pod's state in the place of the current one.
    pub(crate) fn replace(&mut self, pod: PodId, from: PodInfoId, to: PodInfoId) {
        if let Some((info, _)) = self.infos.get_mut(&pod).filter(|(info, _)| *info == from) {
            *info = to;
        }
    }

    /// The state of a pod.
    pub(crate) fn get(&self, pod: PodId) -> Option<PodInfoId> {
        self.infos.get(&pod).map(|(info, _)| *info)
    }

    /// The states of its pods.
    pub(crate) fn infos(&self) -> impl Iterator<Item = PodInfoId> {
        self.infos.values().map(|(info, _)| *info)
    }

    pub(crate) fn len(&self) -> usize {
        self.infos.len()
    }

    /// Whether there are more pods than are needed.
    pub(crate) fn is_elastic(&self) -> bool {
        i64::from(self.min_available) < self.len() as i64
    }

    /// Whether enough pods have a node and are not being deleted.
    pub(crate) fn is_satisfied(&self) -> bool {
        self.active_allocated as i64 >= i64::from(self.min_available)
    }

    /// The same, those being deleted included.
    pub(crate) fn is_gang_satisfied(&self) -> bool {
        self.active_used as i64 >= i64::from(self.min_available)
    }

    /// Whether enough pods exist.
    pub(crate) fn is_ready(&self) -> bool {
        self.alive as i64 - self.gated as i64 >= i64::from(self.min_available)
    }

    pub(crate) fn active_allocated(&self) -> usize {
        self.active_allocated
    }

    pub(crate) fn active_used(&self) -> usize {
        self.active_used
    }
}
