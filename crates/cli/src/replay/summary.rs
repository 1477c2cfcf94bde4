//! What came of a replay, for people: what happened, what would have happened, why they differ.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anstyle::Style;
use replay::compare::{Evictions, Placements};
use replay::figures::{Figures, Waits};
use replay::plan::{Nodes, Plan};
use replay::report::{GroupScaling, Moves, Report, Size};

use super::clock::factor;
use super::folder::Folder;
use crate::lines::{harmless, line};
use crate::output::{HEADING, Out, grouped, span, times};

/// So many reservations and reasons are told; the rest is in the report.
const MOST: usize = 6;
/// The figures begin here.
const NAMES: usize = 30;
/// A figure takes so many columns.
const FIGURE: usize = 12;
/// A difference some more.
const APART: usize = 14;
/// Counts below a label end here, and their shares so much later.
const COUNT: usize = 20;
/// See there.
const SHARE: usize = 9;
/// Of the names of groups so much is shown.
const GROUP: usize = 24;

/// A row of the table.
struct Row {
    name: &'static str,
    was: f64,
    is: f64,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    Average,
    Seconds,
    Share,
}

/// Writes what came of it.
pub(super) fn write(
    out: &mut Out,
    report: &Report,
    plan: &Plan,
    folder: &Folder,
    took: Duration,
) -> anyhow::Result<()> {
    let plain = Style::new();
    let nanos = plan.run.end.nanos_since(plan.run.part.window.from);
    let took_nanos = i64::try_from(took.as_nanos()).unwrap_or(i64::MAX);
    let speed = format!("{} in {}, {} as fast", span(nanos), span(took_nanos), times(factor(nanos, took)));
    let (from, to) = (&report.window.from, &report.window.to);
    line(out, "Replayed", &format!("{} from {from} to {to}: {speed}", report.history), plain)?;
    line(out, "Scheduler", &plan.scheduler.to_string(), plain)?;
    let autoscaler = match plan.run.nodes {
        Nodes::Autoscaled => plan.autoscaler.to_string(),
        Nodes::AsRecorded => "none: nodes come and go as recorded".to_owned(),
        Nodes::Stay => "off: nodes of groups stay as they were at the beginning".to_owned(),
    };
    line(out, "Autoscaler", &autoscaler, plain)?;
    if !report.settings.set.is_empty() {
        line(out, "Set", &report.settings.set.join("  "), plain)?;
    }
    compared(out, report, folder)
}

/// Writes what was recorded beside what came of it, and where all of it is.
pub(super) fn compared(out: &mut Out, report: &Report, folder: &Folder) -> anyhow::Result<()> {
    writeln!(out)?;
    table(out, &rows(&report.recorded, &report.replayed))?;
    if !report.scaling.groups.is_empty() {
        writeln!(out)?;
        groups(out, report)?;
    }
    writeln!(out)?;
    fidelity(out, report)?;
    if !report.reservations.is_empty() {
        writeln!(out)?;
        let told: Vec<String> = report.reservations.iter().map(ToString::to_string).collect();
        several(out, "Mind", &told)?;
    }
    writeln!(out)?;
    let files = ["report.json", "decisions.jsonl", "replay.kine"];
    let files: Vec<&str> = files.into_iter().filter(|file| folder.path().join(file).exists()).collect();
    line(out, "Written", &format!("{}: {}", folder.path().display(), files.join(", ")), Style::new())
}

fn rows(was: &Figures, is: &Figures) -> Vec<Row> {
    let row = |name, was: f64, is: f64, unit| Row { name, was, is, unit };
    let count = |name, was: u64, is: u64| row(name, was as f64, is as f64, Unit::Count);
    let lost = |figures: &Figures, why: &str| figures.lost.get(why).copied().unwrap_or(0);
    let mut rows = vec![
        count("Pods bound", was.pods_bound, is.pods_bound),
        row("They waited, median", was.waited.p50, is.waited.p50, Unit::Seconds),
        row("             90 % less than", was.waited.p90, is.waited.p90, Unit::Seconds),
        row("             99 % less than", was.waited.p99, is.waited.p99, Unit::Seconds),
        row("             at most", was.waited.longest, is.waited.longest, Unit::Seconds),
        row("Pods that wait, on average", was.waiting, is.waiting, Unit::Average),
    ];
    for (name, why) in [
        ("Pods preempted", "preempted"),
        ("Pods evicted by scale-down", "scaledDown"),
        ("Pods evicted by taints", "tainted"),
        ("Pods lost with their node", "nodeGone"),
    ] {
        let (was, is) = (lost(was, why), lost(is, why));
        if was + is > 0 {
            rows.push(count(name, was, is));
        }
    }
    rows.extend([
        row("CPU asked for of all there is", was.utilization.cpu, is.utilization.cpu, Unit::Share),
        row("Memory asked for", was.utilization.memory, is.utilization.memory, Unit::Share),
        row("Nodes, on average", was.nodes, is.nodes, Unit::Average),
    ]);
    if was.nodes_came + is.nodes_came + was.nodes_went + is.nodes_went > 0 {
        rows.push(count("Nodes that came", was.nodes_came, is.nodes_came));
        rows.push(count("Nodes that went", was.nodes_went, is.nodes_went));
    }
    rows
}

fn table(out: &mut Out, rows: &[Row]) -> anyhow::Result<()> {
    writeln!(
        out,
        "{HEADING}{:<NAMES$}{:>FIGURE$}{:>FIGURE$}{:>APART$}{HEADING:#}",
        "", "recorded", "replayed", "difference"
    )?;
    for row in rows {
        let (was, is) = (row.unit.shown(row.was), row.unit.shown(row.is));
        let apart = row.difference();
        writeln!(out, "{:<NAMES$}{was:>FIGURE$}{is:>FIGURE$}{apart:>APART$}", row.name)?;
    }
    Ok(())
}

fn groups(out: &mut Out, report: &Report) -> anyhow::Result<()> {
    let moved = |size: &Size| format!("{} +{} -{} = {}", size.at_start, size.came, size.went, size.at_end);
    let room = |side: fn(&GroupScaling) -> &Size| {
        report.scaling.groups.iter().map(|group| moved(side(group)).len()).max().unwrap_or(0).max(8) + 2
    };
    let (was, is) = (room(|group| &group.recorded), room(|group| &group.replayed));
    writeln!(
        out,
        "{HEADING}{:<NAMES$}{:<was$}{:<is$}{:>FIGURE$}{HEADING:#}",
        "Groups (+came -went)", "recorded", "replayed", "most nodes"
    )?;
    for GroupScaling { group, recorded, replayed } in &report.scaling.groups {
        let name: String = harmless(group).chars().take(GROUP).collect();
        let most = format!("{} / {}", recorded.most, replayed.most);
        writeln!(
            out,
            "{:<NAMES$}{:<was$}{:<is$}{most:>FIGURE$}",
            format!("  {name}"),
            moved(recorded),
            moved(replayed)
        )?;
    }
    let nodes = &report.scaling.nodes;
    let text = format!(
        "the curves of the number of nodes are apart by {} of the recorded one",
        percent(nodes.share)
    );
    line(out, "", &text, Style::new())
}

fn fidelity(out: &mut Out, report: &Report) -> anyhow::Result<()> {
    let Placements {
        recorded,
        same_node,
        same_class,
        elsewhere,
        not_bound,
        within_a_second,
        within_ten_seconds,
        not_recorded,
        reasons,
    } = &report.fidelity.placements;
    let rows = [
        (*same_node, "on the same node"),
        (*same_class, "on another node of the same group or type"),
        (*elsewhere, "on another node"),
        (*not_bound, "not bound"),
        (*within_a_second, "within a second of the recorded moment, wherever"),
        (*within_ten_seconds, "within ten seconds"),
    ];
    counts(out, "Placements", *recorded, &rows, (*not_recorded, "were bound that nobody recorded"))?;
    let reasons = most_often(reasons);
    if !reasons.is_empty() {
        let mut told: Vec<String> = reasons
            .iter()
            .take(MOST)
            .map(|(reason, count)| format!("{reason} ({})", grouped(*count)))
            .collect();
        if reasons.len() > MOST {
            told.push(format!("{} more, which report.json has", reasons.len() - MOST));
        }
        let text = format!("where it is another node, the recorded one: {}", told.join("; "));
        line(out, "", &text, Style::new())?;
    }
    let Evictions { recorded, same, otherwise, not_lost, not_recorded } = &report.fidelity.evictions;
    if recorded + not_recorded > 0 {
        let rows = [
            (*same, "of the same pod for the same reason"),
            (*otherwise, "of the same pod for another reason"),
            (*not_lost, "did not happen"),
        ];
        counts(out, "Evictions", *recorded, &rows, (*not_recorded, "happened that nobody recorded"))?;
    }
    waits(out, report)?;
    moves(out, "Scale-ups", &report.scaling.ups)?;
    moves(out, "Scale-downs", &report.scaling.downs)
}

/// How nodes came or went.
fn moves(out: &mut Out, label: &str, moves: &Moves) -> anyhow::Result<()> {
    let Moves {
        recorded,
        same_node,
        same_group,
        within_ten_seconds,
        within_a_minute,
        not_happened,
        not_recorded,
    } = moves;
    if recorded + not_recorded == 0 {
        return Ok(());
    }
    let rows = [
        (*same_group, "of a node of the same group"),
        (*within_ten_seconds, "of one within ten seconds of the recorded moment"),
        (*within_a_minute, "within a minute"),
        (*same_node, "of a node of the same name"),
        (*not_happened, "did not happen"),
    ];
    counts(out, label, *recorded, &rows, (*not_recorded, "happened that nobody recorded"))
}

/// What became of all that was recorded, and what came besides.
fn counts(
    out: &mut Out,
    label: &str,
    recorded: u64,
    rows: &[(u64, &str)],
    (others, words): (u64, &str),
) -> anyhow::Result<()> {
    line(out, label, &format!("{} recorded, and in the replay", grouped(recorded)), Style::new())?;
    for (count, words) in rows.iter().filter(|(count, _)| *count > 0) {
        let share = percent(share(*count, recorded));
        writeln!(out, "{:>COUNT$}{share:>SHARE$}  {words}", grouped(*count))?;
    }
    if others > 0 {
        writeln!(out, "{:>COUNT$}{:>SHARE$}  {words}", grouped(others), "")?;
    }
    Ok(())
}

fn waits(out: &mut Out, report: &Report) -> anyhow::Result<()> {
    if report.recorded.pods_bound == 0 || report.replayed.pods_bound == 0 {
        return Ok(());
    }
    let Waits { p50, p90, p99, apart } = report.fidelity.waits;
    let (p50, p90, p99) = (percent(p50), percent(p90), percent(p99));
    let text =
        format!("{p50}, {p90} and {p99} of the pods waited less than 50, 90 and 99 % of those recorded;");
    line(out, "Waits", &text, Style::new())?;
    line(
        out,
        "",
        &format!("for no length of time are the shares more than {} apart", percent(apart)),
        Style::new(),
    )
}

/// The first of several sentences, a line each.
fn several(out: &mut Out, label: &str, told: &[String]) -> anyhow::Result<()> {
    let plain = Style::new();
    for (index, text) in told.iter().take(MOST).enumerate() {
        line(out, if index == 0 { label } else { "" }, text, plain)?;
    }
    match told.len().saturating_sub(MOST) {
        0 => Ok(()),
        more => line(out, "", &format!("and {more} more, which report.json has"), plain),
    }
}

fn most_often(reasons: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut reasons: Vec<(&str, u64)> = reasons.iter().map(|(reason, count)| (&**reason, *count)).collect();
    reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
    reasons
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Rounded down, so that 100 % is all of it.
fn percent(share: f64) -> String {
    let tenths = (share * 1000.0).floor() / 10.0;
    if tenths == 100.0 { "100 %".to_owned() } else { format!("{tenths:.1} %") }
}

// === impl Row ===

impl Row {
    fn difference(&self) -> String {
        let apart = self.is - self.was;
        if self.unit.shown(self.was) == self.unit.shown(self.is) {
            return "=".to_owned();
        }
        match self.unit {
            Unit::Count => format!("{}{}", if apart > 0.0 { "+" } else { "-" }, grouped(apart.abs() as u64)),
            Unit::Share => format!("{:+.1} points", apart * 100.0),
            Unit::Average | Unit::Seconds if self.was > 0.0 => {
                let percents = apart / self.was * 100.0;
                if percents.abs() < 1000.0 {
                    format!("{percents:+.1} %")
                } else {
                    format!("{} times", grouped((self.is / self.was) as u64))
                }
            }
            Unit::Average | Unit::Seconds => "new".to_owned(),
        }
    }
}

// === impl Unit ===

impl Unit {
    fn shown(self, number: f64) -> String {
        match self {
            Unit::Count => grouped(number as u64),
            Unit::Average => format!("{number:.1}"),
            Unit::Share => format!("{:.1} %", number * 100.0),
            Unit::Seconds => span((number * 1e9) as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(was: f64, is: f64, unit: Unit, expected: &str) {
        assert_eq!(Row { name: "x", was, is, unit }.difference(), expected);
    }

    #[test]
    fn differences_are_told_as_people_say_them() {
        check(1234.0, 1234.0, Unit::Count, "=");
        check(5.0, 1240.0, Unit::Count, "+1,235");
        check(3.0, 1.0, Unit::Count, "-2");
        check(0.5, 0.4, Unit::Share, "-10.0 points");
        check(2.0, 3.0, Unit::Seconds, "+50.0 %");
        check(0.0, 3.0, Unit::Seconds, "new");
        check(0.01, 3.0, Unit::Seconds, "300 times");
    }

    #[test]
    fn all_of_it_is_all_of_it() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.9999), "99.9 %");
        assert_eq!(percent(0.25), "25.0 %");
    }
}
