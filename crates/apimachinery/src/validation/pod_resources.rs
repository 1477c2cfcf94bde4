//! Checks of the requests and limits of a whole pod against those of its containers.

use std::collections::{BTreeMap, BTreeSet};

use kubernetes::quantity::Quantity;
use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::json_fields::{entries, get, list, quantity, text};
use super::resources::{ResourceScope, check_requirements};

type ResourceAmounts<'v> = BTreeMap<&'v str, Quantity>;

/// Checks `spec.resources` of a pod.
pub(super) fn check_pod_resources(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let Some(resources) = get(spec, "resources") else { return };
    let path = path.child("resources");
    if text(&spec["os"], "name") == "windows" {
        return errors.forbidden(path, "may not be set for a windows pod");
    }
    if get(resources, "claims").is_some() {
        errors.forbidden(path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    check_requirements(errors, resources, path, ResourceScope::Pod, &BTreeSet::new());
    let requests = path.child("requests");
    for (name, sum) in total(spec, "requests") {
        let Some(own) = get(&resources["requests"], name).and_then(quantity) else { continue };
        if sum > own {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(requests.key(name), own.to_string(), detail);
        }
    }
    let limits = path.child("limits");
    for (name, sum) in total(spec, "limits").into_iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        let Some(own) = get(&resources["limits"], name).and_then(quantity) else { continue };
        if sum > own {
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            errors.invalid(limits.key(name), own.to_string(), detail);
        }
    }
    let containers = path.child("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (name, value) in entries(&container["resources"], "limits") {
            let own = get(&resources["limits"], name).and_then(quantity);
            let Some((own, limit)) = own.zip(quantity(value)) else { continue };
            if limit > own {
                let container_path = containers.index(index);
                let detail = format!("must be less than or equal to pod limits of {own}");
                errors.invalid(container_path.key(name).child("limits"), limit.to_string(), detail);
            }
        }
    }
}

/// The requests or limits of all containers together: the sum of those that run at the same time, at its
/// highest.
fn total<'v>(spec: &'v Value, name: &str) -> ResourceAmounts<'v> {
    let mut sum = ResourceAmounts::new();
    for container in list(spec, "containers") {
        add(&mut sum, &amounts(container, name));
    }
    let (mut sidecars, mut highest) = (ResourceAmounts::new(), ResourceAmounts::new());
    for container in list(spec, "initContainers") {
        let mut own = amounts(container, name);
        if text(container, "restartPolicy") == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut highest, own);
    }
    raise(&mut sum, highest);
    sum
}

fn amounts<'v>(container: &'v Value, name: &str) -> ResourceAmounts<'v> {
    let entries = entries(&container["resources"], name);
    entries.filter_map(|(name, value)| Some((name, quantity(value)?))).collect()
}

fn add<'v>(sum: &mut ResourceAmounts<'v>, more: &ResourceAmounts<'v>) {
    for (name, amount) in more {
        *sum.entry(name).or_default() += amount;
    }
}

fn raise<'v>(highest: &mut ResourceAmounts<'v>, other: ResourceAmounts<'v>) {
    for (name, amount) in other {
        let known = highest.entry(name).or_insert_with(|| amount.clone());
        if amount > *known {
            *known = amount;
        }
    }
}
