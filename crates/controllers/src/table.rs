//! Objects of one kind, read once each.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::read::{moment, nullable, view};
use model::{Moment, NamespacedName, Object, What};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::stamp::Stamp;

/// The kind that a type of spec belongs to.
pub(super) trait Spec: Debug + DeserializeOwned {
    const API_VERSION: &'static str;
    const KIND: &'static str;
    type Status: Debug + Default + DeserializeOwned + Serialize + PartialEq;
}

/// The objects of one kind by name, and who they belong to.
#[derive(Debug)]
pub(super) struct Table<S: Spec> {
    held: BTreeMap<NamespacedName, Arc<Held<S>>>,
}

/// An object.
#[derive(Debug)]
pub(super) struct Held<S: Spec> {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) meta: Metadata,
    pub(super) spec: Arc<S>,
    pub(super) status: S::Status,
    object: Object,
    /// Where in its text the spec is.
    spec_at: Range<usize>,
    metadata_at: Range<usize>,
}

/// What is looked at in an object's metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(deserialize_with = "moment")]
    pub(super) creation_timestamp: Option<Moment>,
    #[serde(deserialize_with = "moment")]
    pub(super) deletion_timestamp: Option<Moment>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(super) generation: i64,
    pub(super) labels: Labels,
    pub(super) annotations: Labels,
    #[serde(deserialize_with = "nullable")]
    pub(super) owner_references: Vec<Owner>,
    #[serde(deserialize_with = "nullable")]
    pub(super) finalizers: Vec<Arc<str>>,
}

/// An object's reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Owner {
    pub(super) api_version: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) uid: Arc<str>,
    /// Whether it manages the object.
    pub(super) controller: Option<bool>,
    /// Whether an owner that is deleted in the foreground waits for the object.
    pub(super) block_owner_deletion: Option<bool>,
}

/// What became of an object: as it was, and as it is.
#[derive(Debug)]
pub(super) struct Turn<T> {
    pub(super) before: Option<Arc<T>>,
    pub(super) after: Option<Arc<T>>,
    /// What of it makes no sense; it counts as gone.
    pub(super) trouble: Option<String>,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

// === impl Table ===

impl<S: Spec> Table<S> {
    pub(super) const NEW: Table<S> = Table { held: BTreeMap::new() };

    pub(super) fn get(&self, name: &NamespacedName) -> Option<&Arc<Held<S>>> {
        self.held.get(name)
    }

    /// The object that a reference from the same namespace means.
    pub(super) fn owner(&self, namespace: &Arc<str>, owner: &Owner) -> Option<&Arc<Held<S>>> {
        let name = NamespacedName { namespace: namespace.clone(), name: owner.name.clone() };
        self.get(&name).filter(|held| *owner.kind == *S::KIND && owner.uid == held.uid)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<Held<S>>> {
        self.held.values()
    }

    /// Takes note of a change.
    pub(super) fn apply(&mut self, what: &What) -> Turn<Held<S>> {
        let name = name_of(what.object());
        let read = |before: Option<&Held<S>>, object: &Object| Held::read(name.clone(), object, before);
        turn(&mut self.held, &name, what, read)
    }
}

// === impl Held ===

impl<S: Spec> Held<S> {
    /// Reads an object; a spec that has not changed is not read again.
    pub(super) fn read(
        name: NamespacedName,
        object: &Object,
        before: Option<&Held<S>>,
    ) -> Result<Held<S>, String> {
        let parts: Parts<'_> = view(object)?;
        let uid = object.meta().uid.as_deref().unwrap_or_default().into();
        let text = parts.spec.map_or("{}", RawValue::get);
        let spec = match before.filter(|before| before.spec_text() == text) {
            Some(before) => before.spec.clone(),
            None => Arc::new(read(text).map_err(|why| format!("spec: {why}"))?),
        };
        let status = parts.status.map(RawValue::get).filter(|text| *text != "null");
        let status = status.map(read).transpose().map_err(|why| format!("status: {why}"))?;
        let place = |part: Option<&RawValue>| {
            let begin =
                part.map_or(0, |part| part.get().as_ptr() as usize - object.as_str().as_ptr() as usize);
            begin..begin + part.map_or(0, |part| part.get().len())
        };
        Ok(Held {
            name,
            uid,
            meta: read(parts.metadata.get()).map_err(|why| format!("metadata: {why}"))?,
            spec,
            status: status.unwrap_or_default(),
            spec_at: place(parts.spec),
            metadata_at: place(Some(parts.metadata)),
            object: object.clone(),
        })
    }

    /// The owner that manages it.
    pub(super) fn controller(&self) -> Option<&Owner> {
        self.meta.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// When it was made, in whole seconds.
    pub(super) fn created(&self) -> Moment {
        self.meta.creation_timestamp.unwrap_or(Moment::MIN)
    }

    /// How what it owns refers to it.
    pub(super) fn reference(&self) -> Value {
        serde_json::json!({
            "apiVersion": S::API_VERSION, "kind": S::KIND, "name": *self.name.name, "uid": *self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    pub(super) fn metadata_value(&self) -> Value {
        serde_json::from_str(&self.object.as_str()[self.metadata_at.clone()]).unwrap_or_default()
    }

    pub(super) fn spec_value(&self) -> Value {
        serde_json::from_str(self.spec_text()).unwrap_or_default()
    }

    /// The same object with another status.
    pub(super) fn with_status(&self, status: &S::Status) -> Object {
        object_of::<S>(&self.object.as_str()[self.metadata_at.clone()], self.spec_text(), status)
    }

    /// The same object with other metadata and another status.
    pub(super) fn with_metadata(&self, metadata: &Value, status: &S::Status) -> Object {
        object_of::<S>(&metadata.to_string(), self.spec_text(), status)
    }

    /// The same object with another spec, which makes it the next generation.
    pub(super) fn with_spec(&self, mut metadata: Value, spec: &Value) -> Object {
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("generation".to_owned(), self.meta.generation.saturating_add(1).into());
        }
        object_of::<S>(&metadata.to_string(), &spec.to_string(), &self.status)
    }

    fn spec_text(&self) -> &str {
        let text = &self.object.as_str()[self.spec_at.clone()];
        if text.is_empty() { "{}" } else { text }
    }
}

/// Puts what an object is now in the place of what it was.
pub(super) fn turn<T>(
    all: &mut BTreeMap<NamespacedName, Arc<T>>,
    name: &NamespacedName,
    what: &What,
    read: impl FnOnce(Option<&T>, &Object) -> Result<T, String>,
) -> Turn<T> {
    let before = all.remove(name);
    let (after, trouble) = match what.state().map(|object| read(before.as_deref(), object)) {
        None => (None, None),
        Some(Ok(object)) => (Some(Arc::new(object)), None),
        Some(Err(why)) => (None, Some(why)),
    };
    if let Some(after) = &after {
        all.insert(name.clone(), after.clone());
    }
    Turn { before, after, trouble }
}

/// Whether a number is left out of a status.
pub(super) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// An object of its parts.
pub(super) fn object_of<S: Spec>(metadata: &str, spec: &str, status: &S::Status) -> Object {
    let status = serde_json::to_string(status).expect("a status is plain data");
    let (kind, version) = (S::KIND, S::API_VERSION);
    Object::trusted(format!(
        r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"spec":{spec},"status":{status}}}"#
    ))
}

/// The name of an object.
pub(super) fn name_of(object: &Object) -> NamespacedName {
    let meta = object.meta();
    NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() }
}

/// When something was made, as an API server writes it.
pub(super) fn created_now(now: Moment) -> Value {
    Stamp::at(now).0.to_string().into()
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        let text = error.to_string();
        text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
    })
}
