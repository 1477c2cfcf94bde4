//! A trace made of changes, as SimKube's tracer would have exported it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use kubernetes::owners::{Owners, owner_references};
use kubernetes::pod_lives::{PodLives, Ran, ran};
use kubernetes::selector::Selector;
use model::{Change, Gap, Meta, Moment, Object, What, Window};
use serde_json::{Map, Value, json};

use super::config::{Gvk, TracerConfig, is_kept};
use super::hash::hash_option;
use super::lived::{self, Lived};
use super::names::{Name, above, seconds};
use super::pack::Pack;
use super::pods::HASH;
use super::pointer;
use super::sanitise::sanitise;
use crate::{Error, Result, Written};

/// What is left out of a trace.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Objects in these namespaces.
    pub excluded_namespaces: Vec<String>,
    /// Objects that any of these selects.
    pub excluded_labels: Vec<Selector>,
}

/// Writes a trace.
///
/// It is to be given all changes of one recording, from its beginning up to the window's end: what happened before the
/// window becomes the state that the trace begins with. The events go through a temporary file; what is held in memory is
/// the cluster, and what the format has at its end: the hash of every object there ever was, and the lives of pods.
pub struct Writer<W> {
    out: W,
    config: TracerConfig,
    window: Window,
    filters: Filters,
    owners: Owners,
    lives: PodLives,
    lived: Lived,
    /// The objects that are there, with the hash of their spec.
    hashes: HashMap<Name, u64>,
    /// Those of them that are in the trace.
    exported: HashSet<Name>,
    index: BTreeMap<Gvk, BTreeMap<String, u64>>,
    /// What the trace begins with; `None` once it has been written.
    past: Option<BTreeMap<Name, Past>>,
    event: Event,
    spool: BufWriter<File>,
    /// How many events are in the spool.
    events: usize,
    written: Written,
}

/// An object of the time before the window.
struct Past {
    packed: Vec<u8>,
    object: Object,
    /// When it ended, if it is a pod that did.
    ended: Option<Moment>,
}

/// What happened in one second.
#[derive(Default)]
struct Event {
    second: i64,
    applied: Vec<Applied>,
    deleted: Vec<Name>,
    /// The same, to ask.
    gone: HashSet<Name>,
}

struct Applied {
    name: Name,
    hash: u64,
    packed: Vec<u8>,
    object: Object,
}

// === impl Writer ===

impl<W: Write> Writer<W> {
    /// Writes to `out` what happened in the window to the objects that are tracked.
    pub fn new(out: W, config: TracerConfig, window: Window, filters: Filters) -> Result<Writer<W>> {
        Ok(Writer::with_spool(out, config, window, filters, tempfile::tempfile()?))
    }

    /// The same, with a file for what cannot be written before the end: it must be empty.
    pub fn with_spool(
        out: W,
        config: TracerConfig,
        window: Window,
        filters: Filters,
        spool: File,
    ) -> Writer<W> {
        Writer {
            out,
            config,
            window,
            filters,
            owners: Owners::new(),
            lives: PodLives::new(),
            lived: Lived::default(),
            hashes: HashMap::new(),
            exported: HashSet::new(),
            index: BTreeMap::new(),
            past: Some(BTreeMap::new()),
            event: Event::default(),
            spool: BufWriter::new(spool),
            events: 0,
            written: Written::default(),
        }
    }

    fn take(&mut self, change: &Change) -> Result<()> {
        let object = change.what.object();
        let meta = object.meta();
        if is_kept(&meta) {
            return Ok(());
        }
        let gvk = Gvk::of(&meta);
        match &change.what {
            // What a pod owns goes with it, and there are too many of them to remember.
            What::Deleted(_) if gvk.is_pod() => self.owners.forget(&change.key),
            what => self.owners.see(&change.key, what),
        }
        if gvk.is_pod()
            && let Some(life) = self.lives.pod(change.at, &change.key, &change.what)
        {
            self.lived.take(&life, self.window, &self.config, &self.owners, &mut self.written.left_out);
        }
        let name = (gvk, format!("{}/{}", meta.namespace, meta.name));
        match self.fits(&meta, &name.0, change) {
            Err(why) => self.written.left_out.count(why),
            Ok(()) => match &change.what {
                What::Deleted(_) => self.deleted(name),
                What::Added(object) | What::Modified(object) => {
                    self.applied(name, change.inferred, object)?
                }
            },
        }
        Ok(())
    }

    /// Whether an object belongs into the trace, or why not.
    fn fits(&self, meta: &Meta<'_>, gvk: &Gvk, change: &Change) -> std::result::Result<(), &'static str> {
        let Some(tracked) = self.config.tracked(gvk) else { return Err("changes of kinds not tracked") };
        if meta.namespace.is_empty() {
            return Err("changes of objects without a namespace");
        }
        // What comes with a delete may be a stub; whether it is deleted from the trace is known by its name.
        let Some(object) = change.what.state() else { return Ok(()) };
        if self.filters.excluded_namespaces.iter().any(|excluded| *excluded == meta.namespace) {
            return Err("changes in excluded namespaces");
        }
        let references = owner_references(object);
        if references.iter().any(|owner| owner.kind == "DaemonSet") {
            return Err("changes of objects that a DaemonSet owns");
        }
        if tracked.skip_owned && !references.is_empty() {
            return Err("changes of objects that have an owner");
        }
        if self.filters.excludes_labels_of(object) {
            return Err("changes of objects with excluded labels");
        }
        Ok(())
    }

    fn applied(&mut self, name: Name, inferred: bool, object: &Object) -> Result<()> {
        let Ok(value) = object.value() else { return Ok(()) };
        if name.0.is_pod()
            && let Some(past) = self.past.as_mut().and_then(|past| past.get_mut(&name))
            && let Ran::Between(_, end) = ran(object)
        {
            past.ended = Some(end);
        }
        self.check_templates(&name, &value)?;
        let Value::Object(mut value) = value else { return Ok(()) };
        let made_up = inferred && is_imported(&value);
        sanitise(&mut value, name.0.is_pod());
        let hash = hash_option(value.get("spec"));
        if made_up {
            // A trace that was imported had no such object: only lives that need it in the index.
            if !self.hashes.contains_key(&name) && owner_references(object).is_empty() {
                self.index.entry(name.0).or_default().entry(name.1).or_insert(hash);
            }
            return Ok(());
        }
        if self.hashes.insert(name.clone(), hash) == Some(hash) {
            self.written.left_out.count("changes of status or metadata alone");
            return Ok(());
        }
        if self.event.gone.contains(&name) {
            // An event is applied before it is deleted: what comes again needs one of its own.
            self.finish_event()?;
        }
        let mut packed = Vec::new();
        Pack(&mut packed).object(&value)?;
        self.event.applied.push(Applied { name, hash, packed, object: object.clone() });
        Ok(())
    }

    /// That the configured paths lead through the object: a simulation of the trace would fail where one does not.
    fn check_templates(&self, (gvk, name): &Name, value: &Value) -> Result<()> {
        for path in self.config.tracked(gvk).iter().flat_map(|tracked| &tracked.pod_spec_template_paths) {
            pointer::matches(value, path).map_err(|why| {
                Error::bad("the tracer's configuration", gvk, format!("{why}, as in {name}"))
            })?;
        }
        Ok(())
    }

    fn deleted(&mut self, name: Name) {
        if self.hashes.remove(&name).is_some() {
            self.event.gone.insert(name.clone());
            self.event.deleted.push(name);
        } else {
            self.written.left_out.count("deletions of objects that are left out");
        }
    }

    /// Ends the second: only now all owners of what was created in it have been seen.
    fn finish_event(&mut self) -> Result<()> {
        let Event { second, applied, deleted, .. } = std::mem::take(&mut self.event);
        self.event.second = second;
        let fits = self.admit(&applied);
        let mut kept: Vec<Applied> = Vec::new();
        for (applied, fits) in applied.into_iter().zip(fits) {
            if fits {
                self.exported.insert(applied.name.clone());
                kept.push(applied);
            } else {
                self.written.left_out.count("changes of objects whose owner is in the trace");
            }
        }
        let mut gone = Vec::new();
        for name in deleted {
            if self.exported.remove(&name) {
                gone.push(name);
            } else {
                self.written.left_out.count("deletions of objects that are left out");
            }
        }
        if let Some(past) = &mut self.past {
            for Applied { name, packed, object, .. } in kept {
                let ended = match ran(&object) {
                    Ran::Between(_, end) if name.0.is_pod() => Some(end),
                    _ => None,
                };
                past.insert(name, Past { packed, object, ended });
            }
            for name in gone {
                past.remove(&name);
            }
        } else if !kept.is_empty() || !gone.is_empty() {
            let packed: Vec<Vec<u8>> = kept.into_iter().map(|applied| applied.packed).collect();
            self.write_event(second, &packed, &gone)?;
        }
        Ok(())
    }

    /// Which objects of a second belong into the trace: those without an owner there. Each of them that has no owner
    /// itself comes into the index before those that it owns are asked about.
    fn admit(&mut self, applied: &[Applied]) -> Vec<bool> {
        let above: Vec<Vec<Name>> =
            applied.iter().map(|applied| above(&self.owners, &applied.object)).collect();
        let mut order: Vec<usize> = (0..applied.len()).collect();
        order.sort_by_key(|place| above[*place].len());
        let mut fits = vec![false; applied.len()];
        for place in order {
            fits[place] = !above[place].iter().any(|owner| self.is_indexed(owner));
            if fits[place] {
                let Applied { name: (gvk, name), hash, .. } = &applied[place];
                self.index.entry(gvk.clone()).or_default().insert(name.clone(), *hash);
            }
        }
        fits
    }

    fn is_indexed(&self, (gvk, name): &Name) -> bool {
        self.index.get(gvk).is_some_and(|names| names.contains_key(name))
    }

    /// Writes the state that the trace begins with.
    fn finish_past(&mut self) -> Result<()> {
        let Some(past) = self.past.take() else { return Ok(()) };
        let mut packed = Vec::new();
        for (name, past) in past {
            // A list may show what is owned seconds before its owner.
            if above(&self.owners, &past.object).iter().any(|owner| self.is_indexed(owner)) {
                self.exported.remove(&name);
                self.index.get_mut(&name.0).and_then(|names| names.remove(&name.1));
            } else if past.ended.is_some_and(|end| end < self.window.from) {
                self.exported.remove(&name);
            } else {
                packed.push(past.packed);
            }
        }
        self.write_event(seconds(self.window.from), &packed, &[])
    }

    fn write_event(&mut self, second: i64, applied: &[Vec<u8>], deleted: &[Name]) -> Result<()> {
        let mut pack = Pack(&mut self.spool);
        pack.map(3)?;
        pack.text("ts")?;
        pack.signed(second)?;
        pack.text("applied_objs")?;
        pack.list(applied.len())?;
        applied.iter().try_for_each(|packed| pack.0.write_all(packed))?;
        pack.text("deleted_objs")?;
        pack.list(deleted.len())?;
        deleted.iter().try_for_each(|name| pack.object(&stub(name)))?;
        self.events += 1;
        self.written.count += (applied.len() + deleted.len()) as u64;
        Ok(())
    }
}

impl<W: Write> crate::Writer for Writer<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        if change.at >= self.window.to {
            return Ok(());
        }
        if self.window.from == Moment::MIN {
            // All of time begins with the first change.
            self.window.from = change.at;
        }
        let second = seconds(change.at);
        let enters = self.past.is_some() && change.at >= self.window.from;
        if second != self.event.second || enters {
            self.finish_event()?;
            self.event.second = second;
        }
        if enters {
            self.finish_past()?;
        }
        self.take(change)
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Written> {
        if self.window.from == Moment::MIN {
            self.window.from = Moment::from_nanos(0);
        }
        self.finish_event()?;
        self.finish_past()?;
        let left_out = &mut self.written.left_out;
        for life in std::mem::take(&mut self.lives).finish() {
            self.lived.take(&life, self.window, &self.config, &self.owners, left_out);
        }
        let index = &self.index;
        let is_there = |(gvk, name): &Name| index.get(gvk).is_some_and(|names| names.contains_key(name));
        let lifecycles = std::mem::take(&mut self.lived).finish(is_there, left_out);

        let mut pack = Pack(&mut self.out);
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
        lived::write(&lifecycles, &mut pack)?;
        self.out.flush()?;
        Ok(self.written)
    }
}

// === impl Filters ===

impl Filters {
    fn excludes_labels_of(&self, object: &Object) -> bool {
        if self.excluded_labels.is_empty() {
            return false;
        }
        let value = object.value().unwrap_or_default();
        let labels = &value["metadata"]["labels"];
        self.excluded_labels.iter().any(|selector| selector.matches(|key| labels.get(key)?.as_str()))
    }
}

/// Whether this is a pod of an imported trace, made up or with its life made up.
fn is_imported(object: &Map<String, Value>) -> bool {
    object.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(HASH)).is_some()
}

/// What SimKube writes of an object that is deleted.
fn stub((gvk, name): &Name) -> Map<String, Value> {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let stub = json!({"apiVersion": gvk.api_version, "kind": gvk.kind,
                      "metadata": {"name": name, "namespace": namespace}});
    match stub {
        Value::Object(stub) => stub,
        _ => Map::new(),
    }
}
