//! The disruption controller, which keeps the status of PodDisruptionBudgets.
//!
//! The pods that a budget selects are counted as pods change. As in the original, a sync follows a change of a pod or a
//! budget, not the scaling of a controller. Stale `DisruptionTarget` conditions are not removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::OwnerReference;
use kubernetes::selector::Selector;
use model::{Moment, NamespacedName};

use super::api::{PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use super::informer_cache::InformerCache;
use super::int_or_percent::{IntOrPercent, Rounding};
use super::k8s_time::{Condition, K8sTime};
use super::object_table::CachedObject;
use super::pod::Pod;
use super::{Controller, EventText, SyncContext};

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
        cache: &InformerCache,
        name: &NamespacedName,
        budget: Option<&CachedObject<PodDisruptionBudgetSpec>>,
    ) {
        let Some(budget) = budget else {
            if let Some(budgets) = self.by_namespace.get_mut(&name.namespace) {
                budgets.remove(&name.name);
                if budgets.is_empty() {
                    self.by_namespace.remove(&name.namespace);
                }
            }
            return;
        };
        let selector = Selector::of(budget.spec.selector.as_ref()).map_err(|error| error.to_string());
        let budgets = self.by_namespace.entry(name.namespace.clone()).or_default();
        if budgets.get(&name.name).is_some_and(|existing| existing.selector == selector) {
            return;
        }
        let mut selected_pods =
            SelectedPods { selector, pods: BTreeMap::new(), healthy: 0, controllers: BTreeMap::new() };
        for pod in cache.pods.in_namespace(&name.namespace) {
            selected_pods.update_pod(&pod.name, Some(pod));
        }
        budgets.insert(name.name.clone(), selected_pods);
    }

    /// A pod was added, modified or deleted. Returns the names of the budgets concerned.
    pub(super) fn pod_changed(
        &mut self,
        name: &NamespacedName,
        pod: Option<&Arc<Pod>>,
    ) -> Vec<NamespacedName> {
        let Some(budgets) = self.by_namespace.get_mut(&name.namespace) else { return Vec::new() };
        let changed = budgets
            .iter_mut()
            .filter_map(|(budget, selected_pods)| selected_pods.update_pod(name, pod).then_some(budget));
        changed
            .map(|budget| NamespacedName { namespace: name.namespace.clone(), name: budget.clone() })
            .collect()
    }

    pub(super) fn sync(&self, context: &mut SyncContext<'_>, budget: &CachedObject<PodDisruptionBudgetSpec>) {
        let budgets = self.by_namespace.get(&budget.name.namespace);
        let Some(selected_pods) = budgets.and_then(|budgets| budgets.get(&budget.name.name)) else { return };
        if selected_pods.pods.is_empty() && selected_pods.selector.is_ok() {
            context.report(budget, EventText::normal("NoPods", "No matching pods found"));
        }
        let status = match selected_pods.expected_pod_count(context.cache, budget) {
            Ok((expected, desired)) => {
                let (disrupted, recheck) = build_disrupted_pods(context, budget, selected_pods);
                if let Some(at) = recheck {
                    context.enqueue_at(at, Controller::Disruption, budget.name.clone());
                }
                let evicted = disrupted.keys().filter(|name| selected_pods.is_healthy(name)).count() as i64;
                computed_status(
                    context.now,
                    budget,
                    expected,
                    desired,
                    selected_pods.healthy - evicted,
                    disrupted,
                )
            }
            Err(error) => {
                let message = format!("Failed to calculate the number of expected pods: {error}");
                context.report(budget, EventText::warning("CalculateExpectedPodCountFailed", message));
                fail_safe_status(context.now, budget, &error)
            }
        };
        if status != budget.status {
            context.update(budget.with_status(&status));
        }
    }
}

// === impl SelectedPods ===

impl SelectedPods {
    /// Updates the counts for a pod. Returns false if the budget does not select it and did not before.
    fn update_pod(&mut self, name: &NamespacedName, pod: Option<&Arc<Pod>>) -> bool {
        let pod = pod.filter(|pod| {
            self.selector.as_ref().is_ok_and(|selector| selector.matches(|key| pod.label(key)))
        });
        let selected_pod =
            pod.map(|pod| SelectedPod { is_healthy: is_healthy(pod), controller: pod.controller().cloned() });
        let before = match &selected_pod {
            Some(selected_pod) => self.pods.insert(name.name.clone(), selected_pod.clone()),
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
        if let Some(selected_pod) = &selected_pod {
            self.healthy += i64::from(selected_pod.is_healthy);
            if let Some(owner) = &selected_pod.controller {
                let known = self.controllers.entry(owner.uid.clone());
                known.or_insert_with(|| (owner.clone(), 0)).1 += 1;
            }
        }
        before.is_some() || selected_pod.is_some()
    }

    fn is_healthy(&self, pod: &str) -> bool {
        self.pods.get(pod).is_some_and(|selected_pod| selected_pod.is_healthy)
    }

    /// The expected number of pods, and the desired number of healthy ones.
    fn expected_pod_count(
        &self,
        cache: &InformerCache,
        budget: &CachedObject<PodDisruptionBudgetSpec>,
    ) -> Result<(i64, i64), String> {
        if let Err(error) = &self.selector {
            return Err(error.clone());
        }
        match (budget.spec.max_unavailable, budget.spec.min_available) {
            (Some(max_unavailable), _) => {
                let scale = self.expected_scale(cache, &budget.name.namespace)?;
                Ok((scale, (scale - max_unavailable.scaled_value(scale, Rounding::Up)).max(0)))
            }
            (None, Some(IntOrPercent::Int(count))) => Ok((self.pods.len() as i64, count)),
            (None, Some(min_available)) => {
                let scale = self.expected_scale(cache, &budget.name.namespace)?;
                Ok((scale, min_available.scaled_value(scale, Rounding::Up)))
            }
            (None, None) => Ok((0, 0)),
        }
    }

    /// The sum of the replicas of the pods' controllers, each counted once.
    fn expected_scale(&self, cache: &InformerCache, namespace: &Arc<str>) -> Result<i64, String> {
        let mut scales: BTreeMap<&Arc<str>, i64> = BTreeMap::new();
        for (owner, _) in self.controllers.values() {
            let (uid, scale) = match &*owner.kind {
                "ReplicationController" => {
                    let controller_object = cache.replication_controllers.resolve_owner(namespace, owner);
                    controller_object
                        .map(|controller_object| (&controller_object.uid, controller_object.spec.replicas()))
                }
                "ReplicaSet" => cache.replica_sets.resolve_owner(namespace, owner).map(|set| {
                    let deployment = set
                        .controller()
                        .and_then(|deployment| cache.deployments.resolve_owner(namespace, deployment));
                    match deployment {
                        Some(deployment) => (&deployment.uid, deployment.spec.replicas()),
                        None => (&set.uid, set.spec.replicas()),
                    }
                }),
                "StatefulSet" => {
                    let controller_object = cache.stateful_sets.resolve_owner(namespace, owner);
                    controller_object
                        .map(|controller_object| (&controller_object.uid, controller_object.spec.replicas()))
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
    budget: &CachedObject<PodDisruptionBudgetSpec>,
    selected_pods: &SelectedPods,
) -> (BTreeMap<String, K8sTime>, Option<Moment>) {
    let (mut disrupted_pods, mut recheck) = (BTreeMap::new(), None);
    for (name, since) in &budget.status.disrupted_pods {
        let pod = NamespacedName { namespace: budget.name.namespace.clone(), name: (**name).into() };
        let Some(pod) =
            context.cache.pods.get(&pod).filter(|pod| selected_pods.pods.contains_key(&pod.name.name))
        else {
            continue;
        };
        let until = since.plus_seconds(DELETION_TIMEOUT_SECONDS);
        if !pod.is_deleting() && until >= context.now {
            disrupted_pods.insert(name.clone(), *since);
            recheck = Some(recheck.map_or(until, |other: Moment| other.min(until)));
        }
    }
    // At exactly its deadline a pod's deletion is still expected.
    (disrupted_pods, recheck.map(|at| at.plus_nanos(1)))
}

fn computed_status(
    now: Moment,
    budget: &CachedObject<PodDisruptionBudgetSpec>,
    expected: i64,
    desired: i64,
    healthy: i64,
    disrupted: BTreeMap<String, K8sTime>,
) -> PodDisruptionBudgetStatus {
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    let generation = budget.meta.generation;
    PodDisruptionBudgetStatus {
        observed_generation: generation,
        disrupted_pods: disrupted,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        conditions: with_condition(&budget.status.conditions, now, allowed > 0, reason, "", generation),
    }
}

/// The fail-safe status of a budget that cannot be computed: no disruptions are allowed.
fn fail_safe_status(
    now: Moment,
    budget: &CachedObject<PodDisruptionBudgetSpec>,
    error: &str,
) -> PodDisruptionBudgetStatus {
    let generation = budget.status.observed_generation;
    let conditions = with_condition(&budget.status.conditions, now, false, "SyncFailed", error, generation);
    PodDisruptionBudgetStatus { disruptions_allowed: 0, conditions, ..budget.status.clone() }
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
        Some(existing) => {
            let changed = existing.status != new.status;
            new.last_transition_time =
                if changed { Some(K8sTime::at(now)) } else { existing.last_transition_time };
            *existing = new;
        }
        None => {
            new.last_transition_time = Some(K8sTime::at(now));
            conditions.push(new);
        }
    }
    conditions
}
