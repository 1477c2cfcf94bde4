//! Serialization of node groups in the file's format, the inverse of reading.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::super::settings::GroupOptionOverrides;
use super::super::{Delay, Membership, NodeGroup, PodPricing, ProvisioningFailure, ProvisioningFailureKind};
use super::NodeGroups;

// === impl NodeGroups ===

impl NodeGroups {
    /// The document of a `node-groups.yaml` with these groups, without the autoscaler's settings.
    pub fn document(groups: &[NodeGroup], pricing: Option<PodPricing>, gpu_label: &str) -> Value {
        let mut document = json!({"groups": groups.iter().map(group).collect::<Vec<_>>()});
        if let Some(pricing) = pricing {
            document["pricing"] = json!({"cpu": pricing.cpu, "memory": pricing.memory_gib});
        }
        if !gpu_label.is_empty() {
            document["gpuLabel"] = gpu_label.into();
        }
        document
    }
}

fn group(group: &NodeGroup) -> Value {
    let NodeGroup {
        name,
        min,
        max,
        target,
        members,
        template,
        pods,
        template_pods: believed,
        price,
        options,
        provisioning,
        failures,
    } = group;
    let mut document = json!({
        "name": name,
        "min": min,
        "max": max,
        "members": membership(members),
        "node": template.value().unwrap_or_default(),
        "provisioning": {
            "registersAfter": delay(&provisioning.registers_after),
            "readyAfter": delay(&provisioning.ready_after),
        },
    });
    let mut set_field = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            document[field] = value;
        }
    };
    set_field("target", target.map(Value::from));
    set_field("price", price.map(Value::from));
    set_field("options", options.as_ref().map(self::options));
    for (field, pods) in [("pods", pods), ("templatePods", believed)] {
        let pods: Vec<Value> = pods.iter().filter_map(|pod| pod.value().ok()).collect();
        set_field(field, (!pods.is_empty()).then(|| pods.into()));
    }
    let failures: Vec<Value> = failures.iter().map(failure).collect();
    set_field("failures", (!failures.is_empty()).then(|| failures.into()));
    document
}

fn membership(members: &Membership) -> Value {
    match members {
        Membership::ProviderIdPrefix(prefix) => json!({"providerIdPrefix": prefix}),
        Membership::Label { key, value } => json!({"label": key, "value": value}),
        Membership::Annotation { key, value } => json!({"annotation": key, "value": value}),
        Membership::Named(names) => json!({"names": names}),
    }
}

fn options(options: &GroupOptionOverrides) -> Value {
    let mut document = Map::new();
    let mut set_field = |field: &str, value: Option<Value>| {
        document.extend(value.map(|value| (field.to_owned(), value)));
    };
    set_field("scale-down-utilization-threshold", options.scale_down_utilization_threshold.map(Value::from));
    set_field(
        "scale-down-gpu-utilization-threshold",
        options.scale_down_gpu_utilization_threshold.map(Value::from),
    );
    set_field("scale-down-unneeded-time", options.scale_down_unneeded_time.map(span));
    set_field("scale-down-unready-time", options.scale_down_unready_time.map(span));
    set_field("max-node-provision-time", options.max_node_provision_time.map(span));
    set_field("max-node-startup-time", options.max_node_startup_time.map(span));
    set_field("ignore-daemonsets-utilization", options.ignore_daemonsets_utilization.map(Value::from));
    set_field("zero-or-max-node-scaling", options.zero_or_max_node_scaling.then_some(Value::Bool(true)));
    set_field(
        "allow-non-atomic-scale-up-to-max",
        options.allow_non_atomic_scale_up_to_max.then_some(Value::Bool(true)),
    );
    document.into()
}

fn delay(delay: &Delay) -> Value {
    match delay {
        Delay::Constant(duration) => span(*duration),
        Delay::PerItem(per_item) => span(per_item.base),
        Delay::Samples(all) if all.is_empty() => span(Duration::ZERO),
        Delay::Samples(all) => all.iter().copied().map(span).collect(),
        // The file's format has no times of samples.
        Delay::SamplesByTime(all) => all.iter().map(|(_, duration)| span(*duration)).collect(),
    }
}

/// In seconds if whole, else in nanoseconds, so that nothing is rounded.
fn span(duration: Duration) -> Value {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()).into(),
        _ => format!("{}ns", duration.as_nanos()).into(),
    }
}

fn failure(failure: &ProvisioningFailure) -> Value {
    let kind = match failure.kind {
        ProvisioningFailureKind::IncreaseError => "increaseError",
        ProvisioningFailureKind::NoInstance => "noInstance",
        ProvisioningFailureKind::NeverRegister => "neverRegister",
        ProvisioningFailureKind::CreateError => "createError",
    };
    json!({"from": failure.from.to_string(), "to": failure.to.to_string(), "kind": kind})
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
pricing: {cpu: 0.03, memory: 0.004}
gpuLabel: gpu
groups:
- name: workers
  min: 1
  max: 10
  target: 3
  price: 0.25
  members: {label: pool, value: workers}
  template: {cpu: 4, memory: 16Gi, pods: 110, labels: {a: b}, taints: ["dedicated=batch:NoSchedule"]}
  options:
    scale-down-utilization-threshold: 0.65
    scale-down-unneeded-time: 90s
    max-node-provision-time: 1.5s
    ignore-daemonsets-utilization: false
    zero-or-max-node-scaling: true
  provisioning: {registersAfter: [30s, 1.25s], readyAfter: 5s}
  failures:
  - {from: "2026-11-01T00:00:00Z", to: "2026-11-01T01:00:00Z", kind: neverRegister}
- name: others
  min: 0
  max: 2
  members: {names: [n1, n2]}
  pods: [{apiVersion: v1, kind: Pod, metadata: {name: agent, namespace: kube-system}}]
  template: {cpu: 500m, pods: 10}
- {name: third, min: 0, max: 0, members: {providerIdPrefix: "aws:///"}, template: {cpu: 1, pods: 1}}
- {name: fourth, min: 0, max: 0, members: {annotation: a, value: b}, template: {cpu: 1, pods: 1}}
"#;

    #[test]
    fn a_written_document_is_read_as_the_same_groups() {
        let parsed = NodeGroups::parse(FILE).unwrap();
        let document = NodeGroups::document(&parsed.groups, parsed.pricing, &parsed.gpu_label);
        assert_eq!(NodeGroups::read(&document).unwrap(), parsed);
    }
}
