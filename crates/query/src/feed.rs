//! What of a history goes into a file.

use std::collections::HashSet;

use formats::sktrace::TracerConfig;
use formats::{Writer, audit, kai_snapshot};
use history::Selection;
use kubernetes::anonymise::Anonymiser;
use kubernetes::kinds::is_secret;
use kubernetes::selector::Selector;
use model::{Change, Gap, Key, Kind, Moment, Object, Version, What, Window};

use super::{Chosen, changes, has_labels};

/// What a file is to show of a history.
#[derive(Clone, Copy)]
pub enum Shown {
    /// The cluster at a moment.
    Moment(Moment),
    /// What happened in a window.
    Changes(Window),
    /// The cluster as it was when the window begins, then what happened in it.
    StateAndChanges(Window),
    /// All that happened up to the window's end: the format makes of the past what it needs.
    WindowAndPast(Window),
}

/// What is written, of what.
pub struct Feed<'a> {
    /// The history.
    pub chosen: &'a Chosen,
    /// Which part of it.
    pub shown: Shown,
    /// Which kinds, namespaces and sources.
    pub selection: Selection,
    /// Only objects with these labels.
    pub labels: Option<Selector>,
    /// Not these namespaces.
    pub excluded_namespaces: Vec<String>,
    /// Not objects with these labels.
    pub excluded_labels: Vec<Selector>,
    /// Replaces names, if that is wanted.
    pub masks: Option<Anonymiser>,
    /// Whether the recorded settings of schedulers are wanted, whatever objects are chosen.
    pub with_settings: bool,
    /// Whether Secrets are wanted. An import keeps them; they leave the history only if a user asks for them.
    pub with_secrets: bool,
    /// Whether the writes of audit logs are wanted. They are no objects of a cluster, and name users.
    pub with_audit_logs: bool,
}

/// What a writer was given beside the changes of the time that is shown, and what it was not given.
#[derive(Clone, Copy, Default)]
pub struct FeedSummary {
    /// Objects that were there at the moment, or when the window begins.
    pub initial_objects: u64,
    /// Changes of Secrets that were left out.
    pub secrets_left_out: u64,
    /// Writes of audit logs that were left out.
    pub audit_events_left_out: u64,
}

/// Which changes pass the label selectors. As in a watch with a selector, an object that no longer has the labels is
/// gone for those who asked for them.
struct Filter<'a> {
    feed: &'a Feed<'a>,
    inside: HashSet<Key>,
    summary: FeedSummary,
}

// === impl Feed ===

impl<'a> Feed<'a> {
    /// All of a history that is shown.
    pub fn new(chosen: &'a Chosen, shown: Shown) -> Feed<'a> {
        Feed {
            chosen,
            shown,
            selection: Selection::default(),
            labels: None,
            excluded_namespaces: Vec::new(),
            excluded_labels: Vec::new(),
            masks: None,
            with_settings: false,
            with_secrets: false,
            with_audit_logs: false,
        }
    }

    /// Gives a writer all there is. `step` is told of every change of the history that is read, and may end it.
    pub fn all(
        &self,
        writer: &mut dyn Writer,
        mut step: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<FeedSummary> {
        let mut filter = Filter { feed: self, inside: HashSet::new(), summary: FeedSummary::default() };
        let window = match self.shown {
            Shown::Moment(moment) => {
                for change in self.state_at(moment)? {
                    if let Some(change) = filter.pass(change) {
                        writer.change(&self.masked(change))?;
                        filter.summary.initial_objects += 1;
                    }
                }
                if self.with_settings && self.masks.is_none() {
                    for change in self.settings_at(moment)? {
                        writer.change(&change)?;
                        filter.summary.initial_objects += 1;
                    }
                }
                for gap in self.gaps(Window::ALL)? {
                    writer.gap(&gap)?;
                }
                return Ok(filter.summary);
            }
            Shown::Changes(window) => {
                // What has the labels already is told when it loses them.
                if filter.chooses_labels() && window.from > Window::ALL.from {
                    for change in self.state_at(window.from.plus_nanos(-1))? {
                        let _ = filter.pass(change);
                    }
                    filter.summary = FeedSummary::default();
                }
                window
            }
            Shown::StateAndChanges(window) => {
                for change in self.state_at(window.from)? {
                    if let Some(change) = filter.pass(change) {
                        writer.change(&self.masked(change))?;
                        filter.summary.initial_objects += 1;
                    }
                }
                Window { from: window.from.plus_nanos(1), ..window }
            }
            Shown::WindowAndPast(window) => Window { from: Window::ALL.from, ..window },
        };
        let mut gaps = self.gaps(window)?.into_iter().peekable();
        for change in self.chosen.history.between(window, &self.selection)? {
            let change = change?;
            while let Some(gap) = gaps.next_if(|gap| gap.from <= change.at) {
                writer.gap(&gap)?;
            }
            step()?;
            if let Some(change) = filter.pass(change) {
                writer.change(&self.masked(change))?;
            }
        }
        for gap in gaps {
            writer.gap(&gap)?;
        }
        Ok(filter.summary)
    }

    /// The recorded settings of schedulers. They are full of words that an anonymiser must not change, and of some that
    /// it should: where names are made up nobody gets them.
    pub fn settings_at(&self, at: Moment) -> anyhow::Result<Vec<Change>> {
        let kinds = Some(settings_kinds().to_vec());
        let all = Selection { kinds, source: self.selection.source.clone(), ..Selection::default() };
        let settings = self.chosen.history.at(at, &all)?.into_objects();
        Ok(settings.into_iter().map(|version| as_added(version, at)).collect())
    }

    /// The changes of the whole history.
    pub fn total(&self) -> anyhow::Result<u64> {
        Ok(changes(&self.chosen.history.summary()?))
    }

    /// The cluster as it was, as if each object had been added then.
    fn state_at(&self, at: Moment) -> anyhow::Result<impl Iterator<Item = Change>> {
        let mut state = self.chosen.history.at(at, &self.selection)?.into_objects();
        if !matches!(self.shown, Shown::Moment(_)) {
            state.sort_unstable_by_key(|version| version.seq);
        }
        Ok(state.into_iter().map(move |version| as_added(version, at)))
    }

    fn gaps(&self, window: Window) -> anyhow::Result<Vec<Gap>> {
        let mut gaps = self.chosen.history.gaps()?;
        gaps.retain(|gap| {
            gap.from < window.to
                && window.from <= gap.to
                && self.selection.source.as_ref().is_none_or(|source| *source == gap.source)
        });
        if let Some(masks) = &self.masks {
            gaps = gaps.iter().map(|gap| masks.gap(gap)).collect();
        }
        Ok(gaps)
    }

    fn masked(&self, change: Change) -> Change {
        match &self.masks {
            Some(masks) => Change { key: masks.key(&change.key), what: masks.what(&change.what), ..change },
            None => change,
        }
    }

    fn wants_labels(&self, object: &Object) -> bool {
        self.labels.as_ref().is_none_or(|labels| has_labels(object, labels))
            && !self.excluded_labels.iter().any(|labels| has_labels(object, labels))
    }
}

// === impl Filter ===

impl Filter<'_> {
    fn chooses_labels(&self) -> bool {
        self.feed.labels.is_some() || !self.feed.excluded_labels.is_empty()
    }

    fn pass(&mut self, change: Change) -> Option<Change> {
        let feed = self.feed;
        if !feed.with_secrets && is_secret(&change.key.kind) {
            self.summary.secrets_left_out += 1;
            return None;
        }
        if !feed.with_audit_logs && change.key.kind == audit::kind() {
            self.summary.audit_events_left_out += 1;
            return None;
        }
        // Settings go by themselves; see `settings_at`.
        if (feed.masks.is_some() || feed.with_settings) && settings_kinds().contains(&change.key.kind) {
            return None;
        }
        if feed.excluded_namespaces.iter().any(|namespace| **namespace == *change.key.namespace) {
            return None;
        }
        if !self.chooses_labels() {
            return Some(change);
        }
        let was_inside = self.inside.contains(&change.key);
        match &change.what {
            What::Deleted(_) => self.inside.remove(&change.key).then_some(change),
            what if feed.wants_labels(what.object()) => {
                self.inside.insert(change.key.clone());
                Some(change)
            }
            what if was_inside => {
                self.inside.remove(&change.key);
                let what = What::Deleted(what.object().clone());
                Some(Change { what, inferred: true, ..change })
            }
            _ => None,
        }
    }
}

/// A version as if the object had been added then.
fn as_added(version: Version, at: Moment) -> Change {
    let Version { seq, key, object, .. } = version;
    Change { seq, at, seen: at, key, what: What::Added(object), inferred: false }
}

/// What is no object of a cluster but says how its schedulers were set.
fn settings_kinds() -> [Kind; 3] {
    [
        Kind::new("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration"),
        Kind::of(kai_snapshot::SETTINGS_API_VERSION, kai_snapshot::SETTINGS_KIND),
        TracerConfig::kind(),
    ]
}
