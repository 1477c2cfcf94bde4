//! The state of one scheduling cycle: PreFilter and Filter for one pod over the cluster cache.
//!
//! `run_filter_plugins` runs the plugins; `filter_node` gives the same result with the help of the filter cache.

mod node_with_changes;

use std::sync::Arc;

use kubernetes::amounts::ResourceAmounts;
use smallvec::{SmallVec, smallvec};

use super::cache::ClusterCache;
use super::filter_cache::{CachedVerdicts, FilterCache, NodeLocalVerdict};
use super::framework::Framework;
use super::ids::{NodeId, PodId};
use super::node::Node;
use super::nominator::Nominator;
use super::plugin::Plugin;
use super::plugins::volume_context::{VolumeNode, VolumePod};
use super::plugins::{
    dynamic_resources, inter_pod_affinity, node_affinity, node_declared_features, node_name, node_ports,
    node_unschedulable, node_volume_limits, pod_topology_spread, taint_toleration, volume_binding,
    volume_restrictions, volume_zone,
};
use super::pod::Pod;
use super::pre_filter_state::PreFilterState;
use super::settings::Version;
use super::status::{Code, Status};
use super::storage::VolumeReservation;
use node_with_changes::UsageView;

pub(super) use node_with_changes::NodeWithChanges;

/// The scheduling cycle of one pod: its PreFilter state, as in kube-scheduler's CycleState, and the methods that run the
/// PreFilter, Filter and Reserve plugins, as kube-scheduler's framework does.
pub(super) struct CycleState<'a> {
    pub cache: &'a ClusterCache,
    pub framework: &'a Framework,
    pub nominator: &'a Nominator,
    /// The nodes that pods are nominated to; `None` if there are too many to list.
    nominated_nodes: Option<Vec<NodeId>>,
    pub pod: &'a Pod,
    pub pod_id: PodId,
    pub pre_filter_state: &'a PreFilterState,
    spread: pod_topology_spread::SpreadFilter<'a>,
    /// `None` if every node passes.
    affinity: Option<inter_pod_affinity::AffinityFilter<'a>>,
    /// Whether PreFilter of InterPodAffinity skips the pod, also on nodes with changes.
    is_affinity_skipped: bool,
    /// Filters that depend on more than the node and that this pod does not skip. No `SmallVec`, since reading one costs
    /// more per node than its allocation per cycle.
    active_filters: Vec<(u8, Plugin)>,
    /// Whether no filter of the profile lacks its PreFilter state.
    has_all_states: bool,
    volumes: VolumePluginStates,
}

/// The PreFilter states of the volume plugins; `None` if a plugin skips the pod.
#[derive(Default)]
struct VolumePluginStates {
    restrictions: Option<volume_restrictions::VolumeRestrictionsState>,
    limits: Option<node_volume_limits::NodeVolumeLimitsState>,
    binding: Option<volume_binding::VolumeBindingState>,
    zone: Option<volume_zone::VolumeZoneState>,
}

/// Up to this number the nodes that pods are nominated to are listed, so that other nodes are not looked up by name.
const MAX_NOMINATED_NODES: usize = 16;

/// The combined result of the PreFilter plugins.
#[derive(Debug, Default)]
pub(super) struct PreFilterResult {
    /// The only nodes to consider, sorted; `None` for all.
    pub node_names: Option<Vec<Arc<str>>>,
    /// The plugins that restricted the nodes.
    pub plugins: Vec<Plugin>,
}

impl<'a> CycleState<'a> {
    pub(super) fn new(
        cache: &'a ClusterCache,
        framework: &'a Framework,
        nominator: &'a Nominator,
        pod_id: PodId,
        pre_filter_state: &'a PreFilterState,
    ) -> CycleState<'a> {
        CycleState {
            spread: pre_filter_state.hard_constraints.prepare_filter(cache),
            affinity: pre_filter_state.affinity.prepare_filter(cache),
            is_affinity_skipped: pre_filter_state.affinity.is_skipped(cache),
            active_filters: Vec::new(),
            has_all_states: framework.missing_state_errors.is_empty(),
            volumes: VolumePluginStates::default(),
            pod: cache.pod(pod_id),
            nominated_nodes: (nominator.node_count() <= MAX_NOMINATED_NODES).then(|| {
                nominator.node_names().into_iter().filter_map(|name| cache.nodes.by_name(name)).collect()
            }),
            cache,
            framework,
            nominator,
            pod_id,
            pre_filter_state,
        }
    }

    /// Runs the PreFilter plugins. Must be called before any filter.
    pub(super) fn run_pre_filter_plugins(&mut self) -> Result<PreFilterResult, Status> {
        if let Some(error) = &self.pod.read_error {
            return Err(Status::unresolvable(Plugin::Unreadable, format!("the pod is invalid: {error}")));
        }
        if self.pod.spec.spread_constraints.is_empty()
            && let Some(error) = self
                .cache
                .related_objects
                .spreading_read_error(&self.pod.name.namespace, self.pod.controller.as_ref())
        {
            let reason = format!("the object whose selector spreads the pod is invalid: {error}");
            return Err(Status::unresolvable(Plugin::Unreadable, reason));
        }
        // Even if the profile lacks the plugin: a pod is never scheduled as if it had no resource claims.
        dynamic_resources::pre_filter(&self.pod.spec)?;
        let mut result = PreFilterResult::default();
        let mut unschedulable = None;
        for plugin in &self.framework.profile.pre_filter {
            match self.run_pre_filter_plugin(*plugin) {
                Ok(None) => {}
                Ok(Some(names)) => {
                    result.plugins.push(*plugin);
                    result.node_names = Some(match result.node_names.take() {
                        None => names,
                        Some(old) => {
                            old.into_iter().filter(|name| names.binary_search(name).is_ok()).collect()
                        }
                    });
                    if result.node_names.as_ref().is_some_and(Vec::is_empty) {
                        return Err(empty_intersection_status(*plugin, &result.plugins));
                    }
                }
                Err(status) if status.code == Code::Unschedulable => unschedulable = Some(status),
                Err(status) => return Err(status),
            }
        }
        let is_active = |(_, plugin): &&(u8, Plugin)| match plugin {
            Plugin::PodTopologySpread => !self.pre_filter_state.hard_constraints.is_empty(),
            Plugin::InterPodAffinity => self.affinity.is_some(),
            Plugin::DynamicResources => {
                self.framework.version >= Version::V1_36 && self.requests_device_class_resource()
            }
            Plugin::VolumeRestrictions => self.volumes.restrictions.is_some(),
            Plugin::NodeVolumeLimits => self.volumes.limits.is_some(),
            Plugin::VolumeBinding => self.volumes.binding.is_some(),
            Plugin::VolumeZone => self.volumes.zone.is_some(),
            // No filter, or a node-local one. A new cluster filter listed here is active for every pod.
            Plugin::SchedulingGates
            | Plugin::PrioritySort
            | Plugin::NodeUnschedulable
            | Plugin::NodeName
            | Plugin::TaintToleration
            | Plugin::NodeAffinity
            | Plugin::NodePorts
            | Plugin::NodeResourcesFit
            | Plugin::DefaultPreemption
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder
            | Plugin::NodeDeclaredFeatures
            | Plugin::Unreadable => true,
        };
        let lacks_state = |(_, plugin): &&(u8, Plugin)| {
            self.framework.missing_state_errors.iter().any(|(other, _)| other == plugin)
        };
        let cluster_filters = self.framework.cluster_filters.iter();
        self.active_filters =
            cluster_filters.filter(|filter| is_active(filter) || lacks_state(filter)).copied().collect();
        unschedulable.map_or(Ok(result), Err)
    }

    /// The filters that run for the pod, in the profile's order, after PreFilter.
    pub(super) fn running_filters(&self) -> Vec<Plugin> {
        let Framework { profile, node_local_filters, .. } = self.framework;
        let is_local = |plugin: &Plugin| node_local_filters.iter().any(|(_, local)| local == plugin);
        let is_active = |plugin: &Plugin| self.active_filters.iter().any(|(_, active)| active == plugin);
        let has_node_affinity =
            !self.pod.spec.required_node_affinity.is_none() || profile.added_affinity.required.is_some();
        let is_skipped = |plugin: &Plugin| {
            (*plugin == Plugin::NodeAffinity && !has_node_affinity)
                || (*plugin == Plugin::NodePorts && self.pod.spec.host_ports.is_empty())
        };
        let runs = |plugin: &Plugin| (is_local(plugin) && !is_skipped(plugin)) || is_active(plugin);
        profile.filter.iter().copied().filter(runs).collect()
    }

    /// Whether the pod requests an extended resource that a device class backs.
    fn requests_device_class_resource(&self) -> bool {
        let ClusterCache { scalars, related_objects, .. } = self.cache;
        let mut requested = self.pod.spec.requests.scalars.iter();
        requested.any(|(id, _)| related_objects.is_device_class_resource(scalars.name(*id)))
    }

    /// Runs one PreFilter plugin. Returns the only nodes to consider, if it restricts them.
    #[inline(always)]
    fn run_pre_filter_plugin(&mut self, plugin: Plugin) -> Result<Option<Vec<Arc<str>>>, Status> {
        let storage = &self.cache.storage;
        match plugin {
            Plugin::NodeAffinity => return node_affinity::pre_filter(&self.pod.spec),
            // The volume plugins skip pods without volumes.
            Plugin::VolumeRestrictions => {
                if let Some(pod) = self.volume_pod() {
                    self.volumes.restrictions = volume_restrictions::pre_filter(pod, storage)?;
                }
            }
            Plugin::NodeVolumeLimits => {
                if let Some(pod) = self.volume_pod() {
                    self.volumes.limits = node_volume_limits::pre_filter(pod, storage);
                }
            }
            Plugin::VolumeBinding => {
                if let Some(pod) = self.volume_pod() {
                    self.volumes.binding = volume_binding::pre_filter(pod, storage)?;
                }
            }
            Plugin::VolumeZone => {
                if let Some(pod) = self.volume_pod() {
                    self.volumes.zone = volume_zone::pre_filter(pod, storage)?;
                }
            }
            // The state of these is in `PreFilterState` or `SchedulingSpec`, or they have none.
            Plugin::SchedulingGates
            | Plugin::PrioritySort
            | Plugin::NodeUnschedulable
            | Plugin::NodeName
            | Plugin::TaintToleration
            | Plugin::NodePorts
            | Plugin::NodeResourcesFit
            | Plugin::PodTopologySpread
            | Plugin::InterPodAffinity
            | Plugin::DynamicResources
            | Plugin::DefaultPreemption
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder
            | Plugin::NodeDeclaredFeatures
            | Plugin::Unreadable => {}
        }
        Ok(None)
    }

    /// The pod with its volumes, if it has any.
    fn volume_pod(&self) -> Option<VolumePod<'a>> {
        let pod = self.pod;
        pod.volumes.as_ref().map(|volumes| VolumePod { namespace: &pod.name.namespace, volumes })
    }

    /// Reserves volumes for the pod's unbound claims on a node; `None` if it has none.
    pub(super) fn reserve(&self, node: NodeId) -> Result<Option<VolumeReservation>, Status> {
        match &self.volumes.binding {
            Some(state) if self.framework.profile.reserve.contains(&Plugin::VolumeBinding) => {
                volume_binding::reserve(state, &self.volume_node(node)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Runs the filters with and without the pods nominated to the node. Returns the identifier of the rejecting
    /// status, or `None` if the node is feasible.
    #[inline(always)]
    pub(super) fn filter_node(
        &self,
        node: NodeId,
        verdicts: &mut Option<&mut CachedVerdicts>,
        filter_cache: &mut FilterCache,
    ) -> Option<u32> {
        match verdicts {
            Some(cached_verdicts) if !self.may_have_nominated_pods(node) => {
                self.filter_with_cached_verdict(node, cached_verdicts, filter_cache)
            }
            Some(_) | None => self.filter_with_nominated_pods(node, verdicts, filter_cache),
        }
    }

    /// The same for a node that may have nominated pods, or without cached verdicts.
    #[inline(never)]
    fn filter_with_nominated_pods(
        &self,
        node: NodeId,
        verdicts: &mut Option<&mut CachedVerdicts>,
        filter_cache: &mut FilterCache,
    ) -> Option<u32> {
        let nominated = self.nominated_pods(node);
        if !nominated.is_empty() {
            let mut changed_node = self.unchanged_node(node);
            nominated.iter().for_each(|pod| self.add_pod(&mut changed_node, *pod, node));
            if let Err(status) = self.run_filter_plugins(node, Some(&changed_node)) {
                return Some(filter_cache.status_id(status));
            }
        }
        match verdicts {
            Some(cached_verdicts) => self.filter_with_cached_verdict(node, cached_verdicts, filter_cache),
            None => self.run_filter_plugins(node, None).err().map(|status| filter_cache.status_id(status)),
        }
    }

    /// Runs the filters without the pods nominated to the node. For most pods the cached verdict decides.
    #[inline(always)]
    fn filter_with_cached_verdict(
        &self,
        node: NodeId,
        verdicts: &mut CachedVerdicts,
        filter_cache: &mut FilterCache,
    ) -> Option<u32> {
        let verdict = self.cached_verdict(verdicts, node, filter_cache);
        for &(position, plugin) in &self.active_filters {
            if position >= verdict.rejected_at {
                break;
            }
            if let Some(status_id) = self.run_cluster_filter(plugin, node, filter_cache) {
                return Some(status_id);
            }
        }
        verdict.rejected_status()
    }

    /// Runs one filter that depends on more than the node. Returns the identifier of the rejecting status.
    #[inline(always)]
    fn run_cluster_filter(
        &self,
        plugin: Plugin,
        node: NodeId,
        filter_cache: &mut FilterCache,
    ) -> Option<u32> {
        let common_status = match (plugin, &self.affinity) {
            (Plugin::PodTopologySpread, _) if self.has_all_states => self.spread.filter(node),
            (Plugin::InterPodAffinity, Some(affinity)) if self.has_all_states => affinity.filter(node),
            (Plugin::NodeVolumeLimits | Plugin::VolumeBinding, _)
                if self.passes_volume_filter(plugin, node) =>
            {
                Ok(())
            }
            _ => {
                let status = self.run_filter_plugin(plugin, node, None).err()?;
                return Some(filter_cache.status_id(status));
            }
        };
        common_status.err().map(|common_status| filter_cache.common_status_id(common_status))
    }

    /// Runs the filters on a node as if it had `used.0` pods that request `used.1` in total. The pod's
    /// verdicts must depend only on the node's object and its free resources. Returns whether the node is
    /// feasible.
    pub(super) fn is_feasible_with_usage(
        &self,
        node: NodeId,
        used: (usize, &ResourceAmounts),
        verdicts: &mut Option<&mut CachedVerdicts>,
        filter_cache: &mut FilterCache,
    ) -> bool {
        let ClusterCache { scalars, related_objects, .. } = self.cache;
        let fit = &self.framework.fit;
        if fit.filter(&self.pod.spec, self.node(node), used, scalars, related_objects).is_err() {
            return false;
        }
        let is_accepted = |plugin: Plugin| self.run_filter_plugin(plugin, node, None).is_ok();
        let filters = &self.framework.profile.filter;
        let verdict = verdicts.as_mut().map(|verdicts| self.cached_verdict(verdicts, node, filter_cache));
        match verdict.map(|verdict| verdict.rejected_at) {
            Some(u8::MAX) => self.active_filters.iter().all(|(_, plugin)| is_accepted(*plugin)),
            // Rejected by a filter that does not depend on the usage.
            Some(position) if filters.get(usize::from(position)) != Some(&Plugin::NodeResourcesFit) => false,
            Some(_) | None => {
                self.check_readable(node).is_ok()
                    && filters
                        .iter()
                        .filter(|plugin| **plugin != Plugin::NodeResourcesFit)
                        .all(|plugin| is_accepted(*plugin))
            }
        }
    }

    /// The cached verdict of the node-local filters, recomputed if the node has changed.
    #[inline(always)]
    pub(super) fn cached_verdict<'c>(
        &self,
        verdicts: &'c mut CachedVerdicts,
        node: NodeId,
        filter_cache: &mut FilterCache,
    ) -> &'c NodeLocalVerdict {
        let generation = self.cache.nodes.generation(node);
        if !verdicts.is_current(node, generation) {
            self.update_verdict(verdicts, node, generation, filter_cache);
        }
        verdicts.get(node)
    }

    #[cold]
    #[inline(never)]
    fn update_verdict(
        &self,
        verdicts: &mut CachedVerdicts,
        node: NodeId,
        generation: u64,
        filter_cache: &mut FilterCache,
    ) {
        let verdict = self.compute_verdict(node, generation, filter_cache);
        verdicts.put(node, self.cache.nodes.id_bound(), verdict);
    }

    fn compute_verdict(
        &self,
        node: NodeId,
        generation: u64,
        filter_cache: &mut FilterCache,
    ) -> NodeLocalVerdict {
        let (pod_spec, node_spec, usage) = (&*self.pod.spec, self.node(node), self.cache.nodes.usage(node));
        let mut verdict = NodeLocalVerdict {
            generation,
            rejected_at: u8::MAX,
            status_id: 0,
            taint_score: 0,
            node_affinity_score: 0,
            fit_score: 0,
            balance_score: 0,
            has_images: !self.cache.nodes.image_states(node).is_empty(),
        };
        let mut rejection = self.check_readable(node).err().map(|status| (0, status));
        for &(position, plugin) in &self.framework.node_local_filters {
            if rejection.is_some() {
                break;
            }
            rejection = self.run_filter_plugin(plugin, node, None).err().map(|status| (position, status));
        }
        if let Some((position, status)) = rejection {
            (verdict.rejected_at, verdict.status_id) = (position, filter_cache.status_id(status));
            return verdict;
        }
        verdict.taint_score = taint_toleration::score(pod_spec, node_spec);
        verdict.node_affinity_score =
            node_affinity::score(pod_spec, &self.framework.profile.added_affinity, node_spec);
        verdict.fit_score = self.framework.fit.score(pod_spec, node_spec, usage);
        verdict.balance_score = self.framework.balanced_allocation.score(pod_spec, node_spec, usage);
        verdict
    }

    /// Runs all filters in order; the first non-success status is returned.
    fn run_filter_plugins(&self, node: NodeId, changed_node: Option<&NodeWithChanges>) -> Result<(), Status> {
        self.check_readable(node)?;
        self.framework
            .profile
            .filter
            .iter()
            .try_for_each(|plugin| self.run_filter_plugin(*plugin, node, changed_node))
    }

    /// Rejects a node if it or one of its pods is unreadable.
    pub(super) fn check_readable(&self, node: NodeId) -> Result<(), Status> {
        let (node_spec, usage) = (self.node(node), self.cache.nodes.usage(node));
        if let Some(error) = &node_spec.read_error {
            let reason = format!("node(s) were invalid: {error}");
            return Err(Status::unresolvable(Plugin::Unreadable, reason));
        }
        if let Some(pod) = usage.unreadable_pods.first().map(|pod| self.cache.pod(*pod)) {
            let error = pod.read_error.as_deref().unwrap_or_default();
            let name = &pod.name;
            let reason = format!("node(s) had an invalid pod: {}/{}: {error}", name.namespace, name.name);
            return Err(Status::unresolvable(Plugin::Unreadable, reason));
        }
        Ok(())
    }

    /// Runs one filter.
    pub(super) fn run_filter_plugin(
        &self,
        plugin: Plugin,
        node: NodeId,
        changed_node: Option<&NodeWithChanges>,
    ) -> Result<(), Status> {
        let (pod, pod_spec, node_spec) = (self.pod, &*self.pod.spec, self.node(node));
        let usage =
            || changed_node.map_or_else(|| UsageView::from(self.cache.nodes.usage(node)), UsageView::from);
        let ClusterCache { scalars, related_objects, storage, .. } = self.cache;
        if !self.has_all_states
            && let Some((_, error)) =
                self.framework.missing_state_errors.iter().find(|(other, _)| *other == plugin)
        {
            return Err(Status { plugin, code: Code::Error, reasons: smallvec![error.clone().into()] });
        }
        match plugin {
            Plugin::NodeUnschedulable => node_unschedulable::filter(pod_spec, node_spec),
            Plugin::NodeName => node_name::filter(pod, node_spec),
            Plugin::TaintToleration => taint_toleration::filter(pod_spec, node_spec, self.framework.version),
            Plugin::NodeAffinity => {
                node_affinity::filter(pod_spec, &self.framework.profile.added_affinity, node_spec)
            }
            Plugin::NodePorts => node_ports::filter(pod_spec, usage().used_ports),
            Plugin::NodeResourcesFit => {
                let UsageView { pod_count, requested, .. } = usage();
                let used = (pod_count, requested);
                self.framework.fit.filter(pod_spec, node_spec, used, scalars, related_objects)
            }
            Plugin::PodTopologySpread => {
                let result = match changed_node {
                    None => self.spread.filter(node),
                    Some(with_changes) => self.pre_filter_state.hard_constraints.filter_with_delta(
                        &with_changes.spread_delta,
                        self.cache,
                        node,
                    ),
                };
                result.map_err(Status::from)
            }
            Plugin::InterPodAffinity => {
                let result = match changed_node {
                    None => self.affinity.as_ref().map_or(Ok(()), |affinity| affinity.filter(node)),
                    // A Filter that PreFilter skipped is skipped for changed nodes too.
                    Some(_) if self.is_affinity_skipped => Ok(()),
                    Some(with_changes) => self.pre_filter_state.affinity.filter_with_delta(
                        &with_changes.affinity_delta,
                        self.cache,
                        node,
                    ),
                };
                result.map_err(Status::from)
            }
            Plugin::DynamicResources if self.framework.version < Version::V1_36 => Ok(()),
            Plugin::DynamicResources => {
                dynamic_resources::filter(pod_spec, node_spec, scalars, related_objects)
            }
            Plugin::VolumeRestrictions => self.volumes.restrictions.as_ref().map_or(Ok(()), |state| {
                self.with_volume_changes(changed_node, |changed| {
                    volume_restrictions::filter(state, &self.volume_node(node), changed, storage)
                })
            }),
            Plugin::NodeVolumeLimits => self.volumes.limits.as_ref().map_or(Ok(()), |state| {
                self.with_volume_changes(changed_node, |changed| {
                    node_volume_limits::filter(state, &self.volume_node(node), changed, storage)
                })
            }),
            Plugin::VolumeBinding => {
                let state = self.volumes.binding.as_ref();
                state.map_or(Ok(()), |state| volume_binding::filter(state, &self.volume_node(node)))
            }
            Plugin::VolumeZone => {
                let state = self.volumes.zone.as_ref();
                state.map_or(Ok(()), |state| volume_zone::filter(state, &self.volume_node(node)))
            }
            Plugin::NodeDeclaredFeatures => node_declared_features::filter(pod_spec, node_spec),
            // These do not filter.
            Plugin::SchedulingGates
            | Plugin::PrioritySort
            | Plugin::DefaultPreemption
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder
            | Plugin::Unreadable => Ok(()),
        }
    }

    /// A quick check of a node without changes by a volume plugin. If it is false, the filter decides.
    #[inline]
    fn passes_volume_filter(&self, plugin: Plugin, node: NodeId) -> bool {
        let (states, node) = (&self.volumes, self.volume_node(node));
        match plugin {
            Plugin::NodeVolumeLimits => {
                states.limits.as_ref().is_some_and(|state| state.passes(&node, &self.cache.storage))
            }
            Plugin::VolumeBinding => states.binding.as_ref().is_some_and(|state| state.passes(&node)),
            // Without a quick check a plugin is only slower: its filter decides.
            _ => false,
        }
    }

    fn volume_node(&self, node: NodeId) -> VolumeNode<'a> {
        let node_spec = self.node(node);
        let volumes = self.cache.storage.node(node);
        VolumeNode { name: &node_spec.name, labels: &node_spec.labels, volumes }
    }

    pub(super) fn node(&self, node: NodeId) -> &'a Node {
        self.cache.nodes.spec(node)
    }

    /// Whether dry runs of preemption for the pod can be cached: its filters depend only on the node and its
    /// pods, also if pods are added or removed.
    pub(super) fn has_cacheable_dry_runs(&self) -> bool {
        // DynamicResources also depends on device classes, a change of which clears the filter cache.
        let is_local = |(_, plugin): &(u8, Plugin)| *plugin == Plugin::DynamicResources;
        self.has_all_states
            && self.is_affinity_skipped
            && self.active_filters.iter().all(is_local)
            && self.pod.node_name.is_none()
    }

    /// Whether other pods are nominated to the node, with the same or a higher priority.
    #[inline]
    pub(super) fn has_nominated_pods(&self, node: NodeId) -> bool {
        self.may_have_nominated_pods(node) && !self.nominated_pods(node).is_empty()
    }

    #[inline]
    fn may_have_nominated_pods(&self, node: NodeId) -> bool {
        self.nominated_nodes.as_ref().is_none_or(|nodes| nodes.contains(&node))
    }

    /// Other pods nominated to the node with the same or a higher priority.
    fn nominated_pods(&self, node: NodeId) -> SmallVec<[PodId; 2]> {
        if !self.may_have_nominated_pods(node) {
            return SmallVec::new();
        }
        let nominated = self.nominator.nominated_pods_for_node(self.cache.nodes.name(node)).iter().copied();
        nominated
            .filter(|id| *id != self.pod_id && self.cache.pod(*id).priority() >= self.pod.priority())
            .collect()
    }
}

fn empty_intersection_status(last: Plugin, narrowed_by: &[Plugin]) -> Status {
    let mut names: Vec<&str> = narrowed_by.iter().map(|plugin| plugin.name()).collect();
    names.sort_unstable();
    let reason = match &names[..] {
        [name] => format!("node(s) didn't satisfy plugin {name}"),
        names => format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", names.join(" ")),
    };
    Status::unresolvable(last, reason)
}
