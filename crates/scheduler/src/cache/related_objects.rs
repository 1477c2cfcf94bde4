//! Namespaces, services, controllers, disruption budgets and device classes, as far as scheduling depends on them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::read::{nullable, view};
use kubernetes::selector::{LabelSelector, Selector};
use model::Object;
use serde::Deserialize;

use super::super::pod::{Controller, ControllerKind};
use super::disruption_budgets::{DisruptionBudget, DisruptionBudgets};

/// The Namespaces, Services, controllers, PodDisruptionBudgets and DeviceClasses that scheduling depends on,
/// parsed; unreadable ones with their error. Filters, scores and preemption read them, and so do the queueing
/// hints of NodeResourcesFit and PodTopologySpread. The object of an event, if it is neither a pod nor a
/// node, reaches hints as a `TrackedObject`.
#[derive(Debug, Default)]
pub(crate) struct RelatedObjects {
    pub namespaces: BTreeMap<Arc<str>, Labels>,
    /// By namespace and name. Only services with a selector.
    services: BTreeMap<(Arc<str>, Arc<str>), Labels>,
    /// By namespace.
    controllers: BTreeMap<(Arc<str>, Controller), ControllerSelector>,
    pub budgets: DisruptionBudgets,
    /// Extended resources that are backed by device classes, by class.
    device_resources: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// The errors of unreadable objects, by kind, namespace and name.
    read_errors: BTreeMap<(RelatedObjectKind, Arc<str>, Arc<str>), Arc<str>>,
}

#[derive(Debug, PartialEq)]
enum ControllerSelector {
    Labels(Labels),
    Selector(Selector),
}

/// The kind of such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RelatedObjectKind {
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
    metadata: LabeledJson,
}

#[derive(Default, Deserialize)]
struct LabeledJson {
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

// === impl RelatedObjectKind ===

impl RelatedObjectKind {
    pub(crate) fn of(group: &str, kind: &str) -> Option<RelatedObjectKind> {
        Some(match (group, kind) {
            ("", "Namespace") => RelatedObjectKind::Namespace,
            ("", "Service") => RelatedObjectKind::Service,
            ("", "ReplicationController") => {
                RelatedObjectKind::Controller(ControllerKind::ReplicationController)
            }
            ("apps", "ReplicaSet") => RelatedObjectKind::Controller(ControllerKind::ReplicaSet),
            ("apps", "StatefulSet") => RelatedObjectKind::Controller(ControllerKind::StatefulSet),
            ("policy", "PodDisruptionBudget") => RelatedObjectKind::Budget,
            ("resource.k8s.io", "DeviceClass") => RelatedObjectKind::DeviceClass,
            _ => return None,
        })
    }
}

impl fmt::Display for RelatedObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RelatedObjectKind::Namespace => "namespace",
            RelatedObjectKind::Service => "service",
            RelatedObjectKind::Controller(ControllerKind::ReplicationController) => "replicationcontroller",
            RelatedObjectKind::Controller(ControllerKind::ReplicaSet) => "replicaset",
            RelatedObjectKind::Controller(ControllerKind::StatefulSet) => "statefulset",
            RelatedObjectKind::Budget => "poddisruptionbudget",
            RelatedObjectKind::DeviceClass => "deviceclass",
        })
    }
}

/// Inserts a value, and returns whether it differs from the previous one.
fn insert_if_changed<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: V) -> bool {
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

// === impl RelatedObjects ===

impl RelatedObjects {
    /// Applies an object that was added, modified or deleted. Returns whether `PreFilterState`s may depend on it.
    ///
    /// An unreadable object is kept as an error, which rejects the pods that depend on it.
    pub(crate) fn apply(&mut self, kind: RelatedObjectKind, object: &Object, present: bool) -> bool {
        let meta = object.meta();
        let (namespace, name): (Arc<str>, Arc<str>) =
            (meta.namespace.as_ref().into(), meta.name.as_ref().into());
        let key = (kind, namespace.clone(), name.clone());
        let was_unreadable = self.read_errors.remove(&key).is_some();
        let changed = if present {
            self.set(kind, namespace, name, object)
        } else {
            Ok(self.remove(kind, namespace, name))
        };
        match changed {
            Ok(changed) => was_unreadable || changed,
            Err(error) => {
                self.remove(kind, key.1.clone(), key.2.clone());
                self.read_errors.insert(key, error.into());
                true
            }
        }
    }

    /// The error of an unreadable service of the namespace or of the pod's controller, from which the default spread
    /// selector is derived.
    pub(crate) fn spreading_read_error(
        &self,
        namespace: &str,
        controller: Option<&Controller>,
    ) -> Option<String> {
        let read_errors = self.read_errors.iter().filter(|((_, other, _), _)| **other == *namespace);
        let mut relevant = read_errors.filter(|((kind, _, name), _)| match kind {
            RelatedObjectKind::Service => true,
            RelatedObjectKind::Controller(kind) => {
                controller.is_some_and(|controller| controller.kind == *kind && controller.name == *name)
            }
            _ => false,
        });
        relevant.next().map(|((kind, namespace, name), error)| format!("{kind} {namespace}/{name}: {error}"))
    }

    /// The error of an unreadable disruption budget.
    pub(crate) fn budget_read_error(&self) -> Option<String> {
        let mut read_errors =
            self.read_errors.iter().filter(|((kind, ..), _)| *kind == RelatedObjectKind::Budget);
        read_errors
            .next()
            .map(|((kind, namespace, name), error)| format!("{kind} {namespace}/{name}: {error}"))
    }

    fn set(
        &mut self,
        kind: RelatedObjectKind,
        namespace: Arc<str>,
        name: Arc<str>,
        object: &Object,
    ) -> Result<bool, String> {
        Ok(match kind {
            RelatedObjectKind::Namespace => {
                let labels = view::<NamespaceJson>(object)?.metadata.labels;
                insert_if_changed(&mut self.namespaces, name, labels)
            }
            RelatedObjectKind::Service => match view::<SelectingJson<Labels>>(object)?.spec.selector {
                Some(selector) => insert_if_changed(&mut self.services, (namespace, name), selector),
                None => self.services.remove(&(namespace, name)).is_some(),
            },
            RelatedObjectKind::Controller(kind @ ControllerKind::ReplicationController) => {
                let labels = view::<SelectingJson<Labels>>(object)?.spec.selector.unwrap_or_default();
                let key = (namespace, Controller { kind, name });
                insert_if_changed(&mut self.controllers, key, ControllerSelector::Labels(labels))
            }
            RelatedObjectKind::Controller(kind) => {
                let json: SelectingJson<LabelSelector> = view(object)?;
                let selector = Selector::of(json.spec.selector.as_ref());
                let selector = selector.map_err(|error| format!("spec.selector: {error}"))?;
                let key = (namespace, Controller { kind, name });
                insert_if_changed(&mut self.controllers, key, ControllerSelector::Selector(selector))
            }
            RelatedObjectKind::Budget => {
                let json: SelectingJson<LabelSelector> = view(object)?;
                let status = view::<BudgetJson>(object)?.status;
                let budget = DisruptionBudget {
                    selector: Selector::of(json.spec.selector.as_ref()).unwrap_or(Selector::NOTHING),
                    disruptions_allowed: status.disruptions_allowed,
                    disrupted_pods: status.disrupted_pods.into_keys().collect(),
                };
                self.budgets.set(namespace, name, budget);
                // Only preemption depends on budgets; its cache compares their generations.
                false
            }
            RelatedObjectKind::DeviceClass => {
                let json: DeviceClassJson = view(object)?;
                let mut resources: Vec<Arc<str>> =
                    vec![format!("deviceclass.resource.kubernetes.io/{name}").into()];
                resources.extend(json.spec.extended_resource_name);
                insert_if_changed(&mut self.device_resources, name, resources)
            }
        })
    }

    fn remove(&mut self, kind: RelatedObjectKind, namespace: Arc<str>, name: Arc<str>) -> bool {
        match kind {
            RelatedObjectKind::Namespace => self.namespaces.remove(&name).is_some(),
            RelatedObjectKind::Service => self.services.remove(&(namespace, name)).is_some(),
            RelatedObjectKind::Controller(kind) => {
                self.controllers.remove(&(namespace, Controller { kind, name })).is_some()
            }
            RelatedObjectKind::Budget => {
                self.budgets.remove(namespace, name);
                false
            }
            RelatedObjectKind::DeviceClass => self.device_resources.remove(&name).is_some(),
        }
    }

    /// The labels of a namespace; empty if it is unknown.
    pub(crate) fn namespace_labels(&self, namespace: &str) -> &Labels {
        self.namespaces.get(namespace).unwrap_or(Labels::none())
    }

    /// Whether an extended resource is backed by a device class.
    pub(crate) fn is_device_class_resource(&self, resource: &str) -> bool {
        self.device_resources.values().flatten().any(|other| **other == *resource)
    }

    /// The selector of default spread constraints: those of the pod's services and of its controller, combined.
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
        let controller_selector =
            controller.and_then(|controller| self.controllers.get(&(namespace.clone(), controller.clone())));
        if let Some(ControllerSelector::Labels(selector)) = controller_selector {
            merged.extend(selector.iter().map(|(key, value)| (&**key, &**value)));
        }
        let selector = Selector::of_labels(merged);
        match controller_selector {
            // A selector that matches nothing has no requirements to add.
            Some(ControllerSelector::Selector(own_selector)) if !own_selector.is_nothing() => {
                selector.and(own_selector)
            }
            _ => selector,
        }
    }
}
