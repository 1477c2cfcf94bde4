//! Rules for storage: volumes and claims that cannot reach the recorded cluster's disks, nor volumes of others.
//!
//! What a volume source names, be it a disk, a server or a secret, is replaced by a name that cannot exist, always the
//! same for the same. So pods that shared a disk still share one, and limits of attached volumes count as they did.

use model::{ContentHash, Kind};
use serde_json::{Map, Value, json};

use super::templates::map_in;
use super::{LeftOut, Manner, fields};
use crate::run_label::RUN;

/// A volume source that leads to storage outside the objects of a cluster.
struct VolumeSource {
    name: &'static str,
    /// The fields that name the storage.
    handles: &'static [(&'static str, HandleForm)],
    /// The fields that do not. All others, such as secrets, accounts and options, are removed.
    kept: &'static [&'static str],
}

/// What an API server takes in a field, and components that read it understand.
#[derive(Clone, Copy)]
enum HandleForm {
    Text,
    /// A DNS label: the name of an object.
    Label,
    /// A name under `.invalid`, which RFC 2606 keeps from ever being resolved.
    Host,
    HostPort,
    Url,
    Path,
    /// `vol-…`: schedulers translate the volumes of AWS, and fail with any other.
    AwsVolume,
    /// A resource of Azure, or a URL.
    AzureDisk,
    /// The name of an iSCSI target.
    Iqn,
}

use HandleForm::{AwsVolume, AzureDisk, Host, HostPort, Iqn, Label, Path, Text, Url};

const fn source(
    name: &'static str,
    handles: &'static [(&'static str, HandleForm)],
    kept: &'static [&'static str],
) -> VolumeSource {
    VolumeSource { name, handles, kept }
}

/// The sources of PersistentVolumes, most of which pods may name by themselves, too.
const SOURCES: &[VolumeSource] = &[
    source("csi", &[("volumeHandle", Text)], &["driver", "fsType", "readOnly"]),
    source("awsElasticBlockStore", &[("volumeID", AwsVolume)], &["fsType", "partition", "readOnly"]),
    source("gcePersistentDisk", &[("pdName", Text)], &["fsType", "partition", "readOnly"]),
    source(
        "azureDisk",
        &[("diskName", Text), ("diskURI", AzureDisk)],
        &["cachingMode", "fsType", "kind", "readOnly"],
    ),
    source("azureFile", &[("secretName", Label), ("shareName", Text)], &["readOnly"]),
    source("cinder", &[("volumeID", Text)], &["fsType", "readOnly"]),
    source("vsphereVolume", &[("volumePath", Text)], &["fsType"]),
    // Schedulers compare monitors, pool and image.
    source("rbd", &[("monitors", Host), ("image", Text)], &["pool", "fsType", "readOnly"]),
    source("cephfs", &[("monitors", Host)], &["readOnly"]),
    source("glusterfs", &[("endpoints", Label), ("path", Text)], &["readOnly"]),
    source(
        "iscsi",
        &[("targetPortal", HostPort), ("portals", HostPort), ("iqn", Iqn)],
        &["lun", "iscsiInterface", "fsType", "readOnly"],
    ),
    source("fc", &[("targetWWNs", Text), ("wwids", Text)], &["lun", "fsType", "readOnly"]),
    source("nfs", &[("server", Host), ("path", Path)], &["readOnly"]),
    source("portworxVolume", &[("volumeID", Text)], &["fsType", "readOnly"]),
    source(
        "scaleIO",
        &[("gateway", Url), ("system", Text), ("secretRef", Label), ("volumeName", Text)],
        &["storageMode", "fsType", "readOnly"],
    ),
    source("storageos", &[("volumeName", Label)], &["fsType", "readOnly"]),
    source("quobyte", &[("registry", HostPort), ("volume", Text)], &["readOnly"]),
    source("photonPersistentDisk", &[("pdID", Text)], &["fsType"]),
    source("flexVolume", &[("driver", Text)], &["fsType", "readOnly"]),
    source("flocker", &[("datasetName", Text), ("datasetUUID", Text)], &[]),
    source("hostPath", &[("path", Path)], &[]),
    source("local", &[("path", Path)], &["fsType"]),
];

/// Sources that mean something else in a pod, or are in pods alone.
const POD_SOURCES: &[VolumeSource] = &[
    // It has no handle: the attributes, which the driver alone understands, name what is mounted.
    source("csi", &[("driver", Host)], &["fsType", "readOnly"]),
    source("gitRepo", &[("repository", Url)], &["directory"]),
];

/// Sources that stay as they are: objects of the cluster, what a kubelet makes, and images, as containers have them.
const INNER_SOURCES: [&str; 8] = [
    "configMap",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The fields of a PersistentVolume that are no source.
const VOLUME_FIELDS: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// By these annotations provisioners and resizers know what is theirs.
const PROVISIONER_MARKS: [&str; 7] = [
    "pv.kubernetes.io/provisioned-by",
    "pv.kubernetes.io/migrated-to",
    "volume.kubernetes.io/provisioner-deletion-secret-name",
    "volume.kubernetes.io/provisioner-deletion-secret-namespace",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-resizer",
];

/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Nobody answers to this name. Schedulers and autoscalers expect that a volume is made for a claim, as they did, and not
/// that there is one, as they do with [`NO_PROVISIONER`].
const SILENT_PROVISIONER: &str = "replay.kinescope.io/no-provisioner";
/// The node that a scheduler chose for a claim that waits for its pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// By these a claim is known to be bound.
pub(crate) const BOUND: [&str; 2] =
    ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"];

pub(super) fn shape_volume(manner: &Manner, volume: &mut Value) -> Result<(), LeftOut> {
    without_provisioner_marks(volume);
    let Some(spec) = fields(volume, "spec") else { return Ok(()) };
    spec.insert("persistentVolumeReclaimPolicy".to_owned(), "Retain".into());
    if manner.keep_volume_handles {
        return Ok(());
    }
    // Of a driver's own options some name servers and accounts.
    spec.remove("mountOptions");
    for (name, value) in spec.iter_mut().filter(|(name, _)| !VOLUME_FIELDS.contains(&name.as_str())) {
        match SOURCES.iter().find(|source| source.name == name) {
            Some(source) => source.disconnect(value),
            None => return Err("a volume of a source that is not known".into()),
        }
    }
    Ok(())
}

pub(super) fn shape_claim(manner: &Manner, claim: &mut Value) {
    let volume = Kind::new("", "PersistentVolume");
    let has_volumes = match &manner.kinds {
        Some(kinds) => kinds.contains(&volume),
        None => manner.simkube.is_none(),
    };
    without_provisioner_marks(claim);
    if let Some(Value::Object(annotations)) = claim.pointer_mut("/metadata/annotations") {
        if !manner.keep_placement {
            annotations.remove(SELECTED_NODE);
        }
        if !has_volumes {
            BOUND.iter().for_each(|mark| drop(annotations.remove(*mark)));
        }
    }
    if !has_volumes {
        if let Some(spec) = fields(claim, "spec") {
            spec.remove("volumeName");
        }
        if let Some(claim) = claim.as_object_mut() {
            claim.remove("status");
        }
    }
    select_own_volumes(manner, claim);
}

/// The claims that a StatefulSet makes get the label of the run, for they have no owner that would take them along.
pub(super) fn shape_claim_templates(manner: &Manner, set: &mut Value) {
    let templates = set.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for template in templates.into_iter().flatten() {
        without_provisioner_marks(template);
        select_own_volumes(manner, template);
        if let Some(template) = template.as_object_mut().filter(|_| !manner.run.is_empty()) {
            let labels = map_in(map_in(template, "metadata"), "labels");
            labels.insert(RUN.to_owned(), manner.run.clone().into());
        }
    }
}

pub(super) fn shape_class(manner: &Manner, class: &mut Value) {
    if manner.allow_external_effects || class["provisioner"] == NO_PROVISIONER {
        return;
    }
    class["provisioner"] = SILENT_PROVISIONER.into();
    class["reclaimPolicy"] = "Retain".into();
    if let Some(class) = class.as_object_mut() {
        class.remove("parameters");
    }
}

/// What is attached where is for the target's controllers to say, which detach what they do not want.
pub(super) fn shape_node(node: &mut Value) {
    if let Some(status) = fields(node, "status") {
        status.remove("volumesAttached");
        status.remove("volumesInUse");
    }
}

/// The nodes of a storage system are called as its instances are.
pub(super) fn shape_csi_node(node: &mut Value) {
    let drivers = node.pointer_mut("/spec/drivers").and_then(Value::as_array_mut);
    for driver in drivers.into_iter().flatten() {
        if let Some(id) = driver.get_mut("nodeID") {
            Text.replace(id);
        }
    }
}

/// The volumes that a pod names by itself.
pub(super) fn shape_pod_volumes(manner: &Manner, spec: &mut Map<String, Value>) {
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(claim) = volume.get_mut("ephemeral").and_then(|it| it.get_mut("volumeClaimTemplate")) {
            without_provisioner_marks(claim);
            select_own_volumes(manner, claim);
        }
        if manner.keep_volume_handles {
            continue;
        }
        let mut is_unknown = false;
        for (name, value) in volume.iter_mut().filter(|(name, _)| *name != "name") {
            match POD_SOURCES.iter().chain(SOURCES).find(|source| source.name == name) {
                Some(source) => source.disconnect(value),
                None => is_unknown |= !INNER_SOURCES.contains(&name.as_str()),
            }
        }
        if is_unknown {
            volume.retain(|name, _| name == "name");
            volume.insert("emptyDir".to_owned(), json!({}));
        }
    }
}

/// Lets a claim be bound to volumes of the run alone: one of others would be reclaimed when the claim is deleted. For
/// claims that select volumes provisioners make none, so that none is made by a class that the target had before.
fn select_own_volumes(manner: &Manner, claim: &mut Value) {
    if manner.allow_external_effects || manner.run.is_empty() {
        return;
    }
    let Some(spec) = fields(claim, "spec") else { return };
    spec.remove("dataSource");
    spec.remove("dataSourceRef");
    let labels = map_in(map_in(spec, "selector"), "matchLabels");
    labels.insert(RUN.to_owned(), manner.run.clone().into());
}

fn without_provisioner_marks(object: &mut Value) {
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.retain(|name, _| !PROVISIONER_MARKS.contains(&name.as_str()));
    }
}

// === impl VolumeSource ===

impl VolumeSource {
    /// Leaves nothing of a source that leads to storage.
    fn disconnect(&self, value: &mut Value) {
        let Some(fields) = value.as_object_mut() else { return };
        fields.retain(|field, value| {
            let handle = self.handles.iter().find(|(name, _)| name == field);
            if let Some((_, form)) = handle {
                form.replace(value);
            }
            handle.is_some() || self.kept.contains(&field.as_str())
        });
    }
}

// === impl HandleForm ===

impl HandleForm {
    /// Puts names that cannot exist in the place of those that a field has.
    fn replace(self, value: &mut Value) {
        match value {
            Value::Array(members) => members.iter_mut().for_each(|member| self.replace(member)),
            Value::Object(_) => *value = json!({"name": self.name(&value.to_string())}),
            Value::String(text) => *value = self.name(text).into(),
            Value::Null | Value::Bool(_) | Value::Number(_) => *value = self.name(&value.to_string()).into(),
        }
    }

    fn name(self, handle: &str) -> String {
        let ContentHash(hash) = ContentHash::of(handle);
        let text = format!("replay.kinescope.io_{hash:016x}");
        match self {
            Text => text,
            Label => format!("replay-kinescope-io-{hash:016x}"),
            Host => format!("{hash:016x}.replay.kinescope.invalid"),
            HostPort => format!("{}:1", Host.name(handle)),
            Url => format!("https://{}/", Host.name(handle)),
            Path => format!("/{text}"),
            AwsVolume => format!("vol-{text}"),
            AzureDisk if handle.starts_with("/subscriptions") => {
                format!("/subscriptions/none/resourceGroups/none/providers/Microsoft.Compute/disks/{text}")
            }
            AzureDisk => format!("{}{text}", Url.name(handle)),
            Iqn => format!("iqn.2000-01.invalid.kinescope.replay:{hash:016x}"),
        }
    }
}
