//! Devices are not simulated: a pod that wants some is refused, whichever way it asks, and never placed without.

use model::Moment;
use scheduler::{Decision, Scheduler, Settings, Version};
use serde_json::{Value, json};
use testobjects::{ObjectBuilder, node, pod, resource};

const NOW: Moment = Moment::from_nanos(1_800_000_000_000_000_000);

fn class() -> ObjectBuilder {
    let class = resource("resource.k8s.io/v1", "DeviceClass", "gpu");
    class.set("spec.extendedResourceName", "example.com/gpu")
}

fn scheduler(version: Version, pod_spec: &Value) -> Scheduler {
    let mut scheduler = Scheduler::new(Settings::for_version(version));
    let node = node("n").allocatable("cpu", "4").allocatable("memory", "8Gi").allocatable("pods", "110");
    scheduler.apply(NOW, &node.added());
    scheduler.apply(NOW, &pod("p").set("spec", pod_spec.clone()).added());
    scheduler
}

fn wants_gpu() -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]})
}

#[track_caller]
fn check(scheduler: &mut Scheduler, expected: &str) {
    match scheduler.explain(NOW, "default", "p").expect("it is there").decision {
        Decision::Refused(rejection) => {
            assert!(rejection.message.contains(expected), "{}", rejection.message)
        }
        other => panic!("{other:?} instead of a refusal with {expected:?}"),
    }
}

#[test]
fn a_class_that_comes_and_goes_changes_what_is_said_of_its_resource() {
    let mut scheduler = scheduler(Version::V1_36, &wants_gpu());
    check(&mut scheduler, "Insufficient example.com/gpu");
    scheduler.apply(NOW, &class().added());
    check(&mut scheduler, "dynamic resource allocation is not simulated yet");
    scheduler.apply(NOW, &class().deleted());
    check(&mut scheduler, "Insufficient example.com/gpu");
}

#[test]
fn before_1_36_classes_hand_out_no_resources() {
    let mut scheduler = scheduler(Version::V1_35, &wants_gpu());
    scheduler.apply(NOW, &class().added());
    check(&mut scheduler, "Insufficient example.com/gpu");
}

#[test]
fn a_pod_with_claims_is_refused_even_where_the_profile_does_not_know_of_claims() {
    let spec =
        json!({"containers": [{"name": "c"}], "resourceClaims": [{"name": "r", "resourceClaimName": "r"}]});
    for version in [Version::V1_32, Version::V1_36] {
        check(&mut scheduler(version, &spec), "dynamic resource allocation is not simulated yet");
    }
}
