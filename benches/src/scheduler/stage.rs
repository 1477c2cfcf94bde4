//! What a workload needs before it is played, and what happens while it is.

use std::time::Duration;

use model::{Moment, Object, What};
use serde_json::{Value, json};

use super::manifest::{self, Source, Template};

/// All objects of a workload.
pub(super) struct Stage {
    /// What is there before: nodes, running pods, whatever else.
    pub(super) before: Vec<What>,
    /// The pods whose placing is measured, in their order.
    pub(super) measured: Vec<Object>,
    /// What happens by the clock, in its order.
    pub(super) events: Vec<(Moment, What)>,
    /// How much virtual time a measured pod takes.
    pub(super) pace: Duration,
    /// A pod for which room was made has the next turn, as with the real code that it is compared with. Else it waits
    /// in the queue as in a cluster.
    pub(super) tries_again_at_once: bool,
    /// How many of the measured pods find no node. Another number is another workload.
    pub(super) finds_none: usize,
    /// Whether pods have to go for others.
    pub(super) has_victims: bool,
    /// The nodes' names.
    nodes: Vec<String>,
    /// How many pods run.
    placed: usize,
}

/// The names of measured pods begin with it, and no others.
pub(super) const MEASURED: &str = "pod-";
/// When playing begins.
pub(super) const START: Moment = Moment::from_nanos(1_800_000_000_000_000_000);

// === impl Stage ===

impl Stage {
    /// Nothing, in which so many pods a second are placed by the virtual clock.
    pub(super) fn new(pods_a_second: f64) -> Stage {
        Stage {
            before: Vec::new(),
            measured: Vec::new(),
            events: Vec::new(),
            pace: Duration::from_secs_f64(1.0 / pods_a_second),
            tries_again_at_once: false,
            finds_none: 0,
            has_victims: false,
            nodes: Vec::new(),
            placed: 0,
        }
    }

    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn placed_count(&self) -> usize {
        self.placed
    }

    /// So many more nodes.
    pub(super) fn nodes(&mut self, count: usize) {
        self.dressed_nodes(count, |_, _| ());
    }

    /// So many more nodes, in these zones by turns.
    pub(super) fn nodes_in(&mut self, count: usize, zones: &[&str]) {
        self.dressed_nodes(count, |node, index| {
            node["metadata"]["labels"][manifest::ZONE] = json!(zones[index % zones.len()]);
        });
    }

    /// So many more nodes that take only pods which tolerate it.
    pub(super) fn tainted_nodes(&mut self, count: usize) {
        self.dressed_nodes(count, |node, _| {
            node["spec"]["taints"] = json!([{ "key": "foo", "effect": "NoSchedule" }]);
        });
    }

    /// The node that has room for all pods.
    pub(super) fn the_node(&mut self) {
        let mut node = manifest::node(manifest::THE_NODE);
        node["status"]["allocatable"]["pods"] = json!("90000");
        self.nodes.push(manifest::THE_NODE.to_owned());
        self.object(&node);
    }

    /// So many more nodes with the driver for volumes.
    pub(super) fn nodes_with_driver(&mut self, count: usize, migrated: &str) {
        self.dressed_nodes(count, |node, _| {
            node["status"]["allocatable"]["attachable-volumes-csi-ebs.csi.aws.com"] = json!("39");
        });
        for index in 0..self.nodes.len() {
            let csi_node = manifest::csi_node(&self.nodes[index], migrated);
            self.object(&csi_node);
        }
    }

    fn dressed_nodes(&mut self, count: usize, dress: impl Fn(&mut Value, usize)) {
        for index in 0..count {
            let name = format!("node-{:05}", self.nodes.len());
            let mut node = manifest::node(&name);
            dress(&mut node, index);
            self.nodes.push(name);
            self.object(&node);
        }
    }

    /// One more object that is there before.
    pub(super) fn object(&mut self, object: &Value) {
        self.before.push(What::Added(manifest::object(object)));
    }

    /// Namespaces of a team, numbered.
    pub(super) fn team_namespaces(&mut self, prefix: &str, count: usize) {
        for index in 0..count {
            self.object(&manifest::namespace(&format!("{prefix}-{index}"), &json!({ "team": "devops" })));
        }
    }

    /// Claims for so many pods, each with its volume.
    pub(super) fn claims(&mut self, count: usize, namespace: &str, source: Source) {
        for index in 0..count {
            for object in manifest::claim_and_volume(namespace, index, source) {
                self.object(&object);
            }
        }
    }

    /// So many more pods that run, on the nodes by turns.
    pub(super) fn placed(&mut self, count: usize, namespace: &str, template: Template) {
        for index in 0..count {
            let name = format!("init-{:05}", self.placed);
            let pod = self.placed_pod(namespace, &name, template, index);
            self.placed += 1;
            self.object(&pod);
        }
    }

    fn placed_pod(&self, namespace: &str, name: &str, template: Template, index: usize) -> Value {
        let mut pod = manifest::pod(namespace, name);
        template(&mut pod, index);
        pod["spec"]["nodeName"] = json!(self.nodes[self.placed % self.nodes.len()]);
        let started = Moment::from_nanos(self.placed as i64 * 1_000_000_000);
        pod["status"] = json!({ "phase": "Running", "startTime": started.to_string() });
        pod
    }

    /// So many pods that wait for something else than a node.
    pub(super) fn held_back(&mut self, count: usize, namespace: &str, template: Template) {
        for index in 0..count {
            let mut pod = manifest::pod(namespace, &format!("held-{index:05}"));
            template(&mut pod, index);
            self.object(&pod);
        }
    }

    /// So many more pods whose placing is measured.
    pub(super) fn measured(&mut self, count: usize, namespace: &str, template: Template) {
        for index in 0..count {
            let mut pod = manifest::pod(namespace, &format!("{MEASURED}{:05}", self.measured.len()));
            template(&mut pod, index);
            self.measured.push(manifest::object(&pod));
        }
    }

    /// While the measured pods are placed these things happen, again and again.
    pub(super) fn churn(&mut self, every: Duration, tick: impl Fn(usize) -> Vec<What>) {
        let whole = self.pace.saturating_mul(self.measured.len() as u32);
        let mut at = every;
        for index in 0.. {
            if at >= whole {
                break;
            }
            let moment = START.plus_nanos(at.as_nanos() as i64);
            self.events.extend(tick(index).into_iter().map(|what| (moment, what)));
            at += every;
        }
    }

    /// While the measured pods are placed the pods that run go, one after the other.
    pub(super) fn placed_pods_go(&mut self, every: Duration) {
        let running = |what: &What| what.object().meta().name.starts_with("init-");
        let pods: Vec<Object> =
            self.before.iter().filter(|what| running(what)).map(|what| what.object().clone()).collect();
        self.churn(every, |index| {
            pods.get(index).map(|pod| What::Deleted(pod.clone())).into_iter().collect()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::plain;
    use super::*;

    #[test]
    fn the_clock_goes_on_with_the_pods() {
        let mut stage = Stage::new(10.0);
        stage.nodes(2);
        stage.placed(3, "default", plain);
        stage.measured(25, "default", plain);
        // 25 pods take two and a half seconds: the last tick before their end is the eighth.
        stage.placed_pods_go(Duration::from_millis(300));
        let went: Vec<_> =
            stage.events.iter().map(|(at, what)| (at.nanos_since(START), what.event_type())).collect();
        assert_eq!(went, [(300_000_000, "DELETED"), (600_000_000, "DELETED"), (900_000_000, "DELETED")]);
        stage.churn(Duration::from_millis(300), |_| vec![stage_end()]);
        assert_eq!(stage.events.len(), 3 + 8);
    }

    #[test]
    fn running_pods_are_on_the_nodes_by_turns() {
        let mut stage = Stage::new(10.0);
        stage.nodes(2);
        stage.placed(3, "default", plain);
        let nodes: Vec<Value> = stage.before[2..]
            .iter()
            .map(|what| what.object().value().unwrap()["spec"]["nodeName"].clone())
            .collect();
        assert_eq!(nodes, ["node-00000", "node-00001", "node-00000"]);
    }

    fn stage_end() -> What {
        What::Added(manifest::object(&manifest::node("late")))
    }
}
