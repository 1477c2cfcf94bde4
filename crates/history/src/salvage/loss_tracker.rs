//! Losses: missing sequence numbers, turned into gaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Gap, Moment};

use super::page_scan::PruneRecord;
use crate::frame::MAX_FRAME_VERSIONS;

const WHY: &str = "lost because the file was damaged";
/// The changes of a lost block are interleaved with those of other kinds: losses this close to each other become one
/// gap.
const MERGE_DISTANCE: i64 = MAX_FRAME_VERSIONS as i64;

/// Follows the salvaged changes in order and collects losses.
pub(super) struct LossTracker {
    pruned: Option<PruneRecord>,
    /// Blocks known to have existed: last sequence number by first, without overlaps.
    lost_blocks: BTreeMap<i64, i64>,
    sources: BTreeMap<Arc<str>, SourceProgress>,
    last: Option<(i64, Moment)>,
    lost: Vec<(i64, i64)>,
    gaps: Vec<Gap>,
}

/// Progress within one source.
struct SourceProgress {
    /// Its first and last moment, if the file still has them.
    first_at: Option<Moment>,
    last_at: Option<Moment>,
    last: Option<Moment>,
    open: Option<OpenGap>,
}

/// A gap that may still be extended.
struct OpenGap {
    from: Moment,
    /// The first moment of the source after the last loss.
    to: Option<Moment>,
    /// The last missing sequence number.
    last: i64,
}

// === impl LossTracker ===

impl LossTracker {
    pub(super) fn new(pruned: Option<PruneRecord>, lost_blocks: BTreeMap<i64, i64>) -> LossTracker {
        LossTracker {
            pruned,
            lost_blocks,
            sources: BTreeMap::new(),
            last: None,
            lost: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Registers a source before the first change.
    pub(super) fn add_source(&mut self, name: &Arc<str>, first_at: Option<Moment>, last_at: Option<Moment>) {
        self.sources.insert(name.clone(), SourceProgress { first_at, last_at, last: None, open: None });
    }

    /// Takes the next salvaged change.
    pub(super) fn next_change(&mut self, source: &Arc<str>, seq: i64, at: Moment) {
        // Sequence numbers start at 1.
        let next = self.last.map_or(1, |(last, _)| last.saturating_add(1));
        if next < seq && !self.is_pruned(next, seq - 1, at) {
            self.record_loss(next, seq - 1, at);
        }
        self.last = Some((seq, at));
        let progress = self.sources.entry(source.clone()).or_insert(SourceProgress {
            first_at: None,
            last_at: None,
            last: None,
            open: None,
        });
        // A source that begins here has lost nothing before. The beginning of a pruned source is unknown.
        let is_pruned = self.pruned.is_some_and(|pruning| at <= pruning.begins);
        if progress.last.is_none() && progress.first_at == Some(at) && !is_pruned {
            progress.open = None;
        }
        progress.last = Some(at);
        if let Some(open) = &mut progress.open {
            open.to.get_or_insert(at);
        }
    }

    /// Returns the ranges of lost sequence numbers, and the gaps.
    pub(super) fn finish(mut self) -> (Vec<(i64, i64)>, Vec<Gap>) {
        let next = self.last.map_or(1, |(last, _)| last.saturating_add(1));
        if let Some(last_lost) =
            self.lost_blocks.values().last().copied().filter(|last_lost| *last_lost >= next)
        {
            let end = self.last.map_or(Moment::MIN, |(_, at)| at);
            self.record_loss(next, last_lost, end);
        }
        let is_whole = self.lost.is_empty() && self.last.is_some();
        for (name, progress) in &mut self.sources {
            // Pruning also removes the last changes of a source, even all of them; but so does damage.
            let is_pruned = |end: Moment| {
                self.pruned.is_some_and(|pruning| end <= pruning.begins)
                    && (is_whole || progress.last.is_some())
            };
            // The last change of the source was not salvaged.
            let is_missing = |end: &Moment| progress.last.is_none_or(|last| last < *end) && !is_pruned(*end);
            let end = progress.last_at.filter(is_missing);
            if let Some(end) = end
                && progress.open.as_ref().is_none_or(|open| open.to.is_some())
            {
                let from = progress.last.or(progress.first_at).unwrap_or(end);
                self.gaps.extend(progress.open.take().map(|open| open.gap(name, end)));
                progress.open = Some(OpenGap { from, to: None, last: i64::MAX });
            }
            let end = progress.last_at.max(progress.last);
            self.gaps.extend(progress.open.take().map(|open| {
                let end = end.unwrap_or(open.from);
                open.gap(name, end)
            }));
        }
        // A loss before the beginning of a pruned history becomes a gap at its beginning.
        let pruned_to = self.pruned.map_or(Moment::MIN, |pruning| pruning.begins);
        for gap in self.gaps.iter_mut().filter(|gap| gap.from <= pruned_to) {
            gap.to = gap.to.max(pruned_to);
        }
        (self.lost, self.gaps)
    }

    /// Whether pruning explains that these sequence numbers are missing before a change at `after`.
    fn is_pruned(&self, first: i64, last: i64, after: Moment) -> bool {
        let Some(pruning) = self.pruned else { return false };
        pruning.last_seq.is_none_or(|last_seq| last <= last_seq)
            // Objects alive at the beginning have older changes: if there are none, they were rather lost.
            && self.last.map_or(after, |(_, at)| at) <= pruning.begins
            && self.lost_blocks.range(..=last).next_back().is_none_or(|(_, end)| *end < first)
    }

    /// Records lost sequence numbers; `after` is the moment of the change that follows them. Their source is unknown.
    fn record_loss(&mut self, first: i64, last: i64, after: Moment) {
        self.lost.push((first, last));
        let before = self.last.map_or(after, |(_, at)| at.min(after));
        let pruned_to = self.pruned.map_or(Moment::MIN, |pruning| pruning.begins);
        for (name, progress) in &mut self.sources {
            if let Some(open) = &mut progress.open {
                if first.saturating_sub(open.last) <= MERGE_DISTANCE || open.to.is_none() {
                    (open.last, open.to) = (last, None);
                    continue;
                }
                self.gaps.push(open.gap(name, before));
            }
            let from = match (progress.last, progress.first_at) {
                // The source is known to have ended.
                (Some(at), _) if progress.last_at == Some(at) => continue,
                (Some(at), _) => at,
                (None, Some(first_at)) if first_at > pruned_to => first_at,
                (None, first_at) => first_at.map_or(before, |first_at| first_at.min(before)),
            };
            progress.open = Some(OpenGap { from, to: None, last });
        }
    }
}

// === impl OpenGap ===

impl OpenGap {
    fn gap(&self, source: &Arc<str>, end: Moment) -> Gap {
        let to = self.to.unwrap_or(end).max(self.from);
        Gap { source: source.clone(), kinds: Vec::new(), from: self.from, to, why: WHY.to_owned() }
    }
}
