//! The autoscaler at work, and the cloud it asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::{Action, Autoscaler, Cloud, Event, Loop, ScaleUpResult};
use indexmap::IndexMap;
use model::{Moment, NamespacedName, Object, What};
use rustc_hash::FxBuildHasher;

use super::pods::Pod;
use super::told::{Audience, Decided};
use super::{AutoscalerSetup, Run, after};
use crate::pace::Step;
use crate::{CloudChange, SimulatedCloud, made_ready};

/// An autoscaler and its cloud.
#[derive(Debug)]
pub(super) struct Scaler {
    pub(super) autoscaler: Autoscaler,
    /// What pods came to that it has not been told yet.
    untold: IndexMap<NamespacedName, News, FxBuildHasher>,
    cloud: SimulatedCloud,
    /// The group of every node that has one.
    groups: BTreeMap<Arc<str>, Arc<str>>,
    /// Until when its last loop lasts.
    busy_until: Moment,
    /// What its last loop came to.
    pub(super) last: Option<Loop>,
    /// The last loop, if it changed nothing and left nothing for a later one.
    calm: Option<Moment>,
    /// Pods for which that loop could do nothing.
    given_up: BTreeSet<NamespacedName>,
}

/// What there is to tell of a pod: at the most what is listed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// What became of it.
    PodStatusUpdate,
    /// All of it: it is new, or not the one that was asked for any more.
    All,
}

/// No loop takes no time: one that scans without pause would else never let time pass.
const SHORTEST_LOOP: Duration = Duration::from_millis(1);

/// How often work may go on at one moment. It needs a few times; more is a fault.
const ROUNDS: usize = 100;

impl Scaler {
    pub(super) fn new(setup: AutoscalerSetup) -> Scaler {
        Scaler {
            autoscaler: Autoscaler::new(setup.settings, setup.start).being_brief(),
            untold: IndexMap::default(),
            cloud: setup.cloud,
            groups: BTreeMap::new(),
            busy_until: setup.start,
            last: None,
            calm: None,
            given_up: BTreeSet::new(),
        }
    }

    /// There is news of a pod. There is several times before the autoscaler looks again, and only what the pod has come
    /// to by then matters; of one that no node takes it hears at once, since it may look sooner for it.
    pub(super) fn hear_of(&mut self, pod: &Pod, news: News) {
        let news = match self.untold.get_mut(&pod.name) {
            Some(known) => {
                *known = news.max(*known);
                *known
            }
            None => {
                self.untold.insert(pod.name.clone(), news);
                news
            }
        };
        if pod.is_refused() {
            self.untold.swap_remove(&pod.name);
            self.tell(&pod.name, news, Some(pod));
        }
    }

    fn tell(&mut self, name: &NamespacedName, news: News, pod: Option<&Pod>) {
        match (news, pod) {
            (News::All, Some(pod)) => self.autoscaler.apply(&What::Modified(pod.object())),
            (_, pod) => self.autoscaler.apply_fate(name, pod.map(Pod::fate)),
        }
    }

    /// When it has something to do.
    pub(super) fn next(&self) -> Moment {
        let next = self.next_loop().min(self.autoscaler.next_wake());
        self.cloud.next_wake().map_or(next, |wake| wake.min(next))
    }

    fn next_loop(&self) -> Moment {
        self.autoscaler.next_loop().max(self.busy_until)
    }

    /// Whether a node is on its way.
    pub(super) fn awaits_node(&self) -> bool {
        self.cloud.next_wake().is_some()
    }

    /// Whether the last loop could do nothing for a pod.
    pub(super) fn has_given_up(&self, pod: &NamespacedName) -> bool {
        self.given_up.contains(pod)
    }

    /// Whether nothing came of a loop that knew of all pods refused until then.
    pub(super) fn is_calm(&self, news: Moment) -> bool {
        self.calm.is_some_and(|calm| calm >= after(news, self.autoscaler.new_pod_delay()))
    }

    /// One that comes to what the last one came to is that one again.
    fn run_loop(&mut self, now: Moment) -> Loop {
        if let Some(last) = self.last.take()
            && self.autoscaler.repeat(now, &self.cloud)
        {
            self.calm = self.calm.map(|_| now);
            return Loop { at: now, ..last };
        }
        let done = self.autoscaler.run_once(now, &mut self.cloud);
        self.calm = is_calm(&done).then_some(now);
        let remaining = done.scale_ups.iter().flat_map(|up| &up.remaining);
        self.given_up = remaining.map(|remaining| remaining.pod.clone()).collect();
        done
    }

    /// A node is there: the cloud says whose it is.
    pub(super) fn meet(&mut self, node: &Object) -> Option<Arc<str>> {
        let group = self.cloud.adopt(node)?;
        let group = self.cloud.groups()[group.index()].name.clone();
        self.groups.insert((*node.meta().name).into(), group.clone());
        Some(group)
    }

    /// A node is gone, and with it its machine.
    pub(super) fn part(&mut self, node: &Object) {
        self.groups.remove(&*node.meta().name);
        self.cloud.lose(node);
    }
}

/// Whether a loop changed nothing and left nothing for a later one, as it leaves pods that have only just come.
fn is_calm(done: &Loop) -> bool {
    let ups = done.scale_ups.iter().chain(&done.min_size);
    let rests = |result| !matches!(result, ScaleUpResult::Successful | ScaleUpResult::InCooldown);
    ups.map(|up| up.result).all(rests) && done.scale_down.nodes.is_empty()
}

impl Run<'_> {
    /// All that the autoscaler and the cloud have to do now.
    pub(super) fn scale(&mut self, audience: &mut dyn Audience) {
        let now = self.now;
        if self.scaler.as_ref().is_none_or(|scaler| scaler.next() > now) {
            return;
        }
        self.cloud_changes(audience);
        self.background(audience);
        self.tell_scaler();
        let Some(scaler) = self.scaler.as_mut().filter(|scaler| scaler.next_loop() <= now) else {
            return;
        };
        let done = scaler.run_loop(now);
        let took = self.pacer.draw_for_work(Step::Loop, now, scaler.autoscaler.looks(&done));
        scaler.busy_until = after(now, took.max(SHORTEST_LOOP));
        let groups: Vec<Option<Arc<str>>> =
            done.scale_down.nodes.iter().map(|removed| scaler.groups.get(&removed.node).cloned()).collect();
        audience.decided(now, &Decided::Looped { done: &done, autoscaler: &scaler.autoscaler });
        for scale_up in done.scale_ups.iter().chain(&done.min_size).filter(|it| !it.increases.is_empty()) {
            audience.decided(now, &Decided::ScaledUp(scale_up));
        }
        for (removed, group) in done.scale_down.nodes.iter().zip(&groups) {
            audience.decided(now, &Decided::ScaledDown { removed, group: group.as_ref() });
        }
        self.do_all(&done.actions, &done.events, audience);
        if let Some(scaler) = &mut self.scaler {
            scaler.last = Some(done);
        }
        self.background(audience);
    }

    /// The autoscaler is about to do something: it hears of all that it has not been told.
    fn tell_scaler(&mut self) {
        let Some(scaler) = &mut self.scaler else { return };
        for (name, news) in std::mem::take(&mut scaler.untold) {
            let pod = self.names.get(&name).and_then(|id| self.pods.get(id));
            scaler.tell(&name, news, pod);
        }
    }

    /// What is due between loops, until nothing is left.
    fn background(&mut self, audience: &mut dyn Audience) {
        for _ in 0..ROUNDS {
            self.tell_scaler();
            let Some(scaler) = &mut self.scaler else { return };
            let done = scaler.autoscaler.background(self.now, &mut scaler.cloud);
            self.do_all(&done.actions, &done.events, audience);
            let was_busy = !done.actions.is_empty() || !done.events.is_empty();
            if !self.cloud_changes(audience) && !was_busy {
                return;
            }
        }
    }

    fn do_all(&mut self, actions: &[Action], events: &[Event], audience: &mut dyn Audience) {
        for event in events {
            self.tell_scaling(event, audience);
        }
        for action in actions {
            self.act(action, audience);
        }
    }

    /// Whether something happened in the cloud.
    fn cloud_changes(&mut self, audience: &mut dyn Audience) -> bool {
        let Some(scaler) = &mut self.scaler else { return false };
        let changes = scaler.cloud.advance(self.now);
        let happened = !changes.is_empty();
        for change in changes {
            match change {
                CloudChange::Registered { node, pods } => {
                    let name: Arc<str> = (*node.meta().name).into();
                    self.set_node(&name, node, audience);
                    for pod in pods {
                        self.come_with(&name, pod, audience);
                    }
                }
                CloudChange::Ready { node, at } => {
                    if let Some(object) = self.nodes.get(&node).map(|object| made_ready(object, at)) {
                        self.set_node(&node, object, audience);
                    }
                }
                CloudChange::Gone { node } => self.remove_node(&node, audience),
            }
        }
        happened
    }
}
