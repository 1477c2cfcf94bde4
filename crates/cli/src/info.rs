//! `kinescope info`: what is in a history.

use std::io::Write;
use std::path::PathBuf;

use history::{History, Summary};
use model::Gap;
use query::{changes, summary_as_json};

use super::output::{HEADING, Out, bytes, counted, grouped, span};
use super::{Outcome, chosen};

const AFTER: &str = "\
Examples:
  kinescope info
  kinescope info prod.kine -o json | jq .changes";

/// Show what a history holds: its span, kinds, sizes, gaps
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Info {
    /// The history [default: $KINESCOPE_HISTORY, else the only .kine file here]
    history: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

impl Info {
    pub(super) fn run(self, out: &mut Out) -> anyhow::Result<Outcome> {
        let history = History::open(&chosen::path(self.history.as_deref())?)?;
        let (summary, gaps) = (history.summary()?, history.gaps()?);
        if self.output == "json" {
            let shown = summary_as_json(&history.path().display().to_string(), &summary, &gaps);
            writeln!(out.data()?, "{shown:#}")?;
        } else {
            as_text(out, &history, &summary, &gaps)?;
        }
        Ok(Outcome::Done)
    }
}

fn as_text(out: &mut Out, history: &History, summary: &Summary, gaps: &[Gap]) -> anyhow::Result<()> {
    let changes = changes(summary);
    writeln!(out, "{HEADING}{}{HEADING:#}", history.path().display())?;
    writeln!(
        out,
        "  {} changes, {}, {:.0} bytes a change ({} of objects)",
        grouped(changes),
        bytes(summary.file_bytes),
        summary.file_bytes as f64 / changes.max(1) as f64,
        bytes(summary.raw_bytes),
    )?;
    if summary.rows > 0 {
        writeln!(out, "  {} of the changes are not packed yet", grouped(summary.rows))?;
    }
    if let Some(moment) = summary.pruned_to {
        writeln!(out, "  pruned: what was before {moment} is gone")?;
    }
    for source in &summary.sources {
        writeln!(out, "\n{HEADING}source {}{HEADING:#}", source.name)?;
        if let Some((from, to)) = source.span {
            writeln!(out, "  {from} to {to} ({})", span(to.nanos_since(from)))?;
            let watched = history.positions()?.into_iter().filter(|position| position.source == source.name);
            // Where nothing happens nothing is recorded, but that it was watched is known.
            if let Some(until) = watched.map(|position| position.at).max().filter(|until| *until > to) {
                writeln!(out, "  watched until {until}, with nothing to record after that")?;
            }
        }
        if source.times_inferred {
            writeln!(out, "  times inferred: the input had none of its own")?;
        }
        let mut rows = vec![["KIND", "CHANGES", "OBJECTS", "ALIVE", "SIZE", "PACKED"].map(str::to_owned)];
        for kind in &source.kinds {
            let (objects, alive) = match kind.objects {
                Some((objects, alive)) => (grouped(objects), grouped(alive)),
                None => ("-".to_owned(), "-".to_owned()),
            };
            rows.push([
                kind.kind.to_string(),
                grouped(kind.changes),
                objects,
                alive,
                bytes(kind.raw_bytes),
                bytes(kind.packed_bytes),
            ]);
        }
        write_columns(out, &rows)?;
    }
    writeln!(out)?;
    if gaps.is_empty() {
        writeln!(out, "no gaps")?;
    } else {
        writeln!(out, "{HEADING}{}{HEADING:#}", counted(gaps.len() as u64, "gap"))?;
    }
    for together in gathered(gaps) {
        let from = together.iter().map(|gap| gap.from).min().unwrap_or_default();
        let to = together.iter().map(|gap| gap.to).max().unwrap_or_default();
        let mut kinds: Vec<String> =
            together.iter().flat_map(|gap| &gap.kinds).map(|kind| kind.to_string()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let more = kinds.len().saturating_sub(KINDS_SHOWN);
        kinds.truncate(KINDS_SHOWN);
        let kinds = match (&kinds[..], more) {
            ([], _) => "all kinds".to_owned(),
            (kinds, 0) => kinds.join(", "),
            (kinds, more) => format!("{} and {}", kinds.join(", "), counted(more as u64, "more kind")),
        };
        let why = &together[0].why;
        let like = if together.iter().all(|gap| gap.why == *why) { "" } else { ", and the like" };
        match together[0].is_open() {
            true => writeln!(out, "  since {from}, {kinds}: {why}{like}")?,
            false => {
                writeln!(out, "  {from} to {to} ({}), {kinds}: {why}{like}", span(to.nanos_since(from)))?;
            }
        }
    }
    Ok(())
}

/// Kinds that a line about gaps names.
const KINDS_SHOWN: usize = 4;

/// Versions differ from kind to kind.
fn without_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Gaps that were one for whoever was there: a server that is away is away for all kinds.
fn gathered(gaps: &[Gap]) -> Vec<Vec<&Gap>> {
    const MOMENT: i64 = 2_000_000_000;
    let mut groups: Vec<Vec<&Gap>> = Vec::new();
    for gap in gaps {
        let fits = |group: &&mut Vec<&Gap>| {
            let first = group[0];
            first.source == gap.source
                && without_digits(&first.why) == without_digits(&gap.why)
                && first.kinds.is_empty() == gap.kinds.is_empty()
                && gap.from.nanos_since(first.from).abs() < MOMENT
                && gap.to.nanos_since(first.to).abs() < MOMENT
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(gap),
            None => groups.push(vec![gap]),
        }
    }
    groups
}

/// The first column to the left, numbers to the right, as narrow as it goes: terminals have 80 columns.
fn write_columns(out: &mut Out, rows: &[[String; 6]]) -> anyhow::Result<()> {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    for row in rows {
        write!(out, "{:<1$}", row[0], width(0))?;
        for (column, cell) in row.iter().enumerate().skip(1) {
            write!(out, "  {cell:>0$}", width(column))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
