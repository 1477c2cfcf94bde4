//! What is given, in order: a recording read for the second time, with its causes known.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use model::{Moment, Object, What};
use rustc_hash::{FxHashMap, FxHashSet};
use sim::run::{Begun, Demand, DemandId, Given};

use crate::causes::pod::{PodSeen, is_being_removed};
use crate::causes::{Act, Causes};

/// Hands out what is given.
pub struct Script<'a> {
    causes: &'a Causes,
    /// Nodes that come and go as is decided.
    is_scaled: &'a dyn Fn(&Object) -> bool,
    /// How many lives were seen.
    lives: usize,
    open: FxHashSet<Arc<str>>,
    /// Which lives those are that may not be scheduled yet.
    gated: FxHashMap<Arc<str>, usize>,
    /// Nodes that were given.
    nodes: BTreeSet<Arc<str>>,
    /// What is still to be done to demands.
    acts: BinaryHeap<Reverse<(Moment, DemandId, Act)>>,
    begun: bool,
}

impl<'a> Script<'a> {
    /// The script of these causes.
    pub fn new(causes: &'a Causes, is_scaled: &'a dyn Fn(&Object) -> bool) -> Script<'a> {
        Script {
            causes,
            is_scaled,
            lives: 0,
            open: FxHashSet::default(),
            gated: FxHashMap::default(),
            nodes: BTreeSet::new(),
            acts: BinaryHeap::new(),
            begun: false,
        }
    }

    /// What an object means that is there when the window begins.
    pub fn begin(&mut self, from: Moment, object: Object) -> Option<Given> {
        self.given(from, What::Added(object))
    }

    /// What a change means.
    pub fn see(&mut self, at: Moment, what: What) -> Option<Given> {
        self.begun = true;
        self.given(at, what)
    }

    /// What is done to a demand before a moment.
    pub fn due(&mut self, before: Moment) -> Option<(Moment, Given)> {
        self.acts.peek().filter(|Reverse((at, ..))| *at < before)?;
        let Reverse((at, demand, act)) = self.acts.pop()?;
        Some((
            at,
            match act {
                Act::Withdrawn => Given::Withdrawn(demand),
                Act::Deleted => Given::Deleted(demand),
                Act::CleanedUp => Given::CleanedUp(demand),
            },
        ))
    }

    fn given(&mut self, at: Moment, what: What) -> Option<Given> {
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
                        None
                    }
                    What::Added(pod) | What::Modified(pod) if self.gated.contains_key(&uid) => {
                        let seen = PodSeen::read(pod).ok().filter(|seen| !seen.is_gated)?;
                        let life = self.gated.remove(&uid)?;
                        self.asked(at, life, pod, seen)
                    }
                    What::Added(_) | What::Modified(_) if self.open.contains(&uid) => None,
                    What::Added(pod) | What::Modified(pod) => self.first_seen(at, uid, pod),
                }
            }
            ("v1", "Node") => {
                let name: Arc<str> = (*meta.name).into();
                self.node(name, what)
            }
            (_, "Event" | "Lease") => None,
            _ => Some(Given::Object(what)),
        }
    }

    fn first_seen(&mut self, at: Moment, uid: Arc<str>, pod: &Object) -> Option<Given> {
        let seen = PodSeen::read(pod).ok()?;
        let life = self.lives;
        self.lives += 1;
        self.open.insert(uid.clone());
        if seen.is_gated {
            // It is asked for when it may be scheduled.
            self.gated.insert(uid, life);
            return None;
        }
        self.asked(at, life, pod, seen)
    }

    fn asked(&mut self, at: Moment, life: usize, pod: &Object, seen: PodSeen) -> Option<Given> {
        let life = self.causes.lives.get(life)?;
        let has_ended = !self.begun && seen.finished;
        if life.life > 0 || has_ended {
            return None;
        }
        let cause = self.causes.demands.get(life.demand.0 as usize)?;
        for (when, act) in &cause.acts {
            self.acts.push(Reverse((*when, life.demand, *act)));
        }
        let comes_with_node = self.begun && seen.comes_with_node;
        if comes_with_node && seen.node.as_ref().is_none_or(|node| !self.nodes.contains(node)) {
            // It comes with a node that is decided about.
            return None;
        }
        let begun = (!self.begun || comes_with_node).then(|| Begun {
            came: seen.created.map_or(at, |created| created.min(at)),
            node: seen.node,
            started: seen.started,
            leaving: seen.leaving,
        });
        Some(Given::Asked(Box::new(Demand {
            id: life.demand,
            pod: pod.clone(),
            after: cause.after,
            begun,
            again: cause.again,
            runs: cause.runs,
            lives: cause.lives.clone(),
        })))
    }

    fn node(&mut self, name: Arc<str>, what: What) -> Option<Given> {
        match what {
            What::Deleted(node) => {
                let decided = (self.is_scaled)(&node) && is_being_removed(&node);
                (self.nodes.remove(&name) && !decided).then_some(Given::Object(What::Deleted(node)))
            }
            What::Added(node) | What::Modified(node) => {
                if self.nodes.contains(&name) {
                    return Some(Given::Object(What::Modified(node)));
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
