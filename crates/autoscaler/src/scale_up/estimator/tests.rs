use model::What;
use scheduler::ids::{NodeId, PodId};
use serde_json::{Value, json};
use testobjects::{NodeBuilder, PodBuilder};

use super::super::super::testing::Harness;
use super::super::tests::{harness, node, pods, template};
use super::*;

/// Pods and a template. There is an old node in another zone, with few free resources.
struct Case {
    harness: Harness,
    template: TemplateNodeInfo,
    groups: Vec<PodEquivalenceGroup>,
}

impl Case {
    fn new(template_node: NodeBuilder, pending: &[Vec<PodBuilder>]) -> Case {
        Case::with_daemons(template_node, &[], pending)
    }

    fn with_daemons(template_node: NodeBuilder, daemons: &[PodBuilder], pending: &[Vec<PodBuilder>]) -> Case {
        let mut harness = harness(&[]);
        harness.apply(with_zone(node("oldnode", 100, 100, 10), "jupiter").added());
        let daemons: Vec<_> = daemons.iter().map(|pod| pod.clone().object()).collect();
        let node = with_zone(template_node, "mars").object();
        let template = template(&mut harness.state.cluster, &node, &daemons);
        let mut groups = Vec::new();
        for pods in pending {
            let pods: Vec<_> = pods.iter().map(|pod| pod.clone().object()).collect();
            let mut ids: Vec<PodId> = Vec::new();
            for pod in pods {
                let name = pod.meta().name.to_string();
                harness.apply(What::Added(pod));
                ids.push(harness.pod("universe", &name));
            }
            groups.push(PodEquivalenceGroup::of(&harness.state.cluster.snapshot, ids));
        }
        let nodes: Vec<NodeId> = harness.state.cluster.nodes().collect();
        harness.state.cluster.snapshot.begin_loop(nodes);
        Case { harness, template, groups }
    }

    fn snapshot(&mut self) -> &mut ClusterSnapshot {
        &mut self.harness.state.cluster.snapshot
    }

    fn estimate(&mut self, most: i64, options: EstimatorOptions) -> Estimate {
        let group_indices: Vec<usize> = (0..self.groups.len()).collect();
        let snapshot = &mut self.harness.state.cluster.snapshot;
        estimate(
            snapshot,
            &self.template,
            &self.groups,
            &group_indices,
            EstimationLimiter::from_thresholds(&[most]),
            options,
        )
    }

    fn estimate_by_simulation(&mut self, most: i64, options: EstimatorOptions) -> Estimate {
        let group_indices: Vec<usize> = (0..self.groups.len()).collect();
        let snapshot = &mut self.harness.state.cluster.snapshot;
        let (order, fast) =
            packing_order(snapshot, &self.template.node, &self.groups, &group_indices, options);
        let limit = EstimationLimiter::from_thresholds(&[most]);
        estimate_by_simulation(snapshot, &self.template, &self.groups, (&order, fast), limit, options)
    }
}

const PLAIN: EstimatorOptions = EstimatorOptions { version: Version::V1_36, fastpath: false };
const FAST: EstimatorOptions = EstimatorOptions { version: Version::V1_36, fastpath: true };

fn with_zone(node: NodeBuilder, zone: &str) -> NodeBuilder {
    node.label("topology.kubernetes.io/zone", zone)
}

/// The same pods with another field in their specs.
fn with(pods: Vec<PodBuilder>, field: &str, value: &Value) -> Vec<PodBuilder> {
    pods.into_iter().map(|pod| pod.set(&format!("spec.{field}"), value.clone())).collect()
}

fn spread(pods: Vec<PodBuilder>, skew: i64, key: &str, domains: i64) -> Vec<PodBuilder> {
    let constraints = json!([{
        "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "minDomains": domains,
        "labelSelector": {"matchLabels": {"app": "a"}},
    }]);
    with(pods, "topologySpreadConstraints", &constraints)
}

/// The numbers are those of TestBinpackingEstimate of cluster-autoscaler.
#[track_caller]
fn check(node: (i64, i64), pending: &[Vec<PodBuilder>], max_nodes: i64, expected: (i64, &[(usize, usize)])) {
    let mut case = Case::new(super::super::tests::node("template", node.0, node.1, 10), pending);
    let estimate = case.estimate(max_nodes, PLAIN);
    assert_eq!((estimate.nodes, &*estimate.helped), expected);
    assert_eq!(case.estimate_by_simulation(max_nodes, PLAIN), estimate);
    // With one equivalence group the fastpath has the same result.
    if pending.len() == 1 {
        assert_eq!(case.estimate(max_nodes, FAST), estimate);
        assert_eq!(case.estimate_by_simulation(max_nodes, FAST), estimate);
    }
}

#[test]
fn pods_are_packed_by_their_requests() {
    check((1000, 2000), &[pods("a", 10, 350, 1000)], 0, (5, &[(0, 10)]));
    check((10000, 20000), &[pods("a", 20, 10, 100)], 0, (2, &[(0, 20)]));
    check((1000, 5000), &[pods("a", 20, 500, 1000)], 5, (5, &[(0, 10)]));
    let two = [pods("a", 10, 50, 1000), pods("b", 10, 500, 1000)];
    check((1000, 5000), &two, 5, (5, &[(1, 10)]));
}

#[test]
fn a_host_port_fits_once_per_node() {
    let pods = pods("a", 8, 200, 1000).into_iter().map(|pod| pod.host_port(5555));
    check((1000, 5000), &[pods.collect()], 0, (8, &[(0, 8)]));
}

#[test]
fn pods_are_spread_over_new_nodes() {
    let host = "kubernetes.io/hostname";
    check((1000, 5000), &[spread(pods("a", 8, 200, 200), 2, host, 1)], 0, (4, &[(0, 8)]));
    let zone = "topology.kubernetes.io/zone";
    check((1000, 5000), &[spread(pods("a", 8, 20, 100), 2, zone, 1)], 0, (1, &[(0, 2)]));
    // Earlier nodes are tried again when a pod would exceed the skew on the last one. The old node gets some of the
    // pods and is counted with the new ones.
    check((1000, 5000), &[spread(pods("a", 12, 20, 0), 1, host, 3)], 0, (3, &[(0, 12)]));
}

#[test]
fn before_1_33_earlier_nodes_are_not_tried_again() {
    let pending = [spread(pods("a", 12, 20, 0), 1, "kubernetes.io/hostname", 3)];
    let mut case = Case::new(node("template", 1000, 5000, 10), &pending);
    let old = EstimatorOptions { version: Version::V1_32, fastpath: false };
    assert_ne!(case.estimate(0, old), case.estimate(0, PLAIN));
}

/// BenchmarkBinpackingEstimate of cluster-autoscaler.
#[test]
fn many_pods_are_packed_by_counting() {
    let pending = [pods("a", 50_000, 50, 100), pods("b", 1000, 95, 190)];
    let mut case = Case::new(node("template", 1000, 5000, 100), &pending);
    let estimate = case.estimate(3000, PLAIN);
    assert_eq!(estimate, Estimate { nodes: 2595, helped: vec![(1, 1000), (0, 50_000)] });
}

#[test]
fn limits_of_zero_are_ignored_and_negative_ones_forbid_all() {
    assert_eq!(EstimationLimiter::from_thresholds(&[0, 5, 3]).max_nodes, 3);
    assert_eq!(EstimationLimiter::from_thresholds(&[0, 0]).max_nodes, 0);
    assert_eq!(EstimationLimiter::from_thresholds(&[4, -7, 3]).max_nodes, -1);
    let mut none = EstimationLimiter::from_thresholds(&[-1]);
    assert!(!none.permission_to_add_node());
}

/// TestDetermineBestPodEquivalenceGroupToFastpath of cluster-autoscaler.
#[test]
fn the_group_that_saves_most_takes_the_fastpath() {
    let check = |pending: &[(usize, i64, i64)], expected: Option<usize>| {
        let name = |n: usize| format!("g{n}");
        let pending: Vec<Vec<PodBuilder>> = (0..)
            .zip(pending)
            .map(|(n, (count, cpu, memory))| pods(&name(n), *count, *cpu, *memory))
            .collect();
        let case = Case::new(node("template", 100, 100, 10), &pending);
        let order: Vec<usize> = (0..case.groups.len()).collect();
        let snapshot = &case.harness.state.cluster.snapshot;
        assert_eq!(fastpath::best_group(snapshot, &case.template.node, &case.groups, &order), expected);
    };
    check(&[(5, 30, 0), (3, 50, 0)], Some(0));
    check(&[(6, 30, 0), (5, 90, 0)], Some(1));
    check(&[(10, 15, 0), (5, 90, 0)], Some(0));
    check(&[(3, 80, 0), (3, 70, 0), (4, 50, 0)], Some(2));
    check(&[(2, 60, 0), (100, 1, 0)], Some(0));
    check(&[(2, 0, 0), (4, 0, 0)], Some(1));
    let spread = spread(pods("a", 10, 5, 5), 2, "kubernetes.io/hostname", 1);
    let case = Case::new(node("template", 100, 100, 10), &[spread]);
    assert_eq!(
        fastpath::best_group(&case.harness.state.cluster.snapshot, &case.template.node, &case.groups, &[0]),
        None
    );
}

/// A small generator, so that a case is its seed.
struct SeededRng(u64);

impl SeededRng {
    fn next_below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Counting has the same result as trying, and leaves the same last match index.
#[test]
fn counting_is_the_same_as_trying() {
    let mut counted = 0;
    for seed in 0..400 {
        let mut rng = SeededRng(seed);
        let mut amount = |from: u64, to: u64| (from + rng.next_below(to - from)) as i64;
        let template = node("template", amount(500, 4000), amount(500, 4000), amount(2, 15));
        let daemons: Vec<PodBuilder> =
            if amount(0, 2) == 0 { pods("daemon", 1, amount(0, 400), amount(0, 400)) } else { Vec::new() };
        let pending: Vec<Vec<PodBuilder>> = (0..amount(1, 6))
            .map(|n| {
                let size = if amount(0, 5) == 0 { 0 } else { 1 };
                // The amounts are drawn in this order: a seed stays the same case.
                let kind = amount(0, 12);
                let count = amount(1, 40) as usize;
                let pods = pods(&format!("g{n}"), count, size * amount(1, 1500), size * amount(1, 1500));
                match kind {
                    0 => with(pods, "nodeSelector", &json!({"nowhere": "yes"})),
                    1 => with(pods, "tolerations", &json!([{"operator": "Exists"}])),
                    _ => pods,
                }
            })
            .collect();
        let max_nodes = if amount(0, 2) == 0 { amount(1, 12) } else { 0 };
        let options = if amount(0, 3) == 0 { FAST } else { PLAIN };
        let mut case = Case::with_daemons(template, &daemons, &pending);
        let start = amount(0, 40) as usize;
        case.snapshot().set_last_match_index(start);
        let tried = case.estimate_by_simulation(max_nodes, options);
        let tried_match = case.snapshot().last_match_index();
        case.snapshot().set_last_match_index(start);
        let group_indices: Vec<usize> = (0..case.groups.len()).collect();
        let snapshot = &mut case.harness.state.cluster.snapshot;
        counted +=
            u32::from(CountedNodes::new(snapshot, &case.template, &case.groups, &group_indices).is_some());
        assert_eq!(case.estimate(max_nodes, options), tried, "seed {seed}");
        assert_eq!(case.snapshot().last_match_index(), tried_match, "seed {seed}");
    }
    assert_eq!(counted, 400, "every case can be counted");
}

#[test]
fn pods_that_depend_on_other_pods_are_not_counted() {
    let anti = |pods: Vec<PodBuilder>, app: &str| {
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}},
        ]}});
        with(pods, "affinity", &affinity)
    };
    let check = |daemons: &[PodBuilder], pending: Vec<PodBuilder>, expected: bool, nodes: i64| {
        let mut case = Case::with_daemons(node("template", 1000, 1000, 10), daemons, &[pending]);
        let snapshot = &mut case.harness.state.cluster.snapshot;
        let can = CountedNodes::new(snapshot, &case.template, &case.groups, &[0]).is_some();
        assert_eq!(can, expected);
        assert_eq!(case.estimate(0, PLAIN).nodes, nodes);
    };
    check(&[], pods("a", 4, 100, 100), true, 1);
    check(&[], anti(pods("a", 4, 100, 100), "a"), false, 4);
    // A DaemonSet pod of the template has anti-affinity to these pods, or to others.
    check(&anti(pods("d", 1, 1, 1), "a"), pods("a", 4, 100, 100), false, 0);
    check(&anti(pods("d", 1, 1, 1), "b"), pods("a", 4, 100, 100), true, 1);
}
