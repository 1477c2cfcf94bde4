//! Protection of objects in the target that the run did not create.

use model::{Kind, ObjectRef};
use serde_json::Value;

use super::Applier;
use super::target::TargetCluster;
use super::uid_map::NONEXISTENT_UID;
use crate::list_watch::RequestFailure;
use crate::translate::{ApiOperation, BIND_ANNOTATIONS};
use crate::{Connection, Error, Result};

/// Kinds whose objects the control plane generates in every namespace or from other objects.
const GENERATED_KINDS: [(&str, &str); 4] =
    [("", "Event"), ("events.k8s.io", "Event"), ("", "Endpoints"), ("discovery.k8s.io", "EndpointSlice")];
/// Objects that the control plane creates in every namespace.
const DEFAULT_OBJECTS: [(&str, &str); 3] = [
    ("ConfigMap", "kube-root-ca.crt"),
    ("ConfigMap", "openshift-service-ca.crt"),
    ("ServiceAccount", "default"),
];

/// The kinds of a server, without those that this run has defined.
pub async fn kinds_before_run(connection: &Connection, run: &str) -> Result<Vec<Kind>> {
    let target = TargetCluster::connect(connection.clone(), run).await?;
    let definitions = kubernetes::kinds::definition_kind();
    let run_definitions = match target.has_kind(&definitions) {
        true => target.list_labeled(&definitions, Some(run)).await,
        false => Ok(Vec::new()),
    };
    let run_definitions = run_definitions.map_err(|failure| Error::Server {
        doing: "list the CustomResourceDefinitions of the run",
        failure,
    })?;
    let is_defined_by_run = |kind: &Kind| {
        run_definitions.iter().any(|(_, definition)| {
            let spec = &definition["spec"];
            spec["group"] == *kind.group && spec["names"]["kind"] == *kind.kind
        })
    };
    Ok(target
        .served_kinds()
        .into_iter()
        .map(|served| served.kind)
        .filter(|kind| !is_defined_by_run(kind))
        .collect())
}

/// The first foreign object that would be deleted with this namespace or CustomResourceDefinition. Secrets, which are
/// never read, are not found.
pub(super) async fn first_foreign_dependent(
    target: &TargetCluster,
    object_ref: &ObjectRef,
    run: Option<&str>,
) -> std::result::Result<Option<ObjectRef>, RequestFailure> {
    let is_generated = |kind: &Kind| GENERATED_KINDS.contains(&(&*kind.group, &*kind.kind));
    let (kinds, namespace): (Vec<_>, _) = match (&*object_ref.kind.group, &*object_ref.kind.kind) {
        ("", "Namespace") => {
            let namespaced = target.served_kinds().into_iter().filter(|served| served.is_namespaced);
            (namespaced.filter(|served| !is_generated(&served.kind)).collect(), &*object_ref.name)
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let is_defined = |plural: &str, group: &str| format!("{plural}.{group}") == *object_ref.name;
            let defined = target.served_kinds().into_iter();
            (defined.filter(|served| is_defined(&served.plural, &served.kind.group)).collect(), "")
        }
        _ => return Ok(None),
    };
    for served in kinds.into_iter().filter(|served| served.can_be_watched) {
        let objects = match target.list_unlabeled(&served.kind, namespace, run).await {
            // The kind was removed meanwhile.
            Err(failure) if failure.status == Some(404) => continue,
            found => found?,
        };
        let first = objects.into_iter().find(|(object_ref, object)| is_foreign(target, object_ref, object));
        if let Some((object_ref, _)) = first {
            return Ok(Some(object_ref));
        }
    }
    Ok(None)
}

/// Whether an object is foreign. Objects with an owner in their namespace are deleted with it, and default objects
/// exist in every namespace.
fn is_foreign(target: &TargetCluster, object_ref: &ObjectRef, object: &Value) -> bool {
    let metadata = &object["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let is_owned = owners.into_iter().any(|owner| {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        target.is_namespaced(&Kind::of(text("apiVersion"), text("kind")))
    });
    let is_default = DEFAULT_OBJECTS.contains(&(&*object_ref.kind.kind, &*object_ref.name));
    !is_owned && !is_default
}

impl Applier {
    /// Removes from an object or a patch whatever would bind foreign volumes or claims.
    pub(super) async fn detach_foreign_storage(
        &self,
        operation: &ApiOperation,
        object: &mut Value,
    ) -> std::result::Result<(), RequestFailure> {
        match (&*operation.object_ref.kind.group, &*operation.object_ref.kind.kind) {
            ("", "PersistentVolumeClaim") => {
                let Some(name) = object.pointer("/spec/volumeName").and_then(Value::as_str) else {
                    return Ok(());
                };
                if self.exists_as_foreign(&ObjectRef::cluster_scoped("", "PersistentVolume", name)).await? {
                    unbind(object);
                }
            }
            ("", "PersistentVolume") => {
                let Some(claim) = object.pointer("/spec/claimRef").filter(|claim| claim.is_object()) else {
                    return Ok(());
                };
                let text = |field: &str| claim[field].as_str().unwrap_or_default();
                let claim_ref = ObjectRef {
                    kind: Kind::new("", "PersistentVolumeClaim"),
                    namespace: text("namespace").into(),
                    name: text("name").into(),
                };
                // With a uid it refers to a claim of this run, or to none.
                if claim.get("uid").is_none() && self.exists_as_foreign(&claim_ref).await? {
                    object["spec"]["claimRef"]["uid"] = NONEXISTENT_UID.into();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether such an object exists that this run did not create.
    async fn exists_as_foreign(&self, object_ref: &ObjectRef) -> std::result::Result<bool, RequestFailure> {
        let is_incomplete = object_ref.name.is_empty();
        let existing = if is_incomplete { None } else { self.target.get(object_ref).await? };
        Ok(existing.is_some_and(|existing| !self.target.is_of_run(&existing)))
    }
}

/// Makes a claim unbound.
fn unbind(claim: &mut Value) {
    if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("volumeName");
    }
    if let Some(Value::Object(annotations)) = claim.pointer_mut("/metadata/annotations") {
        BIND_ANNOTATIONS.iter().for_each(|annotation| drop(annotations.remove(*annotation)));
    }
    if let Some(claim) = claim.as_object_mut() {
        claim.remove("status");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_without_its_volume_is_not_bound() {
        let mut claim = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes", "a": "b"}},
            "spec": {"volumeName": "theirs", "storageClassName": "c"}, "status": {"phase": "Bound"}});
        unbind(&mut claim);
        let expected = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"storageClassName": "c"}});
        assert_eq!(claim, expected);
    }
}
