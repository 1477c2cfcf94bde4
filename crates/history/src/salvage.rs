//! Out of a damaged history into a new one, whatever can still be read.
//!
//! It does not go through SQLite, which refuses a file with one wrong byte in the wrong place: it looks at every page for
//! frames and rows, which carry their own checksums, so that nothing comes out that was not put in.

mod losses;
mod numbers;
mod remains;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use model::{ContentHash, Key, Kind, Meta, Moment, Object, Observed};

use crate::bulk::Bulk;
use crate::error::{Error, Result};
use crate::frame::OBJECT_BYTES;
use crate::lock::WriterLock;
use crate::pages::Pages;
use crate::schema;
use losses::Losses;
use remains::{Form, Pruning, Remains, Version};

/// What came out of a damaged history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Changes that were kept.
    pub changes: u64,
    /// The numbers of changes that were not, as runs with both ends. What was lost at the very end may have no number.
    pub lost: Vec<(i64, i64)>,
    /// Times in which something was lost; the new history has them as gaps, beside those it had.
    pub gaps: usize,
    /// What else there is to say, in words.
    pub notes: Vec<String>,
}

/// Whether there is anything in a file that only a history has. For a file that SQLite, or we, cannot open as one.
pub fn has_remains(path: &Path) -> bool {
    Pages::open(path).is_ok_and(|pages| !Remains::find(&pages).named.is_empty())
}

/// Makes a new history at `into` of every change and gap that can be read of the one at `damaged`, which stays as it
/// is. Changes keep their numbers and their moments; what was lost is recorded as missed.
pub fn salvage(damaged: &Path, into: &Path) -> Result<Salvaged> {
    if schema::exists(into)? {
        return Err(Error::Exists(into.to_owned()));
    }
    // Where no lock can be left no one writes.
    let _lock = match WriterLock::take(damaged) {
        Err(error @ Error::Busy { .. }) => return Err(error),
        other => other.ok(),
    };
    let pages = Pages::open(damaged)?;
    let mut remains = Remains::find(&pages);
    if remains.named.is_empty() {
        let why = "nothing of a history can be read from it".to_owned();
        return Err(Error::NotOurs { path: damaged.to_owned(), why });
    }
    let mut bulk = Bulk::into(into)?;
    let mut notes = Vec::new();
    let pruning = remains.pruning();
    let mut losses = Losses::new(pruning, remains.lost_blocks());
    for name in &remains.named {
        let copies = || remains.sources.iter().filter(|copy| copy.name == *name);
        // If two copies differ, the smaller claim stands.
        let first_at = copies().filter_map(|copy| copy.first_at).max();
        let last_at = copies().filter_map(|copy| copy.last_at).min();
        losses.source(name, first_at, last_at);
        if copies().next().is_none() {
            notes.push(format!("whether the times of source {name} were inferred is not known any more"));
        } else if copies().any(|copy| copy.inferred) {
            bulk.note_inferred_times(name)?;
        }
    }
    let mut end: Option<(i64, Moment)> = None;
    let mut due = pruning;
    in_order(&mut remains, |observed, seq, at| {
        // What came after the pruning was not cut by it.
        if let Some(end) = end
            && let Some(pruning) = due.take_if(|pruning| pruning.last_seq.is_some_and(|last| last < seq))
        {
            note_pruned(&mut bulk, pruning, end)?;
        }
        bulk.push_as(observed, seq, at)?;
        losses.pass(&observed.key.source, seq, at);
        end = Some((seq, at.max(end.map_or(at, |(_, end)| end))));
        Ok(())
    })?;
    if let (Some(pruning), Some(end)) = (due, end) {
        note_pruned(&mut bulk, pruning, end)?;
    }
    for gap in remains.gaps() {
        bulk.push_gap(&gap)?;
    }
    let (lost, gaps) = losses.finish();
    for gap in &gaps {
        bulk.push_gap(gap)?;
    }
    if pages.log_is_damaged {
        notes.push("the log beside the file is damaged: the last changes may be lost".to_owned());
    }
    if gaps.is_empty() && lost.is_empty() && !pages.log_is_damaged {
        for position in remains.positions() {
            bulk.push_position(&position)?;
        }
    } else {
        // A new list finds what the lost changes would have told of what is there now.
        notes.push(
            "where watching stood is not kept: recording goes on with a new list of everything".to_owned(),
        );
    }
    Ok(Salvaged { changes: bulk.finish()?, lost, gaps: gaps.len(), notes })
}

/// `end` is the last number and the latest moment that are there.
fn note_pruned(bulk: &mut Bulk, pruning: Pruning, (last_seq, last_at): (i64, Moment)) -> Result<()> {
    // A history begins no later than it ends.
    let begins = pruning.begins.min(last_at);
    bulk.note_pruned(begins, pruning.last_seq.map_or(last_seq, |told| told.max(last_seq)))
}

/// Gives every change that is left, in order, once. Only pieces whose numbers interleave are open at a time.
fn in_order(
    remains: &mut Remains<'_>,
    mut each: impl FnMut(&Observed, i64, Moment) -> Result<()>,
) -> Result<()> {
    let mut pieces = std::mem::take(&mut remains.pieces).into_iter().enumerate().peekable();
    let mut open: BTreeMap<(i64, Form, usize), VecDeque<Version>> = BTreeMap::new();
    let mut last_seq = None;
    let mut ends: HashMap<Arc<str>, Moment> = HashMap::new();
    loop {
        let next = open.first_key_value().map(|((seq, ..), _)| *seq);
        if let Some((index, piece)) = pieces.next_if(|(_, piece)| next.is_none_or(|next| piece.first <= next))
        {
            let versions = VecDeque::from(remains.open(&piece));
            if let Some(first) = versions.front() {
                open.insert((first.row.seq, piece.form, index), versions);
            }
            continue;
        }
        let Some(((seq, form, index), mut versions)) = open.pop_first() else { return Ok(()) };
        let Some(version) = versions.pop_front() else { continue };
        if let Some(next) = versions.front() {
            open.insert((next.row.seq, form, index), versions);
        }
        let at = version.row.at;
        // Within a source time never goes back; what says so is of another file that lay here before.
        let is_behind = ends.get(&version.source).is_some_and(|end| at < *end);
        if last_seq == Some(seq) || is_behind {
            continue;
        }
        if let Some(observed) = observed(version) {
            each(&observed, seq, at)?;
            last_seq = Some(seq);
            ends.insert(observed.key.source, at);
        }
    }
}

/// The change, if its object is what its hash says and of its kind.
fn observed(version: Version) -> Option<Observed> {
    let Version { row, source, kind, text } = version;
    if text.len() > OBJECT_BYTES || ContentHash::of(&text).0 as u32 != row.hash {
        return None;
    }
    let meta = Meta::read(&text).ok().filter(|meta| Kind::of(&meta.api_version, &meta.kind) == kind)?;
    let key = Key { source, kind, namespace: (*meta.namespace).into(), name: (*meta.name).into() };
    let what = row.code.what(Object::trusted(text.as_str()));
    Some(Observed { seen: row.seen, key, what, inferred: row.code.is_inferred() })
}
