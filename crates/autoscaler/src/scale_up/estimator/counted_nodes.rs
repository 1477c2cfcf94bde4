//! The estimator's fast implementation: new nodes as vectors of free resources. It has the same result as trying each
//! pod, if the filters depend only on fields of the node, which are the same for every copy of a template, and on its
//! free resources.

use kubernetes::amounts::{ResourceAmounts, ScalarResourceId};

use super::super::super::snapshot::ClusterSnapshot;
use super::super::super::templates::TemplateNodeInfo;
use super::super::equivalence_groups::PodEquivalenceGroup;
use super::NewNodes;

/// New nodes as vectors of free resources.
pub(super) struct CountedNodes {
    /// By equivalence group; `None` for those that are not packed.
    requirements: Vec<Option<GroupRequirements>>,
    /// The free resources of a new node: the number of pods, then amounts.
    free_on_new_node: Vec<i64>,
    /// The same for each node, one after the other.
    free: Vec<i64>,
    has_pods: Vec<bool>,
    /// The number of nodes before the first of these, in search order.
    existing_nodes: usize,
    last_match_index: usize,
    /// Whether the nodes are unschedulable, so that searches skip them.
    is_unschedulable: bool,
}

/// The requirements of the pods of one equivalence group.
#[derive(Debug)]
struct GroupRequirements {
    count: usize,
    /// Whether one fits on a new node.
    fits: bool,
    /// The amounts that must be free for one; zero for resources that are not checked.
    needs: Vec<i64>,
    /// The amounts that one uses.
    uses: Vec<i64>,
}

/// For amounts beyond these the reference implementation is used, which reproduces Go's integer overflow.
const SUPPORTED_AMOUNTS: std::ops::Range<i64> = 0..1 << 60;

impl CountedNodes {
    /// `None` if not only resource amounts matter.
    pub(super) fn new(
        snapshot: &mut ClusterSnapshot,
        template: &TemplateNodeInfo,
        groups: &[PodEquivalenceGroup],
        indices: &[usize],
    ) -> Option<CountedNodes> {
        if !indices.iter().all(|group| groups[*group].is_uniform) {
            return None;
        }
        let before = snapshot.order().len();
        let fork = snapshot.fork();
        let copy = template.copy("e-0");
        let node = snapshot.add_node(copy.node, &copy.pods);
        let mut scalars: Vec<ScalarResourceId> = Vec::new();
        let mut group_requirements: Vec<Option<(bool, ResourceAmounts, ResourceAmounts)>> =
            groups.iter().map(|_| None).collect();
        let mut is_local = true;
        for &group in indices {
            let first = groups[group].pods[0];
            is_local = is_local && snapshot.filter_snapshot.depends_only_on_node(first);
            if !is_local {
                break;
            }
            let fits = snapshot.check_predicates(first, node).is_ok();
            let pod = snapshot.filter_snapshot.pod(first);
            scalars.extend(pod.spec.requests.scalars.iter().map(|(id, _)| *id));
            scalars.extend(pod.usage.requested.scalars.iter().map(|(id, _)| *id));
            group_requirements[group] = Some((fits, pod.spec.requests.clone(), pod.usage.requested.clone()));
        }
        scalars.sort_unstable();
        scalars.dedup();
        let list = |room: i64, amounts: &ResourceAmounts| {
            let mut list = vec![room, amounts.cpu, amounts.memory, amounts.ephemeral_storage];
            list.extend(scalars.iter().map(|id| amounts.scalar(*id)));
            list
        };
        let spec = snapshot.filter_snapshot.spec(node);
        let allocatable = list(spec.allowed_pods, &spec.allocatable);
        let used = list(snapshot.filter_snapshot.usage(node).pods.len() as i64, snapshot.requested(node));
        let is_cordoned = spec.unschedulable;
        snapshot.revert(fork);
        let are_supported = |list: &[i64]| list.iter().all(|amount| SUPPORTED_AMOUNTS.contains(amount));
        if !is_local || !are_supported(&allocatable) || !are_supported(&used) {
            return None;
        }
        let group_requirements = group_requirements.into_iter().zip(groups).map(|(requirements, group)| {
            requirements.map(|(fits, needs, uses)| GroupRequirements {
                count: group.pods.len(),
                fits,
                needs: list(1, &needs),
                uses: list(1, &uses),
            })
        });
        let group_requirements: Vec<Option<GroupRequirements>> = group_requirements.collect();
        if !group_requirements
            .iter()
            .flatten()
            .all(|requirements| are_supported(&requirements.needs) && are_supported(&requirements.uses))
        {
            return None;
        }
        Some(CountedNodes {
            requirements: group_requirements,
            free_on_new_node: allocatable
                .iter()
                .zip(&used)
                .map(|(allocatable, used)| allocatable - used)
                .collect(),
            free: Vec::new(),
            has_pods: Vec::new(),
            existing_nodes: before,
            last_match_index: snapshot.last_match_index(),
            is_unschedulable: is_cordoned,
        })
    }

    /// The index at which the last search ended.
    pub(super) fn last_match_index(&self) -> usize {
        self.last_match_index
    }

    fn requirements_of(&self, group: usize) -> &GroupRequirements {
        self.requirements[group].as_ref().expect("only participating groups are packed")
    }

    fn free_on(&self, node: usize) -> &[i64] {
        let width = self.free_on_new_node.len();
        &self.free[node * width..(node + 1) * width]
    }

    fn place_pods(&mut self, group: usize, node: usize, count: usize) {
        let width = self.free_on_new_node.len();
        let requirements = self.requirements[group].as_ref().expect("only participating groups are packed");
        let free = &mut self.free[node * width..(node + 1) * width];
        free.iter_mut()
            .zip(&requirements.uses)
            .for_each(|(free, uses)| *free = free.saturating_sub(uses.saturating_mul(count as i64)));
        self.has_pods[node] |= count > 0;
    }
}

impl NewNodes for CountedNodes {
    fn schedule_on_existing(&mut self, group: usize) -> usize {
        let (requirements, nodes) = (self.requirements_of(group), self.has_pods.len());
        if nodes == 0 || self.is_unschedulable || !requirements.fits {
            return 0;
        }
        let pod_count = requirements.count;
        // A search begins after the last match, also if that was a node outside this estimation.
        let start =
            ((self.last_match_index + 1) % (self.existing_nodes + nodes)).saturating_sub(self.existing_nodes);
        let by_turns = (start..nodes).chain(0..start);
        let mut nodes_with_room: Vec<(usize, usize)> = by_turns
            .map(|node| (node, requirements.max_pods(self.free_on(node))))
            .filter(|(_, room)| *room > 0)
            .collect();
        let mut scheduled_count = 0;
        let mut last = None;
        while scheduled_count < pod_count && !nodes_with_room.is_empty() {
            let rounds = (pod_count - scheduled_count) / nodes_with_room.len();
            if rounds == 0 {
                // Too few pods are left for all of these nodes.
                nodes_with_room.truncate(pod_count - scheduled_count);
            }
            let min_room = nodes_with_room.iter().map(|(_, room)| *room).min().unwrap_or(1);
            let rounds = rounds.clamp(1, min_room);
            for (node, room) in &mut nodes_with_room {
                self.place_pods(group, *node, rounds);
                *room -= rounds;
            }
            scheduled_count += rounds * nodes_with_room.len();
            last = nodes_with_room.last().map(|(node, _)| *node);
            nodes_with_room.retain(|(_, room)| *room > 0);
        }
        if let Some(node) = last {
            self.last_match_index = self.existing_nodes + node;
        }
        scheduled_count
    }

    fn add_node(&mut self) {
        self.free.extend_from_slice(&self.free_on_new_node);
        self.has_pods.push(false);
    }

    fn last_has_pods(&self) -> Option<bool> {
        self.has_pods.last().copied()
    }

    fn schedule_on_last(&mut self, group: usize, from: usize) -> usize {
        let Some(last) = self.has_pods.len().checked_sub(1) else { return 0 };
        let requirements = self.requirements_of(group);
        if !requirements.fits {
            return 0;
        }
        let count = requirements.max_pods(self.free_on(last)).min(requirements.count - from);
        self.place_pods(group, last, count);
        count
    }

    fn schedule_on_other(&mut self, _group: usize, _pod: usize) -> bool {
        false
    }

    fn nodes_with_pods(&self) -> i64 {
        self.has_pods.iter().filter(|used| **used).count() as i64
    }
}

// === impl GroupRequirements ===

impl GroupRequirements {
    /// The number of pods that fit.
    fn max_pods(&self, free: &[i64]) -> usize {
        let amounts = || self.needs.iter().zip(&self.uses).zip(free);
        if amounts().any(|((needs, _), free)| *needs > 0 && needs > free) {
            return 0;
        }
        let limiting_resources = amounts().filter(|((needs, uses), _)| **needs > 0 && **uses > 0);
        let min_room = limiting_resources.map(|((needs, uses), free)| (free - needs) / uses + 1).min();
        min_room.unwrap_or(0) as usize
    }
}
