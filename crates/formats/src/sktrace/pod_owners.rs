//! The owners of pods with lifecycles, with their own objects in the trace.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes::pod_lifecycles::PodLifecycleData;
use model::Object;
use serde_json::Value;

use super::config::{Gvk, TracerConfig};
use super::cursor::ValueCursor;
use super::event::{EventPositions, parse_object};
use super::outline::PodOwner;
use super::pods::PodTemplates;
use crate::Result;

/// The owners of pods with lifecycles.
pub(super) struct PodOwners {
    pub(super) list: Vec<TrackedOwner>,
    /// Their indices by kind, if the trace contains it, and `namespace/name`.
    by_name: HashMap<(Option<Gvk>, String), usize>,
}

pub(super) struct TrackedOwner {
    pub(super) owner: PodOwner,
    /// Its first version in the trace or, once that has been read, the latest.
    pub(super) object: Option<Object>,
    /// The object's templates, computed when needed.
    templates: Option<PodTemplates>,
    /// For a pod without an owner: its current lifecycle.
    pub(super) lifecycle: Option<(usize, PodLifecycleData)>,
}

// === impl PodOwners ===

impl PodOwners {
    pub(super) fn new(mut owners: Vec<PodOwner>) -> PodOwners {
        let mut names: HashMap<(String, String), usize> = HashMap::new();
        for owner in &owners {
            *names.entry((owner.namespace.clone(), owner.name.clone())).or_default() += 1;
        }
        for owner in &mut owners {
            owner.shares_name = names[&(owner.namespace.clone(), owner.name.clone())] > 1;
        }
        let mut by_name = HashMap::new();
        for (index, owner) in owners.iter().enumerate() {
            let name = format!("{}/{}", owner.namespace, owner.name);
            by_name.entry((owner.gvk.clone(), name)).or_insert(index);
        }
        let tracked_owner = |owner| TrackedOwner { owner, object: None, templates: None, lifecycle: None };
        PodOwners { list: owners.into_iter().map(tracked_owner).collect(), by_name }
    }

    /// The index of the owner that this object is; `None` if it is not an owner.
    pub(super) fn find(&self, object: &Object) -> Option<usize> {
        if self.list.is_empty() {
            return None;
        }
        let meta = object.meta();
        let gvk = Gvk::of(&meta);
        let name = format!("{}/{}", meta.namespace, meta.name);
        let mut lookup_key = (Some(gvk), name);
        if let Some(index) = self.by_name.get(&lookup_key) {
            return Some(*index);
        }
        // Without a kind in the trace the first object of that name determines it.
        let gvk = lookup_key.0.take();
        let index = *self.by_name.get(&lookup_key)?;
        let first = self.list[index].object.as_ref();
        first.is_none_or(|first| Some(Gvk::of(&first.meta())) == gvk).then_some(index)
    }

    /// Scans all events for the first version of each owner: a trace begins when the tracer starts, and lifecycles of
    /// pods that exist then have earlier starts.
    pub(super) fn find_in_events(&mut self, cursor: &mut dyn ValueCursor) -> Result<()> {
        // The number of owners per name that have not been found yet.
        let mut names: HashMap<String, usize> = HashMap::new();
        for (_, name) in self.by_name.keys() {
            *names.entry(name.clone()).or_default() += 1;
        }
        let mut json = Vec::new();
        cursor.enter()?;
        while cursor.next_entry()? {
            let event = EventPositions::scan(cursor)?;
            cursor.seek(event.applied)?;
            cursor.enter_list("applied_objs")?;
            while cursor.next_entry()? {
                let position = cursor.position();
                if !has_owner_name(&names, cursor, &mut json)? {
                    continue;
                }
                cursor.seek(position)?;
                cursor.read_value(&mut json)?;
                let object = parse_object(cursor, &json)?;
                if let Some(position) = self.find(&object)
                    && self.list[position].object.is_none()
                {
                    let tracked_owner = &mut self.list[position];
                    let name = format!("{}/{}", tracked_owner.owner.namespace, tracked_owner.owner.name);
                    tracked_owner.object = Some(object);
                    names.entry(name).and_modify(|remaining| *remaining -= 1);
                }
            }
            cursor.seek(event.end)?;
        }
        Ok(())
    }
}

// === impl TrackedOwner ===

impl TrackedOwner {
    /// Sets a newer version of the object.
    pub(super) fn update(&mut self, object: &Object) {
        self.object = Some(object.clone());
        self.templates = None;
    }

    /// Its kind: from the trace, from its object, or the only kind with lifecycles.
    pub(super) fn gvk(&self, config: &TracerConfig) -> Option<Gvk> {
        let of_object = || self.object.as_ref().map(|object| Gvk::of(&object.meta()));
        self.owner.gvk.clone().or_else(of_object).or_else(|| config.only_kind_with_lifecycles().cloned())
    }

    /// The pod spec with this hash among its templates, or else the first one; `None` if it has no template.
    pub(super) fn spec(&mut self, hash: u64, config: &TracerConfig) -> Option<Arc<Value>> {
        if self.templates.is_none() {
            let tracked = self.gvk(config).and_then(|gvk| config.tracked(&gvk).cloned());
            self.templates = Some(PodTemplates::of(self.object.as_ref()?, tracked.as_ref()));
        }
        self.templates.as_ref()?.spec(hash)
    }
}

// === impl PodOwner ===

impl PodOwner {
    /// Whether it is a pod, which is then its own owner.
    pub(super) fn is_pod(&self) -> bool {
        self.gvk.as_ref().is_some_and(Gvk::is_pod)
    }
}

/// Whether the object that comes next has the name of an owner that has not been found yet.
fn has_owner_name(
    names: &HashMap<String, usize>,
    cursor: &mut dyn ValueCursor,
    json: &mut Vec<u8>,
) -> Result<bool> {
    let (mut namespace, mut name) = (String::new(), String::new());
    cursor.enter_map("an object")?;
    while cursor.next_entry()? {
        cursor.read_key(json)?;
        if json != b"\"metadata\"" {
            cursor.skip_value()?;
            continue;
        }
        cursor.enter_map("metadata")?;
        while cursor.next_entry()? {
            cursor.read_key(json)?;
            match &**json {
                b"\"namespace\"" => {
                    namespace = cursor.read_typed::<Option<String>>("namespace")?.unwrap_or_default()
                }
                b"\"name\"" => name = cursor.read_typed("name")?,
                _ => cursor.skip_value()?,
            }
        }
    }
    Ok(names.get(&format!("{namespace}/{name}")).is_some_and(|remaining| *remaining > 0))
}
