//! Random creation, binding, change and deletion of pods.

use model::What;
use serde_json::{Value, json};

use super::{APPS, NAMESPACES, Resident, Town, object};

const KEYS: [&str; 4] =
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "rack"];

impl Town {
    /// Creates a pod. Most pods have the scheduling spec of others and differ in labels at most.
    pub(super) fn new_pod(&mut self) -> What {
        let number = self.number();
        let mut pod = match self.templates.len() {
            0..6 => self.new_template(),
            _ if self.dice.chance(15) => self.new_template(),
            _ => self.dice.one(&self.templates).clone(),
        };
        pod["metadata"]["name"] = json!(format!("pod-{number}"));
        pod["metadata"]["uid"] = json!(format!("uid-{number}"));
        if self.dice.chance(40) {
            pod["metadata"]["labels"] = self.pod_labels();
        }
        self.pods.push(Resident { pod: pod.clone(), placed: None });
        What::Added(object(&pod))
    }

    fn new_template(&mut self) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": self.dice.one(&NAMESPACES)},
            // No preemption, which is not compared here.
            "spec": {"containers": [], "priority": self.dice.below(3), "preemptionPolicy": "Never"},
        });
        pod["metadata"]["labels"] = self.pod_labels();
        if self.dice.chance(40) {
            let set = format!("set-{}", self.dice.below(4));
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set, "controller": true}]);
        }
        for _ in 0..1 + self.dice.below(2) {
            let container = self.container();
            pod["spec"]["containers"].as_array_mut().expect("it was made one").push(container);
        }
        if self.dice.chance(15) {
            let mut container = self.container();
            container["ports"] = json!([]);
            pod["spec"]["initContainers"] = json!([container]);
        }
        if self.dice.chance(40) {
            pod["spec"]["tolerations"] = self.tolerations();
        }
        self.choose_nodes(&mut pod);
        for (field, chance) in [("podAffinity", 15), ("podAntiAffinity", 20)] {
            if self.dice.chance(chance) {
                pod["spec"]["affinity"][field]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    self.terms();
            }
            if self.dice.chance(chance) {
                let terms = self.terms();
                let terms = terms.as_array().expect("it was made one").iter();
                let weighted: Vec<Value> = terms
                    .map(|term| json!({"weight": 1 + self.dice.below(100), "podAffinityTerm": term}))
                    .collect();
                pod["spec"]["affinity"][field]["preferredDuringSchedulingIgnoredDuringExecution"] =
                    json!(weighted);
            }
        }
        if self.dice.chance(40) {
            let count = 1 + self.dice.below(3);
            let constraints: Vec<Value> = (0..count).map(|_| self.constraint()).collect();
            pod["spec"]["topologySpreadConstraints"] = json!(constraints);
        }
        self.templates.push(pod.clone());
        pod
    }

    /// The binding of a placed pod is observed.
    pub(super) fn see_placed(&mut self) -> Option<What> {
        let placed: Vec<usize> =
            (0..self.pods.len()).filter(|index| self.pods[*index].placed.is_some()).collect();
        if placed.is_empty() {
            return None;
        }
        let index = *self.dice.one(&placed);
        let node = self.pods[index].placed.take();
        self.pods[index].pod["spec"]["nodeName"] = json!(node);
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    /// Another client binds a pod, perhaps one that the scheduler placed on another node, perhaps to a deleted node.
    /// Pods with ports are not bound: with two pods of one port on a node, the order of their deletion would matter.
    pub(super) fn bind_elsewhere(&mut self) -> Option<What> {
        let index = self.some_pod(|one| one.pod["spec"]["nodeName"].is_null() && !has_ports(&one.pod))?;
        let nodes = self.nodes.iter().chain(&self.gone_nodes);
        let names: Vec<String> = nodes.map(|node| super::text(&node["metadata"]["name"])).collect();
        if names.is_empty() {
            return None;
        }
        self.pods[index].placed = None;
        self.pods[index].pod["spec"]["nodeName"] = json!(self.dice.one(&names));
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    /// Starts the deletion of a pod. Not of one that is placed and whose binding was not observed: its binding would
    /// fail, which is not tested here.
    pub(super) fn begin_to_delete(&mut self) -> Option<What> {
        let index = self.some_pod(|one| one.placed.is_none())?;
        self.pods[index].pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    pub(super) fn lose_pod(&mut self) -> Option<What> {
        let index = self.some_pod(|_| true)?;
        Some(What::Deleted(object(&self.pods.swap_remove(index).pod)))
    }

    pub(super) fn relabel_pod(&mut self) -> Option<What> {
        let index = self.some_pod(|_| true)?;
        self.pods[index].pod["metadata"]["labels"] = self.pod_labels();
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    /// Another client nominates a node for a pod, or clears the nomination. Pods with node affinity are left out: a
    /// node selected by name may contradict the nomination in a way that has no defined result.
    pub(super) fn promise_node(&mut self) -> Option<What> {
        let free = |one: &Resident| {
            one.placed.is_none()
                && one.pod["spec"]["nodeName"].is_null()
                && one.pod["spec"]["affinity"]["nodeAffinity"].is_null()
        };
        let index = self.some_pod(free)?;
        if self.pods[index].pod.as_object_mut().expect("it is one").remove("status").is_none() {
            let nodes: Vec<&Value> = self.nodes.iter().chain(&self.gone_nodes).collect();
            let name = &self.dice.one(&nodes)["metadata"]["name"];
            self.pods[index].pod["status"] = json!({"nominatedNodeName": name});
        }
        Some(What::Modified(object(&self.pods[index].pod)))
    }

    fn some_pod(&mut self, wanted: impl Fn(&Resident) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (0..self.pods.len()).filter(|index| wanted(&self.pods[*index])).collect();
        (!fitting.is_empty()).then(|| *self.dice.one(&fitting))
    }

    fn pod_labels(&mut self) -> Value {
        let mut labels = json!({"app": self.dice.one(&APPS)});
        if self.dice.chance(60) {
            labels["tier"] = json!(self.dice.one(&["x", "y"]));
        }
        if self.dice.chance(40) {
            labels["version"] = json!(self.dice.one(&["1", "2"]));
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
            if self.dice.chance(chance) {
                requests[name] = json!(self.dice.one(&amounts));
            }
        }
        let image = *self.dice.one(&["web", "web:v1", "registry:5000/db", "cache:latest", "other"]);
        let mut container = json!({"name": "c", "image": image, "resources": {"requests": requests}});
        if self.dice.chance(15) {
            container["ports"] = json!([{
                "containerPort": 80,
                "hostPort": self.dice.one(&[80, 443]),
                "hostIP": self.dice.one(&["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
                "protocol": self.dice.one(&["TCP", "UDP"]),
            }]);
        }
        container
    }

    fn tolerations(&mut self) -> Value {
        let one = *self.dice.one(&["gpu", "spot"]);
        match self.dice.below(6) {
            0 => json!([{"operator": "Exists"}]),
            1 => json!([{"key": one, "operator": "Exists", "effect": "NoSchedule"}]),
            2 => json!([{"key": one, "operator": "Equal", "value": "yes"}]),
            3 => json!([{"key": one}, {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            4 => json!([{"key": one, "value": "yes", "effect": "PreferNoSchedule"}]),
            _ => json!([{"key": one, "operator": "Exists"}]),
        }
    }

    fn choose_nodes(&mut self, pod: &mut Value) {
        if self.dice.chance(8) {
            pod["spec"]["nodeSelector"] = json!({"disk": "ssd"});
        }
        let names: Vec<String> =
            self.nodes.iter().map(|node| super::text(&node["metadata"]["name"])).collect();
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        match self.dice.below(30) {
            0 if !names.is_empty() => {
                let by_name = |town: &mut Town| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [town.dice.one(&names)]}]});
                let terms = [by_name(self), by_name(self)];
                pod["spec"]["affinity"]["nodeAffinity"][required] = json!({"nodeSelectorTerms": terms});
            }
            1 => pod["spec"]["affinity"]["nodeAffinity"][required] = json!({"nodeSelectorTerms": []}),
            2..5 => {
                let terms = [self.node_term(), self.node_term()];
                pod["spec"]["affinity"]["nodeAffinity"][required] = json!({"nodeSelectorTerms": terms});
            }
            _ => {}
        }
        if self.dice.chance(20) {
            let terms =
                [(); 2].map(|()| json!({"weight": 1 + self.dice.below(100), "preference": self.node_term()}));
            pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!(terms);
        }
    }

    fn node_term(&mut self) -> Value {
        let expression = match self.dice.below(6) {
            0 => json!({"key": "rack", "operator": "Gt", "values": ["2"]}),
            1 => json!({"key": "rack", "operator": "Lt", "values": ["3"]}),
            2 => json!({"key": "disk", "operator": "NotIn", "values": ["hdd"]}),
            3 => json!({"key": "disk", "operator": "DoesNotExist"}),
            4 => json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1", "z2"]}),
            _ => return json!({}),
        };
        json!({"matchExpressions": [expression]})
    }

    fn terms(&mut self) -> Value {
        let count = 1 + self.dice.below(2);
        json!((0..count).map(|_| self.term()).collect::<Vec<_>>())
    }

    fn term(&mut self) -> Value {
        let mut term = json!({"topologyKey": self.dice.one(&KEYS), "labelSelector": self.label_selector()});
        if self.dice.chance(5) {
            term["labelSelector"] = Value::Null;
        }
        if self.dice.chance(20) {
            term["namespaces"] = json!([self.dice.one(&NAMESPACES), "default"]);
        }
        if self.dice.chance(30) {
            term["namespaceSelector"] = match self.dice.below(4) {
                0 => json!({}),
                1 => json!({"matchLabels": {"team": "red"}}),
                2 => json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}),
                _ => json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
            };
        }
        term
    }

    fn constraint(&mut self) -> Value {
        let mut constraint = json!({
            "maxSkew": 1 + self.dice.below(3),
            "topologyKey": self.dice.one(&KEYS),
            "whenUnsatisfiable": self.dice.one(&["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": self.label_selector(),
        });
        if self.dice.chance(5) {
            constraint["labelSelector"] = Value::Null;
        }
        if self.dice.chance(20) {
            constraint["minDomains"] = json!(1 + self.dice.below(5));
        }
        if self.dice.chance(30) {
            constraint["matchLabelKeys"] = json!(["version"]);
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if self.dice.chance(40) {
                constraint[policy] = json!(self.dice.one(&["Honor", "Ignore"]));
            }
        }
        constraint
    }
}

fn has_ports(pod: &Value) -> bool {
    let containers = pod["spec"]["containers"].as_array().expect("it has some");
    containers.iter().any(|container| container.get("ports").is_some())
}
