//! An endless stream of changes of a busy cluster, for benchmarks. Memory is bounded by the number of live objects.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::{IncomingChange, Kind, Moment, Object, What};

use crate::objects::event::{EventObject, EventRegarding};
use crate::objects::node::Node;
use crate::objects::pod::{
    ContainerState, KubeletStatus, Phase, Pod, PodCondition, ScheduledCondition, Termination,
};
use crate::objects::template::{PodTemplate, STANDARD, TemplateParameters, WorkloadKind};
use crate::objects::workloads::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};
use crate::objects::{Deletion, Meta, Owner, SECOND, WriteJson};
use crate::rng::{SeededRng, nth_suffix};

/// The options of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChurnOptions {
    /// The same seed gives the same bytes.
    pub seed: u64,
    /// The number of objects that exist at any moment: 70 % pods, 13 % Events, 10 % ReplicaSets, 5 % Deployments, 2 %
    /// nodes.
    pub live_objects: usize,
    /// The number of versions of an object before its deletion, plus or minus one. Nodes are never deleted.
    pub versions: u32,
    /// The number of changes in the stream, including the initial list.
    pub changes: u64,
    /// Whether objects carry `managedFields`, as an API server sends them.
    pub managed_fields: bool,
}

/// The common properties of one Deployment's pods.
struct Workload {
    template: Arc<PodTemplate>,
    owner: Owner,
    generate_name: Arc<str>,
    labels: String,
}

/// One object, and how many of its updates have been made.
struct TrackedObject {
    object: AnyObject,
    updates_made: u32,
    updates: u32,
}

enum AnyObject {
    /// A pod, with the number of the node it will be bound to.
    Pod(Box<Pod>, usize),
    ReplicaSet(Box<ReplicaSet>),
    Deployment(Box<Deployment>),
    Event(Box<EventObject>),
    Node(Box<Node>),
}

/// Generates the changes.
struct ChurnGenerator {
    options: ChurnOptions,
    factory: ObjectFactory,
    workloads: Vec<Workload>,
    objects: Vec<TrackedObject>,
    /// The slots of objects that are currently changing; the others are idle. In a real cluster, too, a pod changes
    /// five times in its first seconds and then not for hours.
    changing: Vec<usize>,
    /// The first slot of the workload that is being rolled out, and how many of its slots have been updated.
    rollout: (usize, usize),
    /// The slot of the object deleted last.
    vacant_slot: Option<usize>,
}

/// Creates objects and writes them, with the stream's clock and counters.
struct ObjectFactory {
    source: Arc<str>,
    rng: SeededRng,
    now: Moment,
    version: u64,
    pods_created: u64,
    managed_fields: bool,
    buffer: String,
}

/// The name under which the stream is recorded.
pub const SOURCE: &str = "churn";

/// The number of objects that change at a time: as during the rollout of one or two Deployments.
const CHANGING_OBJECTS: usize = 48;
/// The slots of a workload: twenty pods, and their share of other objects.
const SLOTS_PER_WORKLOAD: usize = 28;
/// Monday, 2 November 2026, 07:00 UTC.
const BEGIN: i64 = 1_793_602_800 * SECOND;
const NAMESPACES: [&str; 8] = ["ads", "billing", "catalog", "checkout", "ingest", "media", "ml", "search"];

/// A stream that begins with a list of objects at all stages of their life, followed by their changes.
pub fn churn(settings: ChurnOptions) -> impl Iterator<Item = IncomingChange> {
    let changes = settings.changes;
    let mut stream = ChurnGenerator::new(settings);
    (0..changes).map(move |_| stream.next_change())
}

// === impl ChurnOptions ===

impl Default for ChurnOptions {
    fn default() -> ChurnOptions {
        ChurnOptions { seed: 1, live_objects: 10_000, versions: 6, changes: 100_000, managed_fields: false }
    }
}

// === impl ChurnGenerator ===

impl ChurnGenerator {
    fn new(settings: ChurnOptions) -> ChurnGenerator {
        let mut factory = ObjectFactory {
            source: SOURCE.into(),
            rng: SeededRng::new(settings.seed),
            now: Moment::from_nanos(BEGIN),
            version: 1_000_000,
            pods_created: 0,
            managed_fields: settings.managed_fields,
            buffer: String::with_capacity(8 * 1024),
        };
        let pods = settings.live_objects * 70 / 100;
        let workloads = (0..pods.div_ceil(20).max(1)).map(|number| factory.workload(number)).collect();
        let objects = Vec::with_capacity(settings.live_objects);
        ChurnGenerator {
            options: settings,
            factory,
            workloads,
            objects,
            changing: Vec::new(),
            rollout: (0, SLOTS_PER_WORKLOAD),
            vacant_slot: None,
        }
    }

    fn next_change(&mut self) -> IncomingChange {
        self.factory.advance_clock(self.options.live_objects);
        let slot = self.objects.len();
        if slot < self.options.live_objects.max(1) {
            let mut object = self.new_object(slot);
            // Objects of the initial list have random ages.
            let age = self.factory.rng.below(object.updates as usize + 1) as u32;
            for _ in 0..age {
                object.advance(&mut self.factory);
            }
            let change = object.emit(&mut self.factory, What::Added);
            self.objects.push(object);
            return change;
        }
        if let Some(slot) = self.vacant_slot.take() {
            self.objects[slot] = self.new_object(slot);
            return self.objects[slot].emit(&mut self.factory, What::Added);
        }
        while self.changing.len() < CHANGING_OBJECTS {
            let slot = self.next_slot();
            self.changing.push(slot);
        }
        let turn = self.factory.rng.below(CHANGING_OBJECTS);
        let slot = self.changing[turn];
        let object = &mut self.objects[slot];
        let is_node = matches!(object.object, AnyObject::Node(_));
        if object.updates_made < object.updates || is_node {
            object.advance(&mut self.factory);
            // Once fully started an object is idle until its end; a node is idle after each heartbeat.
            if object.updates_made + 1 == object.updates || is_node {
                self.changing[turn] = self.next_slot();
            }
            return self.objects[slot].emit(&mut self.factory, What::Modified);
        }
        object.end(&mut self.factory);
        self.vacant_slot = Some(slot);
        object.emit(&mut self.factory, What::Deleted)
    }

    /// The slot of the object that changes next: one workload after the other, as in successive rollouts.
    fn next_slot(&mut self) -> usize {
        let (mut first, mut past) = self.rollout;
        if past >= SLOTS_PER_WORKLOAD {
            let workloads = self.objects.len().div_ceil(SLOTS_PER_WORKLOAD);
            (first, past) = (self.factory.rng.below(workloads) * SLOTS_PER_WORKLOAD, 0);
        }
        self.rollout = (first, past + 1);
        (first + past) % self.objects.len()
    }

    /// A new object. Its slot determines its kind and workload, so that the shares of kinds never change and a new
    /// object belongs to the workload of the one it replaces.
    fn new_object(&mut self, slot: usize) -> TrackedObject {
        let factory = &mut self.factory;
        let workload = &self.workloads[slot / SLOTS_PER_WORKLOAD % self.workloads.len()];
        let it = match slot % 100 {
            0 | 50 => AnyObject::Node(Box::new(factory.node(slot))),
            1..=10 => AnyObject::ReplicaSet(Box::new(factory.replica_set(workload))),
            11..=15 => AnyObject::Deployment(Box::new(factory.deployment(workload))),
            16..=28 => AnyObject::Event(Box::new(factory.event(workload))),
            _ => {
                let nodes = (self.options.live_objects / 50).max(1);
                AnyObject::Pod(Box::new(factory.pod(workload)), factory.rng.below(nodes))
            }
        };
        let updates = self.options.versions.saturating_sub(1) + u32::from(factory.rng.below(2) == 0);
        TrackedObject { object: it, updates_made: 0, updates: updates.max(1) }
    }
}

// === impl TrackedObject ===

impl TrackedObject {
    fn emit(&mut self, factory: &mut ObjectFactory, what: fn(Object) -> What) -> IncomingChange {
        match &mut self.object {
            AnyObject::Pod(it, _) => factory.emit(what, it.as_mut()),
            AnyObject::ReplicaSet(it) => factory.emit(what, it.as_mut()),
            AnyObject::Deployment(it) => factory.emit(what, it.as_mut()),
            AnyObject::Event(it) => factory.emit(what, it.as_mut()),
            AnyObject::Node(it) => factory.emit(what, it.as_mut()),
        }
    }

    /// Makes the object's next update.
    fn advance(&mut self, factory: &mut ObjectFactory) {
        self.updates_made += 1;
        let now = factory.now;
        match &mut self.object {
            AnyObject::Pod(pod, node) => advance_pod(pod, *node, self.updates_made, self.updates, factory),
            AnyObject::ReplicaSet(set) => {
                set.status = ReplicaSetStatus {
                    replicas: set.replicas,
                    ready: set.replicas.min(i64::from(self.updates_made) - 1),
                    terminating: 0,
                    observed_generation: set.meta.generation,
                };
            }
            AnyObject::Deployment(deployment) => {
                let ready = deployment.replicas.min(i64::from(self.updates_made) - 1);
                let conditions = std::mem::take(&mut deployment.status.conditions);
                deployment.status = DeploymentStatus {
                    observed_generation: deployment.meta.generation,
                    replicas: deployment.replicas,
                    updated: deployment.replicas,
                    ready,
                    available: ready,
                    unavailable: deployment.replicas - ready,
                    terminating: 0,
                    conditions,
                };
                deployment.status.set_condition(DeploymentCondition {
                    kind: "Progressing",
                    is_true: true,
                    updated: now,
                    since: now,
                    reason: "ReplicaSetUpdated",
                    message: format!("ReplicaSet of {} is progressing.", deployment.meta.key.name),
                });
            }
            AnyObject::Event(event) => (event.count, event.last_observed) = (event.count + 1, now),
            AnyObject::Node(node) => node.heartbeat = now,
        }
    }

    /// Sets the object's final state before its deletion.
    fn end(&mut self, factory: &mut ObjectFactory) {
        let AnyObject::Pod(pod, _) = &mut self.object else { return };
        let to = factory.now;
        if let Some(running) = &mut pod.kubelet_status {
            let from = running.start;
            let container_id = running.container_id.clone();
            running.container = ContainerState::Terminated(Termination {
                started: from,
                finished: to,
                exit_code: 0,
                reason: "Completed",
                container_id,
            });
            running.ready = PodCondition { is_true: false, since: to, reason: "PodCompleted" };
            running.containers_ready = running.ready;
            pod.phase = Phase::Succeeded;
        }
    }
}

// === impl ObjectFactory ===

impl ObjectFactory {
    /// Advances the clock: a cluster of a thousand objects has ten changes a second, a larger one proportionally more.
    fn advance_clock(&mut self, alive: usize) {
        let nanos = self.rng.between(50_000_000..=150_000_000);
        let share = i64::try_from(alive / 1_000).unwrap_or(i64::MAX).max(1);
        self.now = self.now.plus_nanos((nanos / share).max(1));
    }

    fn emit(&mut self, what: fn(Object) -> What, object: &mut impl WriteJson) -> IncomingChange {
        self.version += self.rng.between(1..=3).unsigned_abs();
        object.meta_mut().version = self.version;
        self.buffer.clear();
        object.write(&mut self.buffer);
        IncomingChange {
            seen: self.now,
            key: object.meta().key.clone(),
            what: what(Object::from_trusted(&*self.buffer)),
            inferred: false,
        }
    }

    fn meta(&mut self, group: &str, kind: &str, namespace: &str, name: &str) -> Meta {
        let uid = self.rng.uid();
        let mut meta = Meta::new(&self.source, Kind::new(group, kind), namespace, name, uid);
        (meta.created, meta.managed_fields) = (self.now, self.managed_fields);
        meta
    }

    fn workload(&mut self, number: usize) -> Workload {
        let namespace = NAMESPACES[number % NAMESPACES.len()];
        let app = format!("{namespace}-{}", self.rng.suffix(6));
        let env = vec![
            ("LOG_LEVEL", "info".to_owned()),
            ("SERVICE", app.clone()),
            ("DATABASE_URL", format!("postgres://{app}@db.{namespace}.svc.cluster.example:5432/{app}")),
        ];
        let outline = TemplateParameters {
            image: format!("registry.example/{namespace}/{app}:1.{}", self.rng.below(90)),
            digest: self.rng.hex(64),
            namespace: namespace.to_owned(),
            env,
            milli_cpu: self.rng.between(1..=20) * 50,
            mebibytes: self.rng.between(1..=32) * 64,
            priority_class: STANDARD,
            kind: WorkloadKind::Serving,
            tolerated_dedication: None,
            toleration_seconds: 300,
            app,
        };
        let hash = self.rng.suffix(10);
        let name: Arc<str> = format!("{}-{hash}", outline.app).into();
        let uid = self.rng.uid().into();
        let template = Arc::new(PodTemplate::new(outline));
        Workload {
            labels: template.labels(&[("pod-template-hash", &hash)]),
            template,
            generate_name: format!("{name}-").into(),
            owner: Owner { api_version: "apps/v1", kind: "ReplicaSet", name, uid },
        }
    }

    fn pod(&mut self, workload: &Workload) -> Pod {
        let Workload { template, owner, generate_name, labels } = workload;
        self.pods_created += 1;
        let name = format!("{generate_name}{}", nth_suffix(self.pods_created));
        let mut meta = self.meta("", "Pod", &template.parameters.namespace, &name);
        meta.owner = Some(owner.clone());
        let mut pod = Pod::new(meta, template.clone(), labels.clone(), self.rng.suffix(5));
        pod.generate_name = generate_name.clone();
        pod
    }

    fn replica_set(&mut self, workload: &Workload) -> ReplicaSet {
        let template = workload.template.clone();
        let outline = &template.parameters;
        let hash = self.rng.suffix(10);
        let mut meta =
            self.meta("apps", "ReplicaSet", &outline.namespace, &format!("{}-{hash}", outline.app));
        let (name, uid) = (outline.app.as_str().into(), self.rng.uid().into());
        meta.owner = Some(Owner { api_version: "apps/v1", kind: "Deployment", name, uid });
        let replicas = self.rng.between(1..=20);
        let wanted = (replicas, replicas + (replicas + 3) / 4);
        let status = ReplicaSetStatus::default();
        ReplicaSet { meta, template, hash, replicas, desired_and_max: wanted, revision: 1, status }
    }

    fn deployment(&mut self, workload: &Workload) -> Deployment {
        let template = workload.template.clone();
        let name = format!("{}-{}", template.parameters.app, self.rng.suffix(8));
        let meta = self.meta("apps", "Deployment", &template.parameters.namespace, &name);
        let replicas = self.rng.between(1..=20);
        Deployment { meta, template, replicas, revision: 1, status: DeploymentStatus::default() }
    }

    fn event(&mut self, workload: &Workload) -> EventObject {
        let pod = format!("{}{}", workload.generate_name, self.rng.suffix(5));
        let namespace = &*workload.template.parameters.namespace;
        let name = format!("{pod}.{:x}", self.now.nanos());
        let mut meta = self.meta("events.k8s.io", "Event", namespace, &name);
        meta.generation = 0;
        let regarding = EventRegarding {
            kind: "Pod".into(),
            api_version: "v1",
            namespace: namespace.into(),
            name: pod.into(),
            uid: self.rng.uid().into(),
            version: self.version,
            container: None,
        };
        let note = "0/9 nodes are available: 2 node(s) had untolerated taint(s), 7 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
        EventObject {
            meta,
            action: "Scheduling",
            is_warning: true,
            reason: "FailedScheduling",
            regarding,
            note: note.to_owned(),
            last_observed: self.now,
            count: 1,
        }
    }

    fn node(&mut self, slot: usize) -> Node {
        let number = slot / 50;
        let mut meta = self.meta("", "Node", "", &node_name(number));
        meta.generation = 0;
        let images = (0..6)
            .map(|_| {
                let image = format!("registry.example/{}:1.0", self.rng.suffix(12));
                (image, self.rng.hex(64))
            })
            .collect();
        let now = self.now;
        Node {
            meta,
            zone: ["north-a", "north-b", "north-c"][number % 3],
            ip: node_address(number).into(),
            subnet: number % 256,
            unschedulable: false,
            taints: Vec::new(),
            ready_since: now,
            heartbeat: now,
            started: now,
            kernel: "6.12.57+deb13-cloud-amd64",
            machine_id: self.rng.uid(),
            boot_id: self.rng.uid(),
            images,
        }
    }
}

/// The updates of a pod: bound, acknowledged by the kubelet, started, ready and sometimes not, finally terminating.
fn advance_pod(pod: &mut Pod, node: usize, step: u32, steps: u32, factory: &mut ObjectFactory) {
    let now = factory.now;
    let no = PodCondition { is_true: false, since: now, reason: "ContainersNotReady" };
    if step == steps && steps > 1 {
        pod.meta.deletion = Some(Deletion { deadline: now.plus_nanos(30 * SECOND), grace: 30 });
        pod.meta.generation += 1;
        return;
    }
    match (step, &mut pod.kubelet_status) {
        (1, _) => {
            pod.node = Some(node_name(node).into());
            pod.host_ip = node_address(node).into();
            pod.scheduled = ScheduledCondition::Done { since: now };
        }
        (2, _) | (_, None) => {
            pod.kubelet_status = Some(KubeletStatus {
                start: now,
                sandbox: None,
                ready: no,
                containers_ready: no,
                container: ContainerState::Waiting { reason: "ContainerCreating", message: String::new() },
                last_termination: None,
                restarts: 0,
                container_id: String::new(),
                reported: now,
            });
        }
        (3, Some(running)) => {
            running.sandbox = Some(now);
            running.container = ContainerState::Running { since: now };
            running.container_id = factory.rng.hex(64);
            running.reported = now;
            pod.ip = format!("10.244.{}.{}", factory.rng.below(256), factory.rng.below(256));
            pod.phase = Phase::Running;
        }
        (_, Some(running)) => {
            let holds = !running.ready.is_true;
            running.ready =
                PodCondition { is_true: holds, since: now, reason: if holds { "" } else { no.reason } };
            running.containers_ready = running.ready;
            running.reported = now;
        }
    }
}

fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

fn node_address(number: usize) -> String {
    format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255)
}
