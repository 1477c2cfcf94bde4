//! Salvage: copies everything readable from a damaged history into a new one.
//!
//! It does not use SQLite, which rejects a file with one wrong byte in the wrong place. It scans every page for
//! frames and rows, which have their own checksums, so that only data that was written is salvaged.

mod loss_tracker;
mod page_scan;
mod seq_set;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use model::{ContentHash, IncomingChange, Key, Kind, Meta, Moment, Object};

use crate::bulk_writer::BulkWriter;
use crate::error::{Error, Result};
use crate::frame::MAX_OBJECT_BYTES;
use crate::lock::WriterLock;
use crate::pages::Pages;
use crate::schema;
use loss_tracker::LossTracker;
use page_scan::{FragmentKind, PageScan, PruneRecord, SalvagedChange};

/// Result of a salvage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageReport {
    /// Number of changes salvaged.
    pub changes: u64,
    /// Sequence numbers of lost changes, as inclusive ranges. Changes lost at the very end may not be included.
    pub lost: Vec<(i64, i64)>,
    /// Number of gaps added for lost changes; the gaps of the damaged history are copied as well.
    pub gaps: usize,
    /// Further remarks for the user.
    pub notes: Vec<String>,
}

/// Whether a file contains any data of a history. For files that cannot be opened as one.
pub fn has_salvageable_data(path: &Path) -> bool {
    Pages::open(path).is_ok_and(|pages| !PageScan::scan(&pages).trusted_source_names.is_empty())
}

/// Writes every readable change and gap of the history at `damaged` to a new history at `into`; the damaged one is
/// not changed. Changes keep their sequence numbers and moments; lost changes become gaps.
pub fn salvage(damaged: &Path, into: &Path) -> Result<SalvageReport> {
    if schema::exists(into)? {
        return Err(Error::Exists(into.to_owned()));
    }
    // If no lock file can be created, no writer can exist either.
    let _lock = match WriterLock::take(damaged) {
        Err(error @ Error::Busy { .. }) => return Err(error),
        other => other.ok(),
    };
    let pages = Pages::open(damaged)?;
    let mut page_scan = PageScan::scan(&pages);
    if page_scan.trusted_source_names.is_empty() {
        let why = "no readable data found".to_owned();
        return Err(Error::NotAHistory { path: damaged.to_owned(), why });
    }
    let mut bulk = BulkWriter::open(into)?;
    let mut notes = Vec::new();
    let pruning = page_scan.pruning();
    let mut losses = LossTracker::new(pruning, page_scan.lost_blocks());
    for name in &page_scan.trusted_source_names {
        let copies = || page_scan.sources.iter().filter(|copy| copy.name == *name);
        // If two copies differ, the narrower time range is used.
        let first_at = copies().filter_map(|copy| copy.first_at).max();
        let last_at = copies().filter_map(|copy| copy.last_at).min();
        losses.add_source(name, first_at, last_at);
        if copies().next().is_none() {
            notes.push(format!("source {name}: unknown whether its times were inferred"));
        } else if copies().any(|copy| copy.inferred) {
            bulk.mark_times_inferred(name)?;
        }
    }
    let mut end: Option<(i64, Moment)> = None;
    let mut due = pruning;
    for_each_in_order(&mut page_scan, |observed, seq, at| {
        // Changes after the prune were not removed by it.
        if let Some(end) = end
            && let Some(pruning) = due.take_if(|pruning| pruning.last_seq.is_some_and(|last| last < seq))
        {
            mark_pruned(&mut bulk, pruning, end)?;
        }
        bulk.push_with_seq(observed, seq, at)?;
        losses.next_change(&observed.key.source, seq, at);
        end = Some((seq, at.max(end.map_or(at, |(_, end)| end))));
        Ok(())
    })?;
    if let (Some(pruning), Some(end)) = (due, end) {
        mark_pruned(&mut bulk, pruning, end)?;
    }
    for gap in page_scan.gaps() {
        bulk.push_gap(&gap)?;
    }
    let (lost, gaps) = losses.finish();
    for gap in &gaps {
        bulk.push_gap(gap)?;
    }
    if pages.wal_is_damaged {
        notes.push("the write-ahead log is damaged: the last changes may be lost".to_owned());
    }
    if gaps.is_empty() && lost.is_empty() && !pages.wal_is_damaged {
        for position in page_scan.positions() {
            bulk.push_position(&position)?;
        }
    } else {
        // A relist finds the current state that the lost changes led to.
        notes
            .push("watch positions were not copied: recording resumes with a list of all objects".to_owned());
    }
    Ok(SalvageReport { changes: bulk.finish()?, lost, gaps: gaps.len(), notes })
}

/// Records the prune; `end` is the last sequence number and the latest moment found.
fn mark_pruned(
    bulk: &mut BulkWriter,
    pruning: PruneRecord,
    (last_seq, last_at): (i64, Moment),
) -> Result<()> {
    // A history begins no later than it ends.
    let start = pruning.begins.min(last_at);
    bulk.mark_pruned(start, pruning.last_seq.map_or(last_seq, |stored_seq| stored_seq.max(last_seq)))
}

/// Calls a function with every salvaged change, in order, without duplicates. Only fragments with interleaving
/// sequence numbers are open at a time.
fn for_each_in_order(
    page_scan: &mut PageScan<'_>,
    mut each: impl FnMut(&IncomingChange, i64, Moment) -> Result<()>,
) -> Result<()> {
    let mut pieces = std::mem::take(&mut page_scan.fragments).into_iter().enumerate().peekable();
    let mut open: BTreeMap<(i64, FragmentKind, usize), VecDeque<SalvagedChange>> = BTreeMap::new();
    let mut last_seq = None;
    let mut end_by_source: HashMap<Arc<str>, Moment> = HashMap::new();
    loop {
        let next = open.first_key_value().map(|((seq, ..), _)| *seq);
        if let Some((index, piece)) = pieces.next_if(|(_, piece)| next.is_none_or(|next| piece.first <= next))
        {
            let versions = VecDeque::from(page_scan.open(&piece));
            if let Some(first) = versions.front() {
                open.insert((first.row.seq, piece.kind, index), versions);
            }
            continue;
        }
        let Some(((seq, form, index), mut versions)) = open.pop_first() else { return Ok(()) };
        let Some(version) = versions.pop_front() else { continue };
        if let Some(next) = versions.front() {
            open.insert((next.row.seq, form, index), versions);
        }
        let at = version.row.at;
        // Times never decrease within a source; a change that violates this belongs to an earlier file on these
        // pages.
        let is_behind = end_by_source.get(&version.source).is_some_and(|end| at < *end);
        if last_seq == Some(seq) || is_behind {
            continue;
        }
        if let Some(observed) = incoming_change(version) {
            each(&observed, seq, at)?;
            last_seq = Some(seq);
            end_by_source.insert(observed.key.source, at);
        }
    }
}

/// The change, if its object matches its hash and kind.
fn incoming_change(version: SalvagedChange) -> Option<IncomingChange> {
    let SalvagedChange { row, source, kind, text } = version;
    if text.len() > MAX_OBJECT_BYTES || ContentHash::of(&text).0 as u32 != row.hash {
        return None;
    }
    let meta = Meta::read(&text).ok().filter(|meta| Kind::of(&meta.api_version, &meta.kind) == kind)?;
    let key = Key { source, kind, namespace: (*meta.namespace).into(), name: (*meta.name).into() };
    let what = row.code.what(Object::from_trusted(text.as_str()));
    Some(IncomingChange { seen: row.seen, key, what, inferred: row.code.is_inferred() })
}
