//! What was lost: told from the numbers that are missing, and recorded as missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Gap, Moment};

use super::remains::Pruning;
use crate::frame::FRAME_VERSIONS;

const WHY: &str = "lost to damage of the file";
/// The changes of a lost block lie scattered among those of other kinds: losses this near to each other are one gap.
const NEAR: i64 = FRAME_VERSIONS as i64;

/// Goes along with the changes that are left, in their order.
pub(super) struct Losses {
    pruned: Option<Pruning>,
    /// Blocks that are known to have been there: their last numbers by their first, none overlapping.
    gone: BTreeMap<i64, i64>,
    sources: BTreeMap<Arc<str>, Course>,
    last: Option<(i64, Moment)>,
    lost: Vec<(i64, i64)>,
    gaps: Vec<Gap>,
}

/// How one source goes on.
struct Course {
    /// When it began and ended, as far as the file still says so.
    first_at: Option<Moment>,
    last_at: Option<Moment>,
    last: Option<Moment>,
    open: Option<Open>,
}

/// A gap that may still grow.
struct Open {
    from: Moment,
    /// The first moment of the source behind the last loss.
    to: Option<Moment>,
    /// The last number that is missing.
    last: i64,
}

// === impl Losses ===

impl Losses {
    pub(super) fn new(pruned: Option<Pruning>, gone: BTreeMap<i64, i64>) -> Losses {
        Losses { pruned, gone, sources: BTreeMap::new(), last: None, lost: Vec::new(), gaps: Vec::new() }
    }

    /// Tells of a source before the changes begin.
    pub(super) fn source(&mut self, name: &Arc<str>, first_at: Option<Moment>, last_at: Option<Moment>) {
        self.sources.insert(name.clone(), Course { first_at, last_at, last: None, open: None });
    }

    /// The next change that is left.
    pub(super) fn pass(&mut self, source: &Arc<str>, seq: i64, at: Moment) {
        // Numbers are given out from 1 on.
        let next = self.last.map_or(1, |(last, _)| last.saturating_add(1));
        if next < seq && !self.is_pruned(next, seq - 1, at) {
            self.lose(next, seq - 1, at);
        }
        self.last = Some((seq, at));
        let course = self.sources.entry(source.clone()).or_insert(Course {
            first_at: None,
            last_at: None,
            last: None,
            open: None,
        });
        // A source that begins here has lost nothing before. One that was pruned may have begun any time.
        let is_pruned = self.pruned.is_some_and(|pruning| at <= pruning.begins);
        if course.last.is_none() && course.first_at == Some(at) && !is_pruned {
            course.open = None;
        }
        course.last = Some(at);
        if let Some(open) = &mut course.open {
            open.to.get_or_insert(at);
        }
    }

    /// The runs of numbers that hold what was lost, and the gaps.
    pub(super) fn finish(mut self) -> (Vec<(i64, i64)>, Vec<Gap>) {
        let next = self.last.map_or(1, |(last, _)| last.saturating_add(1));
        if let Some(gone) = self.gone.values().last().copied().filter(|gone| *gone >= next) {
            let end = self.last.map_or(Moment::MIN, |(_, at)| at);
            self.lose(next, gone, end);
        }
        let is_whole = self.lost.is_empty() && self.last.is_some();
        for (name, course) in &mut self.sources {
            // Pruning takes the last changes of a source too, even all of them; but so does damage.
            let is_pruned = |end: Moment| {
                self.pruned.is_some_and(|pruning| end <= pruning.begins)
                    && (is_whole || course.last.is_some())
            };
            // What a source did last is not among what is left.
            let is_missing = |end: &Moment| course.last.is_none_or(|last| last < *end) && !is_pruned(*end);
            let end = course.last_at.filter(is_missing);
            if let Some(end) = end
                && course.open.as_ref().is_none_or(|open| open.to.is_some())
            {
                let from = course.last.or(course.first_at).unwrap_or(end);
                self.gaps.extend(course.open.take().map(|open| open.gap(name, end)));
                course.open = Some(Open { from, to: None, last: i64::MAX });
            }
            let end = course.last_at.max(course.last);
            self.gaps.extend(course.open.take().map(|open| {
                let end = end.unwrap_or(open.from);
                open.gap(name, end)
            }));
        }
        // What is missing before the beginning of a pruned history is missing at its beginning.
        let begins = self.pruned.map_or(Moment::MIN, |pruning| pruning.begins);
        for gap in self.gaps.iter_mut().filter(|gap| gap.from <= begins) {
            gap.to = gap.to.max(begins);
        }
        (self.lost, self.gaps)
    }

    /// Whether pruning explains that these numbers are missing before a change at `after`.
    fn is_pruned(&self, first: i64, last: i64, after: Moment) -> bool {
        let Some(pruning) = self.pruned else { return false };
        pruning.last_seq.is_none_or(|last_seq| last <= last_seq)
            // What is alive where a history begins is older than that: if nothing is, it was rather lost.
            && self.last.map_or(after, |(_, at)| at) <= pruning.begins
            && self.gone.range(..=last).next_back().is_none_or(|(_, end)| *end < first)
    }

    /// These numbers are lost; `after` is the moment of the change behind them. Whose they were nobody knows.
    fn lose(&mut self, first: i64, last: i64, after: Moment) {
        self.lost.push((first, last));
        let before = self.last.map_or(after, |(_, at)| at.min(after));
        let begins = self.pruned.map_or(Moment::MIN, |pruning| pruning.begins);
        for (name, course) in &mut self.sources {
            if let Some(open) = &mut course.open {
                if first.saturating_sub(open.last) <= NEAR || open.to.is_none() {
                    (open.last, open.to) = (last, None);
                    continue;
                }
                self.gaps.push(open.gap(name, before));
            }
            let from = match (course.last, course.first_at) {
                // It is known to have ended.
                (Some(at), _) if course.last_at == Some(at) => continue,
                (Some(at), _) => at,
                (None, Some(first_at)) if first_at > begins => first_at,
                (None, first_at) => first_at.map_or(before, |first_at| first_at.min(before)),
            };
            course.open = Some(Open { from, to: None, last });
        }
    }
}

// === impl Open ===

impl Open {
    fn gap(&self, source: &Arc<str>, end: Moment) -> Gap {
        let to = self.to.unwrap_or(end).max(self.from);
        Gap { source: source.clone(), kinds: Vec::new(), from: self.from, to, why: WHY.to_owned() }
    }
}
