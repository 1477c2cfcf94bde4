//! Discovery documents: which groups, versions and resources a server has.

use serde_json::{Value, json};

use crate::resource::{Resource, ResourceTable, group_version};

/// The verbs of a read-only server.
const VERBS: [&str; 3] = ["get", "list", "watch"];

/// `GET /api`
pub(crate) fn api_versions(table: &ResourceTable) -> Value {
    json!({"kind": "APIVersions", "versions": table.versions(""), "serverAddressByClientCIDRs": []})
}

/// `GET /apis`
pub(crate) fn api_group_list(table: &ResourceTable) -> Value {
    let groups: Vec<Value> = named_groups(table).filter_map(|group| api_group(table, group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/GROUP`; `None` if there is no such group.
pub(crate) fn api_group(table: &ResourceTable, group: &str) -> Option<Value> {
    let version = |version: &&str| json!({"groupVersion": group_version(group, version), "version": version});
    let versions: Vec<Value> = table.versions(group).iter().map(version).collect();
    let preferred = versions.first()?.clone();
    Some(json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions, "preferredVersion": preferred,
    }))
}

/// `GET /api/VERSION` and `GET /apis/GROUP/VERSION`; `None` if there is no such version.
pub(crate) fn api_resource_list(table: &ResourceTable, group: &str, version: &str) -> Option<Value> {
    let resources: Vec<Value> = table.in_version(group, version).map(api_resource).collect();
    if resources.is_empty() {
        return None;
    }
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version(group, version),
        "resources": resources,
    }))
}

/// `GET /api` in the aggregated form.
pub(crate) fn aggregated_core(table: &ResourceTable) -> Value {
    group_discovery_list(vec![group_discovery(table, "")])
}

/// `GET /apis` in the aggregated form.
pub(crate) fn aggregated_groups(table: &ResourceTable) -> Value {
    group_discovery_list(named_groups(table).map(|group| group_discovery(table, group)).collect())
}

/// All groups but the core group, which has a path of its own.
fn named_groups(table: &ResourceTable) -> impl Iterator<Item = &str> {
    table.groups().into_iter().filter(|group| !group.is_empty())
}

fn api_resource(resource: &Resource) -> Value {
    let mut document = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": *resource.kind.kind, "verbs": VERBS,
    });
    add_names(&mut document, resource);
    document
}

fn group_discovery_list(groups: Vec<Value>) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups})
}

fn group_discovery(table: &ResourceTable, group: &str) -> Value {
    let versions: Vec<Value> = table
        .versions(group)
        .into_iter()
        .map(|version| {
            let resources: Vec<Value> = table.in_version(group, version).map(resource_discovery).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn resource_discovery(resource: &Resource) -> Value {
    let kind = &resource.kind;
    let mut document = json!({
        "resource": resource.plural, "singularResource": resource.singular,
        "responseKind": {"group": *kind.group, "version": resource.version, "kind": *kind.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" }, "verbs": VERBS,
    });
    add_names(&mut document, resource);
    document
}

fn add_names(document: &mut Value, resource: &Resource) {
    for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            document[field] = names.as_slice().into();
        }
    }
}
