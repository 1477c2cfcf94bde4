use std::io::Cursor;

use model::{Moment, Object};
use serde_json::{Value, json};

use super::super::hashes::pod_hash;
use super::super::{ClusterSnapshot, NodeGroupInfo, NodeTemplate, ScalingResult, Scenario, read};
use crate::{ImportItem, Input, ReadOptions};

/// Printed by the replayer's own `Scenario` type.
const REPORT: &str = include_str!("../../../../../testdata/formats/gardener_scenario.json");

fn objects(text: &str) -> (Vec<Object>, Vec<String>) {
    let input = Input::open("file", Box::new(Cursor::new(text.as_bytes().to_vec()))).unwrap();
    let options = ReadOptions { source: "s".into(), at: None, now: Moment::from_nanos(7) };
    let (mut objects, mut warnings) = (Vec::new(), Vec::new());
    for item in read(input, options).unwrap() {
        match item.unwrap() {
            ImportItem::Change(change) => objects.push(change.what.object().clone()),
            ImportItem::Warning(warning) => warnings.push(warning),
            _ => {}
        }
    }
    (objects, warnings)
}

fn report() -> Value {
    serde_json::from_str(REPORT).unwrap()
}

fn cluster() -> ClusterSnapshot {
    ClusterSnapshot::of("2024-10-10T23:20:00Z".parse().unwrap(), &objects(REPORT).0)
}

fn scenario(cluster: ClusterSnapshot, result: ScalingResult) -> Scenario {
    let begin = "2024-10-10T23:20:00.5Z".parse().unwrap();
    Scenario { name: "live_proj_x".to_owned(), number: 3, begin, cluster, result }
}

fn written(scenario: &Scenario) -> String {
    let mut out = Vec::new();
    scenario.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The entries sorted by name, without row IDs.
fn entries(list: &Value) -> Vec<Value> {
    let mut entries: Vec<Value> = list.as_array().into_iter().flatten().cloned().collect();
    entries.iter_mut().for_each(|entry| entry["RowID"] = json!(0));
    let name = |entry: &Value| (entry["Name"].to_string(), entry["metadata"]["name"].to_string());
    entries.sort_by_key(name);
    entries
}

#[test]
fn the_replayers_report_is_reproduced() {
    let text = written(&scenario(cluster(), ScalingResult::default()));
    let ours: Value = serde_json::from_str(&text).unwrap();
    let (ours, theirs) = (&ours["ClusterSnapshot"], &report()["ClusterSnapshot"]);
    for list in ["Pods", "Nodes", "WorkerPools", "PriorityClasses"] {
        assert!(!entries(&theirs[list]).is_empty());
        assert_eq!(entries(&ours[list]), entries(&theirs[list]), "{list}");
    }
    let nodes = "ExistingNodes";
    assert_eq!(entries(&ours["AutoscalerConfig"][nodes]), entries(&theirs["AutoscalerConfig"][nodes]));
    let settings = |of: &Value| {
        let mut settings = of["AutoscalerConfig"]["CASettings"].clone();
        // In this report these sizes contradict those of the groups, and the time is not read.
        for field in ["NodeGroupsMinMax", "SnapshotTimestamp", "Hash"] {
            settings[field] = json!(null);
        }
        settings
    };
    assert_eq!(settings(ours), settings(theirs));
}

#[test]
fn fields_have_the_order_of_the_go_types() {
    let text = written(&scenario(cluster(), ScalingResult::default()));
    // The order of keys, except inside a pod's spec and maps.
    fn keys(text: &str, of: &str) -> Vec<String> {
        let start = text.find(&format!("\"{of}\"")).unwrap();
        let names = ["RowID", "CreationTimestamp", "SnapshotTimestamp", "ProviderID", "AllocatableVolumes"];
        let mut found: Vec<(usize, &str)> = names
            .iter()
            .filter_map(|name| Some((text[start..].find(&format!("\"{name}\""))?, *name)))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name.to_owned()).collect()
    }
    assert_eq!(keys(&text, "ExistingNodes"), keys(REPORT, "ExistingNodes"));
    assert!(text.starts_with(
        r#"{"BeginTime":"2024-10-10T23:20:00.5Z","ClusterSnapshot":{"ID":"live_proj_x-3","Number":3,"#
    ));
    let tail = r#""ScalingResult":{"ScaledUpNodeGroups":null,"ScaledUpNodes":null,"PendingUnscheduledPods":null,"NodesUtilization":null,"EmptyNodeNames":null,"ScheduledPods":null}}"#;
    assert!(text.ends_with(tail), "{text}");
    assert!(text.contains(r"text \u003c\u0026\u003e"), "as Go escapes");
}

#[test]
fn the_hash_of_the_snapshot_is_the_replayers() {
    let (cluster, report) = (cluster(), report());
    let theirs = &report["ClusterSnapshot"];
    let by_their_order = |list: &str| -> Vec<String> {
        theirs[list].as_array().unwrap().iter().map(|it| it["Name"].as_str().unwrap().to_owned()).collect()
    };
    let pods = cluster.pods();
    let pods: Vec<_> = by_their_order("Pods")
        .iter()
        .map(|name| *pods.iter().find(|pod| pod.meta.name == *name).unwrap())
        .collect();
    let order = by_their_order("Nodes");
    let mut cluster = cluster.clone();
    cluster.nodes.sort_by_key(|node| order.iter().position(|name| *name == node.meta.name));
    // The report's configuration was made by hand, without a hash.
    assert_eq!(cluster.hash("", &pods), theirs["Hash"].as_str().unwrap());
}

#[test]
fn groups_and_templates_have_the_expected_hashes() {
    let group = NodeGroupInfo {
        name: "ns.d".to_owned(),
        pool: "p1".to_owned(),
        zone: "z1".to_owned(),
        target: 3,
        min: 1,
        max: 4,
    };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "t", "labels": {"a": "b"}},
        "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "2", "memory": "8Gi"}}});
    let node = testobjects::object(&node);
    let template = NodeTemplate {
        instance_type: "m5.large".to_owned(),
        region: "eu-west-1".to_owned(),
        zone: "z1".to_owned(),
        ..NodeTemplate::of("ns.d", &node).unwrap()
    };
    // Computed by another program that follows the same rule.
    assert_eq!(group.hash(), "9a510958a2dc09b30fdc05b55b1a8f33");
    assert_eq!(template.hash(), "c73e976c813412ca406e15dbb9e758e6");
}

#[test]
fn reports_round_trip() {
    let mut before = cluster();
    before.node_groups.push(NodeGroupInfo {
        name: "ns.d".to_owned(),
        target: 1,
        max: 4,
        ..Default::default()
    });
    let leaving = before.scheduled_pods.last_mut().unwrap();
    leaving.meta.deleted = Some("2024-10-10T23:30:00Z".parse().unwrap());
    let mut after = before.clone();
    let node = after.nodes[0].clone();
    after.nodes.push(node);
    after.nodes[2].meta.name = "new".to_owned();
    let result = ScalingResult::between(&before, &after, |_| Some("ns.d".to_owned()));
    assert_eq!(result.scaled_up_node_groups.into_iter().collect::<Vec<_>>(), [("ns.d".to_owned(), 1)]);
    assert_eq!(result.empty_node_names, ["new"]);
    let result = ScalingResult::between(&before, &after, |_| None);
    assert!(result.scaled_up_nodes.is_empty(), "nothing was scaled up: it belongs to no group");
    let result = ScalingResult::between(&before, &after, |_| Some("ns.d".to_owned()));
    let (found, warnings) = objects(&written(&scenario(before.clone(), result)));
    let again = ClusterSnapshot::of(before.at, &found);
    for (one, other) in [
        (&before.unscheduled_pods, &again.unscheduled_pods),
        (&before.scheduled_pods, &again.scheduled_pods),
        (&before.nominated_pods, &again.nominated_pods),
    ] {
        let hashes = |pods: &[_]| pods.iter().map(pod_hash).collect::<Vec<_>>();
        assert_eq!((one, hashes(one)), (other, hashes(other)));
    }
    assert_eq!((before.nodes, before.priority_classes), (again.nodes, again.priority_classes));
    assert_eq!(again.machine_deployments[0].replicas, 1);
    let warning = "file: ScalingResult is from a simulation and was skipped: 1 nodes scaled up, 3 pods scheduled, 1 pods pending";
    assert_eq!(warnings, [warning]);
}

#[test]
fn files_are_named_as_the_replayer_names_them() {
    let scenario = scenario(ClusterSnapshot::default(), ScalingResult::default());
    assert_eq!(scenario.file_name(), "live_proj_x_ca-replay-3.json");
    let empty: Value = serde_json::from_str(&written(&scenario)).unwrap();
    assert_eq!(empty["ClusterSnapshot"]["Pods"], Value::Null);
    assert_eq!(empty["ClusterSnapshot"]["AutoscalerConfig"]["CASettings"]["ScanInterval"], json!(0));
}
