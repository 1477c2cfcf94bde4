mod external;
mod volumes;

use std::time::Duration;

use serde_json::json;
use testobjects::resource;

use super::*;

fn at(second: i64) -> Moment {
    Moment::from_nanos(second * 1_000_000_000)
}

fn translate(translator: &mut Translator, second: i64, how: fn(Object) -> What, object: &Value) -> Vec<Verb> {
    let (key, object) = parsed(object);
    let operations = translator.translate(at(second), &key, &how(object));
    assert!(
        operations
            .iter()
            .all(|operation| operation.at == at(second) && operation.object_ref == ObjectRef::from(&key))
    );
    operations.into_iter().map(|operation| operation.verb).collect()
}

fn patch_verb(patch: Value) -> Verb {
    Verb::Patch { api_version: "v1".into(), patch }
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

fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

#[test]
fn a_created_pod_has_no_status_node_or_server_metadata() {
    let mut translator = Translator::default();
    let operations = translate(&mut translator, 1, What::Added, &pod("u1"));
    let [Verb::Create { object }] = &operations[..] else { panic!("{operations:?}") };
    let expected = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": true}]},
        "spec": {"priority": 7, "volumes": [{"name": "data"}], "containers": [{"name": "a", "image": "a"}]}});
    assert_eq!(*object, expected);
}

#[test]
fn the_recorded_node_of_a_pod_is_never_sent() {
    let mut translator = Translator::default();
    translate(&mut translator, 1, What::Added, &pod("u1"));
    let bound = with(&pod("u1"), "/spec/nodeName", json!("n1"));
    assert_eq!(translate(&mut translator, 2, What::Modified, &bound), []);
    let running = with(&bound, "/status/phase", json!("Running"));
    assert_eq!(translate(&mut translator, 3, What::Modified, &running), []);
    let labeled = with(&running, "/metadata/labels/app", json!("shop"));
    let patch = json!({"metadata": {"labels": {"app": "shop"}}});
    assert_eq!(translate(&mut translator, 4, What::Modified, &labeled), [patch_verb(patch)]);
    let ended = with(&labeled, "/status/phase", json!("Succeeded"));
    let patch = json!({"status": {"phase": "Succeeded"}});
    assert_eq!(translate(&mut translator, 5, What::Modified, &ended), [patch_verb(patch)]);
}

#[test]
fn with_its_placement_a_pod_is_bound_and_its_status_follows() {
    let mut translator =
        Translator::new(TranslateOptions { keep_placement: true, ..TranslateOptions::default() });
    translate(&mut translator, 1, What::Added, &pod("u1"));
    let bound = with(&with(&pod("u1"), "/spec/nodeName", json!("n1")), "/status/phase", json!("Running"));
    let patch = json!({"status": {"phase": "Running"}});
    assert_eq!(
        translate(&mut translator, 2, What::Modified, &bound),
        [Verb::Bind { node: "n1".into() }, patch_verb(patch)]
    );
}

#[test]
fn a_deletion_begins_once_and_ends() {
    let mut translator = Translator::default();
    translate(&mut translator, 1, What::Added, &pod("u1"));
    let going = with(&pod("u1"), "/metadata/deletionTimestamp", json!("2026-11-15T00:00:30Z"));
    let going = with(&going, "/metadata/deletionGracePeriodSeconds", json!(30));
    assert_eq!(
        translate(&mut translator, 2, What::Modified, &going),
        [Verb::Delete { grace_period_seconds: Some(30) }]
    );
    let still = with(&going, "/status/phase", json!("Running"));
    assert_eq!(translate(&mut translator, 3, What::Modified, &still), []);
    assert_eq!(
        translate(&mut translator, 4, What::Deleted, &still),
        [Verb::CompleteDeletion { is_deleting: true }]
    );
    assert_eq!(translator.expected_objects().count(), 0);
    assert_eq!(translate(&mut translator, 5, What::Deleted, &still), []);
}

#[test]
fn a_new_object_of_the_same_name_follows_the_removal_of_the_first() {
    let mut translator = Translator::default();
    translate(&mut translator, 1, What::Added, &pod("u1"));
    let operations = translate(&mut translator, 2, What::Added, &pod("u2"));
    assert!(
        matches!(&operations[..], [Verb::CompleteDeletion { is_deleting: false }, Verb::Create { .. }]),
        "{operations:?}"
    );
}

#[test]
fn finished_pods_and_workloads_are_excluded() {
    let mut translator = Translator::default();
    let ended = with(&pod("u1"), "/status/phase", json!("Failed"));
    assert_eq!(translate(&mut translator, 1, What::Added, &ended), []);
    let object = |version: &str, kind: &str| resource(version, kind, "a").namespace("shop").json();
    for (version, kind) in [("apps/v1", "Deployment"), ("v1", "Event"), ("coordination.k8s.io/v1", "Lease")] {
        assert_eq!(translate(&mut translator, 1, What::Added, &object(version, kind)), [], "{kind}");
    }
    let left_out: u64 = translator.excluded().values().sum();
    assert_eq!((left_out, translator.expected_objects().count()), (4, 0));
    let mut workloads =
        Translator::new(TranslateOptions { level: AppliedLevel::Workloads, ..TranslateOptions::default() });
    assert_eq!(translate(&mut workloads, 1, What::Added, &pod("u1")), []);
    assert_eq!(translate(&mut workloads, 1, What::Added, &object("apps/v1", "Deployment")).len(), 1);
}

#[test]
fn required_objects_are_created_first() {
    let object = |kind: &str, name: &str| parsed(&resource("v1", kind, name).json());
    let objects =
        [("Pod", "p"), ("PersistentVolume", "v"), ("ConfigMap", "c"), ("Node", "n"), ("Namespace", "s")];
    let mut translator = Translator::default();
    let operations = translator.begin(at(0), objects.map(|(kind, name)| object(kind, name)));
    let order: Vec<&str> = operations.iter().map(|operation| &*operation.object_ref.kind.kind).collect();
    assert_eq!(order, ["Namespace", "Node", "PersistentVolume", "ConfigMap", "Pod"]);
}

fn simkube() -> TranslateOptions {
    let delays = StartupDelays { image_pull: Duration::from_millis(1500), ..StartupDelays::default() };
    TranslateOptions {
        level: AppliedLevel::Workloads,
        templates: PodTemplatePaths::with([(
            Kind::new("x.io", "Tasks"),
            vec!["/spec/tasks/*/template".to_owned()],
        )]),
        simkube: Some(SimkubeMode { name: "sim".to_owned(), prefix: "virtual".to_owned(), delays }),
        ..TranslateOptions::default()
    }
}

fn parsed(object: &Value) -> (Key, Object) {
    let object = testobjects::object(object);
    (object.key(&"film".into()), object)
}

/// The reference to an object in the target, and the created object.
fn created(options: TranslateOptions, object: &Value) -> Option<(ObjectRef, Value)> {
    let (key, object) = parsed(object);
    let operations = Translator::new(options).translate(at(1), &key, &What::Added(object));
    operations.into_iter().next().map(|operation| match operation.verb {
        Verb::Create { object } => (operation.object_ref, object),
        other => panic!("{other:?}"),
    })
}

#[test]
fn simkube_labels_and_annotations_are_added_to_every_template() {
    let tasks = json!({"apiVersion": "x.io/v1", "kind": "Tasks",
        "metadata": {"name": "many", "namespace": "shop", "labels": {"app": "many"}},
        "spec": {"tasks": [
            {"template": {"spec": {"serviceAccountName": "a", "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}},
            {"template": {"metadata": {"labels": {"l": "m"}, "annotations": {"k": "v"}},
                "spec": {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "t"}], "containers": []}}}]},
        "status": {"done": 1}});
    let (object_ref, object) = created(simkube(), &tasks).unwrap();
    assert_eq!(object_ref.to_string(), "Tasks.x.io virtual-shop/many");
    let annotations = json!({"static.simkube.io/original-namespace": "shop", OWNER_ANNOTATION: "Tasks.x.io shop/many",
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
fn simkube_mode_applies_workloads_and_the_objects_they_need() {
    let object = |version: &str, kind: &str| resource(version, kind, "a").json();
    for (version, kind) in [("v1", "Node"), ("v1", "PersistentVolume"), ("v1", "Service")] {
        assert_eq!(created(simkube(), &object(version, kind)), None, "{kind}");
    }
    let (object_ref, namespace) = created(simkube(), &object("v1", "Namespace")).unwrap();
    assert_eq!(
        (object_ref.to_string(), &namespace["metadata"]["name"]),
        ("Namespace virtual-a".to_owned(), &json!("virtual-a"))
    );
    let bare = with(&with(&pod("u1"), "/metadata/ownerReferences", json!([])), "/spec/nodeName", json!("n1"));
    let (_, bare) = created(simkube(), &bare).unwrap();
    assert_eq!(
        (&bare["spec"]["nodeSelector"], bare["spec"].get("nodeName")),
        (&json!({"type": "virtual"}), None)
    );
    // A pod whose controller has a pod template is left to that controller; one of an unknown controller is applied.
    let owned = |version: &str, kind: &str| {
        let owner =
            json!([{"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": true}]);
        created(simkube(), &with(&pod("u1"), "/metadata/ownerReferences", owner)).is_some()
    };
    assert_eq!(
        [owned("apps/v1", "ReplicaSet"), owned("x.io/v1", "Tasks"), owned("y.io/v1", "Other")],
        [false, false, true]
    );
}

#[test]
fn owners_are_created_before_their_dependents() {
    let object = |kind: &str, name: &str, owner: &str| {
        let owners = json!([{"apiVersion": "v1", "kind": "X", "name": owner, "uid": owner}]);
        let owners = if owner.is_empty() { json!([]) } else { owners };
        let version = if matches!(kind, "Box" | "Ring") { "x.io/v1" } else { "v1" };
        parsed(&resource(version, kind, name).set("metadata.ownerReferences", owners).json())
    };
    // A claim owned by a pod, a chain against alphabetical order, and two objects that own each other.
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
    let operations = Translator::default().begin(at(0), objects);
    let order: Vec<&str> = operations.iter().map(|operation| &*operation.object_ref.name).collect();
    let pointer = |name: &str| order.iter().position(|one| *one == name).unwrap();
    assert!(pointer("c") < pointer("b") && pointer("b") < pointer("a"), "{order:?}");
    assert!(pointer("pod") < pointer("claim") && pointer("free") < pointer("c"), "{order:?}");
    assert_eq!(order.len(), 8);
}

#[derive(Debug)]
struct MarkingRule;

impl Rule for MarkingRule {
    fn apply(&self, _: &ObjectRef, trigger: RuleTrigger, object: &mut Value) -> Result<(), ExclusionReason> {
        if object["metadata"]["labels"]["app"] == "secret" {
            return Err("secret".into());
        }
        let mark = if trigger == RuleTrigger::Created { "created" } else { "updated" };
        object["metadata"]["labels"]["mark"] = mark.into();
        Ok(())
    }
}

#[test]
fn user_rules_are_applied_to_every_version() {
    let mut translator = Translator::new(TranslateOptions {
        rules: vec![Arc::new(MarkingRule)],
        ..TranslateOptions::default()
    });
    let operations = translate(&mut translator, 1, What::Added, &pod("u1"));
    let [Verb::Create { object }] = &operations[..] else { panic!("{operations:?}") };
    assert_eq!(object["metadata"]["labels"], json!({"app": "web", "mark": "created"}));
    let patch = json!({"metadata": {"labels": {"mark": "updated"}}});
    assert_eq!(translate(&mut translator, 2, What::Modified, &pod("u1")), [patch_verb(patch)]);
    let secret = with(&pod("u1"), "/metadata/labels/app", json!("secret"));
    assert_eq!(translate(&mut translator, 3, What::Modified, &secret), []);
    assert_eq!(translator.excluded().get("secret"), Some(&1));
    assert_eq!(
        translate(&mut translator, 4, What::Deleted, &secret),
        [Verb::CompleteDeletion { is_deleting: false }]
    );
}

#[test]
fn secrets_are_not_applied_even_if_they_are_selected() {
    let chosen = vec![Kind::new("", "Secret"), Kind::new("example.com", "Secret")];
    for kinds in [None, Some(chosen)] {
        let mut translator = Translator::new(TranslateOptions { kinds, ..TranslateOptions::default() });
        for version in ["v1", "example.com/v1"] {
            let secret = resource(version, "Secret", "s").namespace("d").json();
            assert_eq!(translate(&mut translator, 1, What::Added, &secret), []);
        }
        assert_eq!(translator.excluded().get("a Secret"), Some(&2));
    }
}

#[test]
fn objects_without_a_uid_are_patched_and_removed() {
    let mut translator = Translator::default();
    let mut first = pod("u1");
    first["metadata"].as_object_mut().unwrap().remove("uid");
    let second = with(&first, "/metadata/labels/app", json!("shop"));
    assert_eq!(translate(&mut translator, 1, What::Added, &first).len(), 1);
    assert_eq!(translate(&mut translator, 2, What::Modified, &second).len(), 1);
    let stub = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}});
    assert_eq!(
        translate(&mut translator, 3, What::Deleted, &stub),
        [Verb::CompleteDeletion { is_deleting: false }]
    );
}

#[test]
fn a_rule_that_removes_the_name_excludes_the_object() {
    for edit in
        [json!([{"op": "remove", "path": "/metadata"}]), json!([{"op": "replace", "path": "", "value": 7}])]
    {
        let rules = parse_rules(json!({"rules": [{"jsonPatch": edit}]})).unwrap();
        let rules = rules.into_iter().map(|rule| Arc::new(rule) as Arc<dyn Rule>).collect();
        let mut translator = Translator::new(TranslateOptions { rules, ..TranslateOptions::default() });
        assert_eq!(translate(&mut translator, 1, What::Added, &pod("u1")), []);
        assert_eq!(translator.excluded().len(), 1);
    }
}

#[test]
fn claims_do_not_contain_the_nodes_of_their_pods() {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop",
        "uid": "c", "annotations": {"volume.kubernetes.io/selected-node": "n1", "a": "b"}}});
    let device = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu",
        "namespace": "shop", "uid": "g"}, "status": {"allocation": {"nodeSelector": {}}}});
    let kept = TranslateOptions { keep_placement: true, ..TranslateOptions::default() };
    for (object, pointer) in [
        (&claim, "/metadata/annotations/volume.kubernetes.io~1selected-node"),
        (&device, "/status/allocation"),
    ] {
        let found = |options| created(options, object).unwrap().1.pointer(pointer).is_some();
        assert_eq!((found(TranslateOptions::default()), found(kept.clone())), (false, true), "{pointer}");
    }
}

#[test]
fn changes_that_a_rule_makes_only_at_creation_persist() {
    let rules = json!({"rules": [{"when": "create", "mergePatch": {"spec": {"schedulerName": "mine"}}}]});
    let rules = parse_rules(rules).unwrap().into_iter().map(|rule| Arc::new(rule) as Arc<dyn Rule>).collect();
    let mut translator = Translator::new(TranslateOptions { rules, ..TranslateOptions::default() });
    let first = with(&pod("u1"), "/spec/schedulerName", json!("default-scheduler"));
    let operations = translate(&mut translator, 1, What::Added, &first);
    let [Verb::Create { object }] = &operations[..] else { panic!("{operations:?}") };
    assert_eq!(object["spec"]["schedulerName"], "mine");
    let labeled = with(&first, "/metadata/labels/app", json!("shop"));
    let patch = json!({"metadata": {"labels": {"app": "shop"}}});
    assert_eq!(translate(&mut translator, 2, What::Modified, &labeled), [patch_verb(patch)]);
}

#[test]
fn labels_of_the_target_outlive_those_of_the_recording() {
    let mut translator = Translator::default();
    translate(&mut translator, 1, What::Added, &pod("u1"));
    let mut bare = pod("u1");
    bare["metadata"].as_object_mut().unwrap().remove("labels");
    let patch = json!({"metadata": {"labels": {"app": null}}});
    assert_eq!(translate(&mut translator, 2, What::Modified, &bare), [patch_verb(patch)]);
    let zone =
        json!({"app": "web", "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"});
    let zoned = with(&pod("u1"), "/metadata/labels", zone);
    let patch = json!({"metadata": {"labels": {"app": "web"}}});
    assert_eq!(translate(&mut translator, 3, What::Modified, &zoned), [patch_verb(patch)]);
}

#[test]
fn workloads_are_applied_without_fields_written_by_controllers() {
    let workloads = || TranslateOptions { level: AppliedLevel::Workloads, ..TranslateOptions::default() };
    let job = |end: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "shop", "uid": "j"},
        "spec": {"parallelism": 1}, "status": {"startTime": "2026-11-15T00:00:00Z",
            "conditions": [{"type": "Complete", "status": end}]}})
    };
    assert_eq!(created(workloads(), &job("True")), None);
    assert_eq!(created(workloads(), &job("False")).unwrap().1.get("status"), None);
    let mut translator = Translator::new(workloads());
    assert_eq!(translate(&mut translator, 1, What::Added, &job("False")).len(), 1);
    assert_eq!(translate(&mut translator, 2, What::Modified, &job("True")), []);
}

#[test]
fn claims_are_unbound_where_volumes_are_not_applied() {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop",
        "uid": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"},
        "status": {"phase": "Bound"}});
    let is_bound = |options| created(options, &claim).unwrap().1["spec"].get("volumeName").is_some();
    assert_eq!((is_bound(TranslateOptions::default()), is_bound(simkube())), (true, false));
}
