//! Comparison of node groups for `--balance-similar-node-groups`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::amounts::{ResourceAmounts, ScalarResourceId};
use kubernetes::labels::Labels;
use kubernetes::quantity::{Format, Quantity};
use kubernetes::requests::ResourceList;
use kubernetes::well_known::{BETA_REGION, BETA_ZONE, HOSTNAME, KOPS_INSTANCE_GROUP, REGION, ZONE};

use super::super::settings::{Settings, Version};
use super::super::templates::TemplateNodeInfo;

const BASIC_IGNORED_LABELS: [&str; 7] = [
    HOSTNAME,
    BETA_ZONE,
    BETA_REGION,
    ZONE,
    REGION,
    "beta.kubernetes.io/fluentd-ds-ready",
    KOPS_INSTANCE_GROUP,
];
const AWS_IGNORED_LABELS: [&str; 7] = [
    "alpha.eksctl.io/instance-id",
    "alpha.eksctl.io/nodegroup-name",
    "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/eniConfig",
    "lifecycle",
    "topology.ebs.csi.aws.com/zone",
    "topology.k8s.aws/zone-id",
];
const AZURE_POOL_LABELS: [&str; 2] = ["kubernetes.azure.com/agentpool", "agentpool"];
const AZURE_IGNORED_LABELS: [&str; 9] = [
    AZURE_POOL_LABELS[0],
    AZURE_POOL_LABELS[1],
    "topology.disk.csi.azure.com/zone",
    "aksEngineVersion",
    "creationSource",
    "poolName",
    "resourceNameSuffix",
    "kubernetes.azure.com/node-image-version",
    "kubernetes.azure.com/consolidated-additional-properties",
];
const GCE_IGNORED_LABELS: [&str; 1] = ["topology.gke.io/zone"];

/// Whether the templates of two groups are similar. Labels that identify nodes, pools and zones are ignored.
pub(super) fn are_similar(a: &TemplateNodeInfo, b: &TemplateNodeInfo, settings: &Settings) -> bool {
    if !settings.balancing_labels.is_empty() {
        let has_same_label =
            |label: &Arc<str>| a.node.label(label).is_some_and(|value| b.node.label(label) == Some(value));
        return settings.balancing_labels.iter().all(has_same_label);
    }
    let ignored: &[&str] = match &*settings.cloud_provider {
        "aws" => &AWS_IGNORED_LABELS,
        "azure" => &AZURE_IGNORED_LABELS,
        "gce" => &GCE_IGNORED_LABELS,
        _ => &[],
    };
    // A bug of 1.37: for any other cloud provider the flags have no effect.
    let defaults = Settings::for_version(settings.version);
    let settings =
        if settings.version >= Version::V1_37 && ignored.is_empty() { &defaults } else { settings };
    if &*settings.cloud_provider == "azure" && are_in_same_azure_pool(a, b) {
        return true;
    }
    let is_ignored = |label: &str| {
        BASIC_IGNORED_LABELS.contains(&label)
            || ignored.contains(&label)
            || settings.balancing_ignore_labels.iter().any(|other| **other == *label)
    };
    have_same_capacity(&a.node.capacity, &b.node.capacity, settings.memory_difference_ratio)
        && all_within_ratio(
            &amounts(&a.node.view.allocatable),
            &amounts(&b.node.view.allocatable),
            settings.max_allocatable_difference_ratio,
        )
        && all_within_ratio(&free_resources(a), &free_resources(b), settings.max_free_difference_ratio)
        && have_same_labels(&a.node.labels, &b.node.labels, is_ignored)
}

fn are_in_same_azure_pool(a: &TemplateNodeInfo, b: &TemplateNodeInfo) -> bool {
    AZURE_POOL_LABELS.iter().any(|label| {
        a.node.label(label).is_some_and(|pool| !pool.is_empty() && b.node.label(label) == Some(pool))
    })
}

/// Whether capacities are equal, memory within the ratio.
fn have_same_capacity(a: &ResourceList, b: &ResourceList, memory_ratio: f64) -> bool {
    a.len() == b.len()
        && a.iter().all(|(name, quantity)| {
            b.get(name).is_some_and(|other| match name {
                "memory" => is_within_ratio(quantity.milli_value(), other.milli_value(), memory_ratio),
                _ => quantity == other,
            })
        })
}

/// Milli-amounts by resource.
type MilliAmounts<N> = BTreeMap<N, i64>;

fn amounts(resources: &ResourceList) -> MilliAmounts<&str> {
    resources.iter().map(|(name, quantity)| (name, quantity.milli_value())).collect()
}

/// Allocatable less the requests of the template's pods. Only standard resources and those that the pods request count.
fn free_resources(template: &TemplateNodeInfo) -> MilliAmounts<FreeResource> {
    let mut requested = ResourceAmounts::default();
    template.pods.iter().for_each(|pod| requested.add(&pod.scheduler_pod.usage.requested));
    let has = &template.node.view.allocatable;
    let left = |name: &str, requested: Quantity| {
        let mut left = has.get(name).cloned().unwrap_or_default();
        left -= &requested;
        left.milli_value()
    };
    let units = |amount: i64| Quantity::new(amount, 0, Format::BinarySi);
    let mut free: MilliAmounts<FreeResource> = [
        (FreeResource::Cpu, left("cpu", Quantity::new(requested.cpu, -3, Format::DecimalSi))),
        (FreeResource::Memory, left("memory", units(requested.memory))),
        (FreeResource::Pods, left("pods", units(0))),
        (FreeResource::EphemeralStorage, left("ephemeral-storage", units(requested.ephemeral_storage))),
    ]
    .into();
    let spec = &template.node.allocatable;
    free.extend(requested.scalars.iter().map(|&(id, requested_amount)| {
        (FreeResource::Scalar(id), spec.scalar(id).saturating_sub(requested_amount).saturating_mul(1000))
    }));
    free
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum FreeResource {
    Cpu,
    Memory,
    Pods,
    EphemeralStorage,
    Scalar(ScalarResourceId),
}

fn all_within_ratio<N: Ord>(a: &MilliAmounts<N>, b: &MilliAmounts<N>, ratio: f64) -> bool {
    a.len() == b.len()
        && a.iter()
            .all(|(name, amount)| b.get(name).is_some_and(|other| is_within_ratio(*amount, *other, ratio)))
}

fn is_within_ratio(a: i64, b: i64, ratio: f64) -> bool {
    let (larger, smaller) = (a.max(b) as f64, a.min(b) as f64);
    larger - smaller <= larger * ratio
}

fn have_same_labels(a: &Labels, b: &Labels, is_ignored: impl Fn(&str) -> bool) -> bool {
    let is_compared = |(key, _): &(&Arc<str>, &Arc<str>)| !is_ignored(key);
    a.iter().filter(is_compared).eq(b.iter().filter(is_compared))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testobjects::{NodeBuilder, PodBuilder};

    use super::super::super::informer_cache::InformerCache;
    use super::super::tests::{node, pod, template};
    use super::*;

    // Cases of TestNodesSimilar… of cluster-autoscaler.

    #[track_caller]
    fn check_similar(
        settings: &Settings,
        a: &NodeBuilder,
        b: &NodeBuilder,
        pods: [&[PodBuilder]; 2],
        expected: bool,
    ) {
        let mut cluster = InformerCache::new(settings);
        let mut read = |node: &NodeBuilder, pods: &[PodBuilder]| {
            let pods: Vec<_> = pods.iter().map(|pod| pod.clone().object()).collect();
            template(&mut cluster, &node.clone().object(), &pods)
        };
        let (a, b) = (read(a, pods[0]), read(b, pods[1]));
        assert_eq!(are_similar(&a, &b, settings), expected);
        assert_eq!(are_similar(&b, &a, settings), expected);
    }

    #[test]
    fn groups_are_similar_within_their_ratios() {
        let settings = Settings::default();
        let plain = |name: &str| node(name, 1000, 2000, 100);
        let check =
            |b: NodeBuilder, expected| check_similar(&settings, &plain("a"), &b, [&[], &[]], expected);
        check(plain("b"), true);
        check(plain("b").set("status.capacity.cpu", "1001m"), false);
        check(plain("b").allocatable("cpu", "999m"), true);
        check(plain("b").allocatable("cpu", "500m"), false);
        let with_gpu = json!({"cpu": "1000m", "memory": "2000Mi", "pods": "100", "nvidia.com/gpu": "1"});
        check(plain("b").set("status.capacity", with_gpu), false);
        let on = |cpu: i64, memory: i64| vec![pod("p", "p", cpu, memory)];
        let less = plain("b").allocatable("cpu", "500m").allocatable("memory", "1000Mi");
        check_similar(&settings, &plain("a"), &less, [&on(500, 1000), &[]], false);
        check_similar(&settings, &plain("a"), &plain("b"), [&on(500, 1000), &on(500, 1000)], true);
        let little = plain("b").allocatable("cpu", "999m");
        check_similar(&settings, &plain("a"), &little, [&on(500, 1000), &on(501, 1001)], true);
        let memory = |memory: &str| plain("b").capacity("memory", memory);
        // Taken from real m5.xlarge nodes.
        check_similar(&settings, &memory("16116152Ki"), &memory("15944120Ki"), [&[], &[]], true);
        check_similar(&settings, &memory("16116152Ki"), &memory("16438475Ki"), [&[], &[]], false);
    }

    #[test]
    fn labels_that_identify_places_are_ignored() {
        let label = |key: &str, value: &str| node("x", 1000, 2000, 10).label(key, value);
        let check = |provider: &str, a: &NodeBuilder, b: &NodeBuilder, expected| {
            let settings = Settings { cloud_provider: provider.into(), ..Settings::default() };
            check_similar(&settings, a, b, [&[], &[]], expected);
        };
        let none = node("x", 1000, 2000, 10);
        check("", &label("character", "winnie"), &none, false);
        let zone = |zone: &str| label("topology.kubernetes.io/zone", zone);
        check("", &zone("a"), &none, true);
        check("", &zone("a"), &zone("b"), true);
        let eks = |name: &str| label("eks.amazonaws.com/nodegroup", name);
        check("", &eks("a"), &eks("b"), false);
        check("aws", &eks("a"), &eks("b"), true);
        let gke = |name: &str| label("topology.gke.io/zone", name);
        check("gce", &gke("a"), &gke("b"), true);
        let pool = |name: &str, cpu: i64| node("x", cpu, 2000, 10).label("agentpool", name);
        check("azure", &pool("a", 1000), &pool("b", 1000), true);
        check("azure", &pool("a", 1000), &pool("b", 2000), false);
        // Groups of one pool are similar regardless of their nodes.
        check("azure", &pool("a", 1000), &pool("a", 2000), true);
    }

    #[test]
    fn balancing_labels_alone_decide_if_they_are_given() {
        let settings = Settings { balancing_labels: vec!["pool".into()], ..Settings::default() };
        let pool = |name: &str, cpu: i64| node("x", cpu, 2000, 10).label("pool", name);
        check_similar(&settings, &pool("a", 1), &pool("a", 2), [&[], &[]], true);
        check_similar(&settings, &pool("a", 1), &pool("b", 1), [&[], &[]], false);
        check_similar(&settings, &node("x", 1, 1, 1), &node("x", 1, 1, 1), [&[], &[]], false);
    }
}
