//! An endless stream of changes of a busy cluster, for benchmarks. Memory is bounded by the number of live objects.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::{IncomingChange, Kind, Moment, Object, What};

use crate::chance::{Chance, nth_suffix};
use crate::objects::event::{Event, Regarding};
use crate::objects::node::Node;
use crate::objects::pod::{Condition, Container, Ended, Phase, Pod, Running, Scheduled};
use crate::objects::template::{Outline, STANDARD, Shape, Template};
use crate::objects::workloads::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, SetStatus};
use crate::objects::{Deletion, Meta, Owner, Printed, SECOND};

/// The options of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Churn {
    /// The same seed gives the same bytes.
    pub seed: u64,
    /// The number of objects that exist at any moment: 70 % pods, 13 % Events, 10 % ReplicaSets, 5 % Deployments, 2 %
    /// nodes.
    pub alive: usize,
    /// The number of versions of an object before its deletion, plus or minus one. Nodes are never deleted.
    pub versions: u32,
    /// The number of changes in the stream, including the initial list.
    pub changes: u64,
    /// Whether objects carry `managedFields`, as an API server sends them.
    pub managed_fields: bool,
}

/// The common properties of one Deployment's pods.
struct Workload {
    template: Arc<Template>,
    owner: Owner,
    generate_name: Arc<str>,
    labels: String,
}

/// One object, and how many of its updates have been made.
struct Life {
    it: Living,
    step: u32,
    steps: u32,
}

enum Living {
    /// A pod, with the number of the node it will be bound to.
    Pod(Box<Pod>, usize),
    Set(Box<ReplicaSet>),
    Deployment(Box<Deployment>),
    Event(Box<Event>),
    Node(Box<Node>),
}

/// Generates the changes.
struct Stream {
    settings: Churn,
    tape: Tape,
    workloads: Vec<Workload>,
    lives: Vec<Life>,
    /// The slots of objects that are currently changing; the others are idle. In a real cluster, too, a pod changes
    /// five times in its first seconds and then not for hours.
    moving: Vec<usize>,
    /// The first slot of the workload that is being rolled out, and how many of its slots have been updated.
    rollout: (usize, usize),
    /// The slot of the object deleted last.
    vacant: Option<usize>,
}

/// Creates objects and writes them, with the stream's clock and counters.
struct Tape {
    source: Arc<str>,
    chance: Chance,
    now: Moment,
    version: u64,
    born: u64,
    managed: bool,
    text: String,
}

/// The name under which the stream is recorded.
pub const SOURCE: &str = "churn";

/// The number of objects that change at a time: as during the rollout of one or two Deployments.
const MOVING: usize = 48;
/// The slots of a workload: twenty pods, and their share of other objects.
const WORKLOAD_PLACES: usize = 28;
/// Monday, 2 November 2026, 07:00 UTC.
const BEGIN: i64 = 1_793_602_800 * SECOND;
const NAMESPACES: [&str; 8] = ["ads", "billing", "catalog", "checkout", "ingest", "media", "ml", "search"];

/// A stream that begins with a list of objects at all stages of their life, followed by their changes.
pub fn churn(settings: Churn) -> impl Iterator<Item = IncomingChange> {
    let changes = settings.changes;
    let mut stream = Stream::new(settings);
    (0..changes).map(move |_| stream.next_change())
}

// === impl Churn ===

impl Default for Churn {
    fn default() -> Churn {
        Churn { seed: 1, alive: 10_000, versions: 6, changes: 100_000, managed_fields: false }
    }
}

// === impl Stream ===

impl Stream {
    fn new(settings: Churn) -> Stream {
        let mut tape = Tape {
            source: SOURCE.into(),
            chance: Chance::new(settings.seed),
            now: Moment::from_nanos(BEGIN),
            version: 1_000_000,
            born: 0,
            managed: settings.managed_fields,
            text: String::with_capacity(8 * 1024),
        };
        let pods = settings.alive * 70 / 100;
        let workloads = (0..pods.div_ceil(20).max(1)).map(|number| tape.workload(number)).collect();
        let lives = Vec::with_capacity(settings.alive);
        Stream {
            settings,
            tape,
            workloads,
            lives,
            moving: Vec::new(),
            rollout: (0, WORKLOAD_PLACES),
            vacant: None,
        }
    }

    fn next_change(&mut self) -> IncomingChange {
        self.tape.pass_time(self.settings.alive);
        let place = self.lives.len();
        if place < self.settings.alive.max(1) {
            let mut life = self.begin(place);
            // Objects of the initial list have random ages.
            let age = self.tape.chance.below(life.steps as usize + 1) as u32;
            for _ in 0..age {
                life.advance(&mut self.tape);
            }
            let change = life.emit(&mut self.tape, What::Added);
            self.lives.push(life);
            return change;
        }
        if let Some(place) = self.vacant.take() {
            self.lives[place] = self.begin(place);
            return self.lives[place].emit(&mut self.tape, What::Added);
        }
        while self.moving.len() < MOVING {
            let place = self.next_to_move();
            self.moving.push(place);
        }
        let turn = self.tape.chance.below(MOVING);
        let place = self.moving[turn];
        let life = &mut self.lives[place];
        let is_node = matches!(life.it, Living::Node(_));
        if life.step < life.steps || is_node {
            life.advance(&mut self.tape);
            // Once fully started an object is idle until its end; a node is idle after each heartbeat.
            if life.step + 1 == life.steps || is_node {
                self.moving[turn] = self.next_to_move();
            }
            return self.lives[place].emit(&mut self.tape, What::Modified);
        }
        life.end(&mut self.tape);
        self.vacant = Some(place);
        life.emit(&mut self.tape, What::Deleted)
    }

    /// The slot of the object that changes next: one workload after the other, as in successive rollouts.
    fn next_to_move(&mut self) -> usize {
        let (mut first, mut past) = self.rollout;
        if past >= WORKLOAD_PLACES {
            let workloads = self.lives.len().div_ceil(WORKLOAD_PLACES);
            (first, past) = (self.tape.chance.below(workloads) * WORKLOAD_PLACES, 0);
        }
        self.rollout = (first, past + 1);
        (first + past) % self.lives.len()
    }

    /// A new object. Its slot determines its kind and workload, so that the shares of kinds never change and a new
    /// object belongs to the workload of the one it replaces.
    fn begin(&mut self, place: usize) -> Life {
        let tape = &mut self.tape;
        let workload = &self.workloads[place / WORKLOAD_PLACES % self.workloads.len()];
        let it = match place % 100 {
            0 | 50 => Living::Node(Box::new(tape.node(place))),
            1..=10 => Living::Set(Box::new(tape.replica_set(workload))),
            11..=15 => Living::Deployment(Box::new(tape.deployment(workload))),
            16..=28 => Living::Event(Box::new(tape.event(workload))),
            _ => {
                let nodes = (self.settings.alive / 50).max(1);
                Living::Pod(Box::new(tape.pod(workload)), tape.chance.below(nodes))
            }
        };
        let steps = self.settings.versions.saturating_sub(1) + u32::from(tape.chance.below(2) == 0);
        Life { it, step: 0, steps: steps.max(1) }
    }
}

// === impl Life ===

impl Life {
    fn emit(&mut self, tape: &mut Tape, what: fn(Object) -> What) -> IncomingChange {
        match &mut self.it {
            Living::Pod(it, _) => tape.emit(what, it.as_mut()),
            Living::Set(it) => tape.emit(what, it.as_mut()),
            Living::Deployment(it) => tape.emit(what, it.as_mut()),
            Living::Event(it) => tape.emit(what, it.as_mut()),
            Living::Node(it) => tape.emit(what, it.as_mut()),
        }
    }

    /// Makes the object's next update.
    fn advance(&mut self, tape: &mut Tape) {
        self.step += 1;
        let now = tape.now;
        match &mut self.it {
            Living::Pod(pod, node) => advance_pod(pod, *node, self.step, self.steps, tape),
            Living::Set(set) => {
                set.status = SetStatus {
                    replicas: set.replicas,
                    ready: set.replicas.min(i64::from(self.step) - 1),
                    terminating: 0,
                    observed: set.meta.generation,
                };
            }
            Living::Deployment(deployment) => {
                let ready = deployment.replicas.min(i64::from(self.step) - 1);
                let conditions = std::mem::take(&mut deployment.status.conditions);
                deployment.status = DeploymentStatus {
                    observed: deployment.meta.generation,
                    replicas: deployment.replicas,
                    updated: deployment.replicas,
                    ready,
                    available: ready,
                    unavailable: deployment.replicas - ready,
                    terminating: 0,
                    conditions,
                };
                deployment.status.set(DeploymentCondition {
                    kind: "Progressing",
                    holds: true,
                    updated: now,
                    since: now,
                    reason: "ReplicaSetUpdated",
                    message: format!("ReplicaSet of {} is progressing.", deployment.meta.key.name),
                });
            }
            Living::Event(event) => (event.count, event.last) = (event.count + 1, now),
            Living::Node(node) => node.heartbeat = now,
        }
    }

    /// Sets the object's final state before its deletion.
    fn end(&mut self, tape: &mut Tape) {
        let Living::Pod(pod, _) = &mut self.it else { return };
        let to = tape.now;
        if let Some(running) = &mut pod.running {
            let from = running.start;
            let container_id = running.container_id.clone();
            running.container =
                Container::Ended(Ended { from, to, code: 0, reason: "Completed", container_id });
            running.ready = Condition { holds: false, since: to, reason: "PodCompleted" };
            running.containers_ready = running.ready;
            pod.phase = Phase::Succeeded;
        }
    }
}

// === impl Tape ===

impl Tape {
    /// Advances the clock: a cluster of a thousand objects has ten changes a second, a larger one proportionally more.
    fn pass_time(&mut self, alive: usize) {
        let millis = self.chance.between(50_000_000..=150_000_000);
        let share = i64::try_from(alive / 1_000).unwrap_or(i64::MAX).max(1);
        self.now = self.now.plus_nanos((millis / share).max(1));
    }

    fn emit(&mut self, what: fn(Object) -> What, object: &mut impl Printed) -> IncomingChange {
        self.version += self.chance.between(1..=3).unsigned_abs();
        object.meta_mut().version = self.version;
        self.text.clear();
        object.write(&mut self.text);
        IncomingChange {
            seen: self.now,
            key: object.meta().key.clone(),
            what: what(Object::from_trusted(&*self.text)),
            inferred: false,
        }
    }

    fn meta(&mut self, group: &str, kind: &str, namespace: &str, name: &str) -> Meta {
        let uid = self.chance.uid();
        let mut meta = Meta::new(&self.source, Kind::new(group, kind), namespace, name, uid);
        (meta.created, meta.managed) = (self.now, self.managed);
        meta
    }

    fn workload(&mut self, number: usize) -> Workload {
        let namespace = NAMESPACES[number % NAMESPACES.len()];
        let app = format!("{namespace}-{}", self.chance.suffix(6));
        let env = vec![
            ("LOG_LEVEL", "info".to_owned()),
            ("SERVICE", app.clone()),
            ("DATABASE_URL", format!("postgres://{app}@db.{namespace}.svc.cluster.example:5432/{app}")),
        ];
        let outline = Outline {
            image: format!("registry.example/{namespace}/{app}:1.{}", self.chance.below(90)),
            digest: self.chance.hex(64),
            namespace: namespace.to_owned(),
            env,
            milli_cpu: self.chance.between(1..=20) * 50,
            mebibytes: self.chance.between(1..=32) * 64,
            class: STANDARD,
            shape: Shape::Serving,
            tolerates: None,
            patience: 300,
            app,
        };
        let hash = self.chance.suffix(10);
        let name: Arc<str> = format!("{}-{hash}", outline.app).into();
        let uid = self.chance.uid().into();
        let template = Arc::new(Template::new(outline));
        Workload {
            labels: template.labels(&[("pod-template-hash", &hash)]),
            template,
            generate_name: format!("{name}-").into(),
            owner: Owner { api_version: "apps/v1", kind: "ReplicaSet", name, uid },
        }
    }

    fn pod(&mut self, workload: &Workload) -> Pod {
        let Workload { template, owner, generate_name, labels } = workload;
        self.born += 1;
        let name = format!("{generate_name}{}", nth_suffix(self.born));
        let mut meta = self.meta("", "Pod", &template.outline.namespace, &name);
        meta.owner = Some(owner.clone());
        let mut pod = Pod::new(meta, template.clone(), labels.clone(), self.chance.suffix(5));
        pod.generate_name = generate_name.clone();
        pod
    }

    fn replica_set(&mut self, workload: &Workload) -> ReplicaSet {
        let template = workload.template.clone();
        let outline = &template.outline;
        let hash = self.chance.suffix(10);
        let mut meta =
            self.meta("apps", "ReplicaSet", &outline.namespace, &format!("{}-{hash}", outline.app));
        let (name, uid) = (outline.app.as_str().into(), self.chance.uid().into());
        meta.owner = Some(Owner { api_version: "apps/v1", kind: "Deployment", name, uid });
        let replicas = self.chance.between(1..=20);
        let wanted = (replicas, replicas + (replicas + 3) / 4);
        let status = SetStatus::default();
        ReplicaSet { meta, template, hash, replicas, wanted, revision: 1, status }
    }

    fn deployment(&mut self, workload: &Workload) -> Deployment {
        let template = workload.template.clone();
        let name = format!("{}-{}", template.outline.app, self.chance.suffix(8));
        let meta = self.meta("apps", "Deployment", &template.outline.namespace, &name);
        let replicas = self.chance.between(1..=20);
        Deployment { meta, template, replicas, revision: 1, status: DeploymentStatus::default() }
    }

    fn event(&mut self, workload: &Workload) -> Event {
        let pod = format!("{}{}", workload.generate_name, self.chance.suffix(5));
        let namespace = &*workload.template.outline.namespace;
        let name = format!("{pod}.{:x}", self.now.nanos());
        let mut meta = self.meta("events.k8s.io", "Event", namespace, &name);
        meta.generation = 0;
        let regarding = Regarding {
            kind: "Pod".into(),
            api_version: "v1",
            namespace: namespace.into(),
            name: pod.into(),
            uid: self.chance.uid().into(),
            version: self.version,
            container: None,
        };
        let note = "0/9 nodes are available: 2 node(s) had untolerated taint(s), 7 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
        Event {
            meta,
            action: "Scheduling",
            warning: true,
            reason: "FailedScheduling",
            regarding,
            note: note.to_owned(),
            last: self.now,
            count: 1,
        }
    }

    fn node(&mut self, place: usize) -> Node {
        let number = place / 50;
        let mut meta = self.meta("", "Node", "", &node_name(number));
        meta.generation = 0;
        let images = (0..6)
            .map(|_| {
                let image = format!("registry.example/{}:1.0", self.chance.suffix(12));
                (image, self.chance.hex(64))
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
            since: now,
            heartbeat: now,
            started: now,
            kernel: "6.12.57+deb13-cloud-amd64",
            machine: self.chance.uid(),
            boot: self.chance.uid(),
            images,
        }
    }
}

/// The updates of a pod: bound, acknowledged by the kubelet, started, ready and sometimes not, finally terminating.
fn advance_pod(pod: &mut Pod, node: usize, step: u32, steps: u32, tape: &mut Tape) {
    let now = tape.now;
    let no = Condition { holds: false, since: now, reason: "ContainersNotReady" };
    if step == steps && steps > 1 {
        pod.meta.deletion = Some(Deletion { deadline: now.plus_nanos(30 * SECOND), grace: 30 });
        pod.meta.generation += 1;
        return;
    }
    match (step, &mut pod.running) {
        (1, _) => {
            pod.node = Some(node_name(node).into());
            pod.host_ip = node_address(node).into();
            pod.scheduled = Scheduled::Done { since: now };
        }
        (2, _) | (_, None) => {
            pod.running = Some(Running {
                start: now,
                sandbox: None,
                ready: no,
                containers_ready: no,
                container: Container::Waiting { reason: "ContainerCreating", message: String::new() },
                last: None,
                restarts: 0,
                container_id: String::new(),
                reported: now,
            });
        }
        (3, Some(running)) => {
            running.sandbox = Some(now);
            running.container = Container::Running { since: now };
            running.container_id = tape.chance.hex(64);
            running.reported = now;
            pod.ip = format!("10.244.{}.{}", tape.chance.below(256), tape.chance.below(256));
            pod.phase = Phase::Running;
        }
        (_, Some(running)) => {
            let holds = !running.ready.holds;
            running.ready = Condition { holds, since: now, reason: if holds { "" } else { no.reason } };
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
