//! DaemonSets: a pod on every node that wants one.
//!
//! What is known of a node is kept until the node or a pod on it changes, so that a change costs the same however many
//! nodes there are.

mod place;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::daemons::{DaemonNodes, Wants, add_tolerations};
use model::Moment;
use serde_json::{Value, json};

use self::place::{Counts, Place};
use super::api::{DaemonSetSpec, DaemonSetStatus};
use super::pod::Pod;
use super::table::Held;
use super::template::{NewPod, REVISION_HASH};
use super::world::{Thing, World};
use super::{Context, Controller, revision_history};

/// The most pods that are made, or deleted, at a time.
const BURST: usize = 250;
/// The label that says which generation of the template a pod is of.
const GENERATION: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// What is remembered of the DaemonSets, by uid.
#[derive(Debug, Default)]
pub(super) struct Daemons {
    sets: BTreeMap<Arc<str>, Memory>,
}

/// What is remembered of a DaemonSet.
#[derive(Debug, Default)]
struct Memory {
    /// By node, for nodes that there are and for those that pods are meant for.
    places: BTreeMap<Arc<str>, Place>,
    /// The nodes to look at again.
    stale: BTreeSet<Arc<str>>,
    /// All nodes are to be looked at again.
    all_stale: bool,
    totals: Counts,
    /// The revision that pods were compared with.
    hash: Arc<str>,
    /// The nodes that its template means; `None` if it makes no sense.
    nodes: Option<DaemonNodes>,
    /// The only node it is meant for.
    only: Option<Arc<str>>,
}

/// A DaemonSet with what its pods are compared with.
struct Set<'a> {
    held: &'a Held<DaemonSetSpec>,
    hash: &'a str,
    generation: Option<&'a str>,
}

/// What is to be done about the pods.
#[derive(Debug, Default)]
struct Plan {
    /// The nodes that get a pod.
    create: Vec<Arc<str>>,
    delete: Vec<Arc<Pod>>,
}

// === impl Daemons ===

impl Daemons {
    /// A DaemonSet came, changed or went.
    pub(super) fn set_changed(&mut self, uid: &Arc<str>, is_there: bool, is_new_spec: bool) {
        if !is_there {
            self.sets.remove(uid);
        } else if is_new_spec {
            self.sets.entry(uid.clone()).or_default().all_stale = true;
        }
    }

    /// A node came, went, or has other labels or taints.
    pub(super) fn node_changed(&mut self, node: &Arc<str>) {
        for memory in self.sets.values_mut() {
            memory.stale.insert(node.clone());
        }
    }

    /// A pod changed, came or went.
    pub(super) fn pod_changed(&mut self, owner: &str, pod: &Pod, is_there: bool) {
        let (Some(memory), Some(node)) = (self.sets.get_mut(owner), &pod.target) else { return };
        memory.stale.insert(node.clone());
        let place = memory.places.entry(node.clone()).or_default();
        if is_there {
            place.pods.insert(pod.name.clone());
        } else {
            place.pods.remove(&pod.name);
        }
    }

    pub(super) fn sync(&mut self, context: &mut Context<'_>, held: &Arc<Held<DaemonSetSpec>>) {
        if held.is_deleted() {
            return;
        }
        let memory = self.sets.entry(held.uid.clone()).or_default();
        let generation = held.meta.annotations.get(GENERATION_ANNOTATION);
        let known = known_hash(context.world, held, generation);
        let (own, old) = revision_history::current(context, held, &held.spec.template, known);
        if memory.all_stale || memory.hash != own.hash {
            memory.renew(context.world, held, &own.hash);
        }
        let set = Set { held, hash: &own.hash, generation };
        let mut plan = memory.manage(context, &set);
        if plan.is_empty() && held.spec.rolls() && memory.totals.outdated > 0 {
            plan = memory.roll(context, &set);
        }
        let is_done = plan.is_empty();
        plan.carry_out(context, &set);
        let pods = || context.world.pods_of(&held.uid);
        if old.len() as i64 > held.spec.revision_history_limit.unwrap_or(10) {
            let live: BTreeSet<String> =
                pods().iter().filter_map(|pod| pod.label(REVISION_HASH).map(str::to_owned)).collect();
            let limit = held.spec.revision_history_limit.unwrap_or(10);
            revision_history::forget(context, &old, limit, |revision| live.contains(&*revision.hash));
        }
        if is_done {
            memory.tell(context, held);
        }
    }
}

/// The revision that the pods of the current template have, where the revision itself was never seen.
fn known_hash(world: &World, held: &Held<DaemonSetSpec>, generation: Option<&str>) -> Option<String> {
    if world.owned(&held.uid).any(|(thing, _)| *thing == Thing::Revision) {
        return None;
    }
    let pods = world.pods_of(&held.uid);
    let is_current = |pod: &&Arc<Pod>| generation.is_some() && pod.label(GENERATION) == generation;
    pods.iter().find(is_current).and_then(|pod| pod.label(REVISION_HASH)).map(str::to_owned)
}

// === impl Memory ===

impl Memory {
    /// Forgets all that was made out of nodes and pods.
    fn renew(&mut self, world: &World, held: &Held<DaemonSetSpec>, hash: &Arc<str>) {
        let pod = held.spec.template.pod(held);
        let mut spec = pod.spec;
        self.only =
            spec.get("nodeName").and_then(Value::as_str).filter(|name| !name.is_empty()).map(Arc::from);
        add_tolerations(&mut spec);
        self.nodes = DaemonNodes::read(&spec).ok();
        self.hash = hash.clone();
        self.totals = Counts::default();
        let places = std::mem::take(&mut self.places);
        for (node, place) in places {
            let place = Place { backoff: place.backoff, ..Place::default() };
            self.places.insert(node, place);
        }
        for pod in world.pods_of(&held.uid) {
            if let Some(node) = &pod.target {
                self.places.entry(node.clone()).or_default().pods.insert(pod.name.clone());
            }
        }
        for node in world.nodes.keys() {
            self.places.entry(node.clone()).or_default();
        }
        self.stale = self.places.keys().cloned().collect();
        self.all_stale = false;
    }

    /// Looks at the nodes that changed: which get a pod, and which of their pods are too many.
    fn manage(&mut self, context: &mut Context<'_>, set: &Set<'_>) -> Plan {
        let mut plan = Plan::default();
        let (mut later, mut is_full) = (BTreeSet::new(), false);
        for node in std::mem::take(&mut self.stale) {
            if plan.create.len() >= BURST || plan.delete.len() >= BURST {
                later.insert(node);
                is_full = true;
                continue;
            }
            let place = self.places.entry(node.clone()).or_default();
            place.wants = match (context.world.nodes.get(&node), &self.nodes) {
                (Some(there), Some(nodes)) if self.only.as_ref().is_none_or(|only| *only == node) => {
                    nodes.wants(&node, &there.labels, &there.taints)
                }
                _ => Wants::default(),
            };
            let pods = place.pods(context.world);
            if context.world.nodes.contains_key(&node) {
                if place.manage(context, set, &node, &pods, &mut plan) {
                    later.insert(node.clone());
                }
            } else {
                // Nobody else would find a pod that waits for a node that is gone.
                plan.delete
                    .extend(pods.iter().filter(|pod| pod.node.is_none() && !pod.is_deleted()).cloned());
            }
            let mut counts = place.count(set, &pods, context.now);
            if !context.world.nodes.contains_key(&node) {
                // A pod on a node that is gone is not in the wrong place.
                counts.misscheduled = 0;
            }
            self.totals.replace(&place.counts, &counts);
            place.counts = counts;
            if pods.is_empty() && !context.world.nodes.contains_key(&node) {
                self.places.remove(&node);
            }
        }
        if is_full {
            context.queue.add(Controller::DaemonSet, set.held.name.clone());
        }
        self.stale = later;
        plan
    }

    /// Keeps the status up to date.
    fn tell(&mut self, context: &mut Context<'_>, held: &Held<DaemonSetSpec>) {
        let totals = &self.totals;
        let status = DaemonSetStatus {
            current_number_scheduled: totals.current,
            number_misscheduled: totals.misscheduled,
            desired_number_scheduled: totals.desired,
            number_ready: totals.ready,
            observed_generation: held.meta.generation,
            updated_number_scheduled: totals.updated,
            number_available: totals.available,
            number_unavailable: totals.desired - totals.available,
            collision_count: held.status.collision_count,
        };
        if status != held.status {
            context.update(held.with_status(&status));
        }
        if held.spec.min_ready_seconds > 0 && totals.ready != totals.available {
            let soonest = |at: Option<Moment>, place: &Place| match (at, place.counts.available_at) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            if let Some(at) = self.places.values().fold(None, soonest) {
                self.stale.extend(self.places.keys().cloned());
                context.look_again(at, Controller::DaemonSet, held.name.clone());
            }
        }
    }
}

// === impl Set ===

impl Set<'_> {
    fn is_updated(&self, pod: &Pod) -> bool {
        pod.label(REVISION_HASH) == Some(self.hash)
            || self.generation.is_some() && pod.label(GENERATION) == self.generation
    }

    /// The pod for a node: only the scheduler's say is missing.
    fn pod_for(&self, node: &str) -> NewPod {
        let mut pod = self.held.spec.template.pod(self.held);
        add_tolerations(&mut pod.spec);
        if let Some(generation) = self.generation {
            pod.label(GENERATION, generation);
        }
        pod.label(REVISION_HASH, self.hash);
        let affinity = pod.spec.entry("affinity").or_insert_with(|| json!({}));
        if !affinity.is_object() {
            *affinity = json!({});
        }
        if !affinity["nodeAffinity"].is_object() {
            affinity["nodeAffinity"] = json!({});
        }
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        });
        pod
    }
}

// === impl Plan ===

impl Plan {
    fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }

    fn carry_out(self, context: &mut Context<'_>, set: &Set<'_>) {
        for node in self.create.iter().take(BURST) {
            context.create_pod(set.pod_for(node));
        }
        for pod in self.delete.iter().take(BURST) {
            context.delete_pod(pod);
        }
    }
}
