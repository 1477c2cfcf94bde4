//! `kinescope info`: the summary of a history.

use std::io::Write;
use std::path::PathBuf;

use history::{History, Summary};
use model::Gap;
use query::{count_changes, summary_as_json};

use super::output::{HEADING, Printer, count_noun, format_bytes, format_duration, group_digits};
use super::{Outcome, history_arg};

const AFTER: &str = "\
Examples:
  kinescope info
  kinescope info prod.kine -o json | jq .changes";

/// Display a summary of a history: time range, kinds, sizes, gaps
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Info {
    /// History to read [default: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
    history: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

impl Info {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let history = History::open(&history_arg::resolve(self.history.as_deref())?)?;
        let (summary, gaps) = (history.summary()?, history.gaps()?);
        if self.output == "json" {
            let json = summary_as_json(&history.path().display().to_string(), &summary, &gaps);
            writeln!(out.data()?, "{json:#}")?;
        } else {
            write_text(out, &history, &summary, &gaps)?;
        }
        Ok(Outcome::Done)
    }
}

fn write_text(out: &mut Printer, history: &History, summary: &Summary, gaps: &[Gap]) -> anyhow::Result<()> {
    let changes = count_changes(summary);
    writeln!(out, "{HEADING}{}{HEADING:#}", history.path().display())?;
    writeln!(
        out,
        "  {}, {}, {:.0} bytes per change ({} of objects)",
        count_noun(changes, "change"),
        format_bytes(summary.file_bytes),
        summary.file_bytes as f64 / changes.max(1) as f64,
        format_bytes(summary.raw_bytes),
    )?;
    if summary.rows > 0 {
        writeln!(out, "  {} not packed yet", count_noun(summary.rows, "change"))?;
    }
    if let Some(moment) = summary.pruned_to {
        writeln!(out, "  pruned: history before {moment} was deleted")?;
    }
    for source in &summary.sources {
        writeln!(out, "\n{HEADING}source {}{HEADING:#}", source.name)?;
        if let Some((from, to)) = source.span {
            writeln!(out, "  {from} to {to} ({})", format_duration(to.nanos_since(from)))?;
            let watched = history.positions()?.into_iter().filter(|position| position.source == source.name);
            // Without changes nothing is recorded, but the watch position shows that the source was watched.
            if let Some(until) = watched.map(|position| position.at).max().filter(|until| *until > to) {
                writeln!(out, "  watched until {until}, no changes after that")?;
            }
        }
        if source.times_inferred {
            writeln!(out, "  times inferred: the input had none")?;
        }
        let mut rows = vec![["KIND", "CHANGES", "OBJECTS", "LIVE", "SIZE", "PACKED"].map(str::to_owned)];
        for kind in &source.kinds {
            let (objects, alive) = match kind.objects {
                Some((objects, alive)) => (group_digits(objects), group_digits(alive)),
                None => ("-".to_owned(), "-".to_owned()),
            };
            rows.push([
                kind.kind.to_string(),
                group_digits(kind.changes),
                objects,
                alive,
                format_bytes(kind.raw_bytes),
                format_bytes(kind.packed_bytes),
            ]);
        }
        write_columns(out, &rows)?;
    }
    writeln!(out)?;
    if gaps.is_empty() {
        writeln!(out, "no gaps")?;
    } else {
        writeln!(out, "{HEADING}{}{HEADING:#}", count_noun(gaps.len() as u64, "gap"))?;
    }
    for together in group_gaps(gaps) {
        let from = together.iter().map(|gap| gap.from).min().unwrap_or_default();
        let to = together.iter().map(|gap| gap.to).max().unwrap_or_default();
        let mut kinds: Vec<String> =
            together.iter().flat_map(|gap| &gap.kinds).map(|kind| kind.to_string()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let more = kinds.len().saturating_sub(MAX_SHOWN_KINDS);
        kinds.truncate(MAX_SHOWN_KINDS);
        let kinds = match (&kinds[..], more) {
            ([], _) => "all kinds".to_owned(),
            (kinds, 0) => kinds.join(", "),
            (kinds, more) => format!("{} and {}", kinds.join(", "), count_noun(more as u64, "more kind")),
        };
        let why = &together[0].why;
        let like = if together.iter().all(|gap| gap.why == *why) { "" } else { ", and similar" };
        match together[0].is_open() {
            true => writeln!(out, "  since {from}, {kinds}: {why}{like}")?,
            false => {
                writeln!(
                    out,
                    "  {from} to {to} ({}), {kinds}: {why}{like}",
                    format_duration(to.nanos_since(from))
                )?;
            }
        }
    }
    Ok(())
}

/// The most kinds named in a line about gaps.
const MAX_SHOWN_KINDS: usize = 4;

/// Removes digits: the reasons of gaps contain resource versions, which differ by kind.
fn without_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Groups gaps of several kinds that have the same cause: an unavailable server is unavailable for all kinds.
fn group_gaps(gaps: &[Gap]) -> Vec<Vec<&Gap>> {
    const MAX_DISTANCE_NANOS: i64 = 2_000_000_000;
    let mut groups: Vec<Vec<&Gap>> = Vec::new();
    for gap in gaps {
        let belongs_to = |group: &&mut Vec<&Gap>| {
            let first = group[0];
            first.source == gap.source
                && without_digits(&first.why) == without_digits(&gap.why)
                && first.kinds.is_empty() == gap.kinds.is_empty()
                && gap.from.nanos_since(first.from).abs() < MAX_DISTANCE_NANOS
                && gap.to.nanos_since(first.to).abs() < MAX_DISTANCE_NANOS
        };
        match groups.iter_mut().find(belongs_to) {
            Some(group) => group.push(gap),
            None => groups.push(vec![gap]),
        }
    }
    groups
}

/// Prints columns as narrow as possible, since terminals have 80 columns: the first aligned left, numbers right.
fn write_columns(out: &mut Printer, rows: &[[String; 6]]) -> anyhow::Result<()> {
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
