//! Who waits for whom: a deed for all before it that have to do with its object, or with what that needs.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::SetOnce;

use crate::transplant::{Address, Deed, Doing};

/// Set when a deed is done.
pub(super) type Turn = Arc<SetOnce<()>>;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The last deed to an object.
    last: HashMap<Address, Turn>,
    /// Objects of the recording that are being made, by their uid.
    making: HashMap<Box<str>, Turn>,
}

impl Order {
    /// The next deed: whom it waits for, and what is set when it is done.
    pub(super) fn take_turn(&mut self, deed: &Deed) -> (Vec<Turn>, Turn) {
        let turn = Turn::default();
        let mut before: Vec<Turn> =
            needed(deed).filter_map(|address| self.last.get(&address)).cloned().collect();
        if deed.address == Address::of_cluster("", "Namespace", &deed.address.name) {
            // What is being done in it comes first, or it would be in vain.
            let within = self.last.iter().filter(|(address, _)| address.namespace == deed.address.name);
            before.extend(within.map(|(_, turn)| turn.clone()));
        }
        if let Doing::Create { object } | Doing::Change { patch: object, .. } = &deed.doing {
            before.extend(references(object).filter_map(|uid| self.making.get(uid)).cloned());
        }
        before.extend(self.last.insert(deed.address.clone(), turn.clone()));
        if let Doing::Create { .. } = &deed.doing {
            self.making.insert(deed.uid.clone(), turn.clone());
        }
        (before, turn)
    }

    /// Nobody has to wait for it any more.
    pub(super) fn done(&mut self, deed: &Deed, turn: &Turn) {
        if self.last.get(&deed.address).is_some_and(|last| Arc::ptr_eq(last, turn)) {
            self.last.remove(&deed.address);
        }
        if self.making.get(&deed.uid).is_some_and(|last| Arc::ptr_eq(last, turn)) {
            self.making.remove(&deed.uid);
        }
    }
}

/// Objects without which the server does not take this one.
fn needed(deed: &Deed) -> impl Iterator<Item = Address> {
    let Deed { address, doing, .. } = deed;
    let namespace =
        (!address.namespace.is_empty()).then(|| Address::of_cluster("", "Namespace", &address.namespace));
    let class = |place: &str, group: &str, kind: &str| match doing {
        Doing::Create { object } if &*address.kind.kind == "Pod" => {
            let name = object.pointer(place).and_then(Value::as_str);
            name.map(|name| Address::of_cluster(group, kind, name))
        }
        _ => None,
    };
    let priority = class("/spec/priorityClassName", "scheduling.k8s.io", "PriorityClass");
    let runtime = class("/spec/runtimeClassName", "node.k8s.io", "RuntimeClass");
    namespace.into_iter().chain(priority).chain(runtime)
}

/// The uids of its owners and of its claim.
fn references(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    owners.chain(object.pointer("/spec/claimRef")).filter_map(|reference| reference.get("uid")?.as_str())
}
