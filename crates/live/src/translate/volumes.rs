//! Rules for storage, by which volumes and claims reach neither the recorded cluster's disks nor foreign volumes.
//!
//! The disk, server or secret that a volume source names is replaced by a name that cannot exist, always the same for
//! the same original. So pods that shared a disk still share one, and attach limits count as recorded.

use model::{ContentHash, Kind};
use serde_json::{Map, Value, json};

use super::templates::map_entry;
use super::{ExclusionReason, TranslateOptions, map_field};
use crate::run_label::RUN_LABEL;

/// A volume source that leads to storage outside the objects of a cluster.
struct VolumeSource {
    name: &'static str,
    /// The fields that name the storage.
    handles: &'static [(&'static str, HandleForm)],
    /// The fields that do not. All others, such as secrets, accounts and options, are removed.
    kept: &'static [&'static str],
}

/// The format of a field that API servers accept and components can parse.
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
    /// `vol-…`: schedulers translate AWS volumes to CSI, and fail with any other format.
    AwsVolume,
    /// An Azure resource ID, or a URL.
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

/// The volume sources of PersistentVolumes; most are also allowed in pods.
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

/// Volume sources that differ in pods, or exist only in pods.
const POD_SOURCES: &[VolumeSource] = &[
    // It has no handle: the volume attributes, which only the driver understands, name what is mounted.
    source("csi", &[("driver", Host)], &["fsType", "readOnly"]),
    source("gitRepo", &[("repository", Url)], &["directory"]),
];

/// Volume sources that are kept: API objects, those that the kubelet creates, and images.
const KEPT_SOURCES: [&str; 8] = [
    "configMap",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The fields of a PersistentVolume spec other than volume sources.
const PERSISTENT_VOLUME_FIELDS: [&str; 9] = [
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

/// Annotations by which provisioners and resizers recognize their objects.
const PROVISIONER_ANNOTATIONS: [&str; 7] = [
    "pv.kubernetes.io/provisioned-by",
    "pv.kubernetes.io/migrated-to",
    "volume.kubernetes.io/provisioner-deletion-secret-name",
    "volume.kubernetes.io/provisioner-deletion-secret-namespace",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-resizer",
];

/// The provisioner of classes whose volumes are created manually.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// A provisioner that does not exist. Schedulers and autoscalers then expect dynamic provisioning, as recorded; with
/// [`NO_PROVISIONER`] they would expect an existing volume.
const SILENT_PROVISIONER: &str = "replay.kinescope.io/no-provisioner";
/// The node that a scheduler chose for a claim with WaitForFirstConsumer.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotations of a bound claim.
pub(crate) const BIND_ANNOTATIONS: [&str; 2] =
    ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"];

pub(super) fn transform_persistent_volume(
    options: &TranslateOptions,
    volume: &mut Value,
) -> Result<(), ExclusionReason> {
    remove_provisioner_annotations(volume);
    let Some(spec) = map_field(volume, "spec") else { return Ok(()) };
    spec.insert("persistentVolumeReclaimPolicy".to_owned(), "Retain".into());
    if options.keep_volume_handles {
        return Ok(());
    }
    // Some drivers' mount options name servers and accounts.
    spec.remove("mountOptions");
    for (name, value) in
        spec.iter_mut().filter(|(name, _)| !PERSISTENT_VOLUME_FIELDS.contains(&name.as_str()))
    {
        match SOURCES.iter().find(|source| source.name == name) {
            Some(source) => source.disconnect(value),
            None => return Err("a volume with an unknown source".into()),
        }
    }
    Ok(())
}

pub(super) fn transform_claim(options: &TranslateOptions, claim: &mut Value) {
    let volume = Kind::new("", "PersistentVolume");
    let has_volumes = match &options.kinds {
        Some(kinds) => kinds.contains(&volume),
        None => options.simkube.is_none(),
    };
    remove_provisioner_annotations(claim);
    if let Some(Value::Object(annotations)) = claim.pointer_mut("/metadata/annotations") {
        if !options.keep_placement {
            annotations.remove(SELECTED_NODE);
        }
        if !has_volumes {
            BIND_ANNOTATIONS.iter().for_each(|annotation| drop(annotations.remove(*annotation)));
        }
    }
    if !has_volumes {
        if let Some(spec) = map_field(claim, "spec") {
            spec.remove("volumeName");
        }
        if let Some(claim) = claim.as_object_mut() {
            claim.remove("status");
        }
    }
    select_own_volumes(options, claim);
}

/// The claims of a StatefulSet get the run's label, because they have no owner that would delete them.
pub(super) fn transform_claim_templates(options: &TranslateOptions, stateful_set: &mut Value) {
    let templates = stateful_set.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for template in templates.into_iter().flatten() {
        remove_provisioner_annotations(template);
        select_own_volumes(options, template);
        if let Some(template) = template.as_object_mut().filter(|_| !options.run.is_empty()) {
            let labels = map_entry(map_entry(template, "metadata"), "labels");
            labels.insert(RUN_LABEL.to_owned(), options.run.clone().into());
        }
    }
}

pub(super) fn transform_storage_class(options: &TranslateOptions, class: &mut Value) {
    if options.allow_external_effects || class["provisioner"] == NO_PROVISIONER {
        return;
    }
    class["provisioner"] = SILENT_PROVISIONER.into();
    class["reclaimPolicy"] = "Retain".into();
    if let Some(class) = class.as_object_mut() {
        class.remove("parameters");
    }
}

/// The target's attach-detach controller would detach volumes that it did not attach.
pub(super) fn remove_attached_volumes(node: &mut Value) {
    if let Some(status) = map_field(node, "status") {
        status.remove("volumesAttached");
        status.remove("volumesInUse");
    }
}

/// The node ID of a CSI driver identifies the cloud instance.
pub(super) fn transform_csi_node(node: &mut Value) {
    let drivers = node.pointer_mut("/spec/drivers").and_then(Value::as_array_mut);
    for driver in drivers.into_iter().flatten() {
        if let Some(id) = driver.get_mut("nodeID") {
            Text.replace(id);
        }
    }
}

/// The inline volumes of a pod.
pub(super) fn transform_pod_volumes(options: &TranslateOptions, spec: &mut Map<String, Value>) {
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(claim) =
            volume.get_mut("ephemeral").and_then(|ephemeral| ephemeral.get_mut("volumeClaimTemplate"))
        {
            remove_provisioner_annotations(claim);
            select_own_volumes(options, claim);
        }
        if options.keep_volume_handles {
            continue;
        }
        let mut is_unknown = false;
        for (name, value) in volume.iter_mut().filter(|(name, _)| *name != "name") {
            match POD_SOURCES.iter().chain(SOURCES).find(|source| source.name == name) {
                Some(source) => source.disconnect(value),
                None => is_unknown |= !KEPT_SOURCES.contains(&name.as_str()),
            }
        }
        if is_unknown {
            volume.retain(|name, _| name == "name");
            volume.insert("emptyDir".to_owned(), json!({}));
        }
    }
}

/// Restricts a claim to volumes of the run: a foreign volume would be reclaimed when the claim is deleted. Provisioners
/// create no volumes for claims with a selector, so classes that the target had before create none either.
fn select_own_volumes(options: &TranslateOptions, claim: &mut Value) {
    if options.allow_external_effects || options.run.is_empty() {
        return;
    }
    let Some(spec) = map_field(claim, "spec") else { return };
    spec.remove("dataSource");
    spec.remove("dataSourceRef");
    let labels = map_entry(map_entry(spec, "selector"), "matchLabels");
    labels.insert(RUN_LABEL.to_owned(), options.run.clone().into());
}

fn remove_provisioner_annotations(object: &mut Value) {
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.retain(|name, _| !PROVISIONER_ANNOTATIONS.contains(&name.as_str()));
    }
}

// === impl VolumeSource ===

impl VolumeSource {
    /// Removes or replaces every field that leads to storage.
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
    /// Replaces the names in a field by names that cannot exist.
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
