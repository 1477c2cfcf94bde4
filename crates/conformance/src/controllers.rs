//! Comparison of the re-created controllers with the real kube-controller-manager on a recording.
//!
//! Our controllers receive every recorded change, including those that the real controllers made, and after each change
//! return the API calls they would make; the calls are not carried out. A real action counts as equal if ours planned
//! it shortly before: the real controllers have watches of their own, earlier or later than the recording's, and their
//! writes take time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use controllers::{ApiCall, Controller, Controllers};
use model::{Moment, Object, What};
use serde_json::Value;

use crate::recording::{MatchRatio, WatchEventLine};
use crate::{Error, JsonLines, Result};

/// How long after ours a real controller may act, in nanoseconds.
const MAX_DELAY: i64 = 2_000_000_000;
/// How far the real controllers' watches may be ahead of the recording's, in nanoseconds.
const MAX_WATCH_LEAD: i64 = 100_000_000;
/// How much earlier than recorded our controllers receive users' changes, in nanoseconds.
const USER_CHANGE_LEAD: i64 = 30_000_000;
/// A planned pod counts as unfulfilled if the real controllers have not created it after so many nanoseconds.
const UNFULFILLED_AFTER: i64 = 5_000_000_000;

/// The result of the comparison on one recording.
#[derive(Clone, Debug, Default)]
pub struct ControllersReport {
    /// The recording's name.
    pub name: String,
    /// By action: how many of the real controllers' actions ours planned too.
    pub by_action: BTreeMap<ControllerAction, MatchRatio>,
    /// Owners for which ours planned a pod for some time and the real controllers created none.
    pub unfulfilled: u64,
    /// Statuses at the end of the recording that ours would not change.
    pub settled: MatchRatio,
    /// The first real actions that ours did not plan.
    pub examples: Vec<String>,
}

/// The kinds of actions compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerAction {
    /// A Deployment creates a ReplicaSet with the same number of replicas.
    ReplicaSetCreated,
    /// A Deployment scales a ReplicaSet to the same number of replicas.
    ReplicaSetScaled,
    /// A ReplicaSet creates a pod.
    ReplicaSetPodCreated,
    /// A ReplicaSet with too many pods deletes the same pod.
    ReplicaSetPodDeleted,
    /// A StatefulSet creates a pod of the same name.
    StatefulSetPodCreated,
    /// A DaemonSet creates a pod for the same node.
    DaemonSetPodCreated,
    /// A Job creates a pod.
    JobPodCreated,
    /// A CronJob creates a Job of the same name.
    JobCreated,
    /// The garbage collector deletes an object because its owner is deleted.
    GarbageCollected,
    /// The status of a PodDisruptionBudget, without times.
    DisruptionBudgetStatus,
    /// The status of a ReplicaSet, without times.
    ReplicaSetStatus,
    /// The status of a Deployment, without times.
    DeploymentStatus,
    /// The status of a StatefulSet, without times.
    StatefulSetStatus,
    /// The status of a DaemonSet, without times.
    DaemonSetStatus,
    /// The status of a Job, without times.
    JobStatus,
}

/// The actions our controllers planned, by kind of action and uid of the object concerned.
type PlannedActions = BTreeMap<(ControllerAction, String), Vec<PlannedAction>>;

/// An action that our controllers planned.
#[derive(Clone)]
struct PlannedAction {
    at: Moment,
    /// The number of the round in which it was planned.
    round: u64,
    detail: Value,
}

/// An action of a real controller. `subject` is the uid of the object concerned.
struct ObservedAction {
    action: ControllerAction,
    subject: String,
    at: Moment,
    detail: Value,
}

/// Plays a recording to our controllers and compares their actions. Keeps the first `show` examples of each action.
pub fn compare_controllers(mut lines: JsonLines, show: usize) -> Result<ControllersReport> {
    let name = lines.file().rsplit('/').next().unwrap_or_default();
    let name = name.split('.').next().unwrap_or_default().to_owned();
    let mut playback = ControllerPlayback::new();
    let mut events = Vec::new();
    let mut generations: BTreeMap<String, Value> = BTreeMap::new();
    while let Some(line) = lines.read()? {
        match WatchEventLine::read(line) {
            Ok(Some((at, what))) => {
                events.push((at.plus_nanos(-user_change_lead(&what, &mut generations)), what))
            }
            Ok(None) => {}
            Err(why) => return Err(lines.line_error(why)),
        }
    }
    if events.is_empty() {
        return Err(Error::Empty { file: lines.file().to_owned(), what: "no event" });
    }
    events.sort_by_key(|(at, _)| *at);
    for (at, what) in &events {
        playback.apply(*at, what);
    }
    let (unfulfilled, settled) = (playback.count_unfulfilled(), playback.count_settled());
    let mut report = ControllersReport { name, unfulfilled, settled, ..ControllersReport::default() };
    let mut shown: BTreeMap<ControllerAction, usize> = BTreeMap::new();
    for (observed, is_planned) in playback.observed.iter().zip(playback.match_observed()) {
        let ratio = report.by_action.entry(observed.action).or_default();
        ratio.total += 1;
        ratio.equal += u64::from(is_planned);
        let count = shown.entry(observed.action).or_default();
        if !is_planned && *count < show {
            *count += 1;
            report.examples.push(playback.example(observed));
        }
    }
    Ok(report)
}

/// How much earlier than recorded a user's change is applied. The recording's watches of different kinds overtake each
/// other, so a controller's reaction may have been recorded before the change that caused it.
fn user_change_lead(what: &What, generations: &mut BTreeMap<String, Value>) -> i64 {
    let Ok(object) = what.object().value() else { return 0 };
    let is_user_object =
        ["Deployment", "StatefulSet", "DaemonSet", "CronJob"].iter().any(|kind| object["kind"] == *kind);
    let generation = object["metadata"]["generation"].clone();
    let previous = generations.insert(text(&object["metadata"]["uid"]), generation.clone());
    if is_user_object && previous.is_some_and(|previous| previous != generation) {
        USER_CHANGE_LEAD
    } else {
        0
    }
}

/// The recording as played so far, and the actions of both sides.
struct ControllerPlayback {
    controllers: Controllers,
    planned: PlannedActions,
    /// How many rounds of planning there were.
    rounds: u64,
    observed: Vec<ObservedAction>,
    /// The latest version of each object, by uid.
    latest: BTreeMap<String, Value>,
    /// When each object last changed, by uid.
    last_changed: BTreeMap<String, Moment>,
    /// When each deleted object was deleted, by uid.
    deleted: BTreeMap<String, Moment>,
    /// Pods that are neither finished nor being deleted, by the uid of their controller.
    active_pods: BTreeMap<String, BTreeSet<String>>,
}

impl ControllerPlayback {
    fn new() -> ControllerPlayback {
        ControllerPlayback {
            controllers: Controllers::new(&Controller::ALL, 0),
            planned: PlannedActions::new(),
            rounds: 0,
            observed: Vec::new(),
            latest: BTreeMap::new(),
            last_changed: BTreeMap::new(),
            deleted: BTreeMap::new(),
            active_pods: BTreeMap::new(),
        }
    }

    fn apply(&mut self, at: Moment, what: &What) {
        while let Some(wake) = self.controllers.next_wake().filter(|wake| *wake <= at) {
            self.record_planned(wake);
        }
        let Ok(object) = what.object().value() else { return };
        if object["kind"] == "Event" {
            return;
        }
        let uid = text(&object["metadata"]["uid"]);
        let before = self.latest.get(&uid).cloned();
        let is_deleted = matches!(what, What::Deleted(_));
        self.record_observed(at, before.as_ref(), &object, is_deleted);
        if is_deleted {
            self.deleted.insert(uid.clone(), at);
        }
        if let Some((_, owner)) = controller(&object).filter(|_| object["kind"] == "Pod") {
            let pods = self.active_pods.entry(owner).or_default();
            if is_deleted || !is_active(&object) {
                pods.remove(&uid);
            } else {
                pods.insert(uid.clone());
            }
        }
        self.last_changed.insert(uid.clone(), at);
        self.latest.insert(uid, object);
        self.controllers.apply(at, what);
        self.record_planned(at);
    }

    /// Records the action of a real controller that a change shows, if it shows one.
    fn record_observed(&mut self, at: Moment, before: Option<&Value>, object: &Value, is_deleted: bool) {
        let owner = controller(object);
        let kind = text(&object["kind"]);
        let uid = text(&object["metadata"]["uid"]);
        let surplus =
            owner.as_ref().is_some_and(|(kind, owner)| kind == "ReplicaSet" && self.has_surplus_pods(owner));
        let mut record = |action: ControllerAction, subject: &str, detail: Value| {
            self.observed.push(ObservedAction { action, subject: subject.to_owned(), at, detail });
        };
        let was_terminating = before.is_some_and(|before| !before["metadata"]["deletionTimestamp"].is_null());
        let is_terminating = is_deleted || !object["metadata"]["deletionTimestamp"].is_null();
        if is_terminating && !was_terminating {
            if let Some((_, owner)) = &owner {
                if self.deleted.contains_key(owner) {
                    record(ControllerAction::GarbageCollected, &uid, Value::Null);
                } else if kind == "Pod" && surplus && !is_disruption_target(object) {
                    record(ControllerAction::ReplicaSetPodDeleted, owner, uid.into());
                }
            }
            return;
        }
        if let (None, Some((owner_kind, owner))) = (before, &owner) {
            let name = object["metadata"]["name"].clone();
            match (&*kind, &**owner_kind) {
                ("Pod", "ReplicaSet") => record(ControllerAction::ReplicaSetPodCreated, owner, Value::Null),
                ("Pod", "StatefulSet") => record(ControllerAction::StatefulSetPodCreated, owner, name),
                ("Pod", "DaemonSet") => {
                    record(ControllerAction::DaemonSetPodCreated, owner, target_node(object))
                }
                ("Pod", "Job") => record(ControllerAction::JobPodCreated, owner, Value::Null),
                ("ReplicaSet", "Deployment") => {
                    record(ControllerAction::ReplicaSetCreated, owner, object["spec"]["replicas"].clone())
                }
                ("Job", "CronJob") => record(ControllerAction::JobCreated, owner, name),
                _ => {}
            }
        }
        let Some(before) = before else { return };
        if kind == "ReplicaSet" && before["spec"]["replicas"] != object["spec"]["replicas"] {
            record(ControllerAction::ReplicaSetScaled, &uid, object["spec"]["replicas"].clone());
        }
        if let Some(action) = status_action(&kind)
            && without_times(&before["status"]) != without_times(&object["status"])
        {
            record(action, &uid, without_times(&object["status"]));
        }
    }

    /// Whether a ReplicaSet has more active pods than `spec.replicas`.
    fn has_surplus_pods(&self, set: &str) -> bool {
        let size = self.latest.get(set).map(|set| set["spec"]["replicas"].as_u64().unwrap_or(1));
        let pods = self.active_pods.get(set).map_or(0, BTreeSet::len);
        size.is_some_and(|size| size < pods as u64)
    }

    /// Records the API calls that our controllers would make now.
    fn record_planned(&mut self, at: Moment) {
        self.rounds += 1;
        loop {
            let planned = self.controllers.process_next_item(at);
            if planned.is_empty() {
                return;
            }
            for call in planned {
                match &call {
                    ApiCall::Create(object) => self.plan_creation(at, object),
                    ApiCall::Update(object) => self.plan_update(at, object),
                    // A Job's status shows that it has counted the pod.
                    ApiCall::RemovePodFinalizer { .. } => {}
                    ApiCall::Delete { uid, .. } => {
                        let uid = uid.to_string();
                        self.plan(at, ControllerAction::GarbageCollected, &uid, Value::Null);
                        let owner = self.latest.get(&uid).and_then(controller);
                        if let Some((_, owner)) = owner.filter(|(kind, _)| kind == "ReplicaSet")
                            && !self.deleted.contains_key(&owner)
                        {
                            self.plan(at, ControllerAction::ReplicaSetPodDeleted, &owner, uid.into());
                        }
                    }
                }
            }
        }
    }

    fn plan_creation(&mut self, at: Moment, object: &Object) {
        let Ok(object) = object.value() else { return };
        let Some((owner_kind, owner)) = controller(&object) else { return };
        let name = object["metadata"]["name"].clone();
        match (object["kind"].as_str().unwrap_or_default(), &*owner_kind) {
            ("Pod", "ReplicaSet") => {
                self.plan(at, ControllerAction::ReplicaSetPodCreated, &owner, Value::Null)
            }
            ("Pod", "StatefulSet") => self.plan(at, ControllerAction::StatefulSetPodCreated, &owner, name),
            ("Pod", "DaemonSet") => {
                self.plan(at, ControllerAction::DaemonSetPodCreated, &owner, target_node(&object))
            }
            ("Pod", "Job") => self.plan(at, ControllerAction::JobPodCreated, &owner, Value::Null),
            ("ReplicaSet", "Deployment") => {
                self.plan(at, ControllerAction::ReplicaSetCreated, &owner, object["spec"]["replicas"].clone())
            }
            ("Job", "CronJob") => self.plan(at, ControllerAction::JobCreated, &owner, name),
            _ => {}
        }
    }

    fn plan_update(&mut self, at: Moment, object: &Object) {
        let Ok(object) = object.value() else { return };
        let uid = text(&object["metadata"]["uid"]);
        let kind = text(&object["kind"]);
        let previous = self.latest.get(&uid).map(|previous| previous["spec"]["replicas"].clone());
        if kind == "ReplicaSet" && previous.as_ref() != Some(&object["spec"]["replicas"]) {
            self.plan(at, ControllerAction::ReplicaSetScaled, &uid, object["spec"]["replicas"].clone());
        } else if let Some(action) = status_action(&kind) {
            self.plan(at, action, &uid, without_times(&object["status"]));
        }
    }

    fn plan(&mut self, at: Moment, action: ControllerAction, subject: &str, detail: Value) {
        self.planned.entry((action, subject.to_owned())).or_default().push(PlannedAction {
            at,
            round: self.rounds,
            detail,
        });
    }

    /// For each real action, whether ours planned it. A planned action matches once: the first real action that fits.
    fn match_observed(&self) -> Vec<bool> {
        let mut open = self.planned.clone();
        let is_planned = |observed: &ObservedAction| {
            let Some(planned) = open.get_mut(&(observed.action, observed.subject.clone())) else {
                return false;
            };
            let position = planned.iter().position(|planned_action| {
                is_close_in_time(planned_action.at, observed.at) && planned_action.detail == observed.detail
            });
            position.map(|position| planned.remove(position)).is_some()
        };
        self.observed.iter().map(is_planned).collect()
    }

    /// The number of owners for which a pod was planned and none was created.
    fn count_unfulfilled(&self) -> u64 {
        let mut count = 0;
        for ((action, subject), planned) in &self.planned {
            if !matches!(
                action,
                ControllerAction::ReplicaSetPodCreated
                    | ControllerAction::StatefulSetPodCreated
                    | ControllerAction::DaemonSetPodCreated
                    | ControllerAction::JobPodCreated
            ) {
                continue;
            }
            let created: Vec<Moment> = self
                .observed
                .iter()
                .filter(|observed| observed.action == *action && observed.subject == *subject)
                .map(|observed| observed.at)
                .collect();
            let end = self.deleted.get(subject).copied().unwrap_or(Moment::MAX);
            let last = self.observed.last().map_or(Moment::MAX, |observed| observed.at);
            // For one round, as many pods must be created as were planned.
            let is_unfulfilled = |round: &[PlannedAction]| {
                let at = round[0].at;
                let (from, until) = (at.plus_nanos(-MAX_WATCH_LEAD), at.plus_nanos(UNFULFILLED_AFTER));
                let created =
                    created.iter().filter(|created| from <= **created && **created <= until).count();
                created < round.len() && until < end && until < last
            };
            count += u64::from(planned.chunk_by(|one, other| one.round == other.round).any(is_unfulfilled));
        }
        count
    }

    /// Counts the statuses at the end that ours would not change.
    fn count_settled(&self) -> MatchRatio {
        let mut ratio = MatchRatio::default();
        for (uid, object) in self.latest.iter().filter(|(uid, _)| !self.deleted.contains_key(*uid)) {
            let Some(action) = status_action(object["kind"].as_str().unwrap_or_default()) else { continue };
            let last = self.planned.get(&(action, uid.clone())).and_then(|planned| planned.last());
            ratio.total += 1;
            ratio.equal +=
                u64::from(last.is_none_or(|planned_action| planned_action.at < self.last_changed[uid]));
        }
        ratio
    }

    /// The text of an example: a real action, and our planned ones close to it in time.
    fn example(&self, observed: &ObservedAction) -> String {
        let object = self.latest.get(&observed.subject);
        let name = object.map(|object| text(&object["metadata"]["name"])).unwrap_or_default();
        let planned = self.planned.get(&(observed.action, observed.subject.clone()));
        let near = planned
            .into_iter()
            .flatten()
            .filter(|planned_action| is_close_in_time(planned_action.at, observed.at));
        let ours: Vec<String> =
            near.map(|PlannedAction { at, detail, .. }| format!("{at} {detail}")).collect();
        let ours = if ours.is_empty() { "nothing".to_owned() } else { ours.join("; ") };
        format!("{:?} of {name} at {}: {}\n  ours: {ours}", observed.action, observed.at, observed.detail)
    }
}

/// Whether a planned action and a real one are close enough in time to be the same.
fn is_close_in_time(planned: Moment, observed: Moment) -> bool {
    (-MAX_WATCH_LEAD..=MAX_DELAY).contains(&observed.nanos_since(planned))
}

/// The action by which a controller writes the status of a kind.
fn status_action(kind: &str) -> Option<ControllerAction> {
    match kind {
        "PodDisruptionBudget" => Some(ControllerAction::DisruptionBudgetStatus),
        "ReplicaSet" => Some(ControllerAction::ReplicaSetStatus),
        "Deployment" => Some(ControllerAction::DeploymentStatus),
        "StatefulSet" => Some(ControllerAction::StatefulSetStatus),
        "DaemonSet" => Some(ControllerAction::DaemonSetStatus),
        "Job" => Some(ControllerAction::JobStatus),
        _ => None,
    }
}

/// The kind and uid of an object's controller.
fn controller(object: &Value) -> Option<(String, String)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    Some((text(&owner["kind"]), text(&owner["uid"])))
}

/// Whether a pod counts for its controller.
fn is_active(pod: &Value) -> bool {
    let is_finished = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
    pod["metadata"]["deletionTimestamp"].is_null() && !is_finished
}

/// Whether a pod is the target of a disruption, so that its deletion is not its controller's decision.
fn is_disruption_target(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "DisruptionTarget" && condition["status"] == "True")
}

/// The node that a DaemonSet's pod is meant for.
fn target_node(pod: &Value) -> Value {
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/\
                matchFields/0/values/0";
    pod.pointer(path).cloned().unwrap_or_default()
}

/// A status without times and without `uncountedTerminatedPods`, which is only set during an update.
fn without_times(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|key, _| !key.ends_with("Time") && key != "uncountedTerminatedPods");
        for condition in fields.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(fields) = condition.as_object_mut() {
                fields.retain(|key, _| !key.ends_with("Time"));
            }
        }
    }
    status
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl fmt::Display for ControllersReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, controllers:", self.name)?;
        for (action, ratio) in &self.by_action {
            writeln!(f, "  {action:<44} {ratio}")?;
        }
        writeln!(f, "  {:<44} {}", "final statuses that ours would not change", self.settled)?;
        write!(f, "  {:<44} {}", "owners with planned pods never created", self.unfulfilled)
    }
}

impl fmt::Display for ControllerAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ControllerAction::ReplicaSetCreated => "ReplicaSets created, same replicas",
            ControllerAction::ReplicaSetScaled => "ReplicaSets scaled, same replicas",
            ControllerAction::ReplicaSetPodCreated => "pods created by ReplicaSets",
            ControllerAction::ReplicaSetPodDeleted => "pods deleted by ReplicaSets, same pod",
            ControllerAction::StatefulSetPodCreated => "pods created by StatefulSets, same name",
            ControllerAction::DaemonSetPodCreated => "pods created by DaemonSets, same node",
            ControllerAction::JobPodCreated => "pods created by Jobs",
            ControllerAction::JobCreated => "Jobs created by CronJobs, same name",
            ControllerAction::GarbageCollected => "objects garbage-collected with their owner",
            ControllerAction::DisruptionBudgetStatus => "PodDisruptionBudget statuses",
            ControllerAction::ReplicaSetStatus => "ReplicaSet statuses",
            ControllerAction::DeploymentStatus => "Deployment statuses",
            ControllerAction::StatefulSetStatus => "StatefulSet statuses",
            ControllerAction::DaemonSetStatus => "DaemonSet statuses",
            ControllerAction::JobStatus => "Job statuses",
        })
    }
}
