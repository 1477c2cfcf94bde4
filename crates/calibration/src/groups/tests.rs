use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::Duration;

use autoscaler::{Delay, Expander, Membership, Version};
use model::{Moment, Object, What};
use serde::Deserialize;
use serde_json::{Value, json};
use testobjects::{NodeBuilder, object, resource};

use super::{DerivedGroups, NodeGroupsOrigin, derive_node_groups};
use crate::ProvisioningMeter;

/// Objects around a real cluster-autoscaler 1.36.1 with its kwok provider, from a recording.
const RECORDING: &[u8] = include_bytes!("../../../../testdata/autoscaler/autoscaled.jsonl.gz");

#[derive(Deserialize)]
struct Line {
    at: i64,
    r#type: String,
    object: Value,
}

fn recorded_changes() -> Vec<(Moment, What)> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(RECORDING).read_to_string(&mut text).unwrap();
    let read = |line: &str| {
        let line: Line = serde_json::from_str(line).unwrap();
        let object = object(&line.object);
        let what = match line.r#type.as_str() {
            "ADDED" => What::Added(object),
            "MODIFIED" => What::Modified(object),
            "DELETED" => What::Deleted(object),
            other => panic!("{other}"),
        };
        (Moment::from_micros(line.at).unwrap(), what)
    };
    text.lines().map(read).collect()
}

/// The objects at the end.
fn final_objects() -> Vec<Object> {
    let mut objects = BTreeMap::new();
    for (_, what) in recorded_changes() {
        let key = what.object().key(&"film".into());
        match what.state() {
            Some(object) => objects.insert(key, object.clone()),
            None => objects.remove(&key),
        };
    }
    objects.into_values().collect()
}

fn derived_from(objects: &[Value]) -> DerivedGroups {
    let objects: Vec<Object> = objects.iter().map(object).collect();
    derive_node_groups(objects.iter())
}

fn sizes(derived: &DerivedGroups) -> Vec<(&str, i64, i64, Option<i64>)> {
    derived.groups.iter().map(|group| (&*group.name, group.min, group.max, group.target)).collect()
}

fn named(names: &[&str]) -> Membership {
    Membership::Named(names.iter().map(|name| (*name).into()).collect::<BTreeSet<_>>())
}

fn node(name: &str, created: &str, labels: Value, cpu: &str) -> NodeBuilder {
    let conditions =
        json!([{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "False"}]);
    testobjects::node(name)
        .set("metadata.labels", labels)
        .created(created)
        .annotation("own", "x")
        .provider_id(&format!("cloud:///{name}"))
        .set("spec.podCIDR", "10.0.0.0/24")
        .cordoned()
        .taint("node.kubernetes.io/unschedulable:NoSchedule")
        .taint("dedicated=x:NoSchedule")
        .capacity("cpu", cpu)
        .capacity("memory", "16Gi")
        .capacity("pods", "110")
        .set("status.conditions", conditions)
        .set("status.images", json!([]))
}

fn config_map(name: &str, key: &str, text: &str) -> Value {
    resource("v1", "ConfigMap", name).set("data", json!({key: text})).json()
}

#[test]
fn kwok_groups_come_from_its_config_and_flags_from_the_deployment() {
    let derived = derive_node_groups(final_objects().iter());
    let expected =
        [("small", 1, 8, None), ("big", 0, 4, None), ("memory", 0, 5, None), ("batch", 0, 6, None)];
    assert_eq!(sizes(&derived), expected);
    assert_eq!(derived.origin, Some(NodeGroupsOrigin::Kwok));
    let batch = derived.groups[3].template.value().unwrap();
    assert_eq!(
        batch["spec"]["taints"],
        json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}])
    );
    assert_eq!(batch["metadata"]["name"], "kwok-fake-batch-template");
    assert_eq!(batch["spec"]["providerID"], "kwok:kwok-fake-batch-template");
    assert_eq!(batch["status"]["allocatable"]["cpu"], "8");
    for group in &derived.groups {
        let pods: Vec<Value> = group.template_pods.iter().map(|pod| pod.value().unwrap()).collect();
        assert_eq!((pods.len(), group.pods.len()), (1, 0));
        assert_eq!(pods[0]["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "100m"}));
        let key = "cluster-autoscaler.kwok.nodegroup/name".into();
        assert_eq!(group.members, Membership::Annotation { key, value: group.name.clone() });
        assert_eq!(group.provisioning.registers_after, Delay::Constant(Duration::ZERO));
    }
    let settings = derived.settings.unwrap();
    assert_eq!((settings.version, &*settings.cloud_provider), (Version::V1_36, "kwok"));
    assert_eq!(settings.expander, [Expander::LeastWaste]);
    let spans = [
        settings.scan_interval,
        settings.group_defaults.scale_down_unneeded_time,
        settings.scale_down_delay_after_add,
        settings.scale_down_delay_after_delete,
    ];
    assert_eq!(spans, [10, 40, 30, 10].map(Duration::from_secs));
    assert!(!settings.skip_nodes_with_local_storage && !settings.skip_nodes_with_system_pods);
    assert_eq!(settings.unsupported, [""; 0]);
    assert_eq!(derived.assumptions.len(), 1, "{:?}", derived.assumptions);
}

#[test]
fn the_taint_of_the_kwok_provider_is_added_unless_skipped() {
    let config = "readNodesFrom: configmap\nnodegroups: {fromNodeLabelKey: g}\nconfigmap: {name: t}\nnodes: {gpuConfig: {gpuLabelKey: gpu, availableGPUTypes: {a: {}}}}";
    let template = |name: &str, min: &str, group: &str| {
        format!(
            "kind: Node\napiVersion: v1\nmetadata: {{name: {name}, labels: {{g: {group}}}, annotations: {{cluster-autoscaler.kwok.nodegroup/min-count: '{min}'}}}}\n"
        )
    };
    let templates = [
        template("a", "2", "x"),
        template("b", "3", "x"),
        template("c", "300", "z"),
        template("d", "0", "''"),
    ];
    let derived = derived_from(&[
        config_map("kwok-provider-config", "config", config),
        config_map("t", "templates", &templates.join("---\n")),
    ]);
    assert_eq!(sizes(&derived), [("x", 2, 200, None)]);
    let taints = &derived.groups[0].template.value().unwrap()["spec"]["taints"];
    assert_eq!(*taints, json!([{"key": "kwok-provider", "value": "true", "effect": "NoSchedule"}]));
    assert_eq!(derived.assumptions[0], "node group z is ignored: invalid sizes: min 300, max 200");
    assert_eq!(&*derived.gpu_label, "gpu");
}

#[test]
fn status_groups_with_nodes_are_derived() {
    let mut objects = final_objects();
    objects.retain(|object| !object.meta().name.starts_with("kwok-provider"));
    let derived = derive_node_groups(objects.iter());
    assert_eq!(derived.origin, Some(NodeGroupsOrigin::Status));
    let groups: BTreeSet<(&str, i64, i64)> =
        derived.groups.iter().map(|group| (&*group.name, group.min, group.max)).collect();
    assert_eq!(groups, BTreeSet::from([("batch", 0, 6), ("big", 0, 4), ("memory", 0, 5), ("small", 1, 8)]));
    for group in &derived.groups {
        let Membership::Named(names) = &group.members else { panic!() };
        assert!(!names.is_empty() && names.iter().all(|name| name.starts_with(&*group.name)), "{names:?}");
        assert_eq!(group.template.value().unwrap()["metadata"]["labels"]["group"], *group.name);
    }
}

#[test]
fn status_groups_match_nodes_by_cloud_naming() {
    let migs = "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups";
    let status_group =
        |name: &str| json!({"name": name, "health": {"cloudProviderTarget": 2, "minSize": 1, "maxSize": 9}});
    let gke = format!("{migs}/gke-c-web-5f1c-grp");
    let names = [gke.as_str(), "eks-web-3ac5d0b1", "aks-work-14821733-vmss", "web", "web-big", "lonely"];
    let status = json!({"nodeGroups": names.map(status_group)}).to_string();
    let at = "2026-01-01T00:00:00Z";
    let nodes = [
        node("gke-c-web-5f1c-x8k2", at, json!({"cloud.google.com/gke-nodepool": "web"}), "4"),
        node("ip-10-0-0-1", at, json!({"eks.amazonaws.com/nodegroup": "3ac5d0b1"}), "4"),
        node("aks-work-14821733-vmss00000a", at, json!({}), "4"),
        node("web-1", at, json!({}), "4"),
        node("web-big-1", at, json!({}), "4"),
        node("other", at, json!({}), "4"),
    ];
    let map = config_map("cluster-autoscaler-status", "status", &status);
    let derived = derived_from(&[&nodes.map(NodeBuilder::json)[..], &[map]].concat());
    let members: Vec<&Membership> = derived.groups.iter().map(|group| &group.members).collect();
    // A label identifies later nodes too.
    let labeled = |key: &str, value: &str| Membership::Label { key: key.into(), value: value.into() };
    let expected = [
        labeled("cloud.google.com/gke-nodepool", "web"),
        labeled("eks.amazonaws.com/nodegroup", "3ac5d0b1"),
        named(&["aks-work-14821733-vmss00000a"]),
        named(&["web-1"]),
        named(&["web-big-1"]),
    ];
    assert_eq!(members, expected.iter().collect::<Vec<_>>());
    assert_eq!(sizes(&derived)[0], (gke.as_str(), 1, 9, Some(2)));
    assert_eq!(derived.assumptions[1], "groups without nodes have no template and never grow: lonely");
}

/// A pool over two zones, of which one has a node.
fn shoot() -> Vec<Value> {
    let machines = |zone: &str, replicas: i64| {
        let labels = json!({"worker.gardener.cloud/pool": "work", "topology.kubernetes.io/zone": zone});
        let taints = json!([{"key": "dedicated", "value": "work", "effect": "NoSchedule"}]);
        let template = json!({"metadata": {"labels": labels}, "spec": {"taints": taints}});
        let class = format!("class-{zone}");
        let api = "machine.sapcloud.io/v1alpha1";
        let deployment = resource(api, "MachineDeployment", &format!("work-{zone}"))
            .namespace("shoot")
            .set("spec.replicas", replicas)
            .set("spec.template.spec", json!({"class": {"name": class}, "nodeTemplate": template}));
        let capacity = json!({"cpu": "4", "gpu": "1", "memory": "16Gi"});
        let node = json!({"instanceType": "m5.xlarge", "region": "r", "zone": zone, "capacity": capacity});
        let class = resource(api, "MachineClass", &class)
            .namespace("shoot")
            .set("nodeTemplate", node)
            .set("providerSpec.tags", json!({"Name": "work", "a/b/c": "1"}));
        [deployment.json(), class.json()]
    };
    let pools = json!([{"name": "work", "minimum": 1, "maximum": 5, "zones": ["a", "b"]}]);
    let worker = resource("extensions.gardener.cloud/v1alpha1", "Worker", "w").namespace("shoot");
    let labels = json!({"worker.gardener.cloud/pool": "work", "topology.kubernetes.io/zone": "b"});
    let mut objects = [machines("a", 0), machines("b", 1)].concat();
    objects.push(worker.set("spec.pools", pools).json());
    objects.push(node("machine-b", "2026-01-01T00:00:00Z", labels, "3800m").json());
    objects
}

#[test]
fn machine_deployments_are_groups_of_the_size_of_their_share() {
    let derived = derived_from(&shoot());
    // Five over two zones: the first gets the remainder.
    assert_eq!(sizes(&derived), [("shoot.work-a", 1, 3, Some(0)), ("shoot.work-b", 0, 2, Some(1))]);
    assert_eq!(derived.groups[0].members, named(&[]));
    assert_eq!(derived.groups[1].members, named(&["machine-b"]));
    let a = derived.groups[0].template.value().unwrap();
    let allocatable = json!({"cpu": "3920m", "memory": "15Gi", "nvidia.com/gpu": "1", "pods": "110"});
    assert_eq!(a["status"]["allocatable"], allocatable);
    assert_eq!(a["spec"]["taints"][0]["key"], "dedicated");
    assert_eq!(
        a["metadata"]["labels"],
        json!({
            "Name": "work", "kubernetes.io/hostname": "shoot.work-a-template", "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "m5.xlarge", "topology.kubernetes.io/region": "r",
            "topology.kubernetes.io/zone": "a", "worker.gardener.cloud/pool": "work",
        })
    );
    assert_eq!(derived.groups[1].template.value().unwrap()["status"]["allocatable"]["cpu"], "3800m");
    assert_eq!(derived.assumptions.len(), 3);
}

#[test]
fn flags_give_machine_deployments_their_sizes() {
    let mut objects = shoot();
    let command = [
        "./cluster-autoscaler",
        "--expander=priority",
        "--max-empty-bulk-delete=3",
        "--nodes=1:7:shoot.work-a",
    ];
    let containers = json!([{"name": "cluster-autoscaler", "command": command}]);
    let deployment = resource("apps/v1", "Deployment", "cluster-autoscaler").namespace("shoot");
    objects.push(deployment.set("spec.template.spec.containers", containers).json());
    let derived = derived_from(&objects);
    assert_eq!(sizes(&derived), [("shoot.work-a", 1, 7, Some(0)), ("shoot.work-b", 0, 2, Some(1))]);
    assert_eq!(derived.settings.map(|settings| settings.version), Some(Version::V1_32));
}

#[test]
fn node_pools_become_groups_of_the_observed_instance_types() {
    let labels = |kind: &str, zone: &str| {
        json!({"karpenter.sh/nodepool": "general", "karpenter.sh/capacity-type": "spot",
            "node.kubernetes.io/instance-type": kind, "topology.kubernetes.io/zone": zone})
    };
    let requirements = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.4xlarge"]}]);
    let spec = json!({"limits": {"cpu": "20", "memory": "1Ti"}, "template": {"spec": {"requirements": requirements}}});
    let derived = derived_from(&[
        resource("karpenter.sh/v1", "NodePool", "general").set("spec", spec).json(),
        node("n1", "2026-01-01T00:00:00Z", labels("m5.large", "z1"), "2").json(),
        node("n2", "2026-01-02T00:00:00Z", labels("m5.large", "z1"), "2").json(),
        node("n3", "2026-01-01T00:00:00Z", labels("m5.large", "z2"), "2").json(),
    ]);
    let expected =
        [("general/m5.large/spot/z1", 0, 10, Some(2)), ("general/m5.large/spot/z2", 0, 10, Some(1))];
    assert_eq!(sizes(&derived), expected);
    assert_eq!(derived.groups[0].members, named(&["n1", "n2"]));
    assert_eq!(
        derived.assumptions[1],
        "no nodes of these instance types were recorded, so they have no node group: m5.4xlarge of general"
    );
}

#[test]
fn similar_nodes_form_a_group() {
    let labels = json!({"node.kubernetes.io/instance-type": "m5", "agentpool": "work", "kubernetes.io/hostname": "n1"});
    let young = node("n2", "2026-01-02T00:00:00Z", labels.clone(), "3").label("kubernetes.io/hostname", "n2");
    let not_ready =
        node("n3", "2026-01-03T00:00:00Z", labels.clone(), "5").set("status.conditions", json!([]));
    let master = json!({"node-role.kubernetes.io/control-plane": "", "agentpool": "work"});
    let nodes = [
        node("n1", "2026-01-01T00:00:00Z", labels, "4"),
        young,
        not_ready,
        node("master", "2026-01-01T00:00:00Z", master, "4"),
        node("alone", "2026-01-01T00:00:00Z", json!({}), "4"),
    ];
    let derived = derived_from(&nodes.map(NodeBuilder::json));
    assert_eq!(sizes(&derived), [("work/m5", 0, 30, None)]);
    assert_eq!(derived.origin, Some(NodeGroupsOrigin::Nodes));
    assert_eq!(derived.groups[0].members, named(&["n1", "n2", "n3"]));
    let amounts = json!({"cpu": "3", "memory": "16Gi", "pods": "110"});
    assert_eq!(
        derived.groups[0].template.value().unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "m5-template", "labels": {
                "node.kubernetes.io/instance-type": "m5", "agentpool": "work", "kubernetes.io/hostname": "m5-template",
            }},
            "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
        })
    );
    assert_eq!(derived.assumptions[2], "nodes without labels of a node group, assumed to be in none: alone");
}

#[test]
fn an_empty_cluster_has_no_groups() {
    let derived = derived_from(&[]);
    assert_eq!(derived.assumptions, ["no node groups found"]);
    assert_eq!((derived.groups.len(), derived.origin, derived.settings), (0, None, None));
}

/// With this provider nodes register before the loop that requests them has ended, and kwok makes them ready at once.
#[test]
fn provisioning_times_are_measured_from_a_recording() {
    let groups = derive_node_groups(final_objects().iter()).groups;
    let mut meter = ProvisioningMeter::new(&groups);
    for (at, what) in recorded_changes() {
        meter.observe(at, &what.into());
    }
    let found: Vec<(usize, usize)> = meter
        .finish()
        .into_iter()
        .map(|provisioning| {
            let provisioning = provisioning.unwrap();
            let (Delay::Samples(registers), Delay::Samples(ready)) =
                (provisioning.registers_after, provisioning.ready_after)
            else {
                panic!("both were measured");
            };
            // From the start of the loop, whose status is written 20 to 200 ms later.
            assert!(registers.iter().all(|span| *span < Duration::from_millis(200)), "{registers:?}");
            assert!(ready.iter().all(|span| *span < Duration::from_millis(100) && !span.is_zero()));
            (registers.len(), ready.len())
        })
        .collect();
    // As many as the Events request, `big` from 1 to 2 at 04:10 and again at 04:16; and as many as were recorded.
    assert_eq!(found, [(8, 13), (3, 5), (5, 5), (4, 4)]);
}
