//! The owners of the pods whose lives a trace tells, with what it tells of themselves.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes::pod_lives::Ran;
use model::Object;
use serde_json::Value;

use super::config::{Gvk, TracerConfig};
use super::cursor::Cursor;
use super::event::{Event, object};
use super::outline::Owner;
use super::pods::Templates;
use crate::Result;

/// The owners of pods with lives.
pub(super) struct Owners {
    pub(super) list: Vec<KnownOwner>,
    /// Their places in the list by kind, where the trace tells it, and by `namespace/name`.
    by_name: HashMap<(Option<Gvk>, String), usize>,
}

pub(super) struct KnownOwner {
    pub(super) owner: Owner,
    /// As the trace has it first or, once that has been read, last.
    pub(super) object: Option<Object>,
    /// Those of the object, once they are needed.
    templates: Option<Templates>,
    /// Of a pod that owns itself: the life it is in.
    pub(super) life: Option<(usize, Ran)>,
}

// === impl Owners ===

impl Owners {
    pub(super) fn new(mut owners: Vec<Owner>) -> Owners {
        let mut names: HashMap<(String, String), usize> = HashMap::new();
        for owner in &owners {
            *names.entry((owner.namespace.clone(), owner.name.clone())).or_default() += 1;
        }
        for owner in &mut owners {
            owner.shares_name = names[&(owner.namespace.clone(), owner.name.clone())] > 1;
        }
        let mut by_name = HashMap::new();
        for (place, owner) in owners.iter().enumerate() {
            let name = format!("{}/{}", owner.namespace, owner.name);
            by_name.entry((owner.gvk.clone(), name)).or_insert(place);
        }
        let known = |owner| KnownOwner { owner, object: None, templates: None, life: None };
        Owners { list: owners.into_iter().map(known).collect(), by_name }
    }

    /// The place of the owner that this object is, if it is one.
    pub(super) fn find(&self, object: &Object) -> Option<usize> {
        if self.list.is_empty() {
            return None;
        }
        let meta = object.meta();
        let gvk = Gvk::of(&meta);
        let name = format!("{}/{}", meta.namespace, meta.name);
        let mut wanted = (Some(gvk), name);
        if let Some(place) = self.by_name.get(&wanted) {
            return Some(*place);
        }
        // The first of that name gives the kind that the trace does not.
        let gvk = wanted.0.take();
        let place = *self.by_name.get(&wanted)?;
        let first = self.list[place].object.as_ref();
        first.is_none_or(|first| Some(Gvk::of(&first.meta())) == gvk).then_some(place)
    }

    /// Goes through all events for the first that the trace has of each owner: a trace begins when the tracer does,
    /// and the pods it finds then have lives that began before.
    pub(super) fn find_in_events(&mut self, cursor: &mut dyn Cursor) -> Result<()> {
        // How many owners of a name have not been found yet.
        let mut names: HashMap<String, usize> = HashMap::new();
        for (_, name) in self.by_name.keys() {
            *names.entry(name.clone()).or_default() += 1;
        }
        let mut json = Vec::new();
        cursor.enter()?;
        while cursor.more()? {
            let event = Event::look(cursor)?;
            cursor.go_to(event.applied)?;
            cursor.enter_list("applied_objs")?;
            while cursor.more()? {
                let place = cursor.place();
                if !may_be_one(&names, cursor, &mut json)? {
                    continue;
                }
                cursor.go_to(place)?;
                cursor.value(&mut json)?;
                let object = object(cursor, &json)?;
                if let Some(place) = self.find(&object)
                    && self.list[place].object.is_none()
                {
                    let known = &mut self.list[place];
                    let name = format!("{}/{}", known.owner.namespace, known.owner.name);
                    known.object = Some(object);
                    names.entry(name).and_modify(|left| *left -= 1);
                }
            }
            cursor.go_to(event.end)?;
        }
        Ok(())
    }
}

// === impl KnownOwner ===

impl KnownOwner {
    /// Takes a newer version of it.
    pub(super) fn is_now(&mut self, object: &Object) {
        self.object = Some(object.clone());
        self.templates = None;
    }

    /// Its kind, as well as can be told.
    pub(super) fn gvk(&self, config: &TracerConfig) -> Option<Gvk> {
        let of_object = || self.object.as_ref().map(|object| Gvk::of(&object.meta()));
        self.owner.gvk.clone().or_else(of_object).or_else(|| config.only_with_lives().cloned())
    }

    /// The spec of a pod of it with this hash, or else the likeliest; `None` if it has no template.
    pub(super) fn spec(&mut self, hash: u64, config: &TracerConfig) -> Option<Arc<Value>> {
        if self.templates.is_none() {
            let tracked = self.gvk(config).and_then(|gvk| config.tracked(&gvk).cloned());
            self.templates = Some(Templates::of(self.object.as_ref()?, tracked.as_ref()));
        }
        self.templates.as_ref()?.spec(hash)
    }
}

// === impl Owner ===

impl Owner {
    /// Whether it is a pod, which then has no owner but itself.
    pub(super) fn is_pod(&self) -> bool {
        self.gvk.as_ref().is_some_and(Gvk::is_pod)
    }
}

/// Whether the object that comes next has the name of an owner.
fn may_be_one(names: &HashMap<String, usize>, cursor: &mut dyn Cursor, json: &mut Vec<u8>) -> Result<bool> {
    let (mut namespace, mut name) = (String::new(), String::new());
    cursor.enter_map("an object")?;
    while cursor.more()? {
        cursor.key(json)?;
        if json != b"\"metadata\"" {
            cursor.skip()?;
            continue;
        }
        cursor.enter_map("metadata")?;
        while cursor.more()? {
            cursor.key(json)?;
            match &**json {
                b"\"namespace\"" => {
                    namespace = cursor.typed::<Option<String>>("namespace")?.unwrap_or_default()
                }
                b"\"name\"" => name = cursor.typed("name")?,
                _ => cursor.skip()?,
            }
        }
    }
    Ok(names.get(&format!("{namespace}/{name}")).is_some_and(|left| *left > 0))
}
