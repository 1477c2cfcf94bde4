//! Preemption: the choice of a node on which deleting lower-priority pods makes the pod schedulable, and of the
//! victims.

mod dry_run;
mod dry_run_cache;

use crate::cycle::Diagnosis;
use crate::cycle_state::CycleState;
use crate::filter_cache::FilterCache;
use crate::ids::{NodeId, PodId};
use crate::message;
use crate::plugin::Plugin;
use crate::pod::Pod;
use crate::status::{Code, Status};
use dry_run::{CandidateCost, DryRunner, is_preemption_allowed, no_victims_status};

pub(crate) use dry_run_cache::DryRunCache;

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

/// Runs preemption for an unschedulable pod. `offset(n)` returns the index, below `n`, of the first node to
/// dry-run; `now` is the start time of pods that have none.
pub(crate) fn preempt(
    cycle_state: &CycleState<'_>,
    diagnosis: &Diagnosis,
    filter_cache: &mut FilterCache,
    dry_run_cache: &mut DryRunCache,
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
    let start = if nodes.is_empty() { 0 } else { offset(nodes.len()) };
    if !cycle_state.cache.has_lower_priority_pod(cycle_state.pod.priority()) {
        return no_candidates(cycle_state, &[(&no_victims_status(), nodes.len())]);
    }
    let (before_start, from_start) = nodes.split_at(start);
    let rotated_nodes = from_start.iter().chain(before_start).copied();
    let candidate_limit = num_candidates(cycle_state, nodes.len());
    let search =
        find_candidates(cycle_state, rotated_nodes, candidate_limit, filter_cache, dry_run_cache, now);
    if let Some((_, node, victims)) = search.best {
        return PreemptionResult::Nominated(node, victims);
    }
    if let Some(error) = search.error {
        return PreemptionResult::Failed(format!("preemption: {}", filter_cache.status(error).message()));
    }
    let statuses: Vec<(&Status, usize)> =
        search.rejected.iter().map(|status_id| (filter_cache.status(*status_id), 1)).collect();
    no_candidates(cycle_state, &statuses)
}

/// The result of a search for candidates.
#[derive(Default)]
struct CandidateSearch {
    /// The best candidate by kube-scheduler's criteria, the first of equals: its cost, node and victims.
    best: Option<(CandidateCost, NodeId, Vec<PodId>)>,
    /// The first status that is an error.
    error: Option<u32>,
    /// The other statuses.
    rejected: Vec<u32>,
}

/// Dry-runs preemption on nodes until there are enough candidates, one of them without violated disruption budgets.
fn find_candidates(
    cycle_state: &CycleState<'_>,
    nodes: impl Iterator<Item = NodeId>,
    limit: usize,
    filter_cache: &mut FilterCache,
    dry_run_cache: &mut DryRunCache,
    now: i64,
) -> CandidateSearch {
    let mut search = CandidateSearch::default();
    let (mut candidates, mut non_violating) = (0, 0);
    let mut runner = DryRunner::new(cycle_state, now);
    let mut cached_dry_runs = dry_run_cache.take(cycle_state, filter_cache);
    let covering_budgets = &mut dry_run_cache.covering_budgets;
    for node in nodes {
        let uncached;
        let outcome = match &mut cached_dry_runs {
            Some(cached) if !cycle_state.has_nominated_pods(node) => {
                cached.get_or_run(node, now, cycle_state.cache, &mut runner, covering_budgets, filter_cache)
            }
            _ => {
                let result = runner.run(node, covering_budgets);
                uncached = result.outcome.map_err(|status| filter_cache.status_id(status));
                &uncached
            }
        };
        match outcome {
            Err(status_id) if filter_cache.status(*status_id).code == Code::Error => {
                search.error = search.error.or(Some(*status_id));
            }
            Err(status_id) => search.rejected.push(*status_id),
            Ok(candidate) => {
                candidates += 1;
                non_violating += usize::from(candidate.pdb_violations == 0);
                let cost = candidate.cost(now);
                if search.best.as_ref().is_none_or(|(best, ..)| cost < *best) {
                    search.best = Some((cost, node, candidate.victims.clone()));
                }
            }
        }
        if non_violating > 0 && candidates >= limit {
            break;
        }
    }
    if let Some(dry_runs) = cached_dry_runs {
        dry_run_cache.put_back(cycle_state, dry_runs);
    }
    search
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
    let is_terminating_victim = |pod: &Pod| {
        is_preemption_allowed(pod.priority(), cycle_state.pod.priority()) && pod.terminating && pod.preempted
    };
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
    // Most nodes have the same status as the node before.
    let mut last = (None, false);
    let is_resolvable = |&&(_, id): &&(NodeId, u32)| {
        if last.0 != Some(id) {
            last = (Some(id), filter_cache.status(id).code == Code::Unschedulable);
        }
        last.1
    };
    diagnosis.node_to_status.iter().filter(is_resolvable).map(|(node, _)| *node).collect()
}

/// The number of candidates after which the search ends.
fn num_candidates(cycle_state: &CycleState<'_>, nodes: usize) -> usize {
    let args = cycle_state.framework.profile.preemption;
    let candidate_limit =
        (nodes as i64 * args.min_candidate_nodes_percentage / 100).max(args.min_candidate_nodes_absolute);
    usize::try_from(candidate_limit).unwrap_or(0).min(nodes)
}
