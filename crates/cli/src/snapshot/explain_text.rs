//! Explanations on the terminal.

use std::collections::BTreeMap;
use std::io::Write;

use anstyle::Style;
use snapshot::{
    Explanation, FairShareStep, NodeExplanation, PodExplanation, PodGroupExplanation, QueueExplanation,
    Resource, ResourceShare,
};

use super::columns::{TableRow, more_rows, write_rows};
use super::queue_text::{amount, is_shown, number, write_borrowing, write_queues};
use super::run_text::{write_actions, write_pending, write_reasons};
use crate::lines::{escape_line, wrap_text, write_field};
use crate::output::{NEW, OLD, Printer, count_noun};

/// The suitable nodes that are listed.
const MAX_NODES: usize = 10;
/// Groups of nodes with the same reasons are listed with this many names.
const MAX_NAMES: usize = 3;

pub(super) fn write(out: &mut Printer, explanation: &Explanation, wide: bool) -> anyhow::Result<()> {
    match explanation {
        Explanation::Pod(pod) => write_pod(out, pod, wide),
        Explanation::PodGroup(group) => write_pod_group(out, group, wide),
        Explanation::Queue(queue) => write_queue(out, queue, wide),
    }
}

fn write_pod(out: &mut Printer, pod: &PodExplanation, wide: bool) -> anyhow::Result<()> {
    let plain = Style::new();
    write_field(out, "Pod", &pod.pod, plain)?;
    write_field(out, "Pod group", &pod.pod_group, plain)?;
    write_field(out, "Queue", &pod.queue, plain)?;
    write_field(out, "Time", &pod.snapshot.now, plain)?;
    let place = pod.node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
    let is_pending = pod.is_after_cycle;
    let status = match (pod.status == pod.status_after, is_pending) {
        (_, true) => pod.status_after.to_owned(),
        (true, _) => format!("{}{place}", pod.status_after),
        (false, _) => format!("{} → {}{place}", pod.status, pod.status_after),
    };
    write_field(out, "Status", &status, if is_pending { OLD } else { NEW })?;
    if let Some(source) = pod.source {
        let why = match (source, pod.reasons.as_slice()) {
            ("notReady", _) => "its pod group lacks pods for its gang".to_owned(),
            (_, []) => "no action tried it; explain its pod group or queue".to_owned(),
            (_, reasons) => reasons.join("; "),
        };
        write_field(out, "Why", &why.replace('\n', " "), plain)?;
    }
    if !pod.actions.is_empty() {
        write_actions(out, &pod.actions, wide)?;
    }
    let (suitable, others): (Vec<_>, Vec<_>) = pod.nodes.iter().partition(|node| node.is_suitable);
    let when = if is_pending { "after the cycle" } else { "before the cycle" };
    let (count, total) = (suitable.len(), count_noun(pod.nodes.len() as u64, "node"));
    writeln!(out, "\n{count} of {total} suitable, {when}")?;
    write_suitable_nodes(out, &suitable, wide)?;
    write_other_nodes(out, &others, wide)
}

fn write_suitable_nodes(out: &mut Printer, nodes: &[&NodeExplanation], wide: bool) -> anyhow::Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let limit = if wide { usize::MAX } else { MAX_NODES };
    let mut rows = vec![TableRow::heading(["NODE", "SCORE", "OF WHICH"])];
    rows.extend(nodes.iter().take(limit).map(|node| {
        let parts: Vec<String> =
            node.scores.iter().map(|score| format!("{} {}", score.plugin, number(score.score))).collect();
        TableRow::of([node.node.clone(), node.score.map(number).unwrap_or_default(), parts.join(", ")])
    }));
    write_rows(out, &rows, &[1])?;
    more_rows(out, nodes.len(), limit)
}

/// The other nodes, by their reasons; the largest group first.
fn write_other_nodes(out: &mut Printer, nodes: &[&NodeExplanation], wide: bool) -> anyhow::Result<()> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let reason = match (node.predicate, node.reasons.as_slice()) {
            (None, _) => "outside the topology domains that the pod may use".to_owned(),
            (Some(predicate), []) => format!("{predicate}: its resources are still being released"),
            (Some(predicate), reasons) => format!("{predicate}: {}", reasons.join(", ")),
        };
        groups.entry(reason).or_default().push(&node.node);
    }
    let mut groups: Vec<(String, Vec<&str>)> = groups.into_iter().collect();
    groups.sort_by_key(|(reason, nodes)| (std::cmp::Reverse(nodes.len()), reason.clone()));
    for (reason, nodes) in groups {
        let shown = if wide { nodes.len() } else { nodes.len().min(MAX_NAMES) };
        let more = nodes.len() - shown;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = format!("{}{more}: {reason}", nodes[..shown].join(", "));
        for (index, line) in wrap_text(&text, out.width(), 4).iter().enumerate() {
            writeln!(out, "{}{line}", if index == 0 { "  " } else { "    " })?;
        }
    }
    Ok(())
}

fn write_pod_group(out: &mut Printer, group: &PodGroupExplanation, wide: bool) -> anyhow::Result<()> {
    let plain = Style::new();
    write_field(out, "Pod group", &group.pod_group, plain)?;
    let path: Vec<&str> = group.queues.iter().map(|queue| queue.name.as_str()).collect();
    let queue = match path.as_slice() {
        [] => format!("{}, which does not exist", group.queue),
        path => path.join(" / "),
    };
    write_field(out, "Queue", &queue, plain)?;
    let preemptible = if group.is_preemptible { "preemptible" } else { "not preemptible" };
    write_field(out, "Priority", &format!("{}, {preemptible}", group.priority), plain)?;
    write_field(out, "Time", &group.snapshot.now, plain)?;
    let (before, after) = (status_counts(&group.statuses), status_counts(&group.statuses_after));
    let pods = if before == after { before } else { format!("{before} → {after}") };
    write_field(out, "Pods", &pods, plain)?;
    let order = match (group.order, group.order_in_queue) {
        (Some(place), Some(in_queue)) => {
            format!("{place} of {} jobs to place, {in_queue} in its queue", group.order_length)
        }
        _ if !group.is_ready => "not tried: the gang lacks pods".to_owned(),
        _ => "not among the jobs to place".to_owned(),
    };
    write_field(out, "Order", &order, plain)?;
    if group.is_stale {
        write_field(out, "Stale", "it runs with fewer pods than its gang needs", OLD)?;
    }
    let mut rows = vec![TableRow::heading(["GANG", "NEEDS", "EXIST", "PLACED"])];
    let change = |before: usize, after: usize| match before == after {
        true => after.to_string(),
        false => format!("{before} → {after}"),
    };
    for set in group.sub_groups.iter().filter(|set| !set.name.is_empty()) {
        let name = with_level(&set.name, &set.required_topology_level);
        let needs = format!("{} subgroups", set.needed);
        rows.push(TableRow::of([name, needs, "-".to_owned(), change(set.satisfied, set.satisfied_after)]));
    }
    for set in &group.pod_sets {
        rows.push(TableRow::of([
            with_level(&set.name, &set.required_topology_level),
            set.min_available.to_string(),
            set.pods.to_string(),
            change(set.allocated, set.allocated_after),
        ]));
    }
    writeln!(out)?;
    write_rows(out, &rows, &[1, 2, 3])?;
    if !group.actions.is_empty() {
        write_actions(out, &group.actions, wide)?;
    }
    if !group.pending.is_empty() {
        writeln!(out)?;
    }
    for pending in &group.pending {
        write_reasons(out, pending)?;
    }
    let shown: Vec<&String> = group.pending.iter().flat_map(|pending| &pending.reasons).collect();
    for error in group.fit_errors.iter().filter(|error| !group.pending.is_empty() && !shown.contains(error)) {
        for line in wrap_text(error, out.width(), 2) {
            writeln!(out, "  {line}")?;
        }
    }
    write_queues(out, &group.queues, wide)
}

fn write_queue(out: &mut Printer, queue: &QueueExplanation, wide: bool) -> anyhow::Result<()> {
    let Some(own) = queue.queues.last() else { return Ok(()) };
    let plain = Style::new();
    let path: Vec<&str> = queue.queues.iter().map(|queue| queue.name.as_str()).collect();
    write_field(out, "Queue", &path.join(" / "), plain)?;
    write_field(out, "Priority", &own.priority.to_string(), plain)?;
    write_field(out, "Time", &queue.snapshot.now, plain)?;
    if !queue.children.is_empty() {
        write_field(out, "Below it", &queue.children.join(", "), plain)?;
    }
    write_queues(out, &queue.queues, wide)?;
    write_divisions(out, queue, wide)?;
    write_borrowing(out, &queue.borrowing, &queue.queues, wide)?;
    write_pending(out, &queue.pending, wide)
}

/// How the fair shares came about, from the top.
fn write_divisions(out: &mut Printer, queue: &QueueExplanation, wide: bool) -> anyhow::Result<()> {
    let shares = |resource: Resource| {
        queue
            .queues
            .iter()
            .map(move |queue| (resource, *resource.of(queue)))
            .collect::<Vec<(Resource, ResourceShare)>>()
    };
    let mut rest = queue.divisions.as_slice();
    while let Some(first) = rest.first() {
        let is_same = |step: &&FairShareStep| step.resource == first.resource && step.parent == first.parent;
        let length = rest.iter().take_while(is_same).count();
        let (steps, others) = rest.split_at(length);
        rest = others;
        let resource = first.resource;
        if !wide && !is_shown(resource, shares(resource)) {
            continue;
        }
        let of = first.parent.as_deref().unwrap_or("the cluster");
        let (divided, name) = (amount(resource, first.divided), resource.name());
        writeln!(out, "\n{name}: {divided} of {} divided", escape_line(of))?;
        let columns = ["QUEUE", "PRIORITY", "ASKS FOR", "OF QUOTA", "WEIGHT", "BEYOND", "FAIR SHARE"];
        let mut rows = vec![TableRow::heading(columns)];
        rows.extend(steps.iter().map(|step| {
            let is_on_path = queue.queues.iter().any(|queue| queue.name == step.queue);
            TableRow::of([
                format!("{}{}", if is_on_path { "* " } else { "  " }, step.queue),
                step.priority.to_string(),
                amount(resource, step.asked),
                amount(resource, step.within_quota),
                number(step.over_quota_weight),
                amount(resource, step.over_quota),
                amount(resource, step.fair_share),
            ])
        }));
        write_rows(out, &rows, &[1, 2, 3, 4, 5, 6])?;
    }
    Ok(())
}

fn status_counts(statuses: &BTreeMap<&'static str, usize>) -> String {
    let counts: Vec<String> = statuses.iter().map(|(status, count)| format!("{count} {status}")).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

fn with_level(name: &str, level: &str) -> String {
    if level.is_empty() { name.to_owned() } else { format!("{name} (in one {level})") }
}
