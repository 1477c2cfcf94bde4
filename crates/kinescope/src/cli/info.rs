//! `kinescope info`: what is in a history.

use std::io::Write;
use std::path::PathBuf;

use history::{History, Summary};
use model::Gap;
use serde_json::json;

use super::output::{HEADING, Out, bytes, grouped, span};
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
            writeln!(out.data()?, "{:#}", as_json(&history, &summary, &gaps))?;
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
        writeln!(out, "{HEADING}{} gaps{HEADING:#}", grouped(gaps.len() as u64))?;
    }
    for gap in gaps {
        let kinds: Vec<String> = gap.kinds.iter().map(|kind| kind.to_string()).collect();
        let kinds = if kinds.is_empty() { "all kinds".to_owned() } else { kinds.join(", ") };
        writeln!(
            out,
            "  {} to {} ({}), {kinds}: {}",
            gap.from,
            gap.to,
            span(gap.to.nanos_since(gap.from)),
            gap.why
        )?;
    }
    Ok(())
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

fn as_json(history: &History, summary: &Summary, gaps: &[Gap]) -> serde_json::Value {
    json!({
        "history": history.path().display().to_string(),
        "changes": changes(summary),
        "notPackedYet": summary.rows,
        "fileBytes": summary.file_bytes,
        "objectBytes": summary.raw_bytes,
        "blockBytes": summary.block_bytes,
        "keyframeBytes": summary.keyframe_bytes,
        "prunedTo": summary.pruned_to.map(|moment| moment.to_string()),
        "sources": summary.sources.iter().map(|source| json!({
            "name": &*source.name,
            "from": source.span.map(|(from, _)| from.to_string()),
            "to": source.span.map(|(_, to)| to.to_string()),
            "timesInferred": source.times_inferred,
            "kinds": source.kinds.iter().map(|kind| json!({
                "group": &*kind.kind.group,
                "kind": &*kind.kind.kind,
                "changes": kind.changes,
                "objects": kind.objects.map(|(objects, _)| objects),
                "aliveAtEnd": kind.objects.map(|(_, alive)| alive),
                "objectBytes": kind.raw_bytes,
                "packedBytes": kind.packed_bytes,
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "gaps": gaps.iter().map(|gap| json!({
            "source": &*gap.source,
            "kinds": gap.kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>(),
            "from": gap.from.to_string(),
            "to": gap.to.to_string(),
            "why": gap.why,
        })).collect::<Vec<_>>(),
    })
}

fn changes(summary: &Summary) -> u64 {
    summary.sources.iter().flat_map(|source| &source.kinds).map(|kind| kind.changes).sum()
}
