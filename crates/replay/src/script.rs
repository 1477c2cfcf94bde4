//! What is given, in order: a recording read for the second time, with its causes known.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use calibration::seen::{OwnerKind, PodSeen};
use history::Changes;
use model::{Change, Moment, Object, Text, What};
use rustc_hash::{FxHashMap, FxHasher};
use serde::Deserialize;
use serde_json::value::RawValue;
use simulation::{Again, Begun, Demand, DemandId, Given};

use crate::causes::objects::is_being_removed;
use crate::causes::{Act, Causes, Lives};
use crate::error::Error;

/// Kinds of objects that nobody in a run decides by.
pub(crate) const IGNORED: [&str; 2] = ["Event", "Lease"];

/// Hands out what is given.
pub struct Script<'a> {
    causes: &'a Causes,
    /// Nodes that come and go as is decided.
    is_scaled: &'a (dyn Fn(&Object) -> bool + Sync),
    lives: Lives<'a>,
    open: FxHashMap<Arc<str>, Open>,
    /// Demands whose first pod may not be scheduled yet.
    gated: FxHashMap<Arc<str>, DemandId>,
    /// Nodes that were given.
    nodes: BTreeSet<Arc<str>>,
    /// What is still to be done to demands.
    acts: BinaryHeap<Reverse<(Moment, DemandId, Act)>>,
    begun: bool,
}

/// A pod that is there.
struct Open {
    /// Whose it is.
    demand: DemandId,
    /// What people may change of it.
    says: u64,
}

/// Labels that a pod gets from its node when it is bound.
const OF_ITS_NODE: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// What people may change of a pod, so that it counts otherwise.
#[derive(Default, Deserialize)]
struct PodJson<'a> {
    #[serde(borrow, default)]
    metadata: MetadataJson<'a>,
    #[serde(borrow, default)]
    spec: SpecJson<'a>,
}

#[derive(Default, Deserialize)]
struct MetadataJson<'a> {
    #[serde(borrow)]
    labels: Option<BTreeMap<Text<'a>, &'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct SpecJson<'a> {
    #[serde(borrow)]
    tolerations: Option<&'a RawValue>,
}

impl<'a> Script<'a> {
    /// The script of these causes.
    pub fn new(causes: &'a Causes, is_scaled: &'a (dyn Fn(&Object) -> bool + Sync)) -> Script<'a> {
        Script {
            causes,
            is_scaled,
            lives: causes.lives(),
            open: FxHashMap::default(),
            gated: FxHashMap::default(),
            nodes: BTreeSet::new(),
            acts: BinaryHeap::new(),
            begun: false,
        }
    }

    /// What an object means that is there when the window begins.
    pub fn begin(&mut self, from: Moment, object: Object) -> Result<Option<Given>, Error> {
        self.given(from, What::Added(object))
    }

    /// What changes mean that come after the beginning, and what is done to demands meanwhile until a moment, in order.
    pub(crate) fn read(
        mut self,
        mut changes: Changes,
        until: Moment,
    ) -> impl Iterator<Item = Result<(Moment, Given), Error>> + use<'a> {
        self.begun = true;
        let mut next: Option<Change> = None;
        std::iter::from_fn(move || {
            loop {
                if next.is_none() {
                    next = match changes.next().transpose() {
                        Ok(change) => change,
                        Err(trouble) => return Some(Err(trouble.into())),
                    };
                }
                if let Some(due) = self.due(next.as_ref().map_or(until, |change| change.at)) {
                    return Some(Ok(due));
                }
                let Change { at, what, .. } = next.take()?;
                if let Some(given) = self.given(at, what).transpose() {
                    return Some(given.map(|given| (at, given)));
                }
            }
        })
    }

    /// What is done to a demand before a moment.
    fn due(&mut self, before: Moment) -> Option<(Moment, Given)> {
        self.acts.peek().filter(|Reverse((at, ..))| *at < before)?;
        let Reverse((at, demand, act)) = self.acts.pop()?;
        let given = match act {
            Act::Withdrawn => Given::Withdrawn(demand),
            Act::Deleted => Given::Deleted(demand),
            Act::CleanedUp => Given::CleanedUp(demand),
        };
        Some((at, given))
    }

    fn given(&mut self, at: Moment, what: What) -> Result<Option<Given>, Error> {
        let meta = what.object().meta();
        match (&*meta.api_version, &*meta.kind) {
            ("v1", "Pod") => {
                let uid: Arc<str> = match meta.uid.as_ref().filter(|uid| !uid.is_empty()) {
                    Some(uid) => (**uid).into(),
                    None => format!("{}/{}", meta.namespace, meta.name).into(),
                };
                match &what {
                    What::Deleted(_) => {
                        self.open.remove(&uid);
                        self.gated.remove(&uid);
                        Ok(None)
                    }
                    What::Added(pod) | What::Modified(pod) if self.gated.contains_key(&uid) => {
                        let free = PodSeen::read(pod).ok().filter(|seen| !seen.is_gated);
                        match free.and_then(|seen| Some((seen, self.gated.remove(&uid)?))) {
                            Some((seen, demand)) => self.asked(at, demand, pod, seen),
                            None => Ok(None),
                        }
                    }
                    What::Added(pod) | What::Modified(pod) => match self.open.get_mut(&uid) {
                        Some(open) => {
                            let said = std::mem::replace(&mut open.says, says(pod));
                            let changed = said != open.says;
                            Ok(changed.then(|| Given::Changed(open.demand, pod.clone())))
                        }
                        None => self.first_seen(at, uid, pod),
                    },
                }
            }
            ("v1", "Node") => {
                let name: Arc<str> = (*meta.name).into();
                Ok(self.node(name, what))
            }
            (_, kind) if IGNORED.contains(&kind) => Ok(None),
            _ if self.begun && self.causes.made.makes(what.object()) => Ok(None),
            _ => Ok(Some(Given::Object(what))),
        }
    }

    fn first_seen(&mut self, at: Moment, uid: Arc<str>, pod: &Object) -> Result<Option<Given>, Error> {
        let Ok(seen) = PodSeen::read(pod) else { return Ok(None) };
        let (demand, is_first) = self.lives.next().map_err(Error::kept)?;
        self.open.insert(uid.clone(), Open { demand, says: says(pod) });
        if !is_first {
            // Whether another life comes to be, the run decides.
            return Ok(None);
        }
        if seen.is_gated {
            // It is asked for when it may be scheduled.
            self.gated.insert(uid, demand);
            return Ok(None);
        }
        self.asked(at, demand, pod, seen)
    }

    fn asked(
        &mut self,
        at: Moment,
        id: DemandId,
        pod: &Object,
        seen: PodSeen,
    ) -> Result<Option<Given>, Error> {
        let has_ended = !self.begun && seen.is_finished();
        if has_ended {
            return Ok(None);
        }
        let cause = self.causes.get(id).map_err(Error::kept)?;
        // What its owner did the owner's controller decides, if it works.
        let is_made = self.causes.made.makes(pod);
        for (when, act) in cause.acts.iter().filter(|(_, act)| !is_made || *act == Act::Deleted) {
            self.acts.push(Reverse((*when, id, *act)));
        }
        if is_made && self.begun {
            return Ok(None);
        }
        let comes_with_node = self.begun && seen.comes_with_node;
        if comes_with_node && seen.node.as_ref().is_none_or(|node| !self.nodes.contains(node)) {
            // It comes with a node that is decided about.
            return Ok(None);
        }
        let begun = (!self.begun || comes_with_node).then(|| Begun {
            came: seen.created.map_or(at, |created| created.min(at)),
            node: seen.node,
            nominated: seen.nominated,
            refused: seen.refusal.and_then(|it| Some((it.message?, it.since?))),
            started: seen.started,
            leaving: seen.leaving,
        });
        let asked = Given::asked(Demand {
            id,
            pod: pod.clone(),
            after: cause.after,
            begun,
            again: if is_made { Again::Never } else { cause.again },
            set: seen.owner.filter(|owner| owner.kind == OwnerKind::ReplicaSet).map(|owner| owner.uid),
            runs: cause.runs,
            lives: cause.lives,
            unmade: cause.unmade,
        })?;
        Ok(Some(asked))
    }

    fn node(&mut self, name: Arc<str>, what: What) -> Option<Given> {
        match what {
            What::Deleted(node) => {
                let decided = (self.is_scaled)(&node) && is_being_removed(&node);
                (self.nodes.remove(&name) && !decided).then_some(Given::Object(What::Deleted(node)))
            }
            What::Added(node) | What::Modified(node) => {
                if self.nodes.contains(&name) {
                    // What an autoscaler does to a node that it removes is decided.
                    let decided = self.begun && is_being_removed(&node) && (self.is_scaled)(&node);
                    return (!decided).then_some(Given::Object(What::Modified(node)));
                }
                if self.begun && (self.is_scaled)(&node) {
                    return None;
                }
                self.nodes.insert(name);
                Some(Given::Object(What::Added(node)))
            }
        }
    }
}

fn says(pod: &Object) -> u64 {
    let json: PodJson<'_> = pod.view().unwrap_or_default();
    let mut hasher = FxHasher::default();
    for (key, value) in
        json.metadata.labels.iter().flatten().filter(|(key, _)| !OF_ITS_NODE.contains(&&***key))
    {
        (key, value.get()).hash(&mut hasher);
    }
    json.spec.tolerations.map(RawValue::get).hash(&mut hasher);
    hasher.finish()
}
