//! One decision: which nodes are looked at, which take the pod, which is the best; or the words that say why none is.

use std::sync::Arc;

use kubernetes::go;
use smallvec::smallvec;

use super::answer::{Inclined, NodeAnswer, NodeVerdict, PluginScore};
use super::cards::{Cards, ShapeCards};
use super::ids::NodeId;
use super::look::Look;
use super::message;
use super::plugin::Plugin;
use super::score::{Scores, score};
use super::settings::Version;
use super::verdict::{Code, Refusal};

/// What is kept from decision to decision: where to begin, what is remembered, room to work in.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub cards: Cards,
    scores: Scores,
    feasible: Vec<NodeId>,
    heap: Vec<u32>,
    /// Where in the order of nodes the next decision begins.
    pub next_start: usize,
    /// Nothing is remembered: every answer is found anew, by the rule itself.
    pub plain: bool,
}

/// What became of the nodes.
#[derive(Debug)]
pub(super) enum Outcome {
    /// This one is the best.
    Chosen { node: NodeId, looked_at: usize, fitting: usize, equals: usize, inclined: Option<Inclined> },
    /// None takes the pod.
    None(Diagnosis),
    /// A plugin failed.
    Failed(String),
}

/// Why no node takes a pod.
#[derive(Debug, Default)]
pub(super) struct Diagnosis {
    /// The pod was refused before any node was looked at.
    pub pre_filter: Option<Refusal>,
    /// Nodes that were looked at and refused, in that order.
    pub refused: Vec<(NodeId, u32)>,
    /// What is said of all other nodes.
    pub absent: Option<Refusal>,
    /// Who refused, sorted.
    pub plugins: Vec<Plugin>,
}

impl Diagnosis {
    /// The whole sentence.
    pub(super) fn message(&self, nodes: usize, cards: &Cards) -> String {
        if let Some(refusal) = &self.pre_filter {
            return message::refused_at_once(nodes, refusal);
        }
        let mut counts = vec![0_usize; cards.end()];
        self.refused.iter().for_each(|(_, id)| counts[*id as usize] += 1);
        let refused = counts.iter().enumerate().map(|(id, count)| (cards.refusal(id as u32), *count));
        let absent = self.absent.iter().map(|refusal| (refusal, nodes - self.refused.len()));
        message::unavailable(nodes, refused.filter(|(_, count)| *count > 0).chain(absent))
    }
}

/// Decides as the scheduler would, with sampling. Among equals the node that the pod is inclined to is taken, if it is
/// one of them.
pub(super) fn decide(
    look: &mut Look<'_>,
    memory: &mut Memory,
    inclined: Option<NodeId>,
    choose_among_equals: &mut dyn FnMut(usize) -> usize,
) -> Outcome {
    let all = look.world.nodes.order();
    memory.cards.tidy();
    let before = match look.pre_filter() {
        Ok(before) => before,
        Err(refusal) if refusal.code == Code::Error => {
            return Outcome::Failed(format!(
                "running PreFilter plugin {:?}: {}",
                refusal.plugin.name(),
                refusal.message()
            ));
        }
        Err(refusal) => {
            let plugins = vec![refusal.plugin];
            return Outcome::None(Diagnosis { pre_filter: Some(refusal), plugins, ..Diagnosis::default() });
        }
    };
    let mut diagnosis = Diagnosis { plugins: before.narrowed_by.clone(), ..Diagnosis::default() };
    let (shape_id, shape) = look.world.local_shape(look.pod_id);
    // One that goes to a few nodes by name, or to one, has no use for cards: nobody else is like it.
    let alone = before.only.is_some() || look.pod.node_name.is_some();
    let mut kept = memory.cards.take(shape_id, shape);
    let mut chosen = None;
    if let Some(nominated) = look.pod.nominated_node.as_ref().and_then(|name| look.world.nodes.by_name(name))
    {
        match look.verdict(nominated, &mut None, &mut memory.cards) {
            None => chosen = Some(nominated),
            // An error is only told to the log.
            Some(refusal) if memory.cards.refusal(refusal).code == Code::Error => {}
            Some(refusal) => {
                diagnosis.refused.push((nominated, refusal));
                // An oversight of kube-scheduler: who refused the promised node is then named among those who narrowed
                // the search, if any did.
                if before.only.is_some() {
                    diagnosis.plugins.push(memory.cards.refusal(refusal).plugin);
                }
            }
        }
    }
    if let Some(node) = chosen {
        memory.cards.put_back(shape_id, kept);
        let inclined = inclined.map(|it| if it == node { Inclined::Taken } else { Inclined::NotLookedAt });
        return Outcome::Chosen { node, looked_at: 0, fitting: 1, equals: 1, inclined };
    }
    let only: Option<Vec<NodeId>> = before.only.map(|names| {
        diagnosis.absent = Some(not_these(&diagnosis.plugins));
        names.iter().filter_map(|name| look.world.nodes.by_name(name)).collect()
    });
    let considered = only.as_deref().unwrap_or(all);
    let mut feasible = std::mem::take(&mut memory.feasible);
    let mut cards = (!alone && !memory.plain).then_some(&mut kept);
    let passed = pass_filters(
        look,
        considered,
        memory.next_start,
        &mut cards,
        &mut memory.cards,
        &mut feasible,
        &mut diagnosis,
    );
    memory.next_start = (memory.next_start + feasible.len() + diagnosis.refused.len()) % all.len();
    let outcome = match (passed, &feasible[..]) {
        (Err(error), _) => Outcome::Failed(error),
        (Ok(()), []) => {
            let mut said = vec![false; memory.cards.end()];
            diagnosis.refused.iter().for_each(|(_, id)| said[*id as usize] = true);
            let said = (0_u32..).zip(said).filter(|(_, is_said)| *is_said);
            diagnosis.plugins.extend(said.map(|(id, _)| memory.cards.refusal(id).plugin));
            diagnosis.plugins.sort_unstable();
            diagnosis.plugins.dedup();
            Outcome::None(diagnosis)
        }
        (Ok(()), &[node]) => {
            let inclined = inclined.map(|it| wish(it, node, &feasible, &[], &diagnosis, &memory.cards));
            Outcome::Chosen { node, looked_at: 1 + diagnosis.refused.len(), fitting: 1, equals: 1, inclined }
        }
        (Ok(()), _) => match score(look, &feasible, &mut kept, &mut memory.cards, &mut memory.scores) {
            Err(error) => Outcome::Failed(error),
            Ok(()) => {
                let totals = &memory.scores.totals;
                let best = if look.rules.version >= Version::V1_35 {
                    go::top(totals, &mut memory.heap).expect("there are at least two")
                } else {
                    one_of_the_best(totals, choose_among_equals)
                };
                let looked_at = feasible.len() + diagnosis.refused.len();
                let equals = || totals.iter().enumerate().filter(|(_, total)| **total == totals[best]);
                let wished = equals().find(|(index, _)| Some(feasible[*index]) == inclined);
                let node = feasible[wished.map_or(best, |(index, _)| index)];
                let inclined =
                    inclined.map(|it| wish(it, node, &feasible, totals, &diagnosis, &memory.cards));
                let (equals, fitting) = (equals().count(), feasible.len());
                Outcome::Chosen { node, looked_at, fitting, equals, inclined }
            }
        },
    };
    memory.feasible = feasible;
    memory.cards.put_back(shape_id, kept);
    outcome
}

/// What became of the node that the pod was inclined to.
fn wish(
    wished: NodeId,
    taken: NodeId,
    feasible: &[NodeId],
    totals: &[i64],
    diagnosis: &Diagnosis,
    cards: &Cards,
) -> Inclined {
    if wished == taken {
        return Inclined::Taken;
    }
    let total = |node: NodeId| feasible.iter().position(|it| *it == node).and_then(|at| totals.get(at));
    if let (Some(best), Some(own)) = (total(taken), total(wished)) {
        return Inclined::Worse(best.saturating_sub(*own));
    }
    match diagnosis.refused.iter().find(|(node, _)| *node == wished) {
        Some((_, refusal)) => Inclined::Refused(cards.refusal(*refusal).plugin),
        None => Inclined::NotLookedAt,
    }
}

/// Looks at nodes from `start` on, all around, until enough are found that take the pod.
fn pass_filters(
    look: &Look<'_>,
    considered: &[NodeId],
    start: usize,
    cards: &mut Option<&mut ShapeCards>,
    refusals: &mut Cards,
    feasible: &mut Vec<NodeId>,
    diagnosis: &mut Diagnosis,
) -> Result<(), String> {
    feasible.clear();
    let enough = enough(look, considered.len());
    let (last, first) = considered.split_at(start % considered.len().max(1));
    let in_turn = first.iter().chain(last).copied();
    if look.rules.profile.filter.is_empty() {
        feasible.extend(in_turn.take(enough));
        return Ok(());
    }
    // The one promised may be looked at twice; what is said last counts.
    let promised = diagnosis.refused.first().map(|(node, _)| *node);
    for node in in_turn {
        match look.verdict(node, cards, refusals) {
            None if feasible.len() == enough => break,
            None => feasible.push(node),
            Some(refusal) if refusals.refusal(refusal).code == Code::Error => {
                return Err(refusals.refusal(refusal).message());
            }
            Some(refusal) if promised == Some(node) => diagnosis.refused[0].1 = refusal,
            Some(refusal) => diagnosis.refused.push((node, refusal)),
        }
    }
    Ok(())
}

/// How many nodes that take the pod are enough, of so many.
fn enough(look: &Look<'_>, nodes: usize) -> usize {
    const AT_LEAST: usize = 100;
    if look.rules.profile.score.is_empty() {
        return nodes.min(1);
    }
    if nodes < AT_LEAST {
        return nodes;
    }
    let percentage = match look.rules.percentage {
        0 => (50 - nodes as i64 / 125).max(5),
        percentage => i64::from(percentage),
    };
    ((nodes as i64 * percentage / 100) as usize).max(AT_LEAST)
}

/// One of the nodes with the highest score, by chance.
fn one_of_the_best(totals: &[i64], choose: &mut dyn FnMut(usize) -> usize) -> usize {
    let (mut best, mut equals) = (0, 1);
    for (index, total) in totals.iter().enumerate().skip(1) {
        if *total > totals[best] {
            (best, equals) = (index, 1);
        } else if *total == totals[best] {
            equals += 1;
            if choose(equals) == 0 {
                best = index;
            }
        }
    }
    best
}

fn not_these(narrowed_by: &[Plugin]) -> Refusal {
    let mut names: Vec<&str> = narrowed_by.iter().map(|plugin| plugin.name()).collect();
    names.sort_unstable();
    names.dedup();
    Refusal {
        plugin: narrowed_by[0],
        code: Code::UnschedulableAndUnresolvable,
        reasons: smallvec![format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" ")).into()],
    }
}

/// Every node's verdict and scores, without sampling. `None` for the names if all nodes are considered.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub pre_filter: Option<Refusal>,
    pub only: Option<Vec<Arc<str>>>,
    pub nodes: Vec<NodeAnswer>,
}

/// Looks at every node.
pub(super) fn survey(look: &mut Look<'_>, memory: &mut Memory) -> Result<Survey, String> {
    let before = match look.pre_filter() {
        Ok(before) => before,
        Err(refusal) => return Ok(Survey { pre_filter: Some(refusal), ..Survey::default() }),
    };
    let considered = look.world.nodes.order().iter().copied().filter(|node| {
        let name = look.world.nodes.name(*node);
        before.only.as_ref().is_none_or(|names| names.binary_search(name).is_ok())
    });
    let considered: Vec<NodeId> = considered.collect();
    let (shape_id, shape) = look.world.local_shape(look.pod_id);
    let mut kept = memory.cards.take(shape_id, shape);
    let mut verdicts = Vec::new();
    let mut feasible = Vec::new();
    for &node in &considered {
        let mut cards =
            (!memory.plain && before.only.is_none() && look.pod.node_name.is_none()).then_some(&mut kept);
        let refused = look.verdict(node, &mut cards, &mut memory.cards);
        verdicts.push(refused.map(|id| memory.cards.refusal(id).clone()));
        if refused.is_none() {
            feasible.push(node);
        }
    }
    if !feasible.is_empty() {
        score(look, &feasible, &mut kept, &mut memory.cards, &mut memory.scores)?;
    }
    memory.cards.put_back(shape_id, kept);
    let scores = &memory.scores;
    let mut place = 0..;
    let nodes = considered.iter().zip(verdicts).map(|(node, refused)| {
        let verdict = match refused {
            Some(refusal) => NodeVerdict::Refused(refusal),
            None => {
                let at = place.next().expect("there are enough numbers");
                NodeVerdict::Fits { scores: opinions(scores, at), total: scores.totals[at] }
            }
        };
        NodeAnswer { node: look.world.nodes.name(*node).clone(), verdict }
    });
    Ok(Survey { pre_filter: None, only: before.only.clone(), nodes: nodes.collect() })
}

fn opinions(scores: &Scores, at: usize) -> Vec<PluginScore> {
    let opinion = |own: &super::score::PluginScores| PluginScore {
        plugin: own.plugin,
        raw: own.raw[at],
        normalised: own.normalised[at],
        weighted: own.normalised[at].wrapping_mul(own.weight),
    };
    scores.plugins.iter().map(opinion).collect()
}
