//! A cluster in which things are tried: nodes come and go, pods are put on them and taken off, and whoever asks is told
//! whether a pod passes the filters of a node. Nothing is scored, and nobody makes room for anybody.

use std::sync::Arc;

use kubernetes::amounts::{Amounts, ScalarNames};
use model::{Kind, Object};

use super::cards::Cards;
use super::ids::{NodeId, PodId};
use super::look::Look;
use super::node::{Load, NodeSpec};
use super::nominations::Nominations;
use super::plan::Plans;
use super::plugin::Plugin;
use super::pod::Pod;
use super::rules::Rules;
use super::settings::{Settings, SpreadDefaults};
use super::storage::StorageKind;
use super::verdict::{Code, Refusal};
use super::world::{RelationKind, World};

/// A cluster in which things are tried, by the rules of one profile.
#[derive(Debug)]
pub struct Trial {
    rules: Rules,
    world: World,
    plans: Plans,
    cards: Cards,
    /// Promises do not count here.
    nobody: Nominations,
}

/// Why a node does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// In the plugin's words; none if the pod alone said that it wants other nodes.
    pub reasons: Vec<String>,
}

impl Trial {
    /// A cluster without nodes and pods, where the first profile's rules hold.
    pub fn new(settings: &Settings) -> Trial {
        let mut world = World::default();
        let rules = Rules::new(settings, &settings.profiles[0], &mut world.scalars);
        Trial {
            rules,
            world,
            plans: Plans::default(),
            cards: Cards::default(),
            nobody: Nominations::default(),
        }
    }

    /// An object other than a node or a pod came, changed or went. Says whether it is of a kind that means something to
    /// filters.
    pub fn apply(&mut self, group: &str, kind: &str, object: &Object, present: bool) -> bool {
        let storage = StorageKind::of(&Kind::new(group, kind));
        let relation = RelationKind::of(group, kind);
        if let Some(kind) = storage {
            let meta = object.meta();
            if present {
                // What cannot be understood is remembered as such: a pod that needs it is told.
                let _ = self.world.storage.apply(kind, object);
            } else {
                self.world.storage.remove(kind, &Arc::from(&*meta.namespace), &Arc::from(&*meta.name));
            }
        }
        if let Some(kind) = relation
            && self.world.relations.apply(kind, object, present)
        {
            self.world.plans_are_void();
            if kind == RelationKind::DeviceClass {
                self.cards.forget();
            }
        }
        storage.is_some() || relation.is_some()
    }

    /// Names of resources, which objects are read with.
    pub fn scalars(&mut self) -> &mut ScalarNames {
        &mut self.world.scalars
    }

    /// A node came, or changed.
    pub fn set_node(&mut self, spec: NodeSpec) -> NodeId {
        self.world.set_node(spec)
    }

    /// A node is gone. Pods on it stay there, unseen, until they go or it comes back.
    pub fn remove_node(&mut self, id: NodeId) {
        let name = self.world.nodes.name(id).clone();
        self.world.remove_node(&name);
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.world.nodes.by_name(name)
    }

    /// What the object of a node says.
    pub fn spec(&self, id: NodeId) -> &NodeSpec {
        self.world.nodes.spec(id)
    }

    /// What is on a node.
    pub fn load(&self, id: NodeId) -> &Load {
        self.world.nodes.load_of(id)
    }

    /// What the pods on a node ask for.
    pub fn requested(&self, id: NodeId) -> &Amounts {
        &self.load(id).requested
    }

    /// Changes with the node and with the pods on it.
    pub fn generation(&self, id: NodeId) -> u64 {
        self.world.nodes.generation(id)
    }

    /// Nodes whose generation changed since this was last asked, be it that they have their old one again.
    pub fn take_touched(&mut self) -> Vec<NodeId> {
        self.world.nodes.take_touched()
    }

    /// What was done to a node since was taken back: whatever is remembered of it holds again.
    pub fn restore_generation(&mut self, id: NodeId, generation: u64) {
        self.world.nodes.set_generation(id, generation);
    }

    /// A pod is known from now on, and on no node.
    pub fn add_pod(&mut self, mut pod: Pod) -> PodId {
        pod.node_name = None;
        self.world.add_pod(pod)
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, id: PodId) {
        self.world.remove_pod(id);
    }

    /// The pod of that name.
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<PodId> {
        self.world.find(namespace, name)
    }

    /// A pod that is there.
    pub fn pod(&self, id: PodId) -> &Pod {
        self.world.pod(id)
    }

    /// The node a pod is on; it may be gone.
    pub fn node_of(&self, id: PodId) -> Option<NodeId> {
        self.world.node_of(id)
    }

    /// Puts a pod on a node.
    pub fn place(&mut self, pod: PodId, node: NodeId) {
        self.world.assume(pod, node);
    }

    /// Puts a pod on the node of that name, which may not be there.
    pub fn place_by_name(&mut self, pod: PodId, node: &Arc<str>) {
        let node = self.world.nodes.by_name_or_ghost(node);
        self.world.assume(pod, node);
    }

    /// Takes a pod off its node.
    pub fn take_off(&mut self, pod: PodId) {
        self.world.forget(pod);
    }

    /// Whether a pod passes the filters of a node.
    pub fn check(&mut self, pod: PodId, node: NodeId) -> Result<(), Refused> {
        self.ask(pod, std::iter::once(node), |_| true).map(drop).map_err(Refused::from)
    }

    /// The first of the nodes whose filters a pod passes, of those that are acceptable.
    pub fn first(
        &mut self,
        pod: PodId,
        nodes: impl Iterator<Item = NodeId>,
        acceptable: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        self.ask(pod, nodes, acceptable).ok()
    }

    /// Whether it matters to a pod that one node takes which taints another has: pods on nodes that it does not tolerate
    /// may not count for how it is spread.
    pub fn minds_taints_elsewhere(&self, id: PodId) -> bool {
        let own = &self.world.pod(id).shape.spread;
        match &self.rules.profile.spread {
            _ if !own.is_empty() => own.iter().any(|it| it.hard == Some(true) && it.honor_taints),
            SpreadDefaults::List(list) => list.iter().any(|it| it.hard && it.honor_taints),
            SpreadDefaults::System => false,
        }
    }

    /// Whether nothing matters to a pod but a node's own words and how much it has left: no other pod's place, no port
    /// and no volume.
    pub fn is_local(&mut self, id: PodId) -> bool {
        let plan = self.plans.plan(&mut self.world, &self.rules, id);
        let (rules, world, pod) = (&self.rules, &self.world, self.world.pod(id));
        let is_counted = |&(scalar, _): &(_, i64)| {
            let name = world.scalars.name(scalar);
            !rules.fit.ignores(name) && !world.relations.is_device(name)
        };
        rules.unprepared.is_empty()
            && rules.profile.filter.contains(&Plugin::NodeResourcesFit)
            && plan.hard.is_empty()
            && plan.affinity.is_skipped(world)
            && pod.volumes.is_none()
            && pod.shape.ports.is_empty()
            && pod.shape.requests.scalars.iter().all(is_counted)
    }

    /// The first node that takes the pod, or what the last one says that does not; nothing, if the pod alone wants none
    /// of them.
    fn ask(
        &mut self,
        pod: PodId,
        nodes: impl Iterator<Item = NodeId>,
        acceptable: impl Fn(NodeId) -> bool,
    ) -> Result<NodeId, Option<Refusal>> {
        self.cards.tidy();
        let plan = self.plans.plan(&mut self.world, &self.rules, pod);
        let mut look = Look::new(&self.world, &self.rules, &self.nobody, pod, &plan);
        let before = look.pre_filter().map_err(Some)?;
        let (shape_id, shape) = self.world.local_shape(pod);
        let mut kept = before.only.is_none().then(|| self.cards.take(shape_id, shape));
        let mut answer = Err(None);
        for node in nodes {
            let name = self.world.nodes.name(node);
            if before.only.as_ref().is_some_and(|names| names.binary_search(name).is_err()) {
                continue;
            }
            match look.verdict(node, &mut kept.as_mut(), &mut self.cards) {
                // Few nodes come as far as that, so that it is asked last.
                None if !acceptable(node) => {}
                None => {
                    answer = Ok(node);
                    break;
                }
                Some(refusal) => answer = Err(Some(refusal)),
            }
        }
        drop(look);
        if let Some(kept) = kept {
            self.cards.put_back(shape_id, kept);
        }
        answer.map_err(|refusal| refusal.map(|refusal| self.cards.refusal(refusal).clone()))
    }
}

// === impl Refused ===

impl From<Option<Refusal>> for Refused {
    fn from(refusal: Option<Refusal>) -> Refused {
        let Some(refusal) = refusal else { return Refused { reasons: Vec::new() } };
        match refusal.code {
            Code::Error => Refused { reasons: vec![refusal.message()] },
            _ => Refused { reasons: refusal.reasons.iter().map(|reason| reason.to_string()).collect() },
        }
    }
}
