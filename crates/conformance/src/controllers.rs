//! What the virtual controllers would do in a film beside what the real kube-controller-manager did.
//!
//! Ours are shown all that the film shows, what the real ones did included, and say at each moment what they would do next;
//! nothing of it is carried out. What the real ones did is theirs too if they wished for it shortly before: real ones have
//! watches of their own, which are earlier or later than the film's, and take their time to write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use controllers::{Controller, Controllers, Do};
use model::{Moment, Object, What};
use serde_json::Value;

use crate::film::{Line, Share};
use crate::{Error, Lines, Result};

/// How long real controllers may take, in nanoseconds.
const LATE: i64 = 2_000_000_000;
/// How much earlier than the film's their watches may be.
const EARLY: i64 = 100_000_000;
/// How much earlier what users did is shown.
const HEAD_START: i64 = 30_000_000;
/// A wish that nobody followed for so long was one in vain.
const IN_VAIN: i64 = 5_000_000_000;

/// How a film came out.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// The film.
    pub name: String,
    /// What the real controllers did that ours would have done, by what was done.
    pub shares: BTreeMap<Deed, Share>,
    /// How often ours would have made a pod for some time and the real ones did not.
    pub in_vain: u64,
    /// Statuses at the end that ours would leave as they are.
    pub settled: Share,
    /// The first that ours would not have done.
    pub examples: Vec<String>,
}

/// What controllers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// A Deployment makes a ReplicaSet of a size.
    SetMade,
    /// A Deployment gives a ReplicaSet another size.
    SetResized,
    /// A ReplicaSet makes a pod.
    ReplicaMade,
    /// A ReplicaSet deletes a pod because it has too many: this one.
    ReplicaDeleted,
    /// A StatefulSet makes a pod of this name.
    StatefulMade,
    /// A DaemonSet makes a pod for this node.
    DaemonMade,
    /// A Job makes a pod.
    JobPodMade,
    /// A CronJob makes a Job of this name.
    JobMade,
    /// Something goes because its owner is gone.
    Collected,
    /// A budget says how many pods may be evicted.
    BudgetTold,
    /// The status of a ReplicaSet, times apart.
    SetTold,
    /// That of a Deployment.
    DeploymentTold,
    /// That of a StatefulSet.
    StatefulTold,
    /// That of a DaemonSet.
    DaemonTold,
    /// That of a Job.
    JobTold,
}

/// What ours would do, by what and about whom.
type Wishes = BTreeMap<(Deed, String), Vec<Wish>>;

/// Something that ours would do.
#[derive(Clone)]
struct Wish {
    at: Moment,
    /// The how many-th time it was that they were asked.
    look: u64,
    what: Value,
}

/// Something that a real controller did: what, about whom, when, and what exactly.
struct Done {
    deed: Deed,
    about: String,
    at: Moment,
    what: Value,
}

/// Plays a film to our controllers and compares. Examples are kept of the first `show` of each deed.
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

/// How much earlier than the film what a user did is shown: the film's watches of different kinds overtake each other, and
/// nothing can be wished for after it was done.
fn head_start(what: &What, generations: &mut BTreeMap<String, Value>) -> i64 {
    let Ok(object) = what.object().value() else { return 0 };
    let is_given =
        ["Deployment", "StatefulSet", "DaemonSet", "CronJob"].iter().any(|kind| object["kind"] == *kind);
    let generation = object["metadata"]["generation"].clone();
    let known = generations.insert(text(&object["metadata"]["uid"]), generation.clone());
    if is_given && known.is_some_and(|known| known != generation) { HEAD_START } else { 0 }
}

/// The film so far.
struct Screen {
    controllers: Controllers,
    wishes: Wishes,
    /// How often ours were asked.
    looks: u64,
    done: Vec<Done>,
    /// The newest of each object, by uid.
    newest: BTreeMap<String, Value>,
    /// When each last changed.
    changed: BTreeMap<String, Moment>,
    /// Those that are gone.
    gone: BTreeMap<String, Moment>,
    /// Pods that are neither over nor going, by their controller.
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

    /// Takes down what the real controllers did, if that is what is seen.
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

    /// Whether a ReplicaSet has more pods than it is to have.
    fn has_too_many(&self, set: &str) -> bool {
        let size = self.newest.get(set).map(|set| set["spec"]["replicas"].as_u64().unwrap_or(1));
        let pods = self.active.get(set).map_or(0, BTreeSet::len);
        size.is_some_and(|size| size < pods as u64)
    }

    /// Takes down what ours would do now.
    fn ask(&mut self, at: Moment) {
        self.looks += 1;
        loop {
            let wished = self.controllers.work(at);
            if wished.is_empty() {
                return;
            }
            for one in wished {
                match &one {
                    Do::Create(object) => self.wish_created(at, object),
                    Do::Update(object) => self.wish_updated(at, object),
                    Do::Delete(doomed) => {
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

    /// Whether ours would have done each of what was done. A wish is fulfilled once: by the first deed that may be it.
    fn ours(&self) -> Vec<bool> {
        let mut open = self.wishes.clone();
        let is_ours = |done: &Done| {
            let Some(wishes) = open.get_mut(&(done.deed, done.about.clone())) else { return false };
            let wish = wishes.iter().position(|wish| is_near(wish.at, done.at) && wish.what == done.what);
            wish.map(|wish| wishes.remove(wish)).is_some()
        };
        self.done.iter().map(is_ours).collect()
    }

    /// How often a pod was wished for and none came.
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
            // Of one look, as many must follow as were wished for.
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

    /// Statuses that ours would leave as they are at the end.
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

/// Whether a wish may be what was done.
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

/// Whether others than its controller want a pod away.
fn is_evicted(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "DisruptionTarget" && condition["status"] == "True")
}

/// The node that a DaemonSet made a pod for.
fn target(pod: &Value) -> Value {
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/\
                matchFields/0/values/0";
    pod.pointer(path).cloned().unwrap_or_default()
}

/// A status without times, and without what is only there while it is being written.
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
