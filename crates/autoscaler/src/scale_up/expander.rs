//! The chain of expanders, which chooses among expansion options.

mod price;
mod priority;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kubernetes::amounts::ResourceAmounts;
use rand::RngExt;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::super::decision::ExpanderChoice;
use super::super::settings::Expander;
use super::super::snapshot::ClusterSnapshot;
use super::equivalence_groups::PodEquivalenceGroup;

/// An expansion option.
#[derive(Clone, Debug)]
pub(super) struct ExpansionOption {
    pub group: GroupId,
    pub name: Arc<str>,
    pub nodes: i64,
    /// Equivalence groups, with the number of pods of each that are helped.
    pub helped_pods: Vec<(usize, usize)>,
    pub similar_groups: Vec<GroupId>,
}

/// The index of the best option, if any remains, and the choices of the expanders.
pub(super) fn best_option(
    context: &mut AutoscalingContext<'_>,
    groups: &[PodEquivalenceGroup],
    candidates: &[ExpansionOption],
) -> (Option<usize>, Vec<ExpanderChoice>) {
    let mut remaining: Vec<usize> = (0..candidates.len()).collect();
    let mut choices = Vec::new();
    for &expander in &context.settings.expander {
        let scores = match expander {
            Expander::Random => Vec::new(),
            Expander::MostPods => scores(&remaining, |index| Some(candidates[index].pod_count() as f64)),
            Expander::LeastNodes => scores(&remaining, |index| {
                let nodes = candidates[index].nodes;
                (nodes != 0).then_some(nodes as f64)
            }),
            Expander::LeastWaste => scores(&remaining, |index| waste(context, groups, &candidates[index])),
            Expander::Price => price::scores(context, groups, candidates, &remaining),
            Expander::Priority => priority::scores(context, candidates, &remaining),
        };
        remaining = match expander {
            Expander::Random => random_option(context, &remaining),
            Expander::MostPods => with_highest_score(&scores, 0.0),
            Expander::LeastWaste | Expander::LeastNodes | Expander::Price => with_lowest_score(&scores),
            // Without any matching priority nothing is filtered out.
            Expander::Priority => {
                Some(with_highest_score(&scores, -1.0)).filter(|best| !best.is_empty()).unwrap_or(remaining)
            }
        };
        let name = |index: usize| candidates[index].name.clone();
        choices.push(ExpanderChoice {
            expander,
            scores: scores.iter().map(|(index, score)| (name(*index), *score)).collect(),
            remaining_groups: remaining.iter().map(|index| name(*index)).collect(),
            is_tie: false,
        });
        if remaining.len() == 1 {
            return (Some(remaining[0]), choices);
        }
    }
    if let Some(last) = choices.last_mut() {
        last.is_tie = remaining.len() > 1;
    }
    (remaining.into_iter().min_by_key(|index| &candidates[*index].name), choices)
}

fn scores(remaining: &[usize], score: impl Fn(usize) -> Option<f64>) -> Vec<(usize, f64)> {
    remaining.iter().filter_map(|index| Some((*index, score(*index)?))).collect()
}

fn random_option(context: &mut AutoscalingContext<'_>, remaining: &[usize]) -> Vec<usize> {
    if remaining.is_empty() {
        return Vec::new();
    }
    vec![remaining[context.rng.random_range(0..remaining.len())]]
}

/// The options with the lowest score. A NaN is kept if it comes first, and ignored otherwise.
fn with_lowest_score(scores: &[(usize, f64)]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::new();
    let mut lowest = 0.0;
    for &(index, score) in scores {
        if best.is_empty() || score < lowest {
            (lowest, best) = (score, vec![index]);
        } else if score == lowest {
            best.push(index);
        }
    }
    best
}

/// The options with the highest score, if that is at least `floor`.
fn with_highest_score(scores: &[(usize, f64)], floor: f64) -> Vec<usize> {
    let highest = scores.iter().fold(floor, |highest, (_, score)| score.max(highest));
    scores.iter().filter(|(_, score)| *score == highest).map(|(index, _)| *index).collect()
}

/// The unused fractions of CPU and memory. Relative to capacity, not to allocatable.
fn waste(
    context: &AutoscalingContext<'_>,
    groups: &[PodEquivalenceGroup],
    candidate: &ExpansionOption,
) -> Option<f64> {
    let node = &context.templates.get(candidate.group)?.node;
    let (mut cpu, mut memory) = (0_i64, 0_i64);
    candidate.for_each_request(&context.cluster.snapshot, groups, |pod_requests, count| {
        cpu = cpu.saturating_add(pod_requests.cpu.saturating_mul(count));
        memory = memory.saturating_add(pod_requests.memory.saturating_mul(count));
    });
    let wasted_ratio = |has: i64, requests: i64| {
        let has = has.wrapping_mul(candidate.nodes);
        has.wrapping_sub(requests) as f64 / has as f64
    };
    Some(wasted_ratio(node.capacity.milli("cpu"), cpu) + wasted_ratio(node.capacity.value("memory"), memory))
}

// === impl ExpansionOption ===

impl ExpansionOption {
    /// The number of pods it helps.
    pub(super) fn pod_count(&self) -> usize {
        self.helped_pods.iter().map(|(_, count)| count).sum()
    }

    /// Calls `each` with the requests of the pods it helps and the number of consecutive pods with these requests.
    fn for_each_request(
        &self,
        snapshot: &ClusterSnapshot,
        groups: &[PodEquivalenceGroup],
        mut each: impl FnMut(&ResourceAmounts, i64),
    ) {
        for &(group, count) in &self.helped_pods {
            let group = &groups[group];
            if group.is_uniform {
                each(&snapshot.filter_snapshot.pod(group.pods[0]).usage.requested, count as i64);
                continue;
            }
            for pod in &group.pods[..count] {
                each(&snapshot.filter_snapshot.pod(*pod).usage.requested, 1);
            }
        }
    }
}
