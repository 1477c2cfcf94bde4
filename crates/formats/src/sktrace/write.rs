//! The writer of traces, which exports changes as SimKube's tracer would.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use kubernetes::owners::{OwnerIndex, owner_references};
use kubernetes::pod_lifecycles::{PodLifecycleData, PodLifecycleTracker, lifecycle_data};
use kubernetes::selector::Selector;
use model::{Change, Gap, Meta, Moment, Object, What, Window};
use serde_json::{Map, Value, json};

use super::config::{Gvk, TracerConfig, is_config_object};
use super::hash::hash_option;
use super::lifecycle_collector::{self, LifecycleCollector};
use super::msgpack_writer::MsgpackWriter;
use super::names::{ObjectName, owner_chain, unix_seconds};
use super::pods::HASH_ANNOTATION;
use super::pointer;
use super::sanitize::sanitize;
use crate::{Error, Result, WriteSummary};

/// The objects to be left out of a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceFilters {
    /// Objects in these namespaces.
    pub excluded_namespaces: Vec<String>,
    /// Objects that any of these selectors matches.
    pub excluded_labels: Vec<Selector>,
}

/// Writes a trace.
///
/// It needs all changes of one recording from its beginning up to the window's end: changes before the window make the
/// initial state of the trace. Events are spooled to a temporary file. In memory are the cluster and the parts that
/// come at the end of a trace: the hash of every object that ever existed, and the pod lifecycles.
pub struct SktraceWriter<W> {
    out: W,
    config: TracerConfig,
    window: Window,
    filters: TraceFilters,
    owners: OwnerIndex,
    pod_lives: PodLifecycleTracker,
    lifecycles: LifecycleCollector,
    /// The hash of the spec of every existing object.
    spec_hashes: HashMap<ObjectName, u64>,
    /// The existing objects that are in the trace.
    exported: HashSet<ObjectName>,
    index: BTreeMap<Gvk, BTreeMap<String, u64>>,
    /// The initial state of the trace; `None` once it has been written.
    initial_state: Option<BTreeMap<ObjectName, InitialObject>>,
    event: PendingEvent,
    spool: BufWriter<File>,
    /// The number of events in the spool.
    events: usize,
    written: WriteSummary,
}

/// An object of the initial state.
struct InitialObject {
    packed: Vec<u8>,
    object: Object,
    /// When it finished, if it is a finished pod.
    ended: Option<Moment>,
}

/// The changes of one second.
#[derive(Default)]
struct PendingEvent {
    second: i64,
    applied: Vec<AppliedObject>,
    deleted: Vec<ObjectName>,
    /// The same as `deleted`, for lookup.
    deleted_names: HashSet<ObjectName>,
}

struct AppliedObject {
    name: ObjectName,
    hash: u64,
    packed: Vec<u8>,
    object: Object,
}

// === impl SktraceWriter ===

impl<W: Write> SktraceWriter<W> {
    /// Writes to `out` the changes of the tracked objects in the window.
    pub fn new(
        out: W,
        config: TracerConfig,
        window: Window,
        filters: TraceFilters,
    ) -> Result<SktraceWriter<W>> {
        Ok(SktraceWriter::with_spool(out, config, window, filters, tempfile::tempfile()?))
    }

    /// The same with a given spool file, which must be empty.
    pub fn with_spool(
        out: W,
        config: TracerConfig,
        window: Window,
        filters: TraceFilters,
        spool: File,
    ) -> SktraceWriter<W> {
        SktraceWriter {
            out,
            config,
            window,
            filters,
            owners: OwnerIndex::new(),
            pod_lives: PodLifecycleTracker::new(),
            lifecycles: LifecycleCollector::default(),
            spec_hashes: HashMap::new(),
            exported: HashSet::new(),
            index: BTreeMap::new(),
            initial_state: Some(BTreeMap::new()),
            event: PendingEvent::default(),
            spool: BufWriter::new(spool),
            events: 0,
            written: WriteSummary::default(),
        }
    }

    fn process(&mut self, change: &Change) -> Result<()> {
        let object = change.what.object();
        let meta = object.meta();
        if is_config_object(&meta) {
            return Ok(());
        }
        let gvk = Gvk::of(&meta);
        match &change.what {
            // Objects that a pod owns are deleted with it, and there are too many pods to remember them all.
            What::Deleted(_) if gvk.is_pod() => self.owners.remove(&change.key),
            what => self.owners.apply(&change.key, what),
        }
        if gvk.is_pod()
            && let Some(lifecycle) = self.pod_lives.apply(change.at, &change.key, &change.what)
        {
            self.lifecycles.add(
                &lifecycle,
                self.window,
                &self.config,
                &self.owners,
                &mut self.written.left_out,
            );
        }
        let name = (gvk, format!("{}/{}", meta.namespace, meta.name));
        match self.check_exported(&meta, &name.0, change) {
            Err(why) => self.written.left_out.count(why),
            Ok(()) => match &change.what {
                What::Deleted(_) => self.delete_object(name),
                What::Added(object) | What::Modified(object) => {
                    self.apply_object(name, change.inferred, object)?
                }
            },
        }
        Ok(())
    }

    /// Checks whether an object belongs in the trace; the error is the category under which it is left out.
    fn check_exported(
        &self,
        meta: &Meta<'_>,
        gvk: &Gvk,
        change: &Change,
    ) -> std::result::Result<(), &'static str> {
        let Some(tracked) = self.config.tracked(gvk) else { return Err("changes of untracked kinds") };
        if meta.namespace.is_empty() {
            return Err("changes of objects without a namespace");
        }
        // The object of a deletion may be a stub; its name decides whether it is in the trace.
        let Some(object) = change.what.state() else { return Ok(()) };
        if self.filters.excluded_namespaces.iter().any(|excluded| *excluded == meta.namespace) {
            return Err("changes in excluded namespaces");
        }
        let references = owner_references(object);
        if references.iter().any(|owner| *owner.kind == *"DaemonSet") {
            return Err("changes of objects owned by a DaemonSet");
        }
        if tracked.skip_owned && !references.is_empty() {
            return Err("changes of owned objects");
        }
        if self.filters.excludes_labels_of(object) {
            return Err("changes of objects with excluded labels");
        }
        Ok(())
    }

    fn apply_object(&mut self, name: ObjectName, inferred: bool, object: &Object) -> Result<()> {
        let Ok(value) = object.value() else { return Ok(()) };
        if name.0.is_pod()
            && let Some(initial_state) =
                self.initial_state.as_mut().and_then(|initial_state| initial_state.get_mut(&name))
            && let PodLifecycleData::Finished(_, end) = lifecycle_data(object)
        {
            initial_state.ended = Some(end);
        }
        self.check_templates(&name, &value)?;
        let Value::Object(mut value) = value else { return Ok(()) };
        let is_synthesized = inferred && is_imported(&value);
        sanitize(&mut value, name.0.is_pod());
        let hash = hash_option(value.get("spec"));
        if is_synthesized {
            // The imported trace had no such object, only lifecycles whose owner has to be in the index.
            if !self.spec_hashes.contains_key(&name) && owner_references(object).is_empty() {
                self.index.entry(name.0).or_default().entry(name.1).or_insert(hash);
            }
            return Ok(());
        }
        if self.spec_hashes.insert(name.clone(), hash) == Some(hash) {
            self.written.left_out.count("changes of only status or metadata");
            return Ok(());
        }
        if self.event.deleted_names.contains(&name) {
            // Within an event objects are applied before others are deleted, so a re-created object needs another
            // event.
            self.finish_event()?;
        }
        let mut packed = Vec::new();
        MsgpackWriter(&mut packed).object(&value)?;
        self.event.applied.push(AppliedObject { name, hash, packed, object: object.clone() });
        Ok(())
    }

    /// Checks that the configured paths fit the object: otherwise a simulation of the trace would fail.
    fn check_templates(&self, (gvk, name): &ObjectName, value: &Value) -> Result<()> {
        for path in self.config.tracked(gvk).iter().flat_map(|tracked| &tracked.pod_spec_template_paths) {
            pointer::matches(value, path).map_err(|why| {
                Error::invalid_at("the tracer configuration", gvk, format!("{why}, as in {name}"))
            })?;
        }
        Ok(())
    }

    fn delete_object(&mut self, name: ObjectName) {
        if self.spec_hashes.remove(&name).is_some() {
            self.event.deleted_names.insert(name.clone());
            self.event.deleted.push(name);
        } else {
            self.written.left_out.count("deletions of skipped objects");
        }
    }

    /// Ends the second: only now all owners of the objects created in it are known.
    fn finish_event(&mut self) -> Result<()> {
        let PendingEvent { second, applied, deleted, .. } = std::mem::take(&mut self.event);
        self.event.second = second;
        let is_exported = self.select_exported(&applied);
        let mut exported: Vec<AppliedObject> = Vec::new();
        for (applied, is_exported) in applied.into_iter().zip(is_exported) {
            if is_exported {
                self.exported.insert(applied.name.clone());
                exported.push(applied);
            } else {
                self.written.left_out.count("changes of objects whose owner is in the trace");
            }
        }
        let mut deleted_names = Vec::new();
        for name in deleted {
            if self.exported.remove(&name) {
                deleted_names.push(name);
            } else {
                self.written.left_out.count("deletions of skipped objects");
            }
        }
        if let Some(initial_state) = &mut self.initial_state {
            for AppliedObject { name, packed, object, .. } in exported {
                let ended = match lifecycle_data(&object) {
                    PodLifecycleData::Finished(_, end) if name.0.is_pod() => Some(end),
                    _ => None,
                };
                initial_state.insert(name, InitialObject { packed, object, ended });
            }
            for name in deleted_names {
                initial_state.remove(&name);
            }
        } else if !exported.is_empty() || !deleted_names.is_empty() {
            let packed: Vec<Vec<u8>> = exported.into_iter().map(|applied| applied.packed).collect();
            self.write_event(second, &packed, &deleted_names)?;
        }
        Ok(())
    }

    /// Which objects of a second belong in the trace: those without an owner in it. Owners are checked, and added to
    /// the index, before the objects that they own.
    fn select_exported(&mut self, applied: &[AppliedObject]) -> Vec<bool> {
        let above: Vec<Vec<ObjectName>> =
            applied.iter().map(|applied| owner_chain(&self.owners, &applied.object)).collect();
        let mut order: Vec<usize> = (0..applied.len()).collect();
        order.sort_by_key(|index| above[*index].len());
        let mut is_exported = vec![false; applied.len()];
        for index in order {
            is_exported[index] = !above[index].iter().any(|owner| self.is_indexed(owner));
            if is_exported[index] {
                let AppliedObject { name: (gvk, name), hash, .. } = &applied[index];
                self.index.entry(gvk.clone()).or_default().insert(name.clone(), *hash);
            }
        }
        is_exported
    }

    fn is_indexed(&self, (gvk, name): &ObjectName) -> bool {
        self.index.get(gvk).is_some_and(|names| names.contains_key(name))
    }

    /// Writes the initial state of the trace.
    fn write_initial_state(&mut self) -> Result<()> {
        let Some(initial_state) = self.initial_state.take() else { return Ok(()) };
        let mut packed = Vec::new();
        for (name, initial_state) in initial_state {
            // An owned object may have been listed seconds before its owner.
            if owner_chain(&self.owners, &initial_state.object).iter().any(|owner| self.is_indexed(owner)) {
                self.exported.remove(&name);
                self.index.get_mut(&name.0).and_then(|names| names.remove(&name.1));
            } else if initial_state.ended.is_some_and(|end| end < self.window.from) {
                self.exported.remove(&name);
            } else {
                packed.push(initial_state.packed);
            }
        }
        self.write_event(unix_seconds(self.window.from), &packed, &[])
    }

    fn write_event(&mut self, second: i64, applied: &[Vec<u8>], deleted: &[ObjectName]) -> Result<()> {
        let mut pack = MsgpackWriter(&mut self.spool);
        pack.map(3)?;
        pack.text("ts")?;
        pack.signed(second)?;
        pack.text("applied_objs")?;
        pack.list(applied.len())?;
        applied.iter().try_for_each(|packed| pack.0.write_all(packed))?;
        pack.text("deleted_objs")?;
        pack.list(deleted.len())?;
        deleted.iter().try_for_each(|name| pack.object(&deleted_stub(name)))?;
        self.events += 1;
        self.written.count += (applied.len() + deleted.len()) as u64;
        Ok(())
    }
}

impl<W: Write> crate::Writer for SktraceWriter<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        if change.at >= self.window.to {
            return Ok(());
        }
        if self.window.from == Moment::MIN {
            // An unbounded window begins with the first change.
            self.window.from = change.at;
        }
        let second = unix_seconds(change.at);
        let enters = self.initial_state.is_some() && change.at >= self.window.from;
        if second != self.event.second || enters {
            self.finish_event()?;
            self.event.second = second;
        }
        if enters {
            self.write_initial_state()?;
        }
        self.process(change)
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<WriteSummary> {
        if self.window.from == Moment::MIN {
            self.window.from = Moment::from_nanos(0);
        }
        self.finish_event()?;
        self.write_initial_state()?;
        let left_out = &mut self.written.left_out;
        for lifecycle in std::mem::take(&mut self.pod_lives).finish() {
            self.lifecycles.add(&lifecycle, self.window, &self.config, &self.owners, left_out);
        }
        let index = &self.index;
        let is_there =
            |(gvk, name): &ObjectName| index.get(gvk).is_some_and(|names| names.contains_key(name));
        let lifecycles = std::mem::take(&mut self.lifecycles).finish(is_there, left_out);

        let mut pack = MsgpackWriter(&mut self.out);
        pack.map(5)?;
        pack.text("version")?;
        pack.unsigned(2)?;
        pack.text("config")?;
        pack.value(&self.config.to_trace())?;
        pack.text("events")?;
        pack.list(self.events)?;
        let mut spool = self.spool.into_inner().map_err(io::IntoInnerError::into_error)?;
        spool.rewind()?;
        io::copy(&mut spool, &mut pack.0)?;
        pack.text("index")?;
        pack.map(self.index.len())?;
        for (gvk, names) in &self.index {
            pack.text(&gvk.to_string())?;
            pack.map(names.len())?;
            for (name, hash) in names {
                pack.text(name)?;
                pack.unsigned(*hash)?;
            }
        }
        pack.text("pod_lifecycles")?;
        lifecycle_collector::write(&lifecycles, &mut pack)?;
        self.out.flush()?;
        Ok(self.written)
    }
}

// === impl TraceFilters ===

impl TraceFilters {
    fn excludes_labels_of(&self, object: &Object) -> bool {
        if self.excluded_labels.is_empty() {
            return false;
        }
        let value = object.value().unwrap_or_default();
        let labels = &value["metadata"]["labels"];
        self.excluded_labels.iter().any(|selector| selector.matches(|key| labels.get(key)?.as_str()))
    }
}

/// Whether this is a pod of an imported trace that was synthesized or got its status from a lifecycle.
fn is_imported(object: &Map<String, Value>) -> bool {
    object.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(HASH_ANNOTATION)).is_some()
}

/// The stub that SimKube writes for a deleted object.
fn deleted_stub((gvk, name): &ObjectName) -> Map<String, Value> {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let stub = json!({"apiVersion": gvk.api_version, "kind": gvk.kind,
                      "metadata": {"name": name, "namespace": namespace}});
    match stub {
        Value::Object(stub) => stub,
        _ => Map::new(),
    }
}
