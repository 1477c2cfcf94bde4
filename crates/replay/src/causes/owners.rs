//! What the owners of pods want, and which of their pods are missing.

use std::sync::Arc;

use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::{Vacancies, Vacancy};

/// The owner of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) kind: OwnerKind,
    pub(super) uid: Arc<str>,
}

/// The kinds of owners that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerKind {
    ReplicaSet,
    StatefulSet,
    Job,
    DaemonSet,
}

/// All owners, by uid.
#[derive(Debug, Default)]
pub(super) struct Owners(FxHashMap<Arc<str>, State>);

#[derive(Debug, Default)]
struct State {
    /// How many pods it wants; `None` if it was not recorded.
    wanted: Option<i64>,
    /// It is gone, or going.
    gone: bool,
    /// How many of its pods count.
    pods: i64,
    vacancies: Vacancies,
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
    /// A Job has come to its end, one way or the other, and wants no more pods.
    fn is_over(&self) -> bool {
        let ends = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];
        let is_end = |it: &ConditionJson| it.status == "True" && ends.contains(&it.kind.as_str());
        self.conditions.iter().flatten().any(is_end)
    }
}

impl OwnerKind {
    /// The API versions of those kinds.
    pub(super) const VERSIONS: [&str; 3] = ["apps/v1", "batch/v1", "v1"];

    pub(super) fn of(kind: &str) -> Option<OwnerKind> {
        match kind {
            "ReplicaSet" | "ReplicationController" => Some(OwnerKind::ReplicaSet),
            "StatefulSet" => Some(OwnerKind::StatefulSet),
            "Job" => Some(OwnerKind::Job),
            "DaemonSet" => Some(OwnerKind::DaemonSet),
            _ => None,
        }
    }
}

impl Owners {
    /// An owner came, changed or went. Gives the places that nobody will fill any more.
    pub(super) fn see(&mut self, kind: OwnerKind, what: &What) -> Vec<Vacancy> {
        let Some((uid, json)) = read(what.object()) else { return Vec::new() };
        let state = self.0.entry(uid.clone()).or_default();
        let SpecJson { replicas, parallelism, suspend } = json.spec;
        state.wanted = match kind {
            OwnerKind::ReplicaSet | OwnerKind::StatefulSet => Some(replicas.unwrap_or(1)),
            OwnerKind::Job if suspend == Some(true) || json.status.is_over() => Some(0),
            OwnerKind::Job => Some(parallelism.unwrap_or(1)),
            OwnerKind::DaemonSet => None,
        };
        state.gone = json.metadata.deletion_timestamp.is_some() || matches!(what, What::Deleted(_));
        let room =
            if state.gone { 0 } else { state.wanted.unwrap_or(i64::MAX).saturating_sub(state.pods).max(0) };
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let mut over: Vec<Vacancy> = Vec::new();
        while state.vacancies.len() > room
            && let Some(vacancy) = state.vacancies.pop_front()
        {
            if vacancy.lost {
                over.push(vacancy);
            }
        }
        if matches!(what, What::Deleted(_)) && state.pods == 0 {
            self.0.remove(&uid);
        }
        over
    }

    /// The place that a new pod of an owner takes.
    pub(super) fn fill(&mut self, owner: &Owner, slot: Option<&str>) -> Option<Vacancy> {
        let vacancies = &mut self.0.get_mut(&owner.uid)?.vacancies;
        match slot {
            // Whoever was lost is made again before the next one comes.
            None => {
                let place = vacancies.iter().position(|vacancy| vacancy.lost).unwrap_or(0);
                vacancies.remove(place)
            }
            Some(slot) => {
                let place = vacancies.iter().position(|vacancy| vacancy.slot.as_deref() == Some(slot))?;
                vacancies.remove(place)
            }
        }
    }

    /// A pod counts for its owner.
    pub(super) fn joined(&mut self, owner: &Owner) {
        self.0.entry(owner.uid.clone()).or_default().pods += 1;
    }

    /// A pod does not count any more; its owner may fill its place.
    pub(super) fn left(&mut self, owner: &Owner, vacancy: Option<Vacancy>) {
        let Some(state) = self.0.get_mut(&owner.uid) else { return };
        state.pods -= 1;
        if !state.gone {
            state.vacancies.extend(vacancy);
        } else if state.pods <= 0 {
            self.0.remove(&owner.uid);
        }
    }

    /// A pod is gone whose name its owner may use again.
    pub(super) fn gone(&mut self, owner: &Owner, pod: &str, at: Moment) {
        if owner.kind != OwnerKind::StatefulSet {
            return;
        }
        let Some(state) = self.0.get_mut(&owner.uid) else { return };
        let vacancy = state.vacancies.iter_mut().find(|vacancy| vacancy.slot.as_deref() == Some(pod));
        if let Some(vacancy) = vacancy {
            vacancy.gone = Some(at);
        }
    }

    /// Whether an owner deletes a pod because it wants fewer.
    pub(super) fn explains(&self, owner: &Owner, pod: &str) -> bool {
        let Some(state) = self.0.get(&owner.uid) else { return true };
        let Some(wanted) = state.wanted else { return true };
        match owner.kind {
            _ if state.gone => true,
            OwnerKind::DaemonSet => true,
            OwnerKind::StatefulSet => {
                let ordinal = pod.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<i64>().ok());
                ordinal.is_none_or(|ordinal| ordinal >= wanted)
            }
            OwnerKind::ReplicaSet | OwnerKind::Job => state.pods > wanted,
        }
    }
}

fn read(object: &Object) -> Option<(Arc<str>, OwnerJson)> {
    let json: OwnerJson = object.view().ok()?;
    Some((json.metadata.uid.as_deref()?.into(), json))
}
