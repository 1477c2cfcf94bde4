//! What came of the replays, beside each other.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::scenes::{AS_IT_WAS, GIVEN_BACK, MORE_NODES};
use crate::output::{HEADING, Out, span};

/// A figure: what it is called, where it stands in a report, and how it is written.
struct Figure {
    name: &'static str,
    path: &'static str,
    shown: fn(f64) -> String,
}

const FIGURES: [Figure; 6] = [
    Figure { name: "Pods that wait, on average", path: "/waiting", shown: average },
    Figure { name: "99 % waited less than", path: "/waited/p99", shown: seconds },
    Figure { name: "Pods preempted", path: "/lost/preempted", shown: count },
    Figure { name: "Pods evicted by scale-down", path: "/lost/scaledDown", shown: count },
    Figure { name: "Nodes, on average", path: "/nodes", shown: average },
    Figure { name: "CPU asked for of all there is", path: "/utilization/cpu", shown: share },
];

/// The figures begin here, and each takes so many columns.
const NAMES: usize = 30;
const FIGURE: usize = 12;

/// Writes the figures of all reports in a folder.
pub(super) fn compare(out: &mut Out, folder: &Path) -> anyhow::Result<()> {
    let what_ifs = [AS_IT_WAS, MORE_NODES, GIVEN_BACK];
    let reports: Vec<Value> =
        what_ifs.iter().map(|what_if| read(&folder.join(what_if.folder))).collect::<anyhow::Result<_>>()?;
    writeln!(
        out,
        "\n{HEADING}# Fewer nodes, but more pods had to move. The reports (report.json) beside each other:{HEADING:#}"
    )?;
    let names = what_ifs.iter().map(|what_if| what_if.name);
    row(out, "", std::iter::once("recorded").chain(names).map(str::to_owned))?;
    for Figure { name, path, shown } in FIGURES {
        let of = |report: &Value, side: &str| {
            // Whoever lost nobody says nothing of it.
            let figure = report[side].pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
            shown(figure)
        };
        let replayed = reports.iter().map(|report| of(report, "replayed"));
        row(out, name, std::iter::once(of(&reports[0], "recorded")).chain(replayed))?;
    }
    Ok(())
}

fn read(folder: &Path) -> anyhow::Result<Value> {
    let path = folder.join("report.json");
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no report", path.display()))
}

fn row(out: &mut Out, name: &str, figures: impl Iterator<Item = String>) -> anyhow::Result<()> {
    write!(out, "{name:<NAMES$}")?;
    for figure in figures {
        write!(out, "{figure:>FIGURE$}")?;
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
    span((figure * 1e9) as i64)
}

fn share(figure: f64) -> String {
    format!("{:.1} %", figure * 100.0)
}
