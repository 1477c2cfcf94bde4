//! Objects of one kind in the informer cache, parsed once each.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use kubernetes::objects::{ObjectMeta, OwnerReference, controller_of};
use kubernetes::read::view;
use model::{Moment, NamespacedName, Object, What};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::k8s_time::K8sTime;

/// The spec of a kind, with the kind's name and status type.
pub(super) trait ObjectSpec: Debug + DeserializeOwned {
    const API_VERSION: &'static str;
    const KIND: &'static str;
    /// The controller, as the source of Events.
    const EVENT_SOURCE: &'static str;
    type Status: Debug + Default + DeserializeOwned + Serialize + PartialEq;
}

/// The objects of one kind, by name.
#[derive(Debug)]
pub(super) struct ObjectTable<S: ObjectSpec> {
    objects: BTreeMap<NamespacedName, Arc<CachedObject<S>>>,
}

/// A parsed object.
#[derive(Debug)]
pub(super) struct CachedObject<S: ObjectSpec> {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) meta: ObjectMeta,
    pub(super) spec: Arc<S>,
    pub(super) status: S::Status,
    object: Object,
    /// The byte range of its spec.
    spec_range: Range<usize>,
    metadata_range: Range<usize>,
}

/// An update of an object in the cache: the old and the new state.
#[derive(Debug)]
pub(super) struct ObjectUpdate<T> {
    pub(super) old: Option<Arc<T>>,
    pub(super) new: Option<Arc<T>>,
    /// Why the new object cannot be parsed; it then counts as deleted.
    pub(super) error: Option<String>,
}

#[derive(Deserialize)]
struct ObjectParts<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

// === impl ObjectTable ===

impl<S: ObjectSpec> ObjectTable<S> {
    pub(super) const EMPTY: ObjectTable<S> = ObjectTable { objects: BTreeMap::new() };

    pub(super) fn get(&self, name: &NamespacedName) -> Option<&Arc<CachedObject<S>>> {
        self.objects.get(name)
    }

    /// The object that an owner reference in this namespace refers to.
    pub(super) fn resolve_owner(
        &self,
        namespace: &Arc<str>,
        owner: &OwnerReference,
    ) -> Option<&Arc<CachedObject<S>>> {
        let name = NamespacedName { namespace: namespace.clone(), name: owner.name.clone() };
        self.get(&name).filter(|object| *owner.kind == *S::KIND && owner.uid == object.uid)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<CachedObject<S>>> {
        self.objects.values()
    }

    /// Applies an informer event.
    pub(super) fn apply(&mut self, event: &What) -> ObjectUpdate<CachedObject<S>> {
        let name = name_of(event.object());
        let parse_object = |previous: Option<&CachedObject<S>>, object: &Object| {
            CachedObject::parse(name.clone(), object, previous)
        };
        apply_update(&mut self.objects, &name, event, parse_object)
    }
}

// === impl CachedObject ===

impl<S: ObjectSpec> CachedObject<S> {
    /// Parses an object; an unchanged spec is not parsed again.
    pub(super) fn parse(
        name: NamespacedName,
        object: &Object,
        previous: Option<&CachedObject<S>>,
    ) -> Result<CachedObject<S>, String> {
        let parts: ObjectParts<'_> = view(object)?;
        let uid = object.meta().uid.as_deref().unwrap_or_default().into();
        let text = parts.spec.map_or("{}", RawValue::get);
        let spec = match previous.filter(|previous| previous.spec_text() == text) {
            Some(previous) => previous.spec.clone(),
            None => Arc::new(parse_json(text).map_err(|error| format!("spec: {error}"))?),
        };
        let status = parts.status.map(RawValue::get).filter(|text| *text != "null");
        let status = status.map(parse_json).transpose().map_err(|error| format!("status: {error}"))?;
        let range_of = |part: Option<&RawValue>| {
            let offset =
                part.map_or(0, |part| part.get().as_ptr() as usize - object.as_str().as_ptr() as usize);
            offset..offset + part.map_or(0, |part| part.get().len())
        };
        Ok(CachedObject {
            name,
            uid,
            meta: parse_json(parts.metadata.get()).map_err(|error| format!("metadata: {error}"))?,
            spec,
            status: status.unwrap_or_default(),
            spec_range: range_of(parts.spec),
            metadata_range: range_of(Some(parts.metadata)),
            object: object.clone(),
        })
    }

    /// Its controller.
    pub(super) fn controller(&self) -> Option<&OwnerReference> {
        controller_of(&self.meta.owner_references)
    }

    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// Its creation timestamp.
    pub(super) fn creation_time(&self) -> Moment {
        self.meta.creation_timestamp.unwrap_or(Moment::MIN)
    }

    /// The controller reference for its dependents.
    pub(super) fn controller_reference(&self) -> Value {
        serde_json::json!({
            "apiVersion": S::API_VERSION, "kind": S::KIND, "name": *self.name.name, "uid": *self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    pub(super) fn metadata_value(&self) -> Value {
        serde_json::from_str(&self.object.as_str()[self.metadata_range.clone()]).unwrap_or_default()
    }

    pub(super) fn spec_value(&self) -> Value {
        serde_json::from_str(self.spec_text()).unwrap_or_default()
    }

    /// The same object with another status.
    pub(super) fn with_status(&self, status: &S::Status) -> Object {
        assemble_object::<S>(&self.object.as_str()[self.metadata_range.clone()], self.spec_text(), status)
    }

    /// The same object with other metadata and another status.
    pub(super) fn with_metadata(&self, metadata: &Value, status: &S::Status) -> Object {
        assemble_object::<S>(&metadata.to_string(), self.spec_text(), status)
    }

    /// The same object with another spec and the next generation.
    pub(super) fn with_spec(&self, mut metadata: Value, spec: &Value) -> Object {
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("generation".to_owned(), self.meta.generation.saturating_add(1).into());
        }
        assemble_object::<S>(&metadata.to_string(), &spec.to_string(), &self.status)
    }

    fn spec_text(&self) -> &str {
        let text = &self.object.as_str()[self.spec_range.clone()];
        if text.is_empty() { "{}" } else { text }
    }
}

/// Applies an informer event to a map of parsed objects.
pub(super) fn apply_update<T>(
    objects: &mut BTreeMap<NamespacedName, Arc<T>>,
    name: &NamespacedName,
    event: &What,
    parse_object: impl FnOnce(Option<&T>, &Object) -> Result<T, String>,
) -> ObjectUpdate<T> {
    let previous = objects.remove(name);
    let (after, parse_error) = match event.state().map(|object| parse_object(previous.as_deref(), object)) {
        None => (None, None),
        Some(Ok(object)) => (Some(Arc::new(object)), None),
        Some(Err(error)) => (None, Some(error)),
    };
    if let Some(after) = &after {
        objects.insert(name.clone(), after.clone());
    }
    ObjectUpdate { old: previous, new: after, error: parse_error }
}

/// Whether a number is omitted from a status.
pub(super) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Assembles an object from its parts.
pub(super) fn assemble_object<S: ObjectSpec>(metadata: &str, spec: &str, status: &S::Status) -> Object {
    let status = serde_json::to_string(status).expect("a status serializes as JSON");
    let (kind, version) = (S::KIND, S::API_VERSION);
    Object::from_trusted(format!(
        r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"spec":{spec},"status":{status}}}"#
    ))
}

/// The name of an object.
pub(super) fn name_of(object: &Object) -> NamespacedName {
    let meta = object.meta();
    NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() }
}

/// The creation timestamp of an object that is created now.
pub(super) fn creation_timestamp(now: Moment) -> Value {
    K8sTime::at(now).0.to_string().into()
}

fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        let text = error.to_string();
        text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
    })
}
