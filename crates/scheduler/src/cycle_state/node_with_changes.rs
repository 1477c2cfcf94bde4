//! A node with pods added or removed: for nominated pods, and for preemption.

use kubernetes::amounts::ResourceAmounts;
use smallvec::SmallVec;

use super::CycleState;
use crate::ids::{NodeId, PodId};
use crate::node::NodeUsage;
use crate::plugin::Plugin;
use crate::plugins::volume_context::{PodChanges, VolumePod};
use crate::plugins::{inter_pod_affinity, pod_topology_spread};
use crate::pod::HostPort;
use crate::status::Status;

/// A node's usage with some pods added or removed, as far as the filters of one pod depend on it.
#[derive(Clone, Default)]
pub(crate) struct NodeWithChanges {
    pod_count: usize,
    requested: ResourceAmounts,
    /// Empty if the pod has no host ports.
    used_ports: Vec<HostPort>,
    pub(super) spread_delta: pod_topology_spread::SpreadDelta,
    pub(super) affinity_delta: inter_pod_affinity::AffinityDelta,
    /// The pods added and removed, if volume plugins filter the pod.
    added: Vec<PodId>,
    removed: Vec<PodId>,
    /// The pods nominated to the node, which every check must also pass with.
    nominated: SmallVec<[PodId; 2]>,
}

/// The usage of a node that filters depend on.
#[derive(Clone, Copy)]
pub(super) struct UsageView<'a> {
    pub pod_count: usize,
    pub requested: &'a ResourceAmounts,
    pub used_ports: &'a [HostPort],
}

// === impl UsageView ===

impl<'a> From<&'a NodeUsage> for UsageView<'a> {
    fn from(usage: &'a NodeUsage) -> UsageView<'a> {
        UsageView { pod_count: usage.pods.len(), requested: &usage.requested, used_ports: &usage.used_ports }
    }
}

impl<'a> From<&'a NodeWithChanges> for UsageView<'a> {
    fn from(node: &'a NodeWithChanges) -> UsageView<'a> {
        UsageView { pod_count: node.pod_count, requested: &node.requested, used_ports: &node.used_ports }
    }
}

// === impl CycleState ===

impl CycleState<'_> {
    /// A node without changes.
    pub(crate) fn unchanged_node(&self, node: NodeId) -> NodeWithChanges {
        let mut changed_node = NodeWithChanges::default();
        self.reset_changes(&mut changed_node, node);
        changed_node
    }

    /// Sets it to a node without changes, reusing its memory.
    pub(crate) fn reset_changes(&self, changed_node: &mut NodeWithChanges, node: NodeId) {
        let usage = self.cache.nodes.usage(node);
        changed_node.pod_count = usage.pods.len();
        changed_node.requested.clone_from(&usage.requested);
        changed_node.used_ports.clear();
        if self.has_host_ports() {
            changed_node.used_ports.extend_from_slice(&usage.used_ports);
        }
        changed_node.spread_delta = self.pre_filter_state.hard_constraints.no_delta();
        changed_node.affinity_delta = self.pre_filter_state.affinity.no_delta();
        changed_node.added.clear();
        changed_node.removed.clear();
        changed_node.nominated = self.nominated_pods(node);
    }

    /// Adds a pod to the node.
    pub(crate) fn add_pod(&self, changed_node: &mut NodeWithChanges, id: PodId, node: NodeId) {
        let pod = self.cache.pod(id);
        changed_node.pod_count += 1;
        changed_node.requested.add(&pod.usage.requested);
        if self.has_host_ports() {
            for port in &pod.spec.host_ports {
                if !changed_node.used_ports.contains(port) {
                    changed_node.used_ports.push(port.clone());
                }
            }
        }
        self.update_deltas(changed_node, id, node, 1);
        if self.depends_on_volumes() {
            match changed_node.removed.iter().position(|other| *other == id) {
                Some(position) => drop(changed_node.removed.remove(position)),
                None => changed_node.added.push(id),
            }
        }
    }

    /// Removes a pod that is on the node.
    pub(crate) fn remove_pod(&self, changed_node: &mut NodeWithChanges, id: PodId, node: NodeId) {
        let pod = self.cache.pod(id);
        changed_node.pod_count -= 1;
        changed_node.requested.subtract(&pod.usage.requested);
        if self.has_host_ports() {
            // As in kube-scheduler a port that two pods use is freed when the first of them is removed.
            changed_node.used_ports.retain(|port| !pod.spec.host_ports.contains(port));
        }
        self.update_deltas(changed_node, id, node, -1);
        if self.depends_on_volumes() {
            changed_node.removed.push(id);
        }
    }

    /// Runs all filters on a node with changes.
    pub(crate) fn filter_with_changes(
        &self,
        node: NodeId,
        changed_node: &NodeWithChanges,
    ) -> Result<(), Status> {
        self.check_readable(node)?;
        self.run_filters_with_changes(node, changed_node, &self.framework.profile.filter)
    }

    /// Runs filters on a node with changes.
    pub(crate) fn run_filters_with_changes(
        &self,
        node: NodeId,
        changed_node: &NodeWithChanges,
        filters: &[Plugin],
    ) -> Result<(), Status> {
        let run_filters = |with_changes: &NodeWithChanges| {
            filters.iter().try_for_each(|plugin| self.run_filter_plugin(*plugin, node, Some(with_changes)))
        };
        if !changed_node.nominated.is_empty() {
            let mut with_nominated = changed_node.clone();
            changed_node.nominated.iter().for_each(|pod| self.add_pod(&mut with_nominated, *pod, node));
            run_filters(&with_nominated)?;
        }
        run_filters(changed_node)
    }

    /// The filters that depend on the pods of a node, without those that this pod skips.
    pub(crate) fn pod_dependent_filters(&self) -> SmallVec<[Plugin; 6]> {
        let is_skipped = |plugin: &Plugin| match plugin {
            Plugin::NodePorts => !self.has_host_ports(),
            Plugin::PodTopologySpread => self.pre_filter_state.hard_constraints.is_empty(),
            Plugin::InterPodAffinity => self.is_affinity_skipped,
            Plugin::VolumeRestrictions => self.volumes.restrictions.is_none(),
            Plugin::NodeVolumeLimits => self.volumes.limits.is_none(),
            // A plugin that is missing here is only slower: its filter runs and passes.
            _ => false,
        };
        let lacks_state =
            |plugin: &Plugin| self.framework.missing_state_errors.iter().any(|(other, _)| other == plugin);
        let filters = self.framework.pod_dependent_filters.iter().copied();
        filters.filter(|plugin| lacks_state(plugin) || !is_skipped(plugin)).collect()
    }

    /// Calls a volume plugin with the volumes of the added and removed pods.
    pub(super) fn with_volume_changes<T>(
        &self,
        changed_node: Option<&NodeWithChanges>,
        run: impl FnOnce(&PodChanges<'_>) -> T,
    ) -> T {
        let Some(with_changes) = changed_node else { return run(&PodChanges::default()) };
        let volumes = |pod: &PodId| {
            let pod = self.cache.pod(*pod);
            Some(VolumePod { namespace: &pod.name.namespace, volumes: pod.volumes.as_ref()? })
        };
        let added: Vec<VolumePod<'_>> = with_changes.added.iter().filter_map(volumes).collect();
        run(&PodChanges { removed: &with_changes.removed, added: &added })
    }

    fn update_deltas(&self, changed_node: &mut NodeWithChanges, id: PodId, node: NodeId, by: i64) {
        let (state, pod) = (self.pre_filter_state, self.cache.pod(id));
        state.hard_constraints.update_with_pod(&mut changed_node.spread_delta, self.cache, pod, node, by);
        if !self.is_affinity_skipped {
            let delta = &mut changed_node.affinity_delta;
            state.affinity.update_with_pod(delta, self.cache, self.pod, pod, node, by);
        }
    }

    fn has_host_ports(&self) -> bool {
        !self.pod.spec.host_ports.is_empty()
    }

    /// Whether the verdict of a volume plugin depends on the pods of a node.
    fn depends_on_volumes(&self) -> bool {
        self.volumes.restrictions.is_some() || self.volumes.limits.is_some()
    }
}
