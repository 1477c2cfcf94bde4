//! Pods as controllers see them. A pod is read when a controller looks at it; until then only its owners are known.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kubernetes::read::{moment, nullable, view};
use model::{Moment, NamespacedName, Object};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::table::{Metadata, Owner};

/// All pods, by name.
#[derive(Debug, Default)]
pub(super) struct Pods {
    all: BTreeMap<NamespacedName, Entry>,
}

/// A pod that may have been looked at.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) uid: Arc<str>,
    pub(super) owners: Vec<Owner>,
    pub(super) object: Object,
    pod: OnceLock<Arc<Pod>>,
}

/// What controllers look at in a pod.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) meta: Metadata,
    pub(super) phase: Phase,
    /// The node it is bound to.
    pub(super) node: Option<Arc<str>>,
    /// The node that a DaemonSet made it for.
    pub(super) target: Option<Arc<str>>,
    pub(super) ready: bool,
    /// When its condition `Ready` last changed.
    pub(super) ready_changed: Option<Moment>,
    /// The most that any of its containers was started again.
    pub(super) restarts: i64,
    /// The same of its sidecars.
    pub(super) sidecar_restarts: i64,
    /// How often its containers were started again, all of them together.
    pub(super) all_restarts: i64,
    /// When its last container ended, if all have.
    pub(super) containers_ended: Option<Moment>,
}

/// How far a pod is. Earlier ones are given up first.
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

// === impl Pods ===

impl Pods {
    pub(super) fn entry(&self, name: &NamespacedName) -> Option<&Entry> {
        self.all.get(name)
    }

    pub(super) fn get(&self, name: &NamespacedName) -> Option<&Arc<Pod>> {
        self.all.get(name).map(|entry| entry.pod(name))
    }

    pub(super) fn contains(&self, name: &NamespacedName) -> bool {
        self.all.contains_key(name)
    }

    /// The pods of a namespace.
    pub(super) fn of_namespace(
        &self,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = (&NamespacedName, &Entry)> {
        let first = NamespacedName { namespace: namespace.clone(), name: "".into() };
        self.all.range(first..).take_while(|(name, _)| name.namespace == *namespace)
    }

    /// Keeps a pod, or what there is to know of it; gives back what was kept.
    pub(super) fn set(&mut self, name: NamespacedName, entry: Option<Entry>) -> Option<Entry> {
        match entry {
            Some(entry) => self.all.insert(name, entry),
            None => self.all.remove(&name),
        }
    }
}

// === impl Entry ===

impl Entry {
    /// Reads the owners of a pod, which API servers put before what is long.
    pub(super) fn read(object: &Object) -> Entry {
        let mut found = Heading::default();
        // Stopping in the middle of an object is an error to the parser; what counts is what was found.
        let _ = found.deserialize(&mut serde_json::Deserializer::from_str(object.as_str()));
        let Heading(names) = found;
        Entry {
            uid: names.uid.as_deref().unwrap_or_default().into(),
            owners: names.owner_references.unwrap_or_default(),
            object: object.clone(),
            pod: OnceLock::new(),
        }
    }

    pub(super) fn pod(&self, name: &NamespacedName) -> &Arc<Pod> {
        self.pod.get_or_init(|| Arc::new(Pod::read(name.clone(), self.uid.clone(), &self.object)))
    }

    /// The owner that manages it.
    pub(super) fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller == Some(true))
    }
}

// === impl Pod ===

impl Pod {
    /// What an object says of a pod. One that makes no sense is a pod without any news.
    fn read(name: NamespacedName, uid: Arc<str>, object: &Object) -> Pod {
        let PodJson { metadata, spec, status } = view(object).unwrap_or(PodJson {
            metadata: Metadata::default(),
            spec: SpecJson::default(),
            status: StatusJson::default(),
        });
        let is_sidecar = |status: &&ContainerStatusJson| {
            let mut containers = spec.init_containers.iter();
            containers.any(|one| one.name == status.name && one.restart_policy.as_deref() == Some("Always"))
        };
        let sidecars: Vec<_> = status.init_container_statuses.iter().filter(is_sidecar).collect();
        let most = |restarts: &mut dyn Iterator<Item = i64>| restarts.max().unwrap_or(0).max(0);
        let all = status.container_statuses.iter().chain(&status.init_container_statuses);
        let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
        let node = spec.node_name.filter(|node| !node.is_empty());
        Pod {
            phase: Phase::of(&status.phase),
            target: node.clone().or_else(|| {
                let terms = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution;
                let mut fields = terms.node_selector_terms.into_iter().flat_map(|term| term.match_fields);
                let named = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
                named.values.filter(|values| values.len() == 1)?.pop().map(Arc::from)
            }),
            node,
            ready: ready.is_some_and(|ready| ready.status == "True"),
            ready_changed: ready.and_then(|ready| ready.last_transition_time),
            restarts: most(&mut status.container_statuses.iter().map(|one| one.restart_count)),
            sidecar_restarts: most(&mut sidecars.iter().map(|one| one.restart_count)),
            all_restarts: all.map(|one| one.restart_count).fold(0, i64::saturating_add),
            containers_ended: last_end(status.container_statuses.iter().chain(sidecars)),
            meta: metadata,
            name,
            uid,
        }
    }

    /// It neither ended nor is being deleted.
    pub(super) fn is_active(&self) -> bool {
        !self.is_finished() && !self.is_deleted()
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// It is being deleted, and its containers have not ended.
    pub(super) fn is_terminating(&self) -> bool {
        self.is_deleted() && !self.is_finished()
    }

    /// It is ready, and has been for so long.
    pub(super) fn is_available(&self, min_ready_seconds: i64, now: Moment) -> bool {
        self.available_at(min_ready_seconds).is_some_and(|at| at <= now)
    }

    /// When it is, or was, ready for so long; `None` if it is not ready.
    pub(super) fn available_at(&self, min_ready_seconds: i64) -> Option<Moment> {
        match (self.ready, min_ready_seconds) {
            (false, _) => None,
            (true, 0) => Some(Moment::MIN),
            (true, seconds) => {
                self.ready_changed.map(|at| at.plus_nanos(seconds.saturating_mul(1_000_000_000)))
            }
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.meta.labels.get(key)
    }
}

/// When the last of these containers ended, if all have.
fn last_end<'c>(statuses: impl Iterator<Item = &'c ContainerStatusJson>) -> Option<Moment> {
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

/// Who a pod is and whom it belongs to.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names<'a> {
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(default)]
    owner_references: Option<Vec<Owner>>,
}

/// Finds an object's metadata and stops.
#[derive(Default)]
struct Heading<'a>(Names<'a>);

impl<'de> DeserializeSeed<'de> for &mut Heading<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Heading<'de> {
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
    fn a_pod_belongs_to_its_controller_and_says_where_it_is_meant_to_be() {
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
        let entry = Entry::read(&object);
        assert_eq!(entry.owners.len(), 2);
        assert_eq!(entry.controller().map(|owner| &*owner.uid), Some("2"));
        let pod = entry.pod(&NamespacedName { namespace: "n".into(), name: "p".into() });
        assert_eq!((pod.node.as_deref(), pod.target.as_deref()), (None, Some("node-1")));
        assert_eq!((pod.restarts, pod.sidecar_restarts, pod.all_restarts), (2, 1, 12));
        let at = |seconds: i64| Moment::from_nanos(1_794_700_800_000_000_000 + seconds * 1_000_000_000);
        assert!(
            pod.is_available(10, at(10)) && !pod.is_available(10, at(9)) && pod.is_available(0, Moment::MIN)
        );
    }

    #[test]
    fn a_pod_that_makes_no_sense_is_one_without_news() {
        let object = Object::parse(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","ownerReferences":7},"status":{"phase":[]}}"#,
        )
        .unwrap();
        let entry = Entry::read(&object);
        assert!(entry.owners.is_empty());
        let pod = entry.pod(&NamespacedName { namespace: "".into(), name: "p".into() });
        assert_eq!((pod.phase, pod.ready), (Phase::Pending, false));
    }
}
