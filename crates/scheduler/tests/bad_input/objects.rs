//! Objects with one invalid field.

use scheduler::{Scheduler, Settings};
use serde_json::{Value, json};

use super::{TestScheduler, node, on, pod, unreadable_node, unreadable_pod};

/// Checks that a pod with this value in its spec is unreadable, and that the reason names the field.
#[track_caller]
fn check_pod(pointer: &str, value: Value, named: &str) {
    let mut wrong = pod("p");
    *wrong["spec"].pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value.clone();
    let explanation = TestScheduler::with(&[&node("n"), &wrong]).explain("p");
    let reason =
        unreadable_pod(&explanation).unwrap_or_else(|| panic!("{value} at {pointer}: {explanation:?}"));
    let named = format!("the pod is invalid: {named}");
    assert!(reason.starts_with(&named), "{reason:?} does not name {named:?}");

    // When assigned it makes its node unreadable: the free resources are unknown.
    let placed = on(wrong, "n");
    let mut other = TestScheduler::with(&[&node("n"), &node("m"), &placed, &pod("q")]);
    let reason = unreadable_node(&other.explain("q")).expect("the requests on the node are unknown");
    assert!(reason.starts_with("node(s) had an invalid pod: default/p: "), "{reason}");
    assert_eq!(other.outcome("q"), "-> m");
    // As long as it is there.
    other.delete(&placed);
    assert_eq!(unreadable_node(&other.explain("q")), None);
}

#[test]
fn a_request_that_is_no_quantity() {
    for wrong in ["", "lots", "1Kb", "1 Gi", "0x10", "1e", "--1", "٣", "1.2.3", "Infinity"] {
        let requests = json!({"cpu": wrong});
        check_pod(
            "/containers/0/resources/requests",
            requests,
            "spec.containers[0].resources.requests.cpu: ",
        );
    }
    for wrong in [json!([]), json!({}), json!(true)] {
        let requests = json!({"cpu": wrong});
        check_pod(
            "/containers/0/resources/requests",
            requests,
            "spec.containers[0].resources.requests.cpu: ",
        );
    }
}

#[test]
fn an_allocatable_that_is_no_quantity() {
    let mut wrong = node("n");
    wrong["status"]["allocatable"]["memory"] = json!("8 Gi");
    let mut bench = TestScheduler::with(&[&wrong, &node("m"), &pod("p")]);
    let reason = unreadable_node(&bench.explain("p")).expect("the node's allocatable is unknown");
    assert!(reason.starts_with("node(s) were invalid: status.allocatable.memory: "), "{reason}");
    assert_eq!(bench.outcome("p"), "-> m");
    // It is readable again once it is valid.
    bench.modify(&node("n"));
    assert_eq!(unreadable_node(&bench.explain("p")), None);
}

#[test]
fn an_unreadable_node_is_not_feasible_in_a_profile_without_filters() {
    let mut settings = Settings::default();
    settings.profiles[0].filter.clear();
    let mut bench = TestScheduler(Scheduler::new(settings));
    let mut wrong = node("n");
    wrong["status"]["allocatable"]["memory"] = json!("8 Gi");
    bench.add(&wrong);
    bench.add(&pod("p"));
    let outcome = bench.outcome("p");
    assert!(outcome.starts_with("0/1 nodes are available: 1 node(s) were invalid: "), "{outcome}");
}

#[test]
fn invalid_affinity_selectors() {
    let wrong = [
        json!({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["a"]}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["a"]}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}),
        json!({"matchExpressions": [{"key": "", "operator": "Exists"}]}),
        json!({"matchExpressions": [{"operator": "Exists"}]}),
        json!({"matchLabels": {"not a name": "a"}}),
        json!({"matchLabels": {"app": "not a value"}}),
    ];
    let terms = |term: Value| {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        ["podAffinity", "podAntiAffinity"].into_iter().flat_map(move |kind| {
            [
                (json!({kind: {required: [term]}}), format!("spec.affinity.{kind}.{required}[0]")),
                (
                    json!({kind: {preferred: [{"weight": 1, "podAffinityTerm": term}]}}),
                    format!("spec.affinity.{kind}.{preferred}[0].podAffinityTerm"),
                ),
            ]
        })
    };
    for selector in wrong {
        for field in ["labelSelector", "namespaceSelector"] {
            for (affinity, place) in terms(json!({"topologyKey": "zone", field: selector})) {
                let mut spec = pod("p")["spec"].clone();
                spec["affinity"] = affinity;
                check_pod("", spec, &format!("{place}.{field}"));
            }
        }
        let mut spec = pod("p")["spec"].clone();
        spec["topologySpreadConstraints"] = json!([
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector},
        ]);
        check_pod("", spec, "spec.topologySpreadConstraints[0].labelSelector");
    }
}

#[test]
fn an_invalid_preferred_node_term() {
    let mut spec = pod("p")["spec"].clone();
    let preferred = |weight: i32| {
        json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "preference": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
        ]}})
    };
    spec["affinity"] = preferred(1);
    let place = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference";
    check_pod("", spec.clone(), place);
    // A preference of weight zero is not validated.
    let mut weightless = pod("p");
    weightless["spec"]["affinity"] = preferred(0);
    assert_eq!(TestScheduler::with(&[&node("n"), &weightless]).outcome("p"), "-> n");
}

#[test]
fn unreadable_objects_do_not_affect_pods_that_do_not_use_them() {
    let wrong = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": ["a"]}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "other", "name": "s"}, "spec": {"selector": "a"}}),
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "default", "name": "r"},
            "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"namespace": "default", "name": "b"},
            "spec": {"selector": 1}, "status": "none"}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": "c"}, "spec": 1}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"capacity": {"storage": "much"}}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c"}, "provisioner": 1}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": 1}}),
        json!({"apiVersion": "example.com/v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "p"}, "spec": 1}),
        json!({"apiVersion": "nonsense/", "kind": "Node", "metadata": {"name": "x"}}),
    ];
    let right = TestScheduler::with(&[&node("n"), &pod("p")]).explain("p");
    for object in wrong {
        let mut bench = TestScheduler::with(&[&node("n"), &pod("p"), &object]);
        assert_eq!(bench.explain("p"), right, "{object}");
        bench.modify(&object);
        bench.delete(&object);
        assert_eq!(bench.explain("p"), right, "{object}");
    }
}

#[test]
fn an_unreadable_service_is_reported_for_pods_with_default_spreading() {
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "s"}, "spec": {"selector": "a"}});
    let mut bench = TestScheduler::with(&[&node("n"), &pod("p"), &service]);
    let reason = bench
        .explain("p")
        .pre_filter_status
        .as_ref()
        .expect("the default spread constraints are unknown")
        .message();
    assert!(reason.contains("service default/s") && reason.contains("spec.selector"), "{reason}");
    // A pod with its own constraints does not depend on it.
    let mut own = pod("own");
    own["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"a": "b"}}}]);
    assert_eq!(TestScheduler::with(&[&node("n"), &own, &service]).outcome("own"), "-> n");
    bench.delete(&service);
    assert_eq!(bench.outcome("p"), "-> n");
}

#[test]
fn unreadable_claims_are_reported_for_pods_that_use_them() {
    let mut user = pod("p");
    user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": "c"}, "spec": {"accessModes": "all"}});
    let explanation = TestScheduler::with(&[&node("n"), &user, &claim]).explain("p");
    let reason = explanation.pre_filter_status.as_ref().expect("the claim is unreadable").message();
    assert!(reason.contains("spec.accessModes"), "{reason}");
}

#[test]
fn a_configuration_with_an_unknown_plugin() {
    let with = |plugins: Value| {
        Settings::read(&json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": plugins}],
        }))
    };
    let error = with(json!({"score": {"enabled": [{"name": "Astrology"}]}})).unwrap_err();
    assert_eq!(error.path, "profiles[0].plugins.score.enabled[0].name");
    assert!(error.reason.contains("Astrology"), "{error}");
    for weight in [json!(i64::MAX), json!(1e300), json!("3"), json!(-1), json!([])] {
        let plugins = json!({"score": {"enabled": [{"name": "ImageLocality", "weight": weight}]}});
        let error = with(plugins).expect_err(&format!("{weight} is no weight"));
        assert!(error.path.starts_with("profiles[0].plugins"), "{weight}: {error}");
    }
}
