//! The namespace controller and the controllers of what every namespace has: its service account `default` and the
//! certificate of the API server.

use std::collections::BTreeSet;
use std::sync::Arc;

use apiserver::{DeleteOptions, PropagationPolicy, StoreEvent, UpdatedPart};
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
                if empty(context, &name) {
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

/// Deletes all objects in a namespace. Returns whether none is left.
fn empty(context: &mut ComponentContext<'_>, namespace: &str) -> bool {
    let store = context.registry.store();
    let resources = store.resources();
    let options =
        DeleteOptions { propagation_policy: Some(PropagationPolicy::Background), ..DeleteOptions::default() };
    let mut is_empty = true;
    for resource in resources.iter().filter(|resource| resource.namespaced) {
        let Ok(list) = store.list(resource) else { continue };
        for object in list.objects.range(Some(namespace), None) {
            let name = NamespacedName::new(namespace, &*object.meta().name);
            let deleted = context.registry.delete_object(&resource.storage_kind(), &name, &options);
            is_empty &= !matches!(deleted, Ok(apiserver::Deletion::Terminating(_)));
        }
    }
    is_empty
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
