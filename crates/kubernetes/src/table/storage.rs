//! Volumes, claims on them, and the drivers behind.

use model::Moment;

use super::field::Field;
use super::{AGE, BuiltIn, Cell, Column, Holds, NAME, name, object_age};

pub(super) static PERSISTENT_VOLUME: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::text("Capacity"),
        Column::text("Access Modes"),
        Column::text("Reclaim Policy"),
        Column::text("Status"),
        Column::text("Claim"),
        Column::text("StorageClass"),
        Column::text("VolumeAttributesClass"),
        Column::text("Reason"),
        AGE,
        Column::wide("VolumeMode"),
    ],
    cells: persistent_volume,
};

pub(super) static PERSISTENT_VOLUME_CLAIM: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::text("Status"),
        Column::text("Volume"),
        Column::text("Capacity"),
        Column::text("Access Modes"),
        Column::text("StorageClass"),
        Column::text("VolumeAttributesClass"),
        AGE,
        Column::wide("VolumeMode"),
    ],
    cells: persistent_volume_claim,
};

pub(super) static STORAGE_CLASS: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::text("Provisioner"),
        Column::text("ReclaimPolicy"),
        Column::text("VolumeBindingMode"),
        Column::text("AllowVolumeExpansion"),
        AGE,
    ],
    cells: storage_class,
};

pub(super) static CSI_NODE: BuiltIn = BuiltIn {
    columns: &[NAME, Column::integer("Drivers"), AGE],
    cells: |object, now| {
        vec![name(object), object.at("spec.drivers").count().into(), object_age(object, now)]
    },
};

pub(super) static CSI_DRIVER: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::truth("AttachRequired"),
        Column::truth("PodInfoOnMount"),
        Column::truth("StorageCapacity"),
        Column::text("TokenRequests"),
        Column::truth("RequiresRepublish"),
        Column::text("Modes"),
        AGE,
    ],
    cells: csi_driver,
};

pub(super) static CSI_STORAGE_CAPACITY: BuiltIn = BuiltIn {
    columns: &[NAME, Column::text("StorageClassName"), Column::text("Capacity")],
    cells: |object, _| {
        let capacity = object.at("capacity").amount();
        vec![
            name(object),
            object.at("storageClassName").text().into(),
            capacity.unwrap_or_else(|| "<unset>".to_owned()).into(),
        ]
    },
};

pub(super) static VOLUME_ATTACHMENT: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::new("Attacher", Holds::Text, "name", 0),
        Column::text("PV"),
        Column::text("Node"),
        Column::truth("Attached"),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            object.at("spec.attacher").text().into(),
            object.at("spec.source.persistentVolumeName").text().into(),
            object.at("spec.nodeName").text().into(),
            object.at("status.attached").truth().into(),
            object_age(object, now),
        ]
    },
};

pub(super) static VOLUME_ATTRIBUTES_CLASS: BuiltIn = BuiltIn {
    columns: &[NAME, Column::text("DriverName"), AGE],
    cells: |object, now| vec![name(object), object.at("driverName").text().into(), object_age(object, now)],
};

fn persistent_volume(volume: Field<'_>, now: Moment) -> Vec<Cell> {
    let spec = volume.at("spec");
    let claim = spec.at("claimRef");
    let claim = if claim.is_set() {
        format!("{}/{}", claim.at("namespace").text(), claim.at("name").text())
    } else {
        String::new()
    };
    vec![
        name(volume),
        storage(spec.at("capacity")).into(),
        access_modes(spec.at("accessModes")).into(),
        spec.at("persistentVolumeReclaimPolicy").text_or("Retain").into(),
        phase(volume).into(),
        claim.into(),
        class(volume).into(),
        attributes_class(spec).into(),
        volume.at("status.reason").text().into(),
        object_age(volume, now),
        volume_mode(spec).into(),
    ]
}

fn persistent_volume_claim(claim: Field<'_>, now: Moment) -> Vec<Cell> {
    let (spec, status) = (claim.at("spec"), claim.at("status"));
    let volume = spec.at("volumeName").text();
    // Without a volume there is nothing but a wish.
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (storage(status.at("capacity")), access_modes(status.at("accessModes")))
    };
    vec![
        name(claim),
        phase(claim).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(claim).into(),
        attributes_class(spec).into(),
        object_age(claim, now),
        volume_mode(spec).into(),
    ]
}

fn storage_class(object: Field<'_>, now: Moment) -> Vec<Cell> {
    let annotations = object.at("metadata.annotations");
    let default =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
            .into_iter()
            .any(|annotation| annotations.key(annotation).text() == "true");
    let default = if default { " (default)" } else { "" };
    vec![
        format!("{}{default}", object.at("metadata.name").text()).into(),
        object.at("provisioner").text().into(),
        object.at("reclaimPolicy").maybe_text().unwrap_or("Delete").into(),
        object.at("volumeBindingMode").maybe_text().unwrap_or("Immediate").into(),
        object.at("allowVolumeExpansion").truth().into(),
        object_age(object, now),
    ]
}

fn csi_driver(object: Field<'_>, now: Moment) -> Vec<Cell> {
    let spec = object.at("spec");
    let tokens = spec.at("tokenRequests");
    let tokens = if tokens.is_set() {
        tokens.items().map(|token| token.at("audience").text()).collect::<Vec<_>>().join(",")
    } else {
        "<unset>".to_owned()
    };
    let modes: Vec<&str> = spec.at("volumeLifecycleModes").texts().collect();
    vec![
        name(object),
        spec.at("attachRequired").maybe_truth().unwrap_or(true).into(),
        spec.at("podInfoOnMount").truth().into(),
        spec.at("storageCapacity").truth().into(),
        tokens.into(),
        spec.at("requiresRepublish").truth().into(),
        if modes.is_empty() { "Persistent".to_owned() } else { modes.join(",") }.into(),
        object_age(object, now),
    ]
}

fn storage(amounts: Field<'_>) -> String {
    amounts.at("storage").amount().unwrap_or_else(|| "0".to_owned())
}

/// The short forms of the modes, in an order of their own.
fn access_modes(modes: Field<'_>) -> String {
    let given: Vec<&str> = modes.texts().collect();
    let shown: Vec<&str> = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(long, _)| given.contains(long))
    .map(|(_, short)| short)
    .collect();
    shown.join(",")
}

fn phase(object: Field<'_>) -> &str {
    if object.at("metadata.deletionTimestamp").is_set() {
        return "Terminating";
    }
    object.at("status.phase").text_or("Pending")
}

/// The annotation from before there was a field still comes first.
fn class(object: Field<'_>) -> &str {
    let annotation = object.at("metadata.annotations").key("volume.beta.kubernetes.io/storage-class");
    annotation.maybe_text().unwrap_or(object.at("spec.storageClassName").text())
}

fn attributes_class(spec: Field<'_>) -> &str {
    spec.at("volumeAttributesClassName").maybe_text().unwrap_or("<unset>")
}

fn volume_mode(spec: Field<'_>) -> &str {
    spec.at("volumeMode").maybe_text().unwrap_or("Filesystem")
}
