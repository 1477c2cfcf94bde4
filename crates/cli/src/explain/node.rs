//! The explanation of a node as text.

use anstyle::Style;
use autoscaler::{NodeExplanation, UnremovableReason, UtilizationInfo};
use explain::node::{ExplainedNode, RemovalDelay, ScaleDownVerdict, descriptions};
use explain::repetitions;
use model::{Moment, NamespacedName};

use crate::explain::text::{percent, write_assumptions};
use crate::lines::write_field;
use crate::output::{NEW, OLD, Printer, count_noun, format_duration, group_digits};

/// The most pods named without `-o wide`.
const MAX_NAMED_PODS: usize = 5;

/// Prints whether the node would be removed, and why; `wide` abbreviates nothing.
pub(super) fn write(out: &mut Printer, explained_node: &ExplainedNode, wide: bool) -> anyhow::Result<()> {
    let plain = Style::new();
    let as_of = explained_node.as_of.to_string();
    write_field(out, "Node", &explained_node.name, plain)?;
    write_field(
        out,
        "As of",
        &format!("{}, {}", as_of.strip_prefix("at ").unwrap_or(&as_of), explained_node.why),
        plain,
    )?;
    write_field(out, "Node group", &group_text(explained_node), plain)?;
    write_field(out, "Autoscaler", &explained_node.autoscaler.to_string(), plain)?;
    write_field(out, "Simulated", &crate::explain::text::simulated_text(&explained_node.replay), plain)?;
    if let Some(view) = &explained_node.results.view {
        write_field(out, "Utilization", &utilization_text(view), plain)?;
        write_verdict(out, explained_node, view)?;
        if let Some((at, _)) = explained_node
            .results
            .removal_began
            .filter(|_| !matches!(explained_node.results.verdict, Some(ScaleDownVerdict::RemovalStarted(..))))
        {
            write_field(out, "Earlier", &format!("{at}  removal would have started"), plain)?;
        }
        write_pods(out, explained_node, view, wide)?;
    }
    write_assumptions(out, &explained_node.autoscaler, wide)?;
    write_recorded_events(out, explained_node)
}

fn group_text(explained_node: &ExplainedNode) -> String {
    let Some(state) = &explained_node.results.group else { return "none".to_owned() };
    let sizes = explained_node.autoscaler.group(&state.name).map_or_else(String::new, |group| {
        format!(", {} to {}", group.min, count_noun(group.max.unsigned_abs(), "node"))
    });
    let coming = match state.upcoming {
        0 => String::new(),
        upcoming => format!(", {upcoming} upcoming"),
    };
    format!("{}{sizes}; target size {}{coming}", state.name, state.target)
}

fn utilization_text(view: &NodeExplanation) -> String {
    let Some(used) = &view.utilization else {
        return "unknown: no allocatable resources".to_owned();
    };
    let UtilizationInfo { cpu, memory, gpu, resource, .. } = used;
    let threshold = percent(view.utilization_threshold);
    if matches!(*resource, "cpu" | "memory") {
        let (cpu, memory) = (percent(*cpu), percent(*memory));
        let name = resource_name(resource);
        format!("CPU {cpu}, memory {memory}; threshold {threshold}, {name} decides")
    } else {
        format!("{resource} {}; threshold {threshold}", percent(*gpu))
    }
}

fn resource_name(resource: &str) -> &str {
    if resource == "cpu" { "CPU" } else { resource }
}

/// Describes why the node is unremovable, with its utilization if that is the reason.
fn unremovable_text(reason: UnremovableReason, view: &NodeExplanation) -> String {
    let threshold = percent(view.utilization_threshold);
    match &view.utilization {
        Some(used) if reason == UnremovableReason::NotUnderutilized => {
            let (name, share) = (resource_name(used.resource), percent(used.highest));
            // Rounded, both may look equal.
            let sign = if share == threshold { "above" } else { ">" };
            format!("{reason} ({name} {share} {sign} {threshold})")
        }
        _ => with_description(reason, descriptions::unremovable(reason)),
    }
}

/// NotReplicated (not backed by a controller)
fn with_description(reason: impl std::fmt::Display, description: &str) -> String {
    format!("{reason} ({description})")
}

fn write_verdict(
    out: &mut Printer,
    explained_node: &ExplainedNode,
    view: &NodeExplanation,
) -> anyhow::Result<()> {
    let plain = Style::new();
    let Some(verdict) = &explained_node.results.verdict else { return Ok(()) };
    let description = descriptions::verdict(verdict, &explained_node.autoscaler);
    match verdict {
        ScaleDownVerdict::NotAutoscaled => {
            let reason = with_description(UnremovableReason::NotAutoscaled, &description);
            write_field(out, "Scale-down", &format!("Not removable: {reason}"), OLD)
        }
        ScaleDownVerdict::Disabled => {
            write_field(out, "Scale-down", &format!("Not removable: {description}"), OLD)
        }
        ScaleDownVerdict::NotTried(_) => {
            let text = format!("Not evaluated: the loop ended before scale-down ({description})");
            write_field(out, "Scale-down", &text, OLD)
        }
        ScaleDownVerdict::RemovalStarted(since, _) => {
            let since_text = if *since == explained_node.as_of.moment() {
                "Removal starts in this loop".to_owned()
            } else {
                format!("Removal would have started at {since}")
            };
            write_field(out, "Scale-down", &since_text, NEW)?;
            write_field(out, "Reason", &description, plain)
        }
        ScaleDownVerdict::Unneeded { since, delay: removal_delay } => {
            write_removable(out, explained_node, view, *since, *removal_delay)
        }
        ScaleDownVerdict::Unremovable(reason) => write_unremovable(out, explained_node, view, *reason),
        ScaleDownVerdict::GroupInCooldown => {
            write_field(out, "Scale-down", &format!("Not evaluated: {description}"), OLD)?;
            match &view.cooldown {
                Some(cooldown) => write_field(out, "Reason", &descriptions::cooldown_end(cooldown), plain),
                None => Ok(()),
            }
        }
        ScaleDownVerdict::NotChecked => {
            write_field(out, "Scale-down", &format!("Not evaluated: {description}"), OLD)
        }
    }
}

fn write_removable(
    out: &mut Printer,
    explained_node: &ExplainedNode,
    view: &NodeExplanation,
    since: Moment,
    removal_delay: Option<RemovalDelay>,
) -> anyhow::Result<()> {
    let earlier = if explained_node.may_have_begun_earlier(since) { " or earlier" } else { "" };
    write_field(out, "Scale-down", &format!("Removable since {since}{earlier}"), NEW)?;
    let wait = i64::try_from(view.required_unneeded_time.as_nanos()).unwrap_or(i64::MAX);
    let long_enough = since.plus_nanos(wait);
    let until = view.cooldown.map_or(long_enough, |cooldown| cooldown.until.max(long_enough));
    let is_early = long_enough > explained_node.as_of.moment();
    // The node may have been unneeded even earlier; then it is removed sooner.
    let is_unsure = is_early && explained_node.may_have_begun_earlier(since);
    let at_the_latest = if is_unsure { " at the latest" } else { "" };
    let is_assumed = view.cooldown.is_some_and(|cooldown| cooldown.since.is_none());
    let needs = format!("must be unneeded for {}", format_duration(wait));
    let (removal_delay, is_timed) = match removal_delay {
        None => return Ok(()),
        Some(RemovalDelay::Unremovable(
            UnremovableReason::NotUnneededLongEnough | UnremovableReason::NotUnreadyLongEnough,
        )) => (format!("{needs}, until {long_enough}{at_the_latest}"), !is_unsure),
        Some(RemovalDelay::Unremovable(reason)) => (unremovable_text(reason, view), false),
        Some(RemovalDelay::Cooldown) => {
            let rest =
                view.cooldown.map_or_else(String::new, |cooldown| descriptions::cooldown_end(&cooldown));
            let needs = match is_early {
                true => format!("; {needs}, until {long_enough}{at_the_latest}"),
                false => String::new(),
            };
            (format!("{rest}{needs}"), !is_unsure && !is_assumed)
        }
        Some(
            removal_delay @ (RemovalDelay::ScaleUp | RemovalDelay::YoungPods | RemovalDelay::DeletionLimit),
        ) => (descriptions::delay(removal_delay).to_owned(), false),
    };
    write_field(out, "Delayed", &removal_delay, Style::new())?;
    if is_timed {
        let removal = format!("in the first loop after {until}, if nothing changes");
        write_field(out, "Removal", &removal, Style::new())?;
    }
    Ok(())
}

fn write_unremovable(
    out: &mut Printer,
    explained_node: &ExplainedNode,
    view: &NodeExplanation,
    reason: UnremovableReason,
) -> anyhow::Result<()> {
    let plain = Style::new();
    write_field(out, "Scale-down", &format!("Not removable: {}", unremovable_text(reason, view)), OLD)?;
    let last_check = explained_node.results.last_unremovable.as_ref();
    if reason == UnremovableReason::RecentlyUnremovable {
        if let Some((at, found)) = last_check {
            let found = with_description(found.reason, descriptions::unremovable(found.reason));
            write_field(out, "", &format!("{at}  {found}"), plain)?;
        }
        if let Some(until) = view.unremovable_until {
            write_field(out, "", &format!("rechecked after {until}"), plain)?;
        }
    }
    if let Some((pod, why)) = explained_node.results.blocking() {
        let why = with_description(why, descriptions::blocking_pod(*why));
        write_field(out, "Blocked by", &format!("pod {}: {why}", pod_name(pod)), plain)?;
    }
    Ok(())
}

/// Prints the pods that would be evicted.
fn write_pods(
    out: &mut Printer,
    explained_node: &ExplainedNode,
    view: &NodeExplanation,
    wide: bool,
) -> anyhow::Result<()> {
    match &view.pods_to_move {
        Ok(pods)
            if pods.is_empty()
                && matches!(explained_node.results.verdict, Some(ScaleDownVerdict::RemovalStarted(..))) =>
        {
            Ok(())
        }
        Ok(pods) if pods.is_empty() => write_field(out, "Pods", "none to evict", Style::new()),
        Ok(pods) => {
            let most = if wide { pods.len() } else { MAX_NAMED_PODS };
            let names: Vec<String> = pods.iter().take(most).map(pod_name).collect();
            let more = pods.len() - names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let count = group_digits(pods.len() as u64);
            write_field(out, "Pods", &format!("{count} to evict: {}{more}", names.join(", ")), Style::new())
        }
        Err(_) if explained_node.results.blocking().is_some() => Ok(()),
        Err((pod, why)) => {
            let why = with_description(why, descriptions::blocking_pod(*why));
            write_field(out, "Pods", &format!("{} cannot be evicted: {why}", pod_name(pod)), Style::new())
        }
    }
}

fn write_recorded_events(out: &mut Printer, explained_node: &ExplainedNode) -> anyhow::Result<()> {
    let recorded_outcome = &explained_node.outcome;
    let mut all: Vec<(Moment, String)> = vec![(recorded_outcome.first_seen, "first seen".to_owned())];
    all.extend(
        recorded_outcome
            .changes
            .iter()
            .map(|(at, change)| (*at, descriptions::node_change(*change).to_owned())),
    );
    for event in &recorded_outcome.events {
        all.push((event.first, format!("{}{}, \"{}\"", event.reason, repetitions(event), event.message)));
    }
    all.extend(recorded_outcome.deleted_at.map(|deleted_at| (deleted_at, "deleted".to_owned())));
    all.sort_by_key(|(at, _)| *at);
    let mut label = "Timeline";
    for (at, text) in all {
        write_field(out, label, &format!("{at}  {text}"), Style::new())?;
        label = "";
    }
    Ok(())
}

fn pod_name(pod: &NamespacedName) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}
