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

use crate::film::{Line, Share};
use crate::{Error, Lines, Result};

/// How long after ours a real controller may act, in nanoseconds.
const LATE: i64 = 2_000_000_000;
/// How far the real controllers' watches may be ahead of the recording's, in nanoseconds.
const EARLY: i64 = 100_000_000;
/// How much earlier than recorded our controllers receive users' changes, in nanoseconds.
const HEAD_START: i64 = 30_000_000;
/// A planned pod counts as unfulfilled if the real controllers have not created it after so many nanoseconds.
const IN_VAIN: i64 = 5_000_000_000;

/// The result of the comparison on one recording.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// The recording's name.
    pub name: String,
    /// By action: how many of the real controllers' actions ours planned too.
    pub shares: BTreeMap<Deed, Share>,
    /// Owners for which ours planned a pod for some time and the real controllers created none.
    pub in_vain: u64,
    /// Statuses at the end of the recording that ours would not change.
    pub settled: Share,
    /// The first real actions that ours did not plan.
    pub examples: Vec<String>,
}

/// The kinds of actions compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// A Deployment creates a ReplicaSet with the same number of replicas.
    SetMade,
    /// A Deployment scales a ReplicaSet to the same number of replicas.
    SetResized,
    /// A ReplicaSet creates a pod.
    ReplicaMade,
    /// A ReplicaSet with too many pods deletes the same pod.
    ReplicaDeleted,
    /// A StatefulSet creates a pod of the same name.
    StatefulMade,
    /// A DaemonSet creates a pod for the same node.
    DaemonMade,
    /// A Job creates a pod.
    JobPodMade,
    /// A CronJob creates a Job of the same name.
    JobMade,
    /// An object is deleted because its owner is deleted.
    Collected,
    /// The status of a PodDisruptionBudget, without times.
    BudgetTold,
    /// The status of a ReplicaSet, without times.
    SetTold,
    /// The status of a Deployment, without times.
    DeploymentTold,
    /// The status of a StatefulSet, without times.
    StatefulTold,
    /// The status of a DaemonSet, without times.
    DaemonTold,
    /// The status of a Job, without times.
    JobTold,
}

/// The actions our controllers planned, by kind of action and uid of the object concerned.
type Wishes = BTreeMap<(Deed, String), Vec<Wish>>;

/// An action that our controllers planned.
#[derive(Clone)]
struct Wish {
    at: Moment,
    /// The number of the round in which it was planned.
    look: u64,
    what: Value,
}

/// An action of a real controller. `subject` is the uid of the object concerned.
struct Done {
    deed: Deed,
    about: String,
    at: Moment,
    what: Value,
}

/// Plays a recording to our controllers and compares their actions. Keeps the first `show` examples of each action.
pub fn judge(mut lines: Lines, show: usize) -> Result<Verdicts> {
    let name = lines.file().rsplit('/').next().unwrap_or_default();
    let name = name.split('.').next().unwrap_or_default().to_owned();
    let mut screen = Screen::new();
    let mut seen = Vec::new();
    let mut generations: BTreeMap<String, Value> = BTreeMap::new();
    while let Some(line) = lines.read()? {
        match Line::read(line) {
            Ok(Some((at, what))) => seen.push((at.plus_nanos(-head_start(&what, &mut generations)), what)),
            Ok(None) => {}
            Err(why) => return Err(lines.bad(why)),
        }
    }
    if seen.is_empty() {
        return Err(Error::Empty { file: lines.file().to_owned(), what: "no event" });
    }
    seen.sort_by_key(|(at, _)| *at);
    for (at, what) in &seen {
        screen.show(*at, what);
    }
    let (in_vain, settled) = (screen.in_vain(), screen.settled());
    let mut verdicts = Verdicts { name, in_vain, settled, ..Verdicts::default() };
    let mut shown: BTreeMap<Deed, usize> = BTreeMap::new();
    for (done, is_ours) in screen.done.iter().zip(screen.ours()) {
        let share = verdicts.shares.entry(done.deed).or_default();
        share.total += 1;
        share.equal += u64::from(is_ours);
        let count = shown.entry(done.deed).or_default();
        if !is_ours && *count < show {
            *count += 1;
            verdicts.examples.push(screen.example(done));
        }
    }
    Ok(verdicts)
}

/// How much earlier than recorded a user's change is applied. The recording's watches of different kinds overtake each
/// other, so a controller's reaction may have been recorded before the change that caused it.
fn head_start(what: &What, generations: &mut BTreeMap<String, Value>) -> i64 {
    let Ok(object) = what.object().value() else { return 0 };
    let is_given =
        ["Deployment", "StatefulSet", "DaemonSet", "CronJob"].iter().any(|kind| object["kind"] == *kind);
    let generation = object["metadata"]["generation"].clone();
    let known = generations.insert(text(&object["metadata"]["uid"]), generation.clone());
    if is_given && known.is_some_and(|known| known != generation) { HEAD_START } else { 0 }
}

/// The recording as played so far, and the actions of both sides.
struct Screen {
    controllers: Controllers,
    wishes: Wishes,
    /// How many rounds of planning there were.
    looks: u64,
    done: Vec<Done>,
    /// The latest version of each object, by uid.
    newest: BTreeMap<String, Value>,
    /// When each object last changed, by uid.
    changed: BTreeMap<String, Moment>,
    /// When each deleted object was deleted, by uid.
    gone: BTreeMap<String, Moment>,
    /// Pods that are neither finished nor being deleted, by the uid of their controller.
    active: BTreeMap<String, BTreeSet<String>>,
}

impl Screen {
    fn new() -> Screen {
        Screen {
            controllers: Controllers::new(&Controller::ALL, 0),
            wishes: Wishes::new(),
            looks: 0,
            done: Vec::new(),
            newest: BTreeMap::new(),
            changed: BTreeMap::new(),
            gone: BTreeMap::new(),
            active: BTreeMap::new(),
        }
    }

    fn show(&mut self, at: Moment, what: &What) {
        while let Some(wake) = self.controllers.next_wake().filter(|wake| *wake <= at) {
            self.ask(wake);
        }
        let Ok(object) = what.object().value() else { return };
        if object["kind"] == "Event" {
            return;
        }
        let uid = text(&object["metadata"]["uid"]);
        let before = self.newest.get(&uid).cloned();
        let is_gone = matches!(what, What::Deleted(_));
        self.compare(at, before.as_ref(), &object, is_gone);
        if is_gone {
            self.gone.insert(uid.clone(), at);
        }
        if let Some((_, owner)) = controller(&object).filter(|_| object["kind"] == "Pod") {
            let pods = self.active.entry(owner).or_default();
            if is_gone || !is_active(&object) {
                pods.remove(&uid);
            } else {
                pods.insert(uid.clone());
            }
        }
        self.changed.insert(uid.clone(), at);
        self.newest.insert(uid, object);
        self.controllers.apply(at, what);
        self.ask(at);
    }

    /// Records the action of a real controller that a change shows, if it shows one.
    fn compare(&mut self, at: Moment, before: Option<&Value>, object: &Value, is_gone: bool) {
        let owner = controller(object);
        let kind = text(&object["kind"]);
        let uid = text(&object["metadata"]["uid"]);
        let surplus =
            owner.as_ref().is_some_and(|(kind, owner)| kind == "ReplicaSet" && self.has_too_many(owner));
        let mut did = |deed: Deed, about: &str, what: Value| {
            self.done.push(Done { deed, about: about.to_owned(), at, what });
        };
        let was_going = before.is_some_and(|before| !before["metadata"]["deletionTimestamp"].is_null());
        let is_going = is_gone || !object["metadata"]["deletionTimestamp"].is_null();
        if is_going && !was_going {
            if let Some((_, owner)) = &owner {
                if self.gone.contains_key(owner) {
                    did(Deed::Collected, &uid, Value::Null);
                } else if kind == "Pod" && surplus && !is_evicted(object) {
                    did(Deed::ReplicaDeleted, owner, uid.into());
                }
            }
            return;
        }
        if let (None, Some((owner_kind, owner))) = (before, &owner) {
            let name = object["metadata"]["name"].clone();
            match (&*kind, &**owner_kind) {
                ("Pod", "ReplicaSet") => did(Deed::ReplicaMade, owner, Value::Null),
                ("Pod", "StatefulSet") => did(Deed::StatefulMade, owner, name),
                ("Pod", "DaemonSet") => did(Deed::DaemonMade, owner, target(object)),
                ("Pod", "Job") => did(Deed::JobPodMade, owner, Value::Null),
                ("ReplicaSet", "Deployment") => did(Deed::SetMade, owner, object["spec"]["replicas"].clone()),
                ("Job", "CronJob") => did(Deed::JobMade, owner, name),
                _ => {}
            }
        }
        let Some(before) = before else { return };
        if kind == "ReplicaSet" && before["spec"]["replicas"] != object["spec"]["replicas"] {
            did(Deed::SetResized, &uid, object["spec"]["replicas"].clone());
        }
        if let Some(deed) = told(&kind)
            && plain(&before["status"]) != plain(&object["status"])
        {
            did(deed, &uid, plain(&object["status"]));
        }
    }

    /// Whether a ReplicaSet has more active pods than `spec.replicas`.
    fn has_too_many(&self, set: &str) -> bool {
        let size = self.newest.get(set).map(|set| set["spec"]["replicas"].as_u64().unwrap_or(1));
        let pods = self.active.get(set).map_or(0, BTreeSet::len);
        size.is_some_and(|size| size < pods as u64)
    }

    /// Records what our controllers would do now.
    fn ask(&mut self, at: Moment) {
        self.looks += 1;
        loop {
            let wished = self.controllers.process_next_item(at);
            if wished.is_empty() {
                return;
            }
            for one in wished {
                match &one {
                    ApiCall::Create(object) => self.wish_created(at, object),
                    ApiCall::Update(object) => self.wish_updated(at, object),
                    ApiCall::Delete(doomed) => {
                        let uid = doomed.uid.to_string();
                        self.wish(at, Deed::Collected, &uid, Value::Null);
                        let owner = self.newest.get(&uid).and_then(controller);
                        if let Some((_, owner)) = owner.filter(|(kind, _)| kind == "ReplicaSet")
                            && !self.gone.contains_key(&owner)
                        {
                            self.wish(at, Deed::ReplicaDeleted, &owner, uid.into());
                        }
                    }
                }
            }
        }
    }

    fn wish_created(&mut self, at: Moment, object: &Object) {
        let Ok(object) = object.value() else { return };
        let Some((owner_kind, owner)) = controller(&object) else { return };
        let name = object["metadata"]["name"].clone();
        match (object["kind"].as_str().unwrap_or_default(), &*owner_kind) {
            ("Pod", "ReplicaSet") => self.wish(at, Deed::ReplicaMade, &owner, Value::Null),
            ("Pod", "StatefulSet") => self.wish(at, Deed::StatefulMade, &owner, name),
            ("Pod", "DaemonSet") => self.wish(at, Deed::DaemonMade, &owner, target(&object)),
            ("Pod", "Job") => self.wish(at, Deed::JobPodMade, &owner, Value::Null),
            ("ReplicaSet", "Deployment") => {
                self.wish(at, Deed::SetMade, &owner, object["spec"]["replicas"].clone())
            }
            ("Job", "CronJob") => self.wish(at, Deed::JobMade, &owner, name),
            _ => {}
        }
    }

    fn wish_updated(&mut self, at: Moment, object: &Object) {
        let Ok(object) = object.value() else { return };
        let uid = text(&object["metadata"]["uid"]);
        let kind = text(&object["kind"]);
        let known = self.newest.get(&uid).map(|known| known["spec"]["replicas"].clone());
        if kind == "ReplicaSet" && known.as_ref() != Some(&object["spec"]["replicas"]) {
            self.wish(at, Deed::SetResized, &uid, object["spec"]["replicas"].clone());
        } else if let Some(deed) = told(&kind) {
            self.wish(at, deed, &uid, plain(&object["status"]));
        }
    }

    fn wish(&mut self, at: Moment, deed: Deed, about: &str, what: Value) {
        self.wishes.entry((deed, about.to_owned())).or_default().push(Wish { at, look: self.looks, what });
    }

    /// For each real action, whether ours planned it. A planned action matches once: the first real action that fits.
    fn ours(&self) -> Vec<bool> {
        let mut open = self.wishes.clone();
        let is_ours = |done: &Done| {
            let Some(wishes) = open.get_mut(&(done.deed, done.about.clone())) else { return false };
            let wish = wishes.iter().position(|wish| is_near(wish.at, done.at) && wish.what == done.what);
            wish.map(|wish| wishes.remove(wish)).is_some()
        };
        self.done.iter().map(is_ours).collect()
    }

    /// The number of owners for which a pod was planned and none was created.
    fn in_vain(&self) -> u64 {
        let mut count = 0;
        for ((deed, about), wishes) in &self.wishes {
            if !matches!(deed, Deed::ReplicaMade | Deed::StatefulMade | Deed::DaemonMade | Deed::JobPodMade) {
                continue;
            }
            let made: Vec<Moment> = self
                .done
                .iter()
                .filter(|done| done.deed == *deed && done.about == *about)
                .map(|done| done.at)
                .collect();
            let end = self.gone.get(about).copied().unwrap_or(Moment::MAX);
            let last = self.done.last().map_or(Moment::MAX, |done| done.at);
            // Of one round, as many pods must be created as were planned.
            let is_vain = |look: &[Wish]| {
                let at = look[0].at;
                let (from, until) = (at.plus_nanos(-EARLY), at.plus_nanos(IN_VAIN));
                let followed = made.iter().filter(|made| from <= **made && **made <= until).count();
                followed < look.len() && until < end && until < last
            };
            count += u64::from(wishes.chunk_by(|one, other| one.look == other.look).any(is_vain));
        }
        count
    }

    /// Counts the statuses at the end that ours would not change.
    fn settled(&self) -> Share {
        let mut share = Share::default();
        for (uid, object) in self.newest.iter().filter(|(uid, _)| !self.gone.contains_key(*uid)) {
            let Some(deed) = told(object["kind"].as_str().unwrap_or_default()) else { continue };
            let last = self.wishes.get(&(deed, uid.clone())).and_then(|wishes| wishes.last());
            share.total += 1;
            share.equal += u64::from(last.is_none_or(|wish| wish.at < self.changed[uid]));
        }
        share
    }

    fn example(&self, done: &Done) -> String {
        let object = self.newest.get(&done.about);
        let name = object.map(|object| text(&object["metadata"]["name"])).unwrap_or_default();
        let wished = self.wishes.get(&(done.deed, done.about.clone()));
        let near = wished.into_iter().flatten().filter(|wish| is_near(wish.at, done.at));
        let ours: Vec<String> = near.map(|Wish { at, what, .. }| format!("{at} {what}")).collect();
        let ours = if ours.is_empty() { "nothing".to_owned() } else { ours.join("; ") };
        format!("{:?} of {name} at {}: {}\n  ours: {ours}", done.deed, done.at, done.what)
    }
}

/// Whether a planned action and a real one are close enough in time to be the same.
fn is_near(wished: Moment, done: Moment) -> bool {
    (-EARLY..=LATE).contains(&done.nanos_since(wished))
}

fn told(kind: &str) -> Option<Deed> {
    match kind {
        "PodDisruptionBudget" => Some(Deed::BudgetTold),
        "ReplicaSet" => Some(Deed::SetTold),
        "Deployment" => Some(Deed::DeploymentTold),
        "StatefulSet" => Some(Deed::StatefulTold),
        "DaemonSet" => Some(Deed::DaemonTold),
        "Job" => Some(Deed::JobTold),
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
    let is_over = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
    pod["metadata"]["deletionTimestamp"].is_null() && !is_over
}

/// Whether a pod is the target of a disruption, so that its deletion is not its controller's decision.
fn is_evicted(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "DisruptionTarget" && condition["status"] == "True")
}

/// The node that a DaemonSet's pod is meant for.
fn target(pod: &Value) -> Value {
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/\
                matchFields/0/values/0";
    pod.pointer(path).cloned().unwrap_or_default()
}

/// A status without times and without `uncountedTerminatedPods`, which is only set during an update.
fn plain(status: &Value) -> Value {
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

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, controllers:", self.name)?;
        for (deed, share) in &self.shares {
            writeln!(f, "  {deed:<44} {share}")?;
        }
        writeln!(f, "  {:<44} {}", "statuses at the end, left as they are", self.settled)?;
        write!(f, "  {:<44} {}", "owners that ours made a pod for in vain", self.in_vain)
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Deed::SetMade => "ReplicaSets made, of that size",
            Deed::SetResized => "ReplicaSets resized, to that size",
            Deed::ReplicaMade => "pods made by ReplicaSets",
            Deed::ReplicaDeleted => "pods deleted by ReplicaSets, that one",
            Deed::StatefulMade => "pods made by StatefulSets, of that name",
            Deed::DaemonMade => "pods made by DaemonSets, for that node",
            Deed::JobPodMade => "pods made by Jobs",
            Deed::JobMade => "Jobs made by CronJobs, of that name",
            Deed::Collected => "deleted with their owner",
            Deed::BudgetTold => "statuses of budgets",
            Deed::SetTold => "statuses of ReplicaSets",
            Deed::DeploymentTold => "statuses of Deployments",
            Deed::StatefulTold => "statuses of StatefulSets",
            Deed::DaemonTold => "statuses of DaemonSets",
            Deed::JobTold => "statuses of Jobs",
        })
    }
}
