//! ControllerRevisions of StatefulSets and DaemonSets.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::{ObjectMeta, OwnerReference};
use kubernetes::read::view;
use model::{NamespacedName, Object, What};
use serde::Deserialize;
use serde_json::Value;

use super::object_table::{ObjectUpdate, apply_update, name_of};
use super::pod_template::{CONTROLLER_REVISION_HASH_LABEL, PodTemplate};

/// All ControllerRevisions, by name.
#[derive(Debug, Default)]
pub(super) struct ControllerRevisions {
    all: BTreeMap<NamespacedName, Arc<ControllerRevision>>,
}

/// A ControllerRevision: a pod template that a set has or had.
#[derive(Debug)]
pub(super) struct ControllerRevision {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) owners: Arc<[OwnerReference]>,
    /// Its revision number; the newest has the highest.
    pub(super) revision: i64,
    /// The value of its pods' `controller-revision-hash`, if the owner is a DaemonSet.
    pub(super) hash: Arc<str>,
    pub(super) template: PodTemplate,
    object: Object,
}

#[derive(Deserialize)]
struct RevisionJson {
    metadata: ObjectMeta,
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

// === impl ControllerRevisions ===

impl ControllerRevisions {
    pub(super) fn get(&self, name: &NamespacedName) -> Option<&Arc<ControllerRevision>> {
        self.all.get(name)
    }

    /// Applies an informer event.
    pub(super) fn apply(&mut self, event: &What) -> ObjectUpdate<ControllerRevision> {
        apply_update(&mut self.all, &name_of(event.object()), event, |_, object| {
            ControllerRevision::parse(object)
        })
    }
}

// === impl ControllerRevision ===

impl ControllerRevision {
    pub(super) fn parse(object: &Object) -> Result<ControllerRevision, String> {
        let json: RevisionJson = view(object)?;
        let mut template = json.data.spec.template;
        if let Some(template) = template.as_object_mut() {
            template.remove("$patch");
        }
        let name = name_of(object);
        Ok(ControllerRevision {
            hash: json.metadata.labels.get(CONTROLLER_REVISION_HASH_LABEL).unwrap_or(&name.name).into(),
            name,
            uid: object.meta().uid.as_deref().unwrap_or_default().into(),
            owners: json.metadata.owner_references,
            revision: json.revision,
            template: template.into(),
            object: object.clone(),
        })
    }

    /// The same object with another revision number.
    pub(super) fn with_revision(&self, revision: i64) -> Object {
        let mut value = self.object.value().unwrap_or_default();
        value["revision"] = revision.into();
        Object::from_trusted(value.to_string())
    }
}
