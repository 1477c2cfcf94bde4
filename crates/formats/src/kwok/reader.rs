//! The reader of manifests and recordings, which begin with the same documents.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use apimachinery::strategic_merge::{BadPatch, merge, merge_custom};
use kubernetes::kinds::guess_plural;
use model::{IncomingChange, Key, Kind, Moment, Object, What};

use super::patch::{Method, ResourcePatch, naive_plural};
use super::time_tokens::{has_time_token, resolve_time_tokens};
use crate::json_values::MAX_VALUE_BYTES;
use crate::manifests::{ManifestDocuments, objects_of_document};
use crate::object_times::newest_time;
use crate::{ImportItem, Input, ReadOptions, Result};

/// How many patches are queued before the first of them is applied, as in KWOK's replay: patches of different kinds are
/// slightly out of order.
const LOOK_AHEAD: usize = 1024;

/// Reads manifests, or a recording.
///
/// The first patch or the end of the file decides which of the two it is; until then all objects are held. Memory
/// follows the cluster.
pub struct KwokReader {
    documents: ManifestDocuments,
    options: ReadOptions,
    state: ReaderState,
    ready: VecDeque<ImportItem>,
}

enum ReaderState {
    /// Nothing has been read yet.
    Beginning,
    /// The first patch has been read.
    ApplyingPatches(PatchReplay),
    Ended,
}

/// The state of a recording up to where it has been read.
struct PatchReplay {
    base: Moment,
    queue: BinaryHeap<Reverse<QueuedPatch>>,
    /// The length of all queued templates.
    queued_bytes: usize,
    /// The number of patches read.
    count: u64,
    objects: HashMap<Key, TrackedObject>,
    /// The kinds of custom resources, by group and plural.
    plurals: HashMap<(String, String), Kind>,
}

/// A patch in the queue.
struct QueuedPatch {
    /// Its time, then its number in the file.
    order: (i64, u64),
    line: u64,
    patch: ResourcePatch,
    /// Whether time tokens were replaced in it.
    times_resolved: bool,
}

struct TrackedObject {
    object: Object,
    /// Whether it differs from the document in the file.
    inferred: bool,
}

// === impl KwokReader ===

impl KwokReader {
    /// Reads the manifests or the recording of a file.
    pub fn new(input: Input, options: ReadOptions) -> Result<KwokReader> {
        let documents = ManifestDocuments::open(input)?;
        Ok(KwokReader { documents, options, state: ReaderState::Beginning, ready: VecDeque::new() })
    }

    fn read(&mut self) -> Result<Option<ImportItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            // Reading ends with the first error.
            match std::mem::replace(&mut self.state, ReaderState::Ended) {
                ReaderState::Beginning => self.state = self.read_initial_objects()?,
                ReaderState::ApplyingPatches(replay) => self.state = self.read_patch(replay)?,
                ReaderState::Ended => return Ok(None),
            }
        }
    }

    /// Reads all objects before the first patch.
    fn read_initial_objects(&mut self) -> Result<ReaderState> {
        let mut objects: Vec<(u64, Object)> = Vec::new();
        let mut relative = false;
        let first = loop {
            let Some((line, text)) = self.documents.next()? else { break None };
            if ResourcePatch::is_resource_patch(&text) {
                break Some((line, text));
            }
            relative |= has_time_token(&text);
            let found =
                objects_of_document(&text).map_err(|error| self.documents.objects_error(line, error))?;
            objects.extend(found.into_iter().map(|object| (line, object)));
        };
        if first.is_none() && !relative {
            self.ready.extend(objects.into_iter().map(|(_, object)| ImportItem::Object(object)));
            return Ok(ReaderState::Ended);
        }
        let newest = || objects.iter().filter_map(|(_, object)| newest_time(object)).max();
        let base = self.options.at.or_else(newest).unwrap_or(self.options.now);
        let mut replay = PatchReplay {
            base,
            queue: BinaryHeap::new(),
            queued_bytes: 0,
            count: 0,
            objects: HashMap::new(),
            plurals: HashMap::new(),
        };
        for (line, object) in objects {
            let text = resolve_time_tokens(object.as_str(), base);
            let times_resolved = text != object.as_str();
            let object =
                Object::parse(&text).map_err(|error| self.documents.line_error(line, error.to_string()))?;
            self.ready.push_back(ImportItem::Change(replay.upsert(
                base,
                object,
                times_resolved,
                &self.options,
            )));
        }
        if let Some((line, text)) = first {
            replay.enqueue(line, &text).map_err(|why| self.documents.line_error(line, why))?;
        }
        Ok(ReaderState::ApplyingPatches(replay))
    }

    /// Reads one more document, and applies the next patch if the queue is full or the file has ended.
    fn read_patch(&mut self, mut replay: PatchReplay) -> Result<ReaderState> {
        let read = self.documents.next()?;
        let more = read.is_some();
        match read {
            Some((line, text)) if ResourcePatch::is_resource_patch(&text) => {
                replay.enqueue(line, &text).map_err(|why| self.documents.line_error(line, why))?;
            }
            Some((line, _)) => {
                let why = "skipped: expected a ResourcePatch, as all documents after the first";
                self.ready.push_back(ImportItem::Warning(self.documents.line_error(line, why).to_string()));
            }
            None => {}
        }
        if more && !replay.is_full() {
            return Ok(ReaderState::ApplyingPatches(replay));
        }
        match replay.queue.pop() {
            Some(Reverse(queued)) => {
                replay.queued_bytes -= queued.template_length();
                let line = queued.line;
                let item = replay
                    .apply(queued, &self.options)
                    .map_err(|why| self.documents.line_error(line, why))?;
                self.ready.push_back(match item {
                    ImportItem::Warning(why) => {
                        ImportItem::Warning(self.documents.line_error(line, why).to_string())
                    }
                    item => item,
                });
            }
            None if !more => {
                self.ready.push_back(ImportItem::TimesInferred(self.options.source.clone()));
                return Ok(ReaderState::Ended);
            }
            None => {}
        }
        Ok(ReaderState::ApplyingPatches(replay))
    }
}

impl Iterator for KwokReader {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        self.read().transpose()
    }
}

// === impl PatchReplay ===

impl PatchReplay {
    /// Adds a patch to the queue.
    fn enqueue(&mut self, line: u64, text: &str) -> std::result::Result<(), String> {
        let resolved = resolve_time_tokens(text, self.base);
        let patch: ResourcePatch =
            serde_json::from_str(&resolved).map_err(|error| format!("not a ResourcePatch: {error}"))?;
        if patch.template.is_none() && patch.method != Method::Delete {
            return Err("a ResourcePatch with method create or patch requires a template".to_owned());
        }
        self.count += 1;
        let order = (patch.duration_nanosecond, self.count);
        let queued = QueuedPatch { order, line, patch, times_resolved: *resolved != *text };
        self.queued_bytes += queued.template_length();
        self.queue.push(Reverse(queued));
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.queue.len() >= LOOK_AHEAD || self.queued_bytes > MAX_VALUE_BYTES
    }

    /// Applies a patch and returns the change, or a warning if it cannot be applied.
    fn apply(
        &mut self,
        queued: QueuedPatch,
        options: &ReadOptions,
    ) -> std::result::Result<ImportItem, String> {
        let QueuedPatch { patch, times_resolved, .. } = queued;
        let seen = self.base.plus_nanos(patch.duration_nanosecond);
        let template = patch.template.as_deref().map_or("", |template| template.get());
        if patch.method == Method::Create {
            let object = Object::parse(template).map_err(|error| format!("template: {error}"))?;
            let kind = object.key(&options.source).kind;
            let (group, plural) = (patch.resource.group, patch.resource.plural);
            self.plurals.entry((group, plural)).or_insert(kind);
            return Ok(ImportItem::Change(self.upsert(seen, object, times_resolved, options)));
        }
        let target = format!("{} {}/{}", patch.resource.plural, patch.target.namespace, patch.target.name);
        let skipped = |why: &str| Ok(ImportItem::Warning(format!("skipped: {target}: {why}")));
        let kind = patch.resource.built_in_kind().or_else(|| {
            self.plurals.get(&(patch.resource.group.clone(), patch.resource.plural.clone())).cloned()
        });
        let Some(kind) = kind else { return skipped("unknown resource type") };
        let key = Key {
            source: options.source.clone(),
            kind,
            namespace: patch.target.namespace.as_str().into(),
            name: patch.target.name.as_str().into(),
        };
        let Some(tracked) = self.objects.get(&key) else { return skipped("object not found") };
        if patch.method == Method::Delete {
            let what = What::Deleted(tracked.object.clone());
            let inferred = tracked.inferred;
            self.objects.remove(&key);
            return Ok(ImportItem::Change(IncomingChange { seen, key, what, inferred }));
        }
        let object = match apply_patch(&key.kind, &tracked.object, template) {
            Ok(object) => object,
            Err(why) => return skipped(&why),
        };
        if object.key(&options.source) != key {
            return skipped("the patch changes the object's identity");
        }
        Ok(ImportItem::Change(self.upsert(seen, object, true, options)))
    }

    /// Stores the new version of an object and returns the change.
    fn upsert(
        &mut self,
        seen: Moment,
        object: Object,
        inferred: bool,
        options: &ReadOptions,
    ) -> IncomingChange {
        let key = object.key(&options.source);
        if kubernetes::kinds::of(&key.kind).is_none() {
            for plural in [guess_plural(&key.kind.kind), naive_plural(&key.kind.kind)] {
                self.plurals.entry((key.kind.group.to_string(), plural)).or_insert(key.kind.clone());
            }
        }
        let previous = self.objects.insert(key.clone(), TrackedObject { object: object.clone(), inferred });
        let what = if previous.is_some() { What::Modified(object) } else { What::Added(object) };
        IncomingChange { seen, key, what, inferred }
    }
}

fn apply_patch(kind: &Kind, object: &Object, template: &str) -> std::result::Result<Object, String> {
    let original = object.value().map_err(|error| error.to_string())?;
    let patch = serde_json::from_str(template).map_err(|error| error.to_string())?;
    let merged = match merge(kind, &original, &patch) {
        Err(BadPatch::Unsupported(_)) => merge_custom(&original, &patch),
        merged => merged,
    };
    Object::parse(&merged.map_err(|error| error.to_string())?.to_string()).map_err(|error| error.to_string())
}

// === impl QueuedPatch ===

impl QueuedPatch {
    fn template_length(&self) -> usize {
        self.patch.template.as_deref().map_or(0, |template| template.get().len())
    }
}

impl PartialEq for QueuedPatch {
    fn eq(&self, other: &QueuedPatch) -> bool {
        self.order == other.order
    }
}

impl Eq for QueuedPatch {}

impl PartialOrd for QueuedPatch {
    fn partial_cmp(&self, other: &QueuedPatch) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueuedPatch {
    fn cmp(&self, other: &QueuedPatch) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}
