//! Which object of the target stands for which of the recording.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

/// A uid that no object has: whoever is referred to by it is taken for gone.
pub(super) const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// The uids in the target, by those in the recording. What is gone is forgotten.
#[derive(Debug, Default)]
pub(super) struct Identities {
    new: HashMap<Box<str>, Arc<str>>,
    /// What was deleted before it went in the recording.
    lost: HashSet<Box<str>>,
    /// Owns all that is created, if anybody does.
    root: Option<Value>,
}

impl Identities {
    pub(super) fn learn(&mut self, old: &str, new: &str) {
        self.new.insert(old.into(), new.into());
    }

    /// It is gone already, though the recording has its end still to come.
    pub(super) fn lose(&mut self, old: &str) {
        if self.new.remove(old).is_some() {
            self.lost.insert(old.into());
        }
    }

    pub(super) fn has_lost(&self, old: &str) -> bool {
        self.lost.contains(old)
    }

    /// It is gone for good. Says whether it had been there.
    pub(super) fn forget(&mut self, old: &str) -> bool {
        self.lost.remove(old) | self.new.remove(old).is_some()
    }

    pub(super) fn of(&self, old: &str) -> Option<Arc<str>> {
        self.new.get(old).cloned()
    }

    /// Lets somebody own all that is created from now on.
    pub(super) fn own_all(&mut self, root: Value) {
        self.root = Some(root);
    }

    /// Lets an object, or a change of one, point to the target's objects. Who is not there does not own it.
    pub(super) fn translate(&self, object: &mut Value) {
        let is_patch = object.get("kind").is_none();
        if let Some(root) = &self.root
            && (!is_patch || object.pointer("/metadata/ownerReferences").is_some())
        {
            let owners = &mut object["metadata"]["ownerReferences"];
            if !owners.is_array() {
                *owners = Value::Array(Vec::new());
            }
            owners.as_array_mut().expect("it was made one").push(root.clone());
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
            && let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences")
        {
            owners.retain_mut(|owner| self.translate_uid(owner));
            // To a change an empty list is news.
            if owners.is_empty() && !is_patch {
                metadata.remove("ownerReferences");
            }
        }
        if let Some(claim) = object.pointer_mut("/spec/claimRef").filter(|claim| claim.is_object()) {
            // By its name alone it would mean a claim of others.
            if claim.get("uid").is_some() && !self.translate_uid(claim) {
                claim["uid"] = NOBODY.into();
            }
            if let Some(claim) = claim.as_object_mut() {
                claim.remove("resourceVersion");
            }
        }
    }

    /// Whether the one it names is there.
    fn translate_uid(&self, reference: &mut Value) -> bool {
        if self.root.as_ref().is_some_and(|root| root == reference) {
            return true;
        }
        let new = reference.get("uid").and_then(Value::as_str).and_then(|old| self.new.get(old));
        if let Some(new) = new {
            reference["uid"] = Value::from(&**new);
        }
        new.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_point_to_what_is_there() {
        let mut identities = Identities::default();
        identities.learn("old-set", "new-set");
        let owner = |uid: &str| json!({"kind": "ReplicaSet", "name": "web", "uid": uid});
        let mut pod =
            json!({"kind": "Pod", "metadata": {"ownerReferences": [owner("old-set"), owner("unknown")]}});
        identities.translate(&mut pod);
        assert_eq!(pod["metadata"]["ownerReferences"], json!([owner("new-set")]));
        let mut orphan = json!({"kind": "Pod", "metadata": {"ownerReferences": [owner("unknown")]}});
        identities.translate(&mut orphan);
        assert_eq!(orphan["metadata"], json!({}));
        let claim = |uid: &str| json!({"kind": "PersistentVolume", "spec": {"claimRef": {"name": "data", "uid": uid, "resourceVersion": "7"}}});
        let (mut bound, mut lost) = (claim("old-set"), claim("unknown"));
        identities.translate(&mut bound);
        identities.translate(&mut lost);
        assert_eq!(bound["spec"]["claimRef"], json!({"name": "data", "uid": "new-set"}));
        assert_eq!(lost["spec"]["claimRef"], json!({"name": "data", "uid": NOBODY}));
    }
}
