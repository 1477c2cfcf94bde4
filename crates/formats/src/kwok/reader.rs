//! Reads manifests and recordings, which begin alike.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use kubernetes::kinds::guess_plural;
use kubernetes::strategic_merge::{BadPatch, merge, merge_custom};
use model::{Key, Kind, Moment, Object, Observed, What};

use super::patch::{Method, ResourcePatch, naive_plural};
use super::times::{has_token, told};
use crate::manifests::{Documents, take_apart};
use crate::times::newest_time;
use crate::values::MAX_VALUE;
use crate::{Given, Input, Item, Result};

/// So many patches are looked at before the first of them is taken, as KWOK's replay does: those of different kinds
/// come a little out of order.
const LOOK_AHEAD: usize = 1024;

/// Reads manifests, or a recording.
///
/// Which of the two is known only at the first patch or the end; until then all objects are held. Memory follows the
/// cluster.
pub struct Reader {
    documents: Documents,
    given: Given,
    state: State,
    ready: VecDeque<Item>,
}

enum State {
    /// Nothing has been read yet.
    Beginning,
    /// The first patch has been met.
    Patches(Replay),
    Ended,
}

/// A recording up to where it has been read.
struct Replay {
    base: Moment,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// The length of all templates that wait.
    waiting_bytes: usize,
    /// How many patches there were.
    count: u64,
    objects: HashMap<Key, Tracked>,
    /// What the plurals of custom resources stand for, by group and plural.
    plurals: HashMap<(String, String), Kind>,
}

/// A patch that waits for its turn.
struct Waiting {
    /// Its time, then its place in the file.
    turn: (i64, u64),
    line: u64,
    patch: ResourcePatch,
    /// Whether its times had to be worked out.
    retold: bool,
}

struct Tracked {
    object: Object,
    /// Whether it is other than a document of the file says.
    made_up: bool,
}

// === impl Reader ===

impl Reader {
    /// Reads the manifests or the recording of a file.
    pub fn new(input: Input, given: Given) -> Result<Reader> {
        let documents = Documents::open(input)?;
        Ok(Reader { documents, given, state: State::Beginning, ready: VecDeque::new() })
    }

    fn read(&mut self) -> Result<Option<Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            // An error leaves nothing behind that could be read on.
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Beginning => self.state = self.read_head()?,
                State::Patches(replay) => self.state = self.read_patch(replay)?,
                State::Ended => return Ok(None),
            }
        }
    }

    /// Reads all objects before the first patch.
    fn read_head(&mut self) -> Result<State> {
        let mut objects: Vec<(u64, Object)> = Vec::new();
        let mut relative = false;
        let first = loop {
            let Some((line, text)) = self.documents.next()? else { break None };
            if ResourcePatch::is(&text) {
                break Some((line, text));
            }
            relative |= has_token(&text);
            let found = take_apart(&text).map_err(|why| self.documents.bad(line, why))?;
            objects.extend(found.into_iter().map(|object| (line, object)));
        };
        if first.is_none() && !relative {
            self.ready.extend(objects.into_iter().map(|(_, object)| Item::Object(object)));
            return Ok(State::Ended);
        }
        let newest = || objects.iter().filter_map(|(_, object)| newest_time(object)).max();
        let base = self.given.at.or_else(newest).unwrap_or(self.given.now);
        let mut replay = Replay {
            base,
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            count: 0,
            objects: HashMap::new(),
            plurals: HashMap::new(),
        };
        for (line, object) in objects {
            let text = told(object.as_str(), base);
            let retold = text != object.as_str();
            let object = Object::parse(&text).map_err(|error| self.documents.bad(line, error.to_string()))?;
            self.ready.push_back(Item::Change(replay.put(base, object, retold, &self.given)));
        }
        if let Some((line, text)) = first {
            replay.add(line, &text).map_err(|why| self.documents.bad(line, why))?;
        }
        Ok(State::Patches(replay))
    }

    /// Reads one more document, and takes the patch whose turn it then is.
    fn read_patch(&mut self, mut replay: Replay) -> Result<State> {
        let read = self.documents.next()?;
        let more = read.is_some();
        match read {
            Some((line, text)) if ResourcePatch::is(&text) => {
                replay.add(line, &text).map_err(|why| self.documents.bad(line, why))?;
            }
            Some((line, _)) => {
                let why = "skipped, no ResourcePatch, which all documents after the first must be";
                self.ready.push_back(Item::Warning(self.documents.bad(line, why).to_string()));
            }
            None => {}
        }
        if more && !replay.is_full() {
            return Ok(State::Patches(replay));
        }
        match replay.waiting.pop() {
            Some(Reverse(waiting)) => {
                replay.waiting_bytes -= waiting.length();
                let line = waiting.line;
                let item = replay.take(waiting, &self.given).map_err(|why| self.documents.bad(line, why))?;
                self.ready.push_back(match item {
                    Item::Warning(why) => Item::Warning(self.documents.bad(line, why).to_string()),
                    item => item,
                });
            }
            None if !more => {
                self.ready.push_back(Item::TimesInferred(self.given.source.clone()));
                return Ok(State::Ended);
            }
            None => {}
        }
        Ok(State::Patches(replay))
    }
}

impl Iterator for Reader {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        self.read().transpose()
    }
}

// === impl Replay ===

impl Replay {
    /// Lets a patch wait for its turn.
    fn add(&mut self, line: u64, text: &str) -> std::result::Result<(), String> {
        let retold = told(text, self.base);
        let patch: ResourcePatch =
            serde_json::from_str(&retold).map_err(|error| format!("not a ResourcePatch: {error}"))?;
        if patch.template.is_none() && patch.method != Method::Delete {
            return Err("a ResourcePatch that creates or patches needs a template".to_owned());
        }
        self.count += 1;
        let turn = (patch.duration_nanosecond, self.count);
        let waiting = Waiting { turn, line, patch, retold: *retold != *text };
        self.waiting_bytes += waiting.length();
        self.waiting.push(Reverse(waiting));
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= LOOK_AHEAD || self.waiting_bytes > MAX_VALUE
    }

    /// What a patch says happened.
    fn take(&mut self, waiting: Waiting, given: &Given) -> std::result::Result<Item, String> {
        let Waiting { patch, retold, .. } = waiting;
        let seen = self.base.plus_nanos(patch.duration_nanosecond);
        let template = patch.template.as_deref().map_or("", |template| template.get());
        if patch.method == Method::Create {
            let object = Object::parse(template).map_err(|error| format!("template: {error}"))?;
            let kind = object.key(&given.source).kind;
            let (group, plural) = (patch.resource.group, patch.resource.plural);
            self.plurals.entry((group, plural)).or_insert(kind);
            return Ok(Item::Change(self.put(seen, object, retold, given)));
        }
        let target = format!("{} {}/{}", patch.resource.plural, patch.target.namespace, patch.target.name);
        let skipped = |why: &str| Ok(Item::Warning(format!("skipped, {target}: {why}")));
        let kind = patch.resource.built_in().or_else(|| {
            self.plurals.get(&(patch.resource.group.clone(), patch.resource.plural.clone())).cloned()
        });
        let Some(kind) = kind else { return skipped("no object of this kind was there before") };
        let key = Key {
            source: given.source.clone(),
            kind,
            namespace: patch.target.namespace.as_str().into(),
            name: patch.target.name.as_str().into(),
        };
        let Some(tracked) = self.objects.get(&key) else { return skipped("no such object was there before") };
        if patch.method == Method::Delete {
            let what = What::Deleted(tracked.object.clone());
            let inferred = tracked.made_up;
            self.objects.remove(&key);
            return Ok(Item::Change(Observed { seen, key, what, inferred }));
        }
        let object = match patched(&key.kind, &tracked.object, template) {
            Ok(object) => object,
            Err(why) => return skipped(&why),
        };
        if object.key(&given.source) != key {
            return skipped("the patch makes another object of it");
        }
        Ok(Item::Change(self.put(seen, object, true, given)))
    }

    /// An object is now this.
    fn put(&mut self, seen: Moment, object: Object, made_up: bool, given: &Given) -> Observed {
        let key = object.key(&given.source);
        if kubernetes::kinds::of(&key.kind).is_none() {
            for plural in [guess_plural(&key.kind.kind), naive_plural(&key.kind.kind)] {
                self.plurals.entry((key.kind.group.to_string(), plural)).or_insert(key.kind.clone());
            }
        }
        let before = self.objects.insert(key.clone(), Tracked { object: object.clone(), made_up });
        let what = if before.is_some() { What::Modified(object) } else { What::Added(object) };
        Observed { seen, key, what, inferred: made_up }
    }
}

fn patched(kind: &Kind, object: &Object, template: &str) -> std::result::Result<Object, String> {
    let original = object.value().map_err(|error| error.to_string())?;
    let patch = serde_json::from_str(template).map_err(|error| error.to_string())?;
    let merged = match merge(kind, &original, &patch) {
        Err(BadPatch::Unsupported(_)) => merge_custom(&original, &patch),
        merged => merged,
    };
    Object::parse(&merged.map_err(|error| error.to_string())?.to_string()).map_err(|error| error.to_string())
}

// === impl Waiting ===

impl Waiting {
    fn length(&self) -> usize {
        self.patch.template.as_deref().map_or(0, |template| template.get().len())
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.turn.cmp(&other.turn)
    }
}
