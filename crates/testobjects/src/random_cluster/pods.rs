//! Random creation, binding, change and deletion of pods.

use model::What;
use serde_json::{Value, json};

use super::{APPS, NAMESPACES, PodEntry, RandomCluster, object};

const TOPOLOGY_KEYS: [&str; 4] =
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "rack"];

impl RandomCluster {
    /// Creates a pod. Most pods have the scheduling spec of others and differ in labels at most.
    pub(super) fn new_pod(&mut self) -> What {
        let number = self.next_number();
        let mut pod = match self.templates.len() {
            0..6 => self.new_template(),
            _ if self.rng.chance(15) => self.new_template(),
            _ => self.rng.choose(&self.templates).clone(),
        };
        pod["metadata"]["name"] = json!(format!("pod-{number}"));
        pod["metadata"]["uid"] = json!(format!("uid-{number}"));
        if self.rng.chance(40) {
            pod["metadata"]["labels"] = self.pod_labels();
        }
        self.pods.push(PodEntry { pod: pod.clone(), placed_on: None });
        What::Added(object(&pod))
    }

    fn new_template(&mut self) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": self.rng.choose(&NAMESPACES)},
            // No preemption, which is not compared here.
            "spec": {"containers": [], "priority": self.rng.below(3), "preemptionPolicy": "Never"},
        });
        pod["metadata"]["labels"] = self.pod_labels();
        if self.rng.chance(40) {
            let set = format!("set-{}", self.rng.below(4));
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set, "controller": true}]);
        }
        for _ in 0..1 + self.rng.below(2) {
            let container = self.container();
            pod["spec"]["containers"].as_array_mut().expect("the value is an array").push(container);
        }
        if self.rng.chance(15) {
            let mut container = self.container();
            container["ports"] = json!([]);
            pod["spec"]["initContainers"] = json!([container]);
        }
        if self.rng.chance(40) {
            pod["spec"]["tolerations"] = self.tolerations();
        }
        self.add_node_affinity(&mut pod);
        for (field, chance) in [("podAffinity", 15), ("podAntiAffinity", 20)] {
            if self.rng.chance(chance) {
                pod["spec"]["affinity"][field]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    self.affinity_terms();
            }
            if self.rng.chance(chance) {
                let terms = self.affinity_terms();
                let terms = terms.as_array().expect("the value is an array").iter();
                let weighted: Vec<Value> = terms
                    .map(|term| json!({"weight": 1 + self.rng.below(100), "podAffinityTerm": term}))
                    .collect();
                pod["spec"]["affinity"][field]["preferredDuringSchedulingIgnoredDuringExecution"] =
                    json!(weighted);
            }
        }
        if self.rng.chance(40) {
            let count = 1 + self.rng.below(3);
            let constraints: Vec<Value> = (0..count).map(|_| self.spread_constraint()).collect();
            pod["spec"]["topologySpreadConstraints"] = json!(constraints);
        }
        self.templates.push(pod.clone());
        pod
    }

    /// The binding of a placed pod is observed.
    pub(super) fn observe_binding(&mut self) -> Option<What> {
        let placed: Vec<usize> =
            (0..self.pods.len()).filter(|index| self.pods[*index].placed_on.is_some()).collect();
        if placed.is_empty() {
            return None;
        }
        let index = *self.rng.choose(&placed);
        let node = self.pods[index].placed_on.take();
        self.pods[index].pod["spec"]["nodeName"] = json!(node);
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    /// Another client binds a pod, perhaps one that the scheduler placed on another node, perhaps to a deleted node.
    /// Pods with ports are not bound: with two pods of one port on a node, the order of their deletion would matter.
    pub(super) fn bind_externally(&mut self) -> Option<What> {
        let index = self.pick_pod(|one| one.pod["spec"]["nodeName"].is_null() && !has_ports(&one.pod))?;
        let nodes = self.nodes.iter().chain(&self.deleted_nodes);
        let names: Vec<String> = nodes.map(|node| super::text(&node["metadata"]["name"])).collect();
        if names.is_empty() {
            return None;
        }
        self.pods[index].placed_on = None;
        self.pods[index].pod["spec"]["nodeName"] = json!(self.rng.choose(&names));
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    /// Starts the deletion of a pod. Not of one that is placed and whose binding was not observed: its binding would
    /// fail, which is not tested here.
    pub(super) fn start_deletion(&mut self) -> Option<What> {
        let index = self.pick_pod(|one| one.placed_on.is_none())?;
        self.pods[index].pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    pub(super) fn delete_pod(&mut self) -> Option<What> {
        let index = self.pick_pod(|_| true)?;
        Some(What::Deleted(object(&self.pods.swap_remove(index).pod)))
    }

    pub(super) fn relabel_pod(&mut self) -> Option<What> {
        let index = self.pick_pod(|_| true)?;
        self.pods[index].pod["metadata"]["labels"] = self.pod_labels();
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    /// Another client nominates a node for a pod, or clears the nomination. Pods with node affinity are left out: node
    /// names in it may contradict the nomination in a way that never matters.
    pub(super) fn nominate_node(&mut self) -> Option<What> {
        let free = |one: &PodEntry| {
            one.placed_on.is_none()
                && one.pod["spec"]["nodeName"].is_null()
                && one.pod["spec"]["affinity"]["nodeAffinity"].is_null()
        };
        let index = self.pick_pod(free)?;
        if self.pods[index].pod.as_object_mut().expect("a pod is an object").remove("status").is_none() {
            let nodes: Vec<&Value> = self.nodes.iter().chain(&self.deleted_nodes).collect();
            let name = &self.rng.choose(&nodes)["metadata"]["name"];
            self.pods[index].pod["status"] = json!({"nominatedNodeName": name});
        }
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    fn pick_pod(&mut self, wanted: impl Fn(&PodEntry) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (0..self.pods.len()).filter(|index| wanted(&self.pods[*index])).collect();
        (!fitting.is_empty()).then(|| *self.rng.choose(&fitting))
    }

    fn pod_labels(&mut self) -> Value {
        let mut labels = json!({"app": self.rng.choose(&APPS)});
        if self.rng.chance(60) {
            labels["tier"] = json!(self.rng.choose(&["x", "y"]));
        }
        if self.rng.chance(40) {
            labels["version"] = json!(self.rng.choose(&["1", "2"]));
        }
        labels
    }

    fn container(&mut self) -> Value {
        let mut requests = json!({});
        for (name, chance, amounts) in [
            ("cpu", 70, ["100m", "250m", "1", "0"]),
            ("memory", 70, ["128Mi", "1Gi", "300M", "0"]),
            ("ephemeral-storage", 10, ["1Gi", "2G", "11Gi", "0"]),
            ("example.com/gpu", 8, ["1", "2", "3", "0"]),
            ("hugepages-2Mi", 5, ["2Mi", "64Mi", "4Mi", "128Mi"]),
        ] {
            if self.rng.chance(chance) {
                requests[name] = json!(self.rng.choose(&amounts));
            }
        }
        let image = *self.rng.choose(&["web", "web:v1", "registry:5000/db", "cache:latest", "other"]);
        let mut container = json!({"name": "c", "image": image, "resources": {"requests": requests}});
        if self.rng.chance(15) {
            container["ports"] = json!([{
                "containerPort": 80,
                "hostPort": self.rng.choose(&[80, 443]),
                "hostIP": self.rng.choose(&["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
                "protocol": self.rng.choose(&["TCP", "UDP"]),
            }]);
        }
        container
    }

    fn tolerations(&mut self) -> Value {
        let one = *self.rng.choose(&["gpu", "spot"]);
        match self.rng.below(6) {
            0 => json!([{"operator": "Exists"}]),
            1 => json!([{"key": one, "operator": "Exists", "effect": "NoSchedule"}]),
            2 => json!([{"key": one, "operator": "Equal", "value": "yes"}]),
            3 => json!([{"key": one}, {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            4 => json!([{"key": one, "value": "yes", "effect": "PreferNoSchedule"}]),
            _ => json!([{"key": one, "operator": "Exists"}]),
        }
    }

    fn add_node_affinity(&mut self, pod: &mut Value) {
        if self.rng.chance(8) {
            pod["spec"]["nodeSelector"] = json!({"disk": "ssd"});
        }
        let names: Vec<String> =
            self.nodes.iter().map(|node| super::text(&node["metadata"]["name"])).collect();
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        match self.rng.below(30) {
            0 if !names.is_empty() => {
                let by_name = |cluster: &mut RandomCluster| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [cluster.rng.choose(&names)]}]});
                let terms = [by_name(self), by_name(self)];
                pod["spec"]["affinity"]["nodeAffinity"][required] = json!({"nodeSelectorTerms": terms});
            }
            1 => pod["spec"]["affinity"]["nodeAffinity"][required] = json!({"nodeSelectorTerms": []}),
            2..5 => {
                let terms = [self.node_selector_term(), self.node_selector_term()];
                pod["spec"]["affinity"]["nodeAffinity"][required] = json!({"nodeSelectorTerms": terms});
            }
            _ => {}
        }
        if self.rng.chance(20) {
            let terms = [(); 2].map(
                |()| json!({"weight": 1 + self.rng.below(100), "preference": self.node_selector_term()}),
            );
            pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!(terms);
        }
    }

    fn node_selector_term(&mut self) -> Value {
        let expression = match self.rng.below(6) {
            0 => json!({"key": "rack", "operator": "Gt", "values": ["2"]}),
            1 => json!({"key": "rack", "operator": "Lt", "values": ["3"]}),
            2 => json!({"key": "disk", "operator": "NotIn", "values": ["hdd"]}),
            3 => json!({"key": "disk", "operator": "DoesNotExist"}),
            4 => json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1", "z2"]}),
            _ => return json!({}),
        };
        json!({"matchExpressions": [expression]})
    }

    fn affinity_terms(&mut self) -> Value {
        let count = 1 + self.rng.below(2);
        json!((0..count).map(|_| self.affinity_term()).collect::<Vec<_>>())
    }

    fn affinity_term(&mut self) -> Value {
        let mut term =
            json!({"topologyKey": self.rng.choose(&TOPOLOGY_KEYS), "labelSelector": self.label_selector()});
        if self.rng.chance(5) {
            term["labelSelector"] = Value::Null;
        }
        if self.rng.chance(20) {
            term["namespaces"] = json!([self.rng.choose(&NAMESPACES), "default"]);
        }
        if self.rng.chance(30) {
            term["namespaceSelector"] = match self.rng.below(4) {
                0 => json!({}),
                1 => json!({"matchLabels": {"team": "red"}}),
                2 => json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}),
                _ => json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
            };
        }
        term
    }

    fn spread_constraint(&mut self) -> Value {
        let mut constraint = json!({
            "maxSkew": 1 + self.rng.below(3),
            "topologyKey": self.rng.choose(&TOPOLOGY_KEYS),
            "whenUnsatisfiable": self.rng.choose(&["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": self.label_selector(),
        });
        if self.rng.chance(5) {
            constraint["labelSelector"] = Value::Null;
        }
        if self.rng.chance(20) {
            constraint["minDomains"] = json!(1 + self.rng.below(5));
        }
        if self.rng.chance(30) {
            constraint["matchLabelKeys"] = json!(["version"]);
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if self.rng.chance(40) {
                constraint[policy] = json!(self.rng.choose(&["Honor", "Ignore"]));
            }
        }
        constraint
    }
}

fn has_ports(pod: &Value) -> bool {
    let containers = pod["spec"]["containers"].as_array().expect("a pod has containers");
    containers.iter().any(|container| container.get("ports").is_some())
}
