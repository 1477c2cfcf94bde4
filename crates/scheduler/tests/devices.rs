//! Rejection of pods that need dynamic resource allocation, which is not simulated, by claims or by extended resources.

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
    match scheduler.explain(NOW, "default", "p").expect("the pod exists").decision {
        Decision::Unschedulable(rejection) => {
            assert!(rejection.message.contains(expected), "{}", rejection.message)
        }
        other => panic!("{other:?} instead of a rejection with {expected:?}"),
    }
}

#[test]
fn a_device_class_changes_the_reason_for_its_extended_resource() {
    let mut scheduler = scheduler(Version::V1_36, &wants_gpu());
    check(&mut scheduler, "Insufficient example.com/gpu");
    scheduler.apply(NOW, &class().added());
    check(&mut scheduler, "dynamic resource allocation is not simulated");
    scheduler.apply(NOW, &class().deleted());
    check(&mut scheduler, "Insufficient example.com/gpu");
}

#[test]
fn before_1_36_device_classes_back_no_extended_resources() {
    let mut scheduler = scheduler(Version::V1_35, &wants_gpu());
    scheduler.apply(NOW, &class().added());
    check(&mut scheduler, "Insufficient example.com/gpu");
}

#[test]
fn a_pod_with_resource_claims_is_rejected_even_without_the_plugin() {
    let spec =
        json!({"containers": [{"name": "c"}], "resourceClaims": [{"name": "r", "resourceClaimName": "r"}]});
    for version in [Version::V1_32, Version::V1_36] {
        check(&mut scheduler(version, &spec), "dynamic resource allocation is not simulated");
    }
}
