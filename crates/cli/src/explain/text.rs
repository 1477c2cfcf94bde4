//! The explanation of a pod as text: the decision and its reason, then the nodes, best first.

mod autoscaler;
mod nodes;

use anstyle::Style;
use explain::{ExplainedPod, ObservedPodOutcome, RecordedEvent, repetitions};
use model::{Key, Moment, NamespacedName};
use scheduler::{Decision, NodeVerdict, Placement, PluginScore, Rejection};

use crate::lines::write_field;
use crate::output::{NEW, OLD, Printer, count_noun, group_digits};

pub(super) use self::autoscaler::{percent, simulated_text, write_assumptions};

/// A feasible node.
struct FeasibleNode<'a> {
    name: &'a str,
    total: i64,
    scores: &'a [PluginScore],
    is_chosen: bool,
}

/// Prints the decision and its reason, then the nodes: all of them, or, if there are many, the best ones and the others
/// in groups.
pub(super) fn write(
    out: &mut Printer,
    told: &ExplainedPod,
    wide: bool,
    all_nodes: bool,
) -> anyhow::Result<()> {
    let candidates = feasible_nodes(told);
    let priority = match told.cluster.priority(&told.snapshot.key) {
        0 => String::new(),
        priority => format!(", priority {}", signed(priority)),
    };
    let key = &told.snapshot.key;
    write_field(out, "Pod", &format!("{}/{}{priority}", key.namespace, key.name), Style::new())?;
    write_field(out, "As of", &as_of_text(told), Style::new())?;
    write_field(out, "Scheduler", &told.scheduler.to_string(), Style::new())?;
    match &told.explanation.decision {
        Decision::Placed(placement) => write_placed(out, told, placement, &candidates)?,
        Decision::Refused(rejection) => write_unschedulable(out, told, rejection)?,
        Decision::Gated(refusal) => {
            write_field(out, "Decision", "it is kept out of the queue until its gates are gone", OLD)?;
            write_field(out, "Because", &refusal.message(), Style::new())?;
        }
        Decision::Skipped(why) => {
            write_field(out, "Decision", "the scheduler does not try it", OLD)?;
            write_field(out, "Because", why, Style::new())?;
        }
        Decision::Failed(why) => {
            write_field(out, "Decision", "the attempt fails, and is made again", OLD)?;
            write_field(out, "Message", why, Style::new())?;
        }
    }
    if let Some(scaling) = &told.scaling {
        let pod = NamespacedName { namespace: key.namespace.clone(), name: key.name.clone() };
        autoscaler::write(out, &pod, scaling, wide)?;
    }
    if let Some(happened) = &told.outcome {
        write_recorded_events(out, told, happened, &candidates)?;
    }
    nodes::write(out, told, &candidates, wide, all_nodes)
}

/// The feasible nodes by descending total score; among equals the chosen one first, then in the scheduler's order.
fn feasible_nodes(told: &ExplainedPod) -> Vec<FeasibleNode<'_>> {
    let chosen = match &told.explanation.decision {
        Decision::Placed(placement) => Some(&placement.node),
        _ => None,
    };
    let mut candidates: Vec<FeasibleNode<'_>> = told
        .explanation
        .nodes
        .iter()
        .filter_map(|answer| match &answer.verdict {
            NodeVerdict::Rejected(_) => None,
            NodeVerdict::Feasible { scores, total } => Some(FeasibleNode {
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

fn as_of_text(told: &ExplainedPod) -> String {
    let words = told.snapshot.as_of.to_string();
    format!("{}, {}", words.strip_prefix("at ").unwrap_or(&words), told.snapshot.why)
}

fn write_placed(
    out: &mut Printer,
    told: &ExplainedPod,
    placement: &Placement,
    candidates: &[FeasibleNode<'_>],
) -> anyhow::Result<()> {
    write_field(out, "Decision", &format!("it goes to {}", placement.node), NEW)?;
    let all = told.cluster.node_count();
    let looked_at = if placement.evaluated_nodes < all {
        format!(
            "{} of {} looked at",
            group_digits(placement.evaluated_nodes as u64),
            count_noun(all as u64, "node")
        )
    } else {
        count_noun(all as u64, "node")
    };
    let best = candidates.first().filter(|best| best.is_chosen);
    let equals = candidates.iter().filter(|other| Some(other.total) == best.map(|best| best.total)).count();
    let fitting = group_digits(placement.feasible_nodes as u64);
    let because = match (best, candidates.get(1)) {
        _ if placement.evaluated_nodes == 0 => "the promise of this node, which still takes it".to_owned(),
        _ if placement.feasible_nodes == 1 => format!("the only one that fits, of {looked_at}"),
        (None, _) => {
            format!(
                "it is the best of the {fitting} that fit, of {looked_at}; better ones were not looked at"
            )
        }
        (Some(best), Some(next)) if equals == 1 => {
            let ahead = signed(best.total.saturating_sub(next.total));
            format!(
                "{ahead} ahead of {}: {}; {fitting} fit, of {looked_at}",
                next.name,
                score_lead(best, next)
            )
        }
        (Some(_), _) => {
            let equals = count_noun(equals as u64, "node");
            format!("the scheduler's order, among {equals} equally good; {fitting} fit, of {looked_at}")
        }
    };
    let began = if (1..all).contains(&placement.evaluated_nodes) {
        "; where the search began is not known, and the first node is assumed"
    } else {
        ""
    };
    write_field(out, "Decided by", &format!("{because}{began}"), Style::new())
}

/// The differences between two nodes' scores by plugin, the largest lead first.
fn score_lead(best: &FeasibleNode<'_>, next: &FeasibleNode<'_>) -> String {
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

fn write_unschedulable(out: &mut Printer, told: &ExplainedPod, rejection: &Rejection) -> anyhow::Result<()> {
    let decision = match &rejection.nominated_node {
        None => "no node takes it".to_owned(),
        Some(node) => format!("no node takes it, and room is made on {node}"),
    };
    write_field(out, "Decision", &decision, OLD)?;
    if let Some(refusal) = &told.explanation.pre_filter_status {
        let before = format!("{}, before any node is looked at: {}", refusal.plugin, refusal.message());
        write_field(out, "Decided by", &before, Style::new())?;
    } else if !told.explanation.nodes.is_empty() {
        write_field(out, "Decided by", &nodes::rejections_by_plugin(told), Style::new())?;
    }
    write_field(out, "Message", &rejection.full_message(), Style::new())?;
    let named = |pod: &NamespacedName| {
        let key =
            Key { namespace: pod.namespace.clone(), name: pod.name.clone(), ..told.snapshot.key.clone() };
        format!("{}/{} (priority {})", pod.namespace, pod.name, signed(told.cluster.priority(&key)))
    };
    for (label, pods) in [("Preempts", &rejection.victims), ("Sent back", &rejection.cleared_nominations)] {
        if !pods.is_empty() {
            let pods: Vec<String> = pods.iter().map(named).collect();
            write_field(out, label, &pods.join(", "), Style::new())?;
        }
    }
    Ok(())
}

fn write_recorded_events(
    out: &mut Printer,
    explained: &ExplainedPod,
    happened: &ObservedPodOutcome,
    candidates: &[FeasibleNode<'_>],
) -> anyhow::Result<()> {
    let message = explained.event_message();
    if happened.is_empty() && (explained.scaling.is_none() || happened.autoscaler_events.is_empty()) {
        return write_field(out, "Happened", "the history knows of nothing", Style::new());
    }
    let mut told: Vec<(Option<Moment>, String)> = Vec::new();
    for said in &happened.failed_scheduling {
        let text = if message.as_ref() == Some(&said.message) {
            "in these words".to_owned()
        } else {
            format!("\"{}\"", said.message)
        };
        told.push((Some(said.first), format!("FailedScheduling{}, {text}", repetitions(said))));
    }
    // Events of an autoscaler are shown only where one is explained.
    if let Some(scaling) = &explained.scaling {
        for said in &happened.autoscaler_events {
            let as_here =
                if scaling.results.has_event(&said.reason, &said.message) { ", as here" } else { "" };
            told.push((
                Some(said.first),
                format!("{}{}, \"{}\"{as_here}", said.reason, repetitions(said), said.message),
            ));
        }
    }
    for (at, node) in &happened.nominated {
        told.push((Some(*at), format!("promised {node}")));
    }
    let deleted =
        |said: &RecordedEvent| (Some(said.first), format!("{} was deleted to make room for it", said.object));
    told.extend(happened.victims.iter().map(deleted));
    if let Some(said) = &happened.preempted {
        let by = happened.preempted_by.as_ref().map_or_else(String::new, |pod| format!(" for {pod}"));
        told.push((Some(said.first), format!("deleted to make room{by}: \"{}\"", said.message)));
    }
    match &happened.bound {
        Some((node, Some(at))) => {
            let rank = rank_text(explained, node, candidates);
            told.push((Some(*at), format!("bound to {node}{rank}")));
        }
        Some((node, None)) => told.push((None, format!("it was on {node} when the history first saw it"))),
        None => {}
    }
    told.extend(happened.deletion_began.map(|at| (Some(at), "its deletion began".to_owned())));
    told.extend(happened.deleted_at.map(|at| (Some(at), "gone".to_owned())));
    told.sort_by_key(|(at, _)| *at);
    let mut label = "Happened";
    for (at, text) in told {
        let text = match at {
            Some(at) => format!("{at}  {text}"),
            None => text,
        };
        write_field(out, label, &text, Style::new())?;
        label = "";
    }
    Ok(())
}

/// The rank, in this explanation, of the node that the pod was really bound to, if that is another one.
fn rank_text(told: &ExplainedPod, node: &str, candidates: &[FeasibleNode<'_>]) -> String {
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
    let (place, all) = (group_digits(better as u64 + 1), group_digits(candidates.len() as u64));
    format!(", number {place} of the {all} that fit")
}

/// -1,234
fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", group_digits(number.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_numbers_are_grouped_too() {
        assert_eq!(signed(-1_234_567), "-1,234,567");
        assert_eq!(signed(i64::MIN), "-9,223,372,036,854,775,808");
    }
}
