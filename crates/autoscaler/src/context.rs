//! The state shared by all parts of a loop, and the context in which they borrow it.

use std::sync::Arc;

use model::Moment;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use scheduler::ids::NodeId;

use super::clock::LoopClock;
use super::cloud::{CloudProvider, GroupId};
use super::cluster_state::ClusterStateRegistry;
use super::decision::{Action, Event};
use super::informer_cache::InformerCache;
use super::node_eligibility::is_virtual_kubelet;
use super::node_eligibility::{NodeEligibilities, NodeEligibility};
use super::settings::Settings;
use super::templates::TemplateNodeInfoProvider;

/// State that the autoscaler keeps from loop to loop and that all parts of a loop share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub settings: Settings,
    pub cluster: InformerCache,
    pub registry: ClusterStateRegistry,
    /// The template node info of each group.
    pub templates: TemplateNodeInfoProvider,
    pub node_eligibilities: NodeEligibilities,
    pub rng: Pcg64,
}

/// The context of one loop, like cluster-autoscaler's `AutoscalingContext`: the shared state, the time, the cloud
/// provider, and the events and actions so far.
pub(crate) struct AutoscalingContext<'a> {
    pub clock: &'a LoopClock,
    pub settings: &'a Settings,
    pub cloud: &'a mut dyn CloudProvider,
    pub cluster: &'a mut InformerCache,
    pub registry: &'a mut ClusterStateRegistry,
    /// The template node info of each group.
    pub templates: &'a TemplateNodeInfoProvider,
    /// As of the beginning of the loop; between loops, of the last one.
    pub node_eligibilities: &'a NodeEligibilities,
    pub rng: &'a mut Pcg64,
    pub events: &'a mut Vec<Event>,
    pub actions: &'a mut Vec<Action>,
}

// === impl SharedState ===

impl SharedState {
    /// The state of an autoscaler that starts now and has seen no nodes or pods.
    pub(crate) fn new(settings: Settings, start: Moment) -> SharedState {
        SharedState {
            cluster: InformerCache::new(&settings),
            registry: ClusterStateRegistry::new(&settings, start),
            templates: TemplateNodeInfoProvider::default(),
            node_eligibilities: NodeEligibilities::default(),
            rng: Pcg64::seed_from_u64(settings.seed),
            settings,
        }
    }

    /// Borrows the state for a loop, or for work between two loops.
    pub(crate) fn context<'a>(
        &'a mut self,
        clock: &'a LoopClock,
        cloud: &'a mut dyn CloudProvider,
        events: &'a mut Vec<Event>,
        actions: &'a mut Vec<Action>,
    ) -> AutoscalingContext<'a> {
        AutoscalingContext {
            clock,
            settings: &self.settings,
            cloud,
            cluster: &mut self.cluster,
            registry: &mut self.registry,
            templates: &self.templates,
            node_eligibilities: &self.node_eligibilities,
            rng: &mut self.rng,
            events,
            actions,
        }
    }

    /// Updates the entries of nodes that changed since the last call.
    pub(crate) fn update_node_eligibilities(&mut self, cloud: &dyn CloudProvider) {
        for id in self.cluster.take_changed_nodes() {
            let node = self.cluster.snapshot.get_node(id);
            self.node_eligibilities
                .set(id, node.map(|node| NodeEligibility::of(node, &self.settings, cloud)));
        }
    }

    /// Recomputes the templates of all groups, at the beginning of a loop.
    pub(crate) fn recompute_templates(&mut self, clock: &LoopClock, cloud: &dyn CloudProvider) {
        let SharedState { settings, cluster, templates, node_eligibilities: standings, .. } = self;
        templates.recompute(clock, settings, cloud, cluster, standings);
    }
}

// === impl AutoscalingContext ===

impl AutoscalingContext<'_> {
    /// The entry of a node; `None` if the snapshot changed the node since the loop began.
    pub(crate) fn node_eligibility(&self, id: NodeId) -> Option<&NodeEligibility> {
        let eligibility = self.node_eligibilities.get(id)?;
        Arc::ptr_eq(&eligibility.node, self.cluster.snapshot.get_node(id)?).then_some(eligibility)
    }

    /// The group of a node; `None` for virtual-kubelet nodes, which do not count for cluster-wide quotas.
    pub(crate) fn group_for_quota(&self, id: NodeId) -> Option<Option<GroupId>> {
        let (is_virtual, group) = match self.node_eligibility(id) {
            Some(eligibility) => (eligibility.is_virtual_kubelet, eligibility.group),
            None => {
                let is_virtual = is_virtual_kubelet(self.cluster.snapshot.node(id));
                (is_virtual, self.cluster.group_for_node(id, &*self.cloud))
            }
        };
        (!is_virtual).then_some(group)
    }

    /// Whether a node was ready when the loop began.
    pub(crate) fn is_ready(&self, id: NodeId) -> bool {
        self.node_eligibility(id).is_some_and(|eligibility| eligibility.readiness.ready)
    }
}
