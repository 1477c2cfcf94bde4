//! The explanation of a pod as text: the decision and its reason, then the nodes, best first.

mod autoscaler;
mod nodes;

use anstyle::Style;
use explain::{ExplainedPod, ObservedPodOutcome, RecordedEvent, repetitions};
use model::{Key, Moment, NamespacedName};
use scheduler::{Decision, NodeVerdict, PluginScore, Rejection, ScheduleResult};

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
    explained_pod: &ExplainedPod,
    wide: bool,
    all_nodes: bool,
) -> anyhow::Result<()> {
    let candidates = feasible_nodes(explained_pod);
    let priority = match explained_pod.cluster.priority(&explained_pod.snapshot.key) {
        0 => String::new(),
        priority => format!(", priority {}", signed(priority)),
    };
    let key = &explained_pod.snapshot.key;
    write_field(out, "Pod", &format!("{}/{}{priority}", key.namespace, key.name), Style::new())?;
    write_field(out, "As of", &as_of_text(explained_pod), Style::new())?;
    write_field(out, "Scheduler", &explained_pod.scheduler.to_string(), Style::new())?;
    match &explained_pod.explanation.decision {
        Decision::Scheduled(placement) => write_placed(out, explained_pod, placement, &candidates)?,
        Decision::Unschedulable(rejection) => write_unschedulable(out, explained_pod, rejection)?,
        Decision::Gated(status) => {
            write_field(
                out,
                "Decision",
                "SchedulingGated: not queued until its scheduling gates are removed",
                OLD,
            )?;
            write_field(out, "Reason", &status.message(), Style::new())?;
        }
        Decision::Skipped(why) => {
            write_field(out, "Decision", "Skipped: the scheduler does not attempt it", OLD)?;
            write_field(out, "Reason", why, Style::new())?;
        }
        Decision::Failed(why) => {
            write_field(out, "Decision", "SchedulerError: the attempt failed and is retried", OLD)?;
            write_field(out, "Message", why, Style::new())?;
        }
    }
    if let Some(scaling) = &explained_pod.scaling {
        let pod = NamespacedName { namespace: key.namespace.clone(), name: key.name.clone() };
        autoscaler::write(out, &pod, scaling, wide)?;
    }
    if let Some(recorded_outcome) = &explained_pod.outcome {
        write_recorded_events(out, explained_pod, recorded_outcome, &candidates)?;
    }
    nodes::write(out, explained_pod, &candidates, wide, all_nodes)
}

/// The feasible nodes by descending total score; among equals the chosen one first, then in the scheduler's order.
fn feasible_nodes(explained_pod: &ExplainedPod) -> Vec<FeasibleNode<'_>> {
    let chosen_node = match &explained_pod.explanation.decision {
        Decision::Scheduled(placement) => Some(&placement.node),
        _ => None,
    };
    let mut candidates: Vec<FeasibleNode<'_>> = explained_pod
        .explanation
        .nodes
        .iter()
        .filter_map(|node_result| match &node_result.verdict {
            NodeVerdict::Rejected(_) => None,
            NodeVerdict::Feasible { scores, total } => Some(FeasibleNode {
                name: &node_result.node,
                total: *total,
                scores,
                is_chosen: chosen_node == Some(&node_result.node),
            }),
        })
        .collect();
    candidates.sort_by_key(|candidate| (std::cmp::Reverse(candidate.total), !candidate.is_chosen));
    candidates
}

fn as_of_text(explained_pod: &ExplainedPod) -> String {
    let text = explained_pod.snapshot.as_of.to_string();
    format!("{}, {}", text.strip_prefix("at ").unwrap_or(&text), explained_pod.snapshot.why)
}

fn write_placed(
    out: &mut Printer,
    explained_pod: &ExplainedPod,
    placement: &ScheduleResult,
    candidates: &[FeasibleNode<'_>],
) -> anyhow::Result<()> {
    write_field(out, "Decision", &format!("Scheduled: assigned to {}", placement.node), NEW)?;
    let all = explained_pod.cluster.node_count();
    let evaluated = if placement.evaluated_nodes < all {
        let evaluated = group_digits(placement.evaluated_nodes as u64);
        format!("{evaluated} evaluated nodes ({} in total)", group_digits(all as u64))
    } else {
        format!("{} nodes", group_digits(all as u64))
    };
    let best = candidates.first().filter(|best| best.is_chosen);
    let equals = candidates.iter().filter(|other| Some(other.total) == best.map(|best| best.total)).count();
    let fit = format!("{}/{evaluated} fit", group_digits(placement.feasible_nodes as u64));
    let score_text = match (best, candidates.get(1)) {
        _ if placement.evaluated_nodes == 0 => "the nominated node, which still fits".to_owned(),
        _ if placement.feasible_nodes == 1 => format!("the only node that fits, of {evaluated}"),
        (None, _) => {
            format!(
                "highest score of the evaluated nodes; {fit}; nodes with higher scores were not evaluated"
            )
        }
        (Some(best), Some(next)) if equals == 1 => {
            let ahead = signed(best.total.saturating_sub(next.total));
            format!("score {ahead} higher than {} ({}); {fit}", next.name, score_lead(best, next))
        }
        (Some(_), _) => {
            let equals = count_noun(equals as u64, "node");
            format!("first in node order of {equals} with the same score; {fit}")
        }
    };
    let evaluated_text = if (1..all).contains(&placement.evaluated_nodes) {
        "; the search is assumed to start at the first node"
    } else {
        ""
    };
    write_field(out, "Reason", &format!("{score_text}{evaluated_text}"), Style::new())
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

fn write_unschedulable(
    out: &mut Printer,
    explained_pod: &ExplainedPod,
    rejection: &Rejection,
) -> anyhow::Result<()> {
    let all = group_digits(explained_pod.cluster.node_count() as u64);
    let nominated = match &rejection.nominated_node {
        None => String::new(),
        Some(node) => format!("; nominated to {node} by preemption"),
    };
    let decision = format!("Unschedulable: 0/{all} nodes fit{nominated}");
    write_field(out, "Decision", &decision, OLD)?;
    if let Some(status) = &explained_pod.explanation.pre_filter_status {
        let pre_filter = format!("{} (PreFilter): {}", status.plugin, status.message());
        write_field(out, "Reason", &pre_filter, Style::new())?;
    } else if !explained_pod.explanation.nodes.is_empty() {
        write_field(out, "Reason", &nodes::rejections_by_plugin(explained_pod), Style::new())?;
    }
    write_field(out, "Message", &rejection.full_message(), Style::new())?;
    let named = |pod: &NamespacedName| {
        let key = Key {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            ..explained_pod.snapshot.key.clone()
        };
        format!("{}/{} (priority {})", pod.namespace, pod.name, signed(explained_pod.cluster.priority(&key)))
    };
    for (label, of, pods) in [
        ("Preempts", "", &rejection.victims),
        ("Clears", "nominatedNodeName of ", &rejection.cleared_nominations),
    ] {
        if !pods.is_empty() {
            let pods: Vec<String> = pods.iter().map(named).collect();
            write_field(out, label, &format!("{of}{}", pods.join(", ")), Style::new())?;
        }
    }
    Ok(())
}

fn write_recorded_events(
    out: &mut Printer,
    explained_pod: &ExplainedPod,
    recorded_outcome: &ObservedPodOutcome,
    candidates: &[FeasibleNode<'_>],
) -> anyhow::Result<()> {
    let message = explained_pod.event_message();
    if recorded_outcome.is_empty()
        && (explained_pod.scaling.is_none() || recorded_outcome.autoscaler_events.is_empty())
    {
        return write_field(out, "Timeline", "<none>", Style::new());
    }
    let mut lines: Vec<(Option<Moment>, String)> = Vec::new();
    for event in &recorded_outcome.failed_scheduling {
        let text = if message.as_ref() == Some(&event.message) {
            "same message".to_owned()
        } else {
            format!("\"{}\"", event.message)
        };
        lines.push((Some(event.first), format!("FailedScheduling{}, {text}", repetitions(event))));
    }
    // Events of an autoscaler are shown only where one is explained.
    if let Some(scaling) = &explained_pod.scaling {
        for event in &recorded_outcome.autoscaler_events {
            let same =
                if scaling.results.has_event(&event.reason, &event.message) { ", same message" } else { "" };
            lines.push((
                Some(event.first),
                format!("{}{}, \"{}\"{same}", event.reason, repetitions(event), event.message),
            ));
        }
    }
    for (at, node) in &recorded_outcome.nominated {
        lines.push((Some(*at), format!("nominated to {node}")));
    }
    let victim =
        |event: &RecordedEvent| (Some(event.first), format!("{} was preempted for this pod", event.object));
    lines.extend(recorded_outcome.victims.iter().map(victim));
    if let Some(event) = &recorded_outcome.preempted {
        let by = recorded_outcome.preempted_by.as_ref().map_or_else(String::new, |pod| format!(" by {pod}"));
        lines.push((Some(event.first), format!("Preempted{by}, \"{}\"", event.message)));
    }
    match &recorded_outcome.bound {
        Some((node, Some(at))) => {
            let rank = rank_text(explained_pod, node, candidates);
            lines.push((Some(*at), format!("bound to {node}{rank}")));
        }
        Some((node, None)) => lines.push((None, format!("already bound to {node} when first seen"))),
        None => {}
    }
    lines.extend(recorded_outcome.deletion_began.map(|at| (Some(at), "deletion started".to_owned())));
    lines.extend(recorded_outcome.deleted_at.map(|at| (Some(at), "deleted".to_owned())));
    lines.sort_by_key(|(at, _)| *at);
    let mut label = "Timeline";
    for (at, text) in lines {
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
fn rank_text(explained_pod: &ExplainedPod, node: &str, candidates: &[FeasibleNode<'_>]) -> String {
    let Decision::Scheduled(placement) = &explained_pod.explanation.decision else { return String::new() };
    if &*placement.node == node {
        return String::new();
    }
    let Some(own) = candidates.iter().find(|candidate| candidate.name == node) else {
        return " (does not fit here)".to_owned();
    };
    if candidates.iter().any(|candidate| candidate.is_chosen && candidate.total == own.total) {
        return " (same score)".to_owned();
    }
    let better = candidates.iter().filter(|candidate| candidate.total > own.total).count();
    let (rank, all) = (group_digits(better as u64 + 1), group_digits(candidates.len() as u64));
    format!(" (rank {rank} of {all} nodes that fit)")
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
