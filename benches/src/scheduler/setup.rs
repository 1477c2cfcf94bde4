//! The setup of a workload: its initial objects, its measured pods, and the changes during the run.

use std::time::Duration;

use model::{Moment, Object, What};
use serde_json::{Value, json};

use super::manifest::{self, PodTemplate, VolumeSource};

/// The objects and changes of a workload.
pub(super) struct WorkloadSetup {
    /// The initial objects: nodes, running pods and others.
    pub(super) initial: Vec<What>,
    /// The pods whose scheduling is measured, in order.
    pub(super) measured: Vec<Object>,
    /// Changes at fixed times, in order.
    pub(super) events: Vec<(Moment, What)>,
    /// The virtual time per measured pod.
    pub(super) interval: Duration,
    /// Whether a pod is attempted again directly after it preempted others, as with the real code that it is compared
    /// with. Else it waits in the queue, as in a cluster.
    pub(super) retries_preemptor_at_once: bool,
    /// The expected number of unschedulable measured pods. Another number is an error.
    pub(super) unschedulable: usize,
    /// Whether pods are expected to be preempted.
    pub(super) has_victims: bool,
    /// The names of the nodes.
    nodes: Vec<String>,
    /// The number of running pods.
    running_pods: usize,
}

/// The prefix of the names of measured pods, and of no others.
pub(super) const MEASURED_PREFIX: &str = "pod-";
/// The beginning of a run.
pub(super) const START: Moment = Moment::from_nanos(1_800_000_000_000_000_000);

// === impl WorkloadSetup ===

impl WorkloadSetup {
    /// An empty setup, in which this many pods are scheduled per second of virtual time.
    pub(super) fn new(pods_per_second: f64) -> WorkloadSetup {
        WorkloadSetup {
            initial: Vec::new(),
            measured: Vec::new(),
            events: Vec::new(),
            interval: Duration::from_secs_f64(1.0 / pods_per_second),
            retries_preemptor_at_once: false,
            unschedulable: 0,
            has_victims: false,
            nodes: Vec::new(),
            running_pods: 0,
        }
    }

    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn running_pod_count(&self) -> usize {
        self.running_pods
    }

    /// Adds nodes.
    pub(super) fn add_nodes(&mut self, count: usize) {
        self.add_customized_nodes(count, |_, _| ());
    }

    /// Adds nodes in these zones, round-robin.
    pub(super) fn add_nodes_in_zones(&mut self, count: usize, zones: &[&str]) {
        self.add_customized_nodes(count, |node, index| {
            node["metadata"]["labels"][manifest::ZONE] = json!(zones[index % zones.len()]);
        });
    }

    /// Adds nodes with a taint.
    pub(super) fn add_tainted_nodes(&mut self, count: usize) {
        self.add_customized_nodes(count, |node, _| {
            node["spec"]["taints"] = json!([{ "key": "foo", "effect": "NoSchedule" }]);
        });
    }

    /// Adds the single node with capacity for all pods.
    pub(super) fn add_single_node(&mut self) {
        let mut node = manifest::node(manifest::SINGLE_NODE);
        node["status"]["allocatable"]["pods"] = json!("90000");
        self.nodes.push(manifest::SINGLE_NODE.to_owned());
        self.add_object(&node);
    }

    /// Adds nodes with the CSI driver.
    pub(super) fn add_nodes_with_driver(&mut self, count: usize, migrated: &str) {
        self.add_customized_nodes(count, |node, _| {
            node["status"]["allocatable"]["attachable-volumes-csi-ebs.csi.aws.com"] = json!("39");
        });
        for index in 0..self.nodes.len() {
            let csi_node = manifest::csi_node(&self.nodes[index], migrated);
            self.add_object(&csi_node);
        }
    }

    fn add_customized_nodes(&mut self, count: usize, customize: impl Fn(&mut Value, usize)) {
        for index in 0..count {
            let name = format!("node-{:05}", self.nodes.len());
            let mut node = manifest::node(&name);
            customize(&mut node, index);
            self.nodes.push(name);
            self.add_object(&node);
        }
    }

    /// Adds an initial object.
    pub(super) fn add_object(&mut self, object: &Value) {
        self.initial.push(What::Added(manifest::object(object)));
    }

    /// Adds numbered namespaces with the team label.
    pub(super) fn add_team_namespaces(&mut self, prefix: &str, count: usize) {
        for index in 0..count {
            self.add_object(&manifest::namespace(&format!("{prefix}-{index}"), &json!({ "team": "devops" })));
        }
    }

    /// Adds volume claims, each with its volume.
    pub(super) fn add_claims(&mut self, count: usize, namespace: &str, source: VolumeSource) {
        for index in 0..count {
            for object in manifest::claim_and_volume(namespace, index, source) {
                self.add_object(&object);
            }
        }
    }

    /// Adds running pods, on the nodes round-robin.
    pub(super) fn add_running_pods(&mut self, count: usize, namespace: &str, template: PodTemplate) {
        for index in 0..count {
            self.add_running_pod(namespace, |pod| template(pod, index));
        }
    }

    /// Adds a running pod, on the next node.
    pub(super) fn add_running_pod(&mut self, namespace: &str, customize: impl FnOnce(&mut Value)) {
        let mut pod = manifest::pod(namespace, &format!("init-{:05}", self.running_pods));
        customize(&mut pod);
        pod["spec"]["nodeName"] = json!(self.nodes[self.running_pods % self.nodes.len()]);
        let started = Moment::from_nanos(self.running_pods as i64 * 1_000_000_000);
        pod["status"] = json!({ "phase": "Running", "startTime": started.to_string() });
        self.running_pods += 1;
        self.add_object(&pod);
    }

    /// Adds pods that are not schedulable yet.
    pub(super) fn add_gated_pods(&mut self, count: usize, namespace: &str, template: PodTemplate) {
        for index in 0..count {
            let mut pod = manifest::pod(namespace, &format!("held-{index:05}"));
            template(&mut pod, index);
            self.add_object(&pod);
        }
    }

    /// Adds pods whose scheduling is measured.
    pub(super) fn add_measured_pods(&mut self, count: usize, namespace: &str, template: PodTemplate) {
        for index in 0..count {
            self.add_measured_pod(namespace, |pod| template(pod, index));
        }
    }

    /// Adds a pod whose scheduling is measured.
    pub(super) fn add_measured_pod(&mut self, namespace: &str, customize: impl FnOnce(&mut Value)) {
        let mut pod = manifest::pod(namespace, &format!("{MEASURED_PREFIX}{:05}", self.measured.len()));
        customize(&mut pod);
        self.measured.push(manifest::object(&pod));
    }

    /// Adds changes at regular intervals during the run.
    pub(super) fn add_churn(&mut self, every: Duration, tick: impl Fn(usize) -> Vec<What>) {
        let duration = self.interval.saturating_mul(self.measured.len() as u32);
        let mut at = every;
        for index in 0.. {
            if at >= duration {
                break;
            }
            let moment = START.plus_nanos(at.as_nanos() as i64);
            self.events.extend(tick(index).into_iter().map(|what| (moment, what)));
            at += every;
        }
    }

    /// Deletes the running pods during the run, one after the other.
    pub(super) fn delete_running_pods(&mut self, every: Duration) {
        let running = |what: &What| what.object().meta().name.starts_with("init-");
        let pods: Vec<Object> =
            self.initial.iter().filter(|what| running(what)).map(|what| what.object().clone()).collect();
        self.add_churn(every, |index| {
            pods.get(index).map(|pod| What::Deleted(pod.clone())).into_iter().collect()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::plain;
    use super::*;

    #[test]
    fn the_clock_advances_with_the_pods() {
        let mut setup = WorkloadSetup::new(10.0);
        setup.add_nodes(2);
        setup.add_running_pods(3, "default", plain);
        setup.add_measured_pods(25, "default", plain);
        // 25 pods take two and a half seconds: the last tick before their end is the eighth.
        setup.delete_running_pods(Duration::from_millis(300));
        let deletions: Vec<_> =
            setup.events.iter().map(|(at, what)| (at.nanos_since(START), what.event_type())).collect();
        assert_eq!(deletions, [(300_000_000, "DELETED"), (600_000_000, "DELETED"), (900_000_000, "DELETED")]);
        setup.add_churn(Duration::from_millis(300), |_| vec![late_node()]);
        assert_eq!(setup.events.len(), 3 + 8);
    }

    #[test]
    fn running_pods_are_distributed_round_robin() {
        let mut setup = WorkloadSetup::new(10.0);
        setup.add_nodes(2);
        setup.add_running_pods(3, "default", plain);
        let nodes: Vec<Value> = setup.initial[2..]
            .iter()
            .map(|what| what.object().value().unwrap()["spec"]["nodeName"].clone())
            .collect();
        assert_eq!(nodes, ["node-00000", "node-00001", "node-00000"]);
    }

    fn late_node() -> What {
        What::Added(manifest::object(&manifest::node("late")))
    }
}
