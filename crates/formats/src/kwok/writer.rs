//! The writer of snapshots and recordings.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use apimachinery::strategic_merge::diff;
use model::{Change, Gap, Key, Moment, Object, What};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::patch::{Method, Resource, ResourcePatch, Target};
use crate::manifests::to_yaml;
use crate::{Result, WriteSummary};

/// The order in which KWOK saves kinds: dependencies first.
const KIND_ORDER: [(&str, &str); 23] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "ServiceAccount"),
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "LimitRange"),
    ("node.k8s.io", "RuntimeClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
    ("", "PersistentVolumeClaim"),
    ("", "PersistentVolume"),
    ("", "Pod"),
    ("", "Service"),
    ("", "Endpoints"),
];

/// Writes a snapshot or a recording.
///
/// Times inside objects stay unchanged: KWOK's replay accepts them, and a string that looks like a time may be user
/// data. All objects of one moment are held: memory follows the cluster.
pub struct KwokWriter<W> {
    out: W,
    recording: bool,
    /// The first moment; the objects of that moment come before all patches.
    begin: Option<Moment>,
    in_initial_objects: bool,
    objects: HashMap<Key, Object>,
    is_first: bool,
    written: WriteSummary,
}

// === impl KwokWriter ===

impl<W: Write> KwokWriter<W> {
    /// Writes to `out`: a recording, or else a snapshot of all objects after the last change.
    pub fn new(out: W, recording: bool) -> KwokWriter<W> {
        KwokWriter {
            out,
            recording,
            begin: None,
            in_initial_objects: true,
            objects: HashMap::new(),
            is_first: true,
            written: WriteSummary::default(),
        }
    }

    /// Writes all current objects.
    fn write_initial_objects(&mut self) -> Result<()> {
        let rank = |key: &Key| {
            KIND_ORDER.iter().position(|(group, kind)| *group == &*key.kind.group && *kind == &*key.kind.kind)
        };
        let sorted: BTreeMap<(usize, &Key), &Object> = self
            .objects
            .iter()
            .map(|(key, object)| ((rank(key).unwrap_or(KIND_ORDER.len()), key), object))
            .collect();
        let objects: Vec<Object> = sorted.into_values().cloned().collect();
        for object in objects {
            self.write_document(&without_resource_version(&object)?)?;
        }
        Ok(())
    }

    fn write_patch(&mut self, change: &Change, offset: i64) -> Result<()> {
        let previous = self.objects.remove(&change.key);
        let (method, template) = match (&previous, &change.what) {
            (None, What::Deleted(_)) => {
                self.written.left_out.count("deletions of unknown objects");
                return Ok(());
            }
            (Some(_), What::Deleted(_)) => (Method::Delete, None),
            (None, What::Added(object) | What::Modified(object)) => {
                (Method::Create, Some(without_resource_version(object)?))
            }
            (Some(previous), What::Added(object) | What::Modified(object)) => {
                let patch = diff(
                    &change.key.kind,
                    &without_resource_version(previous)?,
                    &without_resource_version(object)?,
                );
                (Method::Patch, Some(patch))
            }
        };
        if let Some(object) = change.what.state() {
            self.objects.insert(change.key.clone(), object.clone());
        }
        if template
            .as_ref()
            .is_some_and(|template| template.as_object().is_some_and(|patch| patch.is_empty()))
        {
            self.written.left_out.count("changes of only resourceVersion");
            return Ok(());
        }
        let api_version = change.what.object().meta().api_version;
        let resource = Resource::of(&change.key.kind, &api_version);
        let target =
            Target { name: change.key.name.to_string(), namespace: change.key.namespace.to_string() };
        let template = template.as_ref().map(to_raw_json).transpose()?;
        self.write_document(&ResourcePatch::new(offset, method, resource, target, template))
    }

    fn write_document(&mut self, document: &impl Serialize) -> Result<()> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.out.write_all(b"---\n")?;
        }
        let document = serde_json::to_value(document).map_err(std::io::Error::other)?;
        self.out.write_all(to_yaml(&document).as_bytes())?;
        self.written.count += 1;
        Ok(())
    }
}

impl<W: Write> crate::Writer for KwokWriter<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        let begin = *self.begin.get_or_insert(change.at);
        if self.recording
            && self.in_initial_objects
            && (change.at > begin || !matches!(change.what, What::Added(_)))
        {
            self.in_initial_objects = false;
            self.write_initial_objects()?;
        }
        if !self.in_initial_objects {
            return self.write_patch(change, change.at.nanos_since(begin));
        }
        match change.what.state() {
            Some(object) => drop(self.objects.insert(change.key.clone(), object.clone())),
            None => drop(self.objects.remove(&change.key)),
        }
        Ok(())
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<WriteSummary> {
        if self.in_initial_objects {
            self.write_initial_objects()?;
        }
        self.out.flush()?;
        Ok(self.written)
    }
}

/// An object without its resourceVersion, as KWOK writes it.
fn without_resource_version(object: &Object) -> Result<Value> {
    let mut value = object.value().map_err(std::io::Error::other)?;
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.remove("resourceVersion");
    }
    Ok(value)
}

fn to_raw_json(value: &Value) -> Result<Box<RawValue>> {
    Ok(to_raw_value(value).map_err(std::io::Error::other)?)
}
