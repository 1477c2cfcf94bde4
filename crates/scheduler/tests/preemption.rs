//! Differential test of preemption: a scheduler that keeps dry runs between decisions, and one without caches, on random
//! clusters with priorities, disruption budgets, start times and nominations. They must agree on every decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::{PodEvent, PodView};
use model::{Moment, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use scheduler::{Decision, Scheduler, Settings};
use serde_json::{Value, json};
use testobjects::{node, object, pod};

const NAMESPACES: [&str; 2] = ["a", "b"];
const APPS: [&str; 3] = ["x", "y", "z"];
const SECOND: i64 = 1_000_000_000;

/// Two schedulers that receive the same events.
struct PreemptionTest {
    rng: Pcg64,
    cached: Scheduler,
    uncached: Scheduler,
    now: Moment,
    nodes: usize,
    created: usize,
    /// By namespace and name.
    pending: BTreeMap<(String, String), Value>,
    running: BTreeMap<(String, String), Value>,
    budgets: BTreeMap<(String, String), Value>,
    /// The last version of each pod by name.
    views: BTreeMap<String, Arc<PodView>>,
    victims: usize,
}

#[test]
fn cached_dry_runs_decide_as_new_ones() {
    let mut victims = 0;
    for seed in 1..=60 {
        let mut test = PreemptionTest::new(seed);
        for step in 0..150 {
            test.change();
            for _ in 0..3 {
                test.attempt(&format!("seed {seed}, step {step}"));
            }
        }
        victims += test.victims;
    }
    assert!(victims > 1_000, "only {victims} pods were preempted");
}

/// A scheduler with two pods on one node, of which a pending pod must preempt one. The pods start so many seconds after
/// the beginning, if at all.
fn two_pods(starts: [Option<i64>; 2]) -> Scheduler {
    let mut scheduler = Scheduler::new(Settings::default());
    scheduler.apply(seconds(0), &node("n").allocatable("cpu", "4").allocatable("pods", "9").added());
    for (name, start) in ["a", "b"].into_iter().zip(starts) {
        let mut running = pod(name).request("cpu", "2").on("n");
        if let Some(start) = start {
            running = running.set("status.startTime", seconds(start).to_string());
        }
        scheduler.apply(seconds(0), &running.added());
    }
    scheduler.apply(seconds(0), &pod("preemptor").request("cpu", "2").priority(1).added());
    scheduler
}

/// Shares the spec with the last version if it did not change, as an informer does. The pod is then not converted again.
fn share_spec(view: &mut PodView, last: Option<&PodView>) {
    if let Some(last) = last.filter(|last| last.spec.json == view.spec.json) {
        view.spec = last.spec.clone();
    }
}

fn seconds(seconds: i64) -> Moment {
    Moment::from_nanos(seconds * SECOND)
}

#[track_caller]
fn check_victim(scheduler: &mut Scheduler, now: Moment, expected: &str) {
    let explanation = scheduler.explain(now, "default", "preemptor").expect("the pod is pending");
    let Decision::Unschedulable(rejection) = explanation.decision else { panic!("the pod must wait") };
    let victims: Vec<&str> = rejection.victims.iter().map(|victim| &*victim.name).collect();
    assert_eq!(victims, [expected]);
}

#[test]
fn an_updated_status_changes_the_victim() {
    let mut scheduler = two_pods([Some(10), Some(20)]);
    let version = |start: i64| {
        let start_time = seconds(start).to_string();
        PodView::parse(
            pod("b").request("cpu", "2").on("n").set("status.startTime", start_time).added().object(),
        )
    };
    let [old, mut new] = [version(20), version(5)];
    share_spec(&mut new, Some(&old));
    scheduler.apply_pod(seconds(30), &PodEvent::Modified(Arc::new(old)));
    check_victim(&mut scheduler, seconds(30), "b");
    scheduler.apply_pod(seconds(30), &PodEvent::Modified(Arc::new(new)));
    check_victim(&mut scheduler, seconds(30), "a");
}

#[test]
fn a_pod_without_a_start_time_is_as_old_as_now() {
    let mut scheduler = two_pods([None, Some(100)]);
    check_victim(&mut scheduler, seconds(50), "b");
    check_victim(&mut scheduler, seconds(150), "a");
}

// === impl PreemptionTest ===

impl PreemptionTest {
    fn new(seed: u64) -> PreemptionTest {
        let mut uncached = Scheduler::new(Settings::default());
        uncached.disable_caches();
        let mut test = PreemptionTest {
            rng: Pcg64::seed_from_u64(seed),
            cached: Scheduler::new(Settings::default()),
            uncached,
            now: Moment::from_nanos(1_000 * SECOND),
            nodes: 0,
            created: 0,
            pending: BTreeMap::new(),
            running: BTreeMap::new(),
            budgets: BTreeMap::new(),
            views: BTreeMap::new(),
            victims: 0,
        };
        for index in 0..6 {
            test.set_node(index);
        }
        for _ in 0..24 {
            test.add_pod(true);
        }
        test
    }

    fn change(&mut self) {
        self.now = self.now.plus_nanos(self.random_below(3) as i64 * SECOND);
        match self.random_below(22) {
            0..4 => self.add_pod(true),
            4..11 => self.add_pod(false),
            11 => self.delete_running_pod(),
            12 => self.start_pod(),
            13 => self.terminate_pod(),
            14..17 => self.set_budget(),
            17 => self.delete_budget(),
            18 => {
                let node = self.random_below(self.nodes + 1).min(7);
                self.set_node(node);
            }
            19 => self.set_device_class(),
            _ => self.update_pod(),
        }
    }

    fn attempt(&mut self, location: &str) {
        let Some(((namespace, name), mut pod)) = self.pick(&self.pending.clone()) else { return };
        let found = self.cached.attempt(self.now, &namespace, &name).expect("the pod is pending");
        let expected = self.uncached.attempt(self.now, &namespace, &name).expect("the pod is pending");
        assert_eq!(found, expected, "{location}: {namespace}/{name}");
        match found {
            Decision::Scheduled(placement) => {
                self.pending.remove(&(namespace.clone(), name.clone()));
                pod["spec"]["nodeName"] = json!(*placement.node);
                self.apply(&What::Modified(object(&pod)));
                self.running.insert((namespace, name), pod);
            }
            Decision::Unschedulable(rejection) => {
                self.victims += rejection.victims.len();
                for victim in rejection.victims {
                    let key = (victim.namespace.to_string(), victim.name.to_string());
                    let victim = self.running[&key].clone();
                    // Some victims terminate slowly.
                    if self.random_below(4) == 0 {
                        self.terminate(&key, true);
                    } else {
                        self.running.remove(&key);
                        self.apply(&What::Deleted(object(&victim)));
                    }
                }
            }
            other => panic!("{location}: the pod should be attempted: {other:?}"),
        }
    }

    fn set_node(&mut self, index: usize) {
        self.nodes = self.nodes.max(index + 1);
        let taints = match self.random_below(6) {
            0 => json!([{"key": "t", "effect": "NoSchedule"}]),
            _ => json!([]),
        };
        let gpus = ["0", "2"][self.random_below(2)];
        let name = format!("n{index}");
        self.apply(&What::Modified(object(&json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "6", "example.com/gpu": gpus}},
        }))));
    }

    /// Adds a pod, which may be running on a node already.
    fn add_pod(&mut self, is_running: bool) {
        self.created += 1;
        let (namespace, name) = (NAMESPACES[self.random_below(2)].to_owned(), format!("p{}", self.created));
        let cpu = ["500m", "1", "2", "3"][self.random_below(4)];
        let mut requests = json!({"cpu": cpu});
        if self.random_below(6) == 0 {
            requests["example.com/gpu"] = json!("1");
        }
        let priority = if is_running { self.random_below(3) } else { self.random_below(5) };
        let mut container = json!({"name": "c", "image": "i", "resources": {"requests": requests}});
        if self.random_below(8) == 0 {
            container["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        }
        let labels = match self.random_below(6) {
            0 => json!({}),
            _ => json!({"app": self.some_app()}),
        };
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "uid": name, "labels": labels},
            "spec": {"schedulerName": "default-scheduler", "priority": priority, "containers": [container]},
        });
        if self.random_below(8) == 0 {
            let term = json!({"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": self.some_app()}}});
            pod["spec"]["affinity"]["podAntiAffinity"] =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        }
        let key = (namespace, name);
        if is_running {
            let node = self.random_below(self.nodes);
            pod["spec"]["nodeName"] = json!(format!("n{node}"));
            if self.random_below(3) > 0 {
                pod["status"] = json!({"phase": "Running", "startTime": self.some_time().to_string()});
            }
            self.running.insert(key, pod.clone());
        } else {
            self.pending.insert(key, pod.clone());
        }
        self.apply(&What::Added(object(&pod)));
    }

    fn delete_running_pod(&mut self) {
        if let Some((key, pod)) = self.pick(&self.running.clone()) {
            self.running.remove(&key);
            self.apply(&What::Deleted(object(&pod)));
        }
    }

    fn start_pod(&mut self) {
        if let Some((key, mut pod)) = self.pick(&self.running.clone()) {
            pod["status"] = json!({"phase": "Running", "startTime": self.some_time().to_string()});
            self.apply(&What::Modified(object(&pod)));
            self.running.insert(key, pod);
        }
    }

    fn terminate_pod(&mut self) {
        if let Some((key, _)) = self.pick(&self.running.clone()) {
            let preempted = self.random_below(2) == 0;
            self.terminate(&key, preempted);
        }
    }

    fn terminate(&mut self, key: &(String, String), preempted: bool) {
        let mut pod = self.running[key].clone();
        pod["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
        if preempted {
            let condition =
                json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
            pod["status"]["conditions"] = json!([condition]);
        }
        self.apply(&What::Modified(object(&pod)));
        self.running.insert(key.clone(), pod);
    }

    /// Updates a running pod in a way that does not concern scheduling. It moves to the end of its node's list.
    fn update_pod(&mut self) {
        if let Some((key, mut pod)) = self.pick(&self.running.clone()) {
            pod["metadata"]["annotations"] = json!({"updated": self.now.to_string()});
            if self.random_below(2) == 0 {
                pod["status"]["startTime"] = json!(self.some_time().to_string());
            }
            self.apply(&What::Modified(object(&pod)));
            self.running.insert(key, pod);
        }
    }

    /// Adds a disruption budget, or changes its status or its selector.
    fn set_budget(&mut self) {
        let key = (NAMESPACES[self.random_below(2)].to_owned(), format!("budget-{}", self.random_below(3)));
        let selector = match self.random_below(6) {
            0 => json!({}),
            1 => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
            _ => json!({"matchLabels": {"app": self.some_app()}}),
        };
        let disrupted = match (self.random_below(3), self.pick(&self.running.clone())) {
            (0, Some(((_, name), _))) => json!({name: "2026-01-01T00:00:00Z"}),
            _ => json!({}),
        };
        let old_selector = self.budgets.get(&key).map(|budget| budget["spec"]["selector"].clone());
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": key.0, "name": key.1},
            "spec": {"selector": old_selector.filter(|_| self.random_below(2) == 0).unwrap_or(selector)},
            "status": {"disruptionsAllowed": self.random_below(4), "disruptedPods": disrupted},
        });
        self.apply(&What::Modified(object(&budget)));
        self.budgets.insert(key, budget);
    }

    fn delete_budget(&mut self) {
        if let Some((key, budget)) = self.pick(&self.budgets.clone()) {
            self.budgets.remove(&key);
            self.apply(&What::Deleted(object(&budget)));
        }
    }

    fn set_device_class(&mut self) {
        let class = object(&json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"extendedResourceName": "example.com/gpu"},
        }));
        let what = if self.random_below(2) == 0 { What::Modified(class) } else { What::Deleted(class) };
        self.apply(&what);
    }

    fn apply(&mut self, what: &What) {
        if what.object().meta().kind != "Pod" {
            self.cached.apply(self.now, what);
            self.uncached.apply(self.now, what);
            return;
        }
        let mut view = PodView::parse(what.object());
        let last = self.views.get(&*view.name.name).cloned();
        share_spec(&mut view, last.as_deref());
        let view = Arc::new(view);
        self.views.insert(view.name.name.to_string(), view.clone());
        let event = match what {
            What::Added(_) => PodEvent::Added(view),
            What::Modified(_) => PodEvent::Modified(view),
            What::Deleted(_) => PodEvent::Deleted(view),
        };
        self.cached.apply_pod(self.now, &event);
        self.uncached.apply_pod(self.now, &event);
    }

    /// A time around now.
    fn some_time(&mut self) -> Moment {
        self.now.plus_nanos((self.random_below(60) as i64 - 50) * SECOND)
    }

    fn some_app(&mut self) -> &'static str {
        APPS[self.random_below(3)]
    }

    fn pick(&mut self, objects: &BTreeMap<(String, String), Value>) -> Option<((String, String), Value)> {
        let index = self.random_below(objects.len().max(1));
        objects.iter().nth(index).map(|(key, value)| (key.clone(), value.clone()))
    }

    fn random_below(&mut self, bound: usize) -> usize {
        self.rng.random_range(0..bound)
    }
}
