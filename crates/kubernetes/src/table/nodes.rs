//! Tables of nodes, and of other small cluster-scoped kinds.

use std::collections::BTreeSet;

use model::Moment;

use super::field::JsonField;
use super::{AGE, BuiltInPrinter, Cell, Column, NAME, name, object_age};

pub(super) static NODE: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::text("Status"),
        Column::text("Roles"),
        AGE,
        Column::text("Version"),
        Column::wide("Internal-IP"),
        Column::wide("External-IP"),
        Column::wide("OS-Image"),
        Column::wide("Kernel-Version"),
        Column::wide("Container-Runtime"),
    ],
    cells: node,
};

pub(super) static NAMESPACE: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Status"), AGE],
    cells: |object, now| {
        vec![name(object), object.at("status.phase").text_or("Active").into(), object_age(object, now)]
    },
};

pub(super) static RUNTIME_CLASS: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Handler"), AGE],
    cells: |object, now| vec![name(object), object.at("handler").text().into(), object_age(object, now)],
};

pub(super) static LEASE: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Holder"), AGE],
    cells: |object, now| {
        vec![name(object), object.at("spec.holderIdentity").text().into(), object_age(object, now)]
    },
};

fn node(node: JsonField<'_>, now: Moment) -> Vec<Cell> {
    // If several conditions have the same type, the last counts.
    let mut conditions = node.at("status.conditions").items().rev();
    let ready = conditions.find(|condition| condition.at("type").text() == "Ready");
    let mut status = match ready.map(|condition| condition.at("status").text()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.at("spec.unschedulable").is_true() {
        status += ",SchedulingDisabled";
    }
    let info = node.at("status.nodeInfo");
    let mut kernel = info.at("kernelVersion").text_or("<unknown>").to_owned();
    if !info.at("architecture").text().is_empty() {
        kernel += &format!(" ({})", info.at("architecture").text());
    }
    vec![
        name(node),
        status.into(),
        roles(node).into(),
        object_age(node, now),
        info.at("kubeletVersion").text().into(),
        address(node, "InternalIP").into(),
        address(node, "ExternalIP").into(),
        info.at("osImage").text_or("<unknown>").into(),
        kernel.into(),
        info.at("containerRuntimeVersion").text_or("<unknown>").into(),
    ]
}

/// The roles in labels, sorted: `node-role.kubernetes.io/ROLE` and `kubernetes.io/role=ROLE`.
fn roles(node: JsonField<'_>) -> String {
    let role = |(label, value)| match label {
        "kubernetes.io/role" => Some(value),
        _ => str::strip_prefix(label, "node-role.kubernetes.io/"),
    };
    let labels = node.at("metadata.labels").entries();
    let roles: BTreeSet<&str> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(node: JsonField<'a>, kind: &str) -> &'a str {
    let mut addresses = node.at("status.addresses").items();
    let found = addresses.find(|address| address.at("type").text() == kind);
    found.map_or("<none>", |address| address.at("address").text())
}
