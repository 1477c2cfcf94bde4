//! A test harness for the parts of a loop: shared state, a fake cloud provider, and the events and actions so far.

use std::sync::Arc;

use kubernetes::objects::NodeView;
use model::{Moment, NamespacedName, What};
use scheduler::ids::{NodeId, PodId};
use testobjects::NodeBuilder;

use super::AutoscalingContext;
use super::clock::LoopClock;
use super::cloud::{CloudProvider, CloudProviderError, GroupId, Instance, InstanceState};
use super::context::SharedState;
use super::decision::{Action, Event};
use super::groups::PodPricing;
use super::groups::{Membership, NodeGroup, Provisioning};
use super::node_eligibility::NodeEligibility;
use super::settings::Settings;

/// The shared state and a cloud provider, with the events and actions so far.
pub(crate) struct Harness {
    pub state: SharedState,
    pub cloud: FakeCloud,
    pub now: Moment,
    pub events: Vec<Event>,
    pub actions: Vec<Action>,
}

/// A cloud provider that carries out every request at once, except for groups that refuse. The `providerID` of a node
/// names its group: `fake://GROUP/NODE`.
#[derive(Default)]
pub(crate) struct FakeCloud {
    pub groups: Vec<NodeGroup>,
    pub targets: Vec<i64>,
    /// By group.
    pub instances: Vec<Vec<Arc<str>>>,
    /// All instances deleted so far.
    pub deleted: Vec<Arc<str>>,
    /// The groups whose size cannot be changed.
    pub refuses: Vec<&'static str>,
    pub pricing: Option<PodPricing>,
}

/// An empty group with default settings.
pub(crate) fn group(name: &str) -> NodeGroup {
    NodeGroup {
        name: name.into(),
        min: 0,
        max: 1000,
        target: None,
        members: Membership::Named(Default::default()),
        template: testobjects::node("template").object(),
        pods: Vec::new(),
        template_pods: Vec::new(),
        price: None,
        options: None,
        provisioning: Provisioning::default(),
        failures: Vec::new(),
    }
}

/// Events as `REASON: MESSAGE`.
pub(crate) fn messages(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| format!("{}: {}", event.reason, event.message)).collect()
}

// === impl Harness ===

impl Harness {
    /// A cluster without nodes, and a cloud provider without groups.
    pub(crate) fn new(settings: Settings, now: Moment) -> Harness {
        Harness {
            state: SharedState::new(settings, now),
            cloud: FakeCloud::default(),
            now,
            events: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Adds a group to the cloud provider.
    pub(crate) fn add_group(&mut self, group: NodeGroup, target: i64) {
        self.cloud.groups.push(group);
        self.cloud.targets.push(target);
        self.cloud.instances.push(Vec::new());
    }

    /// Adds a node to the cluster and to a group, whose target size increases by one.
    pub(crate) fn add_node(&mut self, group: &str, node: NodeBuilder) -> NodeId {
        let node = node.object();
        let name = node.meta().name.to_string();
        let id = format!("fake://{group}/{name}");
        if let Some(group) = self.cloud.group_by_name(group) {
            self.cloud.targets[group.index()] += 1;
            self.cloud.instances[group.index()].push(id.into());
        }
        self.apply(What::Added(node));
        self.state.cluster.snapshot.find_node(&name).expect("the node was just added")
    }

    /// Applies a change to the cluster.
    pub(crate) fn apply(&mut self, event: What) {
        self.state.cluster.apply(&event);
    }

    /// The pod with that name.
    #[track_caller]
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> PodId {
        let name = NamespacedName { namespace: namespace.into(), name: name.into() };
        self.state.cluster.find_pod(&name).expect("the test created the pod")
    }

    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now = self.now.plus_nanos(kubernetes::time::seconds(seconds));
    }

    /// Runs a part of a loop. All node entries are updated first, as a test may have changed settings or groups.
    pub(crate) fn with<R>(&mut self, run: impl FnOnce(&mut AutoscalingContext<'_>) -> R) -> R {
        self.update_node_eligibilities();
        let clock = LoopClock::at(self.now);
        run(&mut self.state.context(&clock, &mut self.cloud, &mut self.events, &mut self.actions))
    }

    /// Recomputes the templates of all groups.
    pub(crate) fn recompute_templates(&mut self) {
        self.update_node_eligibilities();
        self.state.recompute_templates(&LoopClock::at(self.now), &self.cloud);
    }

    fn update_node_eligibilities(&mut self) {
        let SharedState { settings, cluster, node_eligibilities: standings, .. } = &mut self.state;
        standings.clear();
        for id in cluster.nodes() {
            standings.set(id, Some(NodeEligibility::of(cluster.snapshot.node(id), settings, &self.cloud)));
        }
    }
}

// === impl FakeCloud ===

impl FakeCloud {
    fn group_by_name(&self, name: &str) -> Option<GroupId> {
        self.groups.iter().position(|group| &*group.name == name).map(|index| GroupId(index as u32))
    }

    fn is_refusing(&self, group: GroupId) -> bool {
        self.refuses.contains(&&*self.groups[group.index()].name)
    }
}

impl CloudProvider for FakeCloud {
    fn groups(&self) -> &[NodeGroup] {
        &self.groups
    }

    fn group_for_node(&self, node: &NodeView) -> Option<GroupId> {
        let (group, _) = node.provider_id.strip_prefix("fake://")?.split_once('/')?;
        self.group_by_name(group)
    }

    fn target_size(&self, group: GroupId) -> i64 {
        self.targets[group.index()]
    }

    fn instances(&self, group: GroupId) -> Arc<[Instance]> {
        let running = |id: &Arc<str>| Instance { id: id.clone(), state: InstanceState::Running };
        self.instances[group.index()].iter().map(running).collect()
    }

    fn has_instance(&self, _node: &NodeView) -> Option<bool> {
        None
    }

    fn increase_size(&mut self, _now: Moment, group: GroupId, by: i64) -> Result<(), CloudProviderError> {
        if self.is_refusing(group) {
            return Err(CloudProviderError(String::from("no")));
        }
        self.targets[group.index()] += by;
        Ok(())
    }

    fn delete_nodes(
        &mut self,
        _now: Moment,
        group: GroupId,
        instances: &[Arc<str>],
    ) -> Result<(), CloudProviderError> {
        if self.is_refusing(group) {
            return Err(CloudProviderError(String::from("not today")));
        }
        self.targets[group.index()] -= instances.len() as i64;
        self.instances[group.index()].retain(|id| !instances.contains(id));
        self.deleted.extend(instances.iter().cloned());
        Ok(())
    }

    fn decrease_target_size(
        &mut self,
        _now: Moment,
        group: GroupId,
        delta: i64,
    ) -> Result<(), CloudProviderError> {
        if self.is_refusing(group) {
            return Err(CloudProviderError(String::from("no less")));
        }
        self.targets[group.index()] -= delta;
        Ok(())
    }

    fn pricing(&self) -> Option<&PodPricing> {
        self.pricing.as_ref()
    }

    fn gpu_label(&self) -> &str {
        "gpu"
    }
}
