//! Defaults of Services, their endpoints and the kinds of `networking.k8s.io`.

use kubernetes::fields::{Fields, default_to, entries_mut, fields_mut, is_missing, text};
use serde_json::{Value, json};

pub(super) fn service(service: &mut Fields) {
    let Some(spec) = fields_mut(service, "spec") else { return };
    default_to(spec, "sessionAffinity", "None");
    default_to(spec, "type", "ClusterIP");
    default_session_affinity(spec);
    for port in entries_mut(spec, "ports") {
        default_to(port, "protocol", "TCP");
        if port.get("targetPort").is_none_or(|target| *target == 0 || *target == "")
            && let Some(own) = port.get("port").cloned()
        {
            port.insert("targetPort".to_owned(), own);
        }
    }
    let kind = text(spec, "type").to_owned();
    let is_external = matches!(&*kind, "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !is_missing(spec, "externalIPs"));
    if is_external {
        default_to(spec, "externalTrafficPolicy", "Cluster");
    }
    match &*kind {
        "ClusterIP" | "NodePort" | "LoadBalancer" => default_to(spec, "internalTrafficPolicy", "Cluster"),
        "ExternalName" => _ = spec.remove("internalTrafficPolicy"),
        _ => {}
    }
    if kind == "LoadBalancer" {
        default_to(spec, "allocateLoadBalancerNodePorts", true);
        let balancer = service.get_mut("status").and_then(|status| status.get_mut("loadBalancer"));
        if let Some(balancer) = balancer.and_then(Value::as_object_mut) {
            for ingress in entries_mut(balancer, "ingress").filter(|ingress| !is_missing(ingress, "ip")) {
                default_to(ingress, "ipMode", "VIP");
            }
        }
    }
}

/// The protocol of a port.
pub(super) fn protocol(port: &mut Fields) {
    default_to(port, "protocol", "TCP");
}

pub(super) fn endpoint_slice_port(port: &mut Fields) {
    default_to(port, "name", "");
    default_to(port, "protocol", "TCP");
}

pub(super) fn network_policy(policy: &mut Fields) {
    let Some(spec) = fields_mut(policy, "spec") else { return };
    let types = if is_missing(spec, "egress") { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
    default_to(spec, "policyTypes", types);
}

pub(super) fn ingress_class_parameters(parameters: &mut Fields) {
    default_to(parameters, "scope", "Cluster");
}

fn default_session_affinity(spec: &mut Fields) {
    match text(spec, "sessionAffinity") {
        "None" => _ = spec.remove("sessionAffinityConfig"),
        "ClientIP" => {
            let timeout = spec.get("sessionAffinityConfig");
            if timeout.and_then(|config| config.pointer("/clientIP/timeoutSeconds")).is_none() {
                let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
}
