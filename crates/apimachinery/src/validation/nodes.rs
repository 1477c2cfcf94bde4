//! Checks of Nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::ip_address::{check_cidr, is_ipv6_cidr};
use super::json_fields::{entries, list, text, texts};
use super::metadata::{check_metadata, check_metadata_update};
use super::resources::check_quantity;
use super::scheduling::check_taint_effect;
use crate::names::{NameRule, label_value, qualified_name};

/// Checks a new Node.
pub(super) fn check_node(errors: &mut FieldErrors, node: &Value, namespaced: bool) {
    check_node_version(errors, node, &node["status"], namespaced);
}

/// Checks the update of a Node. Its status is that of the old version.
pub(super) fn check_node_update(errors: &mut FieldErrors, old: &Value, new: &Value, namespaced: bool) {
    let (old_spec, new_spec, status) = (&old["spec"], &new["spec"], &old["status"]);
    check_node_version(errors, new, status, namespaced);
    check_metadata_update(errors, old, new);
    check_amounts(errors, status);
    let addresses = list(status, "addresses");
    let status_path = FieldPath::new("status");
    let path = status_path.child("addresses");
    let mut seen = BTreeSet::new();
    for (index, address) in addresses.iter().enumerate() {
        if !seen.insert(["type", "address"].map(|name| text(address, name))) {
            errors.duplicate(path.index(index), PrintedValue::Go("core.NodeAddress", address));
        }
    }
    let path = FieldPath::SPEC;
    let (old_networks, new_networks) = (pod_networks(old_spec), pod_networks(new_spec));
    if !old_networks.is_empty() {
        let changes = if old_networks.len() == new_networks.len() {
            old_networks.iter().zip(&new_networks).filter(|(old, new)| old != new).count()
        } else {
            1
        };
        for _ in 0..changes {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            errors.forbidden(path.child("podCIDRs"), detail);
        }
    }
    let provider = text(old_spec, "providerID");
    if !provider.is_empty() && provider != text(new_spec, "providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(path.child("providerID"), detail);
    }
    check_taints(errors, new_spec);
}

/// The networks of a node; the first is also in a field of its own, which wins.
fn pod_networks(spec: &Value) -> Vec<&str> {
    let all: Vec<&str> = texts(spec, "podCIDRs").collect();
    let first = text(spec, "podCIDR");
    if !first.is_empty() && all.first() != Some(&first) { vec![first] } else { all }
}

fn check_node_version(errors: &mut FieldErrors, node: &Value, status: &Value, namespaced: bool) {
    check_metadata(errors, node, namespaced, NameRule::Subdomain);
    let spec = &node["spec"];
    check_taints(errors, spec);
    check_amounts(errors, status);
    let networks = pod_networks(spec);
    let path = FieldPath::SPEC.child("podCIDRs");
    for (index, network) in networks.iter().enumerate() {
        check_cidr(errors, network, path.index(index));
    }
    if networks.len() < 2 {
        return;
    }
    let versions: Vec<Option<bool>> = networks.iter().map(|network| is_ipv6_cidr(network)).collect();
    let invalid = versions.iter().position(Option::is_none);
    if let Some(index) = invalid {
        let detail = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> \
             (invalid CIDR address: {})",
            networks[index]
        );
        errors.internal(path, detail);
    }
    let has_both = versions.contains(&Some(false)) && versions.contains(&Some(true));
    if invalid.is_some() || !has_both || networks.len() > 2 {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.invalid(path, &json!(networks), detail);
    }
}

fn check_amounts(errors: &mut FieldErrors, status: &Value) {
    let path = FieldPath::new("status");
    for list in ["capacity", "allocatable"] {
        let path = path.child(list);
        for (name, value) in entries(status, list) {
            check_quantity(errors, name, value, path.child(name));
        }
    }
}

/// Kubernetes reports taints as if they were metadata.
fn check_taints(errors: &mut FieldErrors, spec: &Value) {
    let path = FieldPath::METADATA.child("taints");
    let mut seen = BTreeSet::new();
    for (index, taint) in list(spec, "taints").iter().enumerate() {
        let path = path.index(index);
        let [key, value, effect] = ["key", "value", "effect"].map(|name| text(taint, name));
        errors.invalid_all(path.child("key"), key, qualified_name(key));
        let messages = label_value(value);
        if !messages.is_empty() {
            errors.invalid(path.child("value"), value, messages.join(";"));
        }
        check_taint_effect(errors, effect, path.child("effect"));
        if !seen.insert((effect, key)) {
            let detail = "taints must be unique by key and effect pair";
            errors.duplicate_because(path, PrintedValue::Go("core.Taint", taint), detail);
        }
    }
}
