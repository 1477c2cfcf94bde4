mod external;
mod volumes;

use std::time::Duration;

use serde_json::json;
use testobjects::resource;

use super::*;

fn at(second: i64) -> Moment {
    Moment::from_nanos(second * 1_000_000_000)
}

fn seen(transplant: &mut Transplant, second: i64, how: fn(Object) -> What, object: &Value) -> Vec<Doing> {
    let (key, object) = parsed(object);
    let deeds = transplant.see(at(second), &key, &how(object));
    assert!(deeds.iter().all(|deed| deed.at == at(second) && deed.address == Address::of(&key)));
    deeds.into_iter().map(|deed| deed.doing).collect()
}

fn changed(patch: Value) -> Doing {
    Doing::Change { api_version: "v1".into(), patch }
}

fn pod(uid: &str) -> Value {
    let token = "kube-api-access-x2x2x";
    let mounts = json!([{"name": token, "mountPath": "/x"}]);
    testobjects::pod("web")
        .namespace("shop")
        .uid(uid)
        .version(7)
        .created("2026-11-15T00:00:00Z")
        .label("app", "web")
        .owner_with_uid("ReplicaSet", "web", "set")
        .set("metadata.generation", 2)
        .set("metadata.managedFields", json!([{}]))
        .set("metadata.finalizers", json!(["a/b"]))
        .set("spec.serviceAccountName", "web")
        .set("spec.volumes", json!([{"name": token}, {"name": "data"}]))
        .set("spec.containers", json!([{"name": "a", "image": "a", "volumeMounts": mounts}]))
        .priority(7)
        .phase("Pending")
        .json()
}

fn with(object: &Value, place: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, field) = place.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

#[test]
fn of_a_pod_comes_what_its_owner_asked_for() {
    let mut transplant = Transplant::default();
    let deeds = seen(&mut transplant, 1, What::Added, &pod("u1"));
    let [Doing::Create { object }] = &deeds[..] else { panic!("{deeds:?}") };
    let expected = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": true}]},
        "spec": {"priority": 7, "volumes": [{"name": "data"}], "containers": [{"name": "a", "image": "a"}]}});
    assert_eq!(*object, expected);
}

#[test]
fn where_a_pod_was_is_nowhere_told() {
    let mut transplant = Transplant::default();
    seen(&mut transplant, 1, What::Added, &pod("u1"));
    let bound = with(&pod("u1"), "/spec/nodeName", json!("n1"));
    assert_eq!(seen(&mut transplant, 2, What::Modified, &bound), []);
    let running = with(&bound, "/status/phase", json!("Running"));
    assert_eq!(seen(&mut transplant, 3, What::Modified, &running), []);
    let labelled = with(&running, "/metadata/labels/app", json!("shop"));
    let patch = json!({"metadata": {"labels": {"app": "shop"}}});
    assert_eq!(seen(&mut transplant, 4, What::Modified, &labelled), [changed(patch)]);
    let ended = with(&labelled, "/status/phase", json!("Succeeded"));
    let patch = json!({"status": {"phase": "Succeeded"}});
    assert_eq!(seen(&mut transplant, 5, What::Modified, &ended), [changed(patch)]);
}

#[test]
fn with_its_placement_a_pod_is_bound_and_its_status_follows() {
    let mut transplant = Transplant::new(Manner { keep_placement: true, ..Manner::default() });
    seen(&mut transplant, 1, What::Added, &pod("u1"));
    let bound = with(&with(&pod("u1"), "/spec/nodeName", json!("n1")), "/status/phase", json!("Running"));
    let patch = json!({"status": {"phase": "Running"}});
    assert_eq!(
        seen(&mut transplant, 2, What::Modified, &bound),
        [Doing::Bind { node: "n1".into() }, changed(patch)]
    );
}

#[test]
fn a_deletion_begins_once_and_ends() {
    let mut transplant = Transplant::default();
    seen(&mut transplant, 1, What::Added, &pod("u1"));
    let going = with(&pod("u1"), "/metadata/deletionTimestamp", json!("2026-11-15T00:00:30Z"));
    let going = with(&going, "/metadata/deletionGracePeriodSeconds", json!(30));
    assert_eq!(seen(&mut transplant, 2, What::Modified, &going), [Doing::Delete { grace: Some(30) }]);
    let still = with(&going, "/status/phase", json!("Running"));
    assert_eq!(seen(&mut transplant, 3, What::Modified, &still), []);
    assert_eq!(seen(&mut transplant, 4, What::Deleted, &still), [Doing::Remove { begun: true }]);
    assert_eq!(transplant.expected().count(), 0);
    assert_eq!(seen(&mut transplant, 5, What::Deleted, &still), []);
}

#[test]
fn another_life_of_a_name_begins_when_the_first_has_ended() {
    let mut transplant = Transplant::default();
    seen(&mut transplant, 1, What::Added, &pod("u1"));
    let deeds = seen(&mut transplant, 2, What::Added, &pod("u2"));
    assert!(matches!(&deeds[..], [Doing::Remove { begun: false }, Doing::Create { .. }]), "{deeds:?}");
}

#[test]
fn pods_that_had_ended_and_what_makes_pods_are_left_out() {
    let mut transplant = Transplant::default();
    let ended = with(&pod("u1"), "/status/phase", json!("Failed"));
    assert_eq!(seen(&mut transplant, 1, What::Added, &ended), []);
    let object = |version: &str, kind: &str| resource(version, kind, "a").namespace("shop").json();
    for (version, kind) in [("apps/v1", "Deployment"), ("v1", "Event"), ("coordination.k8s.io/v1", "Lease")] {
        assert_eq!(seen(&mut transplant, 1, What::Added, &object(version, kind)), [], "{kind}");
    }
    let left_out: u64 = transplant.left_out().values().sum();
    assert_eq!((left_out, transplant.expected().count()), (4, 0));
    let mut workloads = Transplant::new(Manner { level: Level::Workloads, ..Manner::default() });
    assert_eq!(seen(&mut workloads, 1, What::Added, &pod("u1")), []);
    assert_eq!(seen(&mut workloads, 1, What::Added, &object("apps/v1", "Deployment")).len(), 1);
}

#[test]
fn what_others_need_comes_first() {
    let object = |kind: &str, name: &str| parsed(&resource("v1", kind, name).json());
    let objects =
        [("Pod", "p"), ("PersistentVolume", "v"), ("ConfigMap", "c"), ("Node", "n"), ("Namespace", "s")];
    let mut transplant = Transplant::default();
    let deeds = transplant.begin(at(0), objects.map(|(kind, name)| object(kind, name)));
    let order: Vec<&str> = deeds.iter().map(|deed| &*deed.address.kind.kind).collect();
    assert_eq!(order, ["Namespace", "Node", "PersistentVolume", "ConfigMap", "Pod"]);
}

fn simkube() -> Manner {
    let delays = Delays { image_pull: Duration::from_millis(1500), ..Delays::default() };
    Manner {
        level: Level::Workloads,
        templates: Templates::with([(Kind::new("x.io", "Tasks"), vec!["/spec/tasks/*/template".to_owned()])]),
        simkube: Some(Simkube { name: "sim".to_owned(), prefix: "virtual".to_owned(), delays }),
        ..Manner::default()
    }
}

fn parsed(object: &Value) -> (Key, Object) {
    let object = testobjects::object(object);
    (object.key(&"film".into()), object)
}

/// Where something is put, and what is put there.
fn given(manner: Manner, object: &Value) -> Option<(Address, Value)> {
    let (key, object) = parsed(object);
    let deeds = Transplant::new(manner).see(at(1), &key, &What::Added(object));
    deeds.into_iter().next().map(|deed| match deed.doing {
        Doing::Create { object } => (deed.address, object),
        other => panic!("{other:?}"),
    })
}

#[test]
fn simkubes_way_is_written_on_every_template() {
    let tasks = json!({"apiVersion": "x.io/v1", "kind": "Tasks",
        "metadata": {"name": "many", "namespace": "shop", "labels": {"app": "many"}},
        "spec": {"tasks": [
            {"template": {"spec": {"serviceAccountName": "a", "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}},
            {"template": {"metadata": {"labels": {"l": "m"}, "annotations": {"k": "v"}},
                "spec": {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "t"}], "containers": []}}}]},
        "status": {"done": 1}});
    let (address, object) = given(simkube(), &tasks).unwrap();
    assert_eq!(address.to_string(), "Tasks.x.io virtual-shop/many");
    let annotations = json!({"static.simkube.io/original-namespace": "shop", OWNER: "Tasks.x.io shop/many",
        "simkube.io/kwok-stage-create-delay": "1500ms", "simkube.io/kwok-stage-create-delay-jitter": "0ms"});
    let ours = json!({"key": "kwok-provider", "operator": "Exists", "effect": "NoSchedule"});
    let mut second = annotations.clone();
    second["k"] = json!("v");
    let expected = json!({"apiVersion": "x.io/v1", "kind": "Tasks",
        "metadata": {"name": "many", "namespace": "virtual-shop",
            "labels": {"app": "many", "simkube.io/simulation": "sim", "simkube.io/virtual": "true"}},
        "spec": {"tasks": [
            {"template": {"metadata": {"labels": {"simkube.io/simulation": "sim"}, "annotations": annotations},
                "spec": {"nodeSelector": {"type": "virtual"}, "tolerations": [ours], "containers": [{"name": "c"}]}}},
            {"template": {"metadata": {"labels": {"l": "m", "simkube.io/simulation": "sim"}, "annotations": second},
                "spec": {"nodeSelector": {"zone": "a", "type": "virtual"}, "tolerations": [{"key": "t"}, ours],
                    "containers": []}}}]}});
    assert_eq!(object, expected);
}

#[test]
fn simkubes_way_gives_workloads_and_what_they_need() {
    let object = |version: &str, kind: &str| resource(version, kind, "a").json();
    for (version, kind) in [("v1", "Node"), ("v1", "PersistentVolume"), ("v1", "Service")] {
        assert_eq!(given(simkube(), &object(version, kind)), None, "{kind}");
    }
    let (address, namespace) = given(simkube(), &object("v1", "Namespace")).unwrap();
    assert_eq!(
        (address.to_string(), &namespace["metadata"]["name"]),
        ("Namespace virtual-a".to_owned(), &json!("virtual-a"))
    );
    let bare = with(&with(&pod("u1"), "/metadata/ownerReferences", json!([])), "/spec/nodeName", json!("n1"));
    let (_, bare) = given(simkube(), &bare).unwrap();
    assert_eq!(
        (&bare["spec"]["nodeSelector"], bare["spec"].get("nodeName")),
        (&json!({"type": "virtual"}), None)
    );
    // One whose controller describes pods is left to that; one of a stranger's is given.
    let owned = |version: &str, kind: &str| {
        let owner =
            json!([{"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": true}]);
        given(simkube(), &with(&pod("u1"), "/metadata/ownerReferences", owner)).is_some()
    };
    assert_eq!(
        [owned("apps/v1", "ReplicaSet"), owned("x.io/v1", "Tasks"), owned("y.io/v1", "Other")],
        [false, false, true]
    );
}

#[test]
fn owners_come_before_what_they_own() {
    let object = |kind: &str, name: &str, owner: &str| {
        let owners = json!([{"apiVersion": "v1", "kind": "X", "name": owner, "uid": owner}]);
        let owners = if owner.is_empty() { json!([]) } else { owners };
        let version = if matches!(kind, "Box" | "Ring") { "x.io/v1" } else { "v1" };
        parsed(&resource(version, kind, name).set("metadata.ownerReferences", owners).json())
    };
    // A claim of a pod's own, a chain against the alphabet, and two that own each other.
    let objects = [
        object("PersistentVolumeClaim", "claim", "pod"),
        object("Box", "a", "b"),
        object("Box", "b", "c"),
        object("Box", "c", ""),
        object("Pod", "pod", ""),
        object("Ring", "x", "y"),
        object("Ring", "y", "x"),
        object("PersistentVolumeClaim", "free", ""),
    ];
    let deeds = Transplant::default().begin(at(0), objects);
    let order: Vec<&str> = deeds.iter().map(|deed| &*deed.address.name).collect();
    let place = |name: &str| order.iter().position(|one| *one == name).unwrap();
    assert!(place("c") < place("b") && place("b") < place("a"), "{order:?}");
    assert!(place("pod") < place("claim") && place("free") < place("c"), "{order:?}");
    assert_eq!(order.len(), 8);
}

#[derive(Debug)]
struct Grow;

impl Rule for Grow {
    fn apply(&self, _: &Address, when: When, object: &mut Value) -> Result<(), LeftOut> {
        if object["metadata"]["labels"]["app"] == "secret" {
            return Err("secret".into());
        }
        let mark = if when == When::Created { "created" } else { "updated" };
        object["metadata"]["labels"]["mark"] = mark.into();
        Ok(())
    }
}

#[test]
fn rules_of_users_see_every_version() {
    let mut transplant = Transplant::new(Manner { rules: vec![Arc::new(Grow)], ..Manner::default() });
    let deeds = seen(&mut transplant, 1, What::Added, &pod("u1"));
    let [Doing::Create { object }] = &deeds[..] else { panic!("{deeds:?}") };
    assert_eq!(object["metadata"]["labels"], json!({"app": "web", "mark": "created"}));
    let patch = json!({"metadata": {"labels": {"mark": "updated"}}});
    assert_eq!(seen(&mut transplant, 2, What::Modified, &pod("u1")), [changed(patch)]);
    let secret = with(&pod("u1"), "/metadata/labels/app", json!("secret"));
    assert_eq!(seen(&mut transplant, 3, What::Modified, &secret), []);
    assert_eq!(transplant.left_out().get("secret"), Some(&1));
    assert_eq!(seen(&mut transplant, 4, What::Deleted, &secret), [Doing::Remove { begun: false }]);
}

#[test]
fn secrets_are_not_given_even_if_they_are_chosen() {
    let chosen = vec![Kind::new("", "Secret"), Kind::new("example.com", "Secret")];
    for kinds in [None, Some(chosen)] {
        let mut transplant = Transplant::new(Manner { kinds, ..Manner::default() });
        for version in ["v1", "example.com/v1"] {
            let secret = resource(version, "Secret", "s").namespace("d").json();
            assert_eq!(seen(&mut transplant, 1, What::Added, &secret), []);
        }
        assert_eq!(transplant.left_out().get("a Secret, which is never given"), Some(&2));
    }
}

#[test]
fn what_has_no_uid_is_changed_and_removed_all_the_same() {
    let mut transplant = Transplant::default();
    let mut first = pod("u1");
    first["metadata"].as_object_mut().unwrap().remove("uid");
    let second = with(&first, "/metadata/labels/app", json!("shop"));
    assert_eq!(seen(&mut transplant, 1, What::Added, &first).len(), 1);
    assert_eq!(seen(&mut transplant, 2, What::Modified, &second).len(), 1);
    let stub = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}});
    assert_eq!(seen(&mut transplant, 3, What::Deleted, &stub), [Doing::Remove { begun: false }]);
}

#[test]
fn a_rule_that_takes_the_name_leaves_the_object_out() {
    for edit in
        [json!([{"op": "remove", "path": "/metadata"}]), json!([{"op": "replace", "path": "", "value": 7}])]
    {
        let rules = read_rules(json!({"rules": [{"jsonPatch": edit}]})).unwrap();
        let rules = rules.into_iter().map(|rule| Arc::new(rule) as Arc<dyn Rule>).collect();
        let mut transplant = Transplant::new(Manner { rules, ..Manner::default() });
        assert_eq!(seen(&mut transplant, 1, What::Added, &pod("u1")), []);
        assert_eq!(transplant.left_out().len(), 1);
    }
}

#[test]
fn claims_do_not_tell_where_their_pods_were() {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop",
        "uid": "c", "annotations": {"volume.kubernetes.io/selected-node": "n1", "a": "b"}}});
    let device = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu",
        "namespace": "shop", "uid": "g"}, "status": {"allocation": {"nodeSelector": {}}}});
    let kept = Manner { keep_placement: true, ..Manner::default() };
    for (object, place) in [
        (&claim, "/metadata/annotations/volume.kubernetes.io~1selected-node"),
        (&device, "/status/allocation"),
    ] {
        let found = |manner| given(manner, object).unwrap().1.pointer(place).is_some();
        assert_eq!((found(Manner::default()), found(kept.clone())), (false, true), "{place}");
    }
}

#[test]
fn what_a_rule_changes_at_creation_alone_stays() {
    let rules = json!({"rules": [{"when": "create", "mergePatch": {"spec": {"schedulerName": "mine"}}}]});
    let rules = read_rules(rules).unwrap().into_iter().map(|rule| Arc::new(rule) as Arc<dyn Rule>).collect();
    let mut transplant = Transplant::new(Manner { rules, ..Manner::default() });
    let first = with(&pod("u1"), "/spec/schedulerName", json!("default-scheduler"));
    let deeds = seen(&mut transplant, 1, What::Added, &first);
    let [Doing::Create { object }] = &deeds[..] else { panic!("{deeds:?}") };
    assert_eq!(object["spec"]["schedulerName"], "mine");
    let labelled = with(&first, "/metadata/labels/app", json!("shop"));
    let patch = json!({"metadata": {"labels": {"app": "shop"}}});
    assert_eq!(seen(&mut transplant, 2, What::Modified, &labelled), [changed(patch)]);
}

#[test]
fn labels_of_the_target_outlive_those_of_the_recording() {
    let mut transplant = Transplant::default();
    seen(&mut transplant, 1, What::Added, &pod("u1"));
    let mut bare = pod("u1");
    bare["metadata"].as_object_mut().unwrap().remove("labels");
    let patch = json!({"metadata": {"labels": {"app": null}}});
    assert_eq!(seen(&mut transplant, 2, What::Modified, &bare), [changed(patch)]);
    let zone =
        json!({"app": "web", "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"});
    let zoned = with(&pod("u1"), "/metadata/labels", zone);
    let patch = json!({"metadata": {"labels": {"app": "web"}}});
    assert_eq!(seen(&mut transplant, 3, What::Modified, &zoned), [changed(patch)]);
}

#[test]
fn workloads_are_given_without_what_their_controllers_wrote() {
    let workloads = || Manner { level: Level::Workloads, ..Manner::default() };
    let job = |end: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "shop", "uid": "j"},
        "spec": {"parallelism": 1}, "status": {"startTime": "2026-11-15T00:00:00Z",
            "conditions": [{"type": "Complete", "status": end}]}})
    };
    assert_eq!(given(workloads(), &job("True")), None);
    assert_eq!(given(workloads(), &job("False")).unwrap().1.get("status"), None);
    let mut transplant = Transplant::new(workloads());
    assert_eq!(seen(&mut transplant, 1, What::Added, &job("False")).len(), 1);
    assert_eq!(seen(&mut transplant, 2, What::Modified, &job("True")), []);
}

#[test]
fn claims_are_free_where_volumes_are_not_given() {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop",
        "uid": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"},
        "status": {"phase": "Bound"}});
    let is_bound = |manner| given(manner, &claim).unwrap().1["spec"].get("volumeName").is_some();
    assert_eq!((is_bound(Manner::default()), is_bound(simkube())), (true, false));
}
