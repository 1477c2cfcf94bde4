use std::sync::Arc;

use kubernetes::objects::{NodeView, PodView};
use model::{Moment, Object};
use scheduler::node::Node;
use testobjects::{NodeBuilder, PodBuilder};

use super::super::Version;
use super::super::cluster_state::ClusterStateRegistry;
use super::super::groups::NodeGroup;
use super::super::informer_cache::InformerCache;
use super::super::pod::Pod;
use super::super::settings::{GroupOptionOverrides, Settings};
use super::super::templates::TemplateNodeInfoProvider;
use super::super::testing::{Harness, group, messages};
use super::*;

/// Groups by name, target, maximum size and template, all healthy.
pub(super) fn harness(groups: &[(&str, i64, i64, NodeBuilder)]) -> Harness {
    let mut harness = Harness::new(Settings::default(), Moment::default());
    let mut templates = Vec::new();
    for (name, target, max, node) in groups {
        let node = node.clone().object();
        templates.push(Some(Arc::new(template(&mut harness.state.cluster, &node, &[]))));
        harness.add_group(NodeGroup { max: *max, template: node, ..group(name) }, *target);
    }
    harness.state.templates = TemplateNodeInfoProvider::with_templates(templates);
    harness.state.registry = ClusterStateRegistry::all_healthy(&harness.state.settings, groups.len());
    harness
}

pub(super) fn template(cluster: &mut InformerCache, node: &Object, pods: &[Object]) -> TemplateNodeInfo {
    let scalars = cluster.snapshot.filter_snapshot.scalars();
    let node = Arc::new(Node::new(Arc::new(NodeView::parse(node)), scalars));
    TemplateNodeInfo {
        node,
        pods: pods.iter().map(|pod| Arc::new(Pod::new(Arc::new(PodView::parse(pod)), scalars))).collect(),
    }
}

/// A node; memory in MiB.
pub(super) fn node(name: &str, cpu: i64, memory: i64, pods: i64) -> NodeBuilder {
    testobjects::node(name)
        .capacity("cpu", format!("{cpu}m"))
        .capacity("memory", format!("{memory}Mi"))
        .capacity("pods", pods.to_string())
}

/// A pod of a controller; memory in MiB.
pub(super) fn pod(name: &str, controller: &str, cpu: i64, memory: i64) -> PodBuilder {
    testobjects::pod(name)
        .namespace("universe")
        .label("app", controller)
        .owner("ReplicaSet", controller)
        .request("cpu", format!("{cpu}m"))
        .request("memory", format!("{memory}Mi"))
}

pub(super) fn pods(controller: &str, count: usize, cpu: i64, memory: i64) -> Vec<PodBuilder> {
    (0..count).map(|n| pod(&format!("{controller}-{n:05}"), controller, cpu, memory)).collect()
}

pub(super) fn add_pods(harness: &mut Harness, pods: impl IntoIterator<Item = PodBuilder>) {
    pods.into_iter().for_each(|pod| harness.apply(pod.added()));
}

/// Runs a scale-up for all unscheduled pods.
fn run_scale_up(harness: &mut Harness) -> ScaleUpStatus {
    let nodes: Vec<NodeId> = harness.state.cluster.nodes().collect();
    harness.state.cluster.snapshot.begin_loop(nodes.clone());
    let pods: Vec<PodId> = harness.state.cluster.unscheduled_pods().collect();
    let status = harness.with(|context| {
        let status = scale_up(context, &pods, &nodes);
        emit_pod_events(context, &status);
        status
    });
    harness.state.cluster.snapshot.end_loop();
    status
}

fn increased_groups(status: &ScaleUpStatus) -> Vec<(&str, i64, i64)> {
    status.increases.iter().map(|increase| (&*increase.group, increase.from, increase.to)).collect()
}

#[test]
fn pods_are_grouped_by_controller_and_spec_up_to_ten_groups() {
    let mut harness = harness(&[]);
    for cpu in 1..=12 {
        add_pods(&mut harness, [pod(&format!("a-{cpu:02}"), "a", cpu, 1)]);
    }
    // Pods of the eleventh and twelfth spec are groups of one, also when there are more pods like them.
    add_pods(&mut harness, [pod("a-13", "a", 12, 1), pod("a-14", "a", 1, 1)]);
    let all: Vec<PodId> = harness.state.cluster.unscheduled_pods().collect();
    let sizes: Vec<usize> = PodEquivalenceGroup::build_groups(&harness.state.cluster.snapshot, &all)
        .iter()
        .map(|group| group.pods.len())
        .collect();
    assert_eq!(sizes, [2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn the_chosen_group_is_increased_and_events_are_emitted() {
    let mut harness = harness(&[
        ("large", 1, 10, node("large", 4000, 8000, 10)),
        ("small", 0, 10, node("small", 1000, 2000, 10)),
        ("full", 3, 3, node("full", 1000, 2000, 10)),
    ]);
    add_pods(&mut harness, pods("a", 3, 900, 1000));
    add_pods(&mut harness, [pod("b-1", "b", 9000, 1)]);
    add_pods(&mut harness, [pod("c-1", "c", 2000, 1)]);
    harness.state.settings.expander = vec![crate::settings::Expander::MostPods];
    let status = run_scale_up(&mut harness);
    assert_eq!(status.result, ScaleUpResult::Successful);
    assert_eq!(status.best_group.as_deref(), Some("large"));
    // Two of the smaller pods fit beside the larger one.
    assert_eq!(increased_groups(&status), [("large", 1, 3)]);
    assert_eq!(status.pods_triggered_scale_up.len(), 4);
    assert_eq!(status.pods_remain_unschedulable.len(), 1);
    let remaining = &status.pods_remain_unschedulable[0];
    assert_eq!(remaining.rejected_groups["large"], ["Insufficient cpu"]);
    assert_eq!(remaining.skipped_groups["full"], ["max node group size reached"]);
    assert!(status.pods_await_evaluation.is_empty());
    // The reasons of a rejecting group are reported even if another group helps the pod.
    let helped = status
        .equivalence_groups
        .iter()
        .find(|same| same.pods.iter().any(|pod| &*pod.name == "c-1"))
        .unwrap();
    assert_eq!(helped.rejected_groups.keys().map(|group| &**group).collect::<Vec<_>>(), ["small"]);
    assert_eq!(helped.rejected_groups["small"], ["Insufficient cpu"]);
    let events = messages(&harness.events);
    assert_eq!(events[0], "ScaledUpGroup: Scale-up: setting group large size to 3 instead of 1 (max: 10)");
    assert_eq!(events[1], "ScaledUpGroup: Scale-up: group large size set to 3 instead of 1 (max: 10)");
    // No NotTriggerScaleUp event is emitted in a loop with a successful scale-up.
    assert_eq!(events[2..], vec!["TriggeredScaleUp: pod triggered scale-up: [{large 1->3 (max: 10)}]"; 4]);
}

#[test]
fn unschedulable_pods_get_an_event_with_reason_counts() {
    let mut harness = harness(&[
        ("a", 0, 10, node("a", 1000, 2000, 10)),
        ("b", 0, 10, node("b", 1000, 2000, 10)),
        ("c", 3, 3, node("c", 1000, 2000, 10)),
    ]);
    add_pods(&mut harness, [pod("x", "x", 9000, 9000)]);
    let status = run_scale_up(&mut harness);
    assert_eq!(status.result, ScaleUpResult::NoOptionsAvailable);
    assert_eq!(
        messages(&harness.events),
        ["NotTriggerScaleUp: pod didn't trigger scale-up: 2 Insufficient cpu, 2 Insufficient memory, \
          1 max node group size reached"]
    );
}

#[test]
fn pods_that_another_group_could_help_await_evaluation() {
    let mut harness =
        harness(&[("a", 0, 10, node("a", 1000, 2000, 10)), ("b", 0, 10, node("b", 8000, 2000, 10))]);
    add_pods(&mut harness, [pod("x", "x", 500, 1).node_selector("kubernetes.io/hostname", "a")]);
    add_pods(&mut harness, [pod("y", "y", 8000, 1)]);
    let status = run_scale_up(&mut harness);
    // A selector for the template's own name does not match the nodes copied from it.
    assert_eq!(status.options.len(), 1);
    assert_eq!(status.best_group.as_deref(), Some("b"));
    assert_eq!(status.pods_await_evaluation.len(), 1);
    assert_eq!(&*status.pods_await_evaluation[0].name, "x");
}

#[test]
fn cluster_wide_quotas_limit_a_scale_up() {
    let groups = [("a", 0, 10, node("a", 2000, 4096, 10))];
    let with = |set: &dyn Fn(&mut Settings)| {
        let mut harness = harness(&groups);
        harness.apply(node("old", 1500, 1024, 10).added());
        add_pods(&mut harness, pods("x", 5, 2000, 1));
        set(&mut harness.state.settings);
        let status = run_scale_up(&mut harness);
        (status, messages(&harness.events))
    };
    let (status, _) = with(&|settings| settings.max_nodes_total = 4);
    assert_eq!(increased_groups(&status), [("a", 0, 3)]);
    // Cores are rounded up: the old node has two.
    let (status, _) = with(&|settings| settings.cores_total.max = 7);
    assert_eq!(increased_groups(&status), [("a", 0, 2)]);
    let (status, _) = with(&|settings| settings.memory_total.max = 9);
    assert_eq!(increased_groups(&status), [("a", 0, 2)]);
    let (status, _) = with(&|settings| {
        settings.cores_total.max = 3;
        settings.memory_total.max = 4;
    });
    let reason = "exceeded quota: \"cluster-wide\", resources: cpu, memory";
    assert_eq!(status.skipped_groups["a"], [reason]);
    let (status, _) = with(&|settings| settings.max_nodes_per_scaleup = 2);
    assert_eq!(increased_groups(&status), [("a", 0, 2)]);
    let (status, _) = with(&|settings| settings.max_nodes_total = 1);
    assert_eq!(status.result, ScaleUpResult::NoOptionsAvailable);
}

#[test]
fn a_zero_or_max_group_is_increased_to_its_maximum() {
    let mut harness = harness(&[("a", 0, 4, node("a", 1000, 4000, 10))]);
    let options = GroupOptionOverrides { zero_or_max_node_scaling: true, ..GroupOptionOverrides::default() };
    harness.cloud.groups[0].options = Some(options);
    add_pods(&mut harness, pods("x", 1, 500, 1));
    assert_eq!(increased_groups(&run_scale_up(&mut harness)), [("a", 0, 4)]);
    harness.cloud.targets[0] = 0;
    harness.state.settings.max_nodes_total = 3;
    assert_eq!(
        run_scale_up(&mut harness).skipped_groups["a"],
        ["atomic scale-up exceeds cluster node count limit"]
    );
}

#[test]
fn a_failed_increase_is_an_error_and_later_groups_fail_with_it() {
    let like = |name: &str| node(name, 1000, 4000, 10);
    let mut harness = harness(&[("a", 0, 4, like("a")), ("b", 0, 4, like("b")), ("c", 0, 4, like("c"))]);
    harness.state.settings.balance_similar_node_groups = true;
    harness.cloud.refuses = vec!["b"];
    add_pods(&mut harness, pods("x", 3, 600, 1));
    let status = run_scale_up(&mut harness);
    assert_eq!(status.result, ScaleUpResult::Error);
    assert_eq!(status.error.as_deref(), Some("failed to increase node group size: no"));
    assert_eq!(harness.cloud.targets, [1, 0, 0]);
    assert_eq!(status.failed_groups, ["b".into()]);
    // The first group was increased, so the pods are still schedulable.
    assert!(status.pods_remain_unschedulable.is_empty() && status.increases.is_empty());
    assert_eq!(status.pods_triggered_scale_up.len(), 3);
    assert!(
        messages(&harness.events)
            .contains(&"FailedToScaleUpGroup: Scale-up failed for group b: no".to_owned())
    );

    harness.cloud.targets = vec![0; 3];
    harness.cloud.refuses = vec!["a"];
    let status = run_scale_up(&mut harness);
    assert_eq!(status.pods_remain_unschedulable.len(), 3);
    assert_eq!(status.pods_remain_unschedulable[0].rejected_groups["c"], ["scale-up execution failed"]);
}

#[test]
fn groups_below_their_minimum_size_are_increased() {
    let mut harness =
        harness(&[("a", 1, 9, node("a", 1000, 4000, 10)), ("b", 2, 9, node("b", 1000, 4000, 10))]);
    harness.cloud.groups[0].min = 3;
    harness.cloud.groups[1].min = 2;
    let status = harness.with(|context| scale_up_to_min_size(context, &[]));
    assert_eq!(increased_groups(&status), [("a", 1, 3)]);
    let status = harness.with(|context| scale_up_to_min_size(context, &[]));
    assert_eq!(status.result, ScaleUpResult::NotNeeded);
}

#[test]
fn similar_groups_share_new_nodes() {
    let mut harness = harness(&[
        ("a", 2, 10, node("a", 1000, 4000, 10)),
        ("b", 0, 10, node("b", 1000, 4000, 10)),
        ("c", 0, 10, node("c", 1000, 8000, 10)),
    ]);
    harness.state.settings.balance_similar_node_groups = true;
    harness.state.settings.version = Version::V1_36;
    add_pods(&mut harness, pods("x", 4, 600, 3000));
    let status = run_scale_up(&mut harness);
    // The options of the two groups tie: the first by name is chosen, and the smaller group is increased first.
    assert!(status.expander_choices[0].is_tie);
    assert_eq!(status.options[0].similar_groups, ["b".into()]);
    assert_eq!(increased_groups(&status), [("b", 0, 3), ("a", 2, 3)]);
}
