//! Defaults of volumes, PersistentVolumes, claims and the kinds of `storage.k8s.io`.

use kubernetes::fields::{Fields, default_to, fields_mut, text};
use serde_json::{Value, json};

use super::images::pull_policy;

/// Readable and writable for the owner, readable for everybody else: 0644.
const FILE_MODE: i64 = 420;

pub(super) fn volume(volume: &mut Fields) {
    if volume.keys().all(|field| field == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(image) = fields_mut(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        default_to(image, "pullPolicy", policy);
    }
}

pub(super) fn default_mode(source: &mut Fields) {
    default_to(source, "defaultMode", FILE_MODE);
}

pub(super) fn service_account_token(projection: &mut Fields) {
    default_to(projection, "expirationSeconds", 3600);
}

pub(super) fn host_path(source: &mut Fields) {
    default_to(source, "type", "");
}

pub(super) fn iscsi(source: &mut Fields) {
    default_to(source, "iscsiInterface", "default");
}

pub(super) fn rbd(source: &mut Fields) {
    default_to(source, "pool", "rbd");
    default_to(source, "user", "admin");
    default_to(source, "keyring", "/etc/ceph/keyring");
}

pub(super) fn azure_disk(source: &mut Fields) {
    default_to(source, "cachingMode", "ReadWrite");
    default_to(source, "fsType", "ext4");
    default_to(source, "readOnly", false);
    default_to(source, "kind", "Shared");
}

pub(super) fn scale_io(source: &mut Fields) {
    default_to(source, "storageMode", "ThinProvisioned");
    default_to(source, "fsType", "xfs");
}

pub(super) fn persistent_volume(volume: &mut Fields) {
    set_phase(volume);
    let Some(spec) = fields_mut(volume, "spec") else { return };
    default_to(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_to(spec, "volumeMode", "Filesystem");
}

pub(super) fn persistent_volume_claim(claim: &mut Fields) {
    set_phase(claim);
}

pub(super) fn persistent_volume_claim_spec(spec: &mut Fields) {
    default_to(spec, "volumeMode", "Filesystem");
}

pub(super) fn storage_class(class: &mut Fields) {
    default_to(class, "reclaimPolicy", "Delete");
    default_to(class, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(driver: &mut Fields) {
    let Some(spec) = fields_mut(driver, "spec") else { return };
    default_to(spec, "attachRequired", true);
    default_to(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default_to(spec, "volumeLifecycleModes", json!(["Persistent"]));
    for switch in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        default_to(spec, switch, false);
    }
}

fn set_phase(object: &mut Fields) {
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        default_to(status, "phase", "Pending");
    }
}
