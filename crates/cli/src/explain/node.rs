//! The explanation of a node as text.

use anstyle::Style;
use autoscaler::{NodeExplanation, UnremovableReason, UtilizationInfo};
use explain::node::{ExplainedNode, RemovalDelay, ScaleDownVerdict, descriptions};
use explain::repetitions;
use model::{Moment, NamespacedName};

use crate::explain::text::{percent, write_assumptions};
use crate::lines::write_field;
use crate::output::{NEW, OLD, Printer, count_noun, format_duration};

/// The most pods named without `-o wide`.
const MAX_NAMED_PODS: usize = 5;

/// Prints whether the node would be removed, and why; `wide` abbreviates nothing.
pub(super) fn write(out: &mut Printer, told: &ExplainedNode, wide: bool) -> anyhow::Result<()> {
    let plain = Style::new();
    let as_of = told.as_of.to_string();
    write_field(out, "Node", &told.name, plain)?;
    write_field(
        out,
        "As of",
        &format!("{}, {}", as_of.strip_prefix("at ").unwrap_or(&as_of), told.why),
        plain,
    )?;
    write_field(out, "Group", &group_text(told), plain)?;
    write_field(out, "Autoscaler", &told.autoscaler.to_string(), plain)?;
    write_field(out, "Played", &crate::explain::text::simulated_text(&told.replay), plain)?;
    if let Some(view) = &told.results.view {
        write_field(out, "Utilization", &utilization_text(view), plain)?;
        write_verdict(out, told, view)?;
        if let Some((at, _)) = told
            .results
            .removal_began
            .filter(|_| !matches!(told.results.verdict, Some(ScaleDownVerdict::RemovalStarted(..))))
        {
            write_field(out, "Before", &format!("{at}  its removal would have begun"), plain)?;
        }
        write_pods(out, told, view, wide)?;
    }
    write_assumptions(out, &told.autoscaler, wide)?;
    write_recorded_events(out, told)
}

fn group_text(told: &ExplainedNode) -> String {
    let Some(state) = &told.results.group else { return "none".to_owned() };
    let sizes = told.autoscaler.group(&state.name).map_or_else(String::new, |group| {
        format!(", {} to {}", group.min, count_noun(group.max.unsigned_abs(), "node"))
    });
    let coming = match state.upcoming {
        0 => String::new(),
        upcoming => format!(", {upcoming} of them still to come"),
    };
    format!("{}{sizes}; it is to have {}{coming}", state.name, state.target)
}

fn utilization_text(view: &NodeExplanation) -> String {
    let Some(used) = &view.utilization else {
        return "not known: it does not say how much it has".to_owned();
    };
    let UtilizationInfo { cpu, memory, gpu, resource, .. } = used;
    let threshold = percent(view.utilization_threshold);
    if matches!(*resource, "cpu" | "memory") {
        let (cpu, memory) = (percent(*cpu), percent(*memory));
        format!("cpu {cpu}, memory {memory}; {resource} counts, and more than {threshold} keeps it")
    } else {
        format!("{resource} {}; more than {threshold} keeps it", percent(*gpu))
    }
}

fn write_verdict(out: &mut Printer, told: &ExplainedNode, view: &NodeExplanation) -> anyhow::Result<()> {
    let plain = Style::new();
    let Some(verdict) = &told.results.verdict else { return Ok(()) };
    let means = descriptions::verdict(verdict, &told.autoscaler);
    match verdict {
        ScaleDownVerdict::NotAutoscaled => {
            let reason = UnremovableReason::NotAutoscaled;
            write_field(out, "Verdict", "it may not go", OLD)?;
            write_field(out, "Because", &format!("{reason}: {means}"), plain)
        }
        ScaleDownVerdict::Disabled => {
            write_field(out, "Verdict", "it may not go", OLD)?;
            write_field(out, "Because", &means, plain)
        }
        ScaleDownVerdict::NotTried(_) => {
            write_field(out, "Verdict", "no node is looked at", OLD)?;
            write_field(out, "Because", &means, plain)
        }
        ScaleDownVerdict::RemovalStarted(since, _) => {
            let begins = if *since == told.as_of.moment() {
                "its removal begins".to_owned()
            } else {
                format!("its removal would have begun at {since}")
            };
            write_field(out, "Verdict", &begins, NEW)?;
            write_field(out, "Because", &means, plain)
        }
        ScaleDownVerdict::Unneeded { since, delay: held } => write_removable(out, told, view, *since, *held),
        ScaleDownVerdict::Unremovable(reason) => write_unremovable(out, told, view, *reason),
        ScaleDownVerdict::GroupInCooldown => {
            write_field(out, "Verdict", "it is not looked at", OLD)?;
            let why = view.cooldown.map_or(means, |cooldown| descriptions::cooldown_end(&cooldown));
            write_field(out, "Because", &format!("its group rests: {why}"), plain)
        }
        ScaleDownVerdict::NotChecked => {
            write_field(out, "Verdict", "it is not looked at", OLD)?;
            write_field(out, "Because", &means, plain)
        }
    }
}

fn write_removable(
    out: &mut Printer,
    told: &ExplainedNode,
    view: &NodeExplanation,
    since: Moment,
    held: Option<RemovalDelay>,
) -> anyhow::Result<()> {
    let at_least = if told.may_have_begun_earlier(since) { "at least " } else { "" };
    write_field(out, "Verdict", &format!("it may go, unneeded since {at_least}{since}"), NEW)?;
    let wait = i64::try_from(view.required_unneeded_time.as_nanos()).unwrap_or(i64::MAX);
    let long_enough = since.plus_nanos(wait);
    let until = view.cooldown.map_or(long_enough, |cooldown| cooldown.until.max(long_enough));
    let is_early = long_enough > told.as_of.moment();
    // The node may have been unneeded even earlier; then it is removed sooner.
    let is_unsure = is_early && told.may_have_begun_earlier(since);
    let at_the_latest = if is_unsure { " at the latest" } else { "" };
    let is_assumed = view.cooldown.is_some_and(|cooldown| cooldown.since.is_none());
    let needs = format!("it must be so for {}", format_duration(wait));
    let (held, is_timed) = match held {
        None => return Ok(()),
        Some(RemovalDelay::Unremovable(
            UnremovableReason::NotUnneededLongEnough | UnremovableReason::NotUnreadyLongEnough,
        )) => (format!("{needs}: until {long_enough}{at_the_latest}"), !is_unsure),
        Some(RemovalDelay::Unremovable(reason)) => {
            (format!("{reason}: {}", descriptions::unremovable(reason)), false)
        }
        Some(RemovalDelay::Cooldown) => {
            let rest =
                view.cooldown.map_or_else(String::new, |cooldown| descriptions::cooldown_end(&cooldown));
            let needs = match is_early {
                true => format!("; {needs}, until {long_enough}{at_the_latest}"),
                false => String::new(),
            };
            (format!("{rest}{needs}"), !is_unsure && !is_assumed)
        }
        Some(held @ (RemovalDelay::ScaleUp | RemovalDelay::YoungPods | RemovalDelay::DeletionLimit)) => {
            (descriptions::delay(held).to_owned(), false)
        }
    };
    write_field(out, "Held back", &held, Style::new())?;
    if is_timed {
        let goes = format!("at the first loop after {until}, if nothing changes");
        write_field(out, "Goes", &goes, Style::new())?;
    }
    Ok(())
}

fn write_unremovable(
    out: &mut Printer,
    told: &ExplainedNode,
    view: &NodeExplanation,
    reason: UnremovableReason,
) -> anyhow::Result<()> {
    let plain = Style::new();
    write_field(out, "Verdict", "it may not go", OLD)?;
    write_field(out, "Because", &format!("{reason}: {}", descriptions::unremovable(reason)), plain)?;
    let looked = told.results.last_unremovable.as_ref();
    if reason == UnremovableReason::RecentlyUnremovable {
        if let Some((at, found)) = looked {
            write_field(
                out,
                "",
                &format!("{at}  {}: {}", found.reason, descriptions::unremovable(found.reason)),
                plain,
            )?;
        }
        if let Some(until) = view.unremovable_until {
            write_field(out, "", &format!("it is looked at again after {until}"), plain)?;
        }
    }
    if let Some((pod, why)) = told.results.blocking() {
        write_field(
            out,
            "Blocked by",
            &format!("pod {}: {why}: {}", pod_name(pod), descriptions::blocking_pod(*why)),
            plain,
        )?;
    }
    Ok(())
}

/// Prints the pods that would be evicted.
fn write_pods(
    out: &mut Printer,
    told: &ExplainedNode,
    view: &NodeExplanation,
    wide: bool,
) -> anyhow::Result<()> {
    match &view.pods_to_move {
        Ok(pods)
            if pods.is_empty()
                && matches!(told.results.verdict, Some(ScaleDownVerdict::RemovalStarted(..))) =>
        {
            Ok(())
        }
        Ok(pods) if pods.is_empty() => write_field(out, "Pods", "none has to move", Style::new()),
        Ok(pods) => {
            let most = if wide { pods.len() } else { MAX_NAMED_PODS };
            let names: Vec<String> = pods.iter().take(most).map(pod_name).collect();
            let more = pods.len() - names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let have = if pods.len() == 1 { "has" } else { "have" };
            let count = count_noun(pods.len() as u64, "pod");
            write_field(
                out,
                "Pods",
                &format!("{count} {have} to move: {}{more}", names.join(", ")),
                Style::new(),
            )
        }
        Err(_) if told.results.blocking().is_some() => Ok(()),
        Err((pod, why)) => {
            let text = format!(
                "{} would stand in the way: {why}: {}",
                pod_name(pod),
                descriptions::blocking_pod(*why)
            );
            write_field(out, "Pods", &text, Style::new())
        }
    }
}

fn write_recorded_events(out: &mut Printer, told: &ExplainedNode) -> anyhow::Result<()> {
    let happened = &told.outcome;
    let mut all: Vec<(Moment, String)> = vec![(happened.first_seen, "first seen".to_owned())];
    all.extend(happened.changes.iter().map(|(at, what)| (*at, (*what).to_owned())));
    for said in &happened.events {
        all.push((said.first, format!("{}{}, \"{}\"", said.reason, repetitions(said), said.message)));
    }
    all.extend(happened.deleted_at.map(|gone| (gone, "gone".to_owned())));
    all.sort_by_key(|(at, _)| *at);
    let mut label = "Happened";
    for (at, what) in all {
        write_field(out, label, &format!("{at}  {what}"), Style::new())?;
        label = "";
    }
    Ok(())
}

fn pod_name(pod: &NamespacedName) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}
