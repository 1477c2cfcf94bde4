//! What was recorded, held against what happened.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use history::{History, Selection};
use kube::client::Client;
use kubernetes::rules::{Rules, Sieve, Verdict};
use model::{Change, Gap, Key, Kind, Moment, Object, What, Window};
use serde_json::Value;

use crate::server::{Sight, list};

/// All that a history says.
pub(crate) struct Film {
    pub(crate) changes: Vec<Change>,
    pub(crate) gaps: Vec<Gap>,
    /// The objects at its end.
    pub(crate) state: BTreeMap<Key, Object>,
}

/// What came of a comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// What happened, and would have been kept.
    pub(crate) happened: usize,
    /// What was recorded as it happened.
    pub(crate) told: usize,
    /// The versions that were not, all of them within gaps.
    pub(crate) missing: Vec<u64>,
    /// Deletes found out later.
    pub(crate) inferred: usize,
    pub(crate) gaps: usize,
}

/// One version of one life; the last one is that of its deletion.
type Mark = (String, u64, bool);

/// Something that happened, as it should be recorded.
struct Due<'a> {
    sight: &'a Sight,
    /// What the rules leave of it.
    text: Object,
    /// Whether the rules want it kept. Whoever missed the one before may keep it for that one.
    is_kept: bool,
}

/// Whether a history holds, or held, an object of that name.
pub(crate) fn has(path: &Path, kind: &Kind, name: &str) -> bool {
    let names = |history: History| history.names(kind, None, name, 1);
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

/// Whether a history is a lone file, as it is after it was closed.
pub(crate) fn is_closed(path: &Path) -> bool {
    let beside = |end: &str| path.with_file_name(format!("{}{end}", path.file_name().unwrap().display()));
    path.exists() && !["-wal", "-shm", ".lock"].iter().any(|end| beside(end).exists())
}

// === impl Film ===

impl Film {
    /// Reads a history, whose order must be that of arrival and of time.
    pub(crate) fn read(path: &Path) -> Film {
        let history = History::open(path).unwrap();
        let all = Selection::default();
        let changes: Vec<Change> =
            history.between(Window::ALL, &all).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(changes.is_sorted_by(|one, next| one.seq < next.seq && one.at <= next.at));
        let state = history.at(Moment::MAX, &all).unwrap().into_objects();
        let state = state.into_iter().map(|version| (version.key, version.object)).collect();
        Film { changes, gaps: history.gaps().unwrap(), state }
    }

    pub(crate) fn of<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Change> {
        self.changes.iter().filter(move |change| change.key.kind == *kind)
    }

    pub(crate) fn gaps_of(&self, kind: &Kind) -> Vec<&Gap> {
        self.gaps.iter().filter(|gap| gap.kinds == [kind.clone()]).collect()
    }

    /// Checks that of a kind all that happened was recorded in its order, or is said to be missed; and nothing else.
    pub(crate) fn judge(&self, kind: &Kind, seen: &[Sight], rules: Option<&Rules>) -> Tally {
        let due = due(kind, seen, rules);
        let by_mark: HashMap<Mark, &Due<'_>> =
            due.iter().map(|due| (mark(&due.sight.object, due.sight.is_delete()), due)).collect();
        let gaps = joined(&self.gaps_of(kind));
        let mut tally = Tally { gaps: self.gaps_of(kind).len(), ..Tally::default() };

        let mut told: HashMap<Mark, &Change> = HashMap::new();
        let mut last_of: HashMap<String, u64> = HashMap::new();
        let mut ended = HashSet::new();
        let mut last = 0;
        for change in self.of(kind) {
            let is_delete = change.what.state().is_none();
            let mark = mark(change.what.object(), is_delete);
            let is_in_gap = gaps.iter().any(|gap| gap.from <= change.seen && change.seen <= gap.to);
            let (uid, version, _) = mark.clone();
            assert!(!ended.contains(&uid), "something happens to {mark:?} after its end");
            if is_delete {
                ended.insert(uid.clone());
            }
            if change.inferred {
                let is_so = due.iter().any(|due| due.sight.is_delete() && uid_of(&due.sight.object) == uid);
                assert!(is_delete && is_so && is_in_gap, "inferred, but not so: {change:?}");
                tally.inferred += 1;
                continue;
            }
            let due = by_mark.get(&mark).unwrap_or_else(|| panic!("this never happened: {change:?}"));
            assert_eq!(*change.what.object(), due.text);
            // A list tells only the last version, as an addition where the first one was missed, and in its own order.
            let is_as_it_came = change.what.word() == due.sight.word && due.is_kept && version > last;
            assert!(
                is_as_it_came || due.sight.is_first() || is_in_gap,
                "{mark:?} comes after {last}: {change:?}"
            );
            last = last.max(version);
            let before = last_of.insert(uid, version);
            assert!(before.is_none_or(|before| before < version), "{mark:?} comes after {before:?}");
            assert!(told.insert(mark, change).is_none(), "told twice: {change:?}");
            tally.told += 1;
        }

        let mut seen_before = Moment::MIN;
        for Due { sight, is_kept, .. } in &due {
            let mark = mark(&sight.object, sight.is_delete());
            if let Some(change) = told.get(&mark) {
                seen_before = seen_before.max(change.seen);
                tally.happened += usize::from(*is_kept);
                continue;
            }
            if !is_kept {
                continue;
            }
            tally.happened += 1;
            tally.missing.push(mark.1);
            // It would have been seen after it happened, and after what was seen before it.
            let by = sight.at.max(seen_before);
            let is_said = gaps.iter().any(|gap| gap.from <= by && seen_before <= gap.to);
            assert!(
                is_said,
                "missed unsaid: {} {mark:?}, due by {by} after {seen_before}; gaps {gaps:?}",
                sight.word
            );
            if sight.is_delete() && last_of.contains_key(&mark.0) {
                assert!(ended.contains(&mark.0), "{mark:?} has ended, which is not inferred");
            }
        }
        tally
    }

    /// Checks that the end of the recording is what the server has now.
    pub(crate) async fn check_state(&self, client: &Client, kind: &Kind, path: &str, rules: Option<&Rules>) {
        let recorded: BTreeMap<String, Value> = self
            .state
            .iter()
            .filter(|(key, _)| key.kind == *kind)
            .map(|(key, object)| (key.to_string(), meaning(object, rules)))
            .collect();
        let mut expected = BTreeMap::new();
        for object in list(client, path).await.1 {
            let key = object.key(&Arc::from("server"));
            let object = rules.map_or(object.clone(), |rules| kept(rules, &key, &object));
            expected.insert(key.to_string(), meaning(&object, rules));
        }
        assert_eq!(recorded.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        assert!(!expected.is_empty());
        for (key, object) in expected {
            assert_eq!(recorded[&key], object);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { happened, told, missing, inferred, gaps } = self;
        let missing = missing.len();
        write!(
            f,
            "{happened} happened, {told} recorded, {missing} missing in {gaps} gaps, {inferred} deletes inferred"
        )
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.happened += other.happened;
        self.told += other.told;
        self.missing.extend(other.missing);
        self.inferred += other.inferred;
        self.gaps += other.gaps;
    }
}

/// What happened, through the rules.
fn due<'a>(kind: &Kind, seen: &'a [Sight], rules: Option<&Rules>) -> Vec<Due<'a>> {
    let source: Arc<str> = "server".into();
    let mut sieve = rules.map(|rules| Sieve::new(rules.clone()));
    let mut due = Vec::new();
    for sight in seen {
        let key = sight.object.key(&source);
        assert_eq!(key.kind, *kind);
        let object = sight.object.clone();
        let what = if sight.is_delete() { What::Deleted(object) } else { What::Modified(object) };
        due.push(match (&mut sieve, rules) {
            (Some(sieve), Some(rules)) => Due {
                sight,
                is_kept: matches!(sieve.pass(&key, &what), Verdict::Keep(_)),
                text: kept(rules, &key, &sight.object),
            },
            _ => Due { sight, is_kept: true, text: sight.object.clone() },
        });
    }
    due
}

/// What the rules leave of an object of which nothing is known.
fn kept(rules: &Rules, key: &Key, object: &Object) -> Object {
    match Sieve::new(rules.clone()).pass(key, &What::Modified(object.clone())) {
        Verdict::Keep(what) => what.object().clone(),
        Verdict::Drop(why) => panic!("{key} is dropped: {why}"),
    }
}

fn mark(object: &Object, is_delete: bool) -> Mark {
    let version = object.meta().resource_version.unwrap().parse().unwrap();
    (uid_of(object), version, is_delete)
}

fn uid_of(object: &Object) -> String {
    object.meta().uid.unwrap().into_owned()
}

/// What is compared of an object: its bytes; or with rules what they say counts.
fn meaning(object: &Object, rules: Option<&Rules>) -> Value {
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

/// Gaps that touch are one.
pub(crate) fn joined(gaps: &[&Gap]) -> Vec<Window> {
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
