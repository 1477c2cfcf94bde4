//! The components of a control plane over another store: objects as JSON, written as an API server would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::{Action, NodeGroups};
use controllers::{ApiCall, Controller};
use kubernetes::objects::{NodeView, Phase, PodEvent, PodView};
use model::{Kind, Moment, NamespacedName, Object, ObjectRef, What};
use scheduler::{Decision, SchedulingAttempt};
use serde_json::{Value, json};
use simulation::components::{AutoscalerLoop, ControllerLoop, SchedulerLoop, TaintEviction};
use simulation::latency::{Latencies, LatencyKind, LatencySampler};
use simulation::{Agenda, AutoscalerSetup, CloudChange, SimulatedCloud, Task, with_ready_condition};
use testobjects::{node, object, resource};

const START: Moment = Moment::from_nanos(1_790_000_000_000_000_000);

/// A task of the control plane.
enum ControlPlaneTask {
    Bind(NamespacedName, Arc<str>),
    Run(NamespacedName),
    Evict(NamespacedName, Moment),
    Work,
}

impl Task for ControlPlaneTask {
    fn finishes_soon(&self) -> bool {
        true
    }
}

/// The store, by kind and name, and the components that watch it.
struct ControlPlane {
    now: Moment,
    objects: BTreeMap<(Kind, NamespacedName), Value>,
    agenda: Agenda<ControlPlaneTask>,
    latencies: LatencySampler,
    scheduler: SchedulerLoop,
    autoscaler: AutoscalerLoop,
    controllers: ControllerLoop<'static>,
    taints: TaintEviction<NamespacedName>,
}

impl ControlPlane {
    fn new(groups: &str) -> ControlPlane {
        let cloud = SimulatedCloud::new(NodeGroups::parse(groups).expect("the groups are valid").groups, 1);
        let setup = AutoscalerSetup { settings: autoscaler::Settings::default(), cloud, start: START };
        ControlPlane {
            now: START,
            objects: BTreeMap::new(),
            agenda: Agenda::default(),
            latencies: LatencySampler::new(Latencies::typical(), 1),
            scheduler: SchedulerLoop::new(scheduler::Settings::default(), START),
            autoscaler: AutoscalerLoop::new(setup, START),
            controllers: ControllerLoop::new(&Controller::ALL, 1, None, None),
            taints: TaintEviction::default(),
        }
    }

    /// Writes an object and notifies all components.
    fn write(&mut self, value: Value) {
        let written = object(&value);
        let (kind, name) = (kind_of(&written), name_of(&written));
        let is_new = self.objects.insert((kind.clone(), name.clone()), value).is_none();
        if kind.kind == "Node".into() {
            let node = NodeView::parse(&written);
            if is_new {
                self.autoscaler.node_added(&node);
            }
            if self.taints.node_changed(&node) {
                self.pods_on(&name.name).iter().for_each(|pod| self.check_taints(pod));
            }
        }
        self.notify(if is_new { What::Added(written) } else { What::Modified(written) });
    }

    fn delete(&mut self, kind: &Kind, name: &NamespacedName) {
        if let Some(value) = self.objects.remove(&(kind.clone(), name.clone())) {
            self.notify(What::Deleted(object(&value)));
        }
    }

    fn notify(&mut self, what: What) {
        self.scheduler.apply(self.now, &what);
        self.scheduler.wake();
        if what.object().meta().kind == "Pod" {
            self.autoscaler.apply_pod(PodEvent::of_pod(&what));
        } else {
            self.autoscaler.apply(&what);
        }
        if let Some(at) = self.controllers.apply(self.now, &what, &mut self.latencies) {
            self.agenda.put(at, ControlPlaneTask::Work);
        }
    }

    /// Advances the clock by so many seconds.
    fn advance(&mut self, seconds: i64) {
        let until = self.now.plus_nanos(seconds * 1_000_000_000);
        loop {
            let scheduler = self.scheduler.next(self.now);
            let others =
                [scheduler, Some(self.autoscaler.next()), self.controllers.next(), self.agenda.next()];
            let next = others.into_iter().flatten().min().filter(|next| *next < until);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            self.step();
        }
        self.now = until;
    }

    fn step(&mut self) {
        if let Some(task) = self.agenda.take(self.now) {
            match task {
                ControlPlaneTask::Bind(pod, node) => self.bind(&pod, &node),
                ControlPlaneTask::Run(pod) => {
                    self.change_pod(&pod, |pod| pod["status"]["phase"] = "Running".into())
                }
                ControlPlaneTask::Evict(pod, at) => {
                    if self.taints.evicts(&pod, at).is_some() {
                        self.taints.pod_deleted(&pod);
                        self.delete(&Kind::new("", "Pod"), &pod);
                    }
                }
                ControlPlaneTask::Work => self.sync_controllers(),
            }
        } else if self.controllers.next().is_some_and(|next| next <= self.now) {
            self.sync_controllers();
        } else if let Some(attempted) = self.scheduler.schedule_one(self.now) {
            self.handle_attempt(attempted);
        } else {
            self.run_autoscaler();
        }
    }

    fn handle_attempt(&mut self, attempted: SchedulingAttempt) {
        self.scheduler.begin_attempt(self.now, &mut self.latencies);
        match attempted.decision {
            Decision::Scheduled(placement) => {
                let at = self.now.plus_nanos(10_000_000);
                self.agenda.put(at, ControlPlaneTask::Bind(attempted.pod, placement.node));
            }
            Decision::Unschedulable(rejection) => {
                self.scheduler.wait_for_status_patch(self.now, &mut self.latencies);
                let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": rejection.full_message(), "lastTransitionTime": self.now.to_string()});
                self.change_pod(&attempted.pod, |pod| pod["status"]["conditions"] = json!([condition]));
                self.autoscaler.pod_unschedulable(self.now, &attempted.pod);
            }
            other => panic!("{other:?}"),
        }
    }

    fn bind(&mut self, name: &NamespacedName, node: &str) {
        self.change_pod(name, |pod| {
            pod["spec"]["nodeName"] = node.into();
            pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
        });
        self.check_taints(name);
        let at = self.now.plus_nanos(self.latencies.draw(LatencyKind::PodStart, self.now).as_nanos() as i64);
        self.agenda.put(at, ControlPlaneTask::Run(name.clone()));
    }

    fn check_taints(&mut self, name: &NamespacedName) {
        let Some(pod) = self.objects.get(&(Kind::new("", "Pod"), name.clone())) else { return };
        let pod = PodView::parse(&object(pod));
        let (node, tolerations) = (pod.node_name.as_ref(), &pod.spec.tolerations);
        if let Some(at) = self.taints.pod_changed(self.now, name, node, tolerations) {
            self.agenda.put(at, ControlPlaneTask::Evict(name.clone(), at));
        }
    }

    fn change_pod(&mut self, name: &NamespacedName, change: impl FnOnce(&mut Value)) {
        if let Some(mut pod) = self.objects.get(&(Kind::new("", "Pod"), name.clone())).cloned() {
            change(&mut pod);
            self.write(pod);
        }
    }

    fn sync_controllers(&mut self) {
        loop {
            let api_calls = self.controllers.work(self.now);
            if api_calls.is_empty() {
                return;
            }
            for api_call in api_calls {
                match api_call {
                    ApiCall::Create(object) | ApiCall::Update(object) => self.write(json_of(&object)),
                    ApiCall::RemovePodFinalizer { .. } => panic!("there is no Job in this test"),
                    ApiCall::Delete { object: ObjectRef { kind, namespace, name }, .. } => {
                        self.delete(&kind, &NamespacedName { namespace, name });
                    }
                }
            }
        }
    }

    fn run_autoscaler(&mut self) {
        for change in self.autoscaler.cloud_changes(self.now) {
            match change {
                CloudChange::Registered { node, .. } => self.write(json_of(&node)),
                CloudChange::Ready { node, at } => {
                    let name = NamespacedName { namespace: "".into(), name: node };
                    let node = object(&self.objects[&(Kind::new("", "Node"), name)]);
                    self.write(json_of(&with_ready_condition(&node, at)));
                }
                CloudChange::Deleted { node } => {
                    let name = NamespacedName { namespace: "".into(), name: node };
                    self.delete(&Kind::new("", "Node"), &name);
                }
            }
        }
        self.autoscaler.deliver_pod_events();
        let background = self.autoscaler.background(self.now);
        let loop_result = self.autoscaler.run_once(self.now, &mut self.latencies);
        let actions =
            loop_result.iter().flat_map(|loop_result| &loop_result.actions).chain(&background.actions);
        let is_mark = |action: &&Action| matches!(action, Action::Taint { .. } | Action::Untaint { .. });
        assert_eq!(actions.filter(|action| !is_mark(action)).count(), 0, "nothing is removed in this test");
        if let Some(loop_result) = loop_result {
            self.autoscaler.finish(loop_result);
        }
    }

    fn pods(&self) -> impl Iterator<Item = PodView> {
        let pods = self.objects.iter().filter(|((kind, _), _)| kind.is("", "Pod"));
        pods.map(|(_, value)| PodView::parse(&object(value)))
    }

    fn pods_on(&self, node: &str) -> Vec<NamespacedName> {
        let pods = self.pods().filter(|pod| pod.node_name.as_deref() == Some(node));
        pods.map(|pod| pod.name).collect()
    }

    /// The nodes of running pods, sorted.
    fn running(&self) -> Vec<String> {
        let pods = self.pods().filter(|pod| pod.status.phase == Phase::Running);
        let mut nodes: Vec<String> = pods.map(|pod| pod.node_name.unwrap_or_default().to_string()).collect();
        nodes.sort_unstable();
        nodes
    }
}

fn json_of(object: &Object) -> Value {
    object.value().expect("objects are JSON")
}

fn kind_of(object: &Object) -> Kind {
    let meta = object.meta();
    Kind::of(&meta.api_version, &meta.kind)
}

fn name_of(object: &Object) -> NamespacedName {
    let meta = object.meta();
    NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() }
}

#[test]
fn a_deployment_is_scaled_up_for_and_survives_a_tainted_node() {
    let mut cluster = ControlPlane::new(
        "groups:\n- name: small\n  min: 0\n  max: 5\n  template: {cpu: 1, memory: 4Gi, pods: 10}\n  \
         provisioning: {registersAfter: 30s}\n",
    );
    let own = node("own").capacity("cpu", "1").capacity("memory", "4Gi").capacity("pods", "10").ready();
    cluster.write(own.json());
    let requests = json!({"requests": {"cpu": "600m"}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "i", "resources": requests}]}}});
    cluster.write(resource("apps/v1", "Deployment", "web").namespace("shop").set("spec", spec).json());
    cluster.advance(10);
    assert_eq!(cluster.running(), ["own"], "one pod fits");
    cluster.advance(60);
    assert_eq!(cluster.running(), ["own", "small-new-001", "small-new-002"]);

    let own = node("own").capacity("cpu", "1").capacity("memory", "4Gi").capacity("pods", "10").ready();
    cluster.write(own.taint("gone:NoExecute").json());
    cluster.advance(90);
    assert_eq!(cluster.running(), ["small-new-001", "small-new-002", "small-new-003"]);
    assert_eq!(Duration::from_secs(160).as_nanos() as i64, cluster.now.nanos_since(START));
}
