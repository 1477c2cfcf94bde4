//! Objects beside nodes and pods that scheduling depends on: namespaces, what selects pods, disruption budgets, device
//! classes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::read::{nullable, view};
use kubernetes::selector::{LabelSelector, Selector};
use model::Object;
use serde::Deserialize;

use super::super::pod::{Controller, ControllerKind};

/// Those objects.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    pub namespaces: BTreeMap<Arc<str>, Labels>,
    /// By namespace and name. Only those that select.
    services: BTreeMap<(Arc<str>, Arc<str>), Labels>,
    /// By namespace.
    controllers: BTreeMap<(Arc<str>, Controller), ControllerSelector>,
    pub budgets: BTreeMap<(Arc<str>, Arc<str>), Budget>,
    /// Extended resources that stand for classes of devices, by class.
    device_resources: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// Objects that make no sense, by kind, namespace and name, and what of them does not.
    troubles: BTreeMap<(RelationKind, Arc<str>, Arc<str>), Arc<str>>,
}

#[derive(Debug, PartialEq)]
enum ControllerSelector {
    Labels(Labels),
    Selector(Selector),
}

/// How many pods may be disrupted.
#[derive(Debug, PartialEq)]
pub(crate) struct Budget {
    pub namespace: Arc<str>,
    /// One that makes no sense selects nothing.
    pub selector: Selector,
    pub allowed: i32,
    /// Pods by name that are being disrupted already.
    pub disrupted: BTreeSet<Arc<str>>,
}

/// A kind of such objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RelationKind {
    Namespace,
    Service,
    Controller(ControllerKind),
    Budget,
    DeviceClass,
}

#[derive(Deserialize)]
struct SelectingJson<S: Default> {
    #[serde(
        default = "SelectingSpecJson::default",
        bound(deserialize = "S: Deserialize<'de>"),
        deserialize_with = "nullable"
    )]
    spec: SelectingSpecJson<S>,
}

#[derive(Deserialize)]
struct SelectingSpecJson<S> {
    #[serde(default = "Option::default", bound(deserialize = "S: Deserialize<'de>"))]
    selector: Option<S>,
}

impl<S> Default for SelectingSpecJson<S> {
    fn default() -> SelectingSpecJson<S> {
        SelectingSpecJson { selector: None }
    }
}

#[derive(Deserialize)]
struct BudgetJson {
    #[serde(default, deserialize_with = "nullable")]
    status: BudgetStatusJson,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BudgetStatusJson {
    #[serde(deserialize_with = "nullable")]
    disruptions_allowed: i32,
    #[serde(deserialize_with = "nullable")]
    disrupted_pods: BTreeMap<Arc<str>, serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct NamespaceJson {
    #[serde(default)]
    metadata: LabelledJson,
}

#[derive(Default, Deserialize)]
struct LabelledJson {
    #[serde(default)]
    labels: Labels,
}

#[derive(Deserialize)]
struct DeviceClassJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: DeviceClassSpecJson,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeviceClassSpecJson {
    extended_resource_name: Option<Arc<str>>,
}

// === impl RelationKind ===

impl RelationKind {
    /// The kind, if it is one of these.
    pub(crate) fn of(group: &str, kind: &str) -> Option<RelationKind> {
        Some(match (group, kind) {
            ("", "Namespace") => RelationKind::Namespace,
            ("", "Service") => RelationKind::Service,
            ("", "ReplicationController") => RelationKind::Controller(ControllerKind::ReplicationController),
            ("apps", "ReplicaSet") => RelationKind::Controller(ControllerKind::ReplicaSet),
            ("apps", "StatefulSet") => RelationKind::Controller(ControllerKind::StatefulSet),
            ("policy", "PodDisruptionBudget") => RelationKind::Budget,
            ("resource.k8s.io", "DeviceClass") => RelationKind::DeviceClass,
            _ => return None,
        })
    }
}

impl fmt::Display for RelationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RelationKind::Namespace => "namespace",
            RelationKind::Service => "service",
            RelationKind::Controller(ControllerKind::ReplicationController) => "replicationcontroller",
            RelationKind::Controller(ControllerKind::ReplicaSet) => "replicaset",
            RelationKind::Controller(ControllerKind::StatefulSet) => "statefulset",
            RelationKind::Budget => "poddisruptionbudget",
            RelationKind::DeviceClass => "deviceclass",
        })
    }
}

/// Puts a value in its place, and says whether another one was there, or none.
fn replaced<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: V) -> bool {
    match map.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(value);
            true
        }
        Entry::Occupied(mut entry) => {
            let changed = *entry.get() != value;
            entry.insert(value);
            changed
        }
    }
}

// === impl Relations ===

impl Relations {
    /// An object came, changed or went. Says whether that can matter to a plan for a pod.
    ///
    /// What makes no sense is remembered as such: whoever needs it is told.
    pub(crate) fn apply(&mut self, kind: RelationKind, object: &Object, present: bool) -> bool {
        let meta = object.meta();
        let (namespace, name): (Arc<str>, Arc<str>) =
            (meta.namespace.as_ref().into(), meta.name.as_ref().into());
        let key = (kind, namespace.clone(), name.clone());
        let was_trouble = self.troubles.remove(&key).is_some();
        let changed = if present {
            self.set(kind, namespace, name, object)
        } else {
            Ok(self.remove(kind, namespace, name))
        };
        match changed {
            Ok(changed) => was_trouble || changed,
            Err(trouble) => {
                self.remove(kind, key.1.clone(), key.2.clone());
                self.troubles.insert(key, trouble.into());
                true
            }
        }
    }

    /// What in a namespace makes no sense that a pod is spread by if it does not say itself: a service, or its controller.
    pub(crate) fn trouble_with_spreading(
        &self,
        namespace: &str,
        controller: Option<&Controller>,
    ) -> Option<String> {
        let troubles = self.troubles.iter().filter(|((_, other, _), _)| **other == *namespace);
        let mut matters = troubles.filter(|((kind, _, name), _)| match kind {
            RelationKind::Service => true,
            RelationKind::Controller(kind) => {
                controller.is_some_and(|controller| controller.kind == *kind && controller.name == *name)
            }
            _ => false,
        });
        matters
            .next()
            .map(|((kind, namespace, name), trouble)| format!("{kind} {namespace}/{name}: {trouble}"))
    }

    /// What makes no sense among the disruption budgets.
    pub(crate) fn trouble_with_budgets(&self) -> Option<String> {
        let mut troubles = self.troubles.iter().filter(|((kind, ..), _)| *kind == RelationKind::Budget);
        troubles
            .next()
            .map(|((kind, namespace, name), trouble)| format!("{kind} {namespace}/{name}: {trouble}"))
    }

    fn set(
        &mut self,
        kind: RelationKind,
        namespace: Arc<str>,
        name: Arc<str>,
        object: &Object,
    ) -> Result<bool, String> {
        Ok(match kind {
            RelationKind::Namespace => {
                let labels = view::<NamespaceJson>(object)?.metadata.labels;
                replaced(&mut self.namespaces, name, labels)
            }
            RelationKind::Service => match view::<SelectingJson<Labels>>(object)?.spec.selector {
                Some(selector) => replaced(&mut self.services, (namespace, name), selector),
                None => self.services.remove(&(namespace, name)).is_some(),
            },
            RelationKind::Controller(kind @ ControllerKind::ReplicationController) => {
                let labels = view::<SelectingJson<Labels>>(object)?.spec.selector.unwrap_or_default();
                let key = (namespace, Controller { kind, name });
                replaced(&mut self.controllers, key, ControllerSelector::Labels(labels))
            }
            RelationKind::Controller(kind) => {
                let json: SelectingJson<LabelSelector> = view(object)?;
                let selector = Selector::of(json.spec.selector.as_ref());
                let selector = selector.map_err(|error| format!("spec.selector: {error}"))?;
                let key = (namespace, Controller { kind, name });
                replaced(&mut self.controllers, key, ControllerSelector::Selector(selector))
            }
            RelationKind::Budget => {
                let json: SelectingJson<LabelSelector> = view(object)?;
                let status = view::<BudgetJson>(object)?.status;
                let budget = Budget {
                    namespace: namespace.clone(),
                    selector: Selector::of(json.spec.selector.as_ref()).unwrap_or(Selector::NOTHING),
                    allowed: status.disruptions_allowed,
                    disrupted: status.disrupted_pods.into_keys().collect(),
                };
                self.budgets.insert((namespace, name), budget);
                // Plans are about placing; who has to go is found anew each time.
                false
            }
            RelationKind::DeviceClass => {
                let json: DeviceClassJson = view(object)?;
                let mut resources: Vec<Arc<str>> =
                    vec![format!("deviceclass.resource.kubernetes.io/{name}").into()];
                resources.extend(json.spec.extended_resource_name);
                replaced(&mut self.device_resources, name, resources)
            }
        })
    }

    fn remove(&mut self, kind: RelationKind, namespace: Arc<str>, name: Arc<str>) -> bool {
        match kind {
            RelationKind::Namespace => self.namespaces.remove(&name).is_some(),
            RelationKind::Service => self.services.remove(&(namespace, name)).is_some(),
            RelationKind::Controller(kind) => {
                self.controllers.remove(&(namespace, Controller { kind, name })).is_some()
            }
            RelationKind::Budget => {
                self.budgets.remove(&(namespace, name));
                false
            }
            RelationKind::DeviceClass => self.device_resources.remove(&name).is_some(),
        }
    }

    /// The labels of a namespace; none if it is not known.
    pub(crate) fn namespace_labels(&self, namespace: &str) -> &Labels {
        static NONE: Labels = Labels::NONE;
        self.namespaces.get(namespace).unwrap_or(&NONE)
    }

    /// Whether a resource stands for a class of devices.
    pub(crate) fn is_device(&self, resource: &str) -> bool {
        self.device_resources.values().flatten().any(|other| **other == *resource)
    }

    /// What selects the pods that a pod is spread among if it does not say itself: the selectors of its services and of
    /// its controller, all together.
    pub(crate) fn default_selector(
        &self,
        namespace: &Arc<str>,
        labels: &Labels,
        controller: Option<&Controller>,
    ) -> Selector {
        let in_namespace = self.services.range((namespace.clone(), Arc::from(""))..);
        let services =
            in_namespace.take_while(|((other, _), _)| other == namespace).map(|(_, selector)| selector);
        let matching =
            services.filter(|selector| selector.iter().all(|(key, value)| labels.get(key) == Some(value)));
        let mut merged: BTreeMap<&str, &str> = BTreeMap::new();
        for selector in matching {
            merged.extend(selector.iter().map(|(key, value)| (&**key, &**value)));
        }
        let found =
            controller.and_then(|controller| self.controllers.get(&(namespace.clone(), controller.clone())));
        if let Some(ControllerSelector::Labels(selector)) = found {
            merged.extend(selector.iter().map(|(key, value)| (&**key, &**value)));
        }
        let selector = Selector::of_labels(merged);
        match found {
            // One that selects nothing has no requirements to add.
            Some(ControllerSelector::Selector(own)) if !own.is_nothing() => selector.and(own),
            _ => selector,
        }
    }
}
