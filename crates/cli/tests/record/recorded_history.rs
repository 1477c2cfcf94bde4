//! A recorded history, and its comparison with the events that the test's own watches saw.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use history::{History, Selection};
use kube::client::Client;
use kubernetes::change_filter::{ChangeFilter, FilterOptions, FilterVerdict};
use model::{Change, Gap, Key, Kind, Moment, Object, What, Window};
use serde_json::Value;

use crate::server::{WatchedEvent, list};

/// The contents of a history.
pub(crate) struct RecordedHistory {
    pub(crate) changes: Vec<Change>,
    pub(crate) gaps: Vec<Gap>,
    /// The objects at its end.
    pub(crate) state: BTreeMap<Key, Object>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComparisonCounts {
    /// Events that happened and that the rules keep.
    pub(crate) happened: usize,
    /// Events that were recorded.
    pub(crate) recorded: usize,
    /// Resource versions that were not recorded, all within gaps.
    pub(crate) missing: Vec<u64>,
    /// Inferred deletions.
    pub(crate) inferred: usize,
    pub(crate) gaps: usize,
}

/// A version of an object: uid, resource version, and whether it is the deletion.
type VersionKey = (String, u64, bool);

/// An event, as it should be recorded.
struct ExpectedChange<'a> {
    event: &'a WatchedEvent,
    /// The object after applying the rules.
    text: Object,
    /// Whether the rules keep it. If the event before was missed the recorder may keep it in its place.
    is_kept: bool,
}

/// Whether the history has, or had, an object of this name.
pub(crate) fn has(path: &Path, kind: &Kind, name: &str) -> bool {
    let names = |history: History| history.names_with_prefix(kind, None, name, 1);
    History::open(path).and_then(names).is_ok_and(|names| names.iter().any(|(_, found)| found == name))
}

/// Whether all these kinds have been listed.
pub(crate) fn has_listed(path: &Path, kinds: &[Kind]) -> bool {
    let positions = History::open(path).and_then(|history| history.positions()).unwrap_or_default();
    let is_listed =
        |kind: &Kind| positions.iter().any(|one| one.kind == *kind && !one.resource_version.starts_with('@'));
    kinds.iter().all(is_listed)
}

/// The kinds that are recorded by default and that every API server has.
pub(crate) fn built_in_kinds() -> Vec<Kind> {
    let kinds = live::default_resources().into_iter().map(|(kind, _)| kind);
    kinds.filter(|kind| kubernetes::kinds::of(kind).is_some()).collect()
}

/// Whether the history is a single file, as it is after closing.
pub(crate) fn is_closed(path: &Path) -> bool {
    let beside = |end: &str| path.with_file_name(format!("{}{end}", path.file_name().unwrap().display()));
    path.exists() && !["-wal", "-shm", ".lock"].iter().any(|end| beside(end).exists())
}

// === impl RecordedHistory ===

impl RecordedHistory {
    /// Reads a history, and checks that its changes are in order.
    pub(crate) fn read(path: &Path) -> RecordedHistory {
        let history = History::open(path).unwrap();
        let all = Selection::default();
        let changes: Vec<Change> =
            history.between(Window::ALL, &all).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(changes.is_sorted_by(|one, next| one.seq < next.seq && one.at <= next.at));
        let state = history.at(Moment::MAX, &all).unwrap().into_objects();
        let state = state.into_iter().map(|version| (version.key, version.object)).collect();
        RecordedHistory { changes, gaps: history.gaps().unwrap(), state }
    }

    pub(crate) fn of<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Change> {
        self.changes.iter().filter(move |change| change.key.kind == *kind)
    }

    pub(crate) fn gaps_of(&self, kind: &Kind) -> Vec<&Gap> {
        self.gaps.iter().filter(|gap| gap.kinds == [kind.clone()]).collect()
    }

    /// Checks for a kind that all events were recorded in order or are within gaps, and nothing else was recorded.
    pub(crate) fn compare(
        &self,
        kind: &Kind,
        seen: &[WatchedEvent],
        rules: Option<&FilterOptions>,
    ) -> ComparisonCounts {
        let expected = expected_changes(kind, seen, rules);
        let by_key: HashMap<VersionKey, &ExpectedChange<'_>> = expected
            .iter()
            .map(|expected| (version_key(&expected.event.object, expected.event.is_delete()), expected))
            .collect();
        let gaps = merge_gaps(&self.gaps_of(kind));
        let mut counts = ComparisonCounts { gaps: self.gaps_of(kind).len(), ..ComparisonCounts::default() };

        let mut recorded: HashMap<VersionKey, &Change> = HashMap::new();
        let mut last_of: HashMap<String, u64> = HashMap::new();
        let mut ended = HashSet::new();
        let mut last = 0;
        for change in self.of(kind) {
            let is_delete = change.what.state().is_none();
            let key = version_key(change.what.object(), is_delete);
            let is_in_gap = gaps.iter().any(|gap| gap.from <= change.seen && change.seen <= gap.to);
            let (uid, version, _) = key.clone();
            assert!(!ended.contains(&uid), "{key:?} was recorded after the object's deletion");
            if is_delete {
                ended.insert(uid.clone());
            }
            if change.inferred {
                let was_deleted = expected
                    .iter()
                    .any(|expected| expected.event.is_delete() && uid_of(&expected.event.object) == uid);
                assert!(
                    is_delete && was_deleted && is_in_gap,
                    "a deletion was inferred that did not happen, or outside of gaps: {change:?}"
                );
                counts.inferred += 1;
                continue;
            }
            let expected = by_key
                .get(&key)
                .unwrap_or_else(|| panic!("the watches did not receive this event: {change:?}"));
            assert_eq!(*change.what.object(), expected.text);
            // A list has only the last version, as ADDED if the first was missed, and in its own order.
            let is_in_order =
                change.what.event_type() == expected.event.event_type && expected.is_kept && version > last;
            assert!(
                is_in_order || expected.event.is_initial() || is_in_gap,
                "{key:?} comes after {last}: {change:?}"
            );
            last = last.max(version);
            let before = last_of.insert(uid, version);
            assert!(before.is_none_or(|before| before < version), "{key:?} comes after {before:?}");
            assert!(recorded.insert(key, change).is_none(), "recorded twice: {change:?}");
            counts.recorded += 1;
        }

        let mut seen_before = Moment::MIN;
        for ExpectedChange { event, is_kept, .. } in &expected {
            let key = version_key(&event.object, event.is_delete());
            if let Some(change) = recorded.get(&key) {
                seen_before = seen_before.max(change.seen);
                counts.happened += usize::from(*is_kept);
                continue;
            }
            if !is_kept {
                continue;
            }
            counts.happened += 1;
            counts.missing.push(key.1);
            // It would have been recorded after it happened, and after the events before it.
            let deadline = event.at.max(seen_before);
            let is_in_gap = gaps.iter().any(|gap| gap.from <= deadline && seen_before <= gap.to);
            assert!(
                is_in_gap,
                "missed outside of gaps: {} {key:?}, expected by {deadline} after {seen_before}; gaps {gaps:?}",
                event.event_type
            );
            if event.is_delete() && last_of.contains_key(&key.0) {
                assert!(ended.contains(&key.0), "the missed deletion of {key:?} was not inferred");
            }
        }
        counts
    }

    /// Checks that the state at the end of the recording is the server's current state.
    pub(crate) async fn check_state(
        &self,
        client: &Client,
        kind: &Kind,
        path: &str,
        rules: Option<&FilterOptions>,
    ) {
        let recorded: BTreeMap<String, Value> = self
            .state
            .iter()
            .filter(|(key, _)| key.kind == *kind)
            .map(|(key, object)| (key.to_string(), comparable_value(object, rules)))
            .collect();
        let mut expected = BTreeMap::new();
        for object in list(client, path).await.1 {
            let key = object.key(&Arc::from("server"));
            let object = rules.map_or(object.clone(), |rules| apply_rules(rules, &key, &object));
            expected.insert(key.to_string(), comparable_value(&object, rules));
        }
        assert_eq!(recorded.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        assert!(!expected.is_empty());
        for (key, object) in expected {
            assert_eq!(recorded[&key], object);
        }
    }
}

impl fmt::Display for ComparisonCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ComparisonCounts { happened, recorded, missing, inferred, gaps } = self;
        let missing = missing.len();
        write!(
            f,
            "{happened} happened, {recorded} recorded, {missing} missing in {gaps} gaps, {inferred} deletes inferred"
        )
    }
}

impl std::ops::AddAssign for ComparisonCounts {
    fn add_assign(&mut self, other: ComparisonCounts) {
        self.happened += other.happened;
        self.recorded += other.recorded;
        self.missing.extend(other.missing);
        self.inferred += other.inferred;
        self.gaps += other.gaps;
    }
}

/// The events after applying the rules.
fn expected_changes<'a>(
    kind: &Kind,
    seen: &'a [WatchedEvent],
    rules: Option<&FilterOptions>,
) -> Vec<ExpectedChange<'a>> {
    let source: Arc<str> = "server".into();
    let mut change_filter = rules.map(|rules| ChangeFilter::new(rules.clone()));
    let mut expected = Vec::new();
    for event in seen {
        let key = event.object.key(&source);
        assert_eq!(key.kind, *kind);
        let object = event.object.clone();
        let what = if event.is_delete() { What::Deleted(object) } else { What::Modified(object) };
        expected.push(match (&mut change_filter, rules) {
            (Some(change_filter), Some(rules)) => ExpectedChange {
                event,
                is_kept: matches!(change_filter.filter(&key, &what), FilterVerdict::Keep(_)),
                text: apply_rules(rules, &key, &event.object),
            },
            _ => ExpectedChange { event, is_kept: true, text: event.object.clone() },
        });
    }
    expected
}

/// An object after applying the rules, as if it were new.
fn apply_rules(rules: &FilterOptions, key: &Key, object: &Object) -> Object {
    match ChangeFilter::new(rules.clone()).filter(key, &What::Modified(object.clone())) {
        FilterVerdict::Keep(what) => what.object().clone(),
        FilterVerdict::Drop(why) => panic!("{key} is dropped: {why}"),
    }
}

fn version_key(object: &Object, is_delete: bool) -> VersionKey {
    let version = object.meta().resource_version.unwrap().parse().unwrap();
    (uid_of(object), version, is_delete)
}

fn uid_of(object: &Object) -> String {
    object.meta().uid.unwrap().into_owned()
}

/// The part of an object that is compared: its bytes or, with rules, the fields that they keep.
fn comparable_value(object: &Object, rules: Option<&FilterOptions>) -> Value {
    if rules.is_none() {
        return object.as_str().into();
    }
    let mut value = object.value().unwrap();
    value["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    for condition in value["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().unwrap().remove("lastHeartbeatTime");
    }
    value
}

/// Merges adjacent gaps.
pub(crate) fn merge_gaps(gaps: &[&Gap]) -> Vec<Window> {
    let mut windows: Vec<Window> = gaps.iter().map(|gap| Window { from: gap.from, to: gap.to }).collect();
    windows.sort_unstable_by_key(|window| window.from);
    windows.dedup_by(|next, window| {
        let touches = next.from <= window.to;
        if touches {
            window.to = window.to.max(next.to);
        }
        touches
    });
    windows
}
