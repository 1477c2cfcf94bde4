//! Pod owners: the number of pods that each wants, and the pods that it is expected to create.

use std::collections::VecDeque;
use std::sync::Arc;

use calibration::observed::{Owner, OwnerKind};
use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use simulation::{DemandAnnotation, DemandId, RecreatePolicy};

/// A pod that its owner is expected to create.
#[derive(Clone, Debug)]
pub(super) struct AwaitedPod {
    pub(super) demand: DemandId,
    /// It recreates an evicted pod; otherwise it follows one that ended.
    pub(super) is_replacement: bool,
    /// Since when it is expected.
    pub(super) since: Moment,
    /// When the previous pod of the same name was deleted, where names are reused.
    pub(super) predecessor_deleted: Option<Moment>,
    /// The name that will be reused, where names are.
    pub(super) pod_name: Option<Arc<str>>,
    /// The revision hash of the pod's template, where the owner has several.
    pub(super) revision: Option<Arc<str>>,
    /// The demand that the previous pod's annotation names.
    pub(super) demand_annotation: Option<DemandAnnotation>,
}

/// All owners, by uid.
#[derive(Debug, Default)]
pub(super) struct OwnerTracker {
    by_uid: FxHashMap<Arc<str>, OwnerState>,
    /// Owners without pods that were not recorded themselves, so that their deletion is never observed.
    idle: VecDeque<Arc<str>>,
}

/// The number of idle owners that are remembered.
const MAX_IDLE_OWNERS: usize = 10_000;

#[derive(Debug, Default)]
struct OwnerState {
    is_recorded: bool,
    /// The number of pods that it wants; `None` if unknown.
    desired_pods: Option<i64>,
    /// It was deleted, or is being deleted.
    is_deleted: bool,
    /// The number of pods that count for it.
    pods: i64,
    awaited: VecDeque<AwaitedPod>,
}

#[derive(Deserialize)]
struct OwnerJson {
    metadata: MetadataJson,
    #[serde(default)]
    spec: SpecJson,
    #[serde(default)]
    status: StatusJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson {
    uid: Option<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
struct SpecJson {
    replicas: Option<i64>,
    parallelism: Option<i64>,
    suspend: Option<bool>,
}

#[derive(Default, Deserialize)]
struct StatusJson {
    #[serde(default)]
    conditions: Option<Vec<ConditionJson>>,
}

#[derive(Deserialize)]
struct ConditionJson {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    status: String,
}

impl StatusJson {
    /// A Job has finished, successfully or not, and wants no more pods.
    fn is_finished(&self) -> bool {
        let end_conditions = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];
        let is_end = |condition: &ConditionJson| {
            condition.status == "True" && end_conditions.contains(&condition.kind.as_str())
        };
        self.conditions.iter().flatten().any(is_end)
    }
}

/// The API groups of the supported kinds of owners.
pub(super) const OWNER_API_GROUPS: [&str; 3] = ["apps", "batch", ""];

/// Returns if and when an owner of this kind recreates an evicted pod.
pub(super) fn recreate_policy(owner: OwnerKind) -> RecreatePolicy {
    match owner {
        OwnerKind::StatefulSet => RecreatePolicy::WhenGone,
        OwnerKind::DaemonSet => RecreatePolicy::Never,
        OwnerKind::ReplicaSet | OwnerKind::Job => RecreatePolicy::WhenTerminating,
    }
}

impl OwnerState {
    /// Whether a deleted owner can be forgotten: it has no pod, and awaits none that an annotation may name.
    fn can_be_forgotten(&self) -> bool {
        self.pods <= 0 && self.awaited.iter().all(|awaited| awaited.demand_annotation.is_none())
    }
}

impl OwnerTracker {
    /// Takes a change of an owner. Returns the awaited pods that it will no longer create; none where pods are
    /// annotated, as their annotations are decisive.
    pub(super) fn observe(
        &mut self,
        kind: OwnerKind,
        what: &What,
        recording_is_replay: bool,
    ) -> Vec<AwaitedPod> {
        let Some((uid, json)) = parse_owner(what.object()) else { return Vec::new() };
        let state = self.by_uid.entry(uid.clone()).or_default();
        state.is_recorded = true;
        let SpecJson { replicas, parallelism, suspend } = json.spec;
        state.desired_pods = match kind {
            OwnerKind::ReplicaSet | OwnerKind::StatefulSet => Some(replicas.unwrap_or(1)),
            OwnerKind::Job if suspend == Some(true) || json.status.is_finished() => Some(0),
            OwnerKind::Job => Some(parallelism.unwrap_or(1)),
            OwnerKind::DaemonSet => None,
        };
        state.is_deleted = json.metadata.deletion_timestamp.is_some() || matches!(what, What::Deleted(_));
        let missing_pods = if state.is_deleted {
            0
        } else {
            state.desired_pods.unwrap_or(i64::MAX).saturating_sub(state.pods).max(0)
        };
        let missing_pods = usize::try_from(missing_pods).unwrap_or(usize::MAX);
        let mut withdrawn: Vec<AwaitedPod> = Vec::new();
        while state.awaited.len() > missing_pods
            && !recording_is_replay
            && let Some(awaited) = state.awaited.pop_front()
        {
            if awaited.is_replacement {
                withdrawn.push(awaited);
            }
        }
        if matches!(what, What::Deleted(_)) && state.can_be_forgotten() {
            self.by_uid.remove(&uid);
        }
        withdrawn
    }

    /// Removes and returns the awaited pod that a new pod of an owner is.
    pub(super) fn take_awaited(
        &mut self,
        owner: &Owner,
        pod_name: Option<&str>,
        annotation: Option<DemandAnnotation>,
    ) -> Option<AwaitedPod> {
        let awaited_pods = &mut self.by_uid.get_mut(&owner.uid)?.awaited;
        if let Some(annotation) = annotation {
            let is_match = |awaited: &AwaitedPod| {
                let wanted = if awaited.is_replacement { Some(annotation.demand) } else { annotation.after };
                awaited.demand_annotation.is_some_and(|found| Some(found.demand) == wanted)
            };
            let position = awaited_pods.iter().position(is_match)?;
            return awaited_pods.remove(position);
        }
        match pod_name {
            // Evicted pods are recreated before the next ones are created.
            None => {
                let position = awaited_pods.iter().position(|awaited| awaited.is_replacement).unwrap_or(0);
                awaited_pods.remove(position)
            }
            Some(pod_name) => {
                let position =
                    awaited_pods.iter().position(|awaited| awaited.pod_name.as_deref() == Some(pod_name))?;
                awaited_pods.remove(position)
            }
        }
    }

    /// A pod begins to count for its owner.
    pub(super) fn pod_added(&mut self, owner: &Owner) {
        self.by_uid.entry(owner.uid.clone()).or_default().pods += 1;
    }

    /// A pod no longer counts; its owner may create another. Returns whether that one is awaited.
    pub(super) fn pod_removed(&mut self, owner: &Owner, awaited: Option<AwaitedPod>) -> bool {
        let Some(state) = self.by_uid.get_mut(&owner.uid) else { return false };
        state.pods -= 1;
        // An annotated pod is recognized later, and its annotation decides whether its owner still created it.
        let keeps =
            !state.is_deleted || awaited.as_ref().is_some_and(|awaited| awaited.demand_annotation.is_some());
        if keeps {
            state.awaited.extend(awaited);
            if state.pods <= 0 && !state.is_recorded {
                self.idle.push_back(owner.uid.clone());
            }
        } else if state.can_be_forgotten() {
            self.by_uid.remove(&owner.uid);
        }
        keeps
    }

    /// Forgets one of too many owners that may have been deleted. Returns its awaited pods.
    pub(super) fn forget_idle(&mut self) -> Vec<AwaitedPod> {
        if self.idle.len() <= MAX_IDLE_OWNERS {
            return Vec::new();
        }
        let Some(uid) = self.idle.pop_front() else { return Vec::new() };
        match self.by_uid.get(&uid) {
            Some(OwnerState { is_recorded: false, pods: ..=0, .. }) => {}
            Some(_) | None => return Vec::new(),
        }
        let awaited_pods = self.by_uid.remove(&uid).map(|state| state.awaited).unwrap_or_default();
        awaited_pods.into_iter().filter(|awaited| awaited.is_replacement).collect()
    }

    /// A pod was deleted whose name its owner may reuse.
    pub(super) fn pod_deleted(&mut self, owner: &Owner, pod: &str, at: Moment) {
        if owner.kind != OwnerKind::StatefulSet {
            return;
        }
        let Some(state) = self.by_uid.get_mut(&owner.uid) else { return };
        let awaited = state.awaited.iter_mut().find(|awaited| awaited.pod_name.as_deref() == Some(pod));
        if let Some(awaited) = awaited {
            awaited.predecessor_deleted = Some(at);
        }
    }

    /// Stops awaiting the pod of a demand.
    pub(super) fn forget_awaited(&mut self, owner: &Owner, demand: DemandId) {
        if let Some(state) = self.by_uid.get_mut(&owner.uid) {
            state.awaited.retain(|awaited| awaited.demand != demand);
        }
    }

    /// All awaited pods.
    pub(super) fn awaited_pods(&self) -> impl Iterator<Item = &AwaitedPod> {
        self.by_uid.values().flat_map(|state| &state.awaited)
    }

    /// Whether an owner deletes a pod because it wants fewer pods.
    pub(super) fn explains_deletion(&self, owner: &Owner, pod: &str) -> bool {
        let Some(state) = self.by_uid.get(&owner.uid) else { return true };
        let Some(desired) = state.desired_pods else { return true };
        match owner.kind {
            _ if state.is_deleted => true,
            OwnerKind::DaemonSet => true,
            OwnerKind::StatefulSet => {
                let ordinal = pod.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<i64>().ok());
                ordinal.is_none_or(|ordinal| ordinal >= desired)
            }
            OwnerKind::ReplicaSet | OwnerKind::Job => state.pods > desired,
        }
    }
}

fn parse_owner(object: &Object) -> Option<(Arc<str>, OwnerJson)> {
    let json: OwnerJson = object.view().ok()?;
    Some((json.metadata.uid.as_deref()?.into(), json))
}
