//! Makes room: chooses a node on which deleting weaker pods would let the pod in, and the pods to delete.

use std::cmp::Reverse;

use kubernetes::go;
use smallvec::smallvec;

use crate::cards::Cards;
use crate::cycle::Diagnosis;
use crate::ids::{NodeId, PodId};
use crate::look::{Hypothesis, Look};
use crate::message;
use crate::plugin::Plugin;
use crate::pod::Pod;
use crate::verdict::{Code, Refusal};

/// What making room came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It is not for this pod to make room; whatever it was promised stays promised.
    NotEligible(String),
    /// Trying failed; whatever it was promised stays promised.
    Failed(String),
    /// Nowhere, in kube-scheduler's words; what it was promised is void.
    Nowhere(String),
    /// Here, if these pods go. Some may be going already.
    On(NodeId, Vec<PodId>),
}

/// A node on which room can be made.
struct Candidate {
    node: NodeId,
    /// The most important first.
    victims: Vec<PodId>,
    /// How many of them a disruption budget protects.
    violations: usize,
}

/// Makes room for a pod that no node takes. `offset` chooses where to begin among so many nodes, `now` is when pods
/// that have not started yet count as started.
pub(crate) fn make_room(
    look: &Look<'_>,
    diagnosis: &Diagnosis,
    cards: &Cards,
    now: i64,
    offset: &mut dyn FnMut(usize) -> usize,
) -> Room {
    if let Some(reason) = why_not(look, diagnosis, cards) {
        return Room::NotEligible(format!("preemption: {reason}"));
    }
    if let Some(trouble) = look.world.relations.trouble_with_budgets() {
        return Room::Failed(format!("preemption: a disruption budget cannot be understood: {trouble}"));
    }
    let nodes = hopeful(look, diagnosis, cards);
    let mut error = None;
    let mut refused: Vec<Refusal> = Vec::new();
    let mut candidates = Vec::new();
    let start = if nodes.is_empty() { 0 } else { offset(nodes.len()) };
    if !look.world.has_weaker(look.pod.priority()) {
        return nowhere(look, &[(&nobody(), nodes.len())]);
    }
    if !nodes.is_empty() {
        let wanted = wanted(look, nodes.len());
        let (mut harmless, mut harmful) = (Vec::new(), Vec::new());
        for index in 0..nodes.len() {
            match victims(look, nodes[(start + index) % nodes.len()], now) {
                Err(refusal) if refusal.code == Code::Error => error = error.or(Some(refusal)),
                Err(refusal) => refused.push(refusal),
                Ok(candidate) if candidate.violations == 0 => harmless.push(candidate),
                Ok(candidate) => harmful.push(candidate),
            }
            if !harmless.is_empty() && harmless.len() + harmful.len() >= wanted {
                break;
            }
        }
        candidates = harmless;
        candidates.append(&mut harmful);
    }
    if let Some(error) = error.filter(|_| candidates.is_empty()) {
        return Room::Failed(format!("preemption: {}", error.message()));
    }
    if candidates.is_empty() {
        let refused: Vec<(&Refusal, usize)> = refused.iter().map(|refusal| (refusal, 1)).collect();
        return nowhere(look, &refused);
    }
    let best = best(look, candidates, now);
    Room::On(best.node, best.victims)
}

/// No node is of any use; so many said why.
fn nowhere(look: &Look<'_>, refused: &[(&Refusal, usize)]) -> Room {
    let all = look.world.nodes.order().len();
    let rest = Refusal::unresolvable(Plugin::DefaultPreemption, "Preemption is not helpful for scheduling");
    let others = all - refused.iter().map(|(_, count)| count).sum::<usize>();
    let refusals = refused.iter().copied().chain([(&rest, others)]);
    Room::Nowhere(format!("preemption: {}", message::unavailable(all, refusals)))
}

/// There is nobody who could go.
fn nobody() -> Refusal {
    Refusal::unresolvable(Plugin::DefaultPreemption, "No preemption victims found for incoming pod")
}

/// Why it is not for this pod to make room.
fn why_not(look: &Look<'_>, diagnosis: &Diagnosis, cards: &Cards) -> Option<&'static str> {
    if look.pod.shape.never_preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let node = look.world.nodes.by_name(look.pod.nominated_node.as_ref()?)?;
    let said =
        diagnosis.refused.iter().find(|(other, _)| *other == node).map(|(_, id)| cards.refusal(*id).code);
    let absent = diagnosis.pre_filter.as_ref().or(diagnosis.absent.as_ref());
    let code = said.or(absent.map(|refusal| refusal.code)).unwrap_or(Code::UnschedulableAndUnresolvable);
    if code == Code::UnschedulableAndUnresolvable {
        return None;
    }
    let mut pods = look.world.nodes.load_of(node).pods.iter().map(|pod| look.world.pod(*pod));
    let leaving = |pod: &Pod| is_weaker(pod, look.pod) && pod.terminating && pod.preempted;
    pods.any(leaving).then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Nodes that might take the pod without some of the pods there.
fn hopeful(look: &Look<'_>, diagnosis: &Diagnosis, cards: &Cards) -> Vec<NodeId> {
    if let Some(refusal) = &diagnosis.pre_filter {
        let all = look.world.nodes.order();
        return if refusal.code == Code::Unschedulable { all.to_vec() } else { Vec::new() };
    }
    let refused = diagnosis.refused.iter().filter(|(_, id)| cards.refusal(*id).code == Code::Unschedulable);
    refused.map(|(node, _)| *node).collect()
}

/// How many candidates are enough.
fn wanted(look: &Look<'_>, nodes: usize) -> usize {
    let args = look.rules.profile.preemption;
    let wanted = (nodes as i64 * args.min_candidates_percentage / 100).max(args.min_candidates_absolute);
    usize::try_from(wanted).unwrap_or(0).min(nodes)
}

fn is_weaker(pod: &Pod, than: &Pod) -> bool {
    pod.priority() < than.priority()
}

/// The pods that must go from a node, or why that does not help.
fn victims(look: &Look<'_>, node: NodeId, now: i64) -> Result<Candidate, Refusal> {
    let weaker = look.world.nodes.load_of(node).pods.iter().copied();
    let mut weaker: Vec<PodId> = weaker.filter(|pod| is_weaker(look.world.pod(*pod), look.pod)).collect();
    if weaker.is_empty() {
        return Err(nobody());
    }
    let mut hypothesis = look.as_is(node);
    weaker.iter().for_each(|pod| look.remove(&mut hypothesis, *pod, node));
    look.verdict_if(node, &hypothesis)?;
    sort(look, &mut weaker, now);
    let (protected, free) = split_by_budgets(look, &weaker);
    let mut victims = Vec::new();
    for pod in &protected {
        reprieve(look, &mut hypothesis, *pod, node, &mut victims);
    }
    let violations = victims.len();
    for pod in &free {
        reprieve(look, &mut hypothesis, *pod, node, &mut victims);
    }
    if !protected.is_empty() && !free.is_empty() {
        sort(look, &mut victims, now);
    }
    if victims.is_empty() {
        let reason = format!("expected at least one victim pod on node {:?}", look.world.nodes.name(node));
        return Err(Refusal {
            plugin: Plugin::DefaultPreemption,
            code: Code::Error,
            reasons: smallvec![reason.into()],
        });
    }
    Ok(Candidate { node, victims, violations })
}

/// Lets a pod stay if the node still takes the other one.
fn reprieve(
    look: &Look<'_>,
    hypothesis: &mut Hypothesis,
    pod: PodId,
    node: NodeId,
    victims: &mut Vec<PodId>,
) {
    look.add(hypothesis, pod, node);
    if look.verdict_still(node, hypothesis).is_err() {
        look.remove(hypothesis, pod, node);
        victims.push(pod);
    }
}

/// The most important first: by priority, then by who has run longer.
fn sort(look: &Look<'_>, pods: &mut [PodId], now: i64) {
    go::sort(pods, |a, b| {
        let (a, b) = (look.world.pod(*a), look.world.pod(*b));
        if a.priority() != b.priority() {
            return a.priority() > b.priority();
        }
        match (a.started, b.started) {
            // Both times are "now", and the clock goes on between asking for the one and for the other.
            (None, None) => true,
            (a, b) => a.unwrap_or(now) < b.unwrap_or(now),
        }
    });
}

/// Those whose going would break a disruption budget, if all went in this order; and the others.
fn split_by_budgets(look: &Look<'_>, pods: &[PodId]) -> (Vec<PodId>, Vec<PodId>) {
    let budgets = &look.world.relations.budgets;
    if budgets.is_empty() {
        return (Vec::new(), pods.to_vec());
    }
    let mut left: Vec<i64> = budgets.values().map(|budget| i64::from(budget.allowed)).collect();
    pods.iter().partition(|pod| {
        let pod = look.world.pod(**pod);
        let mut broken = false;
        for (budget, left) in budgets.values().zip(&mut left) {
            let counts = budget.namespace == pod.name.namespace
                && !pod.labels.is_empty()
                && !budget.selector.is_everything()
                && budget.selector.matches(|key| pod.labels.get(key))
                && !budget.disrupted.contains(&pod.name.name);
            if counts {
                *left -= 1;
                broken |= *left < 0;
            }
        }
        broken
    })
}

/// The candidate that does the least harm; the first of equals.
fn best(look: &Look<'_>, candidates: Vec<Candidate>, now: i64) -> Candidate {
    let harm = |candidate: &Candidate| {
        let pods = || candidate.victims.iter().map(|pod| look.world.pod(*pod));
        let highest = pods().map(Pod::priority).next().unwrap_or(i32::MIN);
        let sum: i64 = pods().map(|pod| i64::from(pod.priority()) + (1 << 31)).sum();
        let most = pods().map(Pod::priority).max();
        let longest =
            pods().filter(|pod| Some(pod.priority()) == most).map(|pod| pod.started.unwrap_or(now)).min();
        (candidate.violations, highest, sum, candidate.victims.len(), Reverse(longest))
    };
    candidates.into_iter().min_by_key(harm).expect("there is a candidate")
}
