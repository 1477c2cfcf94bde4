//! Tests with malformed input: every field of valid input, replaced by invalid values.

use autoscaler::NodeGroups;
use model::Object;
use serde_json::{Value, json};
use testobjects::object;

use super::derive_node_groups;

/// A file of node groups that uses every field.
fn file() -> Value {
    json!({
        "gpuLabel": "gpu",
        "pricing": {"cpu": 0.03, "memory": 0.004},
        "settings": {"version": "1.36", "seed": 1, "expander": ["price"], "cores-total": "0:9", "gpu-total": ["a:0:1"]},
        "groups": [
            {
                "name": "a", "min": 0, "max": 3, "target": 1, "price": 0.1,
                "members": {"label": "pool", "value": "a"},
                "template": {
                    "cpu": 4, "memory": "16Gi", "pods": 110, "ephemeralStorage": "1Gi", "resources": {"x/y": 2},
                    "gpu": {"count": 1, "resource": "amd.com/gpu"}, "reserved": {"cpu": "80m"}, "zone": "z",
                    "labels": {"a": "b"}, "taints": ["a=b:NoSchedule"],
                },
                "options": {"scale-down-unneeded-time": "5m"},
                "provisioning": {"registersAfter": ["1s"], "readyAfter": "2s"},
                "failures": [{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "kind": "noInstance"}],
            },
            {
                "name": "b", "min": 0, "max": 3, "price": 0.1,
                "node": {"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"taints": []},
                    "status": {"capacity": {"cpu": "4", "pods": "9"}, "allocatable": {"cpu": "4", "pods": "9"}}},
                "pods": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}],
            },
        ],
    })
}

/// Clusters with each source of node groups.
fn clusters() -> [Vec<Value>; 4] {
    let labels = json!({
        "worker.gardener.cloud/pool": "work", "topology.kubernetes.io/zone": "a", "g": "x",
        "karpenter.sh/nodepool": "k", "node.kubernetes.io/instance-type": "m5",
    });
    let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": labels, "annotations": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"providerID": "x://g/n1", "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let map = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}, "data": data});
    let config = "{readNodesFrom: cluster, nodegroups: {fromNodeLabelKey: g}}";
    let status = "{nodeGroups: [{name: g, health: {cloudProviderTarget: 1, minSize: 0, maxSize: 4}}]}";
    let command = ["./cluster-autoscaler", "--cloud-provider=kwok", "--nodes=1:2:g"];
    let containers =
        json!([{"name": "cluster-autoscaler", "image": "ca:v1.36.1", "command": command, "args": ["--v=4"]}]);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": containers}}},
    });
    let template =
        json!({"metadata": {"labels": {"worker.gardener.cloud/pool": "work"}}, "spec": {"taints": []}});
    let machine = "machine.sapcloud.io/v1alpha1";
    let machines = json!({
        "apiVersion": machine, "kind": "MachineDeployment", "metadata": {"name": "m", "namespace": "s"},
        "spec": {"replicas": 1, "template": {"spec": {"class": {"name": "c"}, "nodeTemplate": template}}},
    });
    let class = json!({
        "apiVersion": machine, "kind": "MachineClass", "metadata": {"name": "c", "namespace": "s"},
        "nodeTemplate": {"instanceType": "m5", "region": "r", "zone": "a", "capacity": amounts},
        "providerSpec": {"labels": {"a": "b"}},
    });
    let worker = json!({
        "apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Worker", "metadata": {"name": "w", "namespace": "s"},
        "spec": {"pools": [{"name": "work", "minimum": 0, "maximum": 4, "zones": ["a", "b"]}]},
    });
    let requirements =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5"]}]);
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "k"},
        "spec": {"limits": {"cpu": "20", "nodes": 4}, "template": {"spec": {"requirements": requirements}}},
    });
    [
        vec![map("kwok-provider-config", json!({"config": config})), deployment, node.clone()],
        vec![machines, class, worker, node.clone()],
        vec![pool, node.clone()],
        vec![map("cluster-autoscaler-status", json!({"status": status})), node],
    ]
}

/// Calls `call` with the tree for every field of it and every invalid value.
fn each_change(tree: &Value, mut call: impl FnMut(&Value)) {
    let mut pointers = Vec::new();
    collect(tree, String::new(), &mut pointers);
    let odd = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("9999999999999999999"),
        json!("ünï/cödé:="),
        json!([]),
        json!([[], {}, null]),
        json!({}),
        json!({"a": {"b": []}}),
    ];
    for pointer in pointers {
        for value in &odd {
            let mut changed = tree.clone();
            *changed.pointer_mut(&pointer).expect("the pointer exists in the document") = value.clone();
            call(&changed);
        }
    }
}

fn collect(value: &Value, pointer: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{pointer}/{name}"), pointers);
            }
        }
        Value::Array(entries) => {
            for (index, value) in entries.iter().enumerate() {
                collect(value, format!("{pointer}/{index}"), pointers);
            }
        }
        _ => {}
    }
    pointers.push(pointer);
}

#[test]
fn a_file_is_read_or_refused() {
    NodeGroups::read(&file()).expect("the file is valid");
    let (mut read, mut refused) = (0, 0);
    each_change(&file(), |file| match NodeGroups::read(file) {
        Ok(_) => read += 1,
        Err(error) => {
            assert!(!error.why.is_empty() && !error.place.is_empty());
            refused += 1;
        }
    });
    assert!(read > 50 && refused > 500, "{read} read, {refused} refused");
}

#[test]
fn groups_are_derived_from_malformed_objects_where_possible() {
    for objects in clusters() {
        let derived = derive_node_groups(objects.iter().map(object).collect::<Vec<_>>().iter());
        assert_eq!(derived.groups.len(), 1, "{:?}", derived.assumptions);
        let mut group_count = 0;
        each_change(&json!(objects), |objects| {
            let objects: Vec<Object> = objects
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|object| Object::parse(&object.to_string()).ok())
                .collect();
            let derived = derive_node_groups(objects.iter());
            assert!(derived.groups.iter().all(|group| 0 <= group.min && group.min <= group.max));
            group_count += derived.groups.len();
        });
        assert!(group_count > 100);
    }
}
