//! Tests of clusters that are scaled.

use autoscaler::NodeGroups;

use super::*;
use crate::AutoscalerSettings;

const GROUPS: &str = "
groups:
- name: small
  min: 0
  max: 5
  template: {cpu: 2, memory: 8Gi, pods: 10, labels: {pool: small}}
  provisioning: {registersAfter: 30s}
settings: {scale-down-unneeded-time: 2m, scale-down-delay-after-add: 1m}
";

/// A cluster of one node with all components.
fn scaled_cluster(groups: &str) -> VirtualCluster {
    let components = ComponentSet { workloads: true, autoscaler: true, ..ComponentSet::default() };
    let autoscaler = AutoscalerSettings::from(NodeGroups::parse(groups).unwrap());
    cluster_with(
        1,
        ControlPlaneSettings { components, autoscaler: Some(autoscaler), ..ControlPlaneSettings::default() },
    )
}

fn advance(cluster: &VirtualCluster, seconds: u64) {
    cluster.advance(AdvanceTarget::By(Duration::from_secs(seconds))).unwrap();
}

fn node_names(cluster: &VirtualCluster) -> Vec<String> {
    let nodes = cluster.store().objects(&Kind::new("", "Node"));
    nodes.iter().map(|node| node.meta().name.to_string()).collect()
}

/// The reasons of the autoscaler's Events, once each.
fn reasons(cluster: &VirtualCluster) -> Vec<String> {
    let events = cluster.store().objects(&Kind::new("", "Event"));
    let mut reasons: Vec<String> = events
        .iter()
        .map(|event| event.value().unwrap())
        .filter(|event| event["source"]["component"] == "cluster-autoscaler")
        .map(|event| event["reason"].as_str().unwrap().to_owned())
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

fn status(cluster: &VirtualCluster) -> Value {
    let name = NamespacedName::new("kube-system", "cluster-autoscaler-status");
    let map = cluster.store().objects(&Kind::new("", "ConfigMap")).get(&name).unwrap().value().unwrap();
    let status = autoscaler::yaml::parse(map["data"]["status"].as_str().unwrap()).unwrap();
    let updated = &map["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/last-updated"];
    assert_eq!(*updated, status["time"]);
    status
}

/// Fills the node of the cluster, and adds pods that need two more.
fn deploy(cluster: &VirtualCluster) {
    cluster.create(pod("own", "31")).unwrap();
    let selector = json!({"matchLabels": {"app": "web"}});
    let mut web = workload("Deployment", "web", json!({"replicas": 2, "selector": selector}));
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1500m"}});
    cluster.create(web).unwrap();
}

#[test]
fn pending_pods_get_nodes_which_go_when_nobody_needs_them() {
    let cluster = scaled_cluster(GROUPS);
    deploy(&cluster);
    advance(&cluster, 20);
    assert_eq!(node_names(&cluster), ["node-0"], "the machines are on their way");
    assert_eq!(phases(&cluster), ["Running", "Pending", "Pending"]);
    assert_eq!(reasons(&cluster), ["ScaledUpGroup", "TriggeredScaleUp"]);
    let group = &status(&cluster)["nodeGroups"][0];
    assert_eq!((&group["name"], &group["scaleUp"]["status"]), (&json!("small"), &json!("InProgress")));

    advance(&cluster, 40);
    assert_eq!(node_names(&cluster), ["node-0", "small-new-001", "small-new-002"]);
    assert_eq!(phases(&cluster), ["Running"; 3]);
    let node = cluster.store().objects(&Kind::new("", "Node"));
    let node = node.get(&NamespacedName::new("", "small-new-001")).unwrap().value().unwrap();
    assert_eq!(node["metadata"]["annotations"]["kwok.x-k8s.io/node"], "fake");
    assert_eq!(node["metadata"]["labels"]["pool"], "small");
    assert_eq!(node["status"]["conditions"][0]["reason"], "KubeletReady");

    let deployments = Kind::new("apps", "Deployment");
    cluster.registry().delete_object(&deployments, &name("web"), &DeleteOptions::default()).unwrap();
    advance(&cluster, 110);
    assert_eq!(node_names(&cluster).len(), 3, "they are not unneeded for long enough");
    assert_eq!(status(&cluster)["nodeGroups"][0]["scaleDown"]["status"], "CandidatesPresent");
    advance(&cluster, 60);
    assert_eq!(node_names(&cluster), ["node-0"]);
    assert_eq!(phases(&cluster), ["Running"]);
    let reasons = reasons(&cluster);
    assert!(reasons.contains(&"ScaleDownEmpty".to_owned()), "{reasons:?}");
}

#[test]
fn a_drained_node_is_tainted_and_its_pods_move() {
    let cluster = scaled_cluster(GROUPS);
    deploy(&cluster);
    advance(&cluster, 60);
    // The pods of the removed node fit elsewhere as soon as there is room on the first one.
    cluster.registry().delete_object(&Kind::new("", "Pod"), &name("own"), &DeleteOptions::default()).unwrap();
    let deployments = Kind::new("apps", "Deployment");
    let shrink = |deployment: &mut Value| {
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
            "100m".into();
        true
    };
    cluster.registry().update_object(&deployments, &name("web"), UpdatedPart::Object, shrink).unwrap();
    advance(&cluster, 240);
    assert_eq!(node_names(&cluster), ["node-0"]);
    assert_eq!(fields(&cluster, &Kind::new("", "Pod"), "/spec/nodeName"), ["node-0"; 2]);
    assert_eq!(phases(&cluster), ["Running"; 2]);
}

#[test]
fn a_budget_that_allows_no_disruption_keeps_the_node() {
    let cluster = scaled_cluster(GROUPS);
    deploy(&cluster);
    cluster
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        }))
        .unwrap();
    advance(&cluster, 60);
    cluster.registry().delete_object(&Kind::new("", "Pod"), &name("own"), &DeleteOptions::default()).unwrap();
    advance(&cluster, 600);
    assert_eq!(node_names(&cluster).len(), 3);
}

#[test]
fn a_pod_that_no_group_can_help_is_told_so() {
    let cluster = scaled_cluster(GROUPS);
    cluster.create(pod("huge", "100")).unwrap();
    advance(&cluster, 30);
    assert_eq!(reasons(&cluster), ["NotTriggerScaleUp"]);
    let events = cluster.store().objects(&Kind::new("", "Event"));
    let told = events.iter().map(|event| event.value().unwrap());
    let told: Vec<Value> = told.filter(|event| event["reason"] == "NotTriggerScaleUp").collect();
    let note = told[0]["message"].as_str().unwrap();
    assert_eq!(note, "pod didn't trigger scale-up: 1 Insufficient cpu");
}

#[test]
fn a_cluster_is_idle_only_when_the_autoscaler_has_considered_every_pod() {
    let cluster = scaled_cluster(GROUPS);
    cluster.create(pod("huge", "100")).unwrap();
    // All pods are new: the autoscaler waits until the oldest is two seconds old, then for its next scan.
    let now = cluster.advance(AdvanceTarget::UntilIdle).unwrap();
    assert_eq!(
        (reasons(&cluster), &*now.to_string()),
        (vec!["NotTriggerScaleUp".to_owned()], "2026-11-02T14:20:10Z")
    );
    // Another pod of that name is another pod: this one can be helped.
    let pods = Kind::new("", "Pod");
    cluster.registry().delete_object(&pods, &name("huge"), &DeleteOptions::default()).unwrap();
    cluster.create(pod("own", "31")).unwrap();
    cluster.settle();
    cluster.create(pod("huge", "1500m")).unwrap();
    cluster.advance(AdvanceTarget::UntilIdle).unwrap();
    assert_eq!(phases(&cluster), ["Running"; 2]);
    assert_eq!(node_names(&cluster), ["node-0", "small-new-001"]);
}

#[test]
fn a_cluster_is_not_idle_before_a_new_pod_is_old_enough_for_a_scale_up() {
    // At 50 seconds there is a loop, for which the pod is still too new.
    let groups = GROUPS.replace("settings: {", "settings: {new-pod-scale-up-delay: 50s, ");
    let cluster = scaled_cluster(&groups);
    cluster.create(pod("huge", "100")).unwrap();
    cluster.advance(AdvanceTarget::UntilIdle).unwrap();
    assert_eq!(reasons(&cluster), ["NotTriggerScaleUp"]);
}

#[test]
fn a_reset_forgets_the_machines() {
    let cluster = scaled_cluster(GROUPS);
    for _ in 0..2 {
        deploy(&cluster);
        advance(&cluster, 90);
        assert_eq!(node_names(&cluster), ["node-0", "small-new-001", "small-new-002"]);
        cluster.reset();
        cluster.settle();
        assert_eq!(node_names(&cluster), ["node-0"]);
    }
}

#[test]
fn an_autoscaler_without_node_groups_is_refused() {
    let components = ComponentSet { autoscaler: true, ..ComponentSet::default() };
    let refused = VirtualCluster::start(VirtualClusterOptions {
        clock: ClusterClock::Real,
        control_plane: ControlPlaneSettings { components, ..ControlPlaneSettings::default() },
        git_version: "v1.36.4".to_owned(),
        recording: None,
    });
    assert!(refused.is_err_and(|error| error.to_string().contains("no node groups")));
}
