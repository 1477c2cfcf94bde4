//! Preemption: the choice of a node on which deleting lower-priority pods makes the pod schedulable, and of the
//! victims.

use std::cmp::Reverse;

use kubernetes::go;
use smallvec::smallvec;

use crate::cycle::Diagnosis;
use crate::cycle_state::{CycleState, NodeWithChanges};
use crate::filter_cache::FilterCache;
use crate::ids::{NodeId, PodId};
use crate::message;
use crate::plugin::Plugin;
use crate::pod::Pod;
use crate::status::{Code, Status};

/// The result of preemption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PreemptionResult {
    /// The pod is not eligible to preempt; its nomination is unchanged.
    NotEligible(String),
    /// Preemption failed with an error; the pod's nomination is unchanged.
    Failed(String),
    /// No candidate, with kube-scheduler's message; the pod's nomination is cleared.
    NoCandidates(String),
    /// The nominated node and the victims, some of which may be terminating already.
    Nominated(NodeId, Vec<PodId>),
}

/// A node on which preemption helps.
struct Candidate {
    node: NodeId,
    /// The most important first.
    victims: Vec<PodId>,
    /// The number of victims that violate a disruption budget.
    pdb_violations: usize,
}

/// Runs preemption for an unschedulable pod. `offset` returns the index of the first candidate below the
/// number of nodes it is given, `now` is the start time of pods that have none.
pub(crate) fn preempt(
    cycle_state: &CycleState<'_>,
    diagnosis: &Diagnosis,
    filter_cache: &FilterCache,
    now: i64,
    offset: &mut dyn FnMut(usize) -> usize,
) -> PreemptionResult {
    if let Some(reason) = ineligibility(cycle_state, diagnosis, filter_cache) {
        return PreemptionResult::NotEligible(format!("preemption: {reason}"));
    }
    if let Some(read_error) = cycle_state.cache.related_objects.budget_read_error() {
        return PreemptionResult::Failed(format!(
            "preemption: a PodDisruptionBudget is invalid: {read_error}"
        ));
    }
    let nodes = potential_nodes(cycle_state, diagnosis, filter_cache);
    let mut error = None;
    let mut statuses: Vec<Status> = Vec::new();
    let mut candidates = Vec::new();
    let start = if nodes.is_empty() { 0 } else { offset(nodes.len()) };
    if !cycle_state.cache.has_lower_priority_pod(cycle_state.pod.priority()) {
        return no_candidates(cycle_state, &[(&no_victims_status(), nodes.len())]);
    }
    if !nodes.is_empty() {
        let candidate_limit = num_candidates(cycle_state, nodes.len());
        let (mut non_violating, mut violating) = (Vec::new(), Vec::new());
        for index in 0..nodes.len() {
            match select_victims_on_node(cycle_state, nodes[(start + index) % nodes.len()], now) {
                Err(status) if status.code == Code::Error => error = error.or(Some(status)),
                Err(status) => statuses.push(status),
                Ok(candidate) if candidate.pdb_violations == 0 => non_violating.push(candidate),
                Ok(candidate) => violating.push(candidate),
            }
            if !non_violating.is_empty() && non_violating.len() + violating.len() >= candidate_limit {
                break;
            }
        }
        candidates = non_violating;
        candidates.append(&mut violating);
    }
    if let Some(error) = error.filter(|_| candidates.is_empty()) {
        return PreemptionResult::Failed(format!("preemption: {}", error.message()));
    }
    if candidates.is_empty() {
        let statuses: Vec<(&Status, usize)> = statuses.iter().map(|status| (status, 1)).collect();
        return no_candidates(cycle_state, &statuses);
    }
    let best = pick_one_node(cycle_state, candidates, now);
    PreemptionResult::Nominated(best.node, best.victims)
}

/// The result without candidates; `statuses` has the statuses of the dry runs with their counts.
fn no_candidates(cycle_state: &CycleState<'_>, statuses: &[(&Status, usize)]) -> PreemptionResult {
    let node_count = cycle_state.cache.nodes.order().len();
    let other_status =
        Status::unresolvable(Plugin::DefaultPreemption, "Preemption is not helpful for scheduling");
    let other_nodes = node_count - statuses.iter().map(|(_, count)| count).sum::<usize>();
    let all_statuses = statuses.iter().copied().chain([(&other_status, other_nodes)]);
    PreemptionResult::NoCandidates(format!("preemption: {}", message::fit_error(node_count, all_statuses)))
}

/// The status of a node without lower-priority pods.
fn no_victims_status() -> Status {
    Status::unresolvable(Plugin::DefaultPreemption, "No preemption victims found for incoming pod")
}

/// Why the pod is not eligible to preempt others.
fn ineligibility(
    cycle_state: &CycleState<'_>,
    diagnosis: &Diagnosis,
    filter_cache: &FilterCache,
) -> Option<&'static str> {
    if cycle_state.pod.spec.never_preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let node = cycle_state.cache.nodes.by_name(cycle_state.pod.nominated_node.as_ref()?)?;
    let node_code = diagnosis
        .node_to_status
        .iter()
        .find(|(other, _)| *other == node)
        .map(|(_, id)| filter_cache.status(*id).code);
    let other_status = diagnosis.pre_filter_status.as_ref().or(diagnosis.absent_nodes_status.as_ref());
    let code =
        node_code.or(other_status.map(|status| status.code)).unwrap_or(Code::UnschedulableAndUnresolvable);
    if code == Code::UnschedulableAndUnresolvable {
        return None;
    }
    let mut pods = cycle_state.cache.nodes.usage(node).pods.iter().map(|pod| cycle_state.cache.pod(*pod));
    let is_terminating_victim =
        |pod: &Pod| has_lower_priority(pod, cycle_state.pod) && pod.terminating && pod.preempted;
    pods.any(is_terminating_victim).then_some("not eligible due to a terminating pod on the nominated node.")
}

/// The nodes whose status is `Unschedulable`, on which preemption might help.
fn potential_nodes(
    cycle_state: &CycleState<'_>,
    diagnosis: &Diagnosis,
    filter_cache: &FilterCache,
) -> Vec<NodeId> {
    if let Some(status) = &diagnosis.pre_filter_status {
        let all_nodes = cycle_state.cache.nodes.order();
        return if status.code == Code::Unschedulable { all_nodes.to_vec() } else { Vec::new() };
    }
    let resolvable = diagnosis
        .node_to_status
        .iter()
        .filter(|(_, id)| filter_cache.status(*id).code == Code::Unschedulable);
    resolvable.map(|(node, _)| *node).collect()
}

/// The number of candidates after which the search ends.
fn num_candidates(cycle_state: &CycleState<'_>, nodes: usize) -> usize {
    let args = cycle_state.framework.profile.preemption;
    let candidate_limit =
        (nodes as i64 * args.min_candidate_nodes_percentage / 100).max(args.min_candidate_nodes_absolute);
    usize::try_from(candidate_limit).unwrap_or(0).min(nodes)
}

fn has_lower_priority(pod: &Pod, preemptor: &Pod) -> bool {
    pod.priority() < preemptor.priority()
}

/// Dry-runs preemption on one node. Returns the victims, or the status if preemption does not help.
fn select_victims_on_node(cycle_state: &CycleState<'_>, node: NodeId, now: i64) -> Result<Candidate, Status> {
    let potential_victims = cycle_state.cache.nodes.usage(node).pods.iter().copied();
    let mut potential_victims: Vec<PodId> = potential_victims
        .filter(|pod| has_lower_priority(cycle_state.cache.pod(*pod), cycle_state.pod))
        .collect();
    if potential_victims.is_empty() {
        return Err(no_victims_status());
    }
    let mut changed_node = cycle_state.unchanged_node(node);
    potential_victims.iter().for_each(|pod| cycle_state.remove_pod(&mut changed_node, *pod, node));
    cycle_state.filter_with_changes(node, &changed_node)?;
    sort_by_importance(cycle_state, &mut potential_victims, now);
    let (violating_victims, non_violating_victims) = split_by_pdb_violation(cycle_state, &potential_victims);
    let mut victims = Vec::new();
    for pod in &violating_victims {
        reprieve(cycle_state, &mut changed_node, *pod, node, &mut victims);
    }
    let pdb_violations = victims.len();
    for pod in &non_violating_victims {
        reprieve(cycle_state, &mut changed_node, *pod, node, &mut victims);
    }
    if !violating_victims.is_empty() && !non_violating_victims.is_empty() {
        sort_by_importance(cycle_state, &mut victims, now);
    }
    if victims.is_empty() {
        let reason =
            format!("expected at least one victim pod on node {:?}", cycle_state.cache.nodes.name(node));
        return Err(Status {
            plugin: Plugin::DefaultPreemption,
            code: Code::Error,
            reasons: smallvec![reason.into()],
        });
    }
    Ok(Candidate { node, victims, pdb_violations })
}

/// Keeps a pod on the node if the incoming pod still fits; otherwise it becomes a victim.
fn reprieve(
    cycle_state: &CycleState<'_>,
    changed_node: &mut NodeWithChanges,
    pod: PodId,
    node: NodeId,
    victims: &mut Vec<PodId>,
) {
    cycle_state.add_pod(changed_node, pod, node);
    if cycle_state.refilter_with_changes(node, changed_node).is_err() {
        cycle_state.remove_pod(changed_node, pod, node);
        victims.push(pod);
    }
}

/// The most important first: higher priority, then earlier start time.
fn sort_by_importance(cycle_state: &CycleState<'_>, pods: &mut [PodId], now: i64) {
    go::sort(pods, |a, b| {
        let (a, b) = (cycle_state.cache.pod(*a), cycle_state.cache.pod(*b));
        if a.priority() != b.priority() {
            return a.priority() > b.priority();
        }
        match (a.start_time, b.start_time) {
            // kube-scheduler reads the clock for each missing start time, and the clock advances between the two reads.
            (None, None) => true,
            (a, b) => a.unwrap_or(now) < b.unwrap_or(now),
        }
    });
}

/// Splits pods into those that violate a disruption budget if all are deleted in this order, and the others.
fn split_by_pdb_violation(cycle_state: &CycleState<'_>, pods: &[PodId]) -> (Vec<PodId>, Vec<PodId>) {
    let budgets = &cycle_state.cache.related_objects.budgets;
    if budgets.is_empty() {
        return (Vec::new(), pods.to_vec());
    }
    let mut allowed: Vec<i64> =
        budgets.values().map(|budget| i64::from(budget.disruptions_allowed)).collect();
    pods.iter().partition(|pod| {
        let pod = cycle_state.cache.pod(**pod);
        let mut is_violating = false;
        for (budget, allowed) in budgets.values().zip(&mut allowed) {
            let is_covered = budget.namespace == pod.name.namespace
                && !pod.labels.is_empty()
                && !budget.selector.is_everything()
                && budget.selector.matches(|key| pod.labels.get(key))
                && !budget.disrupted_pods.contains(&pod.name.name);
            if is_covered {
                *allowed -= 1;
                is_violating |= *allowed < 0;
            }
        }
        is_violating
    })
}

/// The candidate by kube-scheduler's criteria; the first of equals.
fn pick_one_node(cycle_state: &CycleState<'_>, candidates: Vec<Candidate>, now: i64) -> Candidate {
    let cost = |candidate: &Candidate| {
        let pods = || candidate.victims.iter().map(|pod| cycle_state.cache.pod(*pod));
        let first_victim_priority = pods().map(Pod::priority).next().unwrap_or(i32::MIN);
        let priority_sum: i64 = pods().map(|pod| i64::from(pod.priority()) + (1 << 31)).sum();
        let highest_priority = pods().map(Pod::priority).max();
        let earliest_start = pods()
            .filter(|pod| Some(pod.priority()) == highest_priority)
            .map(|pod| pod.start_time.unwrap_or(now))
            .min();
        (
            candidate.pdb_violations,
            first_victim_priority,
            priority_sum,
            candidate.victims.len(),
            Reverse(earliest_start),
        )
    };
    candidates.into_iter().min_by_key(cost).expect("there is at least one candidate")
}
