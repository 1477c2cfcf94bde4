//! Where the pods of a kind are described in its objects.

use std::collections::BTreeMap;

use model::Kind;
use serde_json::{Map, Value};

use super::pointer;

/// Pointers to what describes pods, that has `metadata` and `spec`, by kind. `*` stands for every member of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Templates(BTreeMap<Kind, Vec<String>>);

/// The kinds that Kubernetes itself has.
const KNOWN: [(&str, &str, &str); 8] = [
    ("", "Pod", ""),
    ("", "ReplicationController", "/spec/template"),
    ("apps", "DaemonSet", "/spec/template"),
    ("apps", "Deployment", "/spec/template"),
    ("apps", "ReplicaSet", "/spec/template"),
    ("apps", "StatefulSet", "/spec/template"),
    ("batch", "CronJob", "/spec/jobTemplate/spec/template"),
    ("batch", "Job", "/spec/template"),
];

/// Whether it is one of Kubernetes' own kinds that make pods.
pub(super) fn is_workload(kind: &Kind) -> bool {
    let known = KNOWN.iter().filter(|(.., path)| !path.is_empty());
    known.map(|(group, kind, _)| (*group, *kind)).any(|known| known == (&*kind.group, &*kind.kind))
}

// === impl Templates ===

impl Templates {
    /// Those of Kubernetes' own kinds and of these others. What is said of the former is not taken: it is known.
    pub fn with(others: impl IntoIterator<Item = (Kind, Vec<String>)>) -> Templates {
        let mut templates = Templates::default();
        for (kind, paths) in others {
            if !paths.is_empty() {
                templates.0.entry(kind).or_insert(paths);
            }
        }
        templates
    }

    /// Whether a kind describes pods.
    pub(crate) fn are_in(&self, kind: &Kind) -> bool {
        self.0.contains_key(kind)
    }

    /// Does something to everything that describes pods in an object.
    pub(super) fn each(&self, kind: &Kind, object: &mut Value, act: &mut dyn FnMut(&mut Map<String, Value>)) {
        for path in self.0.get(kind).into_iter().flatten() {
            pointer::each(object, path, &mut |template| {
                if let Some(template) = template.as_object_mut() {
                    act(template);
                }
            });
        }
    }
}

impl Default for Templates {
    fn default() -> Templates {
        let known = KNOWN.iter();
        Templates(
            known.map(|(group, kind, path)| (Kind::new(group, kind), vec![(*path).to_owned()])).collect(),
        )
    }
}

/// The map of that name, which is there afterwards.
pub(super) fn map_in<'m>(fields: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    let field = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut().expect("it was made one")
}
