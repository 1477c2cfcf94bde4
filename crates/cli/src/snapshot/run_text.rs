//! A run on the terminal: what each action did, the queues, and the pods that wait.

use std::io::Write;

use snapshot::{ActionReport, CycleReport, InputReport, PendingReport, PlacementReport, RunReport};

use super::columns::{MAX_ROWS, TableRow, more_rows, write_rows};
use super::queue_text::{number, write_borrowing, write_queues};
use crate::lines::{escape_line, wrap_text};
use crate::output::{HEADING, OLD, Printer, count_noun};

/// The names of pods that are listed of a pod group.
const MAX_PODS: usize = 3;
/// The lines of reasons that are printed of the evictions of an action.
const MAX_MESSAGES: usize = 6;

pub(super) fn write(out: &mut Printer, report: &RunReport, wide: bool) -> anyhow::Result<()> {
    write_input(out, &report.snapshot)?;
    let many = report.cycles.len() > 1;
    for cycle in &report.cycles {
        if many {
            writeln!(out, "\n{HEADING}cycle {}{HEADING:#} at {}", cycle.number, cycle.now)?;
        }
        write_actions(out, &cycle.actions, wide)?;
    }
    let Some(last) = report.cycles.last() else { return Ok(()) };
    write_queues(out, &last.queues, wide)?;
    write_borrowing(out, &last.borrowing, &last.queues, wide)?;
    write_pending(out, &last.pending, wide)?;
    write_end(out, report, last)
}

/// Says what was run.
pub(super) fn write_input(out: &mut Printer, input: &InputReport) -> anyhow::Result<()> {
    let origin = match input.now_from {
        "newestObject" => ", the newest time in its objects",
        "given" => ", as given",
        "none" => ", because it has no time",
        _ => "",
    };
    writeln!(out, "{} at {}{origin}", escape_line(&input.name), input.now)?;
    if !input.overrides.is_empty() {
        writeln!(out, "with {}", escape_line(&input.overrides.join(", ")))?;
    }
    Ok(())
}

/// Prints the decisions of actions.
pub(super) fn write_actions(out: &mut Printer, actions: &[ActionReport], wide: bool) -> anyhow::Result<()> {
    let limit = if wide { usize::MAX } else { MAX_ROWS };
    let mut idle = Vec::new();
    for action in actions {
        let ActionReport { bound, pipelined, evicted, .. } = action;
        let counts = [(bound.len(), "bound"), (pipelined.len(), "pipelined"), (evicted.len(), "evicted")];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", crate::output::group_digits(*count as u64)))
            .collect();
        if counts.is_empty() {
            idle.push(action.action);
            continue;
        }
        writeln!(out, "\n{HEADING}{}{HEADING:#}: {}", action.action, counts.join(", "))?;
        if !evicted.is_empty() {
            let mut rows = vec![TableRow::heading(["EVICTED", "QUEUE", "NODE", "FOR", "OF QUEUE"])];
            rows.extend(evicted.iter().take(limit).map(|it| {
                let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
                TableRow::of([
                    it.pod.clone(),
                    it.queue.clone(),
                    text(&it.node),
                    text(&it.preemptor),
                    text(&it.preemptor_queue),
                ])
            }));
            write_rows(out, &rows, &[])?;
            more_rows(out, evicted.len(), limit)?;
            write_messages(out, action, wide)?;
        }
        write_placements(out, "BOUND", bound, limit)?;
        write_placements(out, "PIPELINED", pipelined, limit)?;
    }
    if !idle.is_empty() {
        writeln!(out, "\n{}: nothing to do", idle.join(", "))?;
    }
    Ok(())
}

/// Prints the pods that wait, a row for each pod group.
pub(super) fn write_pending(out: &mut Printer, pending: &[PendingReport], wide: bool) -> anyhow::Result<()> {
    if pending.is_empty() {
        return Ok(());
    }
    let mut groups: Vec<Vec<&PendingReport>> = Vec::new();
    for report in pending {
        match groups.last_mut().filter(|group| group[0].pod_group == report.pod_group) {
            Some(group) => group.push(report),
            None => groups.push(vec![report]),
        }
    }
    let limit = if wide { usize::MAX } else { MAX_ROWS };
    let mut rows = vec![TableRow::heading(["PENDING", "QUEUE", "PRIORITY", "PODS", "WHY"])];
    rows.extend(groups.iter().take(limit).map(|group| {
        // What the nodes lack says more than that the gang was not placed.
        let reported = group.iter().find(|report| report.source == "pod").unwrap_or(&group[0]);
        TableRow::of([
            reported.pod_group.clone(),
            reported.queue.clone(),
            reported.priority.to_string(),
            group.iter().map(|report| report.pods.len()).sum::<usize>().to_string(),
            short_reason(reported),
        ])
    }));
    writeln!(out)?;
    write_rows(out, &rows, &[2, 3])?;
    more_rows(out, groups.len(), limit)
}

/// The reasons of a pod group, all of them.
pub(super) fn write_reasons(out: &mut Printer, group: &PendingReport) -> anyhow::Result<()> {
    let pods: Vec<&str> = group.pods.iter().take(MAX_PODS).map(String::as_str).collect();
    let more = group.pods.len() - pods.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let status = if group.status == "Gated" { "gated" } else { "pending" };
    writeln!(out, "{OLD}{}{more} {status}{OLD:#}", escape_line(&pods.join(", ")))?;
    let reasons = if group.reasons.is_empty() { vec![short_reason(group)] } else { group.reasons.clone() };
    for reason in reasons.iter().flat_map(|reason| reason.lines()) {
        for (index, line) in wrap_text(reason, out.width(), 4).iter().enumerate() {
            writeln!(out, "{}{line}", if index == 0 { "  " } else { "    " })?;
        }
    }
    Ok(())
}

/// The reasons of a pod group in one line: the first, with the counts of nodes.
fn short_reason(group: &PendingReport) -> String {
    let line = |text: &String| {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        // What follows a colon is the reason.
        let second = lines.next().filter(|_| first.ends_with(':')).map(str::trim);
        let words: Vec<&str> = std::iter::once(first).chain(second).collect();
        words.join(" ").trim_end_matches('.').to_owned()
    };
    match (group.source, group.reasons.as_slice()) {
        (_, []) if group.status == "Gated" => "has scheduling gates".to_owned(),
        ("notReady", _) => "the gang lacks pods".to_owned(),
        (_, []) => "no action tried it".to_owned(),
        ("pod", [only]) => line(only),
        ("pod", [_, nodes @ ..]) => nodes.iter().map(line).collect::<Vec<_>>().join(", "),
        (_, [first, ..]) => line(first),
    }
}

/// Prints the distinct reasons of evictions. That a pod is preempted, and for whom, is in the rows already.
fn write_messages(out: &mut Printer, action: &ActionReport, wide: bool) -> anyhow::Result<()> {
    let mut lines: Vec<&str> = Vec::new();
    for line in action.evicted.iter().flat_map(|eviction| eviction.message.lines()) {
        let is_new = !line.trim().is_empty() && !lines.contains(&line);
        if is_new && (wide || !line.starts_with("Pod ") || !line.contains(" was preempted by ")) {
            lines.push(line);
        }
    }
    let limit = if wide { usize::MAX } else { MAX_MESSAGES };
    for line in lines.into_iter().take(limit) {
        for part in wrap_text(line, out.width(), 2) {
            writeln!(out, "  {part}")?;
        }
    }
    Ok(())
}

fn write_placements(
    out: &mut Printer,
    title: &str,
    placements: &[PlacementReport],
    limit: usize,
) -> anyhow::Result<()> {
    if placements.is_empty() {
        return Ok(());
    }
    let mut rows = vec![TableRow::heading([title, "QUEUE", "NODE", "GPU"])];
    rows.extend(placements.iter().take(limit).map(|it| {
        let gpus = match (it.gpu_count, it.gpu_portion) {
            (0, _) => "-".to_owned(),
            (count, 1.0) => count.to_string(),
            (1, portion) => number(portion),
            (count, portion) => format!("{count} x {}", number(portion)),
        };
        let groups = it.gpu_groups.join(", ");
        let gpus = if groups.is_empty() { gpus } else { format!("{gpus} of {groups}") };
        TableRow::of([it.pod.clone(), it.queue.clone(), it.node.clone(), gpus])
    }));
    write_rows(out, &rows, &[])?;
    more_rows(out, placements.len(), limit)
}

fn write_end(out: &mut Printer, report: &RunReport, last: &CycleReport) -> anyhow::Result<()> {
    if report.cycles.len() > 1 || report.is_settled {
        let text = match report.is_settled {
            true => format!("settled: cycle {} changes nothing", last.number),
            false => format!("not settled after {}", count_noun(u64::from(last.number), "cycle")),
        };
        writeln!(out, "\n{text}")?;
    }
    Ok(())
}
