//! The objects of a run that controllers write, other than pods: workloads and what belongs to them.

use std::collections::BTreeMap;

use kubernetes::time::whole_second;
use model::{Kind, Moment, NamespacedName, Object, What};
use serde_json::{Value, json};

/// Objects that controllers write. Each method returns the resulting change, if any.
#[derive(Debug, Default)]
pub(crate) struct ObjectTable(BTreeMap<(Kind, NamespacedName), Object>);

impl ObjectTable {
    /// Applies an input object, which keeps the status it has in the run. An object that is added gets its recorded
    /// status.
    pub(crate) fn apply_input(&mut self, kind: &Kind, what: What) -> Option<What> {
        let name = name_of(what.object());
        let current = self.0.get(&(kind.clone(), name.clone()));
        match (what, current) {
            (What::Deleted(_), _) => self.remove(kind, &name),
            // It does not exist in this run.
            (What::Modified(_), None) => None,
            (What::Added(object), None) => Some(self.set(ensure_uid(object))),
            (What::Added(object) | What::Modified(object), Some(current)) => {
                let object = merge_input(&object, current)?;
                Some(self.set(object))
            }
        }
    }

    pub(crate) fn set(&mut self, object: Object) -> What {
        let key = (kind_of(&object), name_of(&object));
        match self.0.insert(key, object.clone()) {
            None => What::Added(object),
            Some(_) => What::Modified(object),
        }
    }

    /// A controller updates an object; a terminating object without finalizers is removed.
    pub(crate) fn update(&mut self, object: Object) -> Option<What> {
        let deletion = DeletionState::of(&object);
        if deletion.has_begun && !deletion.has_finalizers {
            self.remove(&kind_of(&object), &name_of(&object))
        } else {
            Some(self.set(object))
        }
    }

    /// Deletes the object with this uid, or sets its deletion timestamp if it has finalizers.
    pub(crate) fn delete(
        &mut self,
        now: Moment,
        kind: &Kind,
        name: &NamespacedName,
        uid: &str,
    ) -> Option<What> {
        let current = self.0.get(&(kind.clone(), name.clone()))?;
        if current.meta().uid.as_deref() != Some(uid) {
            return None;
        }
        if !DeletionState::of(current).has_finalizers {
            return self.remove(kind, name);
        }
        let mut value = current.value().ok()?;
        value["metadata"]["deletionTimestamp"] = whole_second(now).to_string().into();
        value["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        Some(self.set(Object::from_trusted(value.to_string())))
    }

    fn remove(&mut self, kind: &Kind, name: &NamespacedName) -> Option<What> {
        self.0.remove(&(kind.clone(), name.clone())).map(What::Deleted)
    }
}

/// The deletion state of an object.
struct DeletionState {
    has_begun: bool,
    has_finalizers: bool,
}

impl DeletionState {
    fn of(object: &Object) -> DeletionState {
        let value = object.value().unwrap_or_default();
        let finalizers = value["metadata"]["finalizers"].as_array();
        DeletionState {
            has_begun: value["metadata"]["deletionTimestamp"].is_string(),
            has_finalizers: finalizers.is_some_and(|all| !all.is_empty()),
        }
    }
}

pub(crate) fn kind_of(object: &Object) -> Kind {
    let meta = object.meta();
    Kind::of(&meta.api_version, &meta.kind)
}

pub(crate) fn name_of(object: &Object) -> NamespacedName {
    let meta = object.meta();
    NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() }
}

/// An object with a uid, by which its dependents refer to it.
fn ensure_uid(object: Object) -> Object {
    if object.meta().uid.as_deref().is_some_and(|uid| !uid.is_empty()) {
        return object;
    }
    let Ok(mut value) = object.value() else { return object };
    let meta = object.meta();
    value["metadata"]["uid"] = format!("{}/{}/{}", meta.kind, meta.namespace, meta.name).into();
    Object::from_trusted(value.to_string())
}

/// An input object with the status it has in the run; `None` if nothing else changed.
fn merge_input(object: &Object, current: &Object) -> Option<Object> {
    let (Ok(mut value), Ok(current)) = (object.value(), current.value()) else { return Some(object.clone()) };
    value["status"] = current["status"].clone();
    if value["metadata"]["uid"].is_null() {
        value["metadata"]["uid"] = current["metadata"]["uid"].clone();
    }
    if value["status"].is_null()
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("status");
    }
    let compared_fields = |value: &Value| {
        let meta = &value["metadata"];
        let fields = ["labels", "annotations", "deletionTimestamp", "finalizers", "ownerReferences", "uid"];
        json!([fields.map(|field| &meta[field]), value["spec"]])
    };
    (compared_fields(&value) != compared_fields(&current)).then(|| Object::from_trusted(value.to_string()))
}
