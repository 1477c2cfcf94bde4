//! The export of a history, or a part of it, to another format.

use std::collections::HashSet;

use formats::sktrace::TracerConfig;
use formats::{Writer, audit, kai_snapshot};
use history::Selection;
use kubernetes::anonymize::Anonymizer;
use kubernetes::kinds::is_secret;
use kubernetes::selector::{Selector, matches_labels};
use model::{Change, Gap, Key, Kind, Moment, Object, ObjectVersion, What, Window};

use super::{OpenHistory, count_changes};

/// The part of a history that is exported.
#[derive(Clone, Copy)]
pub enum ExportScope {
    /// The cluster at a moment.
    Moment(Moment),
    /// The changes in a window.
    Changes(Window),
    /// The cluster at the beginning of a window, then the changes in it.
    StateAndChanges(Window),
    /// All changes up to the window's end, for formats that derive the window's state from the past.
    WindowAndPast(Window),
}

/// A stream of changes from a history to a format's writer.
pub struct ExportStream<'a> {
    /// The history.
    pub open_history: &'a OpenHistory,
    /// The part of it to export.
    pub scope: ExportScope,
    /// The kinds, namespaces and sources to export.
    pub selection: Selection,
    /// Only objects that match this selector.
    pub labels: Option<Selector>,
    /// Namespaces to leave out.
    pub excluded_namespaces: Vec<String>,
    /// Objects that match one of these selectors are left out.
    pub excluded_labels: Vec<Selector>,
    /// Replaces names, if set.
    pub anonymizer: Option<Anonymizer>,
    /// Whether to export the recorded scheduler settings, whatever the other filters.
    pub with_settings: bool,
    /// Whether to export Secrets. Imported histories have them; they are exported only on request.
    pub with_secrets: bool,
    /// Whether to export the writes of audit logs. They are not objects of the cluster, and name users.
    pub with_audit_logs: bool,
}

/// The objects exported besides the changes of the window, and the changes left out.
#[derive(Clone, Copy, Default)]
pub struct ExportSummary {
    /// Objects that existed at the moment, or at the beginning of the window.
    pub initial_objects: u64,
    /// Changes of Secrets that were left out.
    pub secrets_left_out: u64,
    /// Writes of audit logs that were left out.
    pub audit_events_left_out: u64,
}

/// Filters changes. As in a watch with a label selector, an object that no longer matches counts as deleted.
struct ExportFilter<'a> {
    stream: &'a ExportStream<'a>,
    matching: HashSet<Key>,
    summary: ExportSummary,
}

// === impl ExportStream ===

impl<'a> ExportStream<'a> {
    /// A stream of this part of a history, without filters.
    pub fn new(open_history: &'a OpenHistory, scope: ExportScope) -> ExportStream<'a> {
        ExportStream {
            open_history,
            scope,
            selection: Selection::default(),
            labels: None,
            excluded_namespaces: Vec::new(),
            excluded_labels: Vec::new(),
            anonymizer: None,
            with_settings: false,
            with_secrets: false,
            with_audit_logs: false,
        }
    }

    /// Writes the stream to a writer. `step` is called for every change read, and aborts the export with an error.
    pub fn write_to(
        &self,
        writer: &mut dyn Writer,
        mut step: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<ExportSummary> {
        let mut filter =
            ExportFilter { stream: self, matching: HashSet::new(), summary: ExportSummary::default() };
        let window = match self.scope {
            ExportScope::Moment(moment) => {
                for change in self.state_at(moment)? {
                    if let Some(change) = filter.apply(change) {
                        writer.change(&self.anonymized(change))?;
                        filter.summary.initial_objects += 1;
                    }
                }
                if self.with_settings && self.anonymizer.is_none() {
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
            ExportScope::Changes(window) => {
                // Objects that match already must be known, so that they can be deleted when they stop matching.
                if filter.has_label_selectors() && window.from > Window::ALL.from {
                    for change in self.state_at(window.from.plus_nanos(-1))? {
                        let _ = filter.apply(change);
                    }
                    filter.summary = ExportSummary::default();
                }
                window
            }
            ExportScope::StateAndChanges(window) => {
                for change in self.state_at(window.from)? {
                    if let Some(change) = filter.apply(change) {
                        writer.change(&self.anonymized(change))?;
                        filter.summary.initial_objects += 1;
                    }
                }
                Window { from: window.from.plus_nanos(1), ..window }
            }
            ExportScope::WindowAndPast(window) => Window { from: Window::ALL.from, ..window },
        };
        let mut gaps = self.gaps(window)?.into_iter().peekable();
        for change in self.open_history.history.between(window, &self.selection)? {
            let change = change?;
            while let Some(gap) = gaps.next_if(|gap| gap.from <= change.at) {
                writer.gap(&gap)?;
            }
            step()?;
            if let Some(change) = filter.apply(change) {
                writer.change(&self.anonymized(change))?;
            }
        }
        for gap in gaps {
            writer.gap(&gap)?;
        }
        Ok(filter.summary)
    }

    /// The recorded scheduler settings. They hold words that an anonymizer must not change, and some that it should:
    /// they are left out of anonymized exports.
    pub fn settings_at(&self, at: Moment) -> anyhow::Result<Vec<Change>> {
        let kinds = Some(settings_kinds().to_vec());
        let all = Selection { kinds, source: self.selection.source.clone(), ..Selection::default() };
        let settings = self.open_history.history.at(at, &all)?.into_objects();
        Ok(settings.into_iter().map(|version| as_added(version, at)).collect())
    }

    /// The number of changes in the whole history.
    pub fn total_changes(&self) -> anyhow::Result<u64> {
        Ok(count_changes(&self.open_history.history.summary()?))
    }

    /// The state at a moment, as additions at that moment.
    fn state_at(&self, at: Moment) -> anyhow::Result<impl Iterator<Item = Change>> {
        let mut state = self.open_history.history.at(at, &self.selection)?.into_objects();
        if !matches!(self.scope, ExportScope::Moment(_)) {
            state.sort_unstable_by_key(|version| version.seq);
        }
        Ok(state.into_iter().map(move |version| as_added(version, at)))
    }

    fn gaps(&self, window: Window) -> anyhow::Result<Vec<Gap>> {
        let mut gaps = self.open_history.history.gaps()?;
        gaps.retain(|gap| {
            gap.from < window.to
                && window.from <= gap.to
                && self.selection.source.as_ref().is_none_or(|source| *source == gap.source)
        });
        if let Some(masks) = &self.anonymizer {
            gaps = gaps.iter().map(|gap| masks.gap(gap)).collect();
        }
        Ok(gaps)
    }

    fn anonymized(&self, change: Change) -> Change {
        match &self.anonymizer {
            Some(masks) => Change { key: masks.key(&change.key), what: masks.what(&change.what), ..change },
            None => change,
        }
    }

    fn matches_label_selectors(&self, object: &Object) -> bool {
        self.labels.as_ref().is_none_or(|labels| matches_labels(object, labels))
            && !self.excluded_labels.iter().any(|labels| matches_labels(object, labels))
    }
}

// === impl ExportFilter ===

impl ExportFilter<'_> {
    fn has_label_selectors(&self) -> bool {
        self.stream.labels.is_some() || !self.stream.excluded_labels.is_empty()
    }

    fn apply(&mut self, change: Change) -> Option<Change> {
        let stream = self.stream;
        if !stream.with_secrets && is_secret(&change.key.kind) {
            self.summary.secrets_left_out += 1;
            return None;
        }
        if !stream.with_audit_logs && change.key.kind == audit::kind() {
            self.summary.audit_events_left_out += 1;
            return None;
        }
        // Settings are exported separately; see `settings_at`.
        if (stream.anonymizer.is_some() || stream.with_settings)
            && settings_kinds().contains(&change.key.kind)
        {
            return None;
        }
        if stream.excluded_namespaces.iter().any(|namespace| **namespace == *change.key.namespace) {
            return None;
        }
        if !self.has_label_selectors() {
            return Some(change);
        }
        let was_inside = self.matching.contains(&change.key);
        match &change.what {
            What::Deleted(_) => self.matching.remove(&change.key).then_some(change),
            what if stream.matches_label_selectors(what.object()) => {
                self.matching.insert(change.key.clone());
                Some(change)
            }
            what if was_inside => {
                self.matching.remove(&change.key);
                let what = What::Deleted(what.object().clone());
                Some(Change { what, inferred: true, ..change })
            }
            _ => None,
        }
    }
}

/// A version as an addition at a moment.
fn as_added(version: ObjectVersion, at: Moment) -> Change {
    let ObjectVersion { seq, key, object, .. } = version;
    Change { seq, at, seen: at, key, what: What::Added(object), inferred: false }
}

/// The kinds that hold schedulers' settings and are not objects of a cluster.
fn settings_kinds() -> [Kind; 3] {
    [
        Kind::new("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration"),
        Kind::of(kai_snapshot::SETTINGS_API_VERSION, kai_snapshot::SETTINGS_KIND),
        TracerConfig::kind(),
    ]
}
