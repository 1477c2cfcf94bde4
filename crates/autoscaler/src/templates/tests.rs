use model::{NamespacedName, Object};
use serde_json::{Value, json};
use testobjects::{Builder, NodeBuilder, ObjectBuilder, PodBuilder, resource};

use super::*;
use crate::informer_cache::DaemonSet;
use crate::settings::Version;
use crate::testing::{Harness, group};

const MINUTE: i64 = 60_000_000_000;
const NOW: Moment = Moment::from_nanos(1_000 * MINUTE);

/// A cluster with one group, `ng`.
struct Case(Harness);

fn case() -> Case {
    let mut settings = Settings::for_version(Version::V1_36);
    settings.node_info_cache_expire_time = Duration::from_secs(60);
    let mut harness = Harness::new(settings, NOW);
    // A node that cannot be parsed is not a template.
    let template = Object::from_trusted(testobjects::node("t").set("spec", 1).json().to_string());
    harness.add_group(NodeGroup { max: 10, template, ..group("ng") }, 0);
    Case(harness)
}

/// A node of the group with that many cores, ready or unready since that minute relative to now.
fn node(name: &str, cpu: i64, ready: bool, since: i64) -> NodeBuilder {
    let since = NOW.plus_nanos(since * MINUTE).timestamp();
    let node = testobjects::node(name)
        .provider_id(&format!("fake://ng/{name}"))
        .capacity("cpu", cpu)
        .allocatable("pods", 100);
    if ready { node.ready_since(since) } else { node.not_ready_since(since) }
}

/// The cloud provider's template.
fn provider_template(cpu: i64) -> NodeBuilder {
    node("t", cpu, true, 0)
}

/// A pod on the node `n`.
fn pod(name: &str) -> PodBuilder {
    testobjects::pod(name).namespace("kube-system").on("n")
}

fn daemon_set(name: &str, spec: Value) -> ObjectBuilder {
    resource("apps/v1", "DaemonSet", name).namespace("kube-system").set("spec.template.spec", spec)
}

impl Case {
    fn with<K>(mut self, object: Builder<K>) -> Case {
        self.0.apply(object.added());
        self
    }

    fn node(self, name: &str, cpu: i64, ready: bool, since: i64) -> Case {
        self.with(node(name, cpu, ready, since))
    }

    fn template(mut self, template: NodeBuilder) -> Case {
        self.0.cloud.groups[0].template = template.object();
        self
    }

    fn daemon_set(self, name: &str, spec: Value) -> Case {
        self.with(daemon_set(name, spec))
    }

    fn forget(mut self, name: &str) -> Case {
        self.0.apply(node(name, 0, true, 0).deleted());
        self
    }

    fn later(mut self, minutes: i64) -> Case {
        self.0.wait(minutes * 60);
        self
    }

    fn recompute(&mut self) -> Option<Arc<TemplateNodeInfo>> {
        self.0.recompute_templates();
        self.0.state.templates.get(GroupId(0)).cloned()
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

    /// The pods' names without the template's number.
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
            assert_eq!((&pod.scheduler_pod.name, &pod.scheduler_pod.uid), (&pod.name, &pod.uid));
            assert_eq!(pod.node_name.as_ref(), Some(&template.node.name));
        }
    }
}

/// Cases of cluster-autoscaler's own TestMixedNodeInfosProvider.
#[test]
fn a_good_node_precedes_the_cache_the_cloud_provider_and_a_bad_node() {
    case().check_cpu(None);
    case().node("n", 1, true, -2).check_cpu(Some(1));
    case().template(provider_template(1)).check_cpu(Some(1));
    case().node("n", 1, false, -2).check_cpu(Some(1));
    case().node("a-unready", 1, false, 0).node("ready", 2, true, -2).check_cpu(Some(2));
    case().node("n", 2, true, -2).template(provider_template(1)).check_cpu(Some(2));
    case().node("n", 1, false, 0).template(provider_template(2)).check_cpu(Some(2));
    case().node("n", 1, true, 0).template(provider_template(2)).check_cpu(Some(2));
    let going = node("n", 1, true, -2).taint("ToBeDeletedByClusterAutoscaler:NoSchedule");
    case().with(going).template(provider_template(2)).check_cpu(Some(2));
    let cordoned = node("n", 1, true, -2).cordoned();
    case().with(cordoned).template(provider_template(2)).check_cpu(Some(2));
}

#[test]
fn a_node_is_good_when_it_has_been_ready_for_more_than_a_minute() {
    let ready = |since| case().node("n", 1, true, since).template(provider_template(2));
    ready(-1).check_cpu(Some(2));
    ready(-2).check_cpu(Some(1));
}

#[test]
fn the_template_of_a_good_node_is_cached_for_a_while() {
    let cached = || {
        case()
            .node("n", 2, true, -2)
            .template(provider_template(3))
            .run()
            .forget("n")
            .node("bad", 4, false, 0)
    };
    cached().later(1).check_cpu(Some(2));
    cached().later(2).check_cpu(Some(3));
    cached().node("new", 5, true, -2).later(1).check_cpu(Some(5));
}

#[test]
fn a_template_has_a_unique_name_unless_it_is_cached() {
    let mut case = case().node("n", 2, true, -2);
    let first = case.recompute().unwrap();
    let second = case.recompute().unwrap();
    assert_eq!(&*first.node.name, "template-node-for-ng-1");
    assert_eq!(&*second.node.name, "template-node-for-ng-2");
    assert_eq!(second.node.label("kubernetes.io/hostname"), Some("template-node-for-ng-2"));
    let third = case.forget("n").recompute().unwrap();
    assert_eq!(third.node.name, second.node.name);
}

#[test]
fn only_templates_of_the_cloud_provider_get_deprecated_labels() {
    let labeled = |node: NodeBuilder| {
        node.label("node.kubernetes.io/instance-type", "small")
            .label("topology.kubernetes.io/region", "r")
            .label("topology.kubernetes.io/zone", "z")
    };
    let old = [
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    ];
    let cloud = case().template(labeled(provider_template(1))).recompute().unwrap();
    assert_eq!(old.map(|key| cloud.node.label(key)), [Some("small"), Some("r"), Some("z")]);
    assert_eq!(cloud.node.label("cluster-autoscaler.kubernetes.io/template-node"), Some("true"));
    let live = case().with(labeled(node("n", 1, true, -2))).recompute().unwrap();
    assert_eq!(old.map(|key| live.node.label(key)), [None; 3]);
    assert_eq!(live.node.label("cluster-autoscaler.kubernetes.io/template-node"), Some("true"));
}

#[test]
fn transient_taints_are_removed() {
    let node = [
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "node.kubernetes.io/memory-pressure",
        "node.cloudprovider.kubernetes.io/shutdown",
        "startup-taint.cluster-autoscaler.kubernetes.io/x",
        "mine",
        "status-taint.cluster-autoscaler.kubernetes.io/x",
        "gpu",
    ]
    .iter()
    .fold(node("n", 1, true, -2).cordoned(), |node, key| node.taint(&format!("{key}:NoSchedule")));
    let mut case = case().with(node);
    case.0.state.settings.startup_taints = vec!["mine".into()];
    let template = case.recompute().unwrap();
    let keys: Vec<&str> = template.node.taints.iter().map(|taint| &*taint.key).collect();
    assert_eq!(keys, ["gpu"]);
    assert!(template.node.unschedulable);
    // A change of settings means a new autoscaler without a cache.
    case.0.state.settings.scale_from_unschedulable = true;
    case.0.state.templates = TemplateNodeInfoProvider::default();
    let template = case.recompute().unwrap();
    assert!(!template.node.unschedulable);
}

/// Cases of cluster-autoscaler's own TestSanitizedTemplateNodeInfoFromNodeInfo.
#[test]
fn a_new_node_has_mirror_and_daemon_pods() {
    let deleted = |pod: PodBuilder| pod.terminating("2026-01-01T00:00:00Z");
    let mirror = |name: &str| pod(name).annotation("kubernetes.io/config.mirror", "x");
    let base = || case().node("n", 4, true, -2);
    let sets = |case: Case| {
        case.daemon_set("ds1", json!({}))
            .daemon_set("ds2", json!({}))
            .daemon_set("ds3", json!({"nodeSelector": {"key": "value"}}))
            .daemon_set("ds4", json!({"priorityClassName": "system-node-critical"}))
    };
    let forced = |mut case: Case| {
        case.0.state.settings.force_ds = true;
        case
    };
    base().check_pods(&[]);
    base().with(pod("p1")).check_pods(&[]);
    base().with(mirror("p1")).with(deleted(mirror("p2"))).check_pods(&["p1"]);
    let of_set = |name: &str, set: &str| pod(name).owner("DaemonSet", set);
    let two = || base().with(of_set("a", "ds1")).with(deleted(of_set("b", "ds2")));
    two().check_pods(&["a"]);
    sets(two()).check_pods(&["a", "ds4-pod"]);
    forced(two()).check_pods(&["a"]);
    forced(sets(two())).check_pods(&["a", "ds2-pod", "ds4-pod"]);
    let all = || two().with(pod("p1")).with(mirror("p3")).with(deleted(mirror("p4")));
    sets(all()).check_pods(&["a", "p3", "ds4-pod"]);
    forced(sets(all())).check_pods(&["a", "p3", "ds2-pod", "ds4-pod"]);
}

#[test]
fn a_critical_pod_that_may_not_preempt_is_not_added() {
    let spec = json!({"priorityClassName": "system-node-critical", "preemptionPolicy": "Never"});
    case().node("n", 4, true, -2).daemon_set("ds", spec).check_pods(&[]);
}

#[test]
fn daemon_sets_run_where_their_controller_would_run_them() {
    let tainted = provider_template(4).taint("gpu=yes:NoSchedule").label("foo", "bar");
    let check = |spec: Value, runs: bool| {
        let case = case().template(tainted.clone()).daemon_set("ds", spec);
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
    // Free resources are not checked.
    let much = json!([{"name": "c", "resources": {"requests": {"cpu": "100"}}}]);
    check(json!({"tolerations": tolerations, "containers": much}), true);
}

#[test]
fn pods_of_daemon_sets_tolerate_what_their_controller_adds() {
    let mut case = case().template(provider_template(1));
    let scalars = case.0.state.cluster.snapshot.filter_snapshot.scalars();
    let mut tolerated = |spec: Value| {
        let set = DaemonSet {
            name: NamespacedName { namespace: "kube-system".into(), name: "ds".into() },
            uid: "ds".into(),
            object: daemon_set("ds", spec).object(),
        };
        let pod = Pod::new(Arc::new(PodView::parse(&daemon_set_pods::pod_for(&set))), scalars);
        assert_eq!(pod.scheduler_pod.read_error, None);
        assert!(pod.is_daemon_set_pod());
        pod.scheduler_pod
            .spec
            .tolerations
            .iter()
            .map(|toleration| toleration.key.to_string())
            .collect::<Vec<_>>()
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
    let mut case = case().template(provider_template(1)).daemon_set("ds", json!({}));
    assert_eq!(case.recompute().unwrap().pods.len(), 1);
    let case = case.daemon_set("ds", json!({"nodeSelector": {"no": "where"}}));
    case.check_pods(&[]);
}

#[test]
fn pods_of_an_unchanged_node_are_reused() {
    let mut case = case().node("n", 4, true, -2).with(pod("a").owner("DaemonSet", "ds1"));
    let first = case.recompute().unwrap();
    let second = case.recompute().unwrap();
    assert!(Arc::ptr_eq(&first.pods[0], &second.pods[0]));
    let third = case.with(pod("b").owner("DaemonSet", "ds2")).recompute().unwrap();
    assert_eq!(third.pods.len(), 2);
}

#[test]
fn a_copy_has_other_names() {
    let mut case = case().node("n", 4, true, -2).with(pod("a").owner("DaemonSet", "ds1"));
    let copy = case.recompute().unwrap().copy("upcoming-0");
    assert_eq!(&*copy.node.name, "template-node-for-ng-1-upcoming-0");
    assert_eq!(copy.node.label("kubernetes.io/hostname"), Some("template-node-for-ng-1-upcoming-0"));
    assert_eq!(&*copy.pods[0].name.name, "a/1/upcoming-0");
    assert_eq!(copy.pods[0].node_name.as_ref(), Some(&copy.node.name));
}
