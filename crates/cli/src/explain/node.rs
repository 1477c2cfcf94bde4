//! An explanation of a node for people.

use anstyle::Style;
use autoscaler::{NodeView, UnremovableReason, Used};
use explain::node::{Held, NodeExplanation, Verdict, words};
use explain::times;
use model::{Moment, NamespacedName};

use crate::explain::text::{assumed, share};
use crate::lines::line;
use crate::output::{NEW, OLD, Out, counted, span};

/// So many pods are named.
const NAMED: usize = 5;

/// Writes what would become of the node and why; `wide` leaves nothing out.
pub(super) fn write(out: &mut Out, told: &NodeExplanation, wide: bool) -> anyhow::Result<()> {
    let plain = Style::new();
    let as_of = told.as_of.to_string();
    line(out, "Node", &told.name, plain)?;
    line(out, "As of", &format!("{}, {}", as_of.strip_prefix("at ").unwrap_or(&as_of), told.why), plain)?;
    line(out, "Group", &group(told), plain)?;
    line(out, "Autoscaler", &told.setup.to_string(), plain)?;
    line(out, "Played", &crate::explain::text::played(&told.played), plain)?;
    if let Some(view) = &told.seen.view {
        line(out, "Utilization", &utilization(view), plain)?;
        verdict(out, told, view)?;
        if let Some((at, _)) =
            told.seen.began.filter(|_| !matches!(told.seen.verdict, Some(Verdict::Goes(..))))
        {
            line(out, "Before", &format!("{at}  its removal would have begun"), plain)?;
        }
        pods(out, told, view, wide)?;
    }
    assumed(out, &told.setup, wide)?;
    happened(out, told)
}

fn group(told: &NodeExplanation) -> String {
    let Some(state) = &told.seen.group else { return "none".to_owned() };
    let sizes = told.setup.group(&state.name).map_or_else(String::new, |group| {
        format!(", {} to {}", group.min, counted(group.max.unsigned_abs(), "node"))
    });
    let coming = match state.upcoming {
        0 => String::new(),
        upcoming => format!(", {upcoming} of them still to come"),
    };
    format!("{}{sizes}; it is to have {}{coming}", state.name, state.target)
}

fn utilization(view: &NodeView) -> String {
    let Some(used) = &view.used else { return "not known: it does not say how much it has".to_owned() };
    let Used { cpu, memory, gpu, resource, .. } = used;
    let threshold = share(view.threshold);
    if matches!(*resource, "cpu" | "memory") {
        let (cpu, memory) = (share(*cpu), share(*memory));
        format!("cpu {cpu}, memory {memory}; {resource} counts, and more than {threshold} keeps it")
    } else {
        format!("{resource} {}; more than {threshold} keeps it", share(*gpu))
    }
}

fn verdict(out: &mut Out, told: &NodeExplanation, view: &NodeView) -> anyhow::Result<()> {
    let plain = Style::new();
    let Some(verdict) = &told.seen.verdict else { return Ok(()) };
    let means = words::verdict(verdict, &told.setup);
    match verdict {
        Verdict::NotAutoscaled => {
            let reason = UnremovableReason::NotAutoscaled;
            line(out, "Verdict", "it may not go", OLD)?;
            line(out, "Because", &format!("{reason}: {means}"), plain)
        }
        Verdict::Disabled => {
            line(out, "Verdict", "it may not go", OLD)?;
            line(out, "Because", &means, plain)
        }
        Verdict::NotTried(_) => {
            line(out, "Verdict", "no node is looked at", OLD)?;
            line(out, "Because", &means, plain)
        }
        Verdict::Goes(since, _) => {
            let begins = if *since == told.as_of.moment() {
                "its removal begins".to_owned()
            } else {
                format!("its removal would have begun at {since}")
            };
            line(out, "Verdict", &begins, NEW)?;
            line(out, "Because", &means, plain)
        }
        Verdict::MayGo { since, held } => may_go(out, told, view, *since, *held),
        Verdict::Stays(reason) => stays(out, told, view, *reason),
        Verdict::Rests => {
            line(out, "Verdict", "it is not looked at", OLD)?;
            let why = view.cooldown.map_or(means, |cooldown| words::resting(&cooldown));
            line(out, "Because", &format!("its group rests: {why}"), plain)
        }
        Verdict::NotLookedAt => {
            line(out, "Verdict", "it is not looked at", OLD)?;
            line(out, "Because", &means, plain)
        }
    }
}

fn may_go(
    out: &mut Out,
    told: &NodeExplanation,
    view: &NodeView,
    since: Moment,
    held: Option<Held>,
) -> anyhow::Result<()> {
    let at_least = if told.is_at_least(since) { "at least " } else { "" };
    line(out, "Verdict", &format!("it may go, unneeded since {at_least}{since}"), NEW)?;
    let wait = i64::try_from(view.wait.as_nanos()).unwrap_or(i64::MAX);
    let long_enough = since.plus_nanos(wait);
    let until = view.cooldown.map_or(long_enough, |cooldown| cooldown.until.max(long_enough));
    let is_early = long_enough > told.as_of.moment();
    // It may have been so before: then it goes sooner.
    let is_unsure = is_early && told.is_at_least(since);
    let at_the_latest = if is_unsure { " at the latest" } else { "" };
    let is_assumed = view.cooldown.is_some_and(|cooldown| cooldown.since.is_none());
    let needs = format!("it must be so for {}", span(wait));
    let (held, is_timed) = match held {
        None => return Ok(()),
        Some(Held::By(
            UnremovableReason::NotUnneededLongEnough | UnremovableReason::NotUnreadyLongEnough,
        )) => (format!("{needs}: until {long_enough}{at_the_latest}"), !is_unsure),
        Some(Held::By(reason)) => (format!("{reason}: {}", words::stays(reason)), false),
        Some(Held::Cooldown) => {
            let rest = view.cooldown.map_or_else(String::new, |cooldown| words::resting(&cooldown));
            let needs = match is_early {
                true => format!("; {needs}, until {long_enough}{at_the_latest}"),
                false => String::new(),
            };
            (format!("{rest}{needs}"), !is_unsure && !is_assumed)
        }
        Some(held @ (Held::Growth | Held::YoungPods | Held::Others)) => (words::held(held).to_owned(), false),
    };
    line(out, "Held back", &held, Style::new())?;
    if is_timed {
        let goes = format!("at the first loop after {until}, if nothing changes");
        line(out, "Goes", &goes, Style::new())?;
    }
    Ok(())
}

fn stays(
    out: &mut Out,
    told: &NodeExplanation,
    view: &NodeView,
    reason: UnremovableReason,
) -> anyhow::Result<()> {
    let plain = Style::new();
    line(out, "Verdict", "it may not go", OLD)?;
    line(out, "Because", &format!("{reason}: {}", words::stays(reason)), plain)?;
    let looked = told.seen.looked.as_ref();
    if reason == UnremovableReason::RecentlyUnremovable {
        if let Some((at, found)) = looked {
            line(out, "", &format!("{at}  {}: {}", found.reason, words::stays(found.reason)), plain)?;
        }
        if let Some(until) = view.not_again_before {
            line(out, "", &format!("it is looked at again after {until}"), plain)?;
        }
    }
    if let Some((pod, why)) = told.seen.blocking() {
        line(out, "Blocked by", &format!("pod {}: {why}: {}", named(pod), words::blocks(*why)), plain)?;
    }
    Ok(())
}

/// The pods that would have to move.
fn pods(out: &mut Out, told: &NodeExplanation, view: &NodeView, wide: bool) -> anyhow::Result<()> {
    match &view.pods {
        Ok(pods) if pods.is_empty() && matches!(told.seen.verdict, Some(Verdict::Goes(..))) => Ok(()),
        Ok(pods) if pods.is_empty() => line(out, "Pods", "none has to move", Style::new()),
        Ok(pods) => {
            let most = if wide { pods.len() } else { NAMED };
            let names: Vec<String> = pods.iter().take(most).map(named).collect();
            let more = pods.len() - names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let have = if pods.len() == 1 { "has" } else { "have" };
            let count = counted(pods.len() as u64, "pod");
            line(out, "Pods", &format!("{count} {have} to move: {}{more}", names.join(", ")), Style::new())
        }
        Err(_) if told.seen.blocking().is_some() => Ok(()),
        Err((pod, why)) => {
            let text = format!("{} would stand in the way: {why}: {}", named(pod), words::blocks(*why));
            line(out, "Pods", &text, Style::new())
        }
    }
}

fn happened(out: &mut Out, told: &NodeExplanation) -> anyhow::Result<()> {
    let happened = &told.happened;
    let mut all: Vec<(Moment, String)> = vec![(happened.first, "first seen".to_owned())];
    all.extend(happened.changes.iter().map(|(at, what)| (*at, (*what).to_owned())));
    for said in &happened.said {
        all.push((said.first, format!("{}{}, \"{}\"", said.reason, times(said), said.text)));
    }
    all.extend(happened.gone.map(|gone| (gone, "gone".to_owned())));
    all.sort_by_key(|(at, _)| *at);
    let mut label = "Happened";
    for (at, what) in all {
        line(out, label, &format!("{at}  {what}"), Style::new())?;
        label = "";
    }
    Ok(())
}

fn named(pod: &NamespacedName) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}
