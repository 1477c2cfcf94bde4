//! Tests of whole virtual clusters, with a virtual clock.

mod autoscaling;
mod recording;
mod scheduling_annotations;
mod stages;
mod volumes;
mod workloads;

use std::time::Duration;

use apiserver::{DeleteOptions, PropagationPolicy, UpdatedPart};
use model::{Kind, Moment, NamespacedName};
use serde_json::{Value, json};

use crate::{
    AdvanceCancellation, AdvanceError, AdvanceTarget, ClusterClock, ComponentSet, ControlPlaneSettings,
    MAX_ADVANCE, NodeTemplate, VirtualCluster, VirtualClusterOptions,
};

const START: &str = "2026-11-02T14:20:00Z";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster with all components but the autoscaler.
fn cluster(nodes: usize) -> VirtualCluster {
    let components = ComponentSet { workloads: true, ..ComponentSet::default() };
    cluster_with(nodes, ControlPlaneSettings { components, ..ControlPlaneSettings::default() })
}

fn cluster_with(nodes: usize, control_plane: ControlPlaneSettings) -> VirtualCluster {
    let start: Moment = START.parse().unwrap();
    let cluster = VirtualCluster::start(VirtualClusterOptions {
        clock: ClusterClock::starting_at(start),
        control_plane,
        git_version: "v1.36.4".to_owned(),
        recording: None,
    });
    let cluster = cluster.unwrap();
    cluster.add_nodes(nodes, &NodeTemplate::default()).unwrap();
    cluster.settle();
    cluster.set_base();
    cluster
}

fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "busybox:1", "resources": resources}]},
    })
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": if kind == "Job" { "batch/v1" } else { "apps/v1" }, "kind": kind, "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
            },
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field.as_str()] = value.clone();
    }
    object
}

fn name(name: &str) -> NamespacedName {
    NamespacedName::new("default", name)
}

/// The field of every object of a kind in the namespace `default`, by name.
fn fields(cluster: &VirtualCluster, kind: &Kind, pointer: &str) -> Vec<String> {
    let objects = cluster.store().objects(kind);
    let field = |object: &model::Object| {
        let value = object.value().unwrap();
        value
            .pointer(pointer)
            .map_or("-".to_owned(), |field| field.as_str().map_or(field.to_string(), str::to_owned))
    };
    objects.range(Some("default"), None).map(field).collect()
}

fn phases(cluster: &VirtualCluster) -> Vec<String> {
    fields(cluster, &Kind::new("", "Pod"), "/status/phase")
}

/// The Events about an object, in the order of their names: reason, message, count.
fn events_about(cluster: &VirtualCluster, kind: &str, name: &str) -> Vec<(String, String, u64)> {
    let events = cluster.store().objects(&Kind::new("", "Event"));
    let events = events.iter().map(|event| event.value().unwrap());
    // Events are stored in the newer group.
    let regarding = |event: &Value| {
        let regarding =
            if event["regarding"].is_object() { &event["regarding"] } else { &event["involvedObject"] };
        (regarding["kind"].clone(), regarding["name"].clone())
    };
    let text = |event: &Value, newer: &str, older: &str| {
        event[newer].as_str().or(event[older].as_str()).unwrap_or_default().to_owned()
    };
    let count =
        |event: &Value| event["deprecatedCount"].as_u64().or(event["count"].as_u64()).unwrap_or_default();
    events
        .filter(|event| regarding(event) == (kind.into(), name.into()))
        .map(|event| (text(&event, "reason", "reason"), text(&event, "note", "message"), count(&event)))
        .collect()
}

#[test]
fn pods_are_scheduled_or_refused() {
    let cluster = cluster(2);
    cluster.create(pod("small", "1")).unwrap();
    cluster.create(pod("big", "100")).unwrap();
    let outcome = cluster.wait_until_decided(&[name("small"), name("big")], TIMEOUT);
    assert_eq!(outcome.scheduled.len(), 1);
    assert!(outcome.unschedulable.contains(&name("big")) && outcome.undecided.is_empty());
    cluster.settle();
    assert_eq!(phases(&cluster), ["Pending", "Running"]);
    let reasons = fields(&cluster, &Kind::new("", "Event"), "/reason");
    assert_eq!(reasons, ["FailedScheduling", "Scheduled"]);
    // A node that is large enough helps.
    let mut node = NodeTemplate::default().node(7);
    node["status"] = json!({"allocatable": {"cpu": "200", "memory": "1Ti", "pods": "10"}});
    cluster.create(node).unwrap();
    cluster.advance(AdvanceTarget::By(Duration::from_secs(20))).unwrap();
    assert_eq!(phases(&cluster), ["Running", "Running"]);
}

/// kvcl's profiles: NodeResourcesFit prefers the most allocated node, and NodeResourcesBalancedAllocation does not score.
#[test]
fn a_profile_spreads_pods_and_the_other_fills_nodes_up() {
    for (scheduler, expected) in [("default-scheduler", [2, 2]), ("bin-packing-scheduler", [0, 4])] {
        let cluster = cluster(2);
        for index in 0..4 {
            let mut pod = pod(&format!("p{index}"), "2");
            pod["spec"]["schedulerName"] = scheduler.into();
            pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = "2Gi".into();
            cluster.create(pod).unwrap();
            cluster.settle();
        }
        let nodes = fields(&cluster, &Kind::new("", "Pod"), "/spec/nodeName");
        let mut counts = ["node-0", "node-1"].map(|node| nodes.iter().filter(|name| *name == node).count());
        counts.sort_unstable();
        assert_eq!(counts, expected, "{scheduler}");
    }
}

#[test]
fn a_reset_restores_the_state_and_the_components() {
    let cluster = cluster(2);
    let base = cluster.store().objects(&Kind::new("", "Node")).len();
    cluster.create(pod("a", "30")).unwrap();
    cluster.create(pod("b", "30")).unwrap();
    cluster.settle();
    cluster
        .registry()
        .delete_object(&Kind::new("", "Node"), &NamespacedName::new("", "node-0"), &DeleteOptions::default())
        .unwrap();
    cluster.reset();
    cluster.settle();
    assert_eq!((phases(&cluster).len(), cluster.store().objects(&Kind::new("", "Node")).len()), (0, base));
    // The nodes are free again.
    cluster.create(pod("c", "30")).unwrap();
    cluster.create(pod("d", "30")).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Running", "Running"]);
}

#[test]
fn a_virtual_clock_moves_from_task_to_task() {
    let cluster = cluster(1);
    let mut late = pod("late", "1");
    late["metadata"]["annotations"] = json!({"pod-ready.stage.kwok.x-k8s.io/delay": "90s"});
    cluster.create(late).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Pending"]);
    let now = cluster.advance(AdvanceTarget::By(Duration::from_secs(60))).unwrap();
    assert_eq!(
        (now.to_string(), phases(&cluster)),
        ("2026-11-02T14:21:00Z".to_owned(), vec!["Pending".to_owned()])
    );
    let now = cluster.advance(AdvanceTarget::UntilIdle).unwrap();
    assert_eq!(
        (now.to_string(), phases(&cluster)),
        ("2026-11-02T14:21:30Z".to_owned(), vec!["Running".to_owned()])
    );
    let started = fields(&cluster, &Kind::new("", "Pod"), "/status/startTime");
    assert_eq!(started, ["2026-11-02T14:21:30Z"]);
}

#[test]
fn events_end_an_hour_after_their_last_change() {
    let cluster = cluster(1);
    cluster.create(pod("web-0", "1")).unwrap();
    cluster.settle();
    let kind = Kind::new("", "Event");
    let reasons = || fields(&cluster, &kind, "/reason");
    assert_eq!(reasons(), ["Scheduled"]);
    let advance =
        |minutes: u64| cluster.advance(AdvanceTarget::By(Duration::from_secs(60 * minutes))).unwrap();
    advance(30);
    let names = fields(&cluster, &kind, "/metadata/name");
    let changed = cluster.registry().update_object(&kind, &name(&names[0]), UpdatedPart::Object, |event| {
        event["metadata"]["labels"] = json!({"changed": "yes"});
        true
    });
    changed.unwrap();
    advance(59);
    assert_eq!(reasons(), ["Scheduled"]);
    advance(1);
    assert_eq!(reasons(), [""; 0]);
}

#[test]
fn a_cluster_is_not_idle_while_a_pod_waits_for_its_next_attempt() {
    let cluster = cluster(1);
    cluster
        .create(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000,
        }))
        .unwrap();
    cluster.create(pod("low", "20")).unwrap();
    cluster.settle();
    let mut high = pod("high", "20");
    high["spec"]["priorityClassName"] = "high".into();
    cluster.create(high).unwrap();
    // Its victim goes at once; the pod itself is tried again after its backoff.
    cluster.advance(AdvanceTarget::UntilIdle).unwrap();
    assert_eq!(fields(&cluster, &Kind::new("", "Pod"), "/metadata/name"), ["high"]);
    assert_eq!(phases(&cluster), ["Running"]);
}

#[test]
fn a_wall_clock_is_not_moved() {
    let cluster = VirtualCluster::start(VirtualClusterOptions::default()).unwrap();
    let refused = cluster.advance(AdvanceTarget::UntilIdle);
    assert_eq!(refused, Err(AdvanceError::RealClock));
}

#[test]
fn a_pod_ends_when_it_was_active_for_too_long() {
    let cluster = cluster(1);
    let mut limited = pod("limited", "1");
    limited["spec"]["activeDeadlineSeconds"] = 60.into();
    // The time begins when the pod starts.
    limited["metadata"]["annotations"] = json!({"pod-ready.stage.kwok.x-k8s.io/delay": "30s"});
    cluster.create(limited).unwrap();
    cluster.create(pod("other", "1")).unwrap();
    cluster.advance(AdvanceTarget::By(Duration::from_secs(89))).unwrap();
    assert_eq!(phases(&cluster), ["Running", "Running"]);
    cluster.advance(AdvanceTarget::By(Duration::from_secs(1))).unwrap();
    assert_eq!(phases(&cluster), ["Failed", "Running"]);
    let field = |pointer: &str| fields(&cluster, &Kind::new("", "Pod"), pointer).remove(0);
    assert_eq!(field("/status/reason"), "DeadlineExceeded");
    assert_eq!(field("/status/message"), "Pod was active on the node longer than the specified deadline");
    assert_eq!(field("/status/containerStatuses/0/state/terminated/finishedAt"), "2026-11-02T14:21:30Z");
    // A deadline that is made earlier counts.
    cluster
        .registry()
        .update_object(&Kind::new("", "Pod"), &name("other"), UpdatedPart::Object, |pod| {
            pod["spec"]["activeDeadlineSeconds"] = 1.into();
            true
        })
        .unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Failed", "Failed"]);
}

#[test]
fn nodes_have_addresses_of_their_own_which_their_pods_report() {
    let cluster = cluster(300);
    let nodes = cluster.store().objects(&Kind::new("", "Node"));
    let address = |node: &model::Object| {
        let node = node.value().unwrap();
        node["status"]["addresses"][0]["address"].as_str().unwrap().to_owned()
    };
    let addresses: std::collections::BTreeSet<String> = nodes.iter().map(address).collect();
    assert_eq!(addresses.len(), 300);
    cluster.create(pod("a", "1")).unwrap();
    cluster.settle();
    let node = fields(&cluster, &Kind::new("", "Pod"), "/spec/nodeName").remove(0);
    let node = cluster.registry().get(&Kind::new("", "Node"), &NamespacedName::new("", &*node)).unwrap();
    assert_eq!(fields(&cluster, &Kind::new("", "Pod"), "/status/hostIP"), [address(&node)]);
}

#[test]
fn the_service_of_the_api_server_comes_back_with_its_endpoints() {
    let cluster = cluster(0);
    for (kind, part, first) in [
        (Kind::new("", "Service"), "spec", "/spec/clusterIP"),
        (Kind::new("", "Endpoints"), "subsets", "/subsets/0/addresses/0/ip"),
        (Kind::new("discovery.k8s.io", "EndpointSlice"), "endpoints", "/endpoints/0/addresses/0"),
    ] {
        let object = || cluster.registry().get(&kind, &name("kubernetes")).unwrap().value().unwrap();
        let before = object();
        cluster.registry().delete_object(&kind, &name("kubernetes"), &DeleteOptions::default()).unwrap();
        cluster.settle();
        let after = object();
        assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
        assert_eq!(before[part], after[part]);
        assert!(after.pointer(first).unwrap().is_string(), "{after}");
    }
}

#[test]
fn workloads_have_pods_until_they_are_deleted() {
    let cluster = cluster(2);
    let selector = json!({"matchLabels": {"app": "web"}});
    cluster.create(workload("Deployment", "web", json!({"replicas": 3, "selector": selector}))).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Running"; 3]);
    let deployments = Kind::new("apps", "Deployment");
    assert_eq!(fields(&cluster, &deployments, "/status/readyReplicas"), ["3"]);
    cluster
        .registry()
        .update_object(&deployments, &name("web"), UpdatedPart::Object, |deployment| {
            deployment["spec"]["replicas"] = 1.into();
            true
        })
        .unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Running"]);
    let policy = Some(PropagationPolicy::Foreground);
    let options = DeleteOptions { propagation_policy: policy, ..DeleteOptions::default() };
    cluster.registry().delete_object(&deployments, &name("web"), &options).unwrap();
    cluster.settle();
    assert!(phases(&cluster).is_empty());
    assert!(fields(&cluster, &deployments, "/metadata/name").is_empty());
    assert!(fields(&cluster, &Kind::new("apps", "ReplicaSet"), "/metadata/name").is_empty());
}

#[test]
fn a_job_completes() {
    let cluster = cluster(1);
    let mut job = workload("Job", "once", json!({"completions": 2}));
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    cluster.create(job).unwrap();
    cluster.advance(AdvanceTarget::By(Duration::from_secs(10))).unwrap();
    assert_eq!(phases(&cluster), ["Succeeded"; 2]);
    assert_eq!(fields(&cluster, &Kind::new("batch", "Job"), "/status/succeeded"), ["2"]);
}

#[test]
fn a_cron_job_runs_its_jobs() {
    let cluster = cluster(1);
    let job = workload("Job", "tick", json!({"ttlSecondsAfterFinished": 3600}));
    let mut template = job["spec"].clone();
    template["template"]["spec"]["restartPolicy"] = "Never".into();
    cluster
        .create(json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
            "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": template}},
        }))
        .unwrap();
    cluster.advance(AdvanceTarget::By(Duration::from_secs(25 * 60))).unwrap();
    // At 14:30 and 14:40: the names are minutes since 1970.
    let jobs = Kind::new("batch", "Job");
    assert_eq!(fields(&cluster, &jobs, "/metadata/name"), ["tick-29893830", "tick-29893840"]);
    assert_eq!(fields(&cluster, &jobs, "/status/succeeded"), ["1", "1"]);
    assert_eq!(phases(&cluster), ["Succeeded", "Succeeded"]);
    let uids = fields(&cluster, &jobs, "/metadata/uid");
    assert_eq!(
        fields(&cluster, &jobs, "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid"),
        uids
    );
    let cron_jobs = Kind::new("batch", "CronJob");
    assert_eq!(fields(&cluster, &cron_jobs, "/status/lastScheduleTime"), ["2026-11-02T14:40:00Z"]);
    assert_eq!(fields(&cluster, &cron_jobs, "/status/active"), ["-"]);
}

/// A moment of a history, of which ReplicaSets were recorded, but no owners of the kinds of others.
#[test]
fn the_objects_that_a_cluster_begins_with_stay() {
    let cluster = VirtualCluster::prepare(VirtualClusterOptions {
        clock: ClusterClock::starting_at(START.parse().unwrap()),
        ..VirtualClusterOptions::default()
    });
    let cluster = cluster.unwrap();
    cluster.add_nodes(15, &NodeTemplate::default()).unwrap();
    let check_all_run = |cluster: &VirtualCluster| {
        let phases = phases(cluster);
        let running = phases.iter().filter(|phase| *phase == "Running").count();
        assert_eq!((running, phases.len()), (1_501, 1_501));
    };
    let object = |value: Value| model::Object::parse(&value.to_string()).unwrap();
    let pod_of = |index: usize, owner: Value| {
        let mut pod = pod(&format!("pod-{index:04}"), "10m");
        pod["metadata"]["uid"] = format!("uid-{index}").into();
        pod["metadata"]["namespace"] = "default".into();
        pod["metadata"]["ownerReferences"] = json!([owner]);
        object(pod)
    };
    let owner_of = |kind: &str, uid: &str| json!({"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": true});
    for index in 0..1_500 {
        cluster.import(&pod_of(index, owner_of("ReplicaSet", "web-uid"))).unwrap();
    }
    // It was not recorded.
    cluster.import(&pod_of(1_500, owner_of("StatefulSet", "other-uid"))).unwrap();
    let mut set = workload("ReplicaSet", "web", json!({"replicas": 1_500}));
    set["metadata"]["namespace"] = "default".into();
    set["metadata"]["uid"] = "web-uid".into();
    cluster.import(&object(set)).unwrap();

    let cluster = cluster.start().unwrap();
    assert!(cluster.settle());
    check_all_run(&cluster);
    // Later ones need owners that exist, of kinds that the cluster has.
    let mut created = Vec::new();
    for (index, owner) in [
        (2_000, owner_of("ReplicaSet", "web-uid")),
        (2_001, owner_of("ReplicaSet", "earlier-uid")),
        (2_002, owner_of("StatefulSet", "web-uid")),
        (2_003, owner_of("CloneSet", "web-uid")),
    ] {
        created.push(cluster.create(pod_of(index, owner).value().unwrap()).unwrap().meta().name.into_owned());
    }
    cluster.settle();
    let names = fields(&cluster, &Kind::new("", "Pod"), "/metadata/name");
    assert_eq!(names[1_501..], [created[0].clone(), created[3].clone()]);
    cluster.reset();
    cluster.settle();
    check_all_run(&cluster);
    // Their owner's deletion ends them.
    let sets = Kind::new("apps", "ReplicaSet");
    cluster.registry().delete_object(&sets, &name("web"), &DeleteOptions::default()).unwrap();
    cluster.advance(AdvanceTarget::By(Duration::from_secs(60))).unwrap();
    assert_eq!(phases(&cluster), ["Running"]);
}

#[test]
fn an_orphaned_replica_set_stays() {
    let cluster = cluster(1);
    let selector = json!({"matchLabels": {"app": "web"}});
    cluster.create(workload("Deployment", "web", json!({"replicas": 1, "selector": selector}))).unwrap();
    cluster.settle();
    let options =
        DeleteOptions { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteOptions::default() };
    cluster.registry().delete_object(&Kind::new("apps", "Deployment"), &name("web"), &options).unwrap();
    cluster.settle();
    let sets = Kind::new("apps", "ReplicaSet");
    assert_eq!(fields(&cluster, &sets, "/metadata/ownerReferences"), ["-"]);
    assert!(fields(&cluster, &Kind::new("apps", "Deployment"), "/metadata/name").is_empty());
    assert_eq!(phases(&cluster), ["Running"]);
}

#[test]
fn a_namespace_is_filled_and_emptied() {
    let cluster = cluster(1);
    cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).unwrap();
    cluster.settle();
    let accounts = cluster.store().objects(&Kind::new("", "ServiceAccount"));
    assert_eq!(accounts.range(Some("shop"), None).count(), 1);
    let mut pod = pod("a", "1");
    pod["metadata"]["namespace"] = "shop".into();
    cluster.create(pod).unwrap();
    cluster.settle();
    let namespaces = Kind::new("", "Namespace");
    cluster
        .registry()
        .delete_object(&namespaces, &NamespacedName::new("", "shop"), &DeleteOptions::default())
        .unwrap();
    cluster.settle();
    for kind in cluster.store().kinds() {
        assert_eq!(cluster.store().objects(&kind).range(Some("shop"), None).count(), 0, "{kind}");
    }
    assert!(cluster.store().objects(&namespaces).get(&NamespacedName::new("", "shop")).is_none());
}

#[test]
fn pods_of_deleted_and_tainted_nodes_go() {
    let cluster = cluster(2);
    let mut one = pod("one", "20");
    one["spec"]["tolerations"] =
        json!([{"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 40}]);
    cluster.create(one).unwrap();
    cluster.settle();
    cluster.create(pod("two", "20")).unwrap();
    cluster.settle();
    let nodes = fields(&cluster, &Kind::new("", "Pod"), "/spec/nodeName");
    assert_ne!(nodes[0], nodes[1]);
    let node_kind = Kind::new("", "Node");
    cluster
        .registry()
        .update_object(&node_kind, &NamespacedName::new("", &*nodes[0]), UpdatedPart::Object, |node| {
            node["spec"]["taints"] = json!([{"key": "broken", "effect": "NoExecute"}]);
            true
        })
        .unwrap();
    let second = NamespacedName::new("", &*nodes[1]);
    cluster.registry().delete_object(&node_kind, &second, &DeleteOptions::default()).unwrap();
    cluster.advance(AdvanceTarget::By(Duration::from_secs(39))).unwrap();
    assert_eq!(phases(&cluster).len(), 2);
    cluster.advance(AdvanceTarget::By(Duration::from_secs(2))).unwrap();
    assert_eq!(fields(&cluster, &Kind::new("", "Pod"), "/metadata/name"), ["two"]);
    cluster.advance(AdvanceTarget::By(Duration::from_secs(30))).unwrap();
    assert!(phases(&cluster).is_empty());
}

#[test]
fn the_same_writes_lead_to_the_same_cluster() {
    let run = || {
        let cluster = cluster(3);
        let selector = json!({"matchLabels": {"app": "web"}});
        cluster.create(workload("Deployment", "web", json!({"replicas": 5, "selector": selector}))).unwrap();
        cluster.advance(AdvanceTarget::By(Duration::from_secs(100))).unwrap();
        let pods = cluster.store().objects(&Kind::new("", "Pod"));
        pods.iter().map(|pod| pod.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// Runs an advance that takes very long, and does something while it runs. Returns its outcome, and the moment then.
fn interrupted_by(
    interrupt: impl FnOnce(&VirtualCluster, &AdvanceCancellation),
) -> Result<Moment, AdvanceError> {
    let cluster = cluster(1);
    let template = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never",
    }}}});
    let spec = json!({"schedule": "* * * * *", "jobTemplate": template});
    let job =
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec});
    cluster.create(job).unwrap();
    let changes = cluster.store().read_changes();
    let cancellation = AdvanceCancellation::default();
    let target = AdvanceTarget::By(MAX_ADVANCE);
    let outcome = std::thread::scope(|scope| {
        let advance = scope.spawn(|| cluster.advance_unless(target, cancellation.clone()));
        while cluster.now() < START.parse::<Moment>().unwrap().plus_nanos(120_000_000_000) {
            assert!(!advance.is_finished());
            changes.next(usize::MAX, TIMEOUT);
        }
        interrupt(&cluster, &cancellation);
        advance.join().unwrap()
    });
    if let Err(AdvanceError::Interrupted { at }) = outcome {
        assert_eq!(at, cluster.now());
    }
    outcome
}

#[test]
fn an_advance_ends_when_it_is_cancelled_and_with_a_reset_or_the_cluster() {
    for outcome in [
        interrupted_by(|_, cancellation| cancellation.cancel()),
        interrupted_by(|cluster, _| cluster.reset()),
        interrupted_by(|cluster, _| cluster.stop().unwrap()),
    ] {
        assert!(matches!(outcome, Err(AdvanceError::Interrupted { .. })), "{outcome:?}");
    }
}

#[test]
fn an_advance_has_an_upper_bound() {
    let cluster = cluster(0);
    let too_far = AdvanceTarget::By(MAX_ADVANCE + Duration::from_secs(1));
    assert_eq!(cluster.advance(too_far), Err(AdvanceError::TooFar));
    assert_eq!(cluster.now(), START.parse().unwrap());
    // An interruption is not one of later advances.
    cluster.reset();
    assert!(cluster.advance(AdvanceTarget::By(Duration::from_secs(60))).is_ok());
}
