//! Paths of the pod templates in objects of each kind.

use std::collections::BTreeMap;

use model::Kind;
use serde_json::{Map, Value};

use super::pointer;

/// JSON pointers to pod templates (with `metadata` and `spec`), by kind. `*` stands for every element of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplatePaths(BTreeMap<Kind, Vec<String>>);

/// The built-in kinds.
const BUILTIN_PATHS: [(&str, &str, &str); 8] = [
    ("", "Pod", ""),
    ("", "ReplicationController", "/spec/template"),
    ("apps", "DaemonSet", "/spec/template"),
    ("apps", "Deployment", "/spec/template"),
    ("apps", "ReplicaSet", "/spec/template"),
    ("apps", "StatefulSet", "/spec/template"),
    ("batch", "CronJob", "/spec/jobTemplate/spec/template"),
    ("batch", "Job", "/spec/template"),
];

/// Whether a kind is a built-in workload.
pub(super) fn is_workload(kind: &Kind) -> bool {
    let builtin = BUILTIN_PATHS.iter().filter(|(.., path)| !path.is_empty());
    builtin.map(|(group, kind, _)| (*group, *kind)).any(|builtin| builtin == (&*kind.group, &*kind.kind))
}

// === impl PodTemplatePaths ===

impl PodTemplatePaths {
    /// The paths of the built-in kinds and of others; entries for built-in kinds are ignored.
    pub fn with(others: impl IntoIterator<Item = (Kind, Vec<String>)>) -> PodTemplatePaths {
        let mut templates = PodTemplatePaths::default();
        for (kind, paths) in others {
            if !paths.is_empty() {
                templates.0.entry(kind).or_insert(paths);
            }
        }
        templates
    }

    /// Whether a kind has a pod template.
    pub(crate) fn has_kind(&self, kind: &Kind) -> bool {
        self.0.contains_key(kind)
    }

    /// Calls a function for each pod template in an object.
    pub(super) fn for_each(
        &self,
        kind: &Kind,
        object: &mut Value,
        action: &mut dyn FnMut(&mut Map<String, Value>),
    ) {
        for path in self.0.get(kind).into_iter().flatten() {
            pointer::for_each(object, path, &mut |template| {
                if let Some(template) = template.as_object_mut() {
                    action(template);
                }
            });
        }
    }
}

impl Default for PodTemplatePaths {
    fn default() -> PodTemplatePaths {
        let builtin = BUILTIN_PATHS.iter();
        PodTemplatePaths(
            builtin.map(|(group, kind, path)| (Kind::new(group, kind), vec![(*path).to_owned()])).collect(),
        )
    }
}

/// The map of that name; created if it is missing.
pub(super) fn map_entry<'m>(fields: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    let field = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut().expect("the field was just made an object")
}
