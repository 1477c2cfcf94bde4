//! A history of a virtual cluster, written while it runs: every change of its store, at the time of its clock, by the
//! rules of the recorder.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use apiserver::{MemoryStore, Store, StoreEvent, resource_version_of};
use history::{Batch, Writer};
use kubernetes::change_filter::{self, ChangeFilter, FilterOptions, FilterVerdict, RedactKey};
use kubernetes::event_conversion::converted_event;
use kubernetes::recording::{DEFAULT_KINDS, EXCLUDED_OBJECTS, kinds_of};
use kubernetes::selector::FieldSelector;
use model::{IncomingChange, Key, Kind, Moment, Object, What};
use serde_json::json;

/// The history that a cluster is recorded into.
#[derive(Clone, Debug)]
pub struct RecordingOptions {
    /// The file, which must not exist.
    pub path: PathBuf,
    /// The name of the cluster in it.
    pub source: Arc<str>,
    /// The key by which values of environment variables are replaced with tokens; `None`: they are written unchanged.
    pub redaction: Option<RedactKey>,
    /// Configurations, such as the scheduler's, that are recorded as objects.
    pub settings: Vec<Object>,
}

/// The recording of a cluster.
pub(crate) struct ClusterRecording {
    writer: Writer,
    source: Arc<str>,
    filter: ChangeFilter,
    kinds: HashSet<Kind>,
    /// Which objects of some kinds are recorded.
    selectors: Vec<(Kind, FieldSelector)>,
    /// The objects that exist according to the history.
    objects: BTreeMap<Key, Object>,
    /// Changes that are not written yet.
    changes: Vec<IncomingChange>,
    /// The error that ended it.
    failure: Option<history::Error>,
}

// === impl ClusterRecording ===

impl ClusterRecording {
    /// Creates the history.
    pub(crate) fn create(
        options: RecordingOptions,
        store: &MemoryStore,
    ) -> history::Result<ClusterRecording> {
        let RecordingOptions { path, source, redaction, settings } = options;
        let mut recording = ClusterRecording {
            writer: Writer::open(&path)?,
            source,
            filter: ChangeFilter::new(FilterOptions { redact: redaction }),
            kinds: kinds_of(DEFAULT_KINDS).collect(),
            selectors: EXCLUDED_OBJECTS.iter().map(selector_of_kept).collect(),
            objects: BTreeMap::new(),
            changes: Vec::new(),
            failure: None,
        };
        let version = json!({
            "apiVersion": "kinescope.io/v1", "kind": "ServerVersion", "metadata": {"name": "version"},
            "version": {"gitVersion": store.git_version()},
        });
        let version = Object::from_trusted(version.to_string());
        for object in [version].into_iter().chain(settings) {
            let change = IncomingChange::received(store.now(), &recording.source, What::Added(object));
            recording.changes.push(IncomingChange { inferred: true, ..change });
        }
        Ok(recording)
    }

    /// A change of the store.
    pub(crate) fn observe(&mut self, now: Moment, event: &StoreEvent) {
        let Some(object) = self.recorded_form(&event.kind, &event.new) else { return };
        let key = object.key(&self.source);
        let known = self.objects.get(&key);
        // A list may have shown it already.
        let is_known = known.is_some_and(|known| resource_version_of(known) >= event.version);
        let what = match (event.is_deletion, known) {
            (true, None) => return,
            (true, Some(_)) => What::Deleted(object),
            (false, _) if is_known => return,
            (false, Some(_)) => What::Modified(object),
            (false, None) => What::Added(object),
        };
        self.record(now, key, what);
    }

    /// The objects that exist now, at the start and after a reset.
    pub(crate) fn observe_all(&mut self, now: Moment, store: &MemoryStore) {
        let mut existing: BTreeMap<Key, Object> = BTreeMap::new();
        for kind in store.kinds() {
            let objects = store.objects(&kind);
            let recorded = objects.iter().filter_map(|object| self.recorded_form(&kind, object));
            existing.extend(recorded.map(|object| (object.key(&self.source), object)));
        }
        let gone: Vec<(Key, Object)> =
            self.objects.iter().filter(|(key, _)| !existing.contains_key(key)).map(cloned).collect();
        for (key, object) in gone {
            self.record(now, key, What::Deleted(object));
        }
        for (key, object) in existing {
            match self.objects.get(&key) {
                Some(known) if known.as_str() == object.as_str() => {}
                Some(_) => self.record(now, key, What::Modified(object)),
                None => self.record(now, key, What::Added(object)),
            }
        }
    }

    fn record(&mut self, now: Moment, key: Key, what: What) {
        match &what {
            What::Deleted(_) => drop(self.objects.remove(&key)),
            What::Added(object) | What::Modified(object) => {
                self.objects.insert(key.clone(), object.clone());
            }
        }
        let sanitized = change_filter::sanitize(what.object().clone(), &key.kind, None);
        let Some(what) = sanitized.map(|object| what.with_object(object)) else { return };
        match self.filter.filter(&key, &what) {
            FilterVerdict::Keep(what) => {
                self.changes.push(IncomingChange { seen: now, key, what, inferred: false });
            }
            FilterVerdict::Drop(_) => {}
        }
    }

    /// The object as a recorder would see it; `None` if its kind is not recorded.
    fn recorded_form(&self, kind: &Kind, object: &Object) -> Option<Object> {
        let is_event = &*kind.kind == "Event" && kind.group.is_empty();
        if is_event {
            let event = converted_event(object.value().ok()?, "events.k8s.io");
            return Object::parse(&event.to_string()).ok();
        }
        let is_selected = |object: &Object| {
            let mut selectors = self.selectors.iter().filter(|(selected, _)| selected == kind);
            selectors.all(|(_, selector)| object.value().is_ok_and(|value| selector.matches(&value)))
        };
        (self.kinds.contains(kind) && is_selected(object)).then(|| object.clone())
    }

    /// Writes the changes observed so far. After an error nothing more is written.
    pub(crate) fn write(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() || self.failure.is_some() {
            return;
        }
        self.failure = self.writer.append(Batch { changes, ..Batch::default() }).err();
    }

    /// Writes what is left and closes the file.
    pub(crate) fn close(mut self) -> history::Result<()> {
        self.write();
        let closed = self.writer.close();
        self.failure.map_or(closed, Err)
    }
}

fn selector_of_kept((group, kind, kept): &(&str, &str, &str)) -> (Kind, FieldSelector) {
    let kind = Kind::new(group, kind);
    let selector = FieldSelector::parse(kept, &kind).expect("the recorder sends it to API servers");
    (kind, selector)
}

fn cloned((key, object): (&Key, &Object)) -> (Key, Object) {
    (key.clone(), object.clone())
}
