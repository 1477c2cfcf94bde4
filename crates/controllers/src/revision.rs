//! Revisions of StatefulSets and DaemonSets: the templates they had.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::read::view;
use model::{NamespacedName, Object, What};
use serde::Deserialize;
use serde_json::Value;

use super::table::{Metadata, Owner, Turn, name_of, turn};
use super::template::{REVISION_HASH, Template};

/// All revisions, by name.
#[derive(Debug, Default)]
pub(super) struct Revisions {
    all: BTreeMap<NamespacedName, Arc<Revision>>,
}

/// A template that a set had.
#[derive(Debug)]
pub(super) struct Revision {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) owners: Vec<Owner>,
    /// The newest has the highest.
    pub(super) number: i64,
    /// The word that its pods have on them, if the owner is a DaemonSet.
    pub(super) hash: Arc<str>,
    pub(super) template: Template,
    object: Object,
}

#[derive(Deserialize)]
struct RevisionJson {
    metadata: Metadata,
    #[serde(default)]
    revision: i64,
    data: DataJson,
}

#[derive(Deserialize)]
struct DataJson {
    spec: DataSpecJson,
}

#[derive(Deserialize)]
struct DataSpecJson {
    template: Value,
}

// === impl Revisions ===

impl Revisions {
    pub(super) fn get(&self, name: &NamespacedName) -> Option<&Arc<Revision>> {
        self.all.get(name)
    }

    /// Takes note of a change.
    pub(super) fn apply(&mut self, what: &What) -> Turn<Revision> {
        turn(&mut self.all, &name_of(what.object()), what, |_, object| Revision::read(object))
    }
}

// === impl Revision ===

impl Revision {
    pub(super) fn read(object: &Object) -> Result<Revision, String> {
        let json: RevisionJson = view(object)?;
        let mut template = json.data.spec.template;
        if let Some(template) = template.as_object_mut() {
            template.remove("$patch");
        }
        let name = name_of(object);
        Ok(Revision {
            hash: json.metadata.labels.get(REVISION_HASH).unwrap_or(&name.name).into(),
            name,
            uid: object.meta().uid.as_deref().unwrap_or_default().into(),
            owners: json.metadata.owner_references,
            number: json.revision,
            template: template.into(),
            object: object.clone(),
        })
    }

    /// The same with another number.
    pub(super) fn numbered(&self, number: i64) -> Object {
        let mut value = self.object.value().unwrap_or_default();
        value["revision"] = number.into();
        Object::trusted(value.to_string())
    }
}
