//! The reader of traces, which merges events and pod lifecycles into changes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kubernetes::pod_lifecycles::PodLifecycleData;
use model::{BadObject, IncomingChange, Key, Moment, Object, What};
use serde_json::Value;

use super::byte_reader::ByteReader;
use super::config::{TracerConfig, config_object};
use super::cursor::ValueCursor;
use super::event::{EventPositions, parse_object};
use super::json_cursor::JsonCursor;
use super::lifecycle_timeline::{LifecycleChange, LifecycleTimeline, start_time};
use super::msgpack_cursor::MsgpackCursor;
use super::outline::read_outline;
use super::pod_owners::PodOwners;
use super::pods;
use crate::input::FileOnDisk;
use crate::{Error, ImportItem, Input, ReadOptions, Result};

/// Reads a trace.
///
/// It holds the lifecycles, their owners' objects, and the names of all existing objects.
pub(super) struct SktraceReader {
    cursor: Box<dyn ValueCursor>,
    /// Keeps the temporary copy of the file alive.
    _file: FileOnDisk,
    source: Arc<str>,
    config: TracerConfig,
    owners: PodOwners,
    lifecycles: LifecycleTimeline,
    /// The existing objects.
    present: HashSet<Key>,
    /// The specs of synthesized pods that have not ended yet, by lifecycle.
    open_specs: HashMap<usize, Option<Arc<Value>>>,
    state: ReadState,
    /// Items not yet returned.
    ready: VecDeque<ImportItem>,
    json: Vec<u8>,
    /// The object that stores the configuration, until it is returned.
    config_object: Option<Object>,
    /// When the trace begins.
    trace_start: Moment,
}

/// The position in the events.
#[derive(Clone, Copy)]
enum ReadState {
    /// Before an event, or at the end of the list.
    NextEvent,
    /// Before the applied objects of an event.
    BeforeApplied(EventPositions),
    Applying(EventPositions),
    /// Before the deleted objects of an event.
    BeforeDeleted(EventPositions),
    Deleting(EventPositions),
    /// After all events.
    AfterEvents,
    End,
}

// === impl SktraceReader ===

impl SktraceReader {
    pub(super) fn new(input: Input, options: ReadOptions) -> Result<SktraceReader> {
        let name = input.name.clone();
        let file = input.into_file()?;
        let mut bytes = ByteReader::open(&name, &file.path)?;
        if bytes.require_chunk()?.starts_with(b"\xef\xbb\xbf") {
            bytes.consume(3);
        }
        let mut cursor: Box<dyn ValueCursor> = match bytes.require_chunk()?[0] {
            b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' => Box::new(JsonCursor::new(bytes)),
            _ => Box::new(MsgpackCursor::new(bytes)),
        };
        let outline = read_outline(&mut *cursor)?;
        let config = TracerConfig::from_trace(&outline.config)
            .map_err(|why| Error::invalid_file(&name, format!("config: {why}")))?;
        let mut owners = PodOwners::new(outline.owners);
        if !owners.list.is_empty() {
            cursor.seek(outline.events)?;
            owners.find_in_events(&mut *cursor)?;
        }
        cursor.seek(outline.events)?;
        cursor.enter()?;
        let step = if cursor.next_entry()? {
            ReadState::BeforeApplied(EventPositions::scan(&mut *cursor)?)
        } else {
            ReadState::AfterEvents
        };
        let first_event = match step {
            ReadState::BeforeApplied(event) => Some(event.at),
            _ => None,
        };
        let first_life = outline
            .lifecycles
            .iter()
            .map(|lifecycle| start_time(lifecycle.ran))
            .filter(|at| *at > Moment::MIN)
            .min();
        let first = first_event.into_iter().chain(first_life).min();
        let config_record = config_object(&outline.config)
            .map_err(|error| Error::invalid_file(&name, format!("config: {error}")))?;
        Ok(SktraceReader {
            cursor,
            _file: file,
            source: options.source,
            config,
            owners,
            lifecycles: LifecycleTimeline::new(outline.lifecycles),
            present: HashSet::new(),
            open_specs: HashMap::new(),
            state: step,
            ready: VecDeque::new(),
            json: Vec::new(),
            config_object: Some(config_record),
            trace_start: first.or(options.at).unwrap_or(options.now),
        })
    }

    fn read(&mut self) -> Result<Option<ImportItem>> {
        while self.ready.is_empty() {
            match self.state {
                ReadState::NextEvent => {
                    self.state = if self.cursor.next_entry()? {
                        ReadState::BeforeApplied(EventPositions::scan(&mut *self.cursor)?)
                    } else {
                        ReadState::AfterEvents
                    };
                }
                ReadState::BeforeApplied(event) => {
                    if self.apply_lifecycle_change(event.at.plus_nanos(-1))? {
                        continue;
                    }
                    self.cursor.seek(event.applied)?;
                    self.cursor.enter_list("applied_objs")?;
                    self.state = ReadState::Applying(event);
                }
                ReadState::Applying(event) => {
                    if self.cursor.next_entry()? {
                        let object = self.read_object()?;
                        self.apply_object(event.at, object)?;
                    } else {
                        self.state = ReadState::BeforeDeleted(event);
                    }
                }
                ReadState::BeforeDeleted(event) => {
                    // Within one second a pod is created, runs and is deleted in this order.
                    if self.apply_lifecycle_change(event.at)? {
                        continue;
                    }
                    self.cursor.seek(event.deleted)?;
                    self.cursor.enter_list("deleted_objs")?;
                    self.state = ReadState::Deleting(event);
                }
                ReadState::Deleting(event) => {
                    if self.cursor.next_entry()? {
                        let object = self.read_object()?;
                        self.delete_object(event.at, object)?;
                    } else {
                        self.cursor.seek(event.end)?;
                        self.state = ReadState::NextEvent;
                    }
                }
                ReadState::AfterEvents => {
                    if !self.apply_lifecycle_change(Moment::MAX)? {
                        self.push_config(self.trace_start);
                        self.state = ReadState::End;
                    }
                }
                ReadState::End => break,
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Reads the object that comes next.
    fn read_object(&mut self) -> Result<Object> {
        self.cursor.read_value(&mut self.json)?;
        parse_object(&*self.cursor, &self.json)
    }

    fn apply_object(&mut self, at: Moment, object: Object) -> Result<()> {
        let key = object.key(&self.source);
        let what = if self.present.insert(key.clone()) { What::Added } else { What::Modified };
        self.push_change(at, key, what(object.clone()), false);
        if let Some(owner_index) = self.owners.find(&object) {
            let owner = &mut self.owners.list[owner_index];
            owner.update(&object);
            if let Some((lifecycle, data)) = owner.lifecycle {
                let pod = pods::with_lifecycle(&object, self.lifecycles.get(lifecycle), data)
                    .map_err(|error| self.synthesis_error(&error))?;
                self.push_inferred(at, What::Modified(pod));
            }
        }
        Ok(())
    }

    fn delete_object(&mut self, at: Moment, object: Object) -> Result<()> {
        let key = object.key(&self.source);
        if self.present.remove(&key)
            && let Some(owner_index) = self.owners.find(&object)
            && let Some((lifecycle, PodLifecycleData::Running(_))) =
                self.owners.list[owner_index].lifecycle.take()
        {
            // The end of a deleted pod may be a second after its deletion, by another clock.
            let (owner, lifecycle) = (&self.owners.list[owner_index], self.lifecycles.get(lifecycle));
            if let (Some(pod), PodLifecycleData::Finished(..)) = (&owner.object, lifecycle.ran) {
                let pod = pods::with_lifecycle(pod, lifecycle, lifecycle.ran)
                    .map_err(|error| self.synthesis_error(&error))?;
                self.push_inferred(at, What::Modified(pod));
            }
        }
        self.push_change(at, key, What::Deleted(object), false);
        Ok(())
    }

    /// Applies the next start or end of a lifecycle that is not after `until`; returns false if there is none.
    fn apply_lifecycle_change(&mut self, until: Moment) -> Result<bool> {
        let Some(lifecycle_change) = self.lifecycles.next(until) else { return Ok(false) };
        let owner_index = self.lifecycles.get(lifecycle_change.lifecycle).owner as usize;
        let change = if self.owners.list[owner_index].owner.is_pod() {
            self.bare_pod_change(&lifecycle_change, owner_index)
        } else {
            self.owned_pod_change(&lifecycle_change, owner_index)
        };
        change.map_err(|error| self.synthesis_error(&error))?;
        Ok(true)
    }

    /// The change of a pod without an owner. If the trace contains the pod, its lifecycle changes that object, and only
    /// while it exists.
    fn bare_pod_change(
        &mut self,
        lifecycle_change: &LifecycleChange,
        owner_index: usize,
    ) -> std::result::Result<(), BadObject> {
        let lifecycle = self.lifecycles.get(lifecycle_change.lifecycle);
        let tracked_owner = &mut self.owners.list[owner_index];
        let is_end = matches!(lifecycle_change.ran, PodLifecycleData::Finished(..));
        if is_end
            && tracked_owner.lifecycle.is_none_or(|(lifecycle, _)| lifecycle != lifecycle_change.lifecycle)
        {
            return Ok(());
        }
        tracked_owner.lifecycle = Some((lifecycle_change.lifecycle, lifecycle_change.ran));
        let what = match &tracked_owner.object {
            None => {
                let pod = pods::synthesize_pod(
                    &tracked_owner.owner,
                    tracked_owner.owner.gvk.as_ref(),
                    lifecycle,
                    None,
                    lifecycle_change.ran,
                )?;
                tracked_owner.object = Some(pod.clone());
                self.present.insert(pod.key(&self.source));
                What::Added(pod)
            }
            Some(pod) if self.present.contains(&pod.key(&self.source)) => {
                What::Modified(pods::with_lifecycle(pod, lifecycle, lifecycle_change.ran)?)
            }
            Some(_) => return Ok(()),
        };
        self.push_inferred(lifecycle_change.at.max(self.trace_start), what);
        Ok(())
    }

    fn owned_pod_change(
        &mut self,
        lifecycle_change: &LifecycleChange,
        owner_index: usize,
    ) -> std::result::Result<(), BadObject> {
        let lifecycle = self.lifecycles.get(lifecycle_change.lifecycle);
        let tracked_owner = &mut self.owners.list[owner_index];
        let is_end = matches!(lifecycle_change.ran, PodLifecycleData::Finished(..));
        let spec = if is_end {
            self.open_specs.remove(&lifecycle_change.lifecycle).expect("a lifecycle ends after its start")
        } else {
            tracked_owner.spec(lifecycle.hash, &self.config)
        };
        let gvk = tracked_owner.gvk(&self.config);
        let pod = pods::synthesize_pod(
            &tracked_owner.owner,
            gvk.as_ref(),
            lifecycle,
            spec.as_deref(),
            lifecycle_change.ran,
        )?;
        if !is_end && matches!(lifecycle.ran, PodLifecycleData::Finished(..)) {
            self.open_specs.insert(lifecycle_change.lifecycle, spec);
        }
        let what = if is_end { What::Modified(pod) } else { What::Added(pod) };
        self.push_inferred(lifecycle_change.at.max(self.trace_start), what);
        Ok(())
    }

    fn push_inferred(&mut self, at: Moment, what: What) {
        let key = what.object().key(&self.source);
        self.push_change(at, key, what, true);
    }

    fn push_change(&mut self, seen: Moment, key: Key, what: What, inferred: bool) {
        self.push_config(seen);
        self.ready.push_back(ImportItem::Change(IncomingChange { seen, key, what, inferred }));
    }

    /// Appends the configuration once, with the first change: the empty event at a trace's beginning may be much
    /// earlier.
    fn push_config(&mut self, seen: Moment) {
        if let Some(config_record) = self.config_object.take() {
            let key = config_record.key(&self.source);
            let what = What::Added(config_record);
            self.ready.push_back(ImportItem::Change(IncomingChange { seen, key, what, inferred: true }));
        }
    }

    fn synthesis_error(&self, error: &BadObject) -> Error {
        self.cursor.error(format!("cannot create the pods of pod_lifecycles: {error}"))
    }
}

impl Iterator for SktraceReader {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        let read = self.read();
        if read.is_err() {
            self.state = ReadState::End;
            self.ready.clear();
        }
        read.transpose()
    }
}
