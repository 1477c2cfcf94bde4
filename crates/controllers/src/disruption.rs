//! The disruption controller, which keeps the status of PodDisruptionBudgets.
//!
//! The pods that a budget selects are counted as pods change. As in the original, a sync follows a change of a pod or a
//! budget, not the scaling of a controller. Stale `DisruptionTarget` conditions are not removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::selector::Selector;
use model::{Moment, NamespacedName};

use super::api::{PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use super::informer_cache::InformerCache;
use super::int_or_percent::{IntOrPercent, Rounding};
use super::k8s_time::{Condition, K8sTime};
use super::object_table::{CachedObject, OwnerReference};
use super::pod::{LazyPod, Pod};
use super::{Controller, SyncContext};

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// The time within which an evicted pod is expected to be deleted, in seconds.
const DELETION_TIMEOUT_SECONDS: i64 = 120;

/// The pods that budgets select, by the budgets' namespace and name.
#[derive(Debug, Default)]
pub(super) struct DisruptionController {
    by_namespace: BTreeMap<Arc<str>, BTreeMap<Arc<str>, SelectedPods>>,
}

/// The pods that a budget selects.
#[derive(Debug)]
struct SelectedPods {
    /// The selector; an invalid one selects no pods.
    selector: Result<Selector, String>,
    pods: BTreeMap<Arc<str>, SelectedPod>,
    healthy: i64,
    /// Their controllers by uid, with the number of pods of each.
    controllers: BTreeMap<Arc<str>, (OwnerReference, i64)>,
}

/// A pod that a budget selects.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SelectedPod {
    is_healthy: bool,
    controller: Option<OwnerReference>,
}

// === impl DisruptionController ===

impl DisruptionController {
    /// A budget was added, modified or deleted.
    pub(super) fn budget_changed(
        &mut self,
        world: &InformerCache,
        name: &NamespacedName,
        held: Option<&CachedObject<PodDisruptionBudgetSpec>>,
    ) {
        let Some(held) = held else {
            if let Some(budgets) = self.by_namespace.get_mut(&name.namespace) {
                budgets.remove(&name.name);
                if budgets.is_empty() {
                    self.by_namespace.remove(&name.namespace);
                }
            }
            return;
        };
        let selector = Selector::of(held.spec.selector.as_ref()).map_err(|error| error.to_string());
        let budgets = self.by_namespace.entry(name.namespace.clone()).or_default();
        if budgets.get(&name.name).is_some_and(|known| known.selector == selector) {
            return;
        }
        let mut meant =
            SelectedPods { selector, pods: BTreeMap::new(), healthy: 0, controllers: BTreeMap::new() };
        for (pod, entry) in world.pods.in_namespace(&name.namespace) {
            meant.update_pod(pod, Some(entry));
        }
        budgets.insert(name.name.clone(), meant);
    }

    /// A pod was added, modified or deleted. Returns the names of the budgets concerned.
    pub(super) fn pod_changed(
        &mut self,
        pod: &NamespacedName,
        entry: Option<&LazyPod>,
    ) -> Vec<NamespacedName> {
        let Some(budgets) = self.by_namespace.get_mut(&pod.namespace) else { return Vec::new() };
        let changed =
            budgets.iter_mut().filter_map(|(name, meant)| meant.update_pod(pod, entry).then_some(name));
        changed.map(|name| NamespacedName { namespace: pod.namespace.clone(), name: name.clone() }).collect()
    }

    pub(super) fn sync(&self, context: &mut SyncContext<'_>, held: &CachedObject<PodDisruptionBudgetSpec>) {
        let budgets = self.by_namespace.get(&held.name.namespace);
        let Some(meant) = budgets.and_then(|budgets| budgets.get(&held.name.name)) else { return };
        let status = match meant.expected_pod_count(context.cache, held) {
            Ok((expected, desired)) => {
                let (disrupted, recheck) = build_disrupted_pods(context, held, meant);
                if let Some(at) = recheck {
                    context.enqueue_at(at, Controller::Disruption, held.name.clone());
                }
                let evicted = disrupted.keys().filter(|name| meant.is_healthy(name)).count() as i64;
                computed_status(context.now, held, expected, desired, meant.healthy - evicted, disrupted)
            }
            Err(why) => fail_safe_status(context.now, held, &why),
        };
        if status != held.status {
            context.update(held.with_status(&status));
        }
    }
}

// === impl SelectedPods ===

impl SelectedPods {
    /// Updates the counts for a pod. Returns false if the budget does not select it and did not before.
    fn update_pod(&mut self, name: &NamespacedName, entry: Option<&LazyPod>) -> bool {
        let entry = entry.filter(|entry| {
            let pod = entry.pod(name);
            self.selector.as_ref().is_ok_and(|selector| selector.matches(|key| pod.label(key)))
        });
        let member = entry.map(|entry| SelectedPod {
            is_healthy: is_healthy(entry.pod(name)),
            controller: entry.controller().cloned(),
        });
        let before = match &member {
            Some(member) => self.pods.insert(name.name.clone(), member.clone()),
            None => self.pods.remove(&name.name),
        };
        if let Some(before) = &before {
            self.healthy -= i64::from(before.is_healthy);
            if let Some(owner) = &before.controller
                && let Some((_, count)) = self.controllers.get_mut(&owner.uid)
            {
                *count -= 1;
                if *count == 0 {
                    self.controllers.remove(&owner.uid);
                }
            }
        }
        if let Some(member) = &member {
            self.healthy += i64::from(member.is_healthy);
            if let Some(owner) = &member.controller {
                let known = self.controllers.entry(owner.uid.clone());
                known.or_insert_with(|| (owner.clone(), 0)).1 += 1;
            }
        }
        before.is_some() || member.is_some()
    }

    fn is_healthy(&self, pod: &str) -> bool {
        self.pods.get(pod).is_some_and(|member| member.is_healthy)
    }

    /// The expected number of pods, and the desired number of healthy ones.
    fn expected_pod_count(
        &self,
        world: &InformerCache,
        held: &CachedObject<PodDisruptionBudgetSpec>,
    ) -> Result<(i64, i64), String> {
        if let Err(why) = &self.selector {
            return Err(why.clone());
        }
        match (held.spec.max_unavailable, held.spec.min_available) {
            (Some(most), _) => {
                let scale = self.expected_scale(world, &held.name.namespace)?;
                Ok((scale, (scale - most.scaled_value(scale, Rounding::Up)).max(0)))
            }
            (None, Some(IntOrPercent::Int(count))) => Ok((self.pods.len() as i64, count)),
            (None, Some(share)) => {
                let scale = self.expected_scale(world, &held.name.namespace)?;
                Ok((scale, share.scaled_value(scale, Rounding::Up)))
            }
            (None, None) => Ok((0, 0)),
        }
    }

    /// The sum of the replicas of the pods' controllers, each counted once.
    fn expected_scale(&self, world: &InformerCache, namespace: &Arc<str>) -> Result<i64, String> {
        let mut scales: BTreeMap<&Arc<str>, i64> = BTreeMap::new();
        for (owner, _) in self.controllers.values() {
            let (uid, scale) = match &*owner.kind {
                "ReplicationController" => {
                    let found = world.replication_controllers.resolve_owner(namespace, owner);
                    found.map(|found| (&found.uid, found.spec.replicas()))
                }
                "ReplicaSet" => world.replica_sets.resolve_owner(namespace, owner).map(|set| {
                    let above =
                        set.controller().and_then(|above| world.deployments.resolve_owner(namespace, above));
                    match above {
                        Some(above) => (&above.uid, above.spec.replicas()),
                        None => (&set.uid, set.spec.replicas()),
                    }
                }),
                "StatefulSet" => {
                    let found = world.stateful_sets.resolve_owner(namespace, owner);
                    found.map(|found| (&found.uid, found.spec.replicas()))
                }
                other => {
                    let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
                    let dot = if group.is_empty() { "" } else { "." };
                    let plural = format!("{}s{dot}{group}", other.to_lowercase());
                    return Err(format!("{plural} does not implement the scale subresource"));
                }
            }
            .ok_or_else(|| {
                let mut pods = self.pods.iter();
                let pod = pods.find(|(_, pod)| pod.controller.as_ref() == Some(owner)).map(|(name, _)| name);
                format!("found no controllers for pod {:?}", pod.map_or("", |name| name))
            })?;
            scales.insert(uid, scale);
        }
        Ok(scales.values().fold(0, |sum: i64, scale| sum.saturating_add(*scale)))
    }
}

fn is_healthy(pod: &Pod) -> bool {
    pod.ready && !pod.is_deleting()
}

/// The disrupted pods whose deletion is still expected, and when to check them again.
fn build_disrupted_pods(
    context: &SyncContext<'_>,
    held: &CachedObject<PodDisruptionBudgetSpec>,
    meant: &SelectedPods,
) -> (BTreeMap<String, K8sTime>, Option<Moment>) {
    let (mut still, mut recheck) = (BTreeMap::new(), None);
    for (name, since) in &held.status.disrupted_pods {
        let pod = NamespacedName { namespace: held.name.namespace.clone(), name: (**name).into() };
        let Some(pod) = context.cache.pods.get(&pod).filter(|pod| meant.pods.contains_key(&pod.name.name))
        else {
            continue;
        };
        let until = since.plus_seconds(DELETION_TIMEOUT_SECONDS);
        if !pod.is_deleting() && until >= context.now {
            still.insert(name.clone(), *since);
            recheck = Some(recheck.map_or(until, |other: Moment| other.min(until)));
        }
    }
    // At exactly its deadline a pod's deletion is still expected.
    (still, recheck.map(|at| at.plus_nanos(1)))
}

fn computed_status(
    now: Moment,
    held: &CachedObject<PodDisruptionBudgetSpec>,
    expected: i64,
    desired: i64,
    healthy: i64,
    disrupted: BTreeMap<String, K8sTime>,
) -> PodDisruptionBudgetStatus {
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    let generation = held.meta.generation;
    PodDisruptionBudgetStatus {
        observed_generation: generation,
        disrupted_pods: disrupted,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        conditions: with_condition(&held.status.conditions, now, allowed > 0, reason, "", generation),
    }
}

/// The fail-safe status of a budget that cannot be computed: no disruptions are allowed.
fn fail_safe_status(
    now: Moment,
    held: &CachedObject<PodDisruptionBudgetSpec>,
    why: &str,
) -> PodDisruptionBudgetStatus {
    let generation = held.status.observed_generation;
    let conditions = with_condition(&held.status.conditions, now, false, "SyncFailed", why, generation);
    PodDisruptionBudgetStatus { disruptions_allowed: 0, conditions, ..held.status.clone() }
}

fn with_condition(
    conditions: &[Condition],
    now: Moment,
    allowed: bool,
    reason: &str,
    message: &str,
    generation: i64,
) -> Vec<Condition> {
    let mut conditions = conditions.to_vec();
    let mut new = Condition::new(DISRUPTION_ALLOWED, allowed, reason, message);
    new.observed_generation = Some(generation).filter(|generation| *generation != 0);
    match conditions.iter_mut().find(|condition| condition.kind == DISRUPTION_ALLOWED) {
        Some(known) => {
            let changed = known.status != new.status;
            new.last_transition_time =
                if changed { Some(K8sTime::at(now)) } else { known.last_transition_time };
            *known = new;
        }
        None => {
            new.last_transition_time = Some(K8sTime::at(now));
            conditions.push(new);
        }
    }
    conditions
}
