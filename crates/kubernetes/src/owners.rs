//! Owner references, and the chain of owners up to the root.

use std::collections::{BTreeSet, HashMap};

use model::{Key, Kind, Object, What};
use serde::Deserialize;
use serde_json::Value;

use crate::objects::OwnerReference;

/// Maximum length of an owner chain. Real ones have three or four owners.
pub const MAX_OWNERS: usize = 32;

/// The owners of an object, the nearest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerChain<'a> {
    /// The owners; empty for an object without any.
    pub owners: Vec<Owner<'a>>,
    /// The reason for its end.
    pub end: ChainEnd,
}

/// One owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The reference to it in the object below.
    pub reference: OwnerReference,
    /// The owner itself, if it could be found.
    pub object: Option<&'a Object>,
}

/// The reason why an owner chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainEnd {
    /// The last object has no owner.
    Root,
    /// The last owner was not found, or has another uid; the reference stands for it.
    Missing,
    /// The last object is owned by one further down the chain.
    Cycle,
    /// There are more than [`MAX_OWNERS`].
    TooLong,
}

/// An index of owner references, built from the changes of one cluster.
///
/// For each owned object it holds the latest references, also after its delete, because its pods may outlive it,
/// unless the object is removed from the index.
#[derive(Debug, Default)]
pub struct OwnerIndex {
    /// By group, kind, namespace and name: the incarnations of that name.
    owned: HashMap<String, Vec<OwnedObject>>,
}

/// An object that has owners.
#[derive(Debug)]
struct OwnedObject {
    uid: Option<String>,
    references: Vec<OwnerReference>,
}

/// An object's owner references; none if the field is malformed.
pub fn owner_references(object: &Object) -> Vec<OwnerReference> {
    #[derive(Deserialize)]
    struct Outer {
        metadata: Inner,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        owner_references: Option<Vec<OwnerReference>>,
    }
    object.view::<Outer>().ok().and_then(|outer| outer.metadata.owner_references).unwrap_or_default()
}

/// The managing controller: the first owner with `controller: true`.
pub fn controller_of(object: &Object) -> Option<OwnerReference> {
    owner_references(object).into_iter().find(|reference| reference.controller == Some(true))
}

/// The owner chain up to the root: at each step the controller, or the first owner if there is no controller.
pub fn owner_chain<'a>(
    object: &'a Object,
    find: impl Fn(&OwnerReference) -> Option<&'a Object>,
) -> OwnerChain<'a> {
    let mut owners: Vec<Owner<'a>> = Vec::new();
    let mut below = object;
    let end = loop {
        let references = owner_references(below);
        let managing = references.iter().position(|reference| reference.controller == Some(true));
        let Some(reference) = references.into_iter().nth(managing.unwrap_or(0)) else { break ChainEnd::Root };
        if reference.refers_to(object) || owners.iter().any(|owner| owner.reference.is_same_owner(&reference))
        {
            break ChainEnd::Cycle;
        }
        if owners.len() == MAX_OWNERS {
            break ChainEnd::TooLong;
        }
        let found = find(&reference).filter(|found| reference.refers_to(found));
        owners.push(Owner { reference, object: found });
        match found {
            Some(found) => below = found,
            None => break ChainEnd::Missing,
        }
    };
    OwnerChain { owners, end }
}

// === impl OwnerReference ===

impl OwnerReference {
    /// The owner's group and kind.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.api_version, &self.kind)
    }

    /// Whether the object is this owner: by uid, or by kind and name if either has no uid.
    fn refers_to(&self, object: &Object) -> bool {
        let meta = object.meta();
        let named = *self.name == *meta.name && self.kind() == Kind::of(&meta.api_version, &meta.kind);
        named && (self.uid.is_empty() || meta.uid.is_none_or(|uid| *uid == *self.uid))
    }

    fn is_same_owner(&self, other: &OwnerReference) -> bool {
        self.uid == other.uid && self.name == other.name && self.kind() == other.kind()
    }
}

// === impl OwnerChain ===

impl OwnerChain<'_> {
    /// The last owner; `None` for an object without owners.
    pub fn root(&self) -> Option<&OwnerReference> {
        self.owners.last().map(|owner| &owner.reference)
    }
}

// === impl OwnerIndex ===

impl OwnerIndex {
    /// An empty index.
    pub fn new() -> OwnerIndex {
        OwnerIndex::default()
    }

    /// Applies a change of any object.
    pub fn apply(&mut self, key: &Key, what: &What) {
        let object = what.object();
        let references = owner_references(object);
        let object_key = index_key(&key.kind, &key.namespace, &key.name);
        let uid = object.meta().uid;
        let owned_objects = self.owned.get_mut(&object_key);
        let existing = owned_objects.and_then(|owned_objects| {
            owned_objects.iter_mut().find(|owned_object| owned_object.uid.as_deref() == uid.as_deref())
        });
        match existing {
            // A delete may carry only a stub.
            Some(existing) if what.state().is_some() => existing.references = references,
            None if !references.is_empty() => {
                let owned = OwnedObject { uid: uid.map(|uid| uid.into_owned()), references };
                self.owned.entry(object_key).or_default().push(owned);
            }
            Some(_) | None => {}
        }
    }

    /// Removes all incarnations of an object, when nothing it owns is looked up any more.
    pub fn remove(&mut self, key: &Key) {
        self.owned.remove(&index_key(&key.kind, &key.namespace, &key.name));
    }

    /// All transitive owners of an object, each once: each reference is followed by the owners of that owner, in the
    /// order in which SimKube walks them, up to [`MAX_OWNERS`]. An unknown owner, or one with another uid, has no
    /// owners itself.
    pub fn transitive_owners(&self, object: &Object) -> Vec<OwnerReference> {
        let mut above: Vec<OwnerReference> = Vec::new();
        let mut ahead: Vec<(OwnerReference, &str)> = Vec::new();
        let meta = object.meta();
        ahead.extend(
            owner_references(object).into_iter().rev().map(|reference| (reference, &*meta.namespace)),
        );
        while let Some((reference, namespace)) = ahead.pop() {
            if above.len() == MAX_OWNERS {
                break;
            }
            if reference.refers_to(object) || above.iter().any(|owner| owner.is_same_owner(&reference)) {
                continue;
            }
            if let Some((owned, namespace)) = self.find(&reference, namespace) {
                ahead.extend(owned.references.iter().rev().map(|above| (above.clone(), namespace)));
            }
            above.push(reference);
        }
        above
    }

    /// The object referred to from this namespace, and its own namespace: an owner is in the same one or
    /// cluster-scoped.
    fn find<'a>(&self, reference: &OwnerReference, namespace: &'a str) -> Option<(&OwnedObject, &'a str)> {
        [namespace, ""].into_iter().find_map(|namespace| {
            let owned_objects = self.owned.get(&index_key(&reference.kind(), namespace, &reference.name))?;
            let matches_uid = |owned_object: &&OwnedObject| {
                reference.uid.is_empty()
                    || owned_object.uid.as_deref().is_none_or(|uid| *uid == *reference.uid)
            };
            owned_objects.iter().rev().find(matches_uid).map(|owned| (owned, namespace))
        })
    }
}

/// The index key of an object; none of its parts can contain a slash.
fn index_key(kind: &Kind, namespace: &str, name: &str) -> String {
    format!("{}/{}/{namespace}/{name}", kind.group, kind.kind)
}

/// Removes owner references that are equal to an earlier one. Returns their uids.
pub fn remove_duplicate_references(object: &mut Value) -> Vec<String> {
    let references = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(references) = references else { return Vec::new() };
    let (mut seen, mut removed) = (BTreeSet::new(), Vec::new());
    references.retain(|reference| {
        let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
        // A null equals an absent field.
        let is_new = seen.insert(fields.map(|field| reference[field].to_string()));
        if !is_new {
            removed.push(reference["uid"].as_str().unwrap_or_default().to_owned());
        }
        is_new
    });
    removed
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testobjects::{object, pod, resource};

    use super::*;

    /// An object `kind/name` owned by others of that form; `*` marks the controller.
    fn owned(name: &str, owners: &[&str]) -> Object {
        let reference = |owner: &str| {
            let (kind, name) = owner.trim_start_matches('*').split_once('/').unwrap();
            json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": format!("{kind}/{name}"),
                   "controller": owner.starts_with('*')})
        };
        let references: Vec<Value> = owners.iter().map(|owner| reference(owner)).collect();
        let (kind, short) = name.split_once('/').unwrap();
        resource("v1", kind, short).uid(name).set("metadata.ownerReferences", references).object()
    }

    #[track_caller]
    fn check(objects: &[Object], expected: &[&str], end: ChainEnd) {
        let chain = owner_chain(&objects[0], |reference| {
            objects.iter().find(|object| {
                *object.meta().name == *reference.name && *object.meta().kind == *reference.kind
            })
        });
        let names: Vec<String> = chain
            .owners
            .iter()
            .map(|owner| format!("{}/{}", owner.reference.kind, owner.reference.name))
            .collect();
        assert_eq!((names, chain.end), (expected.iter().map(|&name| name.to_owned()).collect(), end));
        assert_eq!(chain.root().map(|root| &*root.uid), expected.last().copied());
    }

    #[test]
    fn a_chain_leads_to_the_root() {
        let deployment = owned("Deployment/web", &[]);
        let set = owned("ReplicaSet/web-1", &["*Deployment/web"]);
        check(
            &[owned("Pod/p", &["*ReplicaSet/web-1"]), set, deployment],
            &["ReplicaSet/web-1", "Deployment/web"],
            ChainEnd::Root,
        );
        check(&[owned("Pod/p", &[])], &[], ChainEnd::Root);
    }

    #[test]
    fn the_controller_is_followed_or_else_the_first_owner() {
        let others = [owned("A/a", &[]), owned("B/b", &[])];
        let [a, b] = others;
        check(&[owned("Pod/p", &["A/a", "*B/b"]), a.clone(), b.clone()], &["B/b"], ChainEnd::Root);
        check(&[owned("Pod/p", &["A/a", "B/b"]), a, b], &["A/a"], ChainEnd::Root);
    }

    #[test]
    fn an_owner_that_is_gone_is_the_root() {
        check(&[owned("Pod/p", &["*ReplicaSet/web-1"])], &["ReplicaSet/web-1"], ChainEnd::Missing);
        let recreated = resource("v1", "ReplicaSet", "web-1").uid("new ReplicaSet/web-1").object();
        check(&[owned("Pod/p", &["*ReplicaSet/web-1"]), recreated], &["ReplicaSet/web-1"], ChainEnd::Missing);
    }

    #[test]
    fn cycles_and_endless_chains_end() {
        check(&[owned("A/a", &["A/a"])], &[], ChainEnd::Cycle);
        check(&[owned("A/a", &["B/b"]), owned("B/b", &["A/a"])], &["B/b"], ChainEnd::Cycle);
        check(
            &[owned("A/a", &["B/b"]), owned("B/b", &["C/c"]), owned("C/c", &["B/b"])],
            &["B/b", "C/c"],
            ChainEnd::Cycle,
        );
        let long: Vec<Object> =
            (0..40).map(|n| owned(&format!("A/{n}"), &[&format!("A/{}", n + 1)])).collect();
        let names: Vec<String> = (1..=MAX_OWNERS).map(|n| format!("A/{n}")).collect();
        check(&long, &names.iter().map(String::as_str).collect::<Vec<_>>(), ChainEnd::TooLong);
    }

    /// Checks the transitive owners of the first object, after all were applied in this order.
    #[track_caller]
    fn check_transitive_owners(objects: &[Object], expected: &[&str]) {
        let mut owners = OwnerIndex::new();
        for object in objects {
            owners.apply(&object.key(&"east".into()), &What::Added(object.clone()));
        }
        assert_eq!(names(&owners.transitive_owners(&objects[0])), expected);
    }

    fn names(owners: &[OwnerReference]) -> Vec<String> {
        owners.iter().map(|owner| format!("{}/{}", owner.kind, owner.name)).collect()
    }

    #[test]
    fn every_reference_is_followed_up_to_its_root() {
        check_transitive_owners(
            &[
                owned("Pod/p", &["A/a", "*B/b"]),
                owned("A/a", &["C/c", "D/d"]),
                owned("B/b", &["C/c"]),
                owned("C/c", &["E/e"]),
            ],
            &["A/a", "C/c", "E/e", "D/d", "B/b"],
        );
        check_transitive_owners(&[owned("Pod/p", &["A/a"])], &["A/a"]);
        check_transitive_owners(&[owned("Pod/p", &[])], &[]);
    }

    #[test]
    fn walking_cycles_and_endless_chains_ends() {
        check_transitive_owners(&[owned("A/a", &["A/a", "B/b"]), owned("B/b", &["A/a", "B/b"])], &["B/b"]);
        let long: Vec<Object> =
            (0..40).map(|n| owned(&format!("A/{n}"), &[&format!("A/{}", n + 1)])).collect();
        let expected: Vec<String> = (1..=MAX_OWNERS).map(|n| format!("A/{n}")).collect();
        check_transitive_owners(&long, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn deleted_owners_are_remembered_also_where_the_delete_is_a_stub() {
        let set = owned("ReplicaSet/web-1", &["*Deployment/web"]);
        let key = set.key(&"east".into());
        let stub = resource("v1", "ReplicaSet", "web-1").uid("ReplicaSet/web-1");
        let mut owners = OwnerIndex::new();
        owners.apply(&key, &What::Added(set));
        owners.apply(&key, &stub.deleted());
        let above = owners.transitive_owners(&owned("Pod/p", &["*ReplicaSet/web-1"]));
        assert_eq!(names(&above), ["ReplicaSet/web-1", "Deployment/web"]);
    }

    #[test]
    fn a_removed_object_has_no_owners() {
        let pod = owned("Pod/p", &["A/a"]);
        let key = pod.key(&"east".into());
        let mut owners = OwnerIndex::new();
        owners.apply(&key, &What::Added(pod));
        assert_eq!(names(&owners.transitive_owners(&owned("Claim/c", &["Pod/p"]))), ["Pod/p", "A/a"]);
        owners.remove(&key);
        assert_eq!(names(&owners.transitive_owners(&owned("Claim/c", &["Pod/p"]))), ["Pod/p"]);
    }

    #[test]
    fn the_last_version_and_the_right_uid_count() {
        let set = |uid: &str, owner: &str| {
            let json = owned("ReplicaSet/web-1", &[owner]).as_str().to_owned();
            Object::parse(&json.replace(r#""uid":"ReplicaSet/web-1""#, &format!(r#""uid":"{uid}""#))).unwrap()
        };
        let mut owners = OwnerIndex::new();
        for (uid, owner) in [("ReplicaSet/web-1", "A/a"), ("ReplicaSet/web-1", "B/b"), ("another", "C/c")] {
            let set = set(uid, owner);
            owners.apply(&set.key(&"east".into()), &What::Modified(set));
        }
        let pod = owned("Pod/p", &["ReplicaSet/web-1"]);
        assert_eq!(names(&owners.transitive_owners(&pod)), ["ReplicaSet/web-1", "B/b"]);
        let unknown =
            Object::parse(&pod.as_str().replace(r#""uid":"ReplicaSet/web-1""#, r#""uid":"x""#)).unwrap();
        assert_eq!(names(&owners.transitive_owners(&unknown)), ["ReplicaSet/web-1"]);
        let without =
            Object::parse(&pod.as_str().replace(r#""uid":"ReplicaSet/web-1""#, r#""uid":"""#)).unwrap();
        assert_eq!(names(&owners.transitive_owners(&without)), ["ReplicaSet/web-1", "C/c"]);
    }

    #[test]
    fn owners_live_in_the_same_namespace_or_belong_to_the_cluster() {
        let inside = |namespace: &str, object: &Object| {
            let json =
                object.as_str().replace(r#""name":""#, &format!(r#""namespace":"{namespace}","name":""#));
            Object::parse(&json).unwrap()
        };
        let pod = inside("shop", &owned("Pod/p", &["A/a", "B/b"]));
        check_transitive_owners(
            &[pod, inside("else", &owned("A/a", &["C/c"])), owned("B/b", &["D/d"])],
            &["A/a", "B/b", "D/d"],
        );
    }

    #[test]
    fn references_are_read_as_kubernetes_reads_them() {
        for line in include_str!("../../../testdata/kubernetes/owners.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let object = object(&case["object"]);
            let found = controller_of(&object).map(|owner| owner.uid);
            assert_eq!(found.as_deref(), case["controller"].as_str(), "{line}");
            assert_eq!(owner_references(&object).len() as u64, case["owners"].as_u64().unwrap(), "{line}");
        }
    }

    #[test]
    fn a_field_of_another_form_holds_no_references() {
        for hostile in [json!("x"), json!([1]), json!([{"name": 1}]), json!({})] {
            let pod = pod("p").set("metadata.ownerReferences", hostile).object();
            assert_eq!(owner_references(&pod), []);
        }
    }
}
