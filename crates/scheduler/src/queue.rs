//! The scheduling queue in virtual time: activeQ, backoffQ, unschedulable pods, and the events that requeue them.
//!
//! Pods with equal timestamps are popped in the order they were added. kube-scheduler has nanosecond timestamps there,
//! and iterates over its unschedulable pods in random order; here nothing depends on that order, as a pod keeps its
//! timestamp when it is moved.

mod event_handlers;
mod hints;
mod scheduling_loop;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::{Moment, NamespacedName};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cache::ClusterCache;
use super::events::{ClusterEvent, HintInputs, ObservedEvent, TrackedObjects};
use super::framework::Framework;
use super::ids::PodId;
use super::plugin::Plugin;
use super::plugins::scheduling_gates;
use super::pod::Pod;
use super::settings::{Settings, Version};
pub use scheduling_loop::SchedulingAttempt;

/// A pending pod in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedPodInfo {
    /// The pod.
    pub pod: NamespacedName,
    /// Its state in the queue.
    pub state: QueueState,
    /// The number of scheduling attempts.
    pub attempts: u64,
}

/// The state of a pending pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// In activeQ.
    Active,
    /// In backoffQ. A pod that plugins rejected may be popped earlier while activeQ is empty.
    Backoff {
        /// The backoff expiration.
        until: Moment,
    },
    /// Among the unschedulable pods, waiting for an event.
    Unschedulable {
        /// The plugins that rejected it, sorted.
        plugins: Vec<Plugin>,
    },
    /// Kept out of the queue by a PreEnqueue plugin.
    Gated {
        /// The plugin.
        plugin: Plugin,
    },
}

/// The scheduling queue.
#[derive(Debug)]
pub(super) struct SchedulingQueue {
    backoff_config: BackoffConfig,
    last_sequence: u64,
    entries: FxHashMap<PodId, QueueEntry>,
    active_q: BTreeSet<(QueueOrder, PodId)>,
    /// Pods that plugins rejected, by backoff expiration.
    backoff_q: BTreeSet<(Moment, QueueOrder, PodId)>,
    /// Pods whose cycle failed with an error, by backoff expiration. They are never popped earlier.
    error_backoff_q: BTreeSet<(Moment, QueueOrder, PodId)>,
    /// Unschedulable pods by each plugin that rejected them, so that an event without interested pods costs nothing.
    unschedulable_by_plugin: BTreeMap<Plugin, BTreeSet<PodId>>,
    /// Unschedulable pods by timestamp.
    unschedulable_since: BTreeSet<(Moment, PodId)>,
    /// When unschedulable pods were last flushed. A pod that a PreEnqueue plugin rejects keeps its timestamp, and is due
    /// again at the next interval.
    last_flush: Option<Moment>,
    /// SchedulerAsyncPreemption: victims are deleted in the background.
    async_preemption: bool,
    /// Pods whose victims are being deleted.
    preempting: BTreeSet<PodId>,
    tracked_objects: TrackedObjects,
}

/// A pod that is pending or being bound.
#[derive(Debug)]
struct QueueEntry {
    state: EntryState,
    order: QueueOrder,
    attempts: u64,
    unschedulable_count: u32,
    consecutive_errors_count: u32,
    /// `None` without backoff.
    backoff_expiration: Option<Moment>,
    unschedulable_plugins: SmallVec<[Plugin; 2]>,
    hint_inputs: HintInputs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    Active,
    Backoff,
    ErrorBackoff,
    Unschedulable,
    /// Gated: only an update of the pod itself helps, so it is in no index.
    Gated(Plugin),
    /// Popped from the queue: in its scheduling cycle, or assumed and being bound.
    InFlight,
}

/// The order of activeQ: higher priority first, then the earlier timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueueOrder {
    priority: Reverse<i32>,
    timestamp: Moment,
    /// Orders pods of one timestamp.
    sequence: u64,
}

/// Backoff durations.
#[derive(Clone, Copy, Debug)]
struct BackoffConfig {
    /// In nanoseconds.
    initial: i64,
    /// In nanoseconds; zero for no backoff.
    max: i64,
    /// SchedulerPopFromBackoffQ: backoff ends with whole seconds, and pods are popped earlier while activeQ is empty.
    pop_from_backoff_q: bool,
}

/// The cache and frameworks that queue operations depend on.
#[derive(Clone, Copy)]
struct QueueContext<'a> {
    cache: &'a ClusterCache,
    profiles: &'a [Framework],
}

const SECOND: i64 = 1_000_000_000;
/// The interval at which unschedulable pods are flushed, in nanoseconds.
const FLUSH_INTERVAL: i64 = 30 * SECOND;
/// How long a pod stays unschedulable without an event, in nanoseconds.
const MAX_IN_UNSCHEDULABLE_PODS: i64 = 300 * SECOND;

// === impl SchedulingQueue ===

impl SchedulingQueue {
    pub(super) fn new(settings: &Settings) -> SchedulingQueue {
        SchedulingQueue {
            backoff_config: BackoffConfig::new(settings),
            last_sequence: 0,
            entries: FxHashMap::default(),
            active_q: BTreeSet::new(),
            backoff_q: BTreeSet::new(),
            error_backoff_q: BTreeSet::new(),
            unschedulable_by_plugin: BTreeMap::new(),
            unschedulable_since: BTreeSet::new(),
            last_flush: None,
            async_preemption: settings.version >= Version::V1_33,
            preempting: BTreeSet::new(),
            tracked_objects: TrackedObjects::default(),
        }
    }

    /// Adds a pod. Returns whether it is in activeQ.
    fn add(&mut self, now: Moment, id: PodId, hint_inputs: HintInputs, context: QueueContext<'_>) -> bool {
        let order = self.next_order(now, context.cache.pod(id));
        let entry = QueueEntry {
            state: EntryState::Active,
            order,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors_count: 0,
            backoff_expiration: None,
            unschedulable_plugins: SmallVec::new(),
            hint_inputs,
        };
        self.entries.insert(id, entry);
        self.enqueue_or_back_off(now, id, context);
        self.entries[&id].state == EntryState::Active
    }

    /// Removes a pod from the queue.
    fn remove(&mut self, id: PodId) {
        self.take(id);
        self.entries.remove(&id);
        self.preempting.remove(&id);
    }

    /// Handles update events of a pending pod.
    fn update(
        &mut self,
        now: Moment,
        id: PodId,
        changes: &[ObservedEvent<'_>],
        hint_inputs: HintInputs,
        context: QueueContext<'_>,
    ) {
        let priority = Reverse(context.cache.pod(id).priority());
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let state = entry.state;
        entry.hint_inputs = hint_inputs;
        match state {
            EntryState::Active | EntryState::Backoff | EntryState::ErrorBackoff
                if entry.order.priority != priority =>
            {
                self.take(id);
                self.update_entry(id, |entry| entry.order.priority = priority);
                self.insert(id, state);
            }
            EntryState::Active | EntryState::Backoff | EntryState::ErrorBackoff | EntryState::InFlight => {}
            EntryState::Unschedulable | EntryState::Gated(_) => {
                self.update_entry(id, |entry| entry.order.priority = priority);
                for change in changes {
                    if hints::is_worth_requeueing(context, id, &self.entries[&id], change) {
                        self.take(id);
                        self.enqueue_or_back_off(now, id, context);
                    }
                    if !matches!(self.entries[&id].state, EntryState::Unschedulable | EntryState::Gated(_)) {
                        return;
                    }
                }
            }
        }
    }

    /// Requeues unschedulable pods for which `is_candidate` holds and whose queueing hints say that the event may help.
    fn move_all_to_active_or_backoff_queue(
        &mut self,
        now: Moment,
        event: &ObservedEvent<'_>,
        is_candidate: impl Fn(&Pod) -> bool,
        context: QueueContext<'_>,
    ) {
        let mut helped: Vec<PodId> = Vec::new();
        for (plugin, pods) in &self.unschedulable_by_plugin {
            if plugin.is_registered_for(event.cluster_event) {
                let is_helped = |id: &&PodId| {
                    let entry = &self.entries[*id];
                    is_candidate(context.cache.pod(**id))
                        && entry.accepts(event)
                        && hints::evaluate_hint(*plugin, context, **id, entry, event)
                };
                helped.extend(pods.iter().filter(is_helped));
            }
        }
        helped.sort_unstable();
        helped.dedup();
        for id in helped {
            self.take(id);
            self.enqueue_or_back_off(now, id, context);
        }
    }

    /// Whether any pod is unschedulable.
    fn has_unschedulable(&self) -> bool {
        !self.unschedulable_by_plugin.is_empty()
    }

    /// Whether one of these plugins rejected an unschedulable pod.
    fn has_rejected_by_any(&self, plugins: &[Plugin]) -> bool {
        plugins.iter().any(|plugin| self.unschedulable_by_plugin.contains_key(plugin))
    }

    /// Pops the next pod, which is in flight until it is bound or fails.
    fn pop(&mut self) -> Option<PodId> {
        let id = self.first()?;
        self.mark_in_flight(id);
        self.update_entry(id, |entry| entry.attempts += 1);
        Some(id)
    }

    /// The pod that would be popped next.
    fn first(&self) -> Option<PodId> {
        let from_backoff_q =
            || self.backoff_q.first().filter(|_| self.backoff_config.pop_from_backoff_q).map(|(.., id)| *id);
        self.active_q.first().map(|(_, id)| *id).or_else(from_backoff_q)
    }

    /// Marks a pod as in flight: it is in no queue.
    pub(super) fn mark_in_flight(&mut self, id: PodId) {
        self.take(id);
        self.insert(id, EntryState::InFlight);
    }

    /// Returns a pod to the queue after a failed cycle. `unschedulable_plugins` is empty after an error, and in a cluster
    /// without nodes, which counts as an error here.
    fn add_unschedulable(
        &mut self,
        now: Moment,
        id: PodId,
        unschedulable_plugins: &[Plugin],
        context: QueueContext<'_>,
    ) {
        let order = self.next_order(now, context.cache.pod(id));
        let backoff_config = self.backoff_config;
        self.take(id);
        self.update_entry(id, |entry| {
            entry.order = order;
            entry.unschedulable_plugins = unschedulable_plugins.into();
            if unschedulable_plugins.is_empty() {
                entry.consecutive_errors_count = entry.consecutive_errors_count.saturating_add(1);
            } else {
                entry.unschedulable_count = entry.unschedulable_count.saturating_add(1);
                entry.consecutive_errors_count = 0;
            }
            entry.backoff_expiration = backoff_config.expiration(
                now,
                if entry.consecutive_errors_count > 0 {
                    entry.consecutive_errors_count
                } else {
                    entry.unschedulable_count
                },
            );
        });
        if unschedulable_plugins.is_empty() {
            self.enqueue_or_back_off(now, id, context);
        } else {
            self.insert(id, EntryState::Unschedulable);
        }
    }

    /// The next moment at which a backoff ends or a pod is flushed.
    fn next_tick(&self) -> Option<Moment> {
        let second_after = |until: Moment| Moment::from_nanos(next_multiple(until.nanos(), SECOND));
        let expirations = [self.backoff_q.first(), self.error_backoff_q.first()].into_iter().flatten();
        let expirations = expirations.map(|(until, ..)| second_after(*until));
        let flush = self.unschedulable_since.first().map(|(since, _)| self.flush_time(*since));
        expirations.chain(flush).min().filter(|tick| *tick != Moment::MAX)
    }

    /// Moves pods whose backoff has ended, and flushes unschedulable pods.
    fn tick(&mut self, tick: Moment, context: QueueContext<'_>) {
        for is_error in [false, true] {
            let backoff_q = if is_error { &self.error_backoff_q } else { &self.backoff_q };
            let expired = backoff_q.iter().take_while(|(until, ..)| *until < tick).map(|(.., id)| *id);
            for id in expired.collect::<Vec<PodId>>() {
                self.take(id);
                if self.backoff_config.pop_from_backoff_q {
                    self.insert(id, EntryState::Active);
                } else {
                    self.enqueue_or_back_off(tick, id, context);
                }
            }
        }
        if tick.nanos().rem_euclid(FLUSH_INTERVAL) == 0 {
            let overdue = self
                .unschedulable_since
                .iter()
                .take_while(|(since, _)| self.flush_time(*since) <= tick)
                .map(|(_, id)| *id);
            let overdue: Vec<PodId> = overdue.collect();
            self.last_flush = Some(tick);
            for id in overdue {
                self.take(id);
                self.enqueue_or_back_off(tick, id, context);
            }
        }
    }

    /// When a pod is flushed that has been unschedulable since then. kube-scheduler's interval begins when it starts; here
    /// it begins at whole and half minutes.
    fn flush_time(&self, since: Moment) -> Moment {
        let overdue = since.plus_nanos(MAX_IN_UNSCHEDULABLE_PODS);
        let after = self.last_flush.map_or(overdue, |flush| flush.max(overdue));
        Moment::from_nanos(next_multiple(after.nanos(), FLUSH_INTERVAL))
    }

    fn is_in_flight(&self, id: PodId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.state == EntryState::InFlight)
    }

    fn next_order(&mut self, now: Moment, pod: &Pod) -> QueueOrder {
        self.last_sequence += 1;
        QueueOrder { priority: Reverse(pod.priority()), timestamp: now, sequence: self.last_sequence }
    }

    /// Puts a pod into activeQ or backoffQ, unless a PreEnqueue plugin rejects it.
    fn enqueue_or_back_off(&mut self, now: Moment, id: PodId, context: QueueContext<'_>) {
        let entry = &self.entries[&id];
        let is_backing_off = self.backoff_config.is_backing_off(entry.backoff_expiration, now);
        let state = match (is_backing_off, entry.unschedulable_plugins.is_empty()) {
            (false, _) => EntryState::Active,
            (true, false) => EntryState::Backoff,
            (true, true) => EntryState::ErrorBackoff,
        };
        let runs_pre_enqueue = !is_backing_off || self.backoff_config.pop_from_backoff_q;
        let Some(plugin) = self.gating_plugin(id, context).filter(|_| runs_pre_enqueue) else {
            self.insert(id, state);
            return;
        };
        self.update_entry(id, |entry| {
            if let Err(position) = entry.unschedulable_plugins.binary_search(&plugin) {
                entry.unschedulable_plugins.insert(position, plugin);
            }
        });
        // A pod that waits for its victims is requeued by their deletion, like other unschedulable pods.
        let is_gated = plugin == Plugin::SchedulingGates;
        self.insert(id, if is_gated { EntryState::Gated(plugin) } else { EntryState::Unschedulable });
    }

    /// The first PreEnqueue plugin that rejects the pod.
    fn gating_plugin(&self, id: PodId, context: QueueContext<'_>) -> Option<Plugin> {
        let pod = context.cache.pod(id);
        let pre_enqueue_plugins = &context.framework(pod)?.profile.pre_enqueue;
        let is_gating = |plugin: &Plugin| match plugin {
            Plugin::SchedulingGates => scheduling_gates::pre_enqueue(pod).is_err(),
            Plugin::DefaultPreemption => self.preempting.contains(&id),
            // Dynamic resources are not simulated: pods with resource claims are rejected in PreFilter.
            Plugin::DynamicResources => false,
            Plugin::PrioritySort
            | Plugin::NodeUnschedulable
            | Plugin::NodeName
            | Plugin::TaintToleration
            | Plugin::NodeAffinity
            | Plugin::NodePorts
            | Plugin::NodeResourcesFit
            | Plugin::VolumeRestrictions
            | Plugin::NodeVolumeLimits
            | Plugin::VolumeBinding
            | Plugin::VolumeZone
            | Plugin::PodTopologySpread
            | Plugin::InterPodAffinity
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder
            | Plugin::NodeDeclaredFeatures
            | Plugin::Unreadable => false,
        };
        pre_enqueue_plugins.iter().copied().find(is_gating)
    }

    fn insert(&mut self, id: PodId, state: EntryState) {
        let SchedulingQueue {
            entries,
            active_q,
            backoff_q,
            error_backoff_q,
            unschedulable_by_plugin,
            unschedulable_since,
            ..
        } = self;
        let Some(entry) = entries.get_mut(&id) else { return };
        entry.state = state;
        let until = entry.backoff_expiration.unwrap_or(Moment::MIN);
        match state {
            EntryState::Active => drop(active_q.insert((entry.order, id))),
            EntryState::Backoff => drop(backoff_q.insert((until, entry.order, id))),
            EntryState::ErrorBackoff => drop(error_backoff_q.insert((until, entry.order, id))),
            EntryState::Unschedulable => {
                unschedulable_since.insert((entry.order.timestamp, id));
                for plugin in &entry.unschedulable_plugins {
                    unschedulable_by_plugin.entry(*plugin).or_default().insert(id);
                }
            }
            EntryState::Gated(_) | EntryState::InFlight => {}
        }
    }

    fn take(&mut self, id: PodId) {
        let SchedulingQueue {
            entries,
            active_q,
            backoff_q,
            error_backoff_q,
            unschedulable_by_plugin,
            unschedulable_since,
            ..
        } = self;
        let Some(entry) = entries.get(&id) else { return };
        let until = entry.backoff_expiration.unwrap_or(Moment::MIN);
        match entry.state {
            EntryState::Active => drop(active_q.remove(&(entry.order, id))),
            EntryState::Backoff => drop(backoff_q.remove(&(until, entry.order, id))),
            EntryState::ErrorBackoff => drop(error_backoff_q.remove(&(until, entry.order, id))),
            EntryState::Unschedulable => {
                unschedulable_since.remove(&(entry.order.timestamp, id));
                for plugin in &entry.unschedulable_plugins {
                    remove_from_index(unschedulable_by_plugin, *plugin, id);
                }
            }
            EntryState::Gated(_) | EntryState::InFlight => {}
        }
    }

    fn update_entry(&mut self, id: PodId, change: impl FnOnce(&mut QueueEntry)) {
        if let Some(entry) = self.entries.get_mut(&id) {
            change(entry);
        }
    }
}

fn remove_from_index(index: &mut BTreeMap<Plugin, BTreeSet<PodId>>, plugin: Plugin, id: PodId) {
    if let Some(pods) = index.get_mut(&plugin) {
        pods.remove(&id);
        if pods.is_empty() {
            index.remove(&plugin);
        }
    }
}

/// The next multiple after a number, saturating.
fn next_multiple(number: i64, unit: i64) -> i64 {
    (number.div_euclid(unit) + 1).checked_mul(unit).unwrap_or(i64::MAX)
}

// === impl QueueEntry ===

impl QueueEntry {
    /// Whether the event may requeue the pod. While the victims of its preemption are being deleted, only the deletion of
    /// an assigned pod may.
    fn accepts(&self, event: &ObservedEvent<'_>) -> bool {
        event.cluster_event == ClusterEvent::AssignedPodDelete
            || !self.unschedulable_plugins.contains(&Plugin::DefaultPreemption)
    }
}

// === impl BackoffConfig ===

impl BackoffConfig {
    fn new(settings: &Settings) -> BackoffConfig {
        BackoffConfig {
            // Go's product wraps too: absurd seconds give kube-scheduler's absurd backoff.
            initial: settings.initial_backoff_seconds.wrapping_mul(SECOND),
            max: settings.max_backoff_seconds.wrapping_mul(SECOND),
            pop_from_backoff_q: settings.version >= Version::V1_33,
        }
    }

    /// The backoff expiration after so many failures, the last of them now.
    fn expiration(self, now: Moment, failures: u32) -> Option<Moment> {
        if self.max == 0 || failures == 0 {
            return None;
        }
        let doublings = (failures - 1).min(63);
        let wait = if self.initial > self.max >> doublings { self.max } else { self.initial << doublings };
        Some(self.align_to_window(now.plus_nanos(wait)))
    }

    /// Whether the backoff has not ended yet; it lasts until its last second is over.
    fn is_backing_off(self, until: Option<Moment>, now: Moment) -> bool {
        until.is_some_and(|until| until >= self.align_to_window(now))
    }

    fn align_to_window(self, moment: Moment) -> Moment {
        if self.pop_from_backoff_q {
            let seconds = moment.nanos().div_euclid(SECOND);
            // Only the first representable second has no beginning.
            return Moment::from_nanos(seconds.checked_mul(SECOND).unwrap_or(i64::MIN));
        }
        moment
    }
}

// === impl QueueContext ===

impl<'a> QueueContext<'a> {
    fn framework(self, pod: &Pod) -> Option<&'a Framework> {
        self.profiles.iter().find(|framework| framework.profile.scheduler_name == pod.spec.scheduler_name)
    }
}
