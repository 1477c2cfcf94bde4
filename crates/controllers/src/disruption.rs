//! PodDisruptionBudgets: how many pods may be evicted now.
//!
//! Who a budget means, and how many of those are healthy, is counted as pods change. The original looks when pods and
//! budgets change, not when controllers are scaled; so does this. Conditions that a broken-off eviction left on a pod are
//! not taken back.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::selector::Selector;
use model::{Moment, NamespacedName};

use super::amount::{Amount, Round};
use super::api::{BudgetSpec, BudgetStatus};
use super::pod::{Entry, Pod};
use super::stamp::{Condition, Stamp};
use super::table::{Held, Owner};
use super::world::World;
use super::{Context, Controller};

const ALLOWED: &str = "DisruptionAllowed";
/// How long after an eviction a pod is expected to be deleted.
const DELETION_TAKES: i64 = 120;

/// Whom the budgets mean, by namespace and then by name.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    by_namespace: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Meant>>,
}

/// Whom a budget means.
#[derive(Debug)]
struct Meant {
    /// An unusable one means nobody, and why.
    selector: Result<Selector, String>,
    pods: BTreeMap<Arc<str>, Member>,
    healthy: i64,
    /// Their controllers by uid, and how many of them each has.
    controllers: BTreeMap<Arc<str>, (Owner, i64)>,
}

/// A pod that a budget means.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    is_healthy: bool,
    controller: Option<Owner>,
}

// === impl Budgets ===

impl Budgets {
    /// A budget came, changed or went.
    pub(super) fn budget_changed(
        &mut self,
        world: &World,
        name: &NamespacedName,
        held: Option<&Held<BudgetSpec>>,
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
        let mut meant = Meant { selector, pods: BTreeMap::new(), healthy: 0, controllers: BTreeMap::new() };
        for (pod, entry) in world.pods.of_namespace(&name.namespace) {
            meant.put(pod, Some(entry));
        }
        budgets.insert(name.name.clone(), meant);
    }

    /// A pod came, changed or went: the budgets that means, by name.
    pub(super) fn pod_changed(&mut self, pod: &NamespacedName, entry: Option<&Entry>) -> Vec<NamespacedName> {
        let Some(budgets) = self.by_namespace.get_mut(&pod.namespace) else { return Vec::new() };
        let changed = budgets.iter_mut().filter_map(|(name, meant)| meant.put(pod, entry).then_some(name));
        changed.map(|name| NamespacedName { namespace: pod.namespace.clone(), name: name.clone() }).collect()
    }

    pub(super) fn sync(&self, context: &mut Context<'_>, held: &Held<BudgetSpec>) {
        let budgets = self.by_namespace.get(&held.name.namespace);
        let Some(meant) = budgets.and_then(|budgets| budgets.get(&held.name.name)) else { return };
        let status = match meant.expected(context.world, held) {
            Ok((expected, desired)) => {
                let (disrupted, recheck) = still_disrupted(context, held, meant);
                if let Some(at) = recheck {
                    context.look_again(at, Controller::Disruption, held.name.clone());
                }
                let evicted = disrupted.keys().filter(|name| meant.is_healthy(name)).count() as i64;
                status(context.now, held, expected, desired, meant.healthy - evicted, disrupted)
            }
            Err(why) => failed(context.now, held, &why),
        };
        if status != held.status {
            context.update(held.with_status(&status));
        }
    }
}

// === impl Meant ===

impl Meant {
    /// Counts a pod as it is now. False if the budget does not mean it and did not before.
    fn put(&mut self, name: &NamespacedName, entry: Option<&Entry>) -> bool {
        let entry = entry.filter(|entry| {
            let pod = entry.pod(name);
            self.selector.as_ref().is_ok_and(|selector| selector.matches(|key| pod.label(key)))
        });
        let member = entry.map(|entry| Member {
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

    /// How many pods there should be, and how many of them healthy.
    fn expected(&self, world: &World, held: &Held<BudgetSpec>) -> Result<(i64, i64), String> {
        if let Err(why) = &self.selector {
            return Err(why.clone());
        }
        match (held.spec.max_unavailable, held.spec.min_available) {
            (Some(most), _) => {
                let scale = self.scale(world, &held.name.namespace)?;
                Ok((scale, (scale - most.of(scale, Round::Up)).max(0)))
            }
            (None, Some(Amount::Count(count))) => Ok((self.pods.len() as i64, count)),
            (None, Some(share)) => {
                let scale = self.scale(world, &held.name.namespace)?;
                Ok((scale, share.of(scale, Round::Up)))
            }
            (None, None) => Ok((0, 0)),
        }
    }

    /// How many pods their controllers are to have, each counted once.
    fn scale(&self, world: &World, namespace: &Arc<str>) -> Result<i64, String> {
        let mut scales: BTreeMap<&Arc<str>, i64> = BTreeMap::new();
        for (owner, _) in self.controllers.values() {
            let (uid, scale) = match &*owner.kind {
                "ReplicationController" => {
                    let found = world.replication_controllers.owner(namespace, owner);
                    found.map(|found| (&found.uid, found.spec.replicas()))
                }
                "ReplicaSet" => world.replica_sets.owner(namespace, owner).map(|set| {
                    let above = set.controller().and_then(|above| world.deployments.owner(namespace, above));
                    match above {
                        Some(above) => (&above.uid, above.spec.replicas()),
                        None => (&set.uid, set.spec.replicas()),
                    }
                }),
                "StatefulSet" => {
                    let found = world.stateful_sets.owner(namespace, owner);
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
    pod.ready && !pod.is_deleted()
}

/// The pods that are about to be deleted, less those that are being deleted or were not after all; and when to look again.
fn still_disrupted(
    context: &Context<'_>,
    held: &Held<BudgetSpec>,
    meant: &Meant,
) -> (BTreeMap<String, Stamp>, Option<Moment>) {
    let (mut still, mut recheck) = (BTreeMap::new(), None);
    for (name, since) in &held.status.disrupted_pods {
        let pod = NamespacedName { namespace: held.name.namespace.clone(), name: (**name).into() };
        let Some(pod) = context.world.pods.get(&pod).filter(|pod| meant.pods.contains_key(&pod.name.name))
        else {
            continue;
        };
        let until = since.plus_seconds(DELETION_TAKES);
        if !pod.is_deleted() && until >= context.now {
            still.insert(name.clone(), *since);
            recheck = Some(recheck.map_or(until, |other: Moment| other.min(until)));
        }
    }
    // At the very end of its time a pod is still believed to go.
    (still, recheck.map(|at| at.plus_nanos(1)))
}

fn status(
    now: Moment,
    held: &Held<BudgetSpec>,
    expected: i64,
    desired: i64,
    healthy: i64,
    disrupted: BTreeMap<String, Stamp>,
) -> BudgetStatus {
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    let generation = held.meta.generation;
    BudgetStatus {
        observed_generation: generation,
        disrupted_pods: disrupted,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        conditions: with_condition(&held.status.conditions, now, allowed > 0, reason, "", generation),
    }
}

/// What is said of a budget that cannot be worked out: nobody may be evicted.
fn failed(now: Moment, held: &Held<BudgetSpec>, why: &str) -> BudgetStatus {
    let generation = held.status.observed_generation;
    let conditions = with_condition(&held.status.conditions, now, false, "SyncFailed", why, generation);
    BudgetStatus { disruptions_allowed: 0, conditions, ..held.status.clone() }
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
    let mut new = Condition::new(ALLOWED, allowed, reason, message);
    new.observed_generation = Some(generation).filter(|generation| *generation != 0);
    match conditions.iter_mut().find(|condition| condition.kind == ALLOWED) {
        Some(known) => {
            let changed = known.status != new.status;
            new.last_transition_time =
                if changed { Some(Stamp::at(now)) } else { known.last_transition_time };
            *known = new;
        }
        None => {
            new.last_transition_time = Some(Stamp::at(now));
            conditions.push(new);
        }
    }
    conditions
}
