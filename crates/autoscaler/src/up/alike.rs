//! Groups whose nodes are so alike that they grow together (`--balance-similar-node-groups`).

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::amounts::{Amounts, ScalarId};
use kubernetes::labels::Labels;
use kubernetes::quantity::{Format, Quantity};

use super::super::node::Resources;
use super::super::settings::{Settings, Version};
use super::super::templates::Template;

const BASIC: [&str; 7] = [
    "kubernetes.io/hostname",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "beta.kubernetes.io/fluentd-ds-ready",
    "kops.k8s.io/instancegroup",
];
const AWS: [&str; 7] = [
    "alpha.eksctl.io/instance-id",
    "alpha.eksctl.io/nodegroup-name",
    "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/eniConfig",
    "lifecycle",
    "topology.ebs.csi.aws.com/zone",
    "topology.k8s.aws/zone-id",
];
const AZURE_POOLS: [&str; 2] = ["kubernetes.azure.com/agentpool", "agentpool"];
const AZURE: [&str; 9] = [
    AZURE_POOLS[0],
    AZURE_POOLS[1],
    "topology.disk.csi.azure.com/zone",
    "aksEngineVersion",
    "creationSource",
    "poolName",
    "resourceNameSuffix",
    "kubernetes.azure.com/node-image-version",
    "kubernetes.azure.com/consolidated-additional-properties",
];
const GCE: [&str; 1] = ["topology.gke.io/zone"];

/// Whether new nodes of two groups are much the same. What a cloud calls its nodes does not matter.
pub(super) fn are_alike(a: &Template, b: &Template, settings: &Settings) -> bool {
    if !settings.balancing_labels.is_empty() {
        let same =
            |label: &Arc<str>| a.node.label(label).is_some_and(|value| b.node.label(label) == Some(value));
        return settings.balancing_labels.iter().all(same);
    }
    let ignored: &[&str] = match &*settings.cloud_provider {
        "aws" => &AWS,
        "azure" => &AZURE,
        "gce" => &GCE,
        _ => &[],
    };
    // An oversight of 1.37: with any other cloud the flags mean nothing.
    let defaults = Settings::for_version(settings.version);
    let settings =
        if settings.version >= Version::V1_37 && ignored.is_empty() { &defaults } else { settings };
    if &*settings.cloud_provider == "azure" && are_of_one_pool(a, b) {
        return true;
    }
    let is_ignored = |label: &str| {
        BASIC.contains(&label)
            || ignored.contains(&label)
            || settings.balancing_ignore_labels.iter().any(|other| **other == *label)
    };
    have_same_capacity(&a.node.capacity, &b.node.capacity, settings.memory_difference_ratio)
        && all_near(
            &amounts(&a.node.allocatable),
            &amounts(&b.node.allocatable),
            settings.max_allocatable_difference_ratio,
        )
        && all_near(&free(a), &free(b), settings.max_free_difference_ratio)
        && have_same_labels(&a.node.labels, &b.node.labels, is_ignored)
}

fn are_of_one_pool(a: &Template, b: &Template) -> bool {
    AZURE_POOLS.iter().any(|label| {
        a.node.label(label).is_some_and(|pool| !pool.is_empty() && b.node.label(label) == Some(pool))
    })
}

/// The same of everything, but for a little memory.
fn have_same_capacity(a: &Resources, b: &Resources, memory_ratio: f64) -> bool {
    a.0.len() == b.0.len()
        && a.iter().all(|(name, quantity)| {
            b.get(name).is_some_and(|other| match &**name {
                "memory" => are_near(quantity.milli_value(), other.milli_value(), memory_ratio),
                _ => quantity == other,
            })
        })
}

/// In thousandths, by the name of the resource.
type Milli<N> = BTreeMap<N, i64>;

fn amounts(resources: &Resources) -> Milli<&str> {
    resources.iter().map(|(name, quantity)| (&**name, quantity.milli_value())).collect()
}

/// What is left by the pods that are on the node from the beginning. Resources that neither they nor everybody name do
/// not count.
fn free(template: &Template) -> Milli<Free> {
    let mut taken = Amounts::default();
    template.pods.iter().for_each(|pod| taken.add(&pod.spec.usage.requested));
    let has = &template.node.allocatable;
    let left = |name: &str, taken: Quantity| {
        let mut left = has.get(name).cloned().unwrap_or_default();
        left -= &taken;
        left.milli_value()
    };
    let units = |amount: i64| Quantity::new(amount, 0, Format::BinarySi);
    let mut free: Milli<Free> = [
        (Free::Cpu, left("cpu", Quantity::new(taken.cpu, -3, Format::DecimalSi))),
        (Free::Memory, left("memory", units(taken.memory))),
        (Free::Pods, left("pods", units(0))),
        (Free::EphemeralStorage, left("ephemeral-storage", units(taken.ephemeral_storage))),
    ]
    .into();
    let spec = &template.node.spec.allocatable;
    free.extend(
        taken.scalars.iter().map(|&(id, taken)| {
            (Free::Scalar(id), spec.scalar(id).saturating_sub(taken).saturating_mul(1000))
        }),
    );
    free
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Free {
    Cpu,
    Memory,
    Pods,
    EphemeralStorage,
    Scalar(ScalarId),
}

fn all_near<N: Ord>(a: &Milli<N>, b: &Milli<N>, ratio: f64) -> bool {
    a.len() == b.len()
        && a.iter().all(|(name, amount)| b.get(name).is_some_and(|other| are_near(*amount, *other, ratio)))
}

fn are_near(a: i64, b: i64, ratio: f64) -> bool {
    let (larger, smaller) = (a.max(b) as f64, a.min(b) as f64);
    larger - smaller <= larger * ratio
}

fn have_same_labels(a: &Labels, b: &Labels, is_ignored: impl Fn(&str) -> bool) -> bool {
    let kept = |(key, _): &(&Arc<str>, &Arc<str>)| !is_ignored(key);
    a.iter().filter(kept).eq(b.iter().filter(kept))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testobjects::{NodeBuilder, PodBuilder};

    use super::super::super::cluster::Cluster;
    use super::super::tests::{node, pod, template};
    use super::*;

    // Cases of TestNodesSimilar… of cluster-autoscaler.

    #[track_caller]
    fn check_alike(
        settings: &Settings,
        a: &NodeBuilder,
        b: &NodeBuilder,
        pods: [&[PodBuilder]; 2],
        expected: bool,
    ) {
        let mut cluster = Cluster::new(settings);
        let mut read = |node: &NodeBuilder, pods: &[PodBuilder]| {
            let pods: Vec<_> = pods.iter().map(|pod| pod.clone().object()).collect();
            template(&mut cluster, &node.clone().object(), &pods)
        };
        let (a, b) = (read(a, pods[0]), read(b, pods[1]));
        assert_eq!(are_alike(&a, &b, settings), expected);
        assert_eq!(are_alike(&b, &a, settings), expected);
    }

    #[test]
    fn groups_are_alike_within_their_ratios() {
        let settings = Settings::default();
        let plain = |name: &str| node(name, 1000, 2000, 100);
        let check = |b: NodeBuilder, expected| check_alike(&settings, &plain("a"), &b, [&[], &[]], expected);
        check(plain("b"), true);
        check(plain("b").set("status.capacity.cpu", "1001m"), false);
        check(plain("b").allocatable("cpu", "999m"), true);
        check(plain("b").allocatable("cpu", "500m"), false);
        let with_gpu = json!({"cpu": "1000m", "memory": "2000Mi", "pods": "100", "nvidia.com/gpu": "1"});
        check(plain("b").set("status.capacity", with_gpu), false);
        let on = |cpu: i64, memory: i64| vec![pod("p", "p", cpu, memory)];
        let less = plain("b").allocatable("cpu", "500m").allocatable("memory", "1000Mi");
        check_alike(&settings, &plain("a"), &less, [&on(500, 1000), &[]], false);
        check_alike(&settings, &plain("a"), &plain("b"), [&on(500, 1000), &on(500, 1000)], true);
        let little = plain("b").allocatable("cpu", "999m");
        check_alike(&settings, &plain("a"), &little, [&on(500, 1000), &on(501, 1001)], true);
        let memory = |memory: &str| plain("b").capacity("memory", memory);
        // Taken from real m5.xlarge nodes.
        check_alike(&settings, &memory("16116152Ki"), &memory("15944120Ki"), [&[], &[]], true);
        check_alike(&settings, &memory("16116152Ki"), &memory("16438475Ki"), [&[], &[]], false);
    }

    #[test]
    fn labels_that_name_places_do_not_matter() {
        let label = |key: &str, value: &str| node("x", 1000, 2000, 10).label(key, value);
        let check = |provider: &str, a: &NodeBuilder, b: &NodeBuilder, expected| {
            let settings = Settings { cloud_provider: provider.into(), ..Settings::default() };
            check_alike(&settings, a, b, [&[], &[]], expected);
        };
        let none = node("x", 1000, 2000, 10);
        check("", &label("character", "winnie"), &none, false);
        check("", &label("topology.kubernetes.io~1zone", "a"), &none, false);
        let zone = |zone: &str| label("topology.kubernetes.io/zone", zone);
        check("", &zone("a"), &zone("b"), true);
        let eks = |name: &str| label("eks.amazonaws.com/nodegroup", name);
        check("", &eks("a"), &eks("b"), false);
        check("aws", &eks("a"), &eks("b"), true);
        let gke = |name: &str| label("topology.gke.io/zone", name);
        check("gce", &gke("a"), &gke("b"), true);
        let pool = |name: &str, cpu: i64| node("x", cpu, 2000, 10).label("agentpool", name);
        check("azure", &pool("a", 1000), &pool("b", 1000), true);
        check("azure", &pool("a", 1000), &pool("b", 2000), false);
        // Of one pool, whatever they are like.
        check("azure", &pool("a", 1000), &pool("a", 2000), true);
    }

    #[test]
    fn named_labels_alone_decide_where_they_are_named() {
        let settings = Settings { balancing_labels: vec!["pool".into()], ..Settings::default() };
        let pool = |name: &str, cpu: i64| node("x", cpu, 2000, 10).label("pool", name);
        check_alike(&settings, &pool("a", 1), &pool("a", 2), [&[], &[]], true);
        check_alike(&settings, &pool("a", 1), &pool("b", 1), [&[], &[]], false);
        check_alike(&settings, &node("x", 1, 1, 1), &node("x", 1, 1, 1), [&[], &[]], false);
    }
}
