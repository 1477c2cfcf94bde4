//! A change of a recording, read once for all who learn from it.

use std::sync::Arc;

use kubernetes::read::nullable;
use model::{Key, Moment, Object, Text, What};
use serde::Deserialize;
use serde::de::IgnoredAny;
use simulation::{DemandMark, WITHDRAWN};

/// A change of a recording, and what it tells.
#[derive(Debug)]
pub struct Seen {
    /// Of which object.
    pub key: Key,
    /// What happened to it.
    pub what: What,
    /// What it tells, if it is of a pod that can be understood.
    pub pod: Option<PodSeen>,
}

/// What a version of a pod tells of its fate.
#[derive(Debug)]
pub struct PodSeen {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid, or its namespace and name where it has none.
    pub uid: Arc<str>,
    /// Whether it has one.
    pub has_uid: bool,
    /// When it was created.
    pub created: Option<Moment>,
    /// Its controller, if it is of a kind that is understood.
    pub owner: Option<Owner>,
    /// Which of its owner's templates it is made of, where the owner has several.
    pub revision: Option<Arc<str>>,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// It has a node and nobody who would make it again: if it is new, its node brought it, as a kubelet does with
    /// what it runs of its own.
    pub comes_with_node: bool,
    /// It is for another scheduler than the usual one.
    pub is_others: bool,
    /// It is kept from being scheduled.
    pub is_gated: bool,
    /// The scheduler says that it has a node, whether or not that was recorded.
    pub is_scheduled: bool,
    /// The scheduler says that no node takes it.
    pub refusal: Option<Refusal>,
    /// The node that the scheduler promised it.
    pub nominated: Option<Arc<str>>,
    /// How far it has come.
    pub phase: Phase,
    /// Since when it runs. Whoever runs has started, be it that nothing tells when.
    pub started: Option<Moment>,
    /// It is being deleted.
    pub leaving: bool,
    /// How many seconds that may take.
    pub grace: Option<i64>,
    /// It is ended by something else than its owner.
    pub disruption: Option<Disruption>,
    /// A replay says that it was not wanted any more.
    pub withdrawn: bool,
    /// Which demand it is of, as a replay writes it on its pods.
    pub mark: Option<DemandMark>,
}

/// The owner of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What it is.
    pub kind: OwnerKind,
    /// Its uid.
    pub uid: Arc<str>,
}

/// The kinds of owners that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// A ReplicaSet, or what there was before them.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
    /// A Job.
    Job,
    /// A DaemonSet.
    DaemonSet,
}

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It does not run yet.
    Pending,
    /// It runs.
    Running,
    /// It has ended well.
    Succeeded,
    /// It has ended otherwise.
    Failed,
    /// Nobody knows.
    Unknown,
}

/// What the scheduler says of a pod that no node takes.
#[derive(Debug)]
pub struct Refusal {
    /// It was not even tried.
    pub is_gated: bool,
    /// Why.
    pub message: Option<Arc<str>>,
    /// Since when.
    pub since: Option<Moment>,
}

/// What ends a pod besides its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// The scheduler, for one of higher priority.
    Preempted,
    /// Somebody who drains its node.
    Evicted,
    /// A taint of its node.
    Tainted,
    /// Its node is gone.
    Collected,
    /// Its kubelet.
    Stopped,
    /// Something else.
    Other,
}

#[derive(Deserialize)]
struct PodJson<'a> {
    #[serde(borrow)]
    metadata: MetadataJson<'a>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    spec: SpecJson<'a>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    status: StatusJson<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    creation_timestamp: Option<Text<'a>>,
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
    revision: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
struct AnnotationsJson<'a> {
    #[serde(rename = "replay.kinescope.io/demand", borrow)]
    demand: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct OwnerJson<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecJson<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
    #[serde(borrow)]
    scheduler_name: Option<Text<'a>>,
    scheduling_gates: Option<Vec<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusJson<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    #[serde(borrow)]
    start_time: Option<Text<'a>>,
    #[serde(borrow)]
    nominated_node_name: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    conditions: Vec<ConditionJson<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionJson<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    #[serde(borrow)]
    message: Option<Text<'a>>,
    #[serde(borrow)]
    last_transition_time: Option<Text<'a>>,
}

const DEFAULT_SCHEDULER: &str = "default-scheduler";

// === impl Seen ===

impl Seen {
    /// Reads what a change tells.
    pub fn of(key: Key, what: What) -> Seen {
        let is_pod = key.kind.group.is_empty() && *key.kind.kind == *"Pod";
        let pod = is_pod.then(|| PodSeen::read(what.object()).ok()).flatten();
        Seen { key, what, pod }
    }
}

impl From<What> for Seen {
    /// One that is of no recording.
    fn from(what: What) -> Seen {
        Seen::of(what.object().key(&"".into()), what)
    }
}

// === impl PodSeen ===

impl PodSeen {
    /// Reads what a version of a pod tells.
    pub fn read(pod: &Object) -> Result<PodSeen, serde_json::Error> {
        let PodJson { metadata, spec, status } = pod.view()?;
        let owners = &metadata.owner_references;
        let uid = shared(metadata.uid.as_ref());
        let name: Arc<str> = (*metadata.name).into();
        let node = shared(spec.node_name.as_ref());
        let condition = |kind: &str, word: &str| {
            status.conditions.iter().find(|condition| *condition.kind == *kind && *condition.status == *word)
        };
        let created = moment(metadata.creation_timestamp.as_ref());
        let phase = Phase::of(status.phase.as_deref().unwrap_or_default());
        let runs = matches!(phase, Phase::Running | Phase::Succeeded | Phase::Failed);
        Ok(PodSeen {
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
            is_others: spec.scheduler_name.is_some_and(|name| *name != *DEFAULT_SCHEDULER),
            is_gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
            is_scheduled: condition("PodScheduled", "True").is_some(),
            refusal: condition("PodScheduled", "False").map(|it| Refusal {
                is_gated: it.reason.as_deref() == Some("SchedulingGated"),
                message: it.message.as_ref().map(|message| (**message).into()),
                since: moment(it.last_transition_time.as_ref()),
            }),
            nominated: shared(status.nominated_node_name.as_ref()),
            phase,
            started: if runs { moment(status.start_time.as_ref()).or(created) } else { None },
            leaving: metadata.deletion_timestamp.is_some(),
            grace: metadata.deletion_grace_period_seconds,
            disruption: condition("DisruptionTarget", "True")
                .map(|it| Disruption::of(it.reason.as_deref().unwrap_or_default())),
            withdrawn: status.reason.as_deref() == Some(WITHDRAWN),
            mark: metadata.annotations.demand.and_then(|mark| mark.parse().ok()),
            name,
        })
    }

    /// Whether its containers have ended for good.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }
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

// === impl Phase ===

impl Phase {
    fn of(word: &str) -> Phase {
        match word {
            "Pending" | "" => Phase::Pending,
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ => Phase::Unknown,
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
            "DeletionByTaintManager" => Disruption::Tainted,
            "DeletionByPodGC" => Disruption::Collected,
            "TerminationByKubelet" => Disruption::Stopped,
            _ => Disruption::Other,
        }
    }
}

/// A text that says something.
fn shared(text: Option<&Text<'_>>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(|text| (**text).into())
}

fn moment(text: Option<&Text<'_>>) -> Option<Moment> {
    text?.parse().ok()
}
