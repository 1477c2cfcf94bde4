use model::{NamespacedName, Object, What};
use serde_json::{Value, json};

use super::*;
use crate::cloud::{CloudError, Instance, Pricing, Registered};
use crate::cluster::DaemonSet;
use crate::groups::{Membership, Provisioning};
use crate::settings::Version;

const MINUTE: i64 = 60_000_000_000;
const NOW: Moment = Moment::from_nanos(1_000 * MINUTE);

struct OnlyGroups(Vec<NodeGroup>);

impl Cloud for OnlyGroups {
    fn groups(&self) -> &[NodeGroup] {
        &self.0
    }
    fn group_of(&self, node: &Registered<'_>) -> Option<GroupId> {
        let name = node.label("group")?;
        self.0.iter().position(|group| *group.name == *name).map(|index| GroupId(index as u32))
    }
    fn target(&self, _: GroupId) -> i64 {
        0
    }
    fn instances(&self, _: GroupId) -> Arc<[Instance]> {
        Arc::default()
    }
    fn has_instance(&self, _: &Registered<'_>) -> Option<bool> {
        None
    }
    fn increase(&mut self, _: Moment, _: GroupId, _: i64) -> Result<(), CloudError> {
        Ok(())
    }
    fn delete(&mut self, _: Moment, _: GroupId, _: &[Arc<str>]) -> Result<(), CloudError> {
        Ok(())
    }
    fn decrease(&mut self, _: Moment, _: GroupId, _: i64) -> Result<(), CloudError> {
        Ok(())
    }
    fn pricing(&self) -> Option<&Pricing> {
        None
    }
    fn gpu_label(&self) -> &str {
        ""
    }
}

/// A cluster with one group, `ng`.
struct Case {
    settings: Settings,
    cloud: OnlyGroups,
    cluster: Cluster,
    templates: Templates,
    revision: u64,
    now: Moment,
}

fn object(value: Value) -> Object {
    Object::parse(&value.to_string()).unwrap()
}

fn case() -> Case {
    let mut settings = Settings::for_version(Version::V1_36);
    settings.node_info_cache_expire_time = Duration::from_secs(60);
    let cluster = Cluster::new(&settings);
    // What makes no sense is no template.
    let template = Object::trusted(
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "t"}, "spec": 1}).to_string(),
    );
    let group = NodeGroup {
        name: "ng".into(),
        min: 0,
        max: 10,
        target: None,
        members: Membership::Named(Default::default()),
        template,
        pods: Vec::new(),
        believed: Vec::new(),
        price: None,
        options: None,
        provisioning: Provisioning::default(),
        failures: Vec::new(),
    };
    Case {
        settings,
        cloud: OnlyGroups(vec![group]),
        cluster,
        templates: Templates::default(),
        revision: 0,
        now: NOW,
    }
}

fn node_json(name: &str, cpu: i64, ready: bool, since: i64, changes: Value) -> Value {
    let changed = NOW.plus_nanos(since * MINUTE).timestamp().to_string();
    let mut node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"group": "ng"}},
        "spec": {},
        "status": {"capacity": {"cpu": cpu}, "allocatable": {"cpu": cpu, "pods": 100}, "conditions": [
            {"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": changed}]}});
    merge(&mut node, changes);
    node
}

fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value,
    }
}

impl Case {
    fn with(mut self, value: Value) -> Case {
        self.cluster.apply(&What::Added(object(value)));
        self
    }

    /// A node of the group: its cores, whether it is ready and since which minute from now.
    fn node(self, name: &str, cpu: i64, ready: bool, since: i64) -> Case {
        self.with(node_json(name, cpu, ready, since, json!({})))
    }

    fn template(mut self, cpu: i64, changes: Value) -> Case {
        self.cloud.0[0].template = object(node_json("t", cpu, true, 0, changes));
        self
    }

    fn daemon_set(self, name: &str, spec: Value) -> Case {
        self.with(json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "kube-system", "uid": name},
            "spec": {"template": {"spec": spec}}}))
    }

    /// A pod on the node `n`, of a DaemonSet if one is named.
    fn pod(self, name: &str, daemon_set: &str, metadata: Value) -> Case {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "kube-system", "uid": name},
            "spec": {"nodeName": "n"}});
        if !daemon_set.is_empty() {
            pod["metadata"]["ownerReferences"] =
                json!([{"kind": "DaemonSet", "uid": daemon_set, "name": daemon_set, "controller": true}]);
        }
        merge(&mut pod["metadata"], metadata);
        self.with(pod)
    }

    fn forget(mut self, name: &str) -> Case {
        self.cluster.apply(&What::Deleted(object(node_json(name, 0, true, 0, json!({})))));
        self
    }

    fn later(mut self, minutes: i64) -> Case {
        self.now = self.now.plus_nanos(minutes * MINUTE);
        self
    }

    fn recompute(&mut self) -> Option<Arc<Template>> {
        let nodes: Vec<NodeId> = self.cluster.nodes().collect();
        let mut standing = vec![None; 100];
        for id in nodes {
            let node = self.cluster.snapshot.node(id);
            standing[id.index()] = Some(Standing::of(node, &self.settings, &self.cloud));
        }
        self.templates.recompute(
            &Clock::at(self.now),
            &self.settings,
            &self.cloud,
            &mut self.cluster,
            &standing,
            self.revision,
        );
        self.revision += 1;
        self.templates.get(GroupId(0)).cloned()
    }

    fn run(mut self) -> Case {
        self.recompute();
        self
    }

    #[track_caller]
    fn check_cpu(mut self, expected: Option<i64>) {
        let template = self.recompute();
        assert_eq!(template.map(|template| template.node.capacity.value("cpu")), expected);
    }

    /// The pods' names without the number that the template was given.
    #[track_caller]
    fn check_pods(mut self, expected: &[&str]) {
        let template = self.recompute().unwrap();
        let number = template.node.name.rsplit('-').next().unwrap().to_owned();
        let names: Vec<&str> = template
            .pods
            .iter()
            .map(|pod| pod.name.name.strip_suffix(&*format!("/{number}")).unwrap())
            .collect();
        assert_eq!(names, expected);
        for pod in &template.pods {
            assert_eq!((&pod.spec.name, &pod.spec.uid), (&pod.name, &pod.uid));
            assert_eq!(pod.node.as_ref(), Some(&template.node.name));
        }
    }
}

/// Cases of cluster-autoscaler's own TestMixedNodeInfosProvider.
#[test]
fn a_good_node_comes_before_memory_before_the_cloud_before_a_bad_node() {
    let none = json!({});
    case().check_cpu(None);
    case().node("n", 1, true, -2).check_cpu(Some(1));
    case().template(1, none.clone()).check_cpu(Some(1));
    case().node("n", 1, false, -2).check_cpu(Some(1));
    case().node("a-unready", 1, false, 0).node("ready", 2, true, -2).check_cpu(Some(2));
    case().node("n", 2, true, -2).template(1, none.clone()).check_cpu(Some(2));
    case().node("n", 1, false, 0).template(2, none.clone()).check_cpu(Some(2));
    case().node("n", 1, true, 0).template(2, none.clone()).check_cpu(Some(2));
    let taint =
        json!({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}});
    case().with(node_json("n", 1, true, -2, taint)).template(2, none.clone()).check_cpu(Some(2));
    let cordoned = json!({"spec": {"unschedulable": true}});
    case().with(node_json("n", 1, true, -2, cordoned)).template(2, none).check_cpu(Some(2));
}

#[test]
fn a_node_is_good_when_it_has_been_ready_for_more_than_a_minute() {
    let ready = |since| case().node("n", 1, true, since).template(2, json!({}));
    ready(-1).check_cpu(Some(2));
    ready(-2).check_cpu(Some(1));
}

#[test]
fn a_good_node_is_remembered_for_a_while() {
    let seen =
        || case().node("n", 2, true, -2).template(3, json!({})).run().forget("n").node("bad", 4, false, 0);
    seen().later(1).check_cpu(Some(2));
    seen().later(2).check_cpu(Some(3));
    seen().node("new", 5, true, -2).later(1).check_cpu(Some(5));
}

#[test]
fn a_template_has_a_name_of_its_own_unless_it_is_remembered() {
    let mut case = case().node("n", 2, true, -2);
    let first = case.recompute().unwrap();
    let second = case.recompute().unwrap();
    assert_eq!(&*first.node.name, "template-node-for-ng-1");
    assert_eq!(&*second.node.name, "template-node-for-ng-2");
    assert_eq!(second.node.label("kubernetes.io/hostname"), Some("template-node-for-ng-2"));
    assert_eq!(&second.node.spec.name, &second.node.name);
    assert_eq!(&second.node.spec.labels, &second.node.labels);
    let third = case.forget("n").recompute().unwrap();
    assert_eq!(third.node.name, second.node.name);
}

#[test]
fn only_the_cloud_s_templates_get_old_labels() {
    let labels = json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "small",
        "topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}}});
    let old = [
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    ];
    let cloud = case().template(1, labels.clone()).recompute().unwrap();
    assert_eq!(old.map(|key| cloud.node.label(key)), [Some("small"), Some("r"), Some("z")]);
    assert_eq!(cloud.node.label("cluster-autoscaler.kubernetes.io/template-node"), Some("true"));
    let live = case().with(node_json("n", 1, true, -2, labels)).recompute().unwrap();
    assert_eq!(old.map(|key| live.node.label(key)), [None; 3]);
    assert_eq!(live.node.label("cluster-autoscaler.kubernetes.io/template-node"), Some("true"));
}

#[test]
fn taints_of_the_moment_are_left_out() {
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    let taints = json!({"spec": {"unschedulable": true, "taints": [
        taint("ToBeDeletedByClusterAutoscaler"), taint("DeletionCandidateOfClusterAutoscaler"),
        taint("node.kubernetes.io/memory-pressure"), taint("node.cloudprovider.kubernetes.io/shutdown"),
        taint("startup-taint.cluster-autoscaler.kubernetes.io/x"), taint("mine"),
        taint("status-taint.cluster-autoscaler.kubernetes.io/x"), taint("gpu")]}});
    let mut case = case().with(node_json("n", 1, true, -2, taints));
    case.settings.startup_taints = vec!["mine".into()];
    let template = case.recompute().unwrap();
    let keys: Vec<&str> = template.node.taints.iter().map(|taint| &*taint.key).collect();
    assert_eq!(keys, ["gpu"]);
    assert_eq!(template.node.spec.taints.len(), 1);
    assert!(template.node.unschedulable && template.node.spec.unschedulable);
    // A change of settings is a new autoscaler, with nothing remembered.
    case.settings.scale_from_unschedulable = true;
    case.templates = Templates::default();
    let template = case.recompute().unwrap();
    assert!(!template.node.unschedulable && !template.node.spec.unschedulable);
}

/// Cases of cluster-autoscaler's own TestSanitizedTemplateNodeInfoFromNodeInfo.
#[test]
fn a_new_node_has_mirror_and_daemon_pods() {
    let deleted = || json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let mirror = || json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
    let mut deleted_mirror = deleted();
    merge(&mut deleted_mirror, mirror());
    let base = || case().node("n", 4, true, -2);
    let sets = |case: Case| {
        case.daemon_set("ds1", json!({}))
            .daemon_set("ds2", json!({}))
            .daemon_set("ds3", json!({"nodeSelector": {"key": "value"}}))
            .daemon_set("ds4", json!({"priorityClassName": "system-node-critical"}))
    };
    let forced = |mut case: Case| {
        case.settings.force_ds = true;
        case
    };
    base().check_pods(&[]);
    base().pod("p1", "", json!({})).check_pods(&[]);
    base().pod("p1", "", mirror()).pod("p2", "", deleted_mirror.clone()).check_pods(&["p1"]);
    let two = || base().pod("a", "ds1", json!({})).pod("b", "ds2", deleted());
    two().check_pods(&["a"]);
    sets(two()).check_pods(&["a", "ds4-pod"]);
    forced(two()).check_pods(&["a"]);
    forced(sets(two())).check_pods(&["a", "ds2-pod", "ds4-pod"]);
    let all = || two().pod("p1", "", json!({})).pod("p3", "", mirror()).pod("p4", "", deleted_mirror.clone());
    sets(all()).check_pods(&["a", "p3", "ds4-pod"]);
    forced(sets(all())).check_pods(&["a", "p3", "ds2-pod", "ds4-pod"]);
}

#[test]
fn a_critical_pod_that_may_not_preempt_is_like_others() {
    let spec = json!({"priorityClassName": "system-node-critical", "preemptionPolicy": "Never"});
    case().node("n", 4, true, -2).daemon_set("ds", spec).check_pods(&[]);
}

#[test]
fn daemon_sets_run_where_their_controller_would_run_them() {
    let tainted = json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
        "metadata": {"labels": {"foo": "bar"}}});
    let check = |spec: Value, runs: bool| {
        let case = case().template(4, tainted.clone()).daemon_set("ds", spec);
        case.check_pods(if runs { &["ds-pod"] } else { &[] });
    };
    let tolerations = json!([{"key": "gpu", "operator": "Exists"}]);
    check(json!({}), false);
    check(json!({"tolerations": tolerations}), true);
    check(json!({"tolerations": tolerations, "nodeSelector": {"foo": "bar"}}), true);
    check(json!({"tolerations": tolerations, "nodeSelector": {"foo": "baz"}}), false);
    check(json!({"tolerations": tolerations, "nodeName": "n"}), false);
    let affinity = |value: &str| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "foo", "operator": "In", "values": [value]}]}]}}})
    };
    check(json!({"tolerations": tolerations, "affinity": affinity("bar")}), true);
    check(json!({"tolerations": tolerations, "affinity": affinity("baz")}), false);
    // Room is not asked for.
    let much = json!([{"name": "c", "resources": {"requests": {"cpu": "100"}}}]);
    check(json!({"tolerations": tolerations, "containers": much}), true);
}

#[test]
fn pods_of_daemon_sets_tolerate_what_their_controller_adds() {
    let mut case = case().template(1, json!({}));
    let scalars = case.cluster.snapshot.trial.scalars();
    let mut tolerated = |spec: Value| {
        let set = DaemonSet {
            name: NamespacedName { namespace: "kube-system".into(), name: "ds".into() },
            uid: "ds".into(),
            object: object(json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"name": "ds", "namespace": "kube-system"}, "spec": {"template": {"spec": spec}}})),
        };
        let pod = Pod::read(&daemons::pod_of(&set), scalars);
        assert_eq!(pod.spec.trouble, None);
        assert!(pod.is_of_daemon_set());
        pod.spec.shape.tolerations.iter().map(|toleration| toleration.key.to_string()).collect::<Vec<_>>()
    };
    let host = tolerated(json!({"hostNetwork": true, "tolerations": [{"key": "own"}]}));
    let always =
        ["not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"];
    let always = always.map(|name| format!("node.kubernetes.io/{name}"));
    assert_eq!(tolerated(json!({})), always);
    assert_eq!(host[0], "own");
    assert_eq!(host[1..7], always);
    assert_eq!(host[7..], ["node.kubernetes.io/network-unavailable"]);
}

#[test]
fn a_changed_daemon_set_changes_the_template() {
    let mut case = case().template(1, json!({})).daemon_set("ds", json!({}));
    assert_eq!(case.recompute().unwrap().pods.len(), 1);
    let case = case.daemon_set("ds", json!({"nodeSelector": {"no": "where"}}));
    case.check_pods(&[]);
}

#[test]
fn an_unchanged_node_s_pods_are_not_made_again() {
    let mut case = case().node("n", 4, true, -2).pod("a", "ds1", json!({}));
    let first = case.recompute().unwrap();
    let second = case.recompute().unwrap();
    assert!(Arc::ptr_eq(&first.pods[0], &second.pods[0]));
    let third = case.pod("b", "ds2", json!({})).recompute().unwrap();
    assert_eq!(third.pods.len(), 2);
}

#[test]
fn a_copy_has_other_names() {
    let mut case = case().node("n", 4, true, -2).pod("a", "ds1", json!({}));
    let copy = case.recompute().unwrap().copy("upcoming-0");
    assert_eq!(&*copy.node.name, "template-node-for-ng-1-upcoming-0");
    assert_eq!(copy.node.label("kubernetes.io/hostname"), Some("template-node-for-ng-1-upcoming-0"));
    assert_eq!(&*copy.pods[0].name.name, "a/1/upcoming-0");
    assert_eq!(copy.pods[0].node.as_ref(), Some(&copy.node.name));
}
