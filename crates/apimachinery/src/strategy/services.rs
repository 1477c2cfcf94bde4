//! Cluster IPs, node ports and IP families of Services, apart from their allocation.

use std::collections::{BTreeMap, BTreeSet};

use kubernetes::fields::{Fields, default_to, entries_mut, fields_mut, fields_of, is_missing, text};
use serde_json::{Value, json};

/// Sets the list of cluster IPs and the IP families of a new Service in a cluster with IPv4 only.
pub(super) fn prepare_for_create(service: &mut Fields) {
    let Some(spec) = fields_mut(service, "spec") else { return };
    if let Some(address) = spec.get("clusterIP").cloned() {
        default_to(spec, "clusterIPs", json!([address]));
    }
    set_families(spec, None);
}

/// Keeps allocated values that a client left out, and removes those that the Service's new type does not
/// have.
pub(super) fn prepare_for_update(old: &Value, service: &mut Fields) {
    let old_spec = &old["spec"];
    let Some(spec) = fields_mut(service, "spec") else { return };
    let old_fields = old_spec.as_object().cloned().unwrap_or_default();
    keep_allocated(&old_fields, spec);
    normalize_cluster_ips(&old_fields, spec);
    set_families(spec, Some(&old_fields));
    remove_fields_of_other_types(&old_fields, spec);
    let is_balanced = text(spec, "type") == "LoadBalancer";
    if !is_balanced && let Some(status) = fields_mut(service, "status") {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
}

fn keep_allocated(old: &Fields, spec: &mut Fields) {
    if needs_cluster_ip(old) && needs_cluster_ip(spec) {
        for field in ["clusterIP", "clusterIPs"] {
            if let Some(value) = old.get(field) {
                default_to(spec, field, value.clone());
            }
        }
    }
    if needs_node_port(old) && needs_node_port(spec) {
        let old_node_ports = node_ports(old);
        let used: BTreeSet<i64> =
            node_ports(spec).into_iter().filter(|port| old_node_ports.contains(port)).collect();
        // The last port of a name counts.
        let by_name: BTreeMap<Option<&str>, Option<i64>> =
            ports(old).map(|port| (port["name"].as_str(), port["nodePort"].as_i64())).collect();
        for port in entries_mut(spec, "ports") {
            let number = by_name.get(&port.get("name").and_then(Value::as_str)).copied().flatten();
            if let Some(number) = number.filter(|number| !used.contains(number)) {
                default_to(port, "nodePort", number);
            }
        }
    }
    if needs_health_check_port(old)
        && needs_health_check_port(spec)
        && let Some(port) = old.get("healthCheckNodePort")
    {
        default_to(spec, "healthCheckNodePort", port.clone());
    }
}

/// Brings `clusterIP` and `clusterIPs` into line if the client changed only one of them.
fn normalize_cluster_ips(old: &Fields, spec: &mut Fields) {
    if is_missing(spec, "clusterIPs")
        && old.get("clusterIP") == spec.get("clusterIP")
        && let Some(addresses) = old.get("clusterIPs")
    {
        spec.insert("clusterIPs".to_owned(), addresses.clone());
    }
    if old.get("clusterIP") == spec.get("clusterIP") || old.get("clusterIPs") != spec.get("clusterIPs") {
        return;
    }
    match spec.get("clusterIP").cloned() {
        Some(address) => _ = spec.insert("clusterIPs".to_owned(), json!([address])),
        None => _ = spec.remove("clusterIPs"),
    }
}

fn set_families(spec: &mut Fields, old: Option<&Fields>) {
    if !needs_cluster_ip(spec) {
        return;
    }
    if let Some(old) = old
        && text(spec, "ipFamilyPolicy") == "PreferDualStack"
        && ["type", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]
            .iter()
            .all(|field| old.get(*field) == spec.get(*field))
    {
        return;
    }
    let has_selector = fields_of(spec, "selector").is_some_and(|selector| !selector.is_empty());
    let selects_nothing = text(spec, "clusterIP") == "None" && !has_selector;
    let policy = old.and_then(|old| old.get("ipFamilyPolicy")).cloned();
    let policy =
        policy.unwrap_or_else(|| if selects_nothing { "RequireDualStack" } else { "SingleStack" }.into());
    default_to(spec, "ipFamilyPolicy", policy);
    let is_single = text(spec, "ipFamilyPolicy") == "SingleStack";
    if let Some(old) = old
        && is_single
    {
        let is_same = |spec: &Fields, field: &str| old.get(field) == spec.get(field);
        let same_addresses = is_same(spec, "clusterIP") && is_same(spec, "clusterIPs");
        let same_families = is_same(spec, "ipFamilies");
        for (is_same, field) in [(same_addresses, "clusterIPs"), (same_families, "ipFamilies")] {
            if let Some(Value::Array(entries)) = spec.get_mut(field).filter(|_| is_same) {
                entries.truncate(1);
            }
        }
    }
    let mut families: Vec<Value> =
        spec.get("ipFamilies").and_then(Value::as_array).cloned().unwrap_or_default();
    let addresses = spec.get("clusterIPs").and_then(Value::as_array).into_iter().flatten();
    let addresses = addresses.filter_map(Value::as_str).take_while(|address| *address != "None");
    for address in addresses.skip(families.len()) {
        families.push(if address.contains(':') { "IPv6" } else { "IPv4" }.into());
    }
    if families.is_empty() {
        families.push("IPv4".into());
    }
    // Without a selector, whoever writes the endpoints may use both families in any cluster.
    if selects_nothing && !is_single && families.len() == 1 {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
    }
    spec.insert("ipFamilies".to_owned(), families.into());
}

/// Removes what was set for the former type, unless the client changed it in this update too.
fn remove_fields_of_other_types(old: &Fields, spec: &mut Fields) {
    let is_same = |spec: &Fields, field: &str| old.get(field) == spec.get(field);
    if needs_cluster_ip(old) && !needs_cluster_ip(spec) {
        if is_same(spec, "clusterIP") && is_same(spec, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if is_same(spec, field) {
                spec.remove(field);
            }
        }
    }
    let adds_no_node_port = node_ports(old).is_superset(&node_ports(spec));
    if needs_node_port(old) && !needs_node_port(spec) && adds_no_node_port {
        for port in entries_mut(spec, "ports") {
            port.remove("nodePort");
        }
    }
    for (needs, field) in [
        (needs_health_check_port as fn(&Fields) -> bool, "healthCheckNodePort"),
        (is_load_balancer, "allocateLoadBalancerNodePorts"),
        (is_load_balancer, "loadBalancerClass"),
        (is_external, "externalTrafficPolicy"),
    ] {
        if needs(old) && !needs(spec) && is_same(spec, field) {
            spec.remove(field);
        }
    }
}

fn needs_cluster_ip(spec: &Fields) -> bool {
    text(spec, "type") != "ExternalName"
}

fn needs_node_port(spec: &Fields) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

fn needs_health_check_port(spec: &Fields) -> bool {
    is_load_balancer(spec) && text(spec, "externalTrafficPolicy") == "Local"
}

fn is_load_balancer(spec: &Fields) -> bool {
    text(spec, "type") == "LoadBalancer"
}

fn is_external(spec: &Fields) -> bool {
    needs_node_port(spec) || (text(spec, "type") == "ClusterIP" && !is_missing(spec, "externalIPs"))
}

fn ports(spec: &Fields) -> impl Iterator<Item = &Value> {
    spec.get("ports").and_then(Value::as_array).into_iter().flatten()
}

fn node_ports(spec: &Fields) -> BTreeSet<i64> {
    ports(spec).filter_map(|port| port["nodePort"].as_i64()).collect()
}
