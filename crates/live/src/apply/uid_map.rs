//! The mapping from recorded uids to uids in the target.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

/// A uid that no object has: its referent is taken for deleted.
pub(super) const NONEXISTENT_UID: &str = "00000000-0000-0000-0000-000000000000";

/// Target uids by recorded uids. Deleted objects are removed.
#[derive(Debug, Default)]
pub(super) struct UidMap {
    target_uids: HashMap<Box<str>, Arc<str>>,
    /// Objects that are gone in the target before their deletion is complete in the recording.
    deleted_early: HashSet<Box<str>>,
    /// The owner of every created object, if there is one.
    root_owner: Option<Value>,
}

impl UidMap {
    pub(super) fn insert(&mut self, recorded_uid: &str, target_uid: &str) {
        self.target_uids.insert(recorded_uid.into(), target_uid.into());
    }

    /// Marks an object as gone before its deletion is complete in the recording.
    pub(super) fn mark_deleted(&mut self, recorded_uid: &str) {
        if self.target_uids.remove(recorded_uid).is_some() {
            self.deleted_early.insert(recorded_uid.into());
        }
    }

    pub(super) fn is_marked_deleted(&self, recorded_uid: &str) -> bool {
        self.deleted_early.contains(recorded_uid)
    }

    /// Removes an object; returns whether it existed.
    pub(super) fn remove(&mut self, recorded_uid: &str) -> bool {
        self.deleted_early.remove(recorded_uid) | self.target_uids.remove(recorded_uid).is_some()
    }

    pub(super) fn get(&self, recorded_uid: &str) -> Option<Arc<str>> {
        self.target_uids.get(recorded_uid).cloned()
    }

    /// Sets the owner of every object created from now on.
    pub(super) fn set_root_owner(&mut self, root: Value) {
        self.root_owner = Some(root);
    }

    /// Replaces the uids in an object or patch with those of the target. Owners that do not exist are removed.
    pub(super) fn translate_references(&self, object: &mut Value) {
        let is_patch = object.get("kind").is_none();
        if let Some(root) = &self.root_owner
            && (!is_patch || object.pointer("/metadata/ownerReferences").is_some())
        {
            let owners = &mut object["metadata"]["ownerReferences"];
            if !owners.is_array() {
                *owners = Value::Array(Vec::new());
            }
            owners.as_array_mut().expect("the field was just made an array").push(root.clone());
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
            && let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences")
        {
            owners.retain_mut(|owner| self.translate_uid(owner));
            // In a patch an empty list is a change.
            if owners.is_empty() && !is_patch {
                metadata.remove("ownerReferences");
            }
        }
        if let Some(claim) = object.pointer_mut("/spec/claimRef").filter(|claim| claim.is_object()) {
            // Without a uid it could refer to a foreign claim.
            if claim.get("uid").is_some() && !self.translate_uid(claim) {
                claim["uid"] = NONEXISTENT_UID.into();
            }
            if let Some(claim) = claim.as_object_mut() {
                claim.remove("resourceVersion");
            }
        }
    }

    /// Replaces the uid of a reference; returns whether the referent exists.
    fn translate_uid(&self, reference: &mut Value) -> bool {
        if self.root_owner.as_ref().is_some_and(|root| root == reference) {
            return true;
        }
        let target_uid = reference
            .get("uid")
            .and_then(Value::as_str)
            .and_then(|recorded_uid| self.target_uids.get(recorded_uid));
        if let Some(target_uid) = target_uid {
            reference["uid"] = Value::from(&**target_uid);
        }
        target_uid.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_point_to_existing_objects() {
        let mut uid_map = UidMap::default();
        uid_map.insert("old-set", "new-set");
        let owner = |uid: &str| json!({"kind": "ReplicaSet", "name": "web", "uid": uid});
        let mut pod =
            json!({"kind": "Pod", "metadata": {"ownerReferences": [owner("old-set"), owner("unknown")]}});
        uid_map.translate_references(&mut pod);
        assert_eq!(pod["metadata"]["ownerReferences"], json!([owner("new-set")]));
        let mut orphan = json!({"kind": "Pod", "metadata": {"ownerReferences": [owner("unknown")]}});
        uid_map.translate_references(&mut orphan);
        assert_eq!(orphan["metadata"], json!({}));
        let claim = |uid: &str| json!({"kind": "PersistentVolume", "spec": {"claimRef": {"name": "data", "uid": uid, "resourceVersion": "7"}}});
        let (mut bound, mut unbound) = (claim("old-set"), claim("unknown"));
        uid_map.translate_references(&mut bound);
        uid_map.translate_references(&mut unbound);
        assert_eq!(bound["spec"]["claimRef"], json!({"name": "data", "uid": "new-set"}));
        assert_eq!(unbound["spec"]["claimRef"], json!({"name": "data", "uid": NONEXISTENT_UID}));
    }
}
