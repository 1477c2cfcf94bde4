//! The summary of a replay as text: recorded and replayed metrics, and how far the decisions agree.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anstyle::Style;
use replay::compare::{EvictionFidelity, PlacementFidelity};
use replay::metrics::{ClusterMetrics, PendingTimeComparison};
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
    let nanos = plan.resolved.end.nanos_since(plan.resolved.part.window.from);
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
    let autoscaler = match plan.resolved.node_scaling {
        NodeScaling::Autoscaled => plan.autoscaler.to_string(),
        NodeScaling::AsRecorded => "none: nodes are added and removed as recorded".to_owned(),
        NodeScaling::Fixed => "off: node groups keep their initial nodes".to_owned(),
    };
    write_field(out, "Autoscaler", &autoscaler, plain)?;
    if !report.settings.overrides.is_empty() {
        write_field(out, "Overrides", &report.settings.overrides.join("  "), plain)?;
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
        let caveats: Vec<String> = report.caveats.iter().map(ToString::to_string).collect();
        write_list(out, "Caveats", &caveats)?;
    }
    writeln!(out)?;
    let files = ["report.json", "decisions.jsonl", "replay.kine"];
    let files: Vec<&str> = files.into_iter().filter(|file| folder.path().join(file).exists()).collect();
    write_field(out, "Files", &format!("{}: {}", folder.path().display(), files.join(", ")), Style::new())
}

fn rows(recorded: &ClusterMetrics, replayed: &ClusterMetrics) -> Vec<Row> {
    let row = |name, recorded: f64, replayed: f64, unit| Row { name, recorded, replayed, unit };
    let count = |name, was: u64, is: u64| row(name, was as f64, is as f64, Unit::Count);
    let lost = |metrics: &ClusterMetrics, why: &str| metrics.evictions.get(why).copied().unwrap_or(0);
    let mut rows = vec![
        count("Pods bound", recorded.pods_bound, replayed.pods_bound),
        row("Time to bind p50", recorded.pending_time.p50, replayed.pending_time.p50, Unit::Seconds),
        row("Time to bind p90", recorded.pending_time.p90, replayed.pending_time.p90, Unit::Seconds),
        row("Time to bind p99", recorded.pending_time.p99, replayed.pending_time.p99, Unit::Seconds),
        row("Time to bind max", recorded.pending_time.longest, replayed.pending_time.longest, Unit::Seconds),
        row("Pending pods, mean", recorded.pending_pods, replayed.pending_pods, Unit::Average),
    ];
    for (name, why) in [
        ("Pods preempted", "preempted"),
        ("Pods evicted by scale-down", "scaledDown"),
        ("Pods evicted by taints", "tainted"),
        ("Pods deleted with their node", "nodeGone"),
    ] {
        let (recorded, replayed) = (lost(recorded, why), lost(replayed, why));
        if recorded + replayed > 0 {
            rows.push(count(name, recorded, replayed));
        }
    }
    rows.extend([
        row("CPU requested ÷ allocatable", recorded.utilization.cpu, replayed.utilization.cpu, Unit::Share),
        row(
            "Memory requested ÷ allocatable",
            recorded.utilization.memory,
            replayed.utilization.memory,
            Unit::Share,
        ),
        row("Nodes, mean", recorded.nodes, replayed.nodes, Unit::Average),
    ]);
    if recorded.nodes_added + replayed.nodes_added + recorded.nodes_removed + replayed.nodes_removed > 0 {
        rows.push(count("Nodes added", recorded.nodes_added, replayed.nodes_added));
        rows.push(count("Nodes removed", recorded.nodes_removed, replayed.nodes_removed));
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
        let (recorded, replayed) = (row.unit.format(row.recorded), row.unit.format(row.replayed));
        let difference = row.difference();
        writeln!(
            out,
            "{:<NAME_WIDTH$}{recorded:>VALUE_WIDTH$}{replayed:>VALUE_WIDTH$}{difference:>DIFFERENCE_WIDTH$}",
            row.name
        )?;
    }
    Ok(())
}

fn write_groups(out: &mut Printer, report: &Report) -> anyhow::Result<()> {
    let moved = |size: &GroupSizeStats| {
        format!("{} +{} -{} = {}", size.at_start, size.added, size.removed, size.at_end)
    };
    let column_width = |side: fn(&GroupScaling) -> &GroupSizeStats| {
        report.scaling.groups.iter().map(|group| moved(side(group)).len()).max().unwrap_or(0).max(8) + 2
    };
    let (recorded_width, replayed_width) =
        (column_width(|group| &group.recorded), column_width(|group| &group.replayed));
    writeln!(
        out,
        "{HEADING}{:<NAME_WIDTH$}{:<recorded_width$}{:<replayed_width$}{:>VALUE_WIDTH$}{HEADING:#}",
        "Node groups (+added -removed)", "recorded", "replayed", "max nodes"
    )?;
    for GroupScaling { group, recorded, replayed } in &report.scaling.groups {
        let name: String = escape_line(group).chars().take(GROUP_NAME_LENGTH).collect();
        let most = format!("{} / {}", recorded.max, replayed.max);
        writeln!(
            out,
            "{:<NAME_WIDTH$}{:<recorded_width$}{:<replayed_width$}{most:>VALUE_WIDTH$}",
            format!("  {name}"),
            moved(recorded),
            moved(replayed)
        )?;
    }
    let nodes = &report.scaling.nodes;
    let text = format!("mean difference of the node count: {} of the recorded one", percent(nodes.share));
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
        (*elsewhere, "on a node of another group or type"),
        (*not_bound, "not bound"),
        (*within_a_second, "within 1s of the recorded time, on any node"),
        (*within_ten_seconds, "within 10s"),
    ];
    write_counts(out, "Placements", *recorded, &rows, (*not_recorded, "Extra bindings (replay only)"))?;
    let reasons = by_frequency(reasons);
    if !reasons.is_empty() {
        let mut reason_texts: Vec<String> = reasons
            .iter()
            .take(MAX_SHOWN)
            .map(|(reason, count)| format!("{} ({})", reason_text(reason), group_digits(*count)))
            .collect();
        if reasons.len() > MAX_SHOWN {
            reason_texts.push(format!("{} more (see report.json)", reasons.len() - MAX_SHOWN));
        }
        let text = format!("recorded node not chosen: {}", reason_texts.join("; "));
        write_field(out, "", &text, Style::new())?;
    }
    let EvictionFidelity { recorded, same, other_kind: otherwise, not_evicted: not_lost, not_recorded } =
        &report.fidelity.evictions;
    if recorded + not_recorded > 0 {
        let rows = [
            (*same, "of the same pod, for the same reason"),
            (*otherwise, "of the same pod, for another reason"),
            (*not_lost, "not reproduced"),
        ];
        write_counts(out, "Evictions", *recorded, &rows, (*not_recorded, "Extra evictions (replay only)"))?;
    }
    write_waits(out, report)?;
    write_node_changes(out, "Scale-ups", &report.scaling.scale_ups, "Extra scale-ups (replay only)")?;
    write_node_changes(out, "Scale-downs", &report.scaling.scale_downs, "Extra scale-downs (replay only)")
}

/// Prints how far scale-ups or scale-downs agree.
fn write_node_changes(
    out: &mut Printer,
    label: &str,
    moves: &ScalingFidelity,
    extra: &str,
) -> anyhow::Result<()> {
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
        (*within_ten_seconds, "of one within 10s of the recorded time"),
        (*within_a_minute, "of one within 1m"),
        (*same_node, "of a node of the same name"),
        (*not_happened, "not reproduced"),
    ];
    write_counts(out, label, *recorded, &rows, (*not_recorded, extra))
}

/// Prints how many recorded decisions the replay reproduced, and how many it made in addition.
fn write_counts(
    out: &mut Printer,
    label: &str,
    recorded: u64,
    rows: &[(u64, &str)],
    (others, description): (u64, &str),
) -> anyhow::Result<()> {
    write_field(out, label, &format!("{} recorded; in the replay:", group_digits(recorded)), Style::new())?;
    for (count, description) in rows.iter().filter(|(count, _)| *count > 0) {
        let share = percent(ratio(*count, recorded));
        writeln!(out, "{:>COUNT_WIDTH$}{share:>SHARE_WIDTH$}  {description}", group_digits(*count))?;
    }
    if others > 0 {
        writeln!(out, "{:>COUNT_WIDTH$}{:>SHARE_WIDTH$}  {description}", group_digits(others), "")?;
    }
    Ok(())
}

fn write_waits(out: &mut Printer, report: &Report) -> anyhow::Result<()> {
    if report.recorded.pods_bound == 0 || report.replayed.pods_bound == 0 {
        return Ok(());
    }
    let PendingTimeComparison { p50, p90, p99, max_difference: apart } = report.fidelity.pending_times;
    let (p50, p90, p99) = (percent(p50), percent(p90), percent(p99));
    let text =
        format!("{p50}, {p90} and {p99} of pods were bound faster than the recorded p50, p90 and p99;");
    write_field(out, "Bind times", &text, Style::new())?;
    write_field(
        out,
        "",
        &format!("largest difference between the cumulative distributions: {}", percent(apart)),
        Style::new(),
    )
}

/// Prints the first lines of a list, and how many more there are.
fn write_list(out: &mut Printer, label: &str, texts: &[String]) -> anyhow::Result<()> {
    let plain = Style::new();
    for (index, text) in texts.iter().take(MAX_SHOWN).enumerate() {
        write_field(out, if index == 0 { label } else { "" }, text, plain)?;
    }
    match texts.len().saturating_sub(MAX_SHOWN) {
        0 => Ok(()),
        more => write_field(out, "", &format!("and {more} more (see report.json)"), plain),
    }
}

/// The words for a reason. Its name in report.json is a key, and stays as it is.
fn reason_text(reason: &str) -> String {
    match reason {
        "it was not known at that moment which node was recorded" => "not known at that time".to_owned(),
        "its score was lower" => "lower score".to_owned(),
        "it was not looked at" => "not evaluated".to_owned(),
        "it was not there" => "node did not exist".to_owned(),
        _ => match reason.strip_suffix(" refused it") {
            Some(plugin) => format!("rejected by {plugin}"),
            None => reason.to_owned(),
        },
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
        let delta = self.replayed - self.recorded;
        if self.unit.format(self.recorded) == self.unit.format(self.replayed) {
            return "=".to_owned();
        }
        match self.unit {
            Unit::Count => {
                format!("{}{}", if delta > 0.0 { "+" } else { "-" }, group_digits(delta.abs() as u64))
            }
            Unit::Share => format!("{:+.1} points", delta * 100.0),
            Unit::Average | Unit::Seconds if self.recorded > 0.0 => {
                let percents = delta / self.recorded * 100.0;
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
