//! An explanation for people: what is decided and why, then the nodes, the best first.

mod autoscaler;
mod nodes;

use anstyle::Style;
use explain::{Happened, PodExplanation, Said, times};
use model::{Key, Moment, NamespacedName};
use scheduler::{Decision, NodeVerdict, Placement, PluginScore, Rejection};

use crate::lines::line;
use crate::output::{NEW, OLD, Out, counted, grouped};

pub(super) use self::autoscaler::{assumed, played, share};

/// A node that fits.
struct Candidate<'a> {
    name: &'a str,
    total: i64,
    scores: &'a [PluginScore],
    is_chosen: bool,
}

/// Writes what is decided and why, then the nodes: all of them, or the best and the rest in groups if there are many.
pub(super) fn write(out: &mut Out, told: &PodExplanation, wide: bool, all_nodes: bool) -> anyhow::Result<()> {
    let candidates = candidates(told);
    let priority = match told.state.priority(&told.case.key) {
        0 => String::new(),
        priority => format!(", priority {}", signed(priority)),
    };
    let key = &told.case.key;
    line(out, "Pod", &format!("{}/{}{priority}", key.namespace, key.name), Style::new())?;
    line(out, "As of", &moment_words(told), Style::new())?;
    line(out, "Scheduler", &told.which.to_string(), Style::new())?;
    match &told.explanation.decision {
        Decision::Placed(placement) => placed(out, told, placement, &candidates)?,
        Decision::Refused(rejection) => refused(out, told, rejection)?,
        Decision::Gated(refusal) => {
            line(out, "Decision", "it is kept out of the queue until its gates are gone", OLD)?;
            line(out, "Because", &refusal.message(), Style::new())?;
        }
        Decision::Skipped(why) => {
            line(out, "Decision", "the scheduler does not try it", OLD)?;
            line(out, "Because", why, Style::new())?;
        }
        Decision::Failed(why) => {
            line(out, "Decision", "the attempt fails, and is made again", OLD)?;
            line(out, "Message", why, Style::new())?;
        }
    }
    if let Some(scaling) = &told.scaling {
        let pod = NamespacedName { namespace: key.namespace.clone(), name: key.name.clone() };
        autoscaler::write(out, &pod, scaling, wide)?;
    }
    if let Some(happened) = &told.happened {
        what_happened(out, told, happened, &candidates)?;
    }
    nodes::write(out, told, &candidates, wide, all_nodes)
}

/// The nodes that fit: the best first, among equals the one that is chosen, then in the scheduler's order.
fn candidates(told: &PodExplanation) -> Vec<Candidate<'_>> {
    let chosen = match &told.explanation.decision {
        Decision::Placed(placement) => Some(&placement.node),
        _ => None,
    };
    let mut candidates: Vec<Candidate<'_>> = told
        .explanation
        .nodes
        .iter()
        .filter_map(|answer| match &answer.verdict {
            NodeVerdict::Refused(_) => None,
            NodeVerdict::Fits { scores, total } => Some(Candidate {
                name: &answer.node,
                total: *total,
                scores,
                is_chosen: chosen == Some(&answer.node),
            }),
        })
        .collect();
    candidates.sort_by_key(|candidate| (std::cmp::Reverse(candidate.total), !candidate.is_chosen));
    candidates
}

fn moment_words(told: &PodExplanation) -> String {
    let words = told.case.as_of.to_string();
    format!("{}, {}", words.strip_prefix("at ").unwrap_or(&words), told.case.why)
}

fn placed(
    out: &mut Out,
    told: &PodExplanation,
    placement: &Placement,
    candidates: &[Candidate<'_>],
) -> anyhow::Result<()> {
    line(out, "Decision", &format!("it goes to {}", placement.node), NEW)?;
    let all = told.state.nodes();
    let looked_at = if placement.looked_at < all {
        format!("{} of {} looked at", grouped(placement.looked_at as u64), counted(all as u64, "node"))
    } else {
        counted(all as u64, "node")
    };
    let best = candidates.first().filter(|best| best.is_chosen);
    let equals = candidates.iter().filter(|other| Some(other.total) == best.map(|best| best.total)).count();
    let fitting = grouped(placement.fitting as u64);
    let because = match (best, candidates.get(1)) {
        _ if placement.looked_at == 0 => "the promise of this node, which still takes it".to_owned(),
        _ if placement.fitting == 1 => format!("the only one that fits, of {looked_at}"),
        (None, _) => {
            format!(
                "it is the best of the {fitting} that fit, of {looked_at}; better ones were not looked at"
            )
        }
        (Some(best), Some(next)) if equals == 1 => {
            let ahead = signed(best.total.saturating_sub(next.total));
            format!("{ahead} ahead of {}: {}; {fitting} fit, of {looked_at}", next.name, lead(best, next))
        }
        (Some(_), _) => {
            let equals = counted(equals as u64, "node");
            format!("the scheduler's order, among {equals} equally good; {fitting} fit, of {looked_at}")
        }
    };
    let began = if (1..all).contains(&placement.looked_at) {
        "; where the search began is not known, and the first node is assumed"
    } else {
        ""
    };
    line(out, "Decided by", &format!("{because}{began}"), Style::new())
}

/// In what a node is better, and in what it is worse all the same.
fn lead(best: &Candidate<'_>, next: &Candidate<'_>) -> String {
    let mut leads: Vec<(i64, &str)> = best
        .scores
        .iter()
        .zip(next.scores)
        .map(|(own, other)| (own.weighted.saturating_sub(other.weighted), own.plugin.name()))
        .filter(|(lead, _)| *lead != 0)
        .collect();
    leads.sort_by_key(|(lead, _)| std::cmp::Reverse(*lead));
    let leads: Vec<String> = leads.iter().map(|(lead, plugin)| format!("{plugin} {lead:+}")).collect();
    leads.join(", ")
}

fn refused(out: &mut Out, told: &PodExplanation, rejection: &Rejection) -> anyhow::Result<()> {
    let decision = match &rejection.nominated_node {
        None => "no node takes it".to_owned(),
        Some(node) => format!("no node takes it, and room is made on {node}"),
    };
    line(out, "Decision", &decision, OLD)?;
    if let Some(refusal) = &told.explanation.pre_filter {
        let before = format!("{}, before any node is looked at: {}", refusal.plugin, refusal.message());
        line(out, "Decided by", &before, Style::new())?;
    } else if !told.explanation.nodes.is_empty() {
        line(out, "Decided by", &nodes::who_refuses(told), Style::new())?;
    }
    line(out, "Message", &rejection.full_message(), Style::new())?;
    let named = |pod: &NamespacedName| {
        let key = Key { namespace: pod.namespace.clone(), name: pod.name.clone(), ..told.case.key.clone() };
        format!("{}/{} (priority {})", pod.namespace, pod.name, signed(told.state.priority(&key)))
    };
    for (label, pods) in [("Preempts", &rejection.victims), ("Sent back", &rejection.cleared)] {
        if !pods.is_empty() {
            let pods: Vec<String> = pods.iter().map(named).collect();
            line(out, label, &pods.join(", "), Style::new())?;
        }
    }
    Ok(())
}

fn what_happened(
    out: &mut Out,
    explained: &PodExplanation,
    happened: &Happened,
    candidates: &[Candidate<'_>],
) -> anyhow::Result<()> {
    let message = explained.event_message();
    if happened.is_nothing() && (explained.scaling.is_none() || happened.scaling.is_empty()) {
        return line(out, "Happened", "the history knows of nothing", Style::new());
    }
    let mut told: Vec<(Option<Moment>, String)> = Vec::new();
    for said in &happened.failed {
        let text = if message.as_ref() == Some(&said.text) {
            "in these words".to_owned()
        } else {
            format!("\"{}\"", said.text)
        };
        told.push((Some(said.first), format!("FailedScheduling{}, {text}", times(said))));
    }
    // Where no autoscaler is explained, nothing is said of one.
    if let Some(scaling) = &explained.scaling {
        for said in &happened.scaling {
            let as_here = if scaling.seen.has_said(&said.reason, &said.text) { ", as here" } else { "" };
            told.push((
                Some(said.first),
                format!("{}{}, \"{}\"{as_here}", said.reason, times(said), said.text),
            ));
        }
    }
    for (at, node) in &happened.nominated {
        told.push((Some(*at), format!("promised {node}")));
    }
    let deleted = |said: &Said| (Some(said.first), format!("{} was deleted to make room for it", said.about));
    told.extend(happened.victims.iter().map(deleted));
    if let Some(said) = &happened.preempted {
        let by = happened.preempted_by.as_ref().map_or_else(String::new, |pod| format!(" for {pod}"));
        told.push((Some(said.first), format!("deleted to make room{by}: \"{}\"", said.text)));
    }
    match &happened.bound {
        Some((node, Some(at))) => {
            let rank = rank(explained, node, candidates);
            told.push((Some(*at), format!("bound to {node}{rank}")));
        }
        Some((node, None)) => told.push((None, format!("it was on {node} when the history first saw it"))),
        None => {}
    }
    told.extend(happened.deletion.map(|at| (Some(at), "its deletion began".to_owned())));
    told.extend(happened.gone.map(|at| (Some(at), "gone".to_owned())));
    told.sort_by_key(|(at, _)| *at);
    let mut label = "Happened";
    for (at, text) in told {
        let text = match at {
            Some(at) => format!("{at}  {text}"),
            None => text,
        };
        line(out, label, &text, Style::new())?;
        label = "";
    }
    Ok(())
}

/// What is said here of the node that was really chosen, if it is another one than the one chosen here.
fn rank(told: &PodExplanation, node: &str, candidates: &[Candidate<'_>]) -> String {
    let Decision::Placed(placement) = &told.explanation.decision else { return String::new() };
    if &*placement.node == node {
        return String::new();
    }
    let Some(own) = candidates.iter().find(|candidate| candidate.name == node) else {
        return ", which does not fit here".to_owned();
    };
    if candidates.iter().any(|candidate| candidate.is_chosen && candidate.total == own.total) {
        return ", which is equally good".to_owned();
    }
    let better = candidates.iter().filter(|candidate| candidate.total > own.total).count();
    let (place, all) = (grouped(better as u64 + 1), grouped(candidates.len() as u64));
    format!(", number {place} of the {all} that fit")
}

/// -1,234
fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_zero_are_grouped_too() {
        assert_eq!(signed(-1_234_567), "-1,234,567");
        assert_eq!(signed(i64::MIN), "-9,223,372,036,854,775,808");
    }
}
