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
    let pod_room = "there is none: no pod would fit such a node";
    for (pointer, value, message) in [
        ("/max", json!(-1), "-1 is less than min, 0 (groups[0].max)"),
        ("/min", json!(-1), "-1 is negative (groups[0].min)"),
        ("/min", json!(4), "3 is less than min, 4 (groups[0].max)"),
        ("/target", json!(-2), "-2 is not from 0 to 100000 (groups[0].target)"),
        ("/max", json!(100_001), "100001 is more than a group can have, 100000 (groups[0].max)"),
        ("/name", json!(""), "is empty (groups[0].name)"),
        ("/price", json!(-0.5), "-0.5 is negative: nobody pays for nodes to be taken (groups[0].price)"),
        ("/template", Value::Null, "is missing: what are new nodes like? (groups[0].template)"),
        ("/node", json!({}), "is there besides template: give one of them (groups[0].node)"),
        ("/template/cpu", json!(0), &format!("{pod_room} (groups[0].template.cpu)")),
        ("/template/pods", Value::Null, &format!("{pod_room} (groups[0].template.pods)")),
        ("/template/reserved", json!({"cpu": 4}), &format!("{pod_room} (groups[0].template.cpu)")),
        ("/template/memory", json!("-1Gi"), "is negative (groups[0].template.memory)"),
        (
            "/template/memory",
            json!("16 GB"),
            "\"16 GB\" is not a quantity: it is not a number followed by a suffix; give a number with an optional suffix, such as 500m, 1.5Gi or 12e6 (groups[0].template.memory)",
        ),
        (
            "/template/taints",
            json!(["a=b"]),
            "\"a=b\" is not a taint such as dedicated=batch:NoSchedule (groups[0].template.taints[0])",
        ),
        (
            "/template/zones",
            json!("z"),
            "unknown field `zones`, expected one of `cpu`, `memory`, `pods`, `ephemeralStorage`, `resources`, `gpu`, `reserved`, `allocatable`, `instanceType`, `region`, `zone`, `arch`, `os`, `labels`, `taints` (groups[0].template.zones)",
        ),
        (
            "/members",
            json!({"label": "pool"}),
            "give label and value, annotation and value, providerIdPrefix, or names (groups[0].members)",
        ),
        (
            "/provisioning",
            json!({"readyAfter": "soon"}),
            "\"soon\" is not a span of time such as 90s or 5m (groups[0].provisioning.readyAfter)",
        ),
        (
            "/provisioning",
            json!({"readyAfter": []}),
            "it takes a span of time such as 90s, or a list of such (groups[0].provisioning.readyAfter)",
        ),
        (
            "/failures",
            json!([{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z", "kind": "noInstance"}]),
            "is not after from (groups[0].failures[0].to)",
        ),
        (
            "/pods",
            json!([{"kind": "Pod"}]),
            "not a Kubernetes object: missing field `apiVersion` at line 1 column 14 (groups[0].pods[0])",
        ),
    ] {
        check_group_error(with(pointer, value), &format!("bad node groups: {message}"));
    }
}

#[test]
fn a_whole_node_is_checked_too() {
    let whole = |node: Value| json!({"name": "a", "min": 0, "max": 3, "node": node});
    check_group_error(
        whole(json!({})),
        "bad node groups: there is none: no pod would fit such a node (groups[0].node.status.allocatable.cpu)",
    );
    check_group_error(
        whole(json!({"kind": "Pod"})),
        "bad node groups: \"Pod\" is not Node (groups[0].node.kind)",
    );
    check_group_error(whole(json!("x")), "bad node groups: is not a Node (groups[0].node)");
    check_group_error(
        whole(json!({"status": 5})),
        "bad node groups: is not made of fields (groups[0].node.status)",
    );
}

#[test]
fn rules_across_groups_are_checked() {
    check_error(json!([]), "bad node groups: is not made of fields: give groups at least (the document)");
    check_error(
        json!({"groups": [group(), group()]}),
        "bad node groups: \"a\" is the name of groups[0] already (groups[1].name)",
    );
    check_error(
        json!({"groups": [group()], "settings": {"expander": "cheapest"}}),
        "bad node groups: there is no expander \"cheapest\": give random, most-pods, least-waste, least-nodes, price or priority (settings.expander)",
    );
    check_error(
        json!({"groups": [group()], "settings": {"expander": "price"}}),
        "bad node groups: is missing: the expander price asks what pods cost (pricing)",
    );
    let pricing = json!({"cpu": 0.03, "memory": 0.004});
    check_error(
        json!({"groups": [group()], "settings": {"expander": "price"}, "pricing": pricing}),
        "bad node groups: is missing: the expander price asks what nodes cost (groups[0].price)",
    );
    check_error(
        json!({"groups": [], "pricing": {"cpu": -1.0, "memory": 0}}),
        "bad node groups: -1 is negative: nobody pays for nodes to be taken (pricing.cpu)",
    );
    let error = NodeGroups::parse("groups: [\n").unwrap_err();
    assert_eq!(error.place, "the document");
}
