//! What the owners of pods want, and which of their pods are missing.

use std::collections::VecDeque;
use std::sync::Arc;

use calibration::seen::{Owner, OwnerKind};
use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use simulation::{Again, DemandId, DemandMark};

/// A place for a pod that its owner will fill.
#[derive(Clone, Debug)]
pub(super) struct Vacancy {
    pub(super) demand: DemandId,
    /// The pod was lost, and is made again; or it ended, and the next comes.
    pub(super) lost: bool,
    /// Since when.
    pub(super) since: Moment,
    /// When the pod of the same name was gone, where names are used again.
    pub(super) gone: Option<Moment>,
    /// The name that will be used again, where names are.
    pub(super) slot: Option<Arc<str>>,
    /// Which template the pod was made of, where the owner has several.
    pub(super) hash: Option<Arc<str>>,
    /// Which demand it is by the pod's own word.
    pub(super) mark: Option<DemandMark>,
}

/// All owners, by uid.
#[derive(Debug, Default)]
pub(super) struct Owners {
    of: FxHashMap<Arc<str>, State>,
    /// Those that had no pods any more and were not recorded themselves, so that nobody says when they are gone.
    idle: VecDeque<Arc<str>>,
}

/// So many of those are remembered.
const IDLE: usize = 10_000;

#[derive(Debug, Default)]
struct State {
    is_recorded: bool,
    /// How many pods it wants; `None` if nobody says.
    wanted: Option<i64>,
    /// It is gone, or going.
    gone: bool,
    /// How many of its pods count.
    pods: i64,
    vacancies: VecDeque<Vacancy>,
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

/// The API groups of the kinds of owners that are understood.
pub(super) const GROUPS: [&str; 3] = ["apps", "batch", ""];

/// Who makes a pod again that is lost.
pub(super) fn makes_again(owner: OwnerKind) -> Again {
    match owner {
        OwnerKind::StatefulSet => Again::WhenGone,
        OwnerKind::DaemonSet => Again::Never,
        OwnerKind::ReplicaSet | OwnerKind::Job => Again::AtOnce,
    }
}

impl State {
    /// Whether nothing is left of one that is gone: no pod, and no place that a pod may still tell to be its own.
    fn is_done(&self) -> bool {
        self.pods <= 0 && self.vacancies.iter().all(|vacancy| vacancy.mark.is_none())
    }
}

impl Owners {
    /// An owner came, changed or went. Gives the places that nobody will fill any more; none where pods are marked, and
    /// tell it themselves.
    pub(super) fn see(&mut self, kind: OwnerKind, what: &What, are_marked: bool) -> Vec<Vacancy> {
        let Some((uid, json)) = read(what.object()) else { return Vec::new() };
        let state = self.of.entry(uid.clone()).or_default();
        state.is_recorded = true;
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
            && !are_marked
            && let Some(vacancy) = state.vacancies.pop_front()
        {
            if vacancy.lost {
                over.push(vacancy);
            }
        }
        if matches!(what, What::Deleted(_)) && state.is_done() {
            self.of.remove(&uid);
        }
        over
    }

    /// The place that a new pod of an owner takes.
    pub(super) fn fill(
        &mut self,
        owner: &Owner,
        slot: Option<&str>,
        mark: Option<DemandMark>,
    ) -> Option<Vacancy> {
        let vacancies = &mut self.of.get_mut(&owner.uid)?.vacancies;
        if let Some(mark) = mark {
            let is_its = |vacancy: &Vacancy| {
                let wanted = if vacancy.lost { Some(mark.demand) } else { mark.after };
                vacancy.mark.is_some_and(|of| Some(of.demand) == wanted)
            };
            let place = vacancies.iter().position(is_its)?;
            return vacancies.remove(place);
        }
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
        self.of.entry(owner.uid.clone()).or_default().pods += 1;
    }

    /// A pod does not count any more; its owner may fill its place. Whether it is kept for that.
    pub(super) fn left(&mut self, owner: &Owner, vacancy: Option<Vacancy>) -> bool {
        let Some(state) = self.of.get_mut(&owner.uid) else { return false };
        state.pods -= 1;
        // One that is marked is known again, and tells itself whether its owner still made it.
        let keeps = !state.gone || vacancy.as_ref().is_some_and(|vacancy| vacancy.mark.is_some());
        if keeps {
            state.vacancies.extend(vacancy);
            if state.pods <= 0 && !state.is_recorded {
                self.idle.push_back(owner.uid.clone());
            }
        } else if state.is_done() {
            self.of.remove(&owner.uid);
        }
        keeps
    }

    /// Forgets one of too many owners that may be gone. Gives the places that nobody will fill any more.
    pub(super) fn forget_idle(&mut self) -> Vec<Vacancy> {
        if self.idle.len() <= IDLE {
            return Vec::new();
        }
        let Some(uid) = self.idle.pop_front() else { return Vec::new() };
        match self.of.get(&uid) {
            Some(State { is_recorded: false, pods: ..=0, .. }) => {}
            Some(_) | None => return Vec::new(),
        }
        let vacancies = self.of.remove(&uid).map(|state| state.vacancies).unwrap_or_default();
        vacancies.into_iter().filter(|vacancy| vacancy.lost).collect()
    }

    /// A pod is gone whose name its owner may use again.
    pub(super) fn gone(&mut self, owner: &Owner, pod: &str, at: Moment) {
        if owner.kind != OwnerKind::StatefulSet {
            return;
        }
        let Some(state) = self.of.get_mut(&owner.uid) else { return };
        let vacancy = state.vacancies.iter_mut().find(|vacancy| vacancy.slot.as_deref() == Some(pod));
        if let Some(vacancy) = vacancy {
            vacancy.gone = Some(at);
        }
    }

    /// Nobody fills the place of a demand.
    pub(super) fn forget(&mut self, owner: &Owner, demand: DemandId) {
        if let Some(state) = self.of.get_mut(&owner.uid) {
            state.vacancies.retain(|vacancy| vacancy.demand != demand);
        }
    }

    /// The places that are still to be filled.
    pub(super) fn vacancies(&self) -> impl Iterator<Item = &Vacancy> {
        self.of.values().flat_map(|state| &state.vacancies)
    }

    /// Whether an owner deletes a pod because it wants fewer.
    pub(super) fn explains(&self, owner: &Owner, pod: &str) -> bool {
        let Some(state) = self.of.get(&owner.uid) else { return true };
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
