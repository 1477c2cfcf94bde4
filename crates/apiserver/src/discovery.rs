//! Discovery documents: which groups, versions and resources a server has.

use serde_json::{Value, json};

use crate::component_status;
use crate::resource::{Resource, ResourceTable, group_version};
use crate::reviews::{REVIEWS, Review};
use crate::subresource::{Subresource, subresources_of};

/// The version of all reviews.
pub(crate) const REVIEW_VERSION: &str = "v1";
/// What pods are bound with. The pod is named in the body.
const BINDING: Review = Review::new("", "bindings", "Binding", true);
/// Those of objects that are not stored.
const STATUS_VERBS: &[&str] = &["get", "list"];
const READ_VERBS: &[&str] = &["get", "list", "watch"];
const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Those of custom resources, in their own order.
const CUSTOM_VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

/// `GET /`
pub(crate) fn root_paths(table: &ResourceTable) -> Value {
    let documents = ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version"];
    let state = ["/healthz", "/livez", "/metrics", "/readyz"];
    let mut paths: Vec<String> = documents.into_iter().chain(state).map(str::to_owned).collect();
    paths.extend(versions(table, "").iter().map(|version| format!("/api/{version}")));
    for group in named_groups(table) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions(table, group).iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.sort_unstable();
    json!({"paths": paths})
}

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
    let versions: Vec<Value> = versions(table, group).iter().map(version).collect();
    let preferred = versions.first()?.clone();
    Some(json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions, "preferredVersion": preferred,
    }))
}

/// `GET /api/VERSION` and `GET /apis/GROUP/VERSION`; `None` if there is no such version.
pub(crate) fn api_resource_list(table: &ResourceTable, group: &str, version: &str) -> Option<Value> {
    let in_version = served_in(table, group, version);
    let created = only_created_in(table, group).filter(|_| version == REVIEW_VERSION).map(review_resource);
    let resources: Vec<Value> =
        in_version.iter().flat_map(|resource| api_resources(table, resource)).chain(created).collect();
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
pub(crate) fn named_groups(table: &ResourceTable) -> impl Iterator<Item = &str> {
    let mut groups = table.groups();
    for review in &REVIEWS {
        if !groups.contains(&review.group) {
            groups.push(review.group);
        }
    }
    groups.into_iter().filter(|group| !group.is_empty())
}

/// The versions of a group, the preferred one first.
pub(crate) fn versions<'a>(table: &'a ResourceTable, group: &str) -> Vec<&'a str> {
    let mut versions = table.versions(group);
    if versions.is_empty() && reviews_in(group).next().is_some() {
        versions.push(REVIEW_VERSION);
    }
    versions
}

pub(crate) fn reviews_in(group: &str) -> impl Iterator<Item = &'static Review> {
    REVIEWS.iter().filter(move |review| review.group == group)
}

/// The resources of a group version, with that of ComponentStatuses.
fn served_in(table: &ResourceTable, group: &str, version: &str) -> Vec<Resource> {
    let has_statuses = group.is_empty() && version == "v1" && !table.is_read_only();
    let statuses = component_status::resource().filter(|_| has_statuses);
    table.in_version(group, version).cloned().chain(statuses).collect()
}

/// The kinds of a group that can only be created.
fn only_created_in(table: &ResourceTable, group: &str) -> impl Iterator<Item = &'static Review> {
    let has_bindings = group.is_empty() && !table.is_read_only();
    reviews_in(group).chain(has_bindings.then_some(&BINDING))
}

fn review_resource(review: &Review) -> Value {
    json!({
        "name": review.plural, "singularName": review.kind.to_lowercase(), "namespaced": review.namespaced,
        "kind": review.kind, "verbs": ["create"],
    })
}

fn review_discovery(review: &Review) -> Value {
    json!({
        "resource": review.plural, "singularResource": review.kind.to_lowercase(),
        "responseKind": {"group": review.group, "version": REVIEW_VERSION, "kind": review.kind},
        "scope": if review.namespaced { "Namespaced" } else { "Cluster" }, "verbs": ["create"],
    })
}

/// A resource and its subresources.
fn api_resources(table: &ResourceTable, resource: &Resource) -> Vec<Value> {
    let mut document = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": *resource.kind.kind, "verbs": verbs(table, resource),
    });
    add_names(&mut document, resource);
    let mut documents = vec![document];
    for subresource in writable_subresources(table, resource) {
        let mut document = json!({
            "name": format!("{}/{}", resource.plural, subresource.name), "singularName": "",
            "namespaced": resource.namespaced, "kind": *resource.kind.kind, "verbs": subresource.verbs,
        });
        if let Some((group, version, kind)) = subresource.kind {
            document["kind"] = kind.into();
            document["version"] = version.into();
            if !group.is_empty() {
                document["group"] = group.into();
            }
        }
        documents.push(document);
    }
    documents
}

fn verbs(table: &ResourceTable, resource: &Resource) -> Vec<&'static str> {
    let verbs = match &resource.custom {
        _ if resource.kind.is("", "ComponentStatus") => STATUS_VERBS,
        _ if table.is_read_only() => READ_VERBS,
        Some(_) if resource.is_terminating() => TERMINATING_VERBS,
        Some(_) => CUSTOM_VERBS,
        None => ALL_VERBS,
    };
    let is_served = |verb: &&&str| resource.can_delete_collection() || **verb != "deletecollection";
    verbs.iter().filter(is_served).copied().collect()
}

pub(crate) fn writable_subresources(table: &ResourceTable, resource: &Resource) -> Vec<Subresource> {
    if table.is_read_only() { Vec::new() } else { subresources_of(resource) }
}

fn group_discovery_list(groups: Vec<Value>) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups})
}

fn group_discovery(table: &ResourceTable, group: &str) -> Value {
    let versions: Vec<Value> = versions(table, group)
        .into_iter()
        .map(|version| {
            let in_version = served_in(table, group, version);
            let created = only_created_in(table, group).map(review_discovery);
            let resources: Vec<Value> = in_version
                .iter()
                .map(|resource| resource_discovery(table, resource))
                .chain(created)
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn resource_discovery(table: &ResourceTable, resource: &Resource) -> Value {
    let kind = &resource.kind;
    let mut document = json!({
        "resource": resource.plural, "singularResource": resource.singular,
        "responseKind": {"group": *kind.group, "version": resource.version, "kind": *kind.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" }, "verbs": verbs(table, resource),
    });
    add_names(&mut document, resource);
    let subresource = |subresource: &Subresource| {
        let (group, version, kind) = subresource.kind.unwrap_or((&kind.group, &resource.version, &kind.kind));
        json!({
            "subresource": subresource.name, "verbs": subresource.verbs,
            "responseKind": {"group": group, "version": version, "kind": kind},
        })
    };
    let subresources = writable_subresources(table, resource);
    if !subresources.is_empty() {
        document["subresources"] = subresources.iter().map(subresource).collect();
    }
    document
}

fn add_names(document: &mut Value, resource: &Resource) {
    for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            document[field] = names.as_slice().into();
        }
    }
}
