//! Pod owners: the number of pods that each wants, and the pods that it is expected to create.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use calibration::observed::{Owner, OwnerKind};
use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use simulation::{DemandAnnotation, DemandId, RecreatePolicy};

use super::awaited_pods::{AwaitedPod, AwaitedPods};
use super::encoding::{Field, fields};
use super::file_map::FileMap;
use super::positioned_file::corrupt_file;

/// All owners, by uid.
#[derive(Debug, Default)]
pub(super) struct OwnerTracker {
    by_uid: FxHashMap<Arc<str>, OwnerState>,
    /// Deleted owners, by uid, of which an annotated pod may still be recognized. They are never forgotten, but rarely
    /// needed again.
    deleted: FileMap,
    has_deleted: bool,
    /// Unrecorded owners that had no pods left at some time. Their deletion is never observed.
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
    awaited: AwaitedPods,
}

fields!(OwnerState { is_recorded, desired_pods, is_deleted, pods, awaited });

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

impl OwnerTracker {
    /// Takes a change of an owner. Returns the awaited pods that it will no longer create; none where pods are
    /// annotated, as their annotations are decisive.
    pub(super) fn observe(
        &mut self,
        kind: OwnerKind,
        what: &What,
        recording_is_replay: bool,
    ) -> io::Result<Vec<AwaitedPod>> {
        let Some((uid, json)) = parse_owner(what.object()) else { return Ok(Vec::new()) };
        let state = self.load_or_insert(&uid)?;
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
            && let Some(awaited) = state.awaited.take_first()
        {
            if awaited.is_replacement {
                withdrawn.push(awaited);
            }
        }
        if matches!(what, What::Deleted(_)) {
            self.release_if_deleted(&uid)?;
        }
        Ok(withdrawn)
    }

    /// Removes and returns the awaited pod that matches a new pod.
    pub(super) fn take_awaited(
        &mut self,
        owner: &Owner,
        pod_name: Option<&str>,
        annotation: Option<DemandAnnotation>,
    ) -> io::Result<Option<AwaitedPod>> {
        let Some(OwnerState { awaited, .. }) = self.load(&owner.uid)? else { return Ok(None) };
        Ok(match (annotation, pod_name) {
            (Some(annotation), _) => awaited.take_annotated(annotation),
            // Evicted pods are recreated before the next ones are created.
            (None, None) => awaited.take_next(),
            (None, Some(pod_name)) => awaited.take_named(pod_name),
        })
    }

    /// A pod begins to count for its owner.
    pub(super) fn pod_added(&mut self, owner: &Owner) -> io::Result<()> {
        self.load_or_insert(&owner.uid)?.pods += 1;
        Ok(())
    }

    /// A pod no longer counts; its owner may create another. Returns whether that one is awaited.
    pub(super) fn pod_removed(&mut self, owner: &Owner, awaited: Option<AwaitedPod>) -> io::Result<bool> {
        let Some(state) = self.load(&owner.uid)? else { return Ok(false) };
        state.pods -= 1;
        // An annotated pod is recognized later, and its annotation decides whether its owner still created it.
        let keeps =
            !state.is_deleted || awaited.as_ref().is_some_and(|awaited| awaited.demand_annotation.is_some());
        if keeps {
            awaited.into_iter().for_each(|awaited| state.awaited.push(awaited));
            if state.pods <= 0 && !state.is_recorded {
                self.idle.push_back(owner.uid.clone());
            }
        }
        self.release_if_deleted(&owner.uid)?;
        Ok(keeps)
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
        awaited_pods.iter().filter(|awaited| awaited.is_replacement).cloned().collect()
    }

    /// A pod was deleted whose name its owner may reuse.
    pub(super) fn pod_deleted(&mut self, owner: &Owner, pod: &str, at: Moment) -> io::Result<()> {
        if owner.kind == OwnerKind::StatefulSet
            && let Some(state) = self.load(&owner.uid)?
        {
            state.awaited.set_predecessor_deleted(pod, at);
        }
        self.release_if_deleted(&owner.uid)
    }

    /// Stops awaiting the pod of a demand.
    pub(super) fn forget_awaited(&mut self, owner: &Owner, demand: DemandId) -> io::Result<()> {
        if let Some(state) = self.load(&owner.uid)? {
            state.awaited.remove_demand(demand);
        }
        self.release_if_deleted(&owner.uid)
    }

    /// All awaited pods that recreate evicted ones.
    pub(super) fn awaited_replacements(&self) -> impl Iterator<Item = &AwaitedPod> {
        // Stored owners await no such pods.
        let awaited_pods = self.by_uid.values().flat_map(|state| state.awaited.iter());
        awaited_pods.filter(|awaited| awaited.is_replacement)
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

    /// The state of an owner, if it is known.
    fn load(&mut self, uid: &Arc<str>) -> io::Result<Option<&mut OwnerState>> {
        if self.has_deleted
            && !self.by_uid.contains_key(uid)
            && let Some(state) = self.deleted.take(uid.as_bytes())?
        {
            let state = Field::read(&mut &state[..]).ok_or_else(corrupt_file)?;
            self.by_uid.insert(uid.clone(), state);
        }
        Ok(self.by_uid.get_mut(uid))
    }

    fn load_or_insert(&mut self, uid: &Arc<str>) -> io::Result<&mut OwnerState> {
        self.load(uid)?;
        Ok(self.by_uid.entry(uid.clone()).or_default())
    }

    /// Forgets a deleted owner without pods, or stores it if an annotation may name a pod that it awaits.
    fn release_if_deleted(&mut self, uid: &Arc<str>) -> io::Result<()> {
        let Some(state) = self.by_uid.get(uid).filter(|state| state.is_deleted && state.pods <= 0) else {
            return Ok(());
        };
        if !state.awaited.has_annotation() {
            self.by_uid.remove(uid);
        } else if !state.awaited.has_replacement() {
            self.deleted.update(uid.as_bytes(), |stored| state.write(stored))?;
            self.has_deleted = true;
            self.by_uid.remove(uid);
        }
        Ok(())
    }
}

fn parse_owner(object: &Object) -> Option<(Arc<str>, OwnerJson)> {
    let json: OwnerJson = object.view().ok()?;
    Some((json.metadata.uid.as_deref()?.into(), json))
}
