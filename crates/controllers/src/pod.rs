//! Pods in the informer cache. A pod is parsed when a controller needs it; until then only its owners are known.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kubernetes::read::{moment, nullable, view};
use model::{Moment, NamespacedName, Object};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::object_table::{Metadata, OwnerReference};

/// All pods, by name.
#[derive(Debug, Default)]
pub(super) struct PodTable {
    all: BTreeMap<NamespacedName, LazyPod>,
}

/// A pod that is parsed on demand.
#[derive(Debug)]
pub(super) struct LazyPod {
    pub(super) uid: Arc<str>,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) object: Object,
    pod: OnceLock<Arc<Pod>>,
}

/// The parts of a pod that controllers read.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) meta: Metadata,
    pub(super) phase: Phase,
    /// The node it is bound to.
    pub(super) node: Option<Arc<str>>,
    /// The node it is bound to, or the node that a DaemonSet created it for.
    pub(super) target_node: Option<Arc<str>>,
    pub(super) ready: bool,
    /// When its condition `Ready` last changed.
    pub(super) ready_transition: Option<Moment>,
    /// The highest restart count of its containers.
    pub(super) max_restarts: i64,
    /// The highest restart count of its sidecars.
    pub(super) max_sidecar_restarts: i64,
    /// The sum of the restart counts of all its containers.
    pub(super) total_restarts: i64,
    /// When its last container terminated, if all have.
    pub(super) containers_finished_at: Option<Moment>,
}

/// The phase of a pod. Pods in earlier phases are deleted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Pending,
    Unknown,
    Running,
    Succeeded,
    Failed,
}

#[derive(Deserialize)]
struct PodJson {
    #[serde(default, deserialize_with = "nullable")]
    metadata: Metadata,
    #[serde(default, deserialize_with = "nullable")]
    spec: SpecJson,
    #[serde(default, deserialize_with = "nullable")]
    status: StatusJson,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    node_name: Option<Arc<str>>,
    #[serde(deserialize_with = "nullable")]
    affinity: AffinityJson,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<ContainerJson>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityJson {
    #[serde(deserialize_with = "nullable")]
    node_affinity: NodeAffinityJson,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeAffinityJson {
    #[serde(deserialize_with = "nullable")]
    required_during_scheduling_ignored_during_execution: TermsJson,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TermsJson {
    #[serde(deserialize_with = "nullable")]
    node_selector_terms: Vec<TermJson>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TermJson {
    #[serde(deserialize_with = "nullable")]
    match_fields: Vec<kubernetes::selector::Expression>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerJson {
    #[serde(deserialize_with = "nullable")]
    name: String,
    restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    #[serde(deserialize_with = "nullable")]
    phase: String,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<ConditionJson>,
    #[serde(deserialize_with = "nullable")]
    container_statuses: Vec<ContainerStatusJson>,
    #[serde(deserialize_with = "nullable")]
    init_container_statuses: Vec<ContainerStatusJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionJson {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    status: String,
    #[serde(default, deserialize_with = "moment")]
    last_transition_time: Option<Moment>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatusJson {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    restart_count: i64,
    #[serde(deserialize_with = "nullable")]
    state: StateJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StateJson {
    terminated: Option<TerminatedJson>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TerminatedJson {
    #[serde(deserialize_with = "moment")]
    finished_at: Option<Moment>,
}

// === impl PodTable ===

impl PodTable {
    pub(super) fn entry(&self, name: &NamespacedName) -> Option<&LazyPod> {
        self.all.get(name)
    }

    pub(super) fn get(&self, name: &NamespacedName) -> Option<&Arc<Pod>> {
        self.all.get(name).map(|lazy_pod| lazy_pod.pod(name))
    }

    pub(super) fn contains(&self, name: &NamespacedName) -> bool {
        self.all.contains_key(name)
    }

    /// The pods of a namespace.
    pub(super) fn in_namespace(
        &self,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = (&NamespacedName, &LazyPod)> {
        let first = NamespacedName { namespace: namespace.clone(), name: "".into() };
        self.all.range(first..).take_while(|(name, _)| name.namespace == *namespace)
    }

    /// Sets or removes a pod. Returns the previous one.
    pub(super) fn set(&mut self, name: NamespacedName, lazy_pod: Option<LazyPod>) -> Option<LazyPod> {
        match lazy_pod {
            Some(lazy_pod) => self.all.insert(name, lazy_pod),
            None => self.all.remove(&name),
        }
    }
}

// === impl LazyPod ===

impl LazyPod {
    /// Parses only the uid and the owners of a pod. API servers write the metadata first.
    pub(super) fn parse(object: &Object) -> LazyPod {
        let mut seed = MetadataSeed::default();
        // Stopping early is an error to the parser; the metadata has been parsed by then.
        let _ = seed.deserialize(&mut serde_json::Deserializer::from_str(object.as_str()));
        let MetadataSeed(names) = seed;
        LazyPod {
            uid: names.uid.as_deref().unwrap_or_default().into(),
            owners: names.owner_references.unwrap_or_default(),
            object: object.clone(),
            pod: OnceLock::new(),
        }
    }

    pub(super) fn pod(&self, name: &NamespacedName) -> &Arc<Pod> {
        self.pod.get_or_init(|| Arc::new(Pod::parse(name.clone(), self.uid.clone(), &self.object)))
    }

    /// Its controller.
    pub(super) fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller == Some(true))
    }
}

// === impl Pod ===

impl Pod {
    /// Parses a pod. An invalid object yields a pod without a status.
    fn parse(name: NamespacedName, uid: Arc<str>, object: &Object) -> Pod {
        let PodJson { metadata, spec, status } = view(object).unwrap_or(PodJson {
            metadata: Metadata::default(),
            spec: SpecJson::default(),
            status: StatusJson::default(),
        });
        let is_sidecar = |status: &&ContainerStatusJson| {
            let mut containers = spec.init_containers.iter();
            containers.any(|container| {
                container.name == status.name && container.restart_policy.as_deref() == Some("Always")
            })
        };
        let sidecars: Vec<_> = status.init_container_statuses.iter().filter(is_sidecar).collect();
        let max_count = |restarts: &mut dyn Iterator<Item = i64>| restarts.max().unwrap_or(0).max(0);
        let all = status.container_statuses.iter().chain(&status.init_container_statuses);
        let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
        let node = spec.node_name.filter(|node| !node.is_empty());
        Pod {
            phase: Phase::of(&status.phase),
            target_node: node.clone().or_else(|| {
                let terms = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution;
                let mut fields = terms.node_selector_terms.into_iter().flat_map(|term| term.match_fields);
                let named = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
                named.values.filter(|values| values.len() == 1)?.pop().map(Arc::from)
            }),
            node,
            ready: ready.is_some_and(|ready| ready.status == "True"),
            ready_transition: ready.and_then(|ready| ready.last_transition_time),
            max_restarts: max_count(
                &mut status.container_statuses.iter().map(|container| container.restart_count),
            ),
            max_sidecar_restarts: max_count(&mut sidecars.iter().map(|container| container.restart_count)),
            total_restarts: all.map(|container| container.restart_count).fold(0, i64::saturating_add),
            containers_finished_at: last_finish(status.container_statuses.iter().chain(sidecars)),
            meta: metadata,
            name,
            uid,
        }
    }

    /// Whether it is neither finished nor terminating.
    pub(super) fn is_active(&self) -> bool {
        !self.is_finished() && !self.is_deleting()
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// Whether it has a deletion timestamp and has not finished.
    pub(super) fn is_terminating(&self) -> bool {
        self.is_deleting() && !self.is_finished()
    }

    /// Whether it has been ready for at least `min_ready_seconds`.
    pub(super) fn is_available(&self, min_ready_seconds: i64, now: Moment) -> bool {
        self.available_at(min_ready_seconds).is_some_and(|at| at <= now)
    }

    /// When it becomes, or became, available; `None` if it is not ready.
    pub(super) fn available_at(&self, min_ready_seconds: i64) -> Option<Moment> {
        match (self.ready, min_ready_seconds) {
            (false, _) => None,
            (true, 0) => Some(Moment::MIN),
            (true, seconds) => {
                self.ready_transition.map(|at| at.plus_nanos(seconds.saturating_mul(1_000_000_000)))
            }
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.meta.labels.get(key)
    }
}

/// When the last of these containers terminated, if all have.
fn last_finish<'c>(statuses: impl Iterator<Item = &'c ContainerStatusJson>) -> Option<Moment> {
    let mut last = None;
    for status in statuses {
        last = last.max(Some(status.state.terminated.as_ref()?.finished_at?));
    }
    last
}

// === impl Phase ===

impl Phase {
    fn of(text: &str) -> Phase {
        match text {
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            "Unknown" => Phase::Unknown,
            _ => Phase::Pending,
        }
    }
}

/// The uid and the owners of a pod.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodIdentity<'a> {
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(default)]
    owner_references: Option<Vec<OwnerReference>>,
}

/// Parses an object's metadata and stops.
#[derive(Default)]
struct MetadataSeed<'a>(PodIdentity<'a>);

impl<'de> DeserializeSeed<'de> for &mut MetadataSeed<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut MetadataSeed<'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<Cow<'de, str>>()? {
            if key == "metadata" {
                self.0 = fields.next_value()?;
                break;
            }
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_its_controller_and_target_node() {
        let object = Object::parse(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"u",
                "ownerReferences":[{"kind":"A","name":"a","uid":"1"},{"kind":"DaemonSet","name":"d","uid":"2",
                "controller":true}]},"spec":{"affinity":{"nodeAffinity":{
                "requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[
                {"key":"metadata.name","operator":"In","values":["node-1"]}]}]}}},"initContainers":[
                {"name":"s","restartPolicy":"Always"},{"name":"i"}]},"status":{"phase":"Running","conditions":[
                {"type":"Ready","status":"True","lastTransitionTime":"2026-11-15T00:00:00Z"}],"containerStatuses":[
                {"name":"c","restartCount":2}],"initContainerStatuses":[{"name":"s","restartCount":1},
                {"name":"i","restartCount":9}]}}"#,
        )
        .unwrap();
        let lazy_pod = LazyPod::parse(&object);
        assert_eq!(lazy_pod.owners.len(), 2);
        assert_eq!(lazy_pod.controller().map(|owner| &*owner.uid), Some("2"));
        let pod = lazy_pod.pod(&NamespacedName { namespace: "n".into(), name: "p".into() });
        assert_eq!((pod.node.as_deref(), pod.target_node.as_deref()), (None, Some("node-1")));
        assert_eq!((pod.max_restarts, pod.max_sidecar_restarts, pod.total_restarts), (2, 1, 12));
        let at = |seconds: i64| Moment::from_nanos(1_794_700_800_000_000_000 + seconds * 1_000_000_000);
        assert!(
            pod.is_available(10, at(10)) && !pod.is_available(10, at(9)) && pod.is_available(0, Moment::MIN)
        );
    }

    #[test]
    fn an_invalid_pod_has_no_status() {
        let object = Object::parse(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","ownerReferences":7},"status":{"phase":[]}}"#,
        )
        .unwrap();
        let lazy_pod = LazyPod::parse(&object);
        assert!(lazy_pod.owners.is_empty());
        let pod = lazy_pod.pod(&NamespacedName { namespace: "".into(), name: "p".into() });
        assert_eq!((pod.phase, pod.ready), (Phase::Pending, false));
    }
}
