use std::time::Duration;

use serde_json::{Value, json};

use super::NodeGroups;
use crate::Delay;
use crate::groups::{Membership, ProvisioningFailureKind};
use crate::settings::Expander;

/// The documentation's examples, with their number of groups.
const EXAMPLES: [(&str, &str, usize); 6] = [
    ("aws", include_str!("../../../../../examples/node-groups/aws.yaml"), 3),
    ("gcp", include_str!("../../../../../examples/node-groups/gcp.yaml"), 2),
    ("azure", include_str!("../../../../../examples/node-groups/azure.yaml"), 2),
    ("gardener", include_str!("../../../../../examples/node-groups/gardener.yaml"), 3),
    ("kwok", include_str!("../../../../../examples/node-groups/kwok.yaml"), 2),
    ("dlrm", include_str!("../../../../../examples/node-groups/dlrm.yaml"), 4),
];

fn example(name: &str) -> NodeGroups {
    let (_, text, _) = EXAMPLES.iter().find(|(other, ..)| *other == name).unwrap();
    NodeGroups::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn group() -> Value {
    json!({"name": "a", "min": 0, "max": 3, "template": {"cpu": 4, "memory": "16Gi", "pods": 110}})
}

/// A group with one field changed.
fn with(pointer: &str, value: Value) -> Value {
    let mut group = group();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    group.pointer_mut(parent).unwrap()[field] = value;
    group
}

#[track_caller]
fn check_error(document: Value, message: &str) {
    assert_eq!(NodeGroups::read(&document).unwrap_err().to_string(), message);
}

#[track_caller]
fn check_group_error(group: Value, message: &str) {
    check_error(json!({"groups": [group]}), message);
}

fn template(groups: &NodeGroups, index: usize) -> Value {
    groups.groups[index].template.value().unwrap()
}

#[test]
fn the_examples_are_read() {
    for (name, text, count) in EXAMPLES {
        let groups = NodeGroups::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(groups.groups.len(), count, "{name}");
        assert_eq!(groups.settings.unwrap().unsupported, [""; 0], "{name}");
    }
}

#[test]
fn a_template_is_written_out() {
    let aws = example("aws");
    assert_eq!(
        template(&aws, 1),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "eks-web-b-92f0c4e7-template", "labels": {
                "eks.amazonaws.com/capacityType": "ON_DEMAND", "eks.amazonaws.com/nodegroup": "web-b",
                "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "eks-web-b-92f0c4e7-template",
                "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m5.xlarge",
                "topology.kubernetes.io/region": "eu-west-1", "topology.kubernetes.io/zone": "eu-west-1b",
            }},
            "spec": {"taints": []},
            "status": {
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58", "ephemeral-storage": "80Gi"},
                "allocatable": {"cpu": "3920m", "memory": "15391Mi", "pods": "58", "ephemeral-storage": "80Gi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    );
    let gpu = template(&aws, 2);
    assert_eq!(gpu["status"]["allocatable"]["nvidia.com/gpu"], "1");
    assert_eq!(
        gpu["spec"]["taints"],
        json!([{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])
    );
    let gcp = template(&example("gcp"), 0);
    assert_eq!(gcp["metadata"]["name"], "gke-shop-default-pool-5f1c-grp-template");
    assert_eq!(gcp["status"]["allocatable"]["cpu"], "3920m");
    assert_eq!(gcp["status"]["allocatable"]["pods"], "110");
    let kwok = template(&example("kwok"), 0);
    assert_eq!(kwok["metadata"]["name"], "small-template");
    assert_eq!(kwok["status"]["allocatable"], kwok["status"]["capacity"]);
}

#[test]
fn all_fields_of_a_group_are_kept() {
    let aws = example("aws");
    let [web, _, gpu] = aws.groups.as_slice() else { panic!() };
    assert_eq!(
        (&*web.name, web.min, web.max, web.target, web.price),
        ("eks-web-a-3ac5d0b1", 1, 20, None, Some(0.192))
    );
    let label =
        |value: &str| Membership::Label { key: "eks.amazonaws.com/nodegroup".into(), value: value.into() };
    assert_eq!((&web.members, &gpu.members), (&label("web-a"), &label("gpu")));
    let Delay::Samples(spans) = &web.provisioning.registers_after else { panic!() };
    assert_eq!((spans.len(), spans[4]), (5, Duration::from_secs(75)));
    let options = gpu.options.as_ref().unwrap();
    assert_eq!(options.scale_down_unneeded_time, Some(Duration::from_secs(1800)));
    assert_eq!(options.scale_down_gpu_utilization_threshold, Some(0.3));
    assert_eq!(options.scale_down_unready_time, None);
    assert_eq!(&*aws.gpu_label, "k8s.amazonaws.com/accelerator");
    let pricing = aws.pricing.unwrap();
    assert_eq!((pricing.cpu, pricing.memory_gib), (0.0334, 0.0045));
    let failure = &example("gcp").groups[1].failures[0];
    assert_eq!(
        (failure.to.nanos_since(failure.from), failure.kind),
        (1_800_000_000_000, ProvisioningFailureKind::CreateError)
    );
    let kwok = example("kwok");
    assert_eq!((kwok.groups[0].target, kwok.groups[0].template_pods.len()), (Some(1), 1));
    assert!(kwok.groups[1].options.as_ref().unwrap().zero_or_max_node_scaling);
    assert_eq!(kwok.groups[1].provisioning.registers_after, Delay::Constant(Duration::ZERO));
    assert_eq!(example("gcp").settings.unwrap().expander, [Expander::Priority, Expander::LeastWaste]);
}

#[test]
fn a_bad_group_is_refused_by_the_path_of_its_field() {
    let pod_room = "required: without it no pod fits the node";
    for (pointer, value, message) in [
        ("/max", json!(-1), "groups[0].max: -1 is less than min, 0"),
        ("/min", json!(-1), "groups[0].min: -1 must not be negative"),
        ("/min", json!(4), "groups[0].max: 3 is less than min, 4"),
        ("/target", json!(-2), "groups[0].target: -2 must be from 0 to 100000"),
        ("/max", json!(100_001), "groups[0].max: 100001 is more than the maximum, 100000"),
        ("/name", json!(""), "groups[0].name: must not be empty"),
        ("/price", json!(-0.5), "groups[0].price: -0.5 must not be negative"),
        ("/template", Value::Null, "groups[0].template: required: describes the nodes of the group"),
        ("/node", json!({}), "groups[0].node: cannot be combined with template"),
        ("/template/cpu", json!(0), &format!("groups[0].template.cpu: {pod_room}")),
        ("/template/pods", Value::Null, &format!("groups[0].template.pods: {pod_room}")),
        ("/template/reserved", json!({"cpu": 4}), &format!("groups[0].template.cpu: {pod_room}")),
        ("/template/memory", json!("-1Gi"), "groups[0].template.memory: must not be negative"),
        (
            "/template/memory",
            json!("16 GB"),
            "groups[0].template.memory: invalid quantity \"16 GB\": not a number followed by a suffix; expected a number with an optional suffix, such as 500m, 1.5Gi or 12e6",
        ),
        (
            "/template/taints",
            json!(["a=b"]),
            "groups[0].template.taints[0]: \"a=b\" is not a taint such as dedicated=batch:NoSchedule",
        ),
        (
            "/template/zones",
            json!("z"),
            "groups[0].template.zones: unknown field `zones`, expected one of `cpu`, `memory`, `pods`, `ephemeralStorage`, `resources`, `gpu`, `reserved`, `allocatable`, `instanceType`, `region`, `zone`, `arch`, `os`, `labels`, `taints`",
        ),
        (
            "/members",
            json!({"label": "pool"}),
            "groups[0].members: expected label and value, annotation and value, providerIdPrefix, or names",
        ),
        (
            "/provisioning",
            json!({"readyAfter": "soon"}),
            "groups[0].provisioning.readyAfter: \"soon\" is not a duration such as 90s or 5m",
        ),
        (
            "/provisioning",
            json!({"readyAfter": []}),
            "groups[0].provisioning.readyAfter: expected a duration such as 90s, or a list of durations",
        ),
        (
            "/failures",
            json!([{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z", "kind": "noInstance"}]),
            "groups[0].failures[0].to: must be after from",
        ),
        (
            "/pods",
            json!([{"kind": "Pod"}]),
            "groups[0].pods[0]: not a Kubernetes object: missing field `apiVersion` at line 1 column 14",
        ),
    ] {
        check_group_error(with(pointer, value), &format!("invalid node groups: {message}"));
    }
}

#[test]
fn a_whole_node_is_checked_too() {
    let whole = |node: Value| json!({"name": "a", "min": 0, "max": 3, "node": node});
    check_group_error(
        whole(json!({})),
        "invalid node groups: groups[0].node.status.allocatable.cpu: required: without it no pod fits the node",
    );
    check_group_error(
        whole(json!({"kind": "Pod"})),
        "invalid node groups: groups[0].node.kind: must be Node, found \"Pod\"",
    );
    check_group_error(whole(json!("x")), "invalid node groups: groups[0].node: not a Node");
    check_group_error(
        whole(json!({"status": 5})),
        "invalid node groups: groups[0].node.status: expected an object",
    );
}

#[test]
fn rules_across_groups_are_checked() {
    check_error(json!([]), "invalid node groups: the document: expected an object with groups");
    check_error(
        json!({"groups": [group(), group()]}),
        "invalid node groups: groups[1].name: duplicate name \"a\", see groups[0]",
    );
    check_error(
        json!({"groups": [group()], "settings": {"expander": "cheapest"}}),
        "invalid node groups: settings.expander: unknown expander \"cheapest\": expected random, most-pods, least-waste, least-nodes, price or priority",
    );
    check_error(
        json!({"groups": [group()], "settings": {"expander": "price"}}),
        "invalid node groups: pricing: required by the expander price",
    );
    let pricing = json!({"cpu": 0.03, "memory": 0.004});
    check_error(
        json!({"groups": [group()], "settings": {"expander": "price"}, "pricing": pricing}),
        "invalid node groups: groups[0].price: required by the expander price",
    );
    check_error(
        json!({"groups": [], "pricing": {"cpu": -1.0, "memory": 0}}),
        "invalid node groups: pricing.cpu: -1 must not be negative",
    );
    let error = NodeGroups::parse("groups: [\n").unwrap_err();
    assert_eq!(error.place, "the document");
}
