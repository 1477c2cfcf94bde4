//! `kinescope snapshot diff`: pods and queues that end up differently in two snapshots.

use std::io::Write;

use snapshot::{Comparison, PodEnd, Resource, ResourceShare, compare, run};

use super::columns::{MAX_ROWS, TableRow, more_rows, write_rows};
use super::input::{CycleArgs, HistoryArgs, PATHS_HELP, print_warnings, read_file_or_moment};
use super::queue_text::{amount, is_shown};
use crate::Outcome;
use crate::lines::escape_line;
use crate::output::{HEADING, Printer, count_noun};

const AFTER: &str = "\
Both snapshots are run, and pods and queues compared afterwards. --set changes the second one only.

Exit codes: 0 no differences, 1 differences, 2 error.

";

const EXAMPLES: &str = "

Examples:
  kinescope snapshot diff monday.zip tuesday.zip
  kinescope snapshot diff --history gpu.kine 14:00 14:30
  # The effect of a setting
  kinescope snapshot diff a.zip a.zip --set params.fullHierarchyFairness=false";

/// Run two snapshots and display the pods and queues that differ
#[derive(clap::Args)]
#[command(after_help = format!("{AFTER}{PATHS_HELP}{EXAMPLES}"))]
pub(super) struct DiffSnapshots {
    /// First snapshot: a file, or a time of --history
    #[arg(value_name = "FILE1|TIME1", allow_hyphen_values = true)]
    left: String,
    /// Second snapshot
    #[arg(value_name = "FILE2|TIME2", allow_hyphen_values = true)]
    right: String,
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    run: CycleArgs,
    /// Most cycles to run
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    cycles: u32,
    /// Output format; wide shows all resources and all rows
    #[arg(short, long, value_parser = ["table", "wide", "json"], default_value = "table")]
    output: String,
}

impl DiffSnapshots {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let right_options = self.run.options(self.cycles);
        let left_options = snapshot::RunOptions { overrides: Vec::new(), ..right_options.clone() };
        let read = |text: &str| self.run.at_now(read_file_or_moment(text, &self.history)?);
        let left = run(&read(&self.left)?, &left_options)?;
        let right = run(&read(&self.right)?, &right_options)?;
        print(out, &compare(&left, &right), &self.output)
    }
}

/// Prints a comparison.
pub(super) fn print(out: &mut Printer, comparison: &Comparison, style: &str) -> anyhow::Result<Outcome> {
    print_warnings(out, &comparison.left.warnings);
    if comparison.right.warnings != comparison.left.warnings {
        print_warnings(out, &comparison.right.warnings);
    }
    match style {
        "json" => writeln!(out.data()?, "{:#}", serde_json::to_value(comparison)?)?,
        style => write_text(out, comparison, style == "wide")?,
    }
    Ok(if comparison.is_equal() { Outcome::Done } else { Outcome::Negative })
}

fn write_text(out: &mut Printer, comparison: &Comparison, wide: bool) -> anyhow::Result<()> {
    for (mark, input) in [("-", &comparison.left), ("+", &comparison.right)] {
        let changed = match input.overrides.as_slice() {
            [] => String::new(),
            overrides => format!(", with {}", overrides.join(", ")),
        };
        writeln!(out, "{mark} {} at {}{}", escape_line(&input.name), input.now, escape_line(&changed))?;
    }
    if comparison.is_equal() {
        writeln!(
            out,
            "\nno differences: {} end up the same",
            count_noun(comparison.same_pods as u64, "pod")
        )?;
        return Ok(());
    }
    if !comparison.pods.is_empty() {
        let mut rows = vec![TableRow::heading(["POD", "POD GROUP", "BEFORE", "AFTER"])];
        let limit = if wide { usize::MAX } else { MAX_ROWS };
        for difference in comparison.pods.iter().take(limit) {
            let ends = [&difference.left, &difference.right].map(|end| pod_end(end.as_ref()));
            let [left, right] = ends;
            rows.push(TableRow::of([difference.pod.clone(), difference.pod_group.clone(), left, right]));
        }
        writeln!(out)?;
        write_rows(out, &rows, &[])?;
        more_rows(out, comparison.pods.len(), limit)?;
    }
    let queues: Vec<_> =
        comparison.queues.iter().filter(|it| wide || is_relevant(comparison, it.resource)).collect();
    if !queues.is_empty() {
        let columns = ["QUEUE", "RESOURCE", "QUOTA", "FAIR SHARE", "REQUESTED", "ALLOCATED"];
        let mut rows = vec![TableRow::heading(columns)];
        for difference in &queues {
            let change = |of: fn(&ResourceShare) -> f64| {
                let text = |share: Option<&ResourceShare>| {
                    share.map_or("none".to_owned(), |share| amount(difference.resource, of(share)))
                };
                let (left, right) = (text(difference.left.as_ref()), text(difference.right.as_ref()));
                if left == right { left } else { format!("{left} → {right}") }
            };
            rows.push(TableRow::of([
                difference.queue.clone(),
                difference.resource.name().to_owned(),
                change(|share| share.quota),
                change(|share| share.fair_share),
                change(|share| share.requested),
                change(|share| share.allocated_after),
            ]));
        }
        writeln!(out)?;
        write_rows(out, &rows, &[2, 3, 4, 5])?;
    }
    let pods = count_noun(comparison.pods.len() as u64, "pod");
    let same = comparison.same_pods;
    let shares = count_noun(comparison.queues.len() as u64, "queue share");
    let hidden = comparison.queues.len() - queues.len();
    let hidden = if hidden > 0 { format!(" ({hidden} not shown: use -o wide)") } else { String::new() };
    writeln!(
        out,
        "\n{HEADING}total{HEADING:#}: {pods} and {shares}{hidden} differ, {same} pods end up the same"
    )?;
    Ok(())
}

/// Whether a resource is worth a row: that which quotas are about.
fn is_relevant(comparison: &Comparison, resource: Resource) -> bool {
    let shares = comparison.queues.iter().flat_map(|it| {
        let share = |share: &Option<ResourceShare>| share.as_ref().map(|share| (it.resource, *share));
        [share(&it.left), share(&it.right)].into_iter().flatten()
    });
    is_shown(resource, shares)
}

fn pod_end(end: Option<&PodEnd>) -> String {
    match end {
        None => "none".to_owned(),
        Some(PodEnd { status, node: Some(node) }) => format!("{status} on {node}"),
        Some(PodEnd { status, node: None }) => (*status).to_owned(),
    }
}
