//! Checks of Services. Allocated addresses and ports may be absent, since an API server allocates them before
//! it validates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::containers::check_protocol;
use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::ip_address::{check_cidr, check_endpoint_ip, check_ip, is_ipv6};
use super::json_fields::{annotation, get, integer, list, optional_integer, optional_text, set, text, texts};
use super::metadata::{check_metadata, check_metadata_update};
use super::probes::check_port;
use super::selectors::check_labels;
use crate::names::{NameRule, label_1123, port_number, qualified_name, subdomain_1123};

const MAX_AFFINITY_SECONDS: i64 = 86_400;
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const NOT_CHANGED: &str = "may not change once set";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Checks a new Service.
pub(super) fn check_service(errors: &mut FieldErrors, service: &Value, namespaced: bool) {
    // An API server checks addresses before it allocates them, and the rest only if they are right.
    let spec = &service["spec"];
    if text(spec, "type") != "ExternalName" {
        check_cluster_ips(errors, None, spec, FieldPath::SPEC);
    }
    if !errors.is_empty() {
        return;
    }
    check_metadata(errors, service, namespaced, NameRule::Label);
    check_service_version(errors, None, service);
}

/// Checks the update of a Service.
pub(super) fn check_service_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    let mut new = new.clone();
    if let Some(spec) = new.get_mut("spec").filter(|spec| spec.is_object()) {
        keep_allocated_values(&old["spec"], spec);
        drop_unused_values(&old["spec"], spec);
    }
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    let is_external_name = |spec: &Value| text(spec, "type") == "ExternalName";
    if !is_external_name(old_spec) && !is_external_name(new_spec) {
        check_cluster_ips_update(errors, old_spec, new_spec);
        check_families_update(errors, old_spec, new_spec);
    }
    let is_balanced = |spec: &Value| text(spec, "type") == "LoadBalancer";
    let class = FieldPath::SPEC.child("loadBalancerClass");
    if is_balanced(old_spec)
        && is_balanced(new_spec)
        && get(old_spec, "loadBalancerClass") != get(new_spec, "loadBalancerClass")
    {
        errors.invalid(class, &new_spec["loadBalancerClass"], NOT_CHANGED);
    }
    check_load_balancer_class(errors, new_spec);
    let port = optional_integer(new_spec, "healthCheckNodePort");
    if needs_health_check(old_spec)
        && needs_health_check(new_spec)
        && port.is_some_and(|port| port != integer(old_spec, "healthCheckNodePort"))
    {
        errors.forbidden(FieldPath::SPEC.child("healthCheckNodePort"), "field is immutable");
    }
    check_service_version(errors, Some(old), &new);
}

/// Restores addresses that the new version omits, as an API server does before it validates.
fn keep_allocated_values(old: &Value, new: &mut Value) {
    if [old, new].iter().any(|spec| text(spec, "type") == "ExternalName") {
        return;
    }
    if text(new, "clusterIP").is_empty() {
        set(new, "clusterIP", old["clusterIP"].clone());
    }
    if list(new, "clusterIPs").is_empty() && text(new, "clusterIP") == text(old, "clusterIP") {
        set(new, "clusterIPs", old["clusterIPs"].clone());
    }
}

/// Removes values that the new type of the service does not use and that have not been changed, as an API
/// server does before it validates.
fn drop_unused_values(old: &Value, new: &mut Value) {
    let is_type = |spec: &Value, service_type: &str| text(spec, "type") == service_type;
    let has_node_ports = |spec: &Value| is_type(spec, "NodePort") || is_type(spec, "LoadBalancer");
    let mut unused: Vec<&str> = Vec::new();
    if !is_type(old, "ExternalName") && is_type(new, "ExternalName") {
        if ["clusterIP", "clusterIPs"].iter().all(|name| get(old, name) == get(new, name)) {
            unused.extend(["clusterIP", "clusterIPs"]);
        }
        unused.extend(["ipFamilies", "ipFamilyPolicy"]);
    }
    if needs_health_check(old) && !needs_health_check(new) {
        unused.push("healthCheckNodePort");
    }
    if is_type(old, "LoadBalancer") && !is_type(new, "LoadBalancer") {
        unused.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if is_external(old) && !is_external(new) {
        unused.push("externalTrafficPolicy");
    }
    let node_ports = |spec: &Value| -> BTreeSet<i64> {
        list(spec, "ports").iter().map(|port| integer(port, "nodePort")).filter(|port| *port != 0).collect()
    };
    if has_node_ports(old) && !has_node_ports(new) && node_ports(old).is_superset(&node_ports(new)) {
        for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    for name in unused {
        if get(old, name) == get(new, name) {
            new.as_object_mut().map(|spec| spec.remove(name));
        }
    }
}

/// The addresses of a service in the cluster; the first is also in a field of its own.
fn cluster_ips(spec: &Value) -> Vec<&str> {
    let all: Vec<&str> = texts(spec, "clusterIPs").collect();
    let first = text(spec, "clusterIP");
    if all.is_empty() && !first.is_empty() { vec![first] } else { all }
}

fn is_headless(spec: &Value) -> bool {
    cluster_ips(spec) == ["None"]
}

fn check_service_version(errors: &mut FieldErrors, old: Option<&Value>, service: &Value) {
    let (spec, path) = (&service["spec"], FieldPath::SPEC);
    if let (Some(hints), Some(mode)) =
        (annotation(service, TOPOLOGY_HINTS), annotation(service, TOPOLOGY_MODE))
        && hints != mode
    {
        let path = FieldPath::METADATA.child("annotations");
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.invalid(path.key(TOPOLOGY_MODE), mode, detail);
    }
    let service_type = text(spec, "type");
    let ports = list(spec, "ports");
    let ports_path = path.child("ports");
    if ports.is_empty() && !is_headless(spec) && service_type != "ExternalName" {
        errors.required(ports_path, "");
    }
    check_type(errors, spec, path);
    check_ports(errors, ports, ports_path);
    check_labels(errors, spec, "selector", path.child("selector"));
    check_session_affinity(errors, spec, path);
    if service_type != "ExternalName" {
        check_cluster_ips(errors, old, spec, path);
    }
    check_external_ips(errors, old, spec);
    match service_type {
        "" => errors.required(path.child("type"), ""),
        "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName" => {}
        other => {
            let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
            errors.not_supported(path.child("type"), other, &known);
        }
    }
    check_node_ports(errors, spec, ports_path);
    check_source_ranges(errors, spec);
    if get(spec, "allocateLoadBalancerNodePorts").is_some() && service_type != "LoadBalancer" {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.forbidden(path.child("allocateLoadBalancerNodePorts"), detail);
    }
    if get(spec, "allocateLoadBalancerNodePorts").is_none() && service_type == "LoadBalancer" {
        errors.required(FieldPath::new("allocateLoadBalancerNodePorts"), "");
    }
    check_load_balancer_class(errors, spec);
    check_traffic_policies(errors, spec, path);
}

fn check_type(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    match text(spec, "type") {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(spec) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.invalid(path.child("clusterIPs").index(0), "None", detail);
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let is_set = !list(spec, name).is_empty() || !text(spec, name).is_empty();
                if is_set {
                    errors.forbidden(path.child(name), "may not be set for ExternalName services");
                }
            }
            let name = text(spec, "externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.required(path.child("externalName"), ""),
                name => errors.invalid_all(path.child("externalName"), name, subdomain_1123(name)),
            }
        }
        _ => {}
    }
}

fn check_ports(errors: &mut FieldErrors, ports: &[Value], path: FieldPath<'_>) {
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.required(path.child("name"), "");
            }
        } else {
            errors.invalid_all(path.child("name"), name, label_1123(name));
            if !names.insert(name) {
                errors.duplicate(path.child("name"), name);
            }
        }
        let number = integer(port, "port");
        for message in port_number(number) {
            errors.invalid(path.child("port"), number, message);
        }
        check_protocol(errors, port, path);
        check_port(errors, &port["targetPort"], path.child("targetPort"));
        if let Some(protocol) = optional_text(port, "appProtocol") {
            errors.invalid_all(path.child("appProtocol"), protocol, qualified_name(protocol));
        }
    }
}

fn check_session_affinity(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    const WHEN: &str = "when session affinity type is ClientIP";
    let config_path = path.child("sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "" => errors.required(path.child("sessionAffinity"), ""),
        "ClientIP" => {
            let Some(config) = get(spec, "sessionAffinityConfig") else {
                return errors.required(config_path, WHEN);
            };
            let client_path = config_path.child("clientIP");
            let Some(client) = get(config, "clientIP") else { return errors.required(client_path, WHEN) };
            let path = client_path.child("timeoutSeconds");
            match optional_integer(client, "timeoutSeconds") {
                None => errors.required(path, WHEN),
                Some(1..=MAX_AFFINITY_SECONDS) => {}
                Some(seconds) => {
                    let detail = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                    errors.invalid(path, seconds, detail);
                }
            }
        }
        // An API server removes the configuration of no affinity.
        "None" => {}
        other => errors.not_supported(path.child("sessionAffinity"), other, &["ClientIP", "None"]),
    }
}

fn check_cluster_ips(errors: &mut FieldErrors, old: Option<&Value>, spec: &Value, path: FieldPath<'_>) {
    let ips_path = path.child("clusterIPs");
    let ips = cluster_ips(spec);
    let printed = json!(ips);
    let first = text(spec, "clusterIP");
    if first.is_empty() && !ips.is_empty() {
        errors.invalid(ips_path, &printed, "must be empty when `clusterIP` is not specified");
    } else if !first.is_empty() && ips[0] != first {
        errors.invalid(ips_path, &printed, "first value must match `clusterIP`");
    }
    let families: Vec<&str> = texts(spec, "ipFamilies").collect();
    let families_path = path.child("ipFamilies");
    let mut seen = BTreeSet::new();
    for (index, family) in families.iter().enumerate() {
        if !FAMILIES.contains(family) {
            errors.not_supported(families_path.index(index), *family, &FAMILIES);
        }
        if !seen.insert(family) {
            errors.duplicate(families_path.index(index), *family);
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if let Some(policy) = optional_text(spec, "ipFamilyPolicy").filter(|policy| !policies.contains(policy)) {
        errors.not_supported(path.child("ipFamilyPolicy"), policy, &policies);
    }
    let before = errors.len();
    let old_ips: BTreeSet<&str> = old.into_iter().flat_map(|old| cluster_ips(&old["spec"])).collect();
    for (index, ip) in ips.iter().enumerate() {
        if index == 0 && *ip == "None" {
            if ips.len() > 1 {
                errors.invalid(ips_path, &printed, "'None' must be the first and only value");
            }
        } else if !old_ips.contains(ip) {
            check_ip(errors, ip, ips_path.index(index));
        }
    }
    let has_invalid = errors.len() > before;
    if ips.len() > 2 {
        errors.invalid(ips_path, &printed, "may only hold up to 2 values");
    }
    if has_invalid {
        return;
    }
    let versions: BTreeSet<Option<bool>> = ips.iter().map(|ip| is_ipv6(ip)).collect();
    if ips.len() > 1 && versions.len() < 2 {
        errors.invalid(ips_path, &printed, "may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for (index, (ip, family)) in ips.iter().zip(families).enumerate() {
        let is_expected = is_ipv6(ip).is_none_or(|is_ipv6| is_ipv6 == (family == "IPv6"));
        if !is_expected && FAMILIES.contains(&family) {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(ips_path.index(index), *ip, detail);
        }
    }
}

fn check_external_ips(errors: &mut FieldErrors, old: Option<&Value>, spec: &Value) {
    let path = FieldPath::SPEC.child("externalIPs");
    let old_ips: BTreeSet<&str> =
        old.into_iter().flat_map(|old| texts(&old["spec"], "externalIPs")).collect();
    for (index, ip) in texts(spec, "externalIPs").enumerate() {
        let path = path.index(index);
        let before = errors.len();
        if !old_ips.contains(ip) {
            check_ip(errors, ip, path);
        }
        if errors.len() == before {
            check_endpoint_ip(errors, ip, path);
        }
    }
}

fn check_node_ports(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let ports = list(spec, "ports");
    let node_ports = || ports.iter().enumerate().filter(|(_, port)| integer(port, "nodePort") != 0);
    if text(spec, "type") == "ClusterIP" {
        for (index, _) in node_ports() {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(path.index(index).child("nodePort"), detail);
        }
    }
    let mut used = BTreeSet::new();
    for (index, port) in node_ports() {
        let number = integer(port, "nodePort");
        if !used.insert((text(port, "protocol"), number)) {
            errors.duplicate(path.index(index).child("nodePort"), number);
        }
    }
    let mut used = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (protocol, number) = (text(port, "protocol"), integer(port, "port"));
        if !used.insert((protocol, number)) {
            let key = json!({"protocol": protocol, "port": number});
            errors.duplicate(path.index(index), PrintedValue::Go("core.ServicePort", &key));
        }
    }
}

fn check_source_ranges(errors: &mut FieldErrors, spec: &Value) {
    let path = FieldPath::SPEC.child("LoadBalancerSourceRanges");
    let ranges = list(spec, "loadBalancerSourceRanges");
    if !ranges.is_empty() && text(spec, "type") != "LoadBalancer" {
        errors.forbidden(path, "may only be used when `type` is 'LoadBalancer'");
    }
    for (index, range) in texts(spec, "loadBalancerSourceRanges").enumerate() {
        check_cidr(errors, range.trim(), path.index(index));
    }
}

fn check_load_balancer_class(errors: &mut FieldErrors, spec: &Value) {
    let path = FieldPath::SPEC.child("loadBalancerClass");
    let Some(class) = optional_text(spec, "loadBalancerClass") else { return };
    if text(spec, "type") == "LoadBalancer" {
        errors.invalid_all(path, class, qualified_name(class));
    } else {
        errors.forbidden(path, "may only be used when `type` is 'LoadBalancer'");
    }
}

fn needs_health_check(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

/// Whether a service can be reached from outside the cluster.
fn is_external(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !list(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

fn check_traffic_policies(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let service_type = text(spec, "type");
    let (policy, policies) = (text(spec, "externalTrafficPolicy"), ["Cluster", "Local"]);
    let policy_path = path.child("externalTrafficPolicy");
    if !is_external(spec) {
        if !policy.is_empty() {
            errors.invalid(policy_path, policy, "may only be set for externally-accessible services");
        }
    } else if policy.is_empty() {
        errors.required(policy_path, "");
    } else if !policies.contains(&policy) {
        errors.not_supported(policy_path, policy, &policies);
    }
    let port = integer(spec, "healthCheckNodePort");
    let port_path = path.child("healthCheckNodePort");
    if port != 0 && !needs_health_check(spec) {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(port_path, port, detail);
    } else if port != 0 {
        for message in port_number(port) {
            errors.invalid(port_path, port, message);
        }
    }
    let internal_path = path.child("internalTrafficPolicy");
    match optional_text(spec, "internalTrafficPolicy") {
        None if matches!(service_type, "NodePort" | "LoadBalancer" | "ClusterIP") => {
            errors.required(internal_path, "");
        }
        Some(policy) if !policies.contains(&policy) => {
            errors.not_supported(internal_path, policy, &policies);
        }
        _ => {}
    }
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let distribution = optional_text(spec, "trafficDistribution");
    if let Some(distribution) = distribution.filter(|it| !distributions.contains(it)) {
        errors.not_supported(path.child("trafficDistribution"), distribution, &distributions);
    }
}

fn check_cluster_ips_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    if is_headless(old) && is_headless(new) {
        return;
    }
    let path = FieldPath::SPEC.child("clusterIPs");
    let (old_ips, new_ips) = (cluster_ips(old), cluster_ips(new));
    let printed = if new_ips.is_empty() { Value::Null } else { json!(new_ips) };
    if old_ips.len() == new_ips.len() {
        for (index, _) in old_ips.iter().zip(&new_ips).enumerate().filter(|(_, (old, new))| old != new) {
            errors.invalid(path.index(index), &printed, NOT_CHANGED);
        }
        return;
    }
    if new_ips.is_empty() {
        errors.invalid(path.index(0), &printed, "primary clusterIP can not be unset");
    }
    if let (Some(old), Some(new)) = (old_ips.first(), new_ips.first())
        && old != new
    {
        errors.invalid(path.index(0), &printed, NOT_CHANGED);
    }
    if old_ips.len() > 1 && new_ips.len() == 1 {
        check_single_stack(errors, new, "clusterIP");
    }
}

fn check_families_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    if is_headless(old) || is_headless(new) {
        return;
    }
    let path = FieldPath::SPEC.child("ipFamilies");
    let families = |spec| texts(spec, "ipFamilies").map(str::to_owned).collect::<Vec<String>>();
    let (old_families, new_families) = (families(old), families(new));
    if old_families.len() == new_families.len() {
        for _ in old_families.iter().zip(&new_families).filter(|(old, new)| old != new) {
            errors.invalid(path.index(0), &new["ipFamilies"], NOT_CHANGED);
        }
        return;
    }
    let is_shorter = old_families.len() > new_families.len();
    if is_shorter && cluster_ips(new).is_empty() {
        errors.invalid(path.index(0), &new["ipFamilies"], "primary ipFamily can not be unset");
    }
    if let (Some(old), Some(first)) = (old_families.first(), new_families.first())
        && old != first
    {
        errors.invalid(path.index(0), &json!(cluster_ips(new)), NOT_CHANGED);
    }
    if is_shorter && new_families.len() == 1 {
        check_single_stack(errors, new, "ipFamily");
    }
}

fn check_single_stack(errors: &mut FieldErrors, spec: &Value, released: &str) {
    if text(spec, "ipFamilyPolicy") != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {released}");
        errors.invalid(FieldPath::SPEC.child("ipFamilyPolicy"), &spec["ipFamilyPolicy"], detail);
    }
}
