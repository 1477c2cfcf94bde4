//! A pod as the scheduler sees it.

mod json;

use std::sync::Arc;

use kubernetes::amounts::{Amounts, ScalarNames};
use kubernetes::labels::Labels;
use kubernetes::selector::{NodeTerm, RequiredNodeAffinity, Selector};
use kubernetes::taints::Toleration;
use model::{NamespacedName, Object};

use super::storage::PodVolumes;

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its name.
    pub name: NamespacedName,
    /// Its uid.
    pub uid: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// All that it shares with other pods of its kind.
    pub shape: Arc<Shape>,
    /// Its volumes, if any matter to where it can run.
    pub volumes: Option<Arc<PodVolumes>>,
    /// What it takes of the node it is on.
    pub usage: Usage,
    /// The node it is bound to.
    pub node_name: Option<Arc<str>>,
    /// The node it was promised.
    pub nominated_node: Option<Arc<str>>,
    /// The same as its object says, which may not know yet.
    pub said_nominated: Option<Arc<str>>,
    /// The gates that keep it out of the queue.
    pub gates: Vec<Arc<str>>,
    /// Its controller, if that is of a kind whose selector counts when pods are spread.
    pub controller: Option<Controller>,
    /// It is being deleted.
    pub terminating: bool,
    /// It is being deleted to make room.
    pub preempted: bool,
    /// It has run to its end.
    pub finished: bool,
    /// In nanoseconds since 1970; `None` until it starts.
    pub started: Option<i64>,
    /// What of the object could not be understood. Such a pod is not placed.
    pub trouble: Option<Arc<str>>,
}

/// What pods of one template have in common, as far as a node's verdict and scores go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// The scheduler that is to place it.
    pub scheduler_name: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// It pushes nobody aside.
    pub never_preempts: bool,
    /// What a node must have left.
    pub requests: Amounts,
    /// What nodes are scored by how much is left: something even for those who ask for nothing.
    pub scored_requests: Amounts,
    /// What nodes are scored by how evenly they are used.
    pub balanced_requests: Amounts,
    /// The taints that it ignores.
    pub tolerations: Vec<Toleration>,
    /// `nodeSelector` and required node affinity.
    pub required_nodes: RequiredNodeAffinity,
    /// Whether it prefers any nodes; its preferences may all count for nothing.
    pub prefers_nodes: bool,
    /// By weight.
    pub preferred_nodes: Vec<(i64, NodeTerm)>,
    /// Ports of the node that it takes.
    pub ports: Vec<HostPort>,
    /// Of containers, init containers and image volumes, with a tag.
    pub images: Vec<Arc<str>>,
    /// Without the image volumes.
    pub containers: usize,
    /// Pods that must be near.
    pub required_affinity: Vec<Term>,
    /// Pods that must be far.
    pub required_anti_affinity: Vec<Term>,
    /// By weight; one that repels has a negative one.
    pub preferred_affinity: Vec<(i64, Term)>,
    /// How it is to be spread.
    pub spread: Vec<SpreadConstraint>,
    /// What the kubelet must be able to do.
    pub features: Vec<&'static str>,
    /// It wants devices by claims.
    pub has_claims: bool,
}

/// A port of the node itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `0.0.0.0` for all addresses.
    pub ip: Arc<str>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// The number.
    pub port: i32,
}

/// Pods to be near to, or far from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// Sorted.
    pub namespaces: Vec<Arc<str>>,
    /// Further namespaces, by their labels.
    pub namespace_selector: Selector,
    /// Which pods.
    pub selector: Selector,
    /// Near is: the same value of this label of the node.
    pub key: Arc<str>,
}

/// How pods are to be spread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// How many more pods one place may have than another.
    pub max_skew: i32,
    /// The label of nodes that tells places apart.
    pub key: Arc<str>,
    /// `None` for a word that Kubernetes does not know.
    pub hard: Option<bool>,
    /// Which pods.
    pub selector: Selector,
    /// Labels of the pod itself that others must have too.
    pub match_label_keys: Vec<Arc<str>>,
    /// With fewer places than this, the emptiest counts as empty.
    pub min_domains: i32,
    /// Only nodes that the pod selects count.
    pub honor_affinity: bool,
    /// Only nodes whose taints it tolerates count.
    pub honor_taints: bool,
}

/// What a pod takes of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What it asks for.
    pub requested: Amounts,
    /// CPU as scores count it: something even for those who ask for nothing.
    pub scored_cpu: i64,
    /// Memory as scores count it.
    pub scored_memory: i64,
}

/// What manages a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Controller {
    /// Its kind.
    pub kind: ControllerKind,
    /// Its name.
    pub name: Arc<str>,
}

/// The kinds whose selectors count when pods are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ControllerKind {
    /// A ReplicationController.
    ReplicationController,
    /// A ReplicaSet.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
}

// === impl Pod ===

impl Pod {
    /// What an object says of a pod. What makes no sense is told in `trouble`, and the rest left empty.
    pub fn read(object: &Object, scalars: &mut ScalarNames) -> Pod {
        json::read(object, scalars).unwrap_or_else(|trouble| {
            let meta = object.meta();
            let namespace: Arc<str> = meta.namespace.as_ref().into();
            let bare = json::bare(object);
            Pod {
                name: NamespacedName { namespace: namespace.clone(), name: meta.name.as_ref().into() },
                uid: meta.uid.as_deref().unwrap_or_default().into(),
                labels: bare.labels,
                shape: Arc::new(Shape { namespace, scheduler_name: bare.scheduler_name, ..Shape::default() }),
                volumes: None,
                usage: Usage::default(),
                node_name: bare.node_name,
                nominated_node: None,
                said_nominated: None,
                gates: Vec::new(),
                controller: None,
                terminating: bare.terminating,
                preempted: false,
                finished: bare.finished,
                started: None,
                trouble: Some(trouble.into()),
            }
        })
    }

    /// Whether it takes something of a node: it is there, or was promised it.
    pub(crate) fn is_held(&self) -> bool {
        self.node_name.is_some() || self.nominated_node.is_some()
    }

    pub(crate) fn priority(&self) -> i32 {
        self.shape.priority
    }
}

// === impl Shape ===

impl Shape {
    /// Whether it wants to be near to other pods, or far from them.
    pub fn has_affinity(&self) -> bool {
        !(self.required_affinity.is_empty()
            && self.required_anti_affinity.is_empty()
            && self.preferred_affinity.is_empty())
    }

    /// As much of it as a node by itself and what is on it are asked about: the images, for one, are of no account, so
    /// that far fewer are different.
    pub(crate) fn local(&self) -> Shape {
        Shape {
            scheduler_name: self.scheduler_name.clone(),
            requests: self.requests.clone(),
            scored_requests: self.scored_requests.clone(),
            balanced_requests: self.balanced_requests.clone(),
            tolerations: self.tolerations.clone(),
            required_nodes: self.required_nodes.clone(),
            preferred_nodes: self.preferred_nodes.clone(),
            ports: self.ports.clone(),
            features: self.features.clone(),
            ..Shape::default()
        }
    }
}

// === impl Term ===

impl Term {
    /// Whether it means a pod of that namespace, which has those labels itself.
    pub(crate) fn matches(&self, namespace: &str, labels: &Labels, namespace_labels: &Labels) -> bool {
        self.means(namespace, namespace_labels) && self.selector.matches(|key| labels.get(key))
    }

    /// Whether it means pods of that namespace.
    pub(crate) fn means(&self, namespace: &str, namespace_labels: &Labels) -> bool {
        self.namespaces.iter().any(|other| **other == *namespace)
            || self.namespace_selector.matches(|key| namespace_labels.get(key))
    }
}

// === impl HostPort ===

impl HostPort {
    pub(crate) const EVERYWHERE: &str = "0.0.0.0";

    /// Whether both cannot be had on one node.
    pub(crate) fn conflicts(&self, other: &HostPort) -> bool {
        let everywhere = |port: &HostPort| *port.ip == *HostPort::EVERYWHERE;
        self.port == other.port
            && self.protocol == other.protocol
            && (everywhere(self) || everywhere(other) || self.ip == other.ip)
    }
}
