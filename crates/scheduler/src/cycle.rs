//! The scheduling cycle: sampling, filtering and scoring of nodes, and the choice of one or the diagnosis why there is
//! none.

use std::sync::Arc;

use kubernetes::go;
use smallvec::smallvec;

use super::cycle_state::CycleState;
use super::decision::{EvaluatedNode, NodeVerdict, PluginScore, RecordedNodeOutcome};
use super::filter_cache::{CachedVerdicts, FilterCache};
use super::ids::NodeId;
use super::message;
use super::plugin::Plugin;
use super::score::{Scores, score};
use super::settings::Version;
use super::status::{Code, Status};

/// State kept between scheduling cycles: the start index, the filter cache and reused buffers.
#[derive(Debug, Default)]
pub(super) struct RetainedState {
    pub filter_cache: FilterCache,
    scores: Scores,
    feasible: Vec<NodeId>,
    node_to_status: Vec<(NodeId, u32)>,
    heap: Vec<u32>,
    /// The index in the node order at which the next cycle begins.
    pub next_start_node_index: usize,
    /// Every verdict is computed by the plugins.
    pub caches_disabled: bool,
}

/// The outcome of a scheduling cycle.
#[derive(Debug)]
pub(super) enum CycleOutcome {
    /// A node was chosen.
    Scheduled {
        node: NodeId,
        evaluated_nodes: usize,
        feasible_nodes: usize,
        tied_nodes: usize,
        recorded_node: Option<RecordedNodeOutcome>,
    },
    /// No node is feasible.
    Unschedulable(Diagnosis),
    /// A plugin failed.
    Error(String),
}

/// Why no node is feasible for a pod.
#[derive(Debug, Default)]
pub(super) struct Diagnosis {
    /// Set if PreFilter rejected the pod.
    pub pre_filter_status: Option<Status>,
    /// Nodes that were evaluated and rejected, in that order, with status identifiers.
    pub node_to_status: Vec<(NodeId, u32)>,
    /// The number of nodes with each of these statuses.
    status_counts: Vec<(u32, usize)>,
    /// The status of all other nodes.
    pub absent_nodes_status: Option<Status>,
    /// The rejecting plugins, sorted.
    pub unschedulable_plugins: Vec<Plugin>,
}

// === impl RetainedState ===

impl RetainedState {
    /// Keeps the memory of a diagnosis for the next one.
    pub(super) fn reuse(&mut self, diagnosis: Diagnosis) {
        let mut node_to_status = diagnosis.node_to_status;
        if node_to_status.capacity() > self.node_to_status.capacity() {
            node_to_status.clear();
            self.node_to_status = node_to_status;
        }
    }
}

// === impl Diagnosis ===

impl Diagnosis {
    /// The text of kube-scheduler's `FitError`.
    pub(super) fn message(&self, nodes: usize, filter_cache: &FilterCache) -> String {
        if let Some(status) = &self.pre_filter_status {
            return message::pre_filter_error(nodes, status);
        }
        let status_counts = self.status_counts.iter().map(|(id, count)| (filter_cache.status(*id), *count));
        let absent_count =
            self.absent_nodes_status.iter().map(|status| (status, nodes - self.node_to_status.len()));
        message::fit_error(nodes, status_counts.chain(absent_count))
    }

    /// Completes the diagnosis after all nodes were rejected.
    fn count_statuses(&mut self, filter_cache: &FilterCache) {
        let mut counts = vec![0_usize; filter_cache.status_id_bound()];
        self.node_to_status.iter().for_each(|(_, id)| counts[*id as usize] += 1);
        self.status_counts = (0..).zip(counts).filter(|(_, count)| *count > 0).collect();
        let plugins = self.status_counts.iter().map(|(id, _)| filter_cache.status(*id).plugin);
        self.unschedulable_plugins.extend(plugins);
        self.unschedulable_plugins.sort_unstable();
        self.unschedulable_plugins.dedup();
    }
}

/// Runs the cycle with node sampling. Among nodes of the highest score the recorded one is preferred.
pub(super) fn schedule_pod(
    cycle_state: &mut CycleState<'_>,
    retained: &mut RetainedState,
    recorded: Option<NodeId>,
    choose_among_equals: &mut dyn FnMut(usize) -> usize,
) -> CycleOutcome {
    let all_nodes = cycle_state.cache.nodes.order();
    retained.filter_cache.clear_if_full();
    let pre_filter_result = match cycle_state.run_pre_filter_plugins() {
        Ok(pre_filter_result) => pre_filter_result,
        Err(status) if status.code == Code::Error => {
            return CycleOutcome::Error(format!(
                "running PreFilter plugin {:?}: {}",
                status.plugin.name(),
                status.message()
            ));
        }
        Err(status) => {
            let plugins = vec![status.plugin];
            return CycleOutcome::Unschedulable(Diagnosis {
                pre_filter_status: Some(status),
                unschedulable_plugins: plugins,
                ..Diagnosis::default()
            });
        }
    };
    let mut diagnosis = Diagnosis {
        node_to_status: std::mem::take(&mut retained.node_to_status),
        unschedulable_plugins: pre_filter_result.plugins.clone(),
        ..Diagnosis::default()
    };
    let (spec_id, spec) = cycle_state.cache.node_local_spec(cycle_state.pod_id);
    // A pod that is restricted to nodes by name, such as a DaemonSet's, filters few nodes: caching their verdicts would
    // fill the cache for nothing.
    let is_restricted_by_name = pre_filter_result.node_names.is_some() || cycle_state.pod.node_name.is_some();
    let mut cached_verdicts = retained.filter_cache.take_verdicts(spec_id, spec);
    let mut chosen = None;
    if let Some(nominated) =
        cycle_state.pod.nominated_node.as_ref().and_then(|name| cycle_state.cache.nodes.by_name(name))
    {
        match cycle_state.filter_node(nominated, &mut None, &mut retained.filter_cache) {
            None => chosen = Some(nominated),
            // kube-scheduler only logs this error.
            Some(status) if retained.filter_cache.status(status).code == Code::Error => {}
            Some(status) => {
                diagnosis.node_to_status.push((nominated, status));
                // A quirk of kube-scheduler: the plugin that rejected the nominated node is then listed with those of
                // the PreFilter result, if there is one.
                if pre_filter_result.node_names.is_some() {
                    diagnosis.unschedulable_plugins.push(retained.filter_cache.status(status).plugin);
                }
            }
        }
    }
    if let Some(node) = chosen {
        retained.filter_cache.put_verdicts_back(spec_id, cached_verdicts);
        retained.reuse(diagnosis);
        let recorded_outcome = recorded.map(|recorded_id| {
            if recorded_id == node { RecordedNodeOutcome::Chosen } else { RecordedNodeOutcome::NotEvaluated }
        });
        return CycleOutcome::Scheduled {
            node,
            evaluated_nodes: 0,
            feasible_nodes: 1,
            tied_nodes: 1,
            recorded_node: recorded_outcome,
        };
    }
    let allowed_nodes: Option<Vec<NodeId>> = pre_filter_result
        .node_names
        .map(|names| names.iter().filter_map(|name| cycle_state.cache.nodes.by_name(name)).collect());
    let considered = allowed_nodes.as_deref().unwrap_or(all_nodes);
    let mut feasible = std::mem::take(&mut retained.feasible);
    let mut shared_verdicts =
        (!is_restricted_by_name && !retained.caches_disabled).then_some(&mut cached_verdicts);
    let filter_result = find_nodes_that_pass_filters(
        cycle_state,
        considered,
        retained.next_start_node_index,
        &mut shared_verdicts,
        &mut retained.filter_cache,
        &mut feasible,
        &mut diagnosis,
    );
    retained.next_start_node_index =
        (retained.next_start_node_index + feasible.len() + diagnosis.node_to_status.len()) % all_nodes.len();
    let outcome = match (filter_result, &feasible[..]) {
        (Err(error), _) => CycleOutcome::Error(error),
        (Ok(()), []) => {
            if allowed_nodes.is_some() {
                diagnosis.absent_nodes_status = Some(absent_nodes_status(&diagnosis.unschedulable_plugins));
            }
            diagnosis.count_statuses(&retained.filter_cache);
            CycleOutcome::Unschedulable(std::mem::take(&mut diagnosis))
        }
        (Ok(()), &[node]) => {
            let recorded_outcome = recorded.map(|recorded_id| {
                recorded_node_outcome(recorded_id, node, &feasible, &[], &diagnosis, &retained.filter_cache)
            });
            CycleOutcome::Scheduled {
                node,
                evaluated_nodes: 1 + diagnosis.node_to_status.len(),
                feasible_nodes: 1,
                tied_nodes: 1,
                recorded_node: recorded_outcome,
            }
        }
        (Ok(()), _) => {
            match score(
                cycle_state,
                &feasible,
                &mut cached_verdicts,
                &mut retained.filter_cache,
                &mut retained.scores,
            ) {
                Err(error) => CycleOutcome::Error(error),
                Ok(()) => {
                    let totals = &retained.scores.totals;
                    let best = if cycle_state.framework.version >= Version::V1_35 {
                        go::heap_top(totals, &mut retained.heap).expect("at least two nodes are feasible")
                    } else {
                        select_by_reservoir_sampling(totals, choose_among_equals)
                    };
                    let evaluated_nodes = feasible.len() + diagnosis.node_to_status.len();
                    let tied_nodes =
                        || totals.iter().enumerate().filter(|(_, total)| **total == totals[best]);
                    let recorded_tie = recorded.and_then(|recorded_id| {
                        tied_nodes().find(|(index, _)| feasible[*index] == recorded_id)
                    });
                    let node = feasible[recorded_tie.map_or(best, |(index, _)| index)];
                    let recorded_outcome = recorded.map(|recorded_id| {
                        recorded_node_outcome(
                            recorded_id,
                            node,
                            &feasible,
                            totals,
                            &diagnosis,
                            &retained.filter_cache,
                        )
                    });
                    let (tied_nodes, feasible_nodes) = (tied_nodes().count(), feasible.len());
                    CycleOutcome::Scheduled {
                        node,
                        evaluated_nodes,
                        feasible_nodes,
                        tied_nodes,
                        recorded_node: recorded_outcome,
                    }
                }
            }
        }
    };
    retained.feasible = feasible;
    retained.reuse(diagnosis);
    retained.filter_cache.put_verdicts_back(spec_id, cached_verdicts);
    outcome
}

/// The outcome of the recorded node.
fn recorded_node_outcome(
    recorded: NodeId,
    chosen: NodeId,
    feasible: &[NodeId],
    totals: &[i64],
    diagnosis: &Diagnosis,
    filter_cache: &FilterCache,
) -> RecordedNodeOutcome {
    if recorded == chosen {
        return RecordedNodeOutcome::Chosen;
    }
    let total = |node: NodeId| feasible.iter().position(|id| *id == node).and_then(|index| totals.get(index));
    if let (Some(chosen_total), Some(recorded_total)) = (total(chosen), total(recorded)) {
        return RecordedNodeOutcome::LowerScore(chosen_total.saturating_sub(*recorded_total));
    }
    match diagnosis.node_to_status.iter().find(|(node, _)| *node == recorded) {
        Some((_, status_id)) => RecordedNodeOutcome::Rejected(filter_cache.status(*status_id).plugin),
        None => RecordedNodeOutcome::NotEvaluated,
    }
}

/// Filters nodes from index `start` on, cyclically, until enough feasible ones are found.
fn find_nodes_that_pass_filters(
    cycle_state: &CycleState<'_>,
    considered: &[NodeId],
    start: usize,
    verdicts: &mut Option<&mut CachedVerdicts>,
    filter_cache: &mut FilterCache,
    feasible: &mut Vec<NodeId>,
    diagnosis: &mut Diagnosis,
) -> Result<(), String> {
    feasible.clear();
    let num_to_find = num_feasible_nodes_to_find(cycle_state, considered.len());
    let (before_start, from_start) = considered.split_at(start % considered.len().max(1));
    // The nominated node may be evaluated twice; the last status counts.
    let nominated = diagnosis.node_to_status.first().map(|(node, _)| *node);
    // Most nodes are rejected with the same status as the node before, which was no error.
    let mut last_status = None;
    'search: for part in [from_start, before_start] {
        for &node in part {
            let Some(status_id) = cycle_state.filter_node(node, verdicts, filter_cache) else {
                if feasible.len() == num_to_find {
                    break 'search;
                }
                feasible.push(node);
                continue;
            };
            if last_status != Some(status_id) && filter_cache.status(status_id).code == Code::Error {
                return Err(filter_cache.status(status_id).message());
            }
            last_status = Some(status_id);
            if nominated == Some(node) {
                diagnosis.node_to_status[0].1 = status_id;
            } else {
                diagnosis.node_to_status.push((node, status_id));
            }
        }
    }
    Ok(())
}

/// The number of feasible nodes after which the search ends.
fn num_feasible_nodes_to_find(cycle_state: &CycleState<'_>, nodes: usize) -> usize {
    const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;
    if cycle_state.framework.profile.score.is_empty() {
        return nodes.min(1);
    }
    if nodes < MIN_FEASIBLE_NODES_TO_FIND {
        return nodes;
    }
    let percentage = match cycle_state.framework.percentage_of_nodes_to_score {
        0 => (50 - nodes as i64 / 125).max(5),
        percentage => i64::from(percentage),
    };
    ((nodes as i64 * percentage / 100) as usize).max(MIN_FEASIBLE_NODES_TO_FIND)
}

/// One of the nodes with the highest score at random, as before 1.35.
fn select_by_reservoir_sampling(totals: &[i64], choose: &mut dyn FnMut(usize) -> usize) -> usize {
    let (mut best, mut ties) = (0, 1);
    for (index, total) in totals.iter().enumerate().skip(1) {
        if *total > totals[best] {
            (best, ties) = (index, 1);
        } else if *total == totals[best] {
            ties += 1;
            if choose(ties) == 0 {
                best = index;
            }
        }
    }
    best
}

fn absent_nodes_status(narrowed_by: &[Plugin]) -> Status {
    let mut names: Vec<&str> = narrowed_by.iter().map(|plugin| plugin.name()).collect();
    names.sort_unstable();
    names.dedup();
    Status {
        plugin: narrowed_by[0],
        code: Code::UnschedulableAndUnresolvable,
        reasons: smallvec![format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" ")).into()],
    }
}

/// Every node's verdict and scores, without sampling. `node_names` is `None` if all nodes are considered.
#[derive(Debug, Default)]
pub(super) struct FullEvaluation {
    pub pre_filter_status: Option<Status>,
    pub node_names: Option<Vec<Arc<str>>>,
    pub nodes: Vec<EvaluatedNode>,
}

/// Filters and scores every node.
pub(super) fn evaluate_all_nodes(
    cycle_state: &mut CycleState<'_>,
    retained: &mut RetainedState,
) -> Result<FullEvaluation, String> {
    let pre_filter_result = match cycle_state.run_pre_filter_plugins() {
        Ok(pre_filter_result) => pre_filter_result,
        Err(status) => {
            return Ok(FullEvaluation { pre_filter_status: Some(status), ..FullEvaluation::default() });
        }
    };
    let considered = cycle_state.cache.nodes.order().iter().copied().filter(|node| {
        let name = cycle_state.cache.nodes.name(*node);
        pre_filter_result.node_names.as_ref().is_none_or(|names| names.binary_search(name).is_ok())
    });
    let considered: Vec<NodeId> = considered.collect();
    let (spec_id, spec) = cycle_state.cache.node_local_spec(cycle_state.pod_id);
    let mut cached_verdicts = retained.filter_cache.take_verdicts(spec_id, spec);
    let mut statuses = Vec::new();
    let mut feasible = Vec::new();
    for &node in &considered {
        let mut shared_verdicts = (!retained.caches_disabled
            && pre_filter_result.node_names.is_none()
            && cycle_state.pod.node_name.is_none())
        .then_some(&mut cached_verdicts);
        let rejection = cycle_state.filter_node(node, &mut shared_verdicts, &mut retained.filter_cache);
        statuses.push(rejection.map(|id| retained.filter_cache.status(id).clone()));
        if rejection.is_none() {
            feasible.push(node);
        }
    }
    if !feasible.is_empty() {
        score(
            cycle_state,
            &feasible,
            &mut cached_verdicts,
            &mut retained.filter_cache,
            &mut retained.scores,
        )?;
    }
    retained.filter_cache.put_verdicts_back(spec_id, cached_verdicts);
    let scores = &retained.scores;
    let mut feasible_indices = 0..;
    let nodes = considered.iter().zip(statuses).map(|(node, rejection)| {
        let verdict = match rejection {
            Some(status) => NodeVerdict::Rejected(status),
            None => {
                let index = feasible_indices.next().expect("the range is unbounded");
                NodeVerdict::Feasible { scores: plugin_scores(scores, index), total: scores.totals[index] }
            }
        };
        EvaluatedNode { node: cycle_state.cache.nodes.name(*node).clone(), verdict }
    });
    Ok(FullEvaluation {
        pre_filter_status: None,
        node_names: pre_filter_result.node_names.clone(),
        nodes: nodes.collect(),
    })
}

fn plugin_scores(scores: &Scores, at: usize) -> Vec<PluginScore> {
    let plugin_score = |scores_of_plugin: &super::score::PluginScores| PluginScore {
        plugin: scores_of_plugin.plugin,
        raw: scores_of_plugin.raw[at],
        normalized: scores_of_plugin.normalized[at],
        weighted: scores_of_plugin.normalized[at].wrapping_mul(scores_of_plugin.weight),
    };
    scores.plugins.iter().map(plugin_score).collect()
}
