//! The state shared by all parts of a loop, and the context in which they borrow it.

use std::sync::Arc;

use model::Moment;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use scheduler::ids::NodeId;

use super::clock::Clock;
use super::cloud::{Cloud, GroupId};
use super::cluster::Cluster;
use super::decision::{Action, Event};
use super::registry::Registry;
use super::settings::Settings;
use super::standing::{Standing, Standings};
use super::templates::Templates;

/// State that the autoscaler keeps from loop to loop and that all parts of a loop share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub settings: Settings,
    pub cluster: Cluster,
    pub registry: Registry,
    /// What a new node of each group would be like.
    pub templates: Templates,
    pub standings: Standings,
    pub dice: Pcg64,
}

/// What every part of one loop works with, like cluster-autoscaler's `AutoscalingContext`: the shared state, the time,
/// the cloud, and the events and actions so far.
pub(crate) struct AutoscalingContext<'a> {
    pub clock: &'a Clock,
    pub settings: &'a Settings,
    pub cloud: &'a mut dyn Cloud,
    pub cluster: &'a mut Cluster,
    pub registry: &'a mut Registry,
    /// What a new node of each group would be like.
    pub templates: &'a Templates,
    /// As of the beginning of the loop, or of the last one between loops.
    pub standings: &'a Standings,
    pub dice: &'a mut Pcg64,
    pub events: &'a mut Vec<Event>,
    pub actions: &'a mut Vec<Action>,
}

// === impl SharedState ===

impl SharedState {
    /// The state of an autoscaler that starts now and knows no nodes or pods.
    pub(crate) fn new(settings: Settings, start: Moment) -> SharedState {
        SharedState {
            cluster: Cluster::new(&settings),
            registry: Registry::new(&settings, start),
            templates: Templates::default(),
            standings: Standings::default(),
            dice: Pcg64::seed_from_u64(settings.seed),
            settings,
        }
    }

    /// Borrows the state for a loop, or for work between two loops.
    pub(crate) fn context<'a>(
        &'a mut self,
        clock: &'a Clock,
        cloud: &'a mut dyn Cloud,
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
            standings: &self.standings,
            dice: &mut self.dice,
            events,
            actions,
        }
    }

    /// Updates the standings of nodes that changed since the last call.
    pub(crate) fn update_standings(&mut self, cloud: &dyn Cloud) {
        for id in self.cluster.take_changed() {
            let node = self.cluster.snapshot.get_node(id);
            self.standings.set(id, node.map(|node| Standing::of(node, &self.settings, cloud)));
        }
    }

    /// Recomputes the templates of all groups, at the beginning of a loop.
    pub(crate) fn recompute_templates(&mut self, clock: &Clock, cloud: &dyn Cloud) {
        let SharedState { settings, cluster, templates, standings, .. } = self;
        templates.recompute(clock, settings, cloud, cluster, standings);
    }
}

// === impl AutoscalingContext ===

impl AutoscalingContext<'_> {
    /// How a node stands that is as it was when the loop began.
    pub(crate) fn standing(&self, id: NodeId) -> Option<&Standing> {
        let standing = self.standings.get(id)?;
        Arc::ptr_eq(&standing.node, self.cluster.snapshot.get_node(id)?).then_some(standing)
    }

    /// The group of a node, if it is a machine: the cluster's limits mean no others.
    pub(crate) fn group_of_machine(&self, id: NodeId) -> Option<Option<GroupId>> {
        let (is_virtual, group) = match self.standing(id) {
            Some(standing) => (standing.is_virtual, standing.group),
            None => {
                let is_virtual = self.cluster.snapshot.node(id).is_virtual();
                (is_virtual, self.cluster.group_of(id, &*self.cloud))
            }
        };
        (!is_virtual).then_some(group)
    }

    /// Whether a node was ready when the loop began.
    pub(crate) fn is_ready(&self, id: NodeId) -> bool {
        self.standing(id).is_some_and(|standing| standing.readiness.ready)
    }
}
