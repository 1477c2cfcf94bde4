//! Input that is wrong: objects that cannot be understood, absurdly large ones, events in an order that cannot be.
//! Each has a defined answer. What cannot be understood is refused by `Unreadable`, which names the field.

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
struct Bench(Scheduler);

impl Bench {
    fn new() -> Bench {
        Bench(Scheduler::new(Settings::default()))
    }

    /// With these objects.
    fn with(objects: &[&Value]) -> Bench {
        let mut bench = Bench::new();
        objects.iter().for_each(|json| bench.add(json));
        bench
    }

    fn add(&mut self, json: &Value) {
        self.tell(What::Added(object(json)));
    }

    fn modify(&mut self, json: &Value) {
        self.tell(What::Modified(object(json)));
    }

    fn delete(&mut self, json: &Value) {
        self.tell(What::Deleted(object(json)));
    }

    fn tell(&mut self, what: What) {
        self.0.apply(NOW, &what);
    }

    /// All that is said of a pod of the default namespace.
    #[track_caller]
    fn explain(&mut self, name: &str) -> Explanation {
        self.0.explain(NOW, "default", name).expect("the pod is known")
    }

    /// One line: what is done with a pod.
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
        Decision::Placed(placement) => format!("-> {}", placement.node),
        Decision::Refused(rejection) => rejection.message.clone(),
        Decision::Skipped(why) => format!("skipped: {why}"),
        Decision::Gated(refusal) => format!("gated: {}", refusal.message()),
        Decision::Failed(error) => format!("failed: {error}"),
    }
}

/// What `Unreadable` says of the pod as such; `None` if it says nothing.
fn unreadable_pod(explanation: &Explanation) -> Option<String> {
    let refusal = explanation.pre_filter.as_ref().filter(|refusal| refusal.plugin == Plugin::Unreadable)?;
    assert_eq!(refusal.code, Code::UnschedulableAndUnresolvable);
    Some(refusal.message())
}

/// What `Unreadable` says of the first node; `None` if it says nothing.
fn unreadable_node(explanation: &Explanation) -> Option<String> {
    match &explanation.nodes.first()?.verdict {
        NodeVerdict::Refused(refusal) if refusal.plugin == Plugin::Unreadable => {
            assert_eq!(refusal.code, Code::UnschedulableAndUnresolvable);
            Some(refusal.message())
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
