//! One look at the cluster on behalf of one pod: which nodes take it.
//!
//! `run_filters` is the rule; `verdict` gives the same answer from what is remembered.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::cards::{Card, Cards, ShapeCards};
use super::ids::{NodeId, PodId};
use super::node::{Load, NodeSpec};
use super::nominations::Nominations;
use super::plan::Plan;
use super::plugin::Plugin;
use super::plugins::volume_view::{VolumeHypothesis, VolumeNode, VolumePod};
use super::plugins::{
    dynamic_resources, inter_pod_affinity, node_affinity, node_declared_features, node_name, node_ports,
    node_unschedulable, node_volume_limits, pod_topology_spread, taint_toleration, volume_binding,
    volume_restrictions, volume_zone,
};
use super::pod::Pod;
use super::rules::Rules;
use super::settings::Version;
use super::storage::Reservation;
use super::verdict::{Code, Refusal};
use super::world::World;

/// The cluster as one pod sees it.
pub(super) struct Look<'a> {
    pub world: &'a World,
    pub rules: &'a Rules,
    pub nominations: &'a Nominations,
    pub pod: &'a Pod,
    pub pod_id: PodId,
    pub plan: &'a Plan,
    spread: pod_topology_spread::Ready<'a>,
    /// `None` if it has nothing to say of the pod.
    affinity: Option<inter_pod_affinity::Ready<'a>>,
    /// Filters beyond the node itself that have anything to say of this pod.
    active: SmallVec<[(u8, Plugin); 4]>,
    /// What the plugins for volumes found when they looked at the pod.
    volumes: VolumeStates,
}

/// What the plugins for volumes found when they looked at a pod; nothing if they have nothing to say of it.
#[derive(Default)]
struct VolumeStates {
    restrictions: Option<volume_restrictions::State>,
    limits: Option<node_volume_limits::State>,
    binding: Option<volume_binding::State>,
    zone: Option<volume_zone::State>,
}

/// What looking at the pod alone came to.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// Nodes besides these are not considered, by name, sorted.
    pub only: Option<Vec<Arc<str>>>,
    /// Who said so.
    pub narrowed_by: Vec<Plugin>,
}

/// A node as it would be if pods came to it and went from it.
#[derive(Clone)]
pub(super) struct Hypothesis {
    load: Load,
    spread: pod_topology_spread::Shift,
    affinity: inter_pod_affinity::Shift,
    with: Vec<PodId>,
    without: Vec<PodId>,
    /// Those that were promised the node, whatever comes and goes.
    promised: SmallVec<[PodId; 2]>,
}

impl<'a> Look<'a> {
    pub(super) fn new(
        world: &'a World,
        rules: &'a Rules,
        nominations: &'a Nominations,
        pod_id: PodId,
        plan: &'a Plan,
    ) -> Look<'a> {
        Look {
            spread: plan.hard.ready(world),
            affinity: plan.affinity.ready(world),
            active: SmallVec::new(),
            volumes: VolumeStates::default(),
            pod: world.pod(pod_id),
            world,
            rules,
            nominations,
            pod_id,
            plan,
        }
    }

    /// Looks at the pod alone. Comes before all else.
    pub(super) fn pre_filter(&mut self) -> Result<Before, Refusal> {
        if let Some(trouble) = &self.pod.trouble {
            return Err(Refusal::unresolvable(
                Plugin::Unreadable,
                format!("the pod cannot be understood: {trouble}"),
            ));
        }
        if self.pod.shape.spread.is_empty()
            && let Some(trouble) = self
                .world
                .relations
                .trouble_with_spreading(&self.pod.name.namespace, self.pod.controller.as_ref())
        {
            let reason = format!("what the pod is spread by cannot be understood: {trouble}");
            return Err(Refusal::unresolvable(Plugin::Unreadable, reason));
        }
        // Whether the profile has the plugin or not: a pod is never placed as if it wanted no devices.
        dynamic_resources::pre_filter(&self.pod.shape)?;
        let mut before = Before::default();
        let mut refused = None;
        for plugin in &self.rules.profile.pre_filter {
            match self.pre_filter_by(*plugin) {
                Ok(None) => {}
                Ok(Some(names)) => {
                    before.narrowed_by.push(*plugin);
                    before.only = Some(match before.only.take() {
                        None => names,
                        Some(old) => {
                            old.into_iter().filter(|name| names.binary_search(name).is_ok()).collect()
                        }
                    });
                    if before.only.as_ref().is_some_and(Vec::is_empty) {
                        return Err(no_node_for(*plugin, &before.narrowed_by));
                    }
                }
                Err(refusal) if refusal.code == Code::Unschedulable => refused = Some(refusal),
                Err(refusal) => return Err(refusal),
            }
        }
        let says_something = |(_, plugin): &&(u8, Plugin)| match plugin {
            Plugin::PodTopologySpread => !self.plan.hard.is_empty(),
            Plugin::InterPodAffinity => self.affinity.is_some(),
            Plugin::DynamicResources => {
                self.rules.version >= Version::V1_36 && !self.pod.shape.requests.scalars.is_empty()
            }
            Plugin::VolumeRestrictions => self.volumes.restrictions.is_some(),
            Plugin::NodeVolumeLimits => self.volumes.limits.is_some(),
            Plugin::VolumeBinding => self.volumes.binding.is_some(),
            Plugin::VolumeZone => self.volumes.zone.is_some(),
            // What these say of a node is on its card, or nothing.
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
            | Plugin::Unreadable => false,
        };
        let could_not_prepare =
            |(_, plugin): &&(u8, Plugin)| self.rules.unprepared.iter().any(|(other, _)| other == plugin);
        let beyond = self.rules.beyond.iter();
        self.active = beyond.filter(|one| says_something(one) || could_not_prepare(one)).copied().collect();
        refused.map_or(Ok(before), Err)
    }

    /// What one plugin says of the pod alone: the only nodes to consider, or no.
    fn pre_filter_by(&mut self, plugin: Plugin) -> Result<Option<Vec<Arc<str>>>, Refusal> {
        let storage = &self.world.storage;
        let namespace = &self.pod.name.namespace;
        let pod = self.pod.volumes.as_ref().map(|volumes| VolumePod { namespace, volumes });
        match (plugin, pod) {
            (Plugin::NodeAffinity, _) => return node_affinity::pre_filter(&self.pod.shape),
            (Plugin::VolumeRestrictions, Some(pod)) => {
                self.volumes.restrictions = volume_restrictions::pre_filter(pod, storage)?
            }
            (Plugin::NodeVolumeLimits, Some(pod)) => {
                self.volumes.limits = node_volume_limits::pre_filter(pod, storage)
            }
            (Plugin::VolumeBinding, Some(pod)) => {
                self.volumes.binding = volume_binding::pre_filter(pod, storage)?
            }
            (Plugin::VolumeZone, Some(pod)) => self.volumes.zone = volume_zone::pre_filter(pod, storage)?,
            // A pod without volumes is nothing to these.
            (
                Plugin::VolumeRestrictions
                | Plugin::NodeVolumeLimits
                | Plugin::VolumeBinding
                | Plugin::VolumeZone,
                None,
            ) => {}
            // What these prepare is in the plan, in the shape, or nothing.
            (
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
                | Plugin::Unreadable,
                _,
            ) => {}
        }
        Ok(None)
    }

    /// Which volumes the pod's claims get if it goes to a node; `None` if it has none that wait.
    pub(super) fn reserve(&self, node: NodeId) -> Result<Option<Reservation>, Refusal> {
        match &self.volumes.binding {
            Some(state) if self.rules.profile.reserve.contains(&Plugin::VolumeBinding) => {
                volume_binding::reserve(state, &self.volume_node(node), &self.world.storage).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether a node takes the pod, with and without the pods that were promised it.
    pub(super) fn verdict(
        &self,
        node: NodeId,
        cards: &mut Option<&mut ShapeCards>,
        refusals: &mut Cards,
    ) -> Option<u32> {
        if self.nominations.any() {
            let promised = self.promised(node);
            if !promised.is_empty() {
                let mut hypothesis = self.as_is(node);
                promised.iter().for_each(|pod| self.add(&mut hypothesis, *pod, node));
                if let Err(refusal) = self.run_filters(node, Some(&hypothesis)) {
                    return Some(refusals.id(refusal));
                }
            }
        }
        let Some(cards) = cards else {
            return self.run_filters(node, None).err().map(|refusal| refusals.id(refusal));
        };
        let card = self.card(cards, node, refusals);
        let all_prepared = self.rules.unprepared.is_empty();
        for &(place, plugin) in &self.active {
            if place >= card.stopped_at {
                break;
            }
            let usual = match (plugin, &self.affinity) {
                (Plugin::PodTopologySpread, _) if all_prepared => self.spread.filter(node),
                (Plugin::InterPodAffinity, Some(affinity)) if all_prepared => affinity.filter(node),
                _ => match self.run_filter(plugin, node, None) {
                    Ok(()) => Ok(()),
                    Err(refusal) => return Some(refusals.id(refusal)),
                },
            };
            if let Err(usual) = usual {
                return Some(refusals.usual(usual));
            }
        }
        card.refused()
    }

    /// What a node alone means to pods of this shape, worked out anew if the node has changed.
    #[inline]
    pub(super) fn card<'c>(&self, cards: &'c mut ShapeCards, node: NodeId, refusals: &mut Cards) -> &'c Card {
        let generation = self.world.nodes.generation(node);
        if !cards.is_current(node, generation) {
            cards.put(node, self.world.nodes.end(), self.new_card(node, generation, refusals));
        }
        cards.get(node)
    }

    #[cold]
    fn new_card(&self, node: NodeId, generation: u64, refusals: &mut Cards) -> Card {
        let (shape, spec, load) = (&*self.pod.shape, self.node(node), self.world.nodes.load_of(node));
        let mut card = Card {
            generation,
            stopped_at: u8::MAX,
            refusal: 0,
            taints: 0,
            affinity: 0,
            fit: 0,
            balance: 0,
            has_images: !self.world.nodes.images(node).is_empty(),
        };
        let mut refused = self.readable(node).err().map(|refusal| (0, refusal));
        for &(place, plugin) in &self.rules.local {
            if refused.is_some() {
                break;
            }
            refused = self.run_filter(plugin, node, None).err().map(|refusal| (place, refusal));
        }
        if let Some((place, refusal)) = refused {
            (card.stopped_at, card.refusal) = (place, refusals.id(refusal));
            return card;
        }
        card.taints = taint_toleration::score(shape, spec);
        card.affinity = node_affinity::score(shape, &self.rules.profile.added_affinity, spec);
        card.fit = self.rules.fit.score(shape, spec, load);
        card.balance = self.rules.balance.score(shape, spec, load);
        card
    }

    /// The same for a node as it would be.
    pub(super) fn verdict_if(&self, node: NodeId, hypothesis: &Hypothesis) -> Result<(), Refusal> {
        self.readable(node)?;
        self.ask_if(node, hypothesis, &self.rules.profile.filter)
    }

    /// The same for a node that takes the pod with some other pods gone: asks only those who look at pods.
    pub(super) fn verdict_still(&self, node: NodeId, hypothesis: &Hypothesis) -> Result<(), Refusal> {
        self.ask_if(node, hypothesis, &self.rules.about_pods)
    }

    fn ask_if(&self, node: NodeId, hypothesis: &Hypothesis, filters: &[Plugin]) -> Result<(), Refusal> {
        let ask = |hypothesis: &Hypothesis| {
            filters.iter().try_for_each(|plugin| self.run_filter(*plugin, node, Some(hypothesis)))
        };
        if !hypothesis.promised.is_empty() {
            let mut with = hypothesis.clone();
            hypothesis.promised.iter().for_each(|pod| self.add(&mut with, *pod, node));
            ask(&with)?;
        }
        ask(hypothesis)
    }

    /// All filters in their order; the first refusal counts.
    fn run_filters(&self, node: NodeId, hypothesis: Option<&Hypothesis>) -> Result<(), Refusal> {
        self.readable(node)?;
        self.rules.profile.filter.iter().try_for_each(|plugin| self.run_filter(*plugin, node, hypothesis))
    }

    /// Whether the node, and all pods on it, could be understood.
    pub(super) fn readable(&self, node: NodeId) -> Result<(), Refusal> {
        let (spec, load) = (self.node(node), self.world.nodes.load_of(node));
        if let Some(trouble) = &spec.trouble {
            let reason = format!("node(s) could not be understood: {trouble}");
            return Err(Refusal::unresolvable(Plugin::Unreadable, reason));
        }
        if let Some(pod) = load.unreadable.first().map(|pod| self.world.pod(*pod)) {
            let trouble = pod.trouble.as_deref().unwrap_or_default();
            let name = &pod.name;
            let reason = format!(
                "node(s) had a pod that could not be understood: {}/{}: {trouble}",
                name.namespace, name.name
            );
            return Err(Refusal::unresolvable(Plugin::Unreadable, reason));
        }
        Ok(())
    }

    /// One filter's answer.
    pub(super) fn run_filter(
        &self,
        plugin: Plugin,
        node: NodeId,
        hypothesis: Option<&Hypothesis>,
    ) -> Result<(), Refusal> {
        let (pod, shape, spec) = (self.pod, &*self.pod.shape, self.node(node));
        let load = hypothesis.map_or_else(|| self.world.nodes.load_of(node), |hypothesis| &hypothesis.load);
        let World { scalars, relations, storage, .. } = self.world;
        if let Some((_, error)) = self.rules.unprepared.iter().find(|(other, _)| *other == plugin) {
            return Err(Refusal { plugin, code: Code::Error, reasons: smallvec![error.clone().into()] });
        }
        match plugin {
            Plugin::NodeUnschedulable => node_unschedulable::filter(shape, spec),
            Plugin::NodeName => node_name::filter(pod, spec),
            Plugin::TaintToleration => taint_toleration::filter(shape, spec, self.rules.version),
            Plugin::NodeAffinity => node_affinity::filter(shape, &self.rules.profile.added_affinity, spec),
            Plugin::NodePorts => node_ports::filter(shape, load),
            Plugin::NodeResourcesFit => self.rules.fit.filter(shape, spec, load, scalars, relations),
            Plugin::PodTopologySpread => {
                let answer = match hypothesis {
                    None => self.spread.filter(node),
                    Some(hypothesis) => self.plan.hard.filter_shifted(&hypothesis.spread, self.world, node),
                };
                answer.map_err(Refusal::from)
            }
            Plugin::InterPodAffinity => {
                let answer = match hypothesis {
                    None => self.affinity.as_ref().map_or(Ok(()), |affinity| affinity.filter(node)),
                    // What is not there to begin with is not looked for later either.
                    Some(_) if self.plan.affinity.is_skipped(self.world) => Ok(()),
                    Some(hypothesis) => {
                        self.plan.affinity.filter_shifted(&hypothesis.affinity, self.world, node)
                    }
                };
                answer.map_err(Refusal::from)
            }
            Plugin::DynamicResources if self.rules.version < Version::V1_36 => Ok(()),
            Plugin::DynamicResources => dynamic_resources::filter(shape, spec, scalars, relations),
            Plugin::VolumeRestrictions => self.volumes.restrictions.as_ref().map_or(Ok(()), |state| {
                self.with_volumes(hypothesis, |changed| {
                    volume_restrictions::filter(state, &self.volume_node(node), changed, storage)
                })
            }),
            Plugin::NodeVolumeLimits => self.volumes.limits.as_ref().map_or(Ok(()), |state| {
                self.with_volumes(hypothesis, |changed| {
                    node_volume_limits::filter(state, &self.volume_node(node), changed, storage)
                })
            }),
            Plugin::VolumeBinding => {
                let state = self.volumes.binding.as_ref();
                state.map_or(Ok(()), |state| volume_binding::filter(state, &self.volume_node(node), storage))
            }
            Plugin::VolumeZone => {
                let state = self.volumes.zone.as_ref();
                state.map_or(Ok(()), |state| volume_zone::filter(state, &self.volume_node(node)))
            }
            Plugin::NodeDeclaredFeatures => node_declared_features::filter(shape, spec),
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

    /// A node as it is.
    pub(super) fn as_is(&self, node: NodeId) -> Hypothesis {
        Hypothesis {
            load: self.world.nodes.load_of(node).clone(),
            spread: self.plan.hard.still(),
            affinity: self.plan.affinity.still(),
            with: Vec::new(),
            without: Vec::new(),
            promised: self.promised(node),
        }
    }

    /// A pod comes to the node.
    pub(super) fn add(&self, hypothesis: &mut Hypothesis, id: PodId, node: NodeId) {
        let pod = self.world.pod(id);
        hypothesis.load.add(id, pod);
        self.plan.hard.shift(&mut hypothesis.spread, self.world, pod, node, 1);
        self.plan.affinity.shift(&mut hypothesis.affinity, self.world, self.pod, pod, node, 1);
        match hypothesis.without.iter().position(|other| *other == id) {
            Some(place) => drop(hypothesis.without.remove(place)),
            None => hypothesis.with.push(id),
        }
    }

    /// A pod goes from the node.
    pub(super) fn remove(&self, hypothesis: &mut Hypothesis, id: PodId, node: NodeId) {
        let pod = self.world.pod(id);
        hypothesis.load.remove(id, pod);
        self.plan.hard.shift(&mut hypothesis.spread, self.world, pod, node, -1);
        self.plan.affinity.shift(&mut hypothesis.affinity, self.world, self.pod, pod, node, -1);
        hypothesis.without.push(id);
    }

    fn volume_node(&self, node: NodeId) -> VolumeNode<'a> {
        let spec = self.node(node);
        VolumeNode { name: &spec.name, labels: &spec.labels }
    }

    /// Asks with the pods that come and go as plugins for volumes see them.
    fn with_volumes<T>(
        &self,
        hypothesis: Option<&Hypothesis>,
        ask: impl FnOnce(&VolumeHypothesis<'_>) -> T,
    ) -> T {
        let Some(hypothesis) = hypothesis else { return ask(&VolumeHypothesis::default()) };
        let volumes = |pod: &PodId| {
            let pod = self.world.pod(*pod);
            Some(VolumePod { namespace: &pod.name.namespace, volumes: pod.volumes.as_ref()? })
        };
        let with: Vec<VolumePod<'_>> = hypothesis.with.iter().filter_map(volumes).collect();
        ask(&VolumeHypothesis { without: &hypothesis.without, with: &with })
    }

    pub(super) fn node(&self, node: NodeId) -> &'a NodeSpec {
        self.world.nodes.spec(node)
    }

    /// Other pods that were promised the node and are as important as this one.
    fn promised(&self, node: NodeId) -> SmallVec<[PodId; 2]> {
        if !self.nominations.any() {
            return SmallVec::new();
        }
        let promised = self.nominations.on(self.world.nodes.name(node)).iter().copied();
        promised
            .filter(|id| *id != self.pod_id && self.world.pod(*id).priority() >= self.pod.priority())
            .collect()
    }
}

fn no_node_for(last: Plugin, narrowed_by: &[Plugin]) -> Refusal {
    let mut names: Vec<&str> = narrowed_by.iter().map(|plugin| plugin.name()).collect();
    names.sort_unstable();
    let reason = match &names[..] {
        [name] => format!("node(s) didn't satisfy plugin {name}"),
        names => format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", names.join(" ")),
    };
    Refusal::unresolvable(last, reason)
}
