//! Objects of others in the target, and what must not be done so that they stay as they are.

use model::Kind;
use serde_json::Value;

use super::Applier;
use super::identities::NOBODY;
use super::target::Target;
use crate::transplant::{Address, BOUND, Deed};
use crate::watching::Failure;
use crate::{Connection, Error, Result};

/// Kinds of which a server makes objects in every namespace, or out of other objects.
const MADE_KINDS: [(&str, &str); 4] =
    [("", "Event"), ("events.k8s.io", "Event"), ("", "Endpoints"), ("discovery.k8s.io", "EndpointSlice")];
/// Objects that every namespace has.
const MADE_OBJECTS: [(&str, &str); 3] = [
    ("ConfigMap", "kube-root-ca.crt"),
    ("ConfigMap", "openshift-service-ca.crt"),
    ("ServiceAccount", "default"),
];
/// The account that a Secret is made for.
const ACCOUNT: &str = "kubernetes.io/service-account.name";

/// The kinds that a server has, but for those that this run has defined.
pub async fn kinds_before(connection: &Connection, run: &str) -> Result<Vec<Kind>> {
    let target = Target::find(connection.clone(), run).await?;
    let definitions = Kind::new("apiextensions.k8s.io", "CustomResourceDefinition");
    let ours = match target.has(&definitions) {
        true => target.labelled(&definitions, Some(run)).await,
        false => Ok(Vec::new()),
    };
    let ours =
        ours.map_err(|failure| Error::Server { doing: "ask which kinds the run has defined", failure })?;
    let is_ours = |kind: &Kind| {
        ours.iter().any(|(_, definition)| {
            let spec = &definition["spec"];
            spec["group"] == *kind.group && spec["names"]["kind"] == *kind.kind
        })
    };
    Ok(target.served().into_iter().map(|served| served.kind).filter(|kind| !is_ours(kind)).collect())
}

/// The first object of others that would go with this one, if it is a namespace or the definition of a kind.
pub(super) async fn first_held(
    target: &Target,
    address: &Address,
    run: Option<&str>,
) -> std::result::Result<Option<Address>, Failure> {
    let is_made = |kind: &Kind| MADE_KINDS.contains(&(&*kind.group, &*kind.kind));
    let (kinds, namespace): (Vec<_>, _) = match (&*address.kind.group, &*address.kind.kind) {
        ("", "Namespace") => {
            let within = target.served().into_iter().filter(|served| served.is_namespaced);
            (within.filter(|served| !is_made(&served.kind)).collect(), &*address.name)
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let is_defined = |plural: &str, group: &str| format!("{plural}.{group}") == *address.name;
            let defined = target.served().into_iter();
            (defined.filter(|served| is_defined(&served.plural, &served.kind.group)).collect(), "")
        }
        _ => return Ok(None),
    };
    for served in kinds.into_iter().filter(|served| served.can_be_watched) {
        let found = match target.unlabelled(&served.kind, namespace, run).await {
            // It has gone meanwhile.
            Err(failure) if failure.status == Some(404) => continue,
            found => found?,
        };
        let first = found.into_iter().find(|(address, object)| is_of_others(target, address, object));
        if let Some((address, _)) = first {
            return Ok(Some(address));
        }
    }
    Ok(None)
}

/// Whether an object is there for itself. What has an owner in its namespace goes with that, and every namespace has some.
fn is_of_others(target: &Target, address: &Address, object: &Value) -> bool {
    let metadata = &object["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let is_owned = owners.into_iter().any(|owner| {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        target.is_namespaced(&Kind::of(text("apiVersion"), text("kind")))
    });
    let is_made = MADE_OBJECTS.contains(&(&*address.kind.kind, &*address.name))
        || metadata["annotations"].get(ACCOUNT).is_some_and(|account| account == "default");
    !is_owned && !is_made
}

impl Applier {
    /// Takes out of an object, or a change of one, what would bind volumes or claims of others.
    pub(super) async fn spare_others(
        &self,
        deed: &Deed,
        object: &mut Value,
    ) -> std::result::Result<(), Failure> {
        match (&*deed.address.kind.group, &*deed.address.kind.kind) {
            ("", "PersistentVolumeClaim") => {
                let Some(name) = object.pointer("/spec/volumeName").and_then(Value::as_str) else {
                    return Ok(());
                };
                if self.is_of_others(&Address::of_cluster("", "PersistentVolume", name)).await? {
                    unbind(object);
                }
            }
            ("", "PersistentVolume") => {
                let Some(claim) = object.pointer("/spec/claimRef").filter(|claim| claim.is_object()) else {
                    return Ok(());
                };
                let text = |field: &str| claim[field].as_str().unwrap_or_default();
                let claimed = Address {
                    kind: Kind::new("", "PersistentVolumeClaim"),
                    namespace: text("namespace").into(),
                    name: text("name").into(),
                };
                // With a uid it is one that this run made, or nobody's.
                if claim.get("uid").is_none() && self.is_of_others(&claimed).await? {
                    object["spec"]["claimRef"]["uid"] = NOBODY.into();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether there is such an object that this run did not make.
    async fn is_of_others(&self, address: &Address) -> std::result::Result<bool, Failure> {
        let is_incomplete = address.name.is_empty();
        let found = if is_incomplete { None } else { self.target.get(address).await? };
        Ok(found.is_some_and(|found| !self.target.is_of_run(&found)))
    }
}

/// A claim that waits for a volume.
fn unbind(claim: &mut Value) {
    if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("volumeName");
    }
    if let Some(Value::Object(annotations)) = claim.pointer_mut("/metadata/annotations") {
        BOUND.iter().for_each(|mark| drop(annotations.remove(*mark)));
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
