//! The order of operations: each waits for earlier ones on its object, and on objects that it needs.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::SetOnce;

use crate::translate::{ApiOperation, ObjectAddress, Verb};

/// Set when an operation is done.
pub(super) type DoneSignal = Arc<SetOnce<()>>;

/// The operations in progress.
#[derive(Debug, Default)]
pub(super) struct OperationOrder {
    /// The last operation on an object.
    last: HashMap<ObjectAddress, DoneSignal>,
    /// Objects that are being created, by their recorded uid.
    creating: HashMap<Box<str>, DoneSignal>,
}

impl OperationOrder {
    /// Adds an operation; returns the signals to wait for, and the signal to set when it is done.
    pub(super) fn enqueue(&mut self, deed: &ApiOperation) -> (Vec<DoneSignal>, DoneSignal) {
        let turn = DoneSignal::default();
        let mut before: Vec<DoneSignal> =
            required_objects(deed).filter_map(|address| self.last.get(&address)).cloned().collect();
        if deed.address == ObjectAddress::cluster_scoped("", "Namespace", &deed.address.name) {
            // Operations in the namespace come first: its deletion would make them fail.
            let within = self.last.iter().filter(|(address, _)| address.namespace == deed.address.name);
            before.extend(within.map(|(_, turn)| turn.clone()));
        }
        if let Verb::Create { object } | Verb::Patch { patch: object, .. } = &deed.verb {
            before.extend(referenced_uids(object).filter_map(|uid| self.creating.get(uid)).cloned());
        }
        before.extend(self.last.insert(deed.address.clone(), turn.clone()));
        if let Verb::Create { .. } = &deed.verb {
            self.creating.insert(deed.uid.clone(), turn.clone());
        }
        (before, turn)
    }

    /// Removes an operation that is done.
    pub(super) fn remove(&mut self, deed: &ApiOperation, turn: &DoneSignal) {
        if self.last.get(&deed.address).is_some_and(|last| Arc::ptr_eq(last, turn)) {
            self.last.remove(&deed.address);
        }
        if self.creating.get(&deed.uid).is_some_and(|last| Arc::ptr_eq(last, turn)) {
            self.creating.remove(&deed.uid);
        }
    }
}

/// Objects without which the server rejects this one.
fn required_objects(deed: &ApiOperation) -> impl Iterator<Item = ObjectAddress> {
    let ApiOperation { address, verb: doing, .. } = deed;
    let namespace = (!address.namespace.is_empty())
        .then(|| ObjectAddress::cluster_scoped("", "Namespace", &address.namespace));
    let class = |place: &str, group: &str, kind: &str| match doing {
        Verb::Create { object } if &*address.kind.kind == "Pod" => {
            let name = object.pointer(place).and_then(Value::as_str);
            name.map(|name| ObjectAddress::cluster_scoped(group, kind, name))
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
