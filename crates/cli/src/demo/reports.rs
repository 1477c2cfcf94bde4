//! A table that compares the reports of the demo's replays.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::walkthrough::{FASTER_SCALE_DOWN, MORE_NODES, UNCHANGED};
use crate::output::{HEADING, Printer, format_duration};

/// A metric of the comparison: its label, its JSON pointer in a report, and its format.
struct ReportMetric {
    name: &'static str,
    path: &'static str,
    format: fn(f64) -> String,
}

const METRICS: [ReportMetric; 6] = [
    ReportMetric { name: "Pending pods, mean", path: "/waiting", format: average },
    ReportMetric { name: "Time to bind p99", path: "/waited/p99", format: seconds },
    ReportMetric { name: "Pods preempted", path: "/lost/preempted", format: count },
    ReportMetric { name: "Pods evicted by scale-down", path: "/lost/scaledDown", format: count },
    ReportMetric { name: "Nodes, mean", path: "/nodes", format: average },
    ReportMetric { name: "CPU requested ÷ allocatable", path: "/utilization/cpu", format: share },
];

/// Widths of the columns of labels and of values.
const NAME_WIDTH: usize = 30;
const VALUE_WIDTH: usize = 12;

/// Prints the metrics of all reports in the demo's folder.
pub(super) fn compare(out: &mut Printer, folder: &Path) -> anyhow::Result<()> {
    let what_ifs = [UNCHANGED, MORE_NODES, FASTER_SCALE_DOWN];
    let reports: Vec<Value> = what_ifs
        .iter()
        .map(|what_if| read_report(&folder.join(what_if.folder)))
        .collect::<anyhow::Result<_>>()?;
    writeln!(
        out,
        "\n{HEADING}# Fewer nodes, but more evictions. The reports (report.json) compared:{HEADING:#}"
    )?;
    let names = what_ifs.iter().map(|what_if| what_if.name);
    write_row(out, "", std::iter::once("recorded").chain(names).map(str::to_owned))?;
    for ReportMetric { name, path, format: shown } in METRICS {
        let metric = |report: &Value, side: &str| {
            // A report omits counts of zero.
            let figure = report[side].pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
            shown(figure)
        };
        let replayed = reports.iter().map(|report| metric(report, "replayed"));
        write_row(out, name, std::iter::once(metric(&reports[0], "recorded")).chain(replayed))?;
    }
    Ok(())
}

fn read_report(folder: &Path) -> anyhow::Result<Value> {
    let path = folder.join("report.json");
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not a report", path.display()))
}

fn write_row(out: &mut Printer, name: &str, figures: impl Iterator<Item = String>) -> anyhow::Result<()> {
    write!(out, "{name:<NAME_WIDTH$}")?;
    for figure in figures {
        write!(out, "{figure:>VALUE_WIDTH$}")?;
    }
    writeln!(out)?;
    Ok(())
}

fn average(figure: f64) -> String {
    format!("{figure:.1}")
}

fn count(figure: f64) -> String {
    format!("{figure:.0}")
}

fn seconds(figure: f64) -> String {
    format_duration((figure * 1e9) as i64)
}

fn share(figure: f64) -> String {
    format!("{:.1} %", figure * 100.0)
}
