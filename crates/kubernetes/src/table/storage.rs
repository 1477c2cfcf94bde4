//! Tables of volumes, claims, and storage drivers.

use model::Moment;

use super::field::JsonField;
use super::{AGE, BuiltInPrinter, Cell, Column, ColumnType, NAME, name, object_age};

pub(super) static PERSISTENT_VOLUME: BuiltInPrinter = BuiltInPrinter {
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

pub(super) static PERSISTENT_VOLUME_CLAIM: BuiltInPrinter = BuiltInPrinter {
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

pub(super) static STORAGE_CLASS: BuiltInPrinter = BuiltInPrinter {
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

pub(super) static CSI_NODE: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::integer("Drivers"), AGE],
    cells: |object, now| {
        vec![name(object), object.at("spec.drivers").count().into(), object_age(object, now)]
    },
};

pub(super) static CSI_DRIVER: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::boolean("AttachRequired"),
        Column::boolean("PodInfoOnMount"),
        Column::boolean("StorageCapacity"),
        Column::text("TokenRequests"),
        Column::boolean("RequiresRepublish"),
        Column::text("Modes"),
        AGE,
    ],
    cells: csi_driver,
};

pub(super) static CSI_STORAGE_CAPACITY: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("StorageClassName"), Column::text("Capacity")],
    cells: |object, _| {
        let capacity = object.at("capacity").quantity();
        vec![
            name(object),
            object.at("storageClassName").text().into(),
            capacity.unwrap_or_else(|| "<unset>".to_owned()).into(),
        ]
    },
};

pub(super) static VOLUME_ATTACHMENT: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::new("Attacher", ColumnType::Text, "name", 0),
        Column::text("PV"),
        Column::text("Node"),
        Column::boolean("Attached"),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            object.at("spec.attacher").text().into(),
            object.at("spec.source.persistentVolumeName").text().into(),
            object.at("spec.nodeName").text().into(),
            object.at("status.attached").is_true().into(),
            object_age(object, now),
        ]
    },
};

pub(super) static VOLUME_ATTRIBUTES_CLASS: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("DriverName"), AGE],
    cells: |object, now| vec![name(object), object.at("driverName").text().into(), object_age(object, now)],
};

fn persistent_volume(volume: JsonField<'_>, now: Moment) -> Vec<Cell> {
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

fn persistent_volume_claim(claim: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let (spec, status) = (claim.at("spec"), claim.at("status"));
    let volume = spec.at("volumeName").text();
    // Without a volume neither capacity nor access modes are shown.
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

fn storage_class(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
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
        object.at("allowVolumeExpansion").is_true().into(),
        object_age(object, now),
    ]
}

fn csi_driver(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
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
        spec.at("attachRequired").maybe_bool().unwrap_or(true).into(),
        spec.at("podInfoOnMount").is_true().into(),
        spec.at("storageCapacity").is_true().into(),
        tokens.into(),
        spec.at("requiresRepublish").is_true().into(),
        if modes.is_empty() { "Persistent".to_owned() } else { modes.join(",") }.into(),
        object_age(object, now),
    ]
}

fn storage(amounts: JsonField<'_>) -> String {
    amounts.at("storage").quantity().unwrap_or_else(|| "0".to_owned())
}

/// The short forms of the access modes, in kubectl's order.
fn access_modes(modes: JsonField<'_>) -> String {
    let long_modes: Vec<&str> = modes.texts().collect();
    let short_modes: Vec<&str> = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(long, _)| long_modes.contains(long))
    .map(|(_, short)| short)
    .collect();
    short_modes.join(",")
}

fn phase(object: JsonField<'_>) -> &str {
    if object.at("metadata.deletionTimestamp").is_set() {
        return "Terminating";
    }
    object.at("status.phase").text_or("Pending")
}

/// The legacy annotation takes precedence over the field.
fn class(object: JsonField<'_>) -> &str {
    let annotation = object.at("metadata.annotations").key("volume.beta.kubernetes.io/storage-class");
    annotation.maybe_text().unwrap_or(object.at("spec.storageClassName").text())
}

fn attributes_class(spec: JsonField<'_>) -> &str {
    spec.at("volumeAttributesClassName").maybe_text().unwrap_or("<unset>")
}

fn volume_mode(spec: JsonField<'_>) -> &str {
    spec.at("volumeMode").maybe_text().unwrap_or("Filesystem")
}
