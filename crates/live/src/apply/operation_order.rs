//! The order of operations: each waits for earlier ones on its object, and on objects that it needs.

use std::collections::HashMap;
use std::sync::Arc;

use model::ObjectRef;
use serde_json::Value;
use tokio::sync::SetOnce;

use crate::translate::{ApiOperation, Verb};

/// Set when an operation is done.
pub(super) type DoneSignal = Arc<SetOnce<()>>;

/// For each object, the operation that later ones must wait for.
#[derive(Debug, Default)]
pub(super) struct OperationOrder {
    /// The last operation on an object.
    last: HashMap<ObjectRef, DoneSignal>,
    /// Objects that are being created, by their recorded uid.
    creating: HashMap<Box<str>, DoneSignal>,
}

impl OperationOrder {
    /// Adds an operation; returns the signals to wait for, and the signal to set when it is done.
    pub(super) fn enqueue(&mut self, operation: &ApiOperation) -> (Vec<DoneSignal>, DoneSignal) {
        let done = DoneSignal::default();
        let mut predecessors: Vec<DoneSignal> = required_objects(operation)
            .filter_map(|object_ref| self.last.get(&object_ref))
            .cloned()
            .collect();
        if operation.object_ref == ObjectRef::cluster_scoped("", "Namespace", &operation.object_ref.name) {
            // Operations in the namespace come first: its deletion would make them fail.
            let in_namespace =
                self.last.iter().filter(|(object_ref, _)| object_ref.namespace == operation.object_ref.name);
            predecessors.extend(in_namespace.map(|(_, done)| done.clone()));
        }
        if let Verb::Create { object } | Verb::Patch { patch: object, .. } = &operation.verb {
            predecessors.extend(referenced_uids(object).filter_map(|uid| self.creating.get(uid)).cloned());
        }
        predecessors.extend(self.last.insert(operation.object_ref.clone(), done.clone()));
        if let Verb::Create { .. } = &operation.verb {
            self.creating.insert(operation.uid.clone(), done.clone());
        }
        (predecessors, done)
    }

    /// Removes an operation that is done.
    pub(super) fn remove(&mut self, operation: &ApiOperation, done: &DoneSignal) {
        if self.last.get(&operation.object_ref).is_some_and(|last| Arc::ptr_eq(last, done)) {
            self.last.remove(&operation.object_ref);
        }
        if self.creating.get(&operation.uid).is_some_and(|last| Arc::ptr_eq(last, done)) {
            self.creating.remove(&operation.uid);
        }
    }
}

/// Objects without which the server rejects this one.
fn required_objects(operation: &ApiOperation) -> impl Iterator<Item = ObjectRef> {
    let ApiOperation { object_ref, verb, .. } = operation;
    let namespace = (!object_ref.namespace.is_empty())
        .then(|| ObjectRef::cluster_scoped("", "Namespace", &object_ref.namespace));
    let class = |pointer: &str, group: &str, kind: &str| match verb {
        Verb::Create { object } if &*object_ref.kind.kind == "Pod" => {
            let name = object.pointer(pointer).and_then(Value::as_str);
            name.map(|name| ObjectRef::cluster_scoped(group, kind, name))
        }
        _ => None,
    };
    let priority = class("/spec/priorityClassName", "scheduling.k8s.io", "PriorityClass");
    let runtime = class("/spec/runtimeClassName", "node.k8s.io", "RuntimeClass");
    namespace.into_iter().chain(priority).chain(runtime)
}

/// The uids of its owners and of its claim.
fn referenced_uids(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    owners.chain(object.pointer("/spec/claimRef")).filter_map(|reference| reference.get("uid")?.as_str())
}
