//! The namespace controller and the controllers of what every namespace has: its service account `default` and the
//! certificate of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver::{DeleteOptions, Deletion, PropagationPolicy, Resource, StoreEvent, UpdatedPart};
use kubernetes::time::whole_second;
use model::{Kind, NamespacedName};
use serde_json::{Value, json};

use super::ComponentContext;

/// Namespaces that are new, or that are being deleted.
pub(super) struct Namespaces {
    /// The certificate authority of the API server, PEM; empty without TLS.
    certificate_authority: String,
    new: BTreeSet<Arc<str>>,
    terminating: BTreeSet<Arc<str>>,
    /// Whether something changed in the cluster that may have been the last object of a terminating namespace.
    is_changed: bool,
}

/// What is left in a terminating namespace.
#[derive(Default)]
struct RemainingContent {
    /// The number of objects of each resource, with its group.
    objects: BTreeMap<String, usize>,
    /// The number of objects that have a finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Why objects cannot be deleted.
    errors: Vec<String>,
}

// === impl Namespaces ===

impl Namespaces {
    pub(super) fn new(certificate_authority: Option<String>) -> Namespaces {
        Namespaces {
            certificate_authority: certificate_authority.unwrap_or_default(),
            new: BTreeSet::new(),
            terminating: BTreeSet::new(),
            is_changed: false,
        }
    }

    pub(super) fn observe(&mut self, event: &StoreEvent) {
        if !event.kind.is("", "Namespace") {
            self.is_changed |= event.is_deletion;
            return;
        }
        let name: Arc<str> = (*event.new.meta().name).into();
        if event.is_deletion {
            self.terminating.remove(&name);
            return;
        }
        if event.old.is_none() {
            self.new.insert(name.clone());
        }
        if event.new.value().is_ok_and(|namespace| namespace["metadata"]["deletionTimestamp"].is_string()) {
            self.terminating.insert(name);
            self.is_changed = true;
        }
    }

    /// Fills new namespaces, and empties terminating ones. Returns whether there were any.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        let new = std::mem::take(&mut self.new);
        for name in &new {
            self.fill(context, name);
        }
        let is_due = std::mem::take(&mut self.is_changed) && !self.terminating.is_empty();
        if is_due {
            for name in self.terminating.clone() {
                let content = RemainingContent::delete(context, &name);
                content.write_conditions(context, &name);
                if content.is_empty() {
                    finalize(context, &name);
                }
            }
        }
        !new.is_empty() || is_due
    }

    /// Creates what every namespace has, unless it exists.
    fn fill(&self, context: &mut ComponentContext<'_>, namespace: &str) {
        for (kind, name, extra) in [
            ("ServiceAccount", "default", None),
            ("ConfigMap", "kube-root-ca.crt", Some(("data", json!({"ca.crt": self.certificate_authority})))),
        ] {
            let key = NamespacedName::new(namespace, name);
            if context.registry.get(&Kind::new("", kind), &key).is_some() {
                continue;
            }
            let mut object = json!({
                "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
            });
            if let Some((field, value)) = extra {
                object[field] = value;
            }
            // The namespace may be terminating already.
            let _ = context.registry.create_object(object);
        }
    }
}

// === impl RemainingContent ===

impl RemainingContent {
    /// Deletes the objects in a namespace: its pods, and when they have gone, all others.
    fn delete(context: &mut ComponentContext<'_>, namespace: &str) -> RemainingContent {
        let resources = context.registry.store().resources();
        let (pods, others): (Vec<&Resource>, Vec<&Resource>) =
            resources.iter().filter(|resource| resource.namespaced).partition(|one| one.kind.is("", "Pod"));
        let mut content = RemainingContent::default();
        for resources in [pods, others] {
            if content.is_empty() {
                resources.into_iter().for_each(|resource| content.delete_all(context, resource, namespace));
            }
        }
        content
    }

    fn delete_all(&mut self, context: &mut ComponentContext<'_>, resource: &Resource, namespace: &str) {
        let options = DeleteOptions {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteOptions::default()
        };
        let Ok(list) = context.registry.store().list(resource) else { return };
        for object in list.objects.range(Some(namespace), None) {
            let name = NamespacedName::new(namespace, &*object.meta().name);
            match context.registry.delete_object(&resource.storage_kind(), &name, &options) {
                Ok(Deletion::Gone(_)) => continue,
                Ok(Deletion::Terminating(object)) => {
                    let object = object.value().unwrap_or_default();
                    let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
                    for finalizer in finalizers.filter_map(Value::as_str) {
                        *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                    }
                }
                Err(error) if error.is_not_found() => continue,
                Err(error) => self.errors.push(error.to_string()),
            }
            let resource = format!("{}.{}", resource.plural, resource.kind.group);
            *self.objects.entry(resource).or_default() += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The conditions of the namespace: type, reason and message, with `true` if something is left to do.
    fn conditions(&self) -> [(&'static str, bool, &'static str, String); 5] {
        let counted = |counts: &BTreeMap<String, usize>, has: &str, what: &str| {
            let texts = counts.iter().map(|(name, count)| format!("{name} {has} {count} {what}"));
            texts.collect::<Vec<_>>().join(", ")
        };
        let good = |condition, reason, message: &str| (condition, false, reason, message.to_owned());
        [
            good(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            good(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            match &self.errors[..] {
                [] => good(
                    "NamespaceDeletionContentFailure",
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization",
                ),
                errors => {
                    let (count, mut errors) = (errors.len(), errors.to_vec());
                    errors.sort_unstable();
                    let message = format!(
                        "Failed to delete all resource types, {count} remaining: {}",
                        errors.join(", ")
                    );
                    ("NamespaceDeletionContentFailure", true, "ContentDeletionFailed", message)
                }
            },
            if self.objects.is_empty() {
                good("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed")
            } else {
                let objects = counted(&self.objects, "has", "resource instances");
                let message = format!("Some resources are remaining: {objects}");
                ("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
            },
            if self.finalizers.is_empty() {
                good(
                    "NamespaceFinalizersRemaining",
                    "ContentHasNoFinalizers",
                    "All content-preserving finalizers finished",
                )
            } else {
                let finalizers = counted(&self.finalizers, "in", "resource instances");
                let message = format!("Some content in the namespace has finalizers remaining: {finalizers}");
                ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message)
            },
        ]
    }

    /// Writes the conditions that have changed.
    fn write_conditions(&self, context: &mut ComponentContext<'_>, namespace: &str) {
        let now = whole_second(context.now).to_string();
        let key = NamespacedName::new("", namespace);
        let kind = Kind::new("", "Namespace");
        // The namespace may have gone.
        let _ = context.registry.update_object(&kind, &key, UpdatedPart::Status, |namespace: &mut Value| {
            let status = &mut namespace["status"];
            if !status["conditions"].is_array() {
                status["conditions"] = json!([]);
            }
            let Some(conditions) = status["conditions"].as_array_mut() else { return false };
            for (condition_type, is_true, reason, message) in self.conditions() {
                let mut new = json!({
                    "type": condition_type, "status": if is_true { "True" } else { "False" },
                    "lastTransitionTime": now, "reason": reason, "message": message,
                });
                match conditions.iter_mut().find(|condition| condition["type"] == condition_type) {
                    Some(old) => {
                        if old["status"] == new["status"] {
                            new["lastTransitionTime"] = old["lastTransitionTime"].clone();
                        }
                        *old = new;
                    }
                    None => conditions.push(new),
                }
            }
            true
        });
    }
}

/// Removes the finalizer of an empty namespace.
fn finalize(context: &mut ComponentContext<'_>, namespace: &str) {
    let key = NamespacedName::new("", namespace);
    let kind = Kind::new("", "Namespace");
    let _ = context.registry.update_object(&kind, &key, UpdatedPart::Everything, |namespace: &mut Value| {
        namespace["spec"]["finalizers"] = json!([]);
        true
    });
}
