//! The autoscaler's loop, and the cloud it asks for nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::{Autoscaler, Background, Cloud, Loop, PodStatusUpdate, ScaleUpResult};
use indexmap::IndexMap;
use kubernetes::time::after;
use model::{Moment, NamespacedName, Object, What};
use rustc_hash::FxBuildHasher;

use crate::cloud::{CloudChange, SimulatedCloud};
use crate::pace::{Pacer, Step};
use crate::setup::AutoscalerSetup;

/// cluster-autoscaler's loop and its cloud.
#[derive(Debug)]
pub struct AutoscalerLoop {
    autoscaler: Autoscaler,
    cloud: SimulatedCloud,
    /// News of pods that the autoscaler has not been told yet.
    unreported: IndexMap<NamespacedName, PodNews, FxBuildHasher>,
    /// The group of every node that has one.
    groups: BTreeMap<Arc<str>, Arc<str>>,
    /// Until when its last loop lasts.
    busy_until: Moment,
    /// What its last loop came to.
    last: Option<Loop>,
    /// The last loop, if it changed nothing and left nothing for a later one.
    calm: Option<Moment>,
    /// Pods for which that loop could do nothing.
    given_up: BTreeSet<NamespacedName>,
    /// When a pod was last refused that the autoscaler may be able to help.
    last_refusal: Moment,
}

/// A pod as the owner of the cluster's objects shows it to the autoscaler.
pub trait ObservedPod {
    /// Its name.
    fn name(&self) -> &NamespacedName;

    /// Whether it waits for a node and the scheduler found none.
    fn is_unschedulable(&self) -> bool;

    /// The pod as it is now.
    fn object(&self) -> Object;

    /// The part of it that is not its owner's.
    fn status_update(&self) -> PodStatusUpdate;
}

/// What there is to tell of a pod: of two, the later in this list includes the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodNews {
    /// Its status.
    StatusUpdate,
    /// All of it: it is new, or its owner changed it.
    All,
}

/// No loop takes no time: one that scans without pause would else never let time pass.
const SHORTEST_LOOP: Duration = Duration::from_millis(1);

impl AutoscalerLoop {
    /// An autoscaler of a cluster that begins at a moment.
    pub fn new(setup: AutoscalerSetup, begins: Moment) -> AutoscalerLoop {
        AutoscalerLoop {
            autoscaler: Autoscaler::new(setup.settings, setup.start).being_brief(),
            cloud: setup.cloud,
            unreported: IndexMap::default(),
            groups: BTreeMap::new(),
            busy_until: setup.start,
            last: None,
            calm: None,
            given_up: BTreeSet::new(),
            last_refusal: begins,
        }
    }

    /// Decides. One may ask for its status.
    pub fn autoscaler(&self) -> &Autoscaler {
        &self.autoscaler
    }

    /// An object that is no pod came, changed or went.
    pub fn apply(&mut self, what: &What) {
        self.autoscaler.apply(what);
    }

    /// There is news of a pod. There may be more before the autoscaler looks again, and only what the pod has come to by
    /// then matters; of one that is unschedulable it is told at once, since it may look sooner for it.
    pub fn pod_changed(&mut self, pod: &impl ObservedPod, news: PodNews) {
        let news = match self.unreported.get_mut(pod.name()) {
            Some(known) => {
                *known = news.max(*known);
                *known
            }
            None => {
                self.unreported.insert(pod.name().clone(), news);
                news
            }
        };
        if pod.is_unschedulable() {
            self.unreported.swap_remove(pod.name());
            self.report(pod.name(), news, Some(pod));
        }
    }

    /// The autoscaler is about to do something: it is told of all pods that it has not been told of, as they are now.
    pub fn report_pods<'p, P: ObservedPod + 'p>(&mut self, find: impl Fn(&NamespacedName) -> Option<&'p P>) {
        for (name, news) in std::mem::take(&mut self.unreported) {
            self.report(&name, news, find(&name));
        }
    }

    fn report(&mut self, name: &NamespacedName, news: PodNews, pod: Option<&impl ObservedPod>) {
        match (news, pod) {
            (PodNews::All, Some(pod)) => self.autoscaler.apply(&What::Modified(pod.object())),
            (_, pod) => self.autoscaler.apply_fate(name, pod.map(ObservedPod::status_update)),
        }
    }

    /// The scheduler refused a pod, in other words than before.
    pub fn pod_refused(&mut self, now: Moment, pod: &NamespacedName) {
        if !self.given_up.contains(pod) {
            self.last_refusal = now;
        }
    }

    /// A node is there: the cloud says whose it is.
    pub fn node_added(&mut self, node: &Object) -> Option<Arc<str>> {
        let group = self.cloud.adopt(node)?;
        let group = self.cloud.groups()[group.index()].name.clone();
        self.groups.insert((*node.meta().name).into(), group.clone());
        Some(group)
    }

    /// A node is gone, and with it its machine.
    pub fn node_deleted(&mut self, node: &Object) {
        self.groups.remove(&*node.meta().name);
        self.cloud.lose(node);
    }

    /// The group of a node.
    pub fn group_of(&self, node: &str) -> Option<&Arc<str>> {
        self.groups.get(node)
    }

    /// When it has something to do.
    pub fn next(&self) -> Moment {
        let next = self.next_loop().min(self.autoscaler.next_wake());
        self.cloud.next_wake().map_or(next, |wake| wake.min(next))
    }

    fn next_loop(&self) -> Moment {
        self.autoscaler.next_loop().max(self.busy_until)
    }

    /// What happened in the cloud until now.
    pub fn cloud_changes(&mut self, now: Moment) -> Vec<CloudChange> {
        self.cloud.advance(now)
    }

    /// What is due between loops. It may be more once that is done and told.
    pub fn background(&mut self, now: Moment) -> Background {
        self.autoscaler.background(now, &mut self.cloud)
    }

    /// Runs a loop if one is due. What it came to is to be [handed back](AutoscalerLoop::finish) when it has been acted
    /// upon.
    pub fn run_once(&mut self, now: Moment, pacer: &mut Pacer) -> Option<Loop> {
        if self.next_loop() > now {
            return None;
        }
        let done = self.repeat(now).unwrap_or_else(|| self.compute(now));
        let took = pacer.draw_for_work(Step::Loop, now, self.autoscaler.looks(&done));
        self.busy_until = after(now, took.max(SHORTEST_LOOP));
        Some(done)
    }

    /// The last loop again, if another one would come to the same.
    fn repeat(&mut self, now: Moment) -> Option<Loop> {
        let last = self.last.take()?;
        if !self.autoscaler.repeat(now, &self.cloud) {
            return None;
        }
        self.calm = self.calm.map(|_| now);
        Some(Loop { at: now, ..last })
    }

    fn compute(&mut self, now: Moment) -> Loop {
        let done = self.autoscaler.run_once(now, &mut self.cloud);
        self.calm = is_calm(&done).then_some(now);
        let remaining = done.scale_ups.iter().flat_map(|up| &up.remaining);
        self.given_up = remaining.map(|remaining| remaining.pod.clone()).collect();
        done
    }

    /// A loop has been acted upon.
    pub fn finish(&mut self, done: Loop) {
        self.last = Some(done);
    }

    #[cfg(test)]
    pub(crate) fn forget_last(&mut self) {
        self.last = None;
    }

    /// Whether a node is on its way.
    pub fn awaits_node(&self) -> bool {
        self.cloud.next_wake().is_some()
    }

    /// Whether nothing came of a loop that knew of all pods refused until then.
    pub fn is_calm(&self) -> bool {
        self.calm.is_some_and(|calm| calm >= after(self.last_refusal, self.autoscaler.new_pod_delay()))
    }
}

/// Whether a loop changed nothing and left nothing for a later one, as it leaves pods that have only just come.
fn is_calm(done: &Loop) -> bool {
    let ups = done.scale_ups.iter().chain(&done.min_size);
    let rests = |result| !matches!(result, ScaleUpResult::Successful | ScaleUpResult::InCooldown);
    ups.map(|up| up.result).all(rests) && done.scale_down.nodes.is_empty()
}
