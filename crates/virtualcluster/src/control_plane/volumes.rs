//! The PersistentVolume controller: claims are bound to volumes that fit, or to new ones of their StorageClass; and the
//! protection of claims and volumes in use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver::{ApiError, Registry, UpdatedPart};
use kubernetes::objects::{PodEvent, PodView, VolumeSource};
use kubernetes::quantity::Quantity;
use kubernetes::selector::{LabelSelector, Selector};
use kubernetes::well_known;
use model::{Kind, NamespacedName, What};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ComponentContext;
use super::claim_events::{EVENT_SOURCE, UnboundEvent, taken_event, unbound_event, waiting_event};
use super::core_event_recorder::{EventText, InvolvedObject};
use super::correlated_event_recorder::CorrelatedEventRecorder;

/// Claims and volumes that are to be looked at.
#[derive(Default)]
pub(super) struct Volumes {
    claims: BTreeSet<NamespacedName>,
    /// Claims that no volume fits yet.
    unbound: BTreeSet<NamespacedName>,
    /// Claims that wait for a pod that uses them.
    waiting: BTreeSet<NamespacedName>,
    volumes: BTreeSet<Arc<str>>,
    /// The pods that use a claim.
    users: BTreeMap<NamespacedName, BTreeSet<NamespacedName>>,
    events: CorrelatedEventRecorder,
}

/// The annotation with which the scheduler asks for a volume.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

fn claim_kind() -> Kind {
    Kind::new("", "PersistentVolumeClaim")
}

fn volume_kind() -> Kind {
    Kind::new("", "PersistentVolume")
}

impl Volumes {
    pub(super) fn observe(&mut self, kind: &Kind, what: &What) {
        let meta = what.object().meta();
        if *kind == claim_kind() {
            let name = NamespacedName::new(&*meta.namespace, &*meta.name);
            if what.state().is_some() {
                self.claims.insert(name);
            } else {
                self.unbound.remove(&name);
                self.waiting.remove(&name);
                // Its volume is released.
                if let Some(volume) =
                    what.object().value().ok().and_then(|claim| text(&claim, "/spec/volumeName"))
                {
                    self.volumes.insert(volume.into());
                }
            }
        } else if *kind == volume_kind() {
            if what.state().is_some() {
                self.volumes.insert((*meta.name).into());
            }
            self.claims.append(&mut self.unbound);
        } else if kind.is("storage.k8s.io", "StorageClass") {
            self.claims.append(&mut self.unbound);
        }
    }

    pub(super) fn observe_pod(&mut self, event: &PodEvent) {
        let pod = event.object();
        let is_user = event.state().is_some_and(|pod| !pod.is_finished());
        for claim in claims_of(pod) {
            let users = self.users.entry(claim.clone()).or_default();
            if is_user {
                users.insert(pod.name.clone());
                // A claim that waits for it says so.
                if pod.status.is_unschedulable() && self.waiting.contains(&claim) {
                    self.claims.insert(claim);
                }
            } else {
                users.remove(&pod.name);
                if users.is_empty() {
                    self.users.remove(&claim);
                }
                self.claims.insert(claim);
            }
        }
    }

    /// Binds, provisions and releases what is due. Returns whether there was anything.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        let (claims, volumes) = (std::mem::take(&mut self.claims), std::mem::take(&mut self.volumes));
        for name in &claims {
            self.sync_claim(context, name);
        }
        for name in &volumes {
            sync_volume(context, name);
        }
        !claims.is_empty() || !volumes.is_empty()
    }

    fn sync_claim(&mut self, context: &mut ComponentContext<'_>, name: &NamespacedName) {
        let Some(claim) = value_of(context.registry, &claim_kind(), name) else { return };
        if claim["metadata"]["deletionTimestamp"].is_string() {
            if !self.users.contains_key(name) {
                remove_finalizer(context.registry, &claim_kind(), name, CLAIM_PROTECTION);
            }
            return;
        }
        // Failures leave the claim as it is, until something changes.
        let _ = match text(&claim, "/spec/volumeName") {
            Some(volume) => self.complete_or_refuse(context, name, &claim, &volume),
            None => self.bind_or_provision(context, name, &claim),
        };
    }

    /// Binds a claim to the volume that it names, unless that is another claim's.
    fn complete_or_refuse(
        &mut self,
        context: &mut ComponentContext<'_>,
        name: &NamespacedName,
        claim: &Value,
        volume: &str,
    ) -> Result<(), ApiError> {
        let current = value_of(context.registry, &volume_kind(), &NamespacedName::new("", volume));
        let is_taken = current.is_some_and(|current| !is_free_for(&current["spec"]["claimRef"], name, claim));
        if !is_taken {
            return complete_binding(context.registry, name, claim, volume);
        }
        if claim["metadata"]["annotations"].get(well_known::BIND_COMPLETED).is_none() {
            self.record(context, name, claim, taken_event(volume));
            self.unbound.insert(name.clone());
        }
        Ok(())
    }

    fn bind_or_provision(
        &mut self,
        context: &mut ComponentContext<'_>,
        name: &NamespacedName,
        claim: &Value,
    ) -> Result<(), ApiError> {
        let class_name = text(claim, "/spec/storageClassName").unwrap_or_default();
        let classes = Kind::new("storage.k8s.io", "StorageClass");
        let class = value_of(context.registry, &classes, &NamespacedName::new("", &*class_name));
        let waits = class.as_ref().is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
        let has_node = claim["metadata"]["annotations"].get(SELECTED_NODE).is_some();
        if waits && !has_node {
            self.waiting.insert(name.clone());
            let event = waiting_event(&self.unscheduled_users(context, name));
            self.record(context, name, claim, event);
            return Ok(());
        }
        self.waiting.remove(name);
        if let Some(volume) = find_volume(context.registry, name, claim, &class_name) {
            return bind_volume(context.registry, name, &volume);
        }
        match unbound_event(&class_name, class.as_ref()) {
            UnboundEvent::Failed(event) => {
                self.record(context, name, claim, event);
                self.unbound.insert(name.clone());
                Ok(())
            }
            UnboundEvent::Provisioning(event) => {
                self.record(context, name, claim, event);
                provision(context, name, None)
            }
        }
    }

    /// The unfinished pods without a node that use a claim.
    fn unscheduled_users(&self, context: &ComponentContext<'_>, claim: &NamespacedName) -> Vec<Arc<str>> {
        let users = self.users.get(claim).into_iter().flatten();
        let is_unscheduled = |user: &&NamespacedName| {
            context.pods.get(*user).is_some_and(|pod| pod.node_name.is_none() && !pod.is_finished())
        };
        users.filter(is_unscheduled).map(|user| user.name.clone()).collect()
    }

    fn record(
        &mut self,
        context: &ComponentContext<'_>,
        name: &NamespacedName,
        claim: &Value,
        event: EventText,
    ) {
        let metadata = |field: &str| text(claim, &format!("/metadata/{field}")).unwrap_or_default();
        let involved = InvolvedObject {
            api_version: "v1".to_owned(),
            kind: "PersistentVolumeClaim".to_owned(),
            name: name.clone(),
            uid: metadata("uid"),
        };
        let version = metadata("resourceVersion");
        self.events.record(context.registry, context.now, EVENT_SOURCE, &involved, &version, event);
    }
}

/// The claims that a pod uses.
fn claims_of(pod: &PodView) -> Vec<NamespacedName> {
    let claims = pod.spec.volumes.iter().filter_map(|volume| {
        let name: Arc<str> = match &volume.source {
            VolumeSource::PersistentVolumeClaim(name) => name.clone(),
            VolumeSource::Ephemeral => format!("{}-{}", pod.name.name, volume.name).into(),
            _ => return None,
        };
        Some(NamespacedName::new(pod.name.namespace.clone(), name))
    });
    claims.collect()
}

fn value_of(registry: &Registry, kind: &Kind, name: &NamespacedName) -> Option<Value> {
    registry.get(kind, name)?.value().ok()
}

fn text(object: &Value, pointer: &str) -> Option<String> {
    object.pointer(pointer)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The smallest free volume that fits a claim.
fn find_volume(registry: &Registry, name: &NamespacedName, claim: &Value, class: &str) -> Option<Arc<str>> {
    let table = registry.store().resources();
    let list = registry.store().list(table.of_kind(&volume_kind())?).ok()?;
    let requested = Quantity::parse(&text(claim, "/spec/resources/requests/storage")?).ok()?;
    let selector = &claim["spec"]["selector"];
    let selector = match selector.is_object() {
        true => Selector::of(Some(&LabelSelector::deserialize(selector).ok()?)).ok()?,
        false => Selector::EVERYTHING,
    };
    let modes = |object: &Value| -> BTreeSet<String> {
        let modes = object["spec"]["accessModes"].as_array().into_iter().flatten();
        modes.filter_map(|mode| Some(mode.as_str()?.to_owned())).collect()
    };
    let volumes = list.objects.iter().filter_map(|volume| volume.value().ok()).filter(|volume| {
        is_free_for(&volume["spec"]["claimRef"], name, claim)
            && !volume["metadata"]["deletionTimestamp"].is_string()
            && text(volume, "/spec/storageClassName").unwrap_or_default() == class
            && modes(volume).is_superset(&modes(claim))
            && volume["spec"]["volumeMode"] == claim["spec"]["volumeMode"]
            && selector.matches(|key| volume["metadata"]["labels"][key].as_str())
    });
    let fitting = volumes.filter_map(|volume| {
        let capacity = Quantity::parse(&text(&volume, "/spec/capacity/storage")?).ok()?;
        let is_reserved = !volume["spec"]["claimRef"].is_null();
        (capacity >= requested)
            .then(|| (!is_reserved, capacity, text(&volume, "/metadata/name").unwrap_or_default()))
    });
    fitting.min().map(|(_, _, name)| name.into())
}

/// Whether a volume with this reference belongs to a claim, or to none yet.
fn is_free_for(owner: &Value, name: &NamespacedName, claim: &Value) -> bool {
    let uid = &owner["uid"];
    owner.is_null()
        || (owner["name"] == *name.name
            && owner["namespace"] == *name.namespace
            && (uid.is_null() || uid == "" || *uid == claim["metadata"]["uid"]))
}

/// Binds a claim to a volume: first the volume, then the claim.
pub(super) fn bind_volume(registry: &Registry, name: &NamespacedName, volume: &str) -> Result<(), ApiError> {
    let Some(claim) = value_of(registry, &claim_kind(), name) else { return Ok(()) };
    complete_binding(registry, name, &claim, volume)
}

fn complete_binding(
    registry: &Registry,
    name: &NamespacedName,
    claim: &Value,
    volume: &str,
) -> Result<(), ApiError> {
    let key = NamespacedName::new("", volume);
    // A claim may name a volume that does not exist yet.
    let Some(current) = value_of(registry, &volume_kind(), &key) else { return Ok(()) };
    let uid = claim["metadata"]["uid"].clone();
    if !is_free_for(&current["spec"]["claimRef"], name, claim) {
        return Ok(());
    }
    registry.update_object(&volume_kind(), &key, UpdatedPart::Everything, |volume| {
        if volume["spec"]["claimRef"]["uid"] == uid && volume["status"]["phase"] == "Bound" {
            return false;
        }
        if volume["spec"]["claimRef"].is_null() {
            annotate(volume, BOUND_BY_CONTROLLER);
        }
        volume["spec"]["claimRef"] = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": *name.namespace, "name": *name.name,
            "uid": uid, "resourceVersion": claim["metadata"]["resourceVersion"],
        });
        volume["status"]["phase"] = "Bound".into();
        true
    })?;
    registry.update_object(&claim_kind(), name, UpdatedPart::Everything, |claim| {
        if claim["status"]["phase"] == "Bound" && claim["spec"]["volumeName"] == volume {
            return false;
        }
        if claim["spec"]["volumeName"] != volume {
            annotate(claim, BOUND_BY_CONTROLLER);
            claim["spec"]["volumeName"] = volume.into();
        }
        annotate(claim, well_known::BIND_COMPLETED);
        claim["status"] = json!({
            "phase": "Bound", "accessModes": current["spec"]["accessModes"], "capacity": current["spec"]["capacity"],
        });
        true
    })?;
    Ok(())
}

fn annotate(object: &mut Value, key: &str) {
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][key] = "yes".into();
}

/// Creates a volume for a claim, on a node if that was selected, and binds it.
pub(super) fn provision(
    context: &mut ComponentContext<'_>,
    name: &NamespacedName,
    node: Option<&Arc<str>>,
) -> Result<(), ApiError> {
    let registry = context.registry;
    let Some(claim) = value_of(registry, &claim_kind(), name) else { return Ok(()) };
    let class_name = text(&claim, "/spec/storageClassName").unwrap_or_default();
    let classes = Kind::new("storage.k8s.io", "StorageClass");
    let Some(class) = value_of(registry, &classes, &NamespacedName::new("", &*class_name)) else {
        return Ok(());
    };
    let provisioner = text(&class, "/provisioner").unwrap_or_default();
    let volume = format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap_or_default());
    let mut spec = json!({
        "accessModes": claim["spec"]["accessModes"],
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": *name.namespace, "name": *name.name,
            "uid": claim["metadata"]["uid"], "resourceVersion": claim["metadata"]["resourceVersion"],
        },
        // Names of provisioners may have a slash, those of drivers may not.
        "csi": {"driver": provisioner.replace('/', "."), "volumeHandle": volume},
        "persistentVolumeReclaimPolicy": class.get("reclaimPolicy").cloned().unwrap_or_else(|| "Delete".into()),
        "storageClassName": class_name,
        "volumeMode": claim["spec"].get("volumeMode").cloned().unwrap_or_else(|| "Filesystem".into()),
    });
    let topology = node.and_then(|node| context.nodes.get(node)).and_then(|node| {
        [well_known::ZONE, well_known::HOSTNAME]
            .into_iter()
            .find_map(|key| Some((key, node.label(key)?.to_owned())))
    });
    if let Some((key, value)) = topology.filter(|(key, _)| *key == well_known::ZONE) {
        let term = json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [term]}});
    }
    let object = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": volume, "annotations": {PROVISIONED_BY: provisioner}}, "spec": spec,
    });
    if registry.get(&volume_kind(), &NamespacedName::new("", &*volume)).is_none() {
        registry.create_object(object)?;
    }
    bind_volume(registry, name, &volume)
}

/// A volume whose claim has gone is released: deleted or kept, as it says. A new one is available.
fn sync_volume(context: &mut ComponentContext<'_>, name: &Arc<str>) {
    let registry = context.registry;
    let key = NamespacedName::new("", name.clone());
    let Some(volume) = value_of(registry, &volume_kind(), &key) else { return };
    let owner = &volume["spec"]["claimRef"];
    let claim = text(owner, "/name").map(|claim| {
        let name = NamespacedName::new(text(owner, "/namespace").unwrap_or_default(), claim);
        value_of(registry, &claim_kind(), &name).filter(|claim| claim["metadata"]["uid"] == owner["uid"])
    });
    let is_bound = matches!(claim, Some(Some(_)));
    if volume["metadata"]["deletionTimestamp"].is_string() {
        if !is_bound {
            remove_finalizer(registry, &volume_kind(), &key, VOLUME_PROTECTION);
        }
        return;
    }
    let is_reserved = owner.is_object() && owner["uid"].is_null();
    let phase = match claim {
        _ if is_reserved => "Available",
        None => "Available",
        Some(Some(_)) => return,
        Some(None) => "Released",
    };
    if phase == "Released" && volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" {
        let _ = registry.delete_object(&volume_kind(), &key, &apiserver::DeleteOptions::default());
        remove_finalizer(registry, &volume_kind(), &key, VOLUME_PROTECTION);
        return;
    }
    let _ = registry.update_object(&volume_kind(), &key, UpdatedPart::Status, |volume| {
        let is_changed = volume["status"]["phase"] != phase;
        volume["status"]["phase"] = phase.into();
        is_changed
    });
}

fn remove_finalizer(registry: &Registry, kind: &Kind, name: &NamespacedName, finalizer: &str) {
    let _ = registry.update_object(kind, name, UpdatedPart::Everything, |object| {
        let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() else { return false };
        let count = finalizers.len();
        finalizers.retain(|own| own != finalizer);
        finalizers.len() < count
    });
}
