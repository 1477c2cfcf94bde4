//! A store in memory, which a server and the components of a virtual cluster share.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubernetes::kinds;
use model::{Kind, Moment, NamespacedName, Object};
use serde::Deserialize;
use tokio::sync::watch;

use crate::event_window::EventWindow;
use crate::object_map::{ObjectMap, name_of};
use crate::resource::{Resource, ResourceTable};
use crate::store::{
    EventFuture, EventSource, ObjectList, Store, StoreError, StoreEvent, Write, resource_version_of,
};

/// The most changes that components may be behind before clients have to wait.
const MAX_BACKLOG: usize = 50_000;

/// The clock of a store: the present moment.
pub type Clock = Box<dyn Fn() -> Moment + Send + Sync>;

/// Objects in memory.
pub struct MemoryStore {
    shared: Arc<SharedState>,
    clock: Clock,
    git_version: String,
}

/// The state that readers and watches of a store share with it.
struct SharedState {
    state: Mutex<StoreState>,
    changed: Condvar,
}

/// All objects of a store at one moment. It shares memory with the store.
#[derive(Clone)]
pub struct StoreSnapshot {
    objects: HashMap<Kind, ObjectMap>,
}

/// A reader of all changes, which misses none.
pub struct ChangeReader {
    shared: Arc<SharedState>,
    id: usize,
}

/// The events of a kind after a resourceVersion.
struct WindowSource {
    shared: Arc<SharedState>,
    kind: Kind,
    version: u64,
    last_event: watch::Receiver<u64>,
}

/// The most events that a watch reads at once.
const MAX_EVENTS: usize = 128;

/// What a [`ChangeReader`] reads.
#[derive(Debug)]
pub enum StoreChange {
    /// One object changed.
    Event(StoreEvent),
    /// All objects were replaced: what was known is void.
    Reset,
}

struct StoreState {
    objects: HashMap<Kind, ObjectMap>,
    windows: HashMap<Kind, EventWindow>,
    resources: Arc<ResourceTable>,
    /// The resources of each CustomResourceDefinition, by its name.
    custom: BTreeMap<NamespacedName, DefinedResources>,
    /// The resourceVersion of the last change.
    version: u64,
    /// The resourceVersion at which all objects were replaced last.
    restored: u64,
    /// Changes that a reader has not read yet.
    backlog: VecDeque<Arc<StoreChange>>,
    /// The number of changes that left the backlog.
    dropped: u64,
    /// `None` for those that have gone.
    readers: Vec<Option<ReaderState>>,
    /// How many readers wait for a change: waking nobody up takes a system call, too.
    waiting_readers: usize,
}

/// The resources of a CustomResourceDefinition.
struct DefinedResources {
    resources: Vec<Resource>,
    /// The uid and generation of the definition: what its schemas follow from.
    generation: (String, i64),
    /// Objects that were written later were written by its schemas.
    written_since: u64,
}

struct ReaderState {
    /// The number of changes that it has read.
    read: u64,
    /// Whether it is to return without a change.
    is_woken: bool,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// An empty store with all built-in resources.
    pub fn new(clock: Clock, git_version: impl Into<String>) -> MemoryStore {
        let state = StoreState {
            objects: HashMap::new(),
            windows: HashMap::new(),
            resources: Arc::new(ResourceTable::of_kinds(Vec::new())),
            custom: BTreeMap::new(),
            version: 1,
            restored: 1,
            backlog: VecDeque::new(),
            dropped: 0,
            readers: Vec::new(),
            waiting_readers: 0,
        };
        let shared = Arc::new(SharedState { state: Mutex::new(state), changed: Condvar::new() });
        MemoryStore { shared, clock, git_version: git_version.into() }
    }

    /// All objects of a kind.
    pub fn objects(&self, kind: &Kind) -> ObjectMap {
        self.lock().objects.get(kind).cloned().unwrap_or_default()
    }

    /// The kinds of which there are objects, sorted.
    pub fn kinds(&self) -> Vec<Kind> {
        let state = self.lock();
        let mut kinds: Vec<Kind> = state
            .objects
            .iter()
            .filter(|(_, objects)| !objects.is_empty())
            .map(|(kind, _)| kind.clone())
            .collect();
        kinds.sort();
        kinds
    }

    /// The resourceVersion of the last change.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// All objects, at no cost.
    pub fn snapshot(&self) -> StoreSnapshot {
        StoreSnapshot { objects: self.lock().objects.clone() }
    }

    /// Replaces all objects. Watches end with an expired resourceVersion, so that clients list again.
    pub fn restore(&self, snapshot: &StoreSnapshot) {
        let state = &mut *self.lock();
        state.version += 1;
        state.objects.clone_from(&snapshot.objects);
        let version = state.version;
        state.restored = version;
        state.windows.values_mut().for_each(|window| window.clear(version));
        state.restore_resources();
        state.append(StoreChange::Reset);
        self.shared.changed.notify_all();
    }

    /// A reader of all changes from now on.
    pub fn read_changes(&self) -> ChangeReader {
        let state = &mut *self.lock();
        let read = state.dropped + state.backlog.len() as u64;
        let id = state.readers.iter().position(Option::is_none).unwrap_or_else(|| {
            state.readers.push(None);
            state.readers.len() - 1
        });
        state.readers[id] = Some(ReaderState { read, is_woken: false });
        ChangeReader { shared: self.shared.clone(), id }
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.shared.lock()
    }
}

impl Store for MemoryStore {
    fn resources(&self) -> Arc<ResourceTable> {
        self.lock().resources.clone()
    }

    fn list(&self, resource: &Resource) -> Result<ObjectList, StoreError> {
        let state = self.lock();
        let objects = state.objects.get(&resource.storage_kind()).cloned().unwrap_or_default();
        Ok(ObjectList { objects, resource_version: state.version })
    }

    /// Does not clone the list: the next write would have to copy what it shares with the clone.
    fn get(&self, resource: &Resource, name: &NamespacedName) -> Result<Option<Object>, StoreError> {
        let state = self.lock();
        let objects = state.objects.get(&resource.storage_kind());
        Ok(objects.and_then(|objects| objects.get(name)).cloned())
    }

    fn watch(&self, resource: &Resource, version: u64) -> Box<dyn EventSource> {
        let kind = resource.storage_kind();
        let last_event = self.lock().window(kind.clone()).subscribe();
        Box::new(WindowSource { shared: self.shared.clone(), kind, version, last_event })
    }

    fn commit(&self, write: Write) -> Result<Object, StoreError> {
        let state = &mut *self.lock();
        if write.may_wait && state.backlog.len() > MAX_BACKLOG {
            return Err(StoreError::Overloaded);
        }
        let committed = state.commit(write)?;
        if state.waiting_readers > 0 {
            self.shared.changed.notify_all();
        }
        Ok(committed)
    }

    fn read_only_reason(&self) -> Option<String> {
        None
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    fn git_version(&self) -> &str {
        &self.git_version
    }

    fn now(&self) -> Moment {
        (self.clock)()
    }
}

// === impl StoreState ===

impl StoreState {
    fn commit(&mut self, write: Write) -> Result<Object, StoreError> {
        let Write { kind, name, expected, mut object, is_deletion, .. } = write;
        let objects = self.objects.entry(kind.clone()).or_default();
        if objects.get(&name).map(resource_version_of) != expected {
            return Err(StoreError::Conflict);
        }
        let version = self.version + 1;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let failed = |error: &dyn std::error::Error| StoreError::Failed(error.to_string());
        let json = serde_json::to_string(&object).map_err(|error| failed(&error))?;
        let new = Object::parse(&json).map_err(|error| failed(&error))?;
        let is_definition = kind == kinds::definition_kind();
        let defined = is_definition.then(|| name.clone());
        let old = if is_deletion { objects.remove(&name) } else { objects.insert(name, new.clone()) };
        self.version = version;
        let event = StoreEvent { version, kind: kind.clone(), old, new: new.clone(), is_deletion };
        self.window(kind).push(event.clone());
        if let Some(name) = defined {
            self.update_definition(name, Some(&new).filter(|_| !is_deletion));
            self.update_resources();
        }
        self.append(StoreChange::Event(event));
        Ok(new)
    }

    fn window(&mut self, kind: Kind) -> &mut EventWindow {
        let restored = self.restored;
        // A kind without a window has had no events since then.
        self.windows.entry(kind).or_insert_with(|| EventWindow::new(restored))
    }

    /// Reads a definition that was written, or forgets one that was deleted.
    fn update_definition(&mut self, name: NamespacedName, definition: Option<&Object>) {
        let Some(definition) = definition else {
            self.custom.remove(&name);
            return;
        };
        let generation = generation_of(definition);
        let earlier = self.custom.get(&name).filter(|earlier| earlier.generation == generation);
        let written_since = earlier.map_or(self.version, |earlier| earlier.written_since);
        let resources = Resource::of_custom_kind(definition, Some(written_since));
        self.custom.insert(name, DefinedResources { resources, generation, written_since });
    }

    /// Custom resources come and go with their definitions.
    fn update_resources(&mut self) {
        let custom = self.custom.values().flat_map(|defined| defined.resources.iter().cloned());
        self.resources = Arc::new(ResourceTable::of_kinds(custom.collect()));
    }

    fn restore_resources(&mut self) {
        self.custom.clear();
        let definitions = self.objects.get(&kinds::definition_kind()).cloned().unwrap_or_default();
        for definition in definitions.iter() {
            self.update_definition(name_of(definition), Some(definition));
        }
        self.update_resources();
    }

    fn append(&mut self, change: StoreChange) {
        if self.readers.iter().any(Option::is_some) {
            self.backlog.push_back(Arc::new(change));
        }
    }

    /// Drops the changes that all readers have read.
    fn trim(&mut self) {
        let end = self.dropped + self.backlog.len() as u64;
        let read_by_all = self.readers.iter().flatten().map(|reader| reader.read).min().unwrap_or(end);
        let count = usize::try_from(read_by_all - self.dropped).unwrap_or(self.backlog.len());
        self.backlog.drain(..count.min(self.backlog.len()));
        self.dropped = read_by_all;
    }
}

/// The uid and generation of an object.
fn generation_of(object: &Object) -> (String, i64) {
    #[derive(Deserialize)]
    struct View {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        uid: String,
        #[serde(default)]
        generation: i64,
    }
    object.view::<View>().map(|view| (view.metadata.uid, view.metadata.generation)).unwrap_or_default()
}

// === impl SharedState ===

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl WindowSource ===

impl EventSource for WindowSource {
    fn next(&mut self) -> EventFuture<'_> {
        Box::pin(async {
            loop {
                // Before the events are read, so that none comes in between.
                self.last_event.mark_unchanged();
                let events = self.shared.lock().window(self.kind.clone()).after(self.version, MAX_EVENTS)?;
                if let Some(last) = events.last() {
                    self.version = last.version;
                    return Ok(events);
                }
                // The window, which has the sender, lives as long as the store.
                let _ = self.last_event.changed().await;
            }
        })
    }
}

// === impl ChangeReader ===

impl ChangeReader {
    /// The next changes, at most `limit`; waits for the first one until the timeout.
    pub fn next(&self, limit: usize, timeout: Duration) -> Vec<Arc<StoreChange>> {
        let mut state = self.shared.lock();
        let is_empty = |state: &mut StoreState| {
            let is_woken = state.readers[self.id].as_ref().is_some_and(|reader| reader.is_woken);
            state.unread(self.id) == 0 && !is_woken
        };
        state.waiting_readers += 1;
        let waited = self.shared.changed.wait_timeout_while(state, timeout, is_empty);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting_readers -= 1;
        let skipped = state.backlog.len() - state.unread(self.id);
        let changes: Vec<Arc<StoreChange>> =
            state.backlog.iter().skip(skipped).take(limit).cloned().collect();
        if let Some(reader) = &mut state.readers[self.id] {
            reader.read += changes.len() as u64;
            reader.is_woken = false;
        }
        state.trim();
        changes
    }

    /// A function that ends the current or the next wait of [`next`](ChangeReader::next).
    pub fn waker(&self) -> impl Fn() + Send + Sync + use<> {
        let (shared, id) = (self.shared.clone(), self.id);
        move || {
            if let Some(reader) = &mut shared.lock().readers[id] {
                reader.is_woken = true;
            }
            shared.changed.notify_all();
        }
    }
}

impl Drop for ChangeReader {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.readers[self.id] = None;
        state.trim();
    }
}

impl StoreState {
    /// The number of changes that a reader has not read.
    fn unread(&self, reader: usize) -> usize {
        let read = self.readers[reader].as_ref().map_or(self.dropped, |reader| reader.read);
        let end = self.dropped + self.backlog.len() as u64;
        usize::try_from(end - read).unwrap_or(usize::MAX)
    }
}
