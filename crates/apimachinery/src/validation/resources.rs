//! Checks of resource names, quantities and of the requests and limits made of them.

use std::collections::{BTreeMap, BTreeSet};

use kubernetes::quantity::Quantity;
use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::json_fields::{entries, get, list, quantity, text};
use crate::names::{label_1123, qualified_name};

const HUGE_PAGES: &str = "hugepages-";
const CONTAINER_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Counted objects.
const INTEGER_RESOURCES: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
/// Resources of quotas beside the counted objects.
const QUOTA_RESOURCES: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Which resource names a list may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceScope {
    /// Requests and limits of a container, overhead, and limits per pod and container.
    Container,
    /// Requests and limits of a whole pod.
    Pod,
    /// Quotas.
    Quota,
    /// Any standard or qualified name.
    Any,
}

/// Checks the name of a resource.
pub(super) fn check_resource_name(
    errors: &mut FieldErrors,
    name: &str,
    path: FieldPath<'_>,
    scope: ResourceScope,
) {
    let before = errors.len();
    check_standard_name(errors, name, path);
    let is_valid = errors.len() == before;
    match scope {
        ResourceScope::Any => {}
        ResourceScope::Container if !name.contains('/') => {
            if !CONTAINER_RESOURCES.contains(&name) && !name.starts_with(HUGE_PAGES) {
                errors.invalid(path, name, "must be a standard resource for containers");
            }
        }
        ResourceScope::Container => {
            if !is_native(name) && !is_extended(name) {
                errors.invalid(path, name, "doesn't follow extended resource name standard");
            }
        }
        ResourceScope::Pod => {
            if is_valid && !["cpu", "memory"].contains(&name) && !name.starts_with(HUGE_PAGES) {
                errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
            }
        }
        ResourceScope::Quota => {
            if !name.contains('/') && !is_quota_resource(name) {
                errors.invalid(path, name, "must be a standard resource for quota");
            }
        }
    }
}

fn check_standard_name(errors: &mut FieldErrors, name: &str, path: FieldPath<'_>) {
    let messages = qualified_name(name);
    if messages.is_empty() && !name.contains('/') && name != "storage" && !is_quota_resource(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    errors.invalid_all(path, name, messages);
}

/// Checks that a quantity is not negative, and whole if it counts something.
pub(super) fn check_quantity(errors: &mut FieldErrors, name: &str, value: &Value, path: FieldPath<'_>) {
    let Some(amount) = quantity(value) else { return bad_quantity(errors, value, path) };
    if amount.sign() < 0 {
        errors.invalid(path, amount.to_string(), "must be greater than or equal to 0");
    }
    if (INTEGER_RESOURCES.contains(&name) || is_extended(name)) && amount.milli_value() % 1000 != 0 {
        errors.invalid(path, amount.to_string(), "must be an integer");
    }
}

/// Checks that a quantity is greater than zero.
pub(super) fn check_positive(errors: &mut FieldErrors, value: &Value, path: FieldPath<'_>) {
    match quantity(value) {
        Some(amount) if amount.sign() > 0 => {}
        Some(amount) => errors.invalid(path, amount.to_string(), "must be greater than zero"),
        None => bad_quantity(errors, value, path),
    }
}

/// An API server rejects such a text before any other check.
fn bad_quantity(errors: &mut FieldErrors, value: &Value, path: FieldPath<'_>) {
    let detail = "quantities must match the regular expression \
                  '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    errors.invalid(path, value, detail);
}

/// Checks the limits, requests and claims of a container or pod. `claims` are the names of the pod's claims.
pub(super) fn check_requirements(
    errors: &mut FieldErrors,
    requirements: &Value,
    path: FieldPath<'_>,
    scope: ResourceScope,
    claims: &BTreeSet<&str>,
) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    for (name, value) in entries(requirements, "limits") {
        check_amount(errors, name, value, limits_path.key(name), scope);
    }
    for (name, value) in entries(requirements, "requests") {
        check_name_and_quantity(errors, name, value, requests_path.key(name), scope);
        let request = quantity(value).unwrap_or_default();
        let limit = get(&requirements["limits"], name).map(|limit| quantity(limit).unwrap_or_default());
        match limit {
            Some(limit) if request != limit && !may_overcommit(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.invalid(requests_path, request.to_string(), detail);
            }
            Some(limit) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(requests_path, request.to_string(), detail);
            }
            None if !may_overcommit(name) => {
                errors.required(limits_path, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
        check_huge_pages(errors, name, value, requests_path.key(name));
    }
    let names =
        || entries(requirements, "limits").chain(entries(requirements, "requests")).map(|(name, _)| name);
    if names().any(|name| name.starts_with(HUGE_PAGES))
        && !names().any(|name| name == "cpu" || name == "memory")
    {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    check_claim_names(errors, requirements, path.child("claims"), claims);
}

/// Checks a map of resources that cannot be requested: overhead.
pub(super) fn check_overhead(errors: &mut FieldErrors, overhead: &Value, path: FieldPath<'_>) {
    let requirements = serde_json::json!({"limits": overhead});
    check_requirements(errors, &requirements, path, ResourceScope::Container, &BTreeSet::new());
}

fn check_amount(
    errors: &mut FieldErrors,
    name: &str,
    value: &Value,
    path: FieldPath<'_>,
    scope: ResourceScope,
) {
    check_name_and_quantity(errors, name, value, path, scope);
    check_huge_pages(errors, name, value, path);
}

/// Checks an entry of a map of resources.
pub(super) fn check_name_and_quantity(
    errors: &mut FieldErrors,
    name: &str,
    value: &Value,
    path: FieldPath<'_>,
    scope: ResourceScope,
) {
    check_resource_name(errors, name, path, scope);
    check_quantity(errors, name, value, path);
}

fn check_huge_pages(errors: &mut FieldErrors, name: &str, value: &Value, path: FieldPath<'_>) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else { return };
    let amount = quantity(value).unwrap_or_default();
    let is_divisible = Quantity::parse(size).is_ok_and(|size| {
        size.sign() > 0
            && size.milli_value() % 1000 == 0
            && amount.value().checked_rem(size.value()) == Some(0)
    });
    if !is_divisible {
        let detail = format!("{amount} is not positive integer multiple of {name}");
        errors.invalid(path, amount.to_string(), detail);
    }
}

fn check_claim_names(
    errors: &mut FieldErrors,
    requirements: &Value,
    path: FieldPath<'_>,
    claims: &BTreeSet<&str>,
) {
    let mut names: BTreeSet<String> = BTreeSet::new();
    // How many requests of each claim have been named.
    let mut request_counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, claim) in list(requirements, "claims").iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required(path, "");
            continue;
        }
        if names.contains(name) {
            errors.duplicate(path, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                errors.invalid_all(path.child("request"), request, label_1123(request));
                key = format!("{name}/{request}");
            }
            if names.contains(&key) {
                errors.duplicate(path, &key);
            } else if request.is_empty() {
                for _ in 0..request_counts.get(name).copied().unwrap_or_default() {
                    errors.duplicate(path, name);
                }
            }
            if names.insert(key) && !request.is_empty() {
                *request_counts.entry(name).or_default() += 1;
            }
        }
        if !claims.contains(name) {
            if errors.is_full() {
                return;
            }
            let known: Vec<&str> = claims.iter().copied().collect();
            let known = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{known}");
            errors.not_found(path, name, detail);
        }
    }
}

/// Whether quotas know this resource without a domain.
pub(super) fn is_quota_resource(name: &str) -> bool {
    QUOTA_RESOURCES.contains(&name)
        || INTEGER_RESOURCES.contains(&name)
        || name.starts_with(HUGE_PAGES)
        || name.starts_with("requests.hugepages-")
}

/// Whether nodes may promise more of a resource than they have.
pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// Whether it is a resource of Kubernetes itself.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether it is a resource that device plugins and drivers define.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}
