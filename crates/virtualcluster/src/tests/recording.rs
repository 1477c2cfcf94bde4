//! Tests of clusters that are recorded.

use history::{History, Selection};
use model::{Change, Window};

use super::*;
use crate::RecordingOptions;

/// A recorded cluster of one node.
fn recorded_cluster(path: &std::path::Path) -> VirtualCluster {
    let components = ComponentSet { workloads: true, ..ComponentSet::default() };
    let cluster = VirtualCluster::start(VirtualClusterOptions {
        clock: ClusterClock::starting_at(START.parse().unwrap()),
        control_plane: ControlPlaneSettings { components, ..ControlPlaneSettings::default() },
        git_version: "v1.36.4".to_owned(),
        recording: Some(RecordingOptions {
            path: path.to_owned(),
            source: "lab".into(),
            redaction: None,
            settings: Vec::new(),
        }),
    });
    let cluster = cluster.unwrap();
    cluster.add_nodes(1, &NodeTemplate::default()).unwrap();
    cluster.settle();
    cluster.set_base();
    cluster
}

fn changes(path: &std::path::Path) -> Vec<Change> {
    let history = History::open(path).unwrap();
    let everything = Window { from: Moment::MIN, to: Moment::MAX };
    history.between(everything, &Selection::default()).unwrap().map(Result::unwrap).collect()
}

/// The objects of a kind at a moment, with a field of each.
fn recorded_fields(path: &std::path::Path, kind: &Kind, at: &str, pointer: &str) -> Vec<(String, Value)> {
    let history = History::open(path).unwrap();
    let selection = Selection { kinds: Some(vec![kind.clone()]), ..Selection::default() };
    let mut found = Vec::new();
    history
        .for_each_at(at.parse().unwrap(), &selection, |version| {
            let value = version.object.value().unwrap();
            let field = value.pointer(pointer).cloned().unwrap_or_default();
            found.push((version.key.name.to_string(), field));
        })
        .unwrap();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn a_recording_has_every_change_at_the_time_of_the_clusters_clock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.kine");
    let cluster = recorded_cluster(&path);
    let mut late = pod("late", "1");
    late["metadata"]["annotations"] = json!({"pod-ready.stage.kwok.x-k8s.io/delay": "90s"});
    cluster.create(late).unwrap();
    cluster.advance(AdvanceTarget::By(Duration::from_secs(3600))).unwrap();
    // The last change before the end is in it.
    cluster.create(pod("last", "1")).unwrap();
    cluster.stop().unwrap();

    let pods = Kind::new("", "Pod");
    let phase = |at: &str| recorded_fields(&path, &pods, at, "/status/phase");
    assert_eq!(phase("2026-11-02T14:21:29Z"), [("late".to_owned(), json!("Pending"))]);
    assert_eq!(phase("2026-11-02T14:21:30Z"), [("late".to_owned(), json!("Running"))]);
    let names: Vec<String> = phase("2026-11-02T15:20:00Z").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["last", "late"]);
    let nodes = recorded_fields(&path, &Kind::new("", "Node"), START, "/status/conditions/0/status");
    assert_eq!(nodes, [("node-0".to_owned(), json!("True"))]);
    let events = Kind::new("events.k8s.io", "Event");
    // They end after an hour.
    let reasons = recorded_fields(&path, &events, "2026-11-02T14:30:00Z", "/reason");
    assert!(reasons.iter().any(|(_, reason)| reason == "Scheduled"), "{reasons:?}");
    let version =
        recorded_fields(&path, &Kind::new("kinescope.io", "ServerVersion"), START, "/version/gitVersion");
    assert_eq!(version, [("version".to_owned(), json!("v1.36.4"))]);
    for change in changes(&path) {
        assert!(change.at >= START.parse().unwrap() && change.at <= "2026-11-02T15:20:00Z".parse().unwrap());
    }
}

#[test]
fn secrets_heartbeats_and_kinds_that_a_recorder_does_not_watch_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.kine");
    let cluster = recorded_cluster(&path);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "hidden"}});
    cluster.create(secret).unwrap();
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"p": "hidden"}});
    cluster.create(map).unwrap();
    let lease = |namespace: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "l", "namespace": namespace}, "spec": {"holderIdentity": "x"},
        })
    };
    cluster.create(lease("kube-node-lease")).unwrap();
    cluster.create(lease("kube-system")).unwrap();
    cluster.stop().unwrap();
    let recorded = changes(&path);
    let of_kind = |kind: &str| recorded.iter().filter(|change| &*change.key.kind.kind == kind).count();
    assert_eq!((of_kind("Secret"), of_kind("ServiceAccount"), of_kind("Lease")), (0, 0, 1));
    assert!(recorded.iter().all(|change| !change.what.object().as_str().contains("hidden")));
}

#[test]
fn a_reset_is_recorded_as_the_changes_that_it_makes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.kine");
    let cluster = recorded_cluster(&path);
    cluster.create(pod("a", "1")).unwrap();
    cluster.settle();
    cluster
        .registry()
        .delete_object(&Kind::new("", "Node"), &NamespacedName::new("", "node-0"), &DeleteOptions::default())
        .unwrap();
    cluster.advance(AdvanceTarget::By(Duration::from_secs(5))).unwrap();
    cluster.reset();
    cluster.settle();
    cluster.stop().unwrap();
    let at = |kind: &str, at: &str| recorded_fields(&path, &Kind::new("", kind), at, "/metadata/name").len();
    assert_eq!((at("Node", "2026-11-02T14:20:04Z"), at("Pod", "2026-11-02T14:20:04Z")), (0, 1));
    assert_eq!((at("Node", "2026-11-02T14:20:05Z"), at("Pod", "2026-11-02T14:20:05Z")), (1, 0));
}
