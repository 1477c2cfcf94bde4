//! Invalid input: unreadable objects, absurdly large ones, events in an impossible order. Each has a defined result.
//! Unreadable objects are rejected by `Unreadable`, which names the field.

mod events;
mod fields;
mod objects;
mod sizes;

use model::{Moment, What};
use scheduler::{Code, Decision, Explanation, NodeVerdict, Plugin, Scheduler, Settings};
use serde_json::{Value, json};
use testobjects::object;

const NOW: Moment = Moment::from_nanos(0);

/// A scheduler under test.
struct TestScheduler(Scheduler);

impl TestScheduler {
    fn new() -> TestScheduler {
        TestScheduler(Scheduler::new(Settings::default()))
    }

    /// With these objects.
    fn with(objects: &[&Value]) -> TestScheduler {
        let mut bench = TestScheduler::new();
        objects.iter().for_each(|json| bench.add(json));
        bench
    }

    fn add(&mut self, json: &Value) {
        self.apply(What::Added(object(json)));
    }

    fn modify(&mut self, json: &Value) {
        self.apply(What::Modified(object(json)));
    }

    fn delete(&mut self, json: &Value) {
        self.apply(What::Deleted(object(json)));
    }

    fn apply(&mut self, what: What) {
        self.0.apply(NOW, &what);
    }

    /// The explanation of a pod of the default namespace.
    #[track_caller]
    fn explain(&mut self, name: &str) -> Explanation {
        self.0.explain(NOW, "default", name).expect("the pod is known")
    }

    /// The decision about a pod, in one line.
    #[track_caller]
    fn outcome(&mut self, name: &str) -> String {
        outcome(&self.explain(name).decision)
    }

    #[track_caller]
    fn attempt(&mut self, name: &str) -> String {
        outcome(&self.0.attempt(NOW, "default", name).expect("the pod is known"))
    }
}

fn outcome(decision: &Decision) -> String {
    match decision {
        Decision::Scheduled(placement) => format!("-> {}", placement.node),
        Decision::Unschedulable(rejection) => rejection.message.clone(),
        Decision::Skipped(why) => format!("skipped: {why}"),
        Decision::Gated(status) => format!("gated: {}", status.message()),
        Decision::Failed(error) => format!("failed: {error}"),
    }
}

/// The message of `Unreadable` for the pod, if it rejects it.
fn unreadable_pod(explanation: &Explanation) -> Option<String> {
    let status =
        explanation.pre_filter_status.as_ref().filter(|status| status.plugin == Plugin::Unreadable)?;
    assert_eq!(status.code, Code::UnschedulableAndUnresolvable);
    Some(status.message())
}

/// The message of `Unreadable` for the first node, if it rejects it.
fn unreadable_node(explanation: &Explanation) -> Option<String> {
    match &explanation.nodes.first()?.verdict {
        NodeVerdict::Rejected(status) if status.plugin == Plugin::Unreadable => {
            assert_eq!(status.code, Code::UnschedulableAndUnresolvable);
            Some(status.message())
        }
        _ => None,
    }
}

fn node(name: &str) -> Value {
    let node = testobjects::node(name).allocatable("cpu", "4").allocatable("memory", "8Gi");
    node.allocatable("pods", "10").json()
}

fn pod(name: &str) -> Value {
    let pod = testobjects::pod(name).label("app", "a").request("cpu", "1");
    pod.set("spec.containers.0.image", "web").json()
}

fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    pod
}
