//! The store of a cluster as it was at a moment: read from a history, kind by kind, when a client asks for it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use apiserver::{EventFuture, EventSource, ObjectList, Resource, ResourceTable, Store, StoreError, Write};
use history::{History, Selection};
use kubernetes::event_conversion::{EVENT_GROUPS, converted_event};
use kubernetes::kinds;
use model::{Key, Kind, Moment, Object};
use query::OpenHistory;
use serde_json::Value;

use crate::playback::{Playback, PlaybackSource};
use crate::time_shift::TimeShift;

/// The version that is assumed where none was recorded.
const DEFAULT_GIT_VERSION: &str = "v1.36.4";

/// A cluster as it was at a moment of a history.
pub struct PastStore {
    path: PathBuf,
    source: Option<Arc<str>>,
    moment: Moment,
    /// The recorded kinds.
    recorded: Vec<Kind>,
    resources: Arc<ResourceTable>,
    git_version: String,
    /// The objects of the kinds that were asked for. A kind that is being read has its own lock.
    lists: Mutex<HashMap<Kind, Arc<Mutex<Option<ObjectList>>>>>,
    options: PastOptions,
    shift: Option<TimeShift>,
}

/// How the past is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PastOptions {
    /// How many recorded seconds pass in one for a watch; `None` if time stands still.
    pub speed: Option<f64>,
    /// The moment to which all times are moved.
    pub shift_to: Option<Moment>,
}

/// A watch of a cluster in which nothing happens.
struct NoEvents;

impl EventSource for NoEvents {
    fn next(&mut self) -> EventFuture<'_> {
        Box::pin(std::future::pending())
    }
}

// === impl PastStore ===

impl PastStore {
    /// Opens a history at a moment. Objects are read later.
    pub fn open(
        path: &Path,
        source: Option<Arc<str>>,
        moment: Moment,
        options: PastOptions,
    ) -> anyhow::Result<PastStore> {
        let OpenHistory { history, .. } = OpenHistory::open(path)?;
        let kinds = history.kinds()?;
        let recorded: Vec<Kind> = kinds.into_iter().filter(|kind| !kinds::is_secret(kind)).collect();
        let read =
            |kind: Kind| -> anyhow::Result<Vec<Object>> { Ok(objects_at(&history, &source, moment, kind)?) };
        let mut definitions = Vec::new();
        for definition in read(kinds::definition_kind())? {
            definitions.extend(Resource::of_definition(&definition));
        }
        let mut resources = Vec::new();
        for info in kinds::all() {
            let kind = Kind::new(info.group, info.kind);
            if recorded.contains(&kind) || twin_of_event(&kind).is_some_and(|twin| recorded.contains(&twin)) {
                resources.push(Resource::built_in(info));
            }
        }
        for kind in recorded.iter().filter(|kind| kinds::of(kind).is_none()) {
            let defined: Vec<Resource> =
                definitions.iter().filter(|resource| resource.kind == *kind).cloned().collect();
            match defined.is_empty() {
                true => resources.extend(guessed_resource(&history, &source, kind)?),
                false => resources.extend(defined),
            }
        }
        let versions = read(Kind::new("kinescope.io", "ServerVersion"))?;
        let git_version = versions.first().and_then(|version| {
            let version = version.value().ok()?;
            Some(version.pointer("/version/gitVersion")?.as_str()?.to_owned())
        });
        Ok(PastStore {
            path: path.to_owned(),
            source,
            moment,
            recorded,
            resources: Arc::new(ResourceTable::read_only(resources)),
            git_version: git_version.unwrap_or_else(|| DEFAULT_GIT_VERSION.to_owned()),
            lists: Mutex::default(),
            options,
            shift: options.shift_to.map(|to| TimeShift::between(moment, to)),
        })
    }

    /// Reads the objects of a kind.
    fn read(&self, kind: &Kind) -> Result<ObjectList, StoreError> {
        let read = || -> Result<Vec<Object>, history::Error> {
            let history = History::open(&self.path)?;
            let twin = twin_of_event(kind).filter(|_| !self.recorded.contains(kind));
            let Some(twin) = twin else {
                return objects_at(&history, &self.source, self.moment, kind.clone());
            };
            let events = objects_at(&history, &self.source, self.moment, twin)?;
            Ok(events.iter().filter_map(|event| in_group(event, &kind.group)).collect())
        };
        let objects = read().map_err(|error| StoreError::Failed(error.to_string()))?;
        let shifted = objects.into_iter().map(|object| match &self.shift {
            Some(shift) => shift.apply(&object),
            None => object,
        });
        Ok(ObjectList { objects: shifted.collect(), resource_version: self.resource_version() })
    }

    fn reason(&self) -> String {
        format!("this is the cluster as it was at {}", self.moment)
    }

    /// Later than every recorded resourceVersion, so that a client's watch from an object's version is valid.
    fn resource_version(&self) -> u64 {
        u64::try_from(self.moment.nanos()).unwrap_or(1).max(1)
    }
}

impl Store for PastStore {
    fn resources(&self) -> Arc<ResourceTable> {
        self.resources.clone()
    }

    fn list(&self, resource: &Resource) -> Result<ObjectList, StoreError> {
        let kind = &resource.kind;
        let entry = self
            .lists
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(kind.clone())
            .or_default()
            .clone();
        let mut list = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = &*list {
            return Ok(list.clone());
        }
        Ok(list.insert(self.read(kind)?).clone())
    }

    fn watch(&self, resource: &Resource, _version: u64) -> Box<dyn EventSource> {
        let (Some(speed), Ok(list)) = (self.options.speed, self.list(resource)) else {
            return Box::new(NoEvents);
        };
        let playback = Playback {
            path: self.path.clone(),
            source: self.source.clone(),
            from: self.moment,
            speed,
            shift: self.shift,
        };
        let kind = twin_of_event(&resource.kind).filter(|_| !self.recorded.contains(&resource.kind));
        let kind = kind.unwrap_or_else(|| resource.kind.clone());
        Box::new(PlaybackSource::start(playback, kind, list.objects))
    }

    fn commit(&self, _write: Write) -> Result<Object, StoreError> {
        Err(StoreError::ReadOnly(self.reason()))
    }

    fn is_in_memory(&self) -> bool {
        false
    }

    fn git_version(&self) -> &str {
        &self.git_version
    }

    fn now(&self) -> Moment {
        self.options.shift_to.unwrap_or(self.moment)
    }

    fn read_only_reason(&self) -> Option<String> {
        Some(self.reason())
    }
}

fn objects_at(
    history: &History,
    source: &Option<Arc<str>>,
    moment: Moment,
    kind: Kind,
) -> Result<Vec<Object>, history::Error> {
    let selection = Selection { kinds: Some(vec![kind]), source: source.clone(), ..Selection::default() };
    let mut objects = Vec::new();
    history.for_each_at(moment, &selection, |version| objects.push(version.object))?;
    Ok(objects)
}

/// The kind of the same Events in the other API group.
fn twin_of_event(kind: &Kind) -> Option<Kind> {
    let other = EVENT_GROUPS.iter().find(|group| ***group != *kind.group)?;
    (&*kind.kind == "Event" && EVENT_GROUPS.contains(&&*kind.group)).then(|| Kind::new(other, "Event"))
}

fn in_group(event: &Object, group: &str) -> Option<Object> {
    let event: Value = event.value().ok()?;
    Object::parse(&converted_event(event, group).to_string()).ok()
}

/// A kind whose definition was not recorded, by one of its objects.
fn guessed_resource(
    history: &History,
    source: &Option<Arc<str>>,
    kind: &Kind,
) -> anyhow::Result<Option<Resource>> {
    let Some((namespace, name)) = history.names_with_prefix(kind, None, "", 1)?.pop() else {
        return Ok(None);
    };
    let (sources, is_namespaced) = (history.sources()?, !namespace.is_empty());
    for source in sources.into_iter().filter(|name| source.as_ref().is_none_or(|source| source == name)) {
        let key = Key { source, kind: kind.clone(), namespace: (*namespace).into(), name: (*name).into() };
        if let Some(change) = history.of(&key)?.next().transpose()? {
            let api_version = change.what.object().meta().api_version.into_owned();
            let version = api_version.rsplit('/').next().unwrap_or("v1");
            return Ok(Some(Resource::guessed(kind.clone(), version, is_namespaced)));
        }
    }
    Ok(None)
}
