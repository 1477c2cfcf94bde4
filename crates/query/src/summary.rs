//! Summaries of a history and its gaps, as JSON and as text.

use history::Summary;
use model::{Gap, Kind};
use serde_json::{Value, json};

/// The summary of a history as JSON.
pub fn summary_as_json(history: &str, summary: &Summary, gaps: &[Gap]) -> Value {
    json!({
        "history": history,
        "changes": count_changes(summary),
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
        "gaps": gaps.iter().map(gap_as_json).collect::<Vec<_>>(),
    })
}

/// A gap as JSON.
pub fn gap_as_json(gap: &Gap) -> Value {
    json!({
        "source": &*gap.source,
        "kinds": gap.kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>(),
        "from": gap.from.to_string(),
        "to": (!gap.is_open()).then(|| gap.to.to_string()),
        "why": gap.why,
    })
}

/// The number of changes in a history.
pub fn count_changes(summary: &Summary) -> u64 {
    summary.sources.iter().flat_map(|source| &source.kinds).map(|kind| kind.changes).sum()
}

/// A gap as a warning to users.
pub fn gap_as_text(gap: &Gap) -> String {
    let kinds: Vec<String> = gap.kinds.iter().map(Kind::to_string).collect();
    let kinds_text = if kinds.is_empty() { String::new() } else { format!(" of {}", kinds.join(", ")) };
    let when = match gap.is_open() {
        true => format!("since {}", gap.from),
        false => format!("from {} to {}", gap.from, gap.to),
    };
    format!("changes{kinds_text} {when} may have been missed: {}", gap.why)
}
