//! Who owns an object: its owner references, and the chain of owners up to the root.

use std::collections::HashMap;

use model::{Key, Kind, Object, What};
use serde::Deserialize;

/// How many owners a chain may have. Real ones have three or four.
pub const MAX_OWNERS: usize = 32;

/// An object's reference to an owner, which lives in the same namespace or belongs to the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerRef {
    /// `apps/v1`.
    pub api_version: String,
    /// `ReplicaSet`.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's uid: another life of the name is not the owner.
    pub uid: String,
    /// Whether this owner manages the object. At most one does.
    pub controller: Option<bool>,
}

/// The owners of an object, the nearest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain<'a> {
    /// The owners; empty for an object without any.
    pub owners: Vec<Owner<'a>>,
    /// Why it ends where it does.
    pub end: End,
}

/// One owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// How the object below refers to it.
    pub reference: OwnerRef,
    /// The owner itself, if it could be found.
    pub object: Option<&'a Object>,
}

/// Why a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The last object has no owner.
    Root,
    /// The last owner could not be found, or is another life of its name; the reference stands for it.
    Missing,
    /// The last object is owned by one further down.
    Cycle,
    /// There are more than [`MAX_OWNERS`].
    TooLong,
}

/// The owners among the objects of one cluster, gathered from its changes.
///
/// Of each object that has owners it holds the references, as they were last: also of those that are deleted, which
/// their pods may outlive, unless it is told to forget them.
#[derive(Debug, Default)]
pub struct Owners {
    /// By group, kind, namespace and name, the lives that had this name.
    owned: HashMap<String, Vec<Owned>>,
}

/// An object that has owners.
#[derive(Debug)]
struct Owned {
    uid: Option<String>,
    references: Vec<OwnerRef>,
}

/// An object's references to its owners; none if the field is not what Kubernetes makes of it.
pub fn owner_references(object: &Object) -> Vec<OwnerRef> {
    #[derive(Deserialize)]
    struct Outer {
        metadata: Inner,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        owner_references: Option<Vec<OwnerRef>>,
    }
    object.view::<Outer>().ok().and_then(|outer| outer.metadata.owner_references).unwrap_or_default()
}

/// The owner that manages the object: the first that says so.
pub fn controller_of(object: &Object) -> Option<OwnerRef> {
    owner_references(object).into_iter().find(|reference| reference.controller == Some(true))
}

/// The owners of an object up to the root: of each its controller, or its first owner if none manages it.
pub fn chain<'a>(object: &'a Object, find: impl Fn(&OwnerRef) -> Option<&'a Object>) -> Chain<'a> {
    let mut owners: Vec<Owner<'a>> = Vec::new();
    let mut below = object;
    let end = loop {
        let references = owner_references(below);
        let managing = references.iter().position(|reference| reference.controller == Some(true));
        let Some(reference) = references.into_iter().nth(managing.unwrap_or(0)) else { break End::Root };
        if reference.is(object) || owners.iter().any(|owner| owner.reference.same(&reference)) {
            break End::Cycle;
        }
        if owners.len() == MAX_OWNERS {
            break End::TooLong;
        }
        let found = find(&reference).filter(|found| reference.is(found));
        owners.push(Owner { reference, object: found });
        match found {
            Some(found) => below = found,
            None => break End::Missing,
        }
    };
    Chain { owners, end }
}

// === impl OwnerRef ===

impl OwnerRef {
    /// The owner's group and kind.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.api_version, &self.kind)
    }

    /// Whether the object is this owner: by uid, or by kind and name where one of them has none.
    fn is(&self, object: &Object) -> bool {
        let meta = object.meta();
        let named = self.name == meta.name && self.kind() == Kind::of(&meta.api_version, &meta.kind);
        named && (self.uid.is_empty() || meta.uid.is_none_or(|uid| uid == self.uid))
    }

    fn same(&self, other: &OwnerRef) -> bool {
        self.uid == other.uid && self.name == other.name && self.kind() == other.kind()
    }
}

// === impl Chain ===

impl Chain<'_> {
    /// The last owner; `None` for an object without any.
    pub fn root(&self) -> Option<&OwnerRef> {
        self.owners.last().map(|owner| &owner.reference)
    }
}

// === impl Owners ===

impl Owners {
    /// Before any change.
    pub fn new() -> Owners {
        Owners::default()
    }

    /// Takes a change of any object.
    pub fn see(&mut self, key: &Key, what: &What) {
        let object = what.object();
        let references = owner_references(object);
        let place = place(&key.kind, &key.namespace, &key.name);
        let uid = object.meta().uid;
        let lives = self.owned.get_mut(&place);
        let known =
            lives.and_then(|lives| lives.iter_mut().find(|life| life.uid.as_deref() == uid.as_deref()));
        match known {
            // What comes with a delete may be a stub.
            Some(known) if what.state().is_some() => known.references = references,
            None if !references.is_empty() => {
                let owned = Owned { uid: uid.map(|uid| uid.into_owned()), references };
                self.owned.entry(place).or_default().push(owned);
            }
            Some(_) | None => {}
        }
    }

    /// Forgets an object, all lives of its name: what it owned is not asked about any more.
    pub fn forget(&mut self, key: &Key) {
        self.owned.remove(&place(&key.kind, &key.namespace, &key.name));
    }

    /// All owners of an object, each once: every reference is followed by the owners of that owner, as SimKube walks
    /// them, up to [`MAX_OWNERS`]. An owner that was not seen, or is another life of its name, has none above it.
    pub fn above(&self, object: &Object) -> Vec<OwnerRef> {
        let mut above: Vec<OwnerRef> = Vec::new();
        let mut ahead: Vec<(OwnerRef, &str)> = Vec::new();
        let meta = object.meta();
        ahead.extend(
            owner_references(object).into_iter().rev().map(|reference| (reference, &*meta.namespace)),
        );
        while let Some((reference, namespace)) = ahead.pop() {
            if above.len() == MAX_OWNERS {
                break;
            }
            if reference.is(object) || above.iter().any(|owner| owner.same(&reference)) {
                continue;
            }
            if let Some((owned, namespace)) = self.find(&reference, namespace) {
                ahead.extend(owned.references.iter().rev().map(|above| (above.clone(), namespace)));
            }
            above.push(reference);
        }
        above
    }

    /// What is referred to from this namespace, and its own: an owner lives in the same or in none.
    fn find<'a>(&self, reference: &OwnerRef, namespace: &'a str) -> Option<(&Owned, &'a str)> {
        [namespace, ""].into_iter().find_map(|namespace| {
            let lives = self.owned.get(&place(&reference.kind(), namespace, &reference.name))?;
            let fits = |life: &&Owned| {
                reference.uid.is_empty() || life.uid.as_ref().is_none_or(|uid| *uid == reference.uid)
            };
            lives.iter().rev().find(fits).map(|owned| (owned, namespace))
        })
    }
}

/// One text for the place of an object; no part of it can hold a slash.
fn place(kind: &Kind, namespace: &str, name: &str) -> String {
    format!("{}/{}/{namespace}/{name}", kind.group, kind.kind)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
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
    fn check(objects: &[Object], expected: &[&str], end: End) {
        let chain = chain(&objects[0], |reference| {
            objects
                .iter()
                .find(|object| object.meta().name == reference.name && object.meta().kind == reference.kind)
        });
        let names: Vec<String> = chain
            .owners
            .iter()
            .map(|owner| format!("{}/{}", owner.reference.kind, owner.reference.name))
            .collect();
        assert_eq!((names, chain.end), (expected.iter().map(|&name| name.to_owned()).collect(), end));
        assert_eq!(chain.root().map(|root| root.uid.as_str()), expected.last().copied());
    }

    #[test]
    fn a_chain_leads_to_the_root() {
        let deployment = owned("Deployment/web", &[]);
        let set = owned("ReplicaSet/web-1", &["*Deployment/web"]);
        check(
            &[owned("Pod/p", &["*ReplicaSet/web-1"]), set, deployment],
            &["ReplicaSet/web-1", "Deployment/web"],
            End::Root,
        );
        check(&[owned("Pod/p", &[])], &[], End::Root);
    }

    #[test]
    fn the_controller_is_followed_or_else_the_first_owner() {
        let others = [owned("A/a", &[]), owned("B/b", &[])];
        let [a, b] = others;
        check(&[owned("Pod/p", &["A/a", "*B/b"]), a.clone(), b.clone()], &["B/b"], End::Root);
        check(&[owned("Pod/p", &["A/a", "B/b"]), a, b], &["A/a"], End::Root);
    }

    #[test]
    fn an_owner_that_is_gone_is_the_root() {
        check(&[owned("Pod/p", &["*ReplicaSet/web-1"])], &["ReplicaSet/web-1"], End::Missing);
        let reborn = resource("v1", "ReplicaSet", "web-1").uid("new ReplicaSet/web-1").object();
        check(&[owned("Pod/p", &["*ReplicaSet/web-1"]), reborn], &["ReplicaSet/web-1"], End::Missing);
    }

    #[test]
    fn cycles_and_endless_chains_end() {
        check(&[owned("A/a", &["A/a"])], &[], End::Cycle);
        check(&[owned("A/a", &["B/b"]), owned("B/b", &["A/a"])], &["B/b"], End::Cycle);
        check(
            &[owned("A/a", &["B/b"]), owned("B/b", &["C/c"]), owned("C/c", &["B/b"])],
            &["B/b", "C/c"],
            End::Cycle,
        );
        let long: Vec<Object> =
            (0..40).map(|n| owned(&format!("A/{n}"), &[&format!("A/{}", n + 1)])).collect();
        let names: Vec<String> = (1..=MAX_OWNERS).map(|n| format!("A/{n}")).collect();
        check(&long, &names.iter().map(String::as_str).collect::<Vec<_>>(), End::TooLong);
    }

    /// The owners above the first object, when all have been seen in this order.
    #[track_caller]
    fn check_above(objects: &[Object], expected: &[&str]) {
        let mut owners = Owners::new();
        for object in objects {
            owners.see(&object.key(&"east".into()), &What::Added(object.clone()));
        }
        assert_eq!(names(&owners.above(&objects[0])), expected);
    }

    fn names(owners: &[OwnerRef]) -> Vec<String> {
        owners.iter().map(|owner| format!("{}/{}", owner.kind, owner.name)).collect()
    }

    #[test]
    fn every_reference_is_followed_up_to_its_root() {
        check_above(
            &[
                owned("Pod/p", &["A/a", "*B/b"]),
                owned("A/a", &["C/c", "D/d"]),
                owned("B/b", &["C/c"]),
                owned("C/c", &["E/e"]),
            ],
            &["A/a", "C/c", "E/e", "D/d", "B/b"],
        );
        check_above(&[owned("Pod/p", &["A/a"])], &["A/a"]);
        check_above(&[owned("Pod/p", &[])], &[]);
    }

    #[test]
    fn walking_cycles_and_endless_chains_ends() {
        check_above(&[owned("A/a", &["A/a", "B/b"]), owned("B/b", &["A/a", "B/b"])], &["B/b"]);
        let long: Vec<Object> =
            (0..40).map(|n| owned(&format!("A/{n}"), &[&format!("A/{}", n + 1)])).collect();
        let expected: Vec<String> = (1..=MAX_OWNERS).map(|n| format!("A/{n}")).collect();
        check_above(&long, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn deleted_owners_are_remembered_also_where_the_delete_is_a_stub() {
        let set = owned("ReplicaSet/web-1", &["*Deployment/web"]);
        let key = set.key(&"east".into());
        let stub = resource("v1", "ReplicaSet", "web-1").uid("ReplicaSet/web-1");
        let mut owners = Owners::new();
        owners.see(&key, &What::Added(set));
        owners.see(&key, &stub.deleted());
        let above = owners.above(&owned("Pod/p", &["*ReplicaSet/web-1"]));
        assert_eq!(names(&above), ["ReplicaSet/web-1", "Deployment/web"]);
    }

    #[test]
    fn what_is_forgotten_has_no_owners() {
        let pod = owned("Pod/p", &["A/a"]);
        let key = pod.key(&"east".into());
        let mut owners = Owners::new();
        owners.see(&key, &What::Added(pod));
        assert_eq!(names(&owners.above(&owned("Claim/c", &["Pod/p"]))), ["Pod/p", "A/a"]);
        owners.forget(&key);
        assert_eq!(names(&owners.above(&owned("Claim/c", &["Pod/p"]))), ["Pod/p"]);
    }

    #[test]
    fn the_last_version_and_the_right_life_count() {
        let set = |uid: &str, owner: &str| {
            let json = owned("ReplicaSet/web-1", &[owner]).as_str().to_owned();
            Object::parse(&json.replace(r#""uid":"ReplicaSet/web-1""#, &format!(r#""uid":"{uid}""#))).unwrap()
        };
        let mut owners = Owners::new();
        for (uid, owner) in [("ReplicaSet/web-1", "A/a"), ("ReplicaSet/web-1", "B/b"), ("another", "C/c")] {
            let set = set(uid, owner);
            owners.see(&set.key(&"east".into()), &What::Modified(set));
        }
        let pod = owned("Pod/p", &["ReplicaSet/web-1"]);
        assert_eq!(names(&owners.above(&pod)), ["ReplicaSet/web-1", "B/b"]);
        let unknown =
            Object::parse(&pod.as_str().replace(r#""uid":"ReplicaSet/web-1""#, r#""uid":"x""#)).unwrap();
        assert_eq!(names(&owners.above(&unknown)), ["ReplicaSet/web-1"]);
        let without =
            Object::parse(&pod.as_str().replace(r#""uid":"ReplicaSet/web-1""#, r#""uid":"""#)).unwrap();
        assert_eq!(names(&owners.above(&without)), ["ReplicaSet/web-1", "C/c"]);
    }

    #[test]
    fn owners_live_in_the_same_namespace_or_belong_to_the_cluster() {
        let inside = |namespace: &str, object: &Object| {
            let json =
                object.as_str().replace(r#""name":""#, &format!(r#""namespace":"{namespace}","name":""#));
            Object::parse(&json).unwrap()
        };
        let pod = inside("shop", &owned("Pod/p", &["A/a", "B/b"]));
        check_above(
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
