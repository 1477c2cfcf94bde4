//! The parsed status of a pod.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use model::{JsonStr, Moment};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::pod_spec::ResourceRequirements;
use crate::read::{moment, non_empty, nullable};
use crate::resource_list::ResourceList;

/// The fields of a pod's status that components read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// Its phase.
    #[serde(deserialize_with = "nullable")]
    pub phase: Phase,
    /// Why it is in this phase; mostly empty.
    #[serde(deserialize_with = "nullable")]
    pub reason: Cow<'static, str>,
    /// The node that it is nominated to.
    #[serde(deserialize_with = "non_empty")]
    pub nominated_node_name: Option<Arc<str>>,
    /// When the kubelet accepted it.
    #[serde(deserialize_with = "moment")]
    pub start_time: Option<Moment>,
    /// Its conditions.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<PodCondition>,
    /// The statuses of its containers.
    #[serde(deserialize_with = "nullable")]
    pub container_statuses: Arc<[ContainerStatus]>,
    /// The statuses of its init containers.
    #[serde(deserialize_with = "nullable")]
    pub init_container_statuses: Arc<[ContainerStatus]>,
    /// The actual resources of the pod as a whole, after a resize.
    pub resources: Option<ResourceRequirements>,
    /// The resources that were allocated to the pod as a whole.
    pub allocated_resources: ResourceList,
    /// The claims that were generated for it, as listed. They are only compared.
    pub resource_claim_statuses: Option<Value>,
    /// The claim that was generated for its extended resources.
    pub extended_resource_claim_status: Option<Value>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It is not running yet, or has no status.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers have succeeded.
    Succeeded,
    /// All containers have ended, and one failed.
    Failed,
    /// Its node does not report, or a phase that Kubernetes does not define.
    Unknown,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: PodConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why.
    #[serde(deserialize_with = "nullable")]
    pub reason: Cow<'static, str>,
    /// Why, in words.
    pub message: Option<Arc<str>>,
    /// When its status last changed.
    #[serde(deserialize_with = "moment")]
    pub last_transition_time: Option<Moment>,
}

/// The types of conditions that components read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodConditionType {
    /// It is bound to a node.
    PodScheduled,
    /// Its init containers have succeeded.
    Initialized,
    /// All its containers are ready.
    ContainersReady,
    /// It can serve requests.
    Ready,
    /// It is about to be terminated by a disruption.
    DisruptionTarget,
    /// A resize was requested and is not done.
    PodResizePending,
    /// Any other type.
    #[default]
    Other,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is unknown.
    #[default]
    Unknown,
}

/// The status of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
    /// How often it was restarted.
    #[serde(deserialize_with = "nullable")]
    pub restart_count: i64,
    /// When it terminated, if it has.
    #[serde(rename = "state", deserialize_with = "finished_at")]
    pub finished_at: Option<Moment>,
    /// Its actual resources.
    pub resources: Option<ResourceRequirements>,
    /// The resources that were allocated to it.
    pub allocated_resources: ResourceList,
}

impl PodStatus {
    /// The first condition of this type.
    pub fn condition(&self, kind: PodConditionType) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// When it was bound, according to its condition PodScheduled.
    pub fn bound_at(&self) -> Option<Moment> {
        let mut bound = self.conditions.iter().filter(|condition| {
            condition.kind == PodConditionType::PodScheduled && condition.status == ConditionStatus::True
        });
        bound.find_map(|condition| condition.last_transition_time)
    }

    /// Whether the scheduler marked it as unschedulable.
    pub fn is_unschedulable(&self) -> bool {
        self.conditions.iter().any(PodCondition::is_unschedulable)
    }

    /// Whether its phase is Succeeded or Failed.
    pub fn is_finished(&self) -> bool {
        self.phase.is_finished()
    }
}

impl PodCondition {
    /// Whether it says that no node is feasible.
    pub fn is_unschedulable(&self) -> bool {
        self.kind == PodConditionType::PodScheduled
            && self.status == ConditionStatus::False
            && self.reason == "Unschedulable"
    }
}

impl Phase {
    /// By its name. Empty means Pending, as before the first status.
    pub fn of(name: &str) -> Phase {
        match name {
            "Pending" | "" => Phase::Pending,
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ => Phase::Unknown,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
            Phase::Unknown => "Unknown",
        }
    }

    /// Whether it is Succeeded or Failed.
    pub fn is_finished(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PodConditionType {
    const NAMED: [PodConditionType; 6] = [
        PodConditionType::PodScheduled,
        PodConditionType::Initialized,
        PodConditionType::ContainersReady,
        PodConditionType::Ready,
        PodConditionType::DisruptionTarget,
        PodConditionType::PodResizePending,
    ];

    fn of(name: &str) -> PodConditionType {
        let named = PodConditionType::NAMED.into_iter().find(|kind| kind.name() == name);
        named.unwrap_or(PodConditionType::Other)
    }

    /// Its name; empty for any other type.
    pub fn name(self) -> &'static str {
        match self {
            PodConditionType::PodScheduled => "PodScheduled",
            PodConditionType::Initialized => "Initialized",
            PodConditionType::ContainersReady => "ContainersReady",
            PodConditionType::Ready => "Ready",
            PodConditionType::DisruptionTarget => "DisruptionTarget",
            PodConditionType::PodResizePending => "PodResizePending",
            PodConditionType::Other => "",
        }
    }
}

impl ConditionStatus {
    fn of(name: &str) -> ConditionStatus {
        match name {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

impl<'de> Deserialize<'de> for Phase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Phase, D::Error> {
        JsonStr::deserialize(deserializer).map(|name| Phase::of(&name))
    }
}

impl<'de> Deserialize<'de> for PodConditionType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PodConditionType, D::Error> {
        JsonStr::deserialize(deserializer).map(|name| PodConditionType::of(&name))
    }
}

impl<'de> Deserialize<'de> for ConditionStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConditionStatus, D::Error> {
        JsonStr::deserialize(deserializer).map(|name| ConditionStatus::of(&name))
    }
}

/// Deserializes the state of a container as the time at which it terminated.
fn finished_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Moment>, D::Error> {
    #[derive(Deserialize)]
    struct State {
        terminated: Option<Terminated>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Terminated {
        #[serde(default, deserialize_with = "moment")]
        finished_at: Option<Moment>,
    }
    let state = Option::<State>::deserialize(deserializer)?;
    Ok(state.and_then(|state| state.terminated?.finished_at))
}
