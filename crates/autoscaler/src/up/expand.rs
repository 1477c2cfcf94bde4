//! Which of several ways to help is taken: expanders, one after the other.

mod price;
mod priority;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kubernetes::amounts::Amounts;
use rand::RngExt;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::super::decision::Choice;
use super::super::settings::Expander;
use super::super::snapshot::Snapshot;
use super::pods::PodGroup;

/// A way to help.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub group: GroupId,
    pub name: Arc<str>,
    pub nodes: i64,
    /// Groups of pods, and how many of each are helped.
    pub helped: Vec<(usize, usize)>,
    pub similar: Vec<GroupId>,
}

/// The place of the best one, if any is left, and how it was found.
pub(super) fn choose(
    context: &mut AutoscalingContext<'_>,
    groups: &[PodGroup],
    candidates: &[Candidate],
) -> (Option<usize>, Vec<Choice>) {
    let mut left: Vec<usize> = (0..candidates.len()).collect();
    let mut choices = Vec::new();
    for &expander in &context.settings.expander {
        let scores = match expander {
            Expander::Random => Vec::new(),
            Expander::MostPods => scores(&left, |place| Some(candidates[place].pods() as f64)),
            Expander::LeastNodes => scores(&left, |place| {
                let nodes = candidates[place].nodes;
                (nodes != 0).then_some(nodes as f64)
            }),
            Expander::LeastWaste => scores(&left, |place| waste(context, groups, &candidates[place])),
            Expander::Price => price::scores(context, groups, candidates, &left),
            Expander::Priority => priority::scores(context, candidates, &left),
        };
        left = match expander {
            Expander::Random => by_chance(context, &left),
            Expander::MostPods => most(&scores, 0.0),
            Expander::LeastWaste | Expander::LeastNodes | Expander::Price => least(&scores),
            // Who knows no priority has no opinion.
            Expander::Priority => Some(most(&scores, -1.0)).filter(|best| !best.is_empty()).unwrap_or(left),
        };
        let name = |place: usize| candidates[place].name.clone();
        choices.push(Choice {
            expander,
            scores: scores.iter().map(|(place, score)| (name(*place), *score)).collect(),
            left: left.iter().map(|place| name(*place)).collect(),
            tie: false,
        });
        if left.len() == 1 {
            return (Some(left[0]), choices);
        }
    }
    if let Some(last) = choices.last_mut() {
        last.tie = left.len() > 1;
    }
    (left.into_iter().min_by_key(|place| &candidates[*place].name), choices)
}

fn scores(left: &[usize], score: impl Fn(usize) -> Option<f64>) -> Vec<(usize, f64)> {
    left.iter().filter_map(|place| Some((*place, score(*place)?))).collect()
}

fn by_chance(context: &mut AutoscalingContext<'_>, left: &[usize]) -> Vec<usize> {
    if left.is_empty() {
        return Vec::new();
    }
    vec![left[context.dice.random_range(0..left.len())]]
}

/// Those with the lowest score. One that is no number stays if it comes first, and is passed over otherwise.
fn least(scores: &[(usize, f64)]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::new();
    let mut lowest = 0.0;
    for &(place, score) in scores {
        if best.is_empty() || score < lowest {
            (lowest, best) = (score, vec![place]);
        } else if score == lowest {
            best.push(place);
        }
    }
    best
}

/// Those with the highest score, if that is as high as `floor`.
fn most(scores: &[(usize, f64)], floor: f64) -> Vec<usize> {
    let highest = scores.iter().fold(floor, |highest, (_, score)| score.max(highest));
    scores.iter().filter(|(_, score)| *score == highest).map(|(place, _)| *place).collect()
}

/// What would be left unused of cpu and memory, as shares. Of what nodes have in all, not of what pods may use.
fn waste(context: &AutoscalingContext<'_>, groups: &[PodGroup], candidate: &Candidate) -> Option<f64> {
    let node = &context.templates.get(candidate.group)?.node;
    let (mut cpu, mut memory) = (0_i64, 0_i64);
    candidate.each_kind(&context.cluster.snapshot, groups, |asked, count| {
        cpu = cpu.saturating_add(asked.cpu.saturating_mul(count));
        memory = memory.saturating_add(asked.memory.saturating_mul(count));
    });
    let share = |has: i64, asked: i64| {
        let has = has.wrapping_mul(candidate.nodes);
        has.wrapping_sub(asked) as f64 / has as f64
    };
    Some(share(node.capacity.milli("cpu"), cpu) + share(node.capacity.value("memory"), memory))
}

// === impl Candidate ===

impl Candidate {
    /// How many pods it helps.
    pub(super) fn pods(&self) -> usize {
        self.helped.iter().map(|(_, count)| count).sum()
    }

    /// What the pods it helps ask for, and how many in a row ask for that.
    fn each_kind(&self, snapshot: &Snapshot, groups: &[PodGroup], mut each: impl FnMut(&Amounts, i64)) {
        for &(group, count) in &self.helped {
            let group = &groups[group];
            if group.is_uniform {
                each(&snapshot.trial.pod(group.pods[0]).usage.requested, count as i64);
                continue;
            }
            for pod in &group.pods[..count] {
                each(&snapshot.trial.pod(*pod).usage.requested, 1);
            }
        }
    }
}
