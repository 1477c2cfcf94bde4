//! The cluster as the autoscaler's informers tell it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::amounts::Resource;
use kubernetes::labels::Labels;
use kubernetes::read::{nullable, view};
use kubernetes::selector::{LabelSelector, Selector};
use model::{Meta, Moment, NamespacedName, Object, What};
use rustc_hash::FxHashMap;
use scheduler::ids::{NodeId, PodId};
use serde::Deserialize;

use super::cloud::{Cloud, GroupId, Registered};
use super::gpu_names;
use super::node::Node;
use super::pod::{Pod, PodStatusUpdate};
use super::settings::Settings;
use super::snapshot::Snapshot;

/// The kinds that an autoscaler's decisions depend on besides those that a scheduler's do, by group and kind.
pub const KINDS: &[(&str, &str)] = &[("apps", "DaemonSet"), ("batch", "Job"), ("", "ConfigMap")];

/// The ConfigMap that tells the expander `priority` what it prefers.
pub(crate) const PRIORITIES: &str = "cluster-autoscaler-priority-expander";

/// All that is known of the cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub snapshot: Snapshot,
    /// By name: the order in which nodes are listed.
    nodes: BTreeMap<Arc<str>, NodeId>,
    /// The same again; none if nodes came or went since.
    order: Option<Vec<NodeId>>,
    /// How often a node came, went, or became another instance.
    revision: u64,
    /// Nodes that changed since this was last asked.
    changed: Vec<NodeId>,
    /// What the cloud calls the nodes, each as often as it is said.
    instances: FxHashMap<Arc<str>, usize>,
    /// Pods on no node, by age and then by name: the order in which pods are listed.
    waiting: BTreeSet<(Moment, NamespacedName, PodId)>,
    pub daemon_sets: BTreeMap<NamespacedName, Arc<DaemonSet>>,
    controllers: BTreeMap<(ControllerKind, NamespacedName), Controller>,
    budgets: BTreeMap<NamespacedName, Arc<Budget>>,
    config_maps: BTreeMap<NamespacedName, Arc<BTreeMap<String, String>>>,
    expendable_below: i64,
    allowed_schedulers: Vec<Arc<str>>,
    nominated_count: bool,
    /// The resources that are GPUs.
    gpus: Vec<Resource>,
}

/// What came of telling of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// A loop may come to something else for it.
    pub is_news: bool,
    /// Since when no node takes it, if it is such a pod.
    pub unschedulable_since: Option<Moment>,
}

/// What makes pods for every node.
#[derive(Clone, Debug)]
pub(crate) struct DaemonSet {
    pub name: NamespacedName,
    pub uid: Arc<str>,
    /// The object, whose template pods are made of.
    pub object: Object,
}

/// The kinds of controllers that are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ControllerKind {
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    Job,
    DaemonSet,
}

/// What keeps pods running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    /// How many it is to have; `None` if it does not say.
    pub replicas: Option<i64>,
}

/// How many pods may go at once.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub name: NamespacedName,
    pub selector: Option<Selector>,
    /// As its status says.
    pub allowed: i64,
}

#[derive(Deserialize)]
struct ControllerJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: ControllerSpecJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ControllerSpecJson {
    replicas: Option<i64>,
    parallelism: Option<i64>,
}

#[derive(Deserialize)]
struct BudgetJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: BudgetSpecJson,
    #[serde(default, deserialize_with = "nullable")]
    status: BudgetStatusJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BudgetSpecJson {
    selector: Option<LabelSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BudgetStatusJson {
    #[serde(deserialize_with = "nullable")]
    disruptions_allowed: i64,
}

#[derive(Deserialize)]
struct ConfigMapJson {
    #[serde(default, deserialize_with = "nullable")]
    data: BTreeMap<String, String>,
}

impl Cluster {
    pub(crate) fn new(settings: &Settings) -> Cluster {
        let mut snapshot = Snapshot::new(&settings.scheduler);
        let gpus = gpu_names::RESOURCES.iter().map(|name| snapshot.trial.scalars().resource(name)).collect();
        Cluster {
            snapshot,
            gpus,
            nodes: BTreeMap::new(),
            order: None,
            revision: 0,
            changed: Vec::new(),
            instances: FxHashMap::default(),
            waiting: BTreeSet::new(),
            daemon_sets: BTreeMap::new(),
            controllers: BTreeMap::new(),
            budgets: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            expendable_below: settings.expendable_pods_priority_cutoff,
            allowed_schedulers: settings.allowed_scheduler_names.clone(),
            nominated_count: settings.version >= super::settings::Version::V1_36,
        }
    }

    /// An object came, changed or went. Kinds that mean nothing to the autoscaler are ignored.
    pub(crate) fn apply(&mut self, what: &What) -> Heard {
        let object = what.object();
        let meta = object.meta();
        let news = Heard { is_news: true, unschedulable_since: None };
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        let present = matches!(what, What::Added(_) | What::Modified(_));
        let name = || NamespacedName { namespace: (&*meta.namespace).into(), name: (&*meta.name).into() };
        match (group, &*meta.kind) {
            (_, "Event") => return Heard { is_news: false, ..news },
            ("", "Pod") => return self.apply_pod(object, &meta, present),
            ("", "Node") => return Heard { is_news: self.apply_node(object, present), ..news },
            ("policy", "PodDisruptionBudget") => {
                set(&mut self.budgets, name(), present.then(|| Arc::new(Budget::read(object))));
            }
            ("", "ConfigMap") if meta.name != PRIORITIES => return Heard { is_news: false, ..news },
            ("", "ConfigMap") => {
                let data = present.then(|| {
                    view::<ConfigMapJson>(object).map_or_else(|_| BTreeMap::new(), |json| json.data)
                });
                set(&mut self.config_maps, name(), data.map(Arc::new));
            }
            (group, kind) => {
                let controller = ControllerKind::of(group, kind);
                if let Some(of) = controller {
                    set(&mut self.controllers, (of, name()), present.then(|| Controller::read(object)));
                }
                if (group, kind) == ("apps", "DaemonSet") {
                    let set_of = DaemonSet {
                        name: name(),
                        uid: meta.uid.as_deref().unwrap_or_default().into(),
                        object: object.clone(),
                    };
                    set(&mut self.daemon_sets, name(), present.then(|| Arc::new(set_of)));
                }
                let matters = self.snapshot.trial.apply(group, kind, object, present);
                return Heard { is_news: matters || controller.is_some(), ..news };
            }
        }
        news
    }

    // Nodes.

    /// All nodes, by name.
    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.nodes.values().copied()
    }

    /// All nodes, by name.
    pub(crate) fn order(&mut self) -> &[NodeId] {
        self.order.get_or_insert_with(|| self.nodes.values().copied().collect())
    }

    /// Nodes that changed since this was last asked; they may be gone.
    pub(crate) fn take_changed(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.changed)
    }

    /// Whether there is a node of that name.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Another number whenever there are other nodes, or nodes of other instances.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The group a node belongs to.
    pub(crate) fn group_of(&self, id: NodeId, cloud: &dyn Cloud) -> Option<GroupId> {
        cloud.group_of(&Registered::of(self.snapshot.node(id)))
    }

    /// Whether a node is this machine of a cloud.
    pub(crate) fn is_registered(&self, instance: &str) -> bool {
        self.instances.contains_key(instance)
    }

    /// Says whether there is anything new.
    fn apply_node(&mut self, object: &Object, present: bool) -> bool {
        let node = present.then(|| Arc::new(Node::read(object, self.snapshot.trial.scalars())));
        let known = self.nodes.get(&*object.meta().name).copied();
        let before = known.map(|id| self.snapshot.node(id).clone());
        if node == before {
            return false;
        }
        let instance = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node.instance().clone());
        let (old, new) = (instance(&before), instance(&node));
        if old != new {
            self.order = None;
            self.revision += 1;
            self.rename_instance(old, new);
        }
        let id = match (node, known) {
            (Some(node), _) => {
                let name = node.name.clone();
                let id = self.snapshot.set_node(node);
                self.nodes.insert(name, id);
                id
            }
            (None, Some(id)) => {
                self.nodes.remove(&*object.meta().name);
                self.snapshot.forget_node(id);
                id
            }
            (None, None) => return false,
        };
        self.changed.push(id);
        true
    }

    fn rename_instance(&mut self, old: Option<Arc<str>>, new: Option<Arc<str>>) {
        if let Some(count) = old.as_ref().and_then(|old| self.instances.get_mut(old)) {
            *count -= 1;
        }
        if let Some(old) = old.filter(|old| self.instances.get(old) == Some(&0)) {
            self.instances.remove(&old);
        }
        if let Some(new) = new {
            *self.instances.entry(new).or_default() += 1;
        }
    }

    // Pods.

    /// Pods on no node, by age and then by name.
    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = PodId> + '_ {
        self.waiting.iter().map(|(.., id)| *id)
    }

    pub(crate) fn find_pod(&self, name: &NamespacedName) -> Option<PodId> {
        self.snapshot.trial.find_pod(&name.namespace, &name.name)
    }

    fn apply_pod(&mut self, object: &Object, meta: &Meta<'_>, present: bool) -> Heard {
        let known = self.snapshot.trial.find_pod(&meta.namespace, &meta.name);
        let pod = present.then(|| Pod::read(object, self.snapshot.trial.scalars()));
        self.set_pod(known, pod)
    }

    /// Something has become of a pod, or it is gone. Of one that is not listed nothing is heard.
    pub(crate) fn apply_fate(&mut self, name: &NamespacedName, fate: Option<PodStatusUpdate>) -> Heard {
        let Some(known) = self.find_pod(name) else {
            return Heard { is_news: false, unschedulable_since: None };
        };
        let pod = fate.map(|fate| self.snapshot.pod(known).after(fate));
        self.set_pod(Some(known), pod)
    }

    fn set_pod(&mut self, known: Option<PodId>, pod: Option<Pod>) -> Heard {
        let unschedulable_since = pod.as_ref().and_then(Pod::unschedulable_since);
        if let Some((id, pod)) = known.zip(pod.as_ref())
            && pod.means_the_same(self.snapshot.pod(id))
        {
            self.snapshot.renew_pod(id, Arc::new(pod.clone()));
            return Heard { is_news: false, unschedulable_since };
        }
        let gone = Heard { is_news: known.is_some(), unschedulable_since: None };
        if let Some(id) = known {
            let old = self.snapshot.pod(id).clone();
            self.waiting.remove(&(old.created, old.name.clone(), id));
            self.snapshot.forget_pod(id);
        }
        // Finished pods are not listed, nor are those of schedulers that are none of the autoscaler's business.
        let Some(pod) = pod.filter(|pod| !pod.is_finished() && self.is_allowed(pod)) else { return gone };
        let pod = Arc::new(pod);
        let id = self.snapshot.add_pod(pod.clone());
        let node = match (&pod.node, &pod.nominated) {
            (Some(node), _) => Some(node),
            (None, Some(node)) if self.nominated_count && pod.deleted.is_none() => Some(node),
            _ => None,
        };
        match node {
            None => drop(self.waiting.insert((pod.created, pod.name.clone(), id))),
            Some(_) if self.is_expendable(&pod) => {}
            Some(node) => self.snapshot.trial.place_by_name(id, node),
        }
        Heard { is_news: true, unschedulable_since }
    }

    /// Whether a pod asks for GPUs, be it for none of them.
    pub(crate) fn asks_for_gpu(&self, pod: &Pod) -> bool {
        let asked = pod.spec.shape.requests.scalars.iter();
        asked.map(|(id, _)| Resource::Scalar(*id)).any(|asked| self.gpus.contains(&asked))
    }

    fn is_allowed(&self, pod: &Pod) -> bool {
        self.allowed_schedulers.is_empty() || self.allowed_schedulers.contains(&pod.scheduler_name)
    }

    /// Whether others may take its place: it does not count.
    pub(crate) fn is_expendable(&self, pod: &Pod) -> bool {
        pod.priority.is_some_and(|priority| i64::from(priority) < self.expendable_below)
    }

    // The rest.

    /// A controller, if it is there.
    pub(crate) fn controller(&self, kind: ControllerKind, name: &NamespacedName) -> Option<&Controller> {
        self.controllers.get(&(kind, name.clone()))
    }

    /// All budgets, by name.
    pub(crate) fn budgets(&self) -> impl Iterator<Item = &Arc<Budget>> {
        self.budgets.values()
    }

    /// What a ConfigMap says.
    pub(crate) fn config_map(&self, namespace: &str, name: &str) -> Option<&Arc<BTreeMap<String, String>>> {
        self.config_maps.get(&NamespacedName { namespace: namespace.into(), name: name.into() })
    }
}

// === impl ControllerKind ===

impl ControllerKind {
    pub(crate) fn of(group: &str, kind: &str) -> Option<ControllerKind> {
        Some(match (group, kind) {
            ("", "ReplicationController") => ControllerKind::ReplicationController,
            ("apps", "ReplicaSet") => ControllerKind::ReplicaSet,
            ("apps", "StatefulSet") => ControllerKind::StatefulSet,
            ("batch", "Job") => ControllerKind::Job,
            ("apps", "DaemonSet") => ControllerKind::DaemonSet,
            _ => return None,
        })
    }
}

// === impl Controller ===

impl Controller {
    /// One that makes no sense says nothing.
    fn read(object: &Object) -> Controller {
        match view::<ControllerJson>(object) {
            Ok(json) => Controller { replicas: json.spec.replicas.or(json.spec.parallelism) },
            Err(_) => Controller { replicas: None },
        }
    }
}

// === impl Budget ===

impl Budget {
    /// One that makes no sense means no pods.
    fn read(object: &Object) -> Budget {
        let meta = object.meta();
        let name = NamespacedName { namespace: (&*meta.namespace).into(), name: (&*meta.name).into() };
        match view::<BudgetJson>(object) {
            Ok(json) => Budget {
                name,
                selector: Selector::of(json.spec.selector.as_ref()).ok(),
                allowed: json.status.disruptions_allowed,
            },
            Err(_) => Budget { name, selector: None, allowed: 0 },
        }
    }

    /// Whether it means a pod.
    pub(crate) fn means(&self, namespace: &str, labels: &Labels) -> bool {
        *self.name.namespace == *namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(|key| labels.get(key)))
    }
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}
