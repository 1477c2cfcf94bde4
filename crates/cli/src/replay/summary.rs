//! The summary of a replay as text: recorded and replayed metrics, and how far the decisions agree.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anstyle::Style;
use replay::compare::{EvictionFidelity, PlacementFidelity};
use replay::metrics::{ReplayMetrics, WaitComparison};
use replay::plan::{NodeScaling, ReplayPlan};
use replay::report::{GroupScaling, GroupSizeStats, Report, ScalingFidelity};

use super::clock::speed_factor;
use super::folder::OutputFolder;
use crate::lines::{escape_line, write_field};
use crate::output::{HEADING, Printer, format_duration, group_digits, speed_text};

/// The most caveats and reasons shown; the report has all of them.
const MAX_SHOWN: usize = 6;
/// The width of the column of labels.
const NAME_WIDTH: usize = 30;
/// The width of a column of values.
const VALUE_WIDTH: usize = 12;
/// The width of the column of differences.
const DIFFERENCE_WIDTH: usize = 14;
/// The column at which counts end.
const COUNT_WIDTH: usize = 20;
/// The width of the shares after the counts.
const SHARE_WIDTH: usize = 9;
/// The most characters shown of a group's name.
const GROUP_NAME_LENGTH: usize = 24;

/// A row of the comparison.
struct Row {
    name: &'static str,
    recorded: f64,
    replayed: f64,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    Average,
    Seconds,
    Share,
}

/// Prints the settings of the replay and the comparison.
pub(super) fn write(
    out: &mut Printer,
    report: &Report,
    plan: &ReplayPlan,
    folder: &OutputFolder,
    took: Duration,
) -> anyhow::Result<()> {
    let plain = Style::new();
    let nanos = plan.run.end.nanos_since(plan.run.part.window.from);
    let took_nanos = i64::try_from(took.as_nanos()).unwrap_or(i64::MAX);
    let speed = format!(
        "{} in {}, {} as fast",
        format_duration(nanos),
        format_duration(took_nanos),
        speed_text(speed_factor(nanos, took))
    );
    let (from, to) = (&report.window.from, &report.window.to);
    write_field(out, "Replayed", &format!("{} from {from} to {to}: {speed}", report.history), plain)?;
    write_field(out, "Scheduler", &plan.scheduler.to_string(), plain)?;
    let autoscaler = match plan.run.node_scaling {
        NodeScaling::Autoscaled => plan.autoscaler.to_string(),
        NodeScaling::AsRecorded => "none: nodes come and go as recorded".to_owned(),
        NodeScaling::Fixed => "off: nodes of groups stay as they were at the beginning".to_owned(),
    };
    write_field(out, "Autoscaler", &autoscaler, plain)?;
    if !report.settings.overrides.is_empty() {
        write_field(out, "Set", &report.settings.overrides.join("  "), plain)?;
    }
    write_comparison(out, report, folder)
}

/// Prints the comparison of recording and replay, and the files written.
pub(super) fn write_comparison(
    out: &mut Printer,
    report: &Report,
    folder: &OutputFolder,
) -> anyhow::Result<()> {
    writeln!(out)?;
    write_table(out, &rows(&report.recorded, &report.replayed))?;
    if !report.scaling.groups.is_empty() {
        writeln!(out)?;
        write_groups(out, report)?;
    }
    writeln!(out)?;
    write_fidelity(out, report)?;
    if !report.caveats.is_empty() {
        writeln!(out)?;
        let told: Vec<String> = report.caveats.iter().map(ToString::to_string).collect();
        write_list(out, "Mind", &told)?;
    }
    writeln!(out)?;
    let files = ["report.json", "decisions.jsonl", "replay.kine"];
    let files: Vec<&str> = files.into_iter().filter(|file| folder.path().join(file).exists()).collect();
    write_field(out, "Written", &format!("{}: {}", folder.path().display(), files.join(", ")), Style::new())
}

fn rows(was: &ReplayMetrics, is: &ReplayMetrics) -> Vec<Row> {
    let row = |name, was: f64, is: f64, unit| Row { name, recorded: was, replayed: is, unit };
    let count = |name, was: u64, is: u64| row(name, was as f64, is as f64, Unit::Count);
    let lost = |figures: &ReplayMetrics, why: &str| figures.evictions.get(why).copied().unwrap_or(0);
    let mut rows = vec![
        count("Pods bound", was.pods_bound, is.pods_bound),
        row("They waited, median", was.waited.p50, is.waited.p50, Unit::Seconds),
        row("             90 % less than", was.waited.p90, is.waited.p90, Unit::Seconds),
        row("             99 % less than", was.waited.p99, is.waited.p99, Unit::Seconds),
        row("             at most", was.waited.longest, is.waited.longest, Unit::Seconds),
        row("Pods that wait, on average", was.pending_pods, is.pending_pods, Unit::Average),
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
    if was.nodes_added + is.nodes_added + was.nodes_removed + is.nodes_removed > 0 {
        rows.push(count("Nodes that came", was.nodes_added, is.nodes_added));
        rows.push(count("Nodes that went", was.nodes_removed, is.nodes_removed));
    }
    rows
}

fn write_table(out: &mut Printer, rows: &[Row]) -> anyhow::Result<()> {
    writeln!(
        out,
        "{HEADING}{:<NAME_WIDTH$}{:>VALUE_WIDTH$}{:>VALUE_WIDTH$}{:>DIFFERENCE_WIDTH$}{HEADING:#}",
        "", "recorded", "replayed", "difference"
    )?;
    for row in rows {
        let (was, is) = (row.unit.format(row.recorded), row.unit.format(row.replayed));
        let apart = row.difference();
        writeln!(
            out,
            "{:<NAME_WIDTH$}{was:>VALUE_WIDTH$}{is:>VALUE_WIDTH$}{apart:>DIFFERENCE_WIDTH$}",
            row.name
        )?;
    }
    Ok(())
}

fn write_groups(out: &mut Printer, report: &Report) -> anyhow::Result<()> {
    let moved = |size: &GroupSizeStats| {
        format!("{} +{} -{} = {}", size.at_start, size.added, size.removed, size.at_end)
    };
    let room = |side: fn(&GroupScaling) -> &GroupSizeStats| {
        report.scaling.groups.iter().map(|group| moved(side(group)).len()).max().unwrap_or(0).max(8) + 2
    };
    let (was, is) = (room(|group| &group.recorded), room(|group| &group.replayed));
    writeln!(
        out,
        "{HEADING}{:<NAME_WIDTH$}{:<was$}{:<is$}{:>VALUE_WIDTH$}{HEADING:#}",
        "Groups (+came -went)", "recorded", "replayed", "most nodes"
    )?;
    for GroupScaling { group, recorded, replayed } in &report.scaling.groups {
        let name: String = escape_line(group).chars().take(GROUP_NAME_LENGTH).collect();
        let most = format!("{} / {}", recorded.max, replayed.max);
        writeln!(
            out,
            "{:<NAME_WIDTH$}{:<was$}{:<is$}{most:>VALUE_WIDTH$}",
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
    write_field(out, "", &text, Style::new())
}

fn write_fidelity(out: &mut Printer, report: &Report) -> anyhow::Result<()> {
    let PlacementFidelity {
        recorded,
        same_node,
        same_class,
        other_class: elsewhere,
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
    write_counts(out, "Placements", *recorded, &rows, (*not_recorded, "were bound that nobody recorded"))?;
    let reasons = by_frequency(reasons);
    if !reasons.is_empty() {
        let mut told: Vec<String> = reasons
            .iter()
            .take(MAX_SHOWN)
            .map(|(reason, count)| format!("{reason} ({})", group_digits(*count)))
            .collect();
        if reasons.len() > MAX_SHOWN {
            told.push(format!("{} more, which report.json has", reasons.len() - MAX_SHOWN));
        }
        let text = format!("where it is another node, the recorded one: {}", told.join("; "));
        write_field(out, "", &text, Style::new())?;
    }
    let EvictionFidelity { recorded, same, other_kind: otherwise, not_evicted: not_lost, not_recorded } =
        &report.fidelity.evictions;
    if recorded + not_recorded > 0 {
        let rows = [
            (*same, "of the same pod for the same reason"),
            (*otherwise, "of the same pod for another reason"),
            (*not_lost, "did not happen"),
        ];
        write_counts(out, "Evictions", *recorded, &rows, (*not_recorded, "happened that nobody recorded"))?;
    }
    write_waits(out, report)?;
    write_node_changes(out, "Scale-ups", &report.scaling.scale_ups)?;
    write_node_changes(out, "Scale-downs", &report.scaling.scale_downs)
}

/// Prints how far scale-ups or scale-downs agree.
fn write_node_changes(out: &mut Printer, label: &str, moves: &ScalingFidelity) -> anyhow::Result<()> {
    let ScalingFidelity {
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
    write_counts(out, label, *recorded, &rows, (*not_recorded, "happened that nobody recorded"))
}

/// Prints how many recorded decisions the replay reproduced, and how many it made in addition.
fn write_counts(
    out: &mut Printer,
    label: &str,
    recorded: u64,
    rows: &[(u64, &str)],
    (others, words): (u64, &str),
) -> anyhow::Result<()> {
    write_field(
        out,
        label,
        &format!("{} recorded, and in the replay", group_digits(recorded)),
        Style::new(),
    )?;
    for (count, words) in rows.iter().filter(|(count, _)| *count > 0) {
        let share = percent(ratio(*count, recorded));
        writeln!(out, "{:>COUNT_WIDTH$}{share:>SHARE_WIDTH$}  {words}", group_digits(*count))?;
    }
    if others > 0 {
        writeln!(out, "{:>COUNT_WIDTH$}{:>SHARE_WIDTH$}  {words}", group_digits(others), "")?;
    }
    Ok(())
}

fn write_waits(out: &mut Printer, report: &Report) -> anyhow::Result<()> {
    if report.recorded.pods_bound == 0 || report.replayed.pods_bound == 0 {
        return Ok(());
    }
    let WaitComparison { p50, p90, p99, max_difference: apart } = report.fidelity.waits;
    let (p50, p90, p99) = (percent(p50), percent(p90), percent(p99));
    let text =
        format!("{p50}, {p90} and {p99} of the pods waited less than 50, 90 and 99 % of those recorded;");
    write_field(out, "Waits", &text, Style::new())?;
    write_field(
        out,
        "",
        &format!("for no length of time are the shares more than {} apart", percent(apart)),
        Style::new(),
    )
}

/// Prints the first lines of a list, and how many more there are.
fn write_list(out: &mut Printer, label: &str, told: &[String]) -> anyhow::Result<()> {
    let plain = Style::new();
    for (index, text) in told.iter().take(MAX_SHOWN).enumerate() {
        write_field(out, if index == 0 { label } else { "" }, text, plain)?;
    }
    match told.len().saturating_sub(MAX_SHOWN) {
        0 => Ok(()),
        more => write_field(out, "", &format!("and {more} more, which report.json has"), plain),
    }
}

fn by_frequency(reasons: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut reasons: Vec<(&str, u64)> = reasons.iter().map(|(reason, count)| (&**reason, *count)).collect();
    reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
    reasons
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Rounded down, so that only everything is 100 %.
fn percent(share: f64) -> String {
    let tenths = (share * 1000.0).floor() / 10.0;
    if tenths == 100.0 { "100 %".to_owned() } else { format!("{tenths:.1} %") }
}

// === impl Row ===

impl Row {
    fn difference(&self) -> String {
        let apart = self.replayed - self.recorded;
        if self.unit.format(self.recorded) == self.unit.format(self.replayed) {
            return "=".to_owned();
        }
        match self.unit {
            Unit::Count => {
                format!("{}{}", if apart > 0.0 { "+" } else { "-" }, group_digits(apart.abs() as u64))
            }
            Unit::Share => format!("{:+.1} points", apart * 100.0),
            Unit::Average | Unit::Seconds if self.recorded > 0.0 => {
                let percents = apart / self.recorded * 100.0;
                if percents.abs() < 1000.0 {
                    format!("{percents:+.1} %")
                } else {
                    format!("{} times", group_digits((self.replayed / self.recorded) as u64))
                }
            }
            Unit::Average | Unit::Seconds => "new".to_owned(),
        }
    }
}

// === impl Unit ===

impl Unit {
    fn format(self, number: f64) -> String {
        match self {
            Unit::Count => group_digits(number as u64),
            Unit::Average => format!("{number:.1}"),
            Unit::Share => format!("{:.1} %", number * 100.0),
            Unit::Seconds => format_duration((number * 1e9) as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(recorded: f64, replayed: f64, unit: Unit, expected: &str) {
        assert_eq!(Row { name: "x", recorded, replayed, unit }.difference(), expected);
    }

    #[test]
    fn differences_are_formatted_by_unit() {
        check(1234.0, 1234.0, Unit::Count, "=");
        check(5.0, 1240.0, Unit::Count, "+1,235");
        check(3.0, 1.0, Unit::Count, "-2");
        check(0.5, 0.4, Unit::Share, "-10.0 points");
        check(2.0, 3.0, Unit::Seconds, "+50.0 %");
        check(0.0, 3.0, Unit::Seconds, "new");
        check(0.01, 3.0, Unit::Seconds, "300 times");
    }

    #[test]
    fn only_everything_is_one_hundred_percent() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.9999), "99.9 %");
        assert_eq!(percent(0.25), "25.0 %");
    }
}
