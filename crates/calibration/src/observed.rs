//! Recorded changes with their pods parsed, once for all components that analyze a recording.

use std::sync::Arc;

use kubernetes::objects::{DEFAULT_SCHEDULER, EventView, NodeView, Phase};
use kubernetes::read::nullable;
use model::{JsonCursor, JsonStr, Key, Moment, Object, What};
use serde::Deserialize;
use serde::de::IgnoredAny;
use simulation::{DemandAnnotation, WITHDRAWN_REASON};

/// A recorded change.
#[derive(Debug)]
pub struct ObservedChange {
    /// The key of the object.
    pub key: Key,
    /// What happened to it.
    pub what: What,
    /// The parsed pod, if it is one and can be parsed.
    pub pod: Option<ParsedPod>,
    /// The parsed node, if it is one.
    pub node: Option<NodeView>,
    /// The parsed Event, if it is one and can be parsed.
    pub event: Option<EventView>,
}

/// The fields of a pod that show its progress.
#[derive(Debug)]
pub struct ParsedPod {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid, or its namespace and name where it has none.
    pub uid: Arc<str>,
    /// Whether it has a uid.
    pub has_uid: bool,
    /// When it was created.
    pub created: Option<Moment>,
    /// Its controller, if it is of a supported kind.
    pub owner: Option<Owner>,
    /// The `controller-revision-hash` of its template, if it has one.
    pub revision: Option<Arc<str>>,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// It has a node and no controller: if it is new, it was created with its node, like the mirror pod of a static
    /// pod.
    pub comes_with_node: bool,
    /// It is for another scheduler than `default-scheduler`.
    pub has_other_scheduler: bool,
    /// It has scheduling gates.
    pub is_gated: bool,
    /// Its PodScheduled condition is true, whether or not its node was recorded.
    pub is_scheduled: bool,
    /// Its PodScheduled condition, if that is false.
    pub not_scheduled: Option<NotScheduledCondition>,
    /// Its nominated node.
    pub nominated_node: Option<Arc<str>>,
    /// Its phase.
    pub phase: Phase,
    /// When it started: its start time, or its creation timestamp if it runs without one.
    pub started: Option<Moment>,
    /// It has a deletion timestamp.
    pub is_terminating: bool,
    /// Its deletion grace period.
    pub grace_seconds: Option<i64>,
    /// Its DisruptionTarget condition, if that is true.
    pub disruption: Option<Disruption>,
    /// A replay marked it as withdrawn by its owner.
    pub withdrawn: bool,
    /// The demand that its annotation names, in a recording of a replay.
    pub demand_annotation: Option<DemandAnnotation>,
}

/// The controller of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: OwnerKind,
    /// Its uid.
    pub uid: Arc<str>,
}

/// The supported kinds of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// A ReplicaSet or a ReplicationController.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
    /// A Job.
    Job,
    /// A DaemonSet.
    DaemonSet,
}

/// A PodScheduled condition that is false.
#[derive(Debug)]
pub struct NotScheduledCondition {
    /// The reason is `SchedulingGated`.
    pub is_gated: bool,
    /// The message.
    pub message: Option<Arc<str>>,
    /// The last transition time.
    pub since: Option<Moment>,
}

/// The reason of a DisruptionTarget condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// `PreemptionByScheduler`.
    Preempted,
    /// `EvictionByEvictionAPI`, as in a drain.
    Evicted,
    /// `DeletionByTaintManager`.
    TaintEvicted,
    /// `DeletionByPodGC`: its node was deleted.
    GarbageCollected,
    /// `TerminationByKubelet`.
    TerminatedByKubelet,
    /// Any other reason.
    Other,
}

/// The part of a pod that is parsed. Containers and their statuses, which are most of its text, are skipped.
struct PodJson<'a> {
    metadata: MetadataJson<'a>,
    spec: SpecJson<'a>,
    status: StatusJson<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson<'a> {
    #[serde(borrow)]
    name: JsonStr<'a>,
    #[serde(borrow)]
    namespace: Option<JsonStr<'a>>,
    #[serde(borrow)]
    uid: Option<JsonStr<'a>>,
    #[serde(borrow)]
    creation_timestamp: Option<JsonStr<'a>>,
    deletion_timestamp: Option<IgnoredAny>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    owner_references: Vec<OwnerJson<'a>>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    labels: LabelsJson<'a>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    annotations: AnnotationsJson<'a>,
}

#[derive(Default, Deserialize)]
struct LabelsJson<'a> {
    #[serde(rename = "controller-revision-hash", borrow)]
    revision: Option<JsonStr<'a>>,
}

#[derive(Default, Deserialize)]
struct AnnotationsJson<'a> {
    #[serde(rename = "replay.kinescope.io/demand", borrow)]
    demand: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct OwnerJson<'a> {
    #[serde(borrow)]
    kind: Option<JsonStr<'a>>,
    #[serde(borrow)]
    uid: Option<JsonStr<'a>>,
    controller: Option<bool>,
}

#[derive(Default)]
struct SpecJson<'a> {
    node_name: Option<JsonStr<'a>>,
    scheduler_name: Option<JsonStr<'a>>,
    scheduling_gates: Option<Vec<IgnoredAny>>,
}

#[derive(Default)]
struct StatusJson<'a> {
    phase: Option<JsonStr<'a>>,
    reason: Option<JsonStr<'a>>,
    start_time: Option<JsonStr<'a>>,
    nominated_node_name: Option<JsonStr<'a>>,
    conditions: Vec<ConditionJson<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionJson<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: JsonStr<'a>,
    #[serde(borrow, default)]
    status: JsonStr<'a>,
    #[serde(borrow)]
    reason: Option<JsonStr<'a>>,
    #[serde(borrow)]
    message: Option<JsonStr<'a>>,
    #[serde(borrow)]
    last_transition_time: Option<JsonStr<'a>>,
}

// === impl ObservedChange ===

impl ObservedChange {
    /// Parses a change.
    pub fn parse(key: Key, what: What) -> ObservedChange {
        let object = what.object();
        let (mut pod, mut node, mut event) = (None, None, None);
        match (&*key.kind.group, &*key.kind.kind) {
            ("", "Pod") => pod = ParsedPod::parse(object),
            ("", "Node") => node = Some(NodeView::parse(object)),
            ("" | "events.k8s.io", "Event") => event = EventView::parse(object).ok(),
            _ => {}
        }
        ObservedChange { key, what, pod, node, event }
    }
}

impl From<What> for ObservedChange {
    /// A change without a source.
    fn from(what: What) -> ObservedChange {
        ObservedChange::parse(what.object().key(&"".into()), what)
    }
}

// === impl ParsedPod ===

impl ParsedPod {
    /// Parses a pod. `None` if a field has a wrong type.
    pub fn parse(pod: &Object) -> Option<ParsedPod> {
        let PodJson { metadata, spec, status } = PodJson::parse(pod.as_str())?;
        let owners = &metadata.owner_references;
        let uid = non_empty(metadata.uid.as_ref());
        let name: Arc<str> = (*metadata.name).into();
        let node = non_empty(spec.node_name.as_ref());
        let condition = |kind: &str, wanted_status: &str| {
            status
                .conditions
                .iter()
                .find(|condition| *condition.kind == *kind && *condition.status == *wanted_status)
        };
        let created = parse_moment(metadata.creation_timestamp.as_ref());
        let phase = Phase::of(status.phase.as_deref().unwrap_or_default());
        let has_started = matches!(phase, Phase::Running | Phase::Succeeded | Phase::Failed);
        Some(ParsedPod {
            has_uid: uid.is_some(),
            uid: uid.unwrap_or_else(|| {
                format!("{}/{name}", metadata.namespace.as_deref().unwrap_or_default()).into()
            }),
            created,
            owner: owners.iter().find(|owner| owner.controller == Some(true)).and_then(Owner::of),
            revision: metadata.labels.revision.map(|revision| (*revision).into()),
            comes_with_node: node.is_some()
                && (owners.is_empty() || owners.iter().any(|owner| owner.kind.as_deref() == Some("Node"))),
            node,
            has_other_scheduler: spec.scheduler_name.is_some_and(|name| *name != *DEFAULT_SCHEDULER),
            is_gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
            is_scheduled: condition("PodScheduled", "True").is_some(),
            not_scheduled: condition("PodScheduled", "False").map(|found| NotScheduledCondition {
                is_gated: found.reason.as_deref() == Some("SchedulingGated"),
                message: found.message.as_ref().map(|message| (**message).into()),
                since: parse_moment(found.last_transition_time.as_ref()),
            }),
            nominated_node: non_empty(status.nominated_node_name.as_ref()),
            phase,
            started: if has_started { parse_moment(status.start_time.as_ref()).or(created) } else { None },
            is_terminating: metadata.deletion_timestamp.is_some(),
            grace_seconds: metadata.deletion_grace_period_seconds,
            disruption: condition("DisruptionTarget", "True")
                .map(|found| Disruption::of(found.reason.as_deref().unwrap_or_default())),
            withdrawn: status.reason.as_deref() == Some(WITHDRAWN_REASON),
            demand_annotation: metadata.annotations.demand.and_then(|annotation| annotation.parse().ok()),
            name,
        })
    }

    /// Whether it has succeeded or failed.
    pub fn is_finished(&self) -> bool {
        self.phase.is_finished()
    }
}

// === impl PodJson ===

impl<'a> PodJson<'a> {
    /// Reads the text once: containers and their statuses, which are most of it, are skipped.
    fn parse(json: &'a str) -> Option<PodJson<'a>> {
        let mut cursor = JsonCursor::new(json);
        if cursor.peek() != b'{' {
            return None;
        }
        let (mut metadata, mut spec, mut status) = (None, None, None);
        cursor.enter();
        while cursor.has_next() {
            let name = cursor.key();
            let start = cursor.at();
            let is_new = match &*name {
                "metadata" => {
                    cursor.skip();
                    metadata.replace(cursor.since(start)).is_none()
                }
                "spec" => spec.replace(SpecJson::read(&mut cursor)?).is_none(),
                "status" => status.replace(StatusJson::read(&mut cursor)?).is_none(),
                _ => {
                    cursor.skip();
                    true
                }
            };
            if !is_new {
                return None;
            }
        }
        if !cursor.is_valid_end() {
            return None;
        }
        let metadata = serde_json::from_str(metadata?).ok()?;
        Some(PodJson { metadata, spec: spec.unwrap_or_default(), status: status.unwrap_or_default() })
    }
}

// === impl SpecJson ===

impl<'a> SpecJson<'a> {
    /// Reads the value at the cursor. `None` if it has a wrong type.
    fn read(cursor: &mut JsonCursor<'a>) -> Option<SpecJson<'a>> {
        if cursor.peek() == b'n' {
            cursor.skip();
            return Some(SpecJson::default());
        }
        let [node_name, scheduler_name, scheduling_gates] =
            cursor.members(["nodeName", "schedulerName", "schedulingGates"])?;
        Some(SpecJson {
            node_name: parse_optional(node_name)?,
            scheduler_name: parse_optional(scheduler_name)?,
            scheduling_gates: parse_optional(scheduling_gates)?,
        })
    }
}

// === impl StatusJson ===

impl<'a> StatusJson<'a> {
    /// Reads the value at the cursor. `None` if it has a wrong type.
    fn read(cursor: &mut JsonCursor<'a>) -> Option<StatusJson<'a>> {
        if cursor.peek() == b'n' {
            cursor.skip();
            return Some(StatusJson::default());
        }
        let names = ["phase", "reason", "startTime", "nominatedNodeName", "conditions"];
        let [phase, reason, start_time, nominated_node_name, conditions] = cursor.members(names)?;
        Some(StatusJson {
            phase: parse_optional(phase)?,
            reason: parse_optional(reason)?,
            start_time: parse_optional(start_time)?,
            nominated_node_name: parse_optional(nominated_node_name)?,
            conditions: parse_optional(conditions)?.unwrap_or_default(),
        })
    }
}

/// Parses a member that may be missing or null. `None` if it has a wrong type.
fn parse_optional<'a, T: Deserialize<'a>>(json: Option<&'a str>) -> Option<Option<T>> {
    json.map_or(Some(None), |json| serde_json::from_str(json).ok())
}

// === impl Owner ===

impl Owner {
    fn of(json: &OwnerJson<'_>) -> Option<Owner> {
        let kind = OwnerKind::of(json.kind.as_deref()?)?;
        Some(Owner { kind, uid: json.uid.as_deref().unwrap_or_default().into() })
    }
}

// === impl OwnerKind ===

impl OwnerKind {
    /// By the name of the kind.
    pub fn of(kind: &str) -> Option<OwnerKind> {
        match kind {
            "ReplicaSet" | "ReplicationController" => Some(OwnerKind::ReplicaSet),
            "StatefulSet" => Some(OwnerKind::StatefulSet),
            "Job" => Some(OwnerKind::Job),
            "DaemonSet" => Some(OwnerKind::DaemonSet),
            _ => None,
        }
    }
}

// === impl Disruption ===

impl Disruption {
    /// By the reason of the condition `DisruptionTarget`.
    fn of(reason: &str) -> Disruption {
        match reason {
            "PreemptionByScheduler" => Disruption::Preempted,
            "EvictionByEvictionAPI" => Disruption::Evicted,
            "DeletionByTaintManager" => Disruption::TaintEvicted,
            "DeletionByPodGC" => Disruption::GarbageCollected,
            "TerminationByKubelet" => Disruption::TerminatedByKubelet,
            _ => Disruption::Other,
        }
    }
}

/// A text, if it is not empty.
fn non_empty(text: Option<&JsonStr<'_>>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(|text| (**text).into())
}

fn parse_moment(text: Option<&JsonStr<'_>>) -> Option<Moment> {
    text?.parse().ok()
}
