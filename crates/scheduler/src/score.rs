//! Scoring of feasible nodes: PreScore, Score and NormalizeScore of all plugins, and weighted sums.

use super::cycle_state::CycleState;
use super::filter_cache::{CachedVerdicts, FilterCache, NodeLocalVerdict};
use super::ids::NodeId;
use super::plugin::Plugin;
use super::plugins::{image_locality, inter_pod_affinity, node_affinity, pod_topology_spread};

const MAX_NODE_SCORE: i64 = 100;

/// The scores of all plugins for all nodes, and their sums. Kept between cycles to reuse its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Scores {
    /// In the profile's order, without skipped plugins.
    pub plugins: Vec<PluginScores>,
    /// By node, in the order given.
    pub totals: Vec<i64>,
    spare: Vec<PluginScores>,
    verdicts: Vec<NodeLocalVerdict>,
    spread_scores: Vec<Option<i64>>,
    spread_scratch: pod_topology_spread::ScoreScratch,
}

/// One plugin's scores of all nodes.
#[derive(Clone, Debug)]
pub(super) struct PluginScores {
    pub plugin: Plugin,
    pub weight: i64,
    pub raw: Vec<i64>,
    pub normalized: Vec<i64>,
}

/// Scores nodes. Fails if a plugin's PreScore state is missing or a score is out of range.
pub(super) fn score(
    cycle_state: &CycleState<'_>,
    nodes: &[NodeId],
    verdicts: &mut CachedVerdicts,
    filter_cache: &mut FilterCache,
    scores: &mut Scores,
) -> Result<(), String> {
    let profile = &cycle_state.framework.profile;
    scores.spare.append(&mut scores.plugins);
    scores.totals.clear();
    scores.totals.resize(nodes.len(), 0);
    scores.verdicts.clear();
    scores
        .verdicts
        .extend(nodes.iter().map(|node| *cycle_state.cached_verdict(verdicts, *node, filter_cache)));
    let mut in_range = true;
    for &(plugin, weight) in &profile.score {
        if is_skipped(cycle_state, plugin)? {
            continue;
        }
        let mut plugin_scores = scores.spare.pop().unwrap_or_else(|| PluginScores {
            plugin,
            weight,
            raw: Vec::new(),
            normalized: Vec::new(),
        });
        (plugin_scores.plugin, plugin_scores.weight) = (plugin, weight);
        plugin_scores.raw.clear();
        plugin_scores.normalized.clear();
        run_score_plugin(
            cycle_state,
            nodes,
            &scores.verdicts,
            &mut plugin_scores,
            &mut scores.spread_scores,
            &mut scores.spread_scratch,
        );
        for (total, normalized) in scores.totals.iter_mut().zip(&plugin_scores.normalized) {
            in_range &= (0..=MAX_NODE_SCORE).contains(normalized);
            *total = total.wrapping_add(normalized.wrapping_mul(weight));
        }
        scores.plugins.push(plugin_scores);
    }
    if in_range { Ok(()) } else { Err(out_of_range(&scores.plugins)) }
}

/// The error for the first score that is out of range, as absurd amounts cause.
fn out_of_range(plugins: &[PluginScores]) -> String {
    let nodes = 0..plugins.first().map_or(0, |plugin| plugin.normalized.len());
    let mut scores_by_plugin = nodes.flat_map(|node| {
        plugins.iter().map(move |plugin_scores| (plugin_scores.plugin, plugin_scores.normalized[node]))
    });
    let (plugin, score) = scores_by_plugin
        .find(|(_, score)| !(0..=MAX_NODE_SCORE).contains(score))
        .expect("a score is out of range");
    format!(
        "applying score defaultWeights on Score plugins: plugin {:?} returns an invalid score {score}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing",
        plugin.name()
    )
}

/// Whether PreScore skips a plugin.
fn is_skipped(cycle_state: &CycleState<'_>, plugin: Plugin) -> Result<bool, String> {
    let profile = &cycle_state.framework.profile;
    let has_pre_score = profile.pre_score.contains(&plugin);
    let added_affinity = &profile.added_affinity;
    match plugin {
        Plugin::NodeAffinity => {
            Ok(has_pre_score && node_affinity::is_score_skipped(&cycle_state.pod.spec, added_affinity))
        }
        Plugin::NodeResourcesBalancedAllocation => {
            Ok(has_pre_score && cycle_state.framework.balanced_allocation.is_skipped(&cycle_state.pod.spec))
        }
        // It scores only with the feature gate StorageCapacityScoring, which is off.
        Plugin::VolumeBinding => Ok(has_pre_score),
        Plugin::TaintToleration | Plugin::PodTopologySpread | Plugin::InterPodAffinity if !has_pre_score => {
            Err(format!("failed to read \"PreScore{plugin}\" from cycleState: not found"))
        }
        Plugin::PodTopologySpread => Ok(cycle_state.pre_filter_state.soft_constraints.is_empty()),
        Plugin::InterPodAffinity => {
            Ok(cycle_state.pre_filter_state.affinity.is_score_skipped(cycle_state.cache))
        }
        // These are never skipped. The others do not score.
        Plugin::TaintToleration
        | Plugin::NodeResourcesFit
        | Plugin::ImageLocality
        | Plugin::DynamicResources => Ok(false),
        Plugin::SchedulingGates
        | Plugin::PrioritySort
        | Plugin::NodeUnschedulable
        | Plugin::NodeName
        | Plugin::NodePorts
        | Plugin::VolumeRestrictions
        | Plugin::NodeVolumeLimits
        | Plugin::VolumeZone
        | Plugin::DefaultPreemption
        | Plugin::DefaultBinder
        | Plugin::NodeDeclaredFeatures
        | Plugin::Unreadable => Ok(true),
    }
}

fn run_score_plugin(
    cycle_state: &CycleState<'_>,
    nodes: &[NodeId],
    verdicts: &[NodeLocalVerdict],
    plugin_scores: &mut PluginScores,
    spread_scores: &mut Vec<Option<i64>>,
    scratch: &mut pod_topology_spread::ScoreScratch,
) {
    let PluginScores { raw, normalized, .. } = plugin_scores;
    match plugin_scores.plugin {
        Plugin::TaintToleration => {
            raw.extend(verdicts.iter().map(|verdict| verdict.taint_score));
            default_normalize_score(raw, normalized, true);
        }
        Plugin::NodeAffinity => {
            raw.extend(verdicts.iter().map(|verdict| verdict.node_affinity_score));
            default_normalize_score(raw, normalized, false);
        }
        Plugin::NodeResourcesFit => {
            raw.extend(verdicts.iter().map(|verdict| verdict.fit_score));
            normalized.extend_from_slice(raw);
        }
        Plugin::NodeResourcesBalancedAllocation => {
            raw.extend(verdicts.iter().map(|verdict| verdict.balance_score));
            normalized.extend_from_slice(raw);
        }
        Plugin::ImageLocality => {
            let (count, version) = (cycle_state.cache.nodes.order().len(), cycle_state.framework.version);
            raw.extend(nodes.iter().zip(verdicts).map(|(node, verdict)| {
                if !verdict.has_images {
                    return 0;
                }
                image_locality::score(
                    &cycle_state.pod.spec,
                    cycle_state.cache.nodes.image_states(*node),
                    count,
                    version,
                )
            }));
            normalized.extend_from_slice(raw);
        }
        Plugin::PodTopologySpread => {
            cycle_state.pre_filter_state.soft_constraints.score(
                cycle_state.cache,
                nodes,
                scratch,
                spread_scores,
            );
            raw.extend(spread_scores.iter().map(|spread_score| spread_score.unwrap_or(0)));
            normalized.resize(nodes.len(), 0);
            pod_topology_spread::normalize_score(spread_scores, normalized);
        }
        Plugin::InterPodAffinity => {
            raw.resize(nodes.len(), 0);
            cycle_state.pre_filter_state.affinity.score(cycle_state.cache, nodes, raw);
            normalized.resize(nodes.len(), 0);
            inter_pod_affinity::normalize_score(raw, normalized);
        }
        // Dynamic resources are not simulated, and volumes are scored only with a feature gate that is off. The others
        // do not score.
        Plugin::SchedulingGates
        | Plugin::PrioritySort
        | Plugin::NodeUnschedulable
        | Plugin::NodeName
        | Plugin::NodePorts
        | Plugin::VolumeRestrictions
        | Plugin::NodeVolumeLimits
        | Plugin::VolumeBinding
        | Plugin::VolumeZone
        | Plugin::DynamicResources
        | Plugin::DefaultPreemption
        | Plugin::DefaultBinder
        | Plugin::NodeDeclaredFeatures
        | Plugin::Unreadable => {
            raw.resize(nodes.len(), 0);
            normalized.resize(nodes.len(), 0);
        }
    }
}

/// kube-scheduler's `DefaultNormalizeScore`: scales the highest score to 100; with `reverse` the lowest is the best.
fn default_normalize_score(raw: &[i64], normalized: &mut Vec<i64>, reverse: bool) {
    // kube-scheduler starts the search for the maximum at zero.
    let highest = raw.iter().copied().max().unwrap_or(0).max(0);
    if highest == 0 {
        normalized.extend(raw.iter().map(|score| if reverse { 100 } else { *score }));
        return;
    }
    let scaled = raw.iter().map(|score| 100_i64.wrapping_mul(*score) / highest);
    normalized.extend(scaled.map(|score| if reverse { 100 - score } else { score }));
}
