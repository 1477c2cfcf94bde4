use std::sync::Arc;

use model::{Moment, Object, What};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::super::clock::Clock;
use super::super::cloud::{CloudError, Instance, Pricing, Registered};
use super::super::cluster::Cluster;
use super::super::decision::Action;
use super::super::groups::{Membership, NodeGroup, Provisioning};
use super::super::node::Node;
use super::super::pod::Pod;
use super::super::registry::Registry;
use super::super::settings::{GroupOptions, Settings};
use super::super::templates::Templates;
use super::super::{Cloud, Version};
use super::*;

/// A cloud and a cluster, and all that a search for new nodes needs besides.
pub(super) struct Fixture {
    pub settings: Settings,
    pub cloud: Fake,
    pub cluster: Cluster,
    pub registry: Registry,
    pub templates: Templates,
    pub events: Vec<Event>,
    actions: Vec<Action>,
}

/// A cloud that does as it is told, but for groups named in `refuses`.
pub(super) struct Fake {
    pub groups: Vec<NodeGroup>,
    pub targets: Vec<i64>,
    pub refuses: Vec<&'static str>,
    pub pricing: Option<Pricing>,
}

impl Cloud for Fake {
    fn groups(&self) -> &[NodeGroup] {
        &self.groups
    }
    fn group_of(&self, node: &Registered<'_>) -> Option<GroupId> {
        let group = node.provider_id();
        self.groups.iter().position(|other| &*other.name == group).map(|place| GroupId(place as u32))
    }
    fn target(&self, group: GroupId) -> i64 {
        self.targets[group.index()]
    }
    fn instances(&self, _: GroupId) -> Arc<[Instance]> {
        Arc::default()
    }
    fn has_instance(&self, _: &Registered<'_>) -> Option<bool> {
        None
    }
    fn increase(&mut self, _: Moment, group: GroupId, by: i64) -> Result<(), CloudError> {
        if self.refuses.contains(&&*self.groups[group.index()].name) {
            return Err(CloudError("no".to_owned()));
        }
        self.targets[group.index()] += by;
        Ok(())
    }
    fn delete(&mut self, _: Moment, _: GroupId, _: &[Arc<str>]) -> Result<(), CloudError> {
        Ok(())
    }
    fn decrease(&mut self, _: Moment, _: GroupId, _: i64) -> Result<(), CloudError> {
        Ok(())
    }
    fn pricing(&self) -> Option<&Pricing> {
        self.pricing.as_ref()
    }
    fn gpu_label(&self) -> &str {
        "gpu"
    }
}

impl Fixture {
    /// Groups by name, target, greatest size and template.
    pub(super) fn new(groups: &[(&str, i64, i64, Value)]) -> Fixture {
        let settings = Settings::default();
        let mut cluster = Cluster::new(&settings);
        let group = |(name, _, max, node): &(&str, i64, i64, Value)| NodeGroup {
            name: (*name).into(),
            min: 0,
            max: *max,
            target: None,
            members: Membership::Named(Default::default()),
            template: object(node),
            pods: Vec::new(),
            believed: Vec::new(),
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        };
        let template = |(_, _, _, node): &(&str, i64, i64, Value)| {
            Some(Arc::new(template(&mut cluster, &object(node), &[])))
        };
        Fixture {
            templates: Templates::these(groups.iter().map(template).collect()),
            cloud: Fake {
                groups: groups.iter().map(group).collect(),
                targets: groups.iter().map(|(_, target, ..)| *target).collect(),
                refuses: Vec::new(),
                pricing: None,
            },
            registry: Registry::at_ease(&settings, groups.len()),
            settings,
            cluster,
            events: Vec::new(),
            actions: Vec::new(),
        }
    }

    pub(super) fn with<T>(&mut self, what: impl FnOnce(&mut Context<'_>) -> T) -> T {
        what(&mut Context {
            clock: &Clock::at(Moment::default()),
            settings: &self.settings,
            cloud: &mut self.cloud,
            cluster: &mut self.cluster,
            registry: &mut self.registry,
            templates: &self.templates,
            standing: &[],
            revision: 0,
            marked: 0,
            dice: &mut Pcg64::seed_from_u64(0),
            events: &mut self.events,
            actions: &mut self.actions,
        })
    }

    pub(super) fn apply(&mut self, objects: impl IntoIterator<Item = Value>) {
        for value in objects {
            self.cluster.apply(&What::Added(object(&value)));
        }
    }

    /// Searches on behalf of all pods that wait.
    fn scale_up(&mut self) -> ScaleUp {
        let nodes: Vec<NodeId> = self.cluster.nodes().collect();
        self.cluster.snapshot.begin(nodes.clone());
        let pods: Vec<PodId> = self.cluster.waiting().collect();
        let answer = self.with(|context| {
            let answer = scale_up(context, &pods, &nodes);
            tell(context, &answer);
            answer
        });
        self.cluster.snapshot.end();
        answer
    }

    fn events(&self) -> Vec<String> {
        self.events.iter().map(|event| format!("{}: {}", event.reason, event.message)).collect()
    }
}

pub(super) fn object(value: &Value) -> Object {
    Object::parse(&value.to_string()).unwrap()
}

pub(super) fn template(cluster: &mut Cluster, node: &Object, pods: &[Object]) -> Template {
    let scalars = cluster.snapshot.trial.scalars();
    let node = Arc::new(Node::read(node, scalars));
    Template { node, pods: pods.iter().map(|pod| Arc::new(Pod::read(pod, scalars))).collect() }
}

/// A node; memory in MiB.
pub(super) fn node(name: &str, cpu: i64, memory: i64, pods: i64) -> Value {
    let amounts =
        json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi"), "pods": pods.to_string()});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}

/// A pod of a controller; memory in MiB.
pub(super) fn pod(name: &str, controller: &str, cpu: i64, memory: i64, spec: Value) -> Value {
    let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "universe", "name": name, "uid": name, "labels": {"app": controller},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": controller, "uid": controller, "controller": true},
            ],
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
    });
    if let (Some(into), Some(more)) = (pod["spec"].as_object_mut(), spec.as_object()) {
        into.extend(more.clone());
    }
    pod
}

pub(super) fn pods(controller: &str, count: usize, cpu: i64, memory: i64, spec: &Value) -> Vec<Value> {
    (0..count).map(|n| pod(&format!("{controller}-{n:05}"), controller, cpu, memory, spec.clone())).collect()
}

fn grown(answer: &ScaleUp) -> Vec<(&str, i64, i64)> {
    answer.increases.iter().map(|increase| (&*increase.group, increase.from, increase.to)).collect()
}

#[test]
fn pods_are_grouped_by_controller_and_shape_up_to_ten_groups() {
    let mut fixture = Fixture::new(&[]);
    for cpu in 1..=12 {
        fixture.apply([pod(&format!("a-{cpu:02}"), "a", cpu, 1, Value::Null)]);
    }
    // The eleventh and twelfth shapes are on their own, also when there are more pods like them.
    fixture.apply([pod("a-13", "a", 12, 1, Value::Null), pod("a-14", "a", 1, 1, Value::Null)]);
    let all: Vec<PodId> = fixture.cluster.waiting().collect();
    let sizes: Vec<usize> =
        PodGroup::all(&fixture.cluster.snapshot, &all).iter().map(|group| group.pods.len()).collect();
    assert_eq!(sizes, [2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn the_chosen_group_grows_and_everybody_is_told() {
    let mut fixture = Fixture::new(&[
        ("large", 1, 10, node("large", 4000, 8000, 10)),
        ("small", 0, 10, node("small", 1000, 2000, 10)),
        ("full", 3, 3, node("full", 1000, 2000, 10)),
    ]);
    fixture.apply(pods("a", 3, 900, 1000, &Value::Null));
    fixture.apply([pod("b-1", "b", 9000, 1, Value::Null)]);
    fixture.apply([pod("c-1", "c", 2000, 1, Value::Null)]);
    fixture.settings.expander = vec![super::super::settings::Expander::MostPods];
    let answer = fixture.scale_up();
    assert_eq!(answer.result, ScaleUpResult::Successful);
    assert_eq!(answer.best.as_deref(), Some("large"));
    // Two of the smaller pods fit beside the larger one.
    assert_eq!(grown(&answer), [("large", 1, 3)]);
    assert_eq!(answer.triggered.len(), 4);
    assert_eq!(answer.remaining.len(), 1);
    let remaining = &answer.remaining[0];
    assert_eq!(remaining.rejected["large"], ["Insufficient cpu"]);
    assert_eq!(remaining.skipped["full"], ["max node group size reached"]);
    assert!(answer.awaiting.is_empty());
    // What a group says of a pod is told though another one helps it.
    let helped =
        answer.looked_at.iter().find(|same| same.pods.iter().any(|pod| &*pod.name == "c-1")).unwrap();
    assert_eq!(helped.rejected.keys().map(|group| &**group).collect::<Vec<_>>(), ["small"]);
    assert_eq!(helped.rejected["small"], ["Insufficient cpu"]);
    let events = fixture.events();
    assert_eq!(events[0], "ScaledUpGroup: Scale-up: setting group large size to 3 instead of 1 (max: 10)");
    assert_eq!(events[1], "ScaledUpGroup: Scale-up: group large size set to 3 instead of 1 (max: 10)");
    // Nobody is told that it triggered nothing in a loop in which something grew.
    assert_eq!(events[2..], vec!["TriggeredScaleUp: pod triggered scale-up: [{large 1->3 (max: 10)}]"; 4]);
}

#[test]
fn pods_that_nobody_helps_are_told_how_many_groups_say_why() {
    let mut fixture = Fixture::new(&[
        ("a", 0, 10, node("a", 1000, 2000, 10)),
        ("b", 0, 10, node("b", 1000, 2000, 10)),
        ("c", 3, 3, node("c", 1000, 2000, 10)),
    ]);
    fixture.apply([pod("x", "x", 9000, 9000, Value::Null)]);
    let answer = fixture.scale_up();
    assert_eq!(answer.result, ScaleUpResult::NoOptionsAvailable);
    assert_eq!(
        fixture.events(),
        ["NotTriggerScaleUp: pod didn't trigger scale-up: 2 Insufficient cpu, 2 Insufficient memory, \
          1 max node group size reached"]
    );
}

#[test]
fn pods_that_another_group_could_help_await() {
    let mut fixture =
        Fixture::new(&[("a", 0, 10, node("a", 1000, 2000, 10)), ("b", 0, 10, node("b", 8000, 2000, 10))]);
    fixture.apply([pod("x", "x", 500, 1, json!({"nodeSelector": {"kubernetes.io/hostname": "a"}}))]);
    fixture.apply([pod("y", "y", 8000, 1, Value::Null)]);
    let answer = fixture.scale_up();
    // A selector for the template's own name is of no use to the nodes made from it.
    assert_eq!(answer.options.len(), 1);
    assert_eq!(answer.best.as_deref(), Some("b"));
    assert_eq!(answer.awaiting.len(), 1);
    assert_eq!(&*answer.awaiting[0].name, "x");
}

#[test]
fn the_whole_cluster_has_limits() {
    let groups = [("a", 0, 10, node("a", 2000, 4096, 10))];
    let with = |set: &dyn Fn(&mut Settings)| {
        let mut fixture = Fixture::new(&groups);
        fixture.apply([node("old", 1500, 1024, 10)]);
        fixture.apply(pods("x", 5, 2000, 1, &Value::Null));
        set(&mut fixture.settings);
        let answer = fixture.scale_up();
        (answer, fixture.events())
    };
    let (answer, _) = with(&|settings| settings.max_nodes_total = 4);
    assert_eq!(grown(&answer), [("a", 0, 3)]);
    // Cores are rounded up: the old node has two.
    let (answer, _) = with(&|settings| settings.cores_total.max = 7);
    assert_eq!(grown(&answer), [("a", 0, 2)]);
    let (answer, _) = with(&|settings| settings.memory_total.max = 9);
    assert_eq!(grown(&answer), [("a", 0, 2)]);
    let (answer, _) = with(&|settings| {
        settings.cores_total.max = 3;
        settings.memory_total.max = 4;
    });
    let reason = "exceeded quota: \"cluster-wide\", resources: cpu, memory";
    assert_eq!(answer.skipped["a"], [reason]);
    let (answer, _) = with(&|settings| settings.max_nodes_per_scaleup = 2);
    assert_eq!(grown(&answer), [("a", 0, 2)]);
    let (answer, _) = with(&|settings| settings.max_nodes_total = 1);
    assert_eq!(answer.result, ScaleUpResult::NoOptionsAvailable);
}

#[test]
fn a_group_of_all_or_none_gets_all() {
    let mut fixture = Fixture::new(&[("a", 0, 4, node("a", 1000, 4000, 10))]);
    let options = GroupOptions { zero_or_max_node_scaling: true, ..GroupOptions::default() };
    fixture.cloud.groups[0].options = Some(options);
    fixture.apply(pods("x", 1, 500, 1, &Value::Null));
    assert_eq!(grown(&fixture.scale_up()), [("a", 0, 4)]);
    fixture.cloud.targets[0] = 0;
    fixture.settings.max_nodes_total = 3;
    assert_eq!(fixture.scale_up().skipped["a"], ["atomic scale-up exceeds cluster node count limit"]);
}

#[test]
fn a_refusal_is_an_error_and_later_groups_are_lost_with_it() {
    let like = |name: &str| node(name, 1000, 4000, 10);
    let mut fixture = Fixture::new(&[("a", 0, 4, like("a")), ("b", 0, 4, like("b")), ("c", 0, 4, like("c"))]);
    fixture.settings.balance_similar_node_groups = true;
    fixture.cloud.refuses = vec!["b"];
    fixture.apply(pods("x", 3, 600, 1, &Value::Null));
    let answer = fixture.scale_up();
    assert_eq!(answer.result, ScaleUpResult::Error);
    assert_eq!(answer.error.as_deref(), Some("failed to increase node group size: no"));
    assert_eq!(fixture.cloud.targets, [1, 0, 0]);
    assert_eq!(answer.failed_groups, ["b".into()]);
    // The first group did grow: it is not all lost for the pods.
    assert!(answer.remaining.is_empty() && answer.increases.is_empty());
    assert_eq!(answer.triggered.len(), 3);
    assert!(fixture.events().contains(&"FailedToScaleUpGroup: Scale-up failed for group b: no".to_owned()));

    fixture.cloud.targets = vec![0; 3];
    fixture.cloud.refuses = vec!["a"];
    let answer = fixture.scale_up();
    assert_eq!(answer.remaining.len(), 3);
    assert_eq!(answer.remaining[0].rejected["c"], ["scale-up execution failed"]);
}

#[test]
fn groups_below_their_least_size_grow() {
    let mut fixture =
        Fixture::new(&[("a", 1, 9, node("a", 1000, 4000, 10)), ("b", 2, 9, node("b", 1000, 4000, 10))]);
    fixture.cloud.groups[0].min = 3;
    fixture.cloud.groups[1].min = 2;
    let answer = fixture.with(|context| to_min_size(context, &[]));
    assert_eq!(grown(&answer), [("a", 1, 3)]);
    let answer = fixture.with(|context| to_min_size(context, &[]));
    assert_eq!(answer.result, ScaleUpResult::NotNeeded);
}

#[test]
fn similar_groups_share_new_nodes() {
    let mut fixture = Fixture::new(&[
        ("a", 2, 10, node("a", 1000, 4000, 10)),
        ("b", 0, 10, node("b", 1000, 4000, 10)),
        ("c", 0, 10, node("c", 1000, 8000, 10)),
    ]);
    fixture.settings.balance_similar_node_groups = true;
    fixture.settings.version = Version::V1_36;
    fixture.apply(pods("x", 4, 600, 3000, &Value::Null));
    let answer = fixture.scale_up();
    // The new nodes of the two are the same: the first by name is taken, and the smaller grows first.
    assert!(answer.choice[0].tie);
    assert_eq!(answer.options[0].similar, ["b".into()]);
    assert_eq!(grown(&answer), [("b", 0, 3), ("a", 2, 3)]);
}
