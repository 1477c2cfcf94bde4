//! A seeded cluster with an autoscaler at work, as a recorder would have recorded it.
//!
//! Its services are scaled all the time. Batch Jobs come and go, some with pods that each need a node of their own, so
//! that nodes are added and removed all the time. Services that no node can host have many pending pods.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use autoscaler::NodeGroups;
use controllers::Controller;
use kubernetes::objects::PodView;
use model::{Moment, Object, ObjectRef, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use simulation::latency::Latencies;
use simulation::{
    AutoscalerSetup, ContainerExit, Input, PodRecord, RecordedPodSource, Run, RunSetup, SimulatedCloud,
};

use super::recorder::SimulationRecorder;
use crate::Result;

/// The size of a generated cluster. All rates are proportional to the number of nodes.
#[derive(Clone, Copy)]
pub(super) struct ElasticSize {
    /// The number of nodes that are never removed.
    pub(super) nodes: u64,
    pub(super) minutes: u64,
}

impl ElasticSize {
    pub(super) const DEFAULT: ElasticSize = ElasticSize { nodes: 200, minutes: 120 };
    pub(super) const FULL: ElasticSize = ElasticSize { nodes: 5_000, minutes: 120 };

    /// The number of pods of services that have nodes.
    pub(super) fn service_pods(self) -> u64 {
        self.nodes * 20
    }

    /// The middle of its recording.
    pub(super) fn middle(self) -> Moment {
        minute_start(self.minutes / 2)
    }

    /// The number of services.
    fn services(self) -> u64 {
        self.nodes / 20
    }

    /// The number of services that no node can host, with as many pods in all as there are nodes.
    fn pending_services(self) -> u64 {
        self.nodes / PENDING_REPLICAS
    }

    /// The number of service pods that are added and removed each minute.
    fn scaled_pods(self) -> u64 {
        self.nodes / 50
    }

    /// The number of Jobs with small pods that start each minute.
    fn small_jobs(self) -> u64 {
        self.nodes / 100
    }

    /// The number of pods with nodes of their own that start together.
    fn large_pods(self) -> u64 {
        self.nodes / 20
    }
}

impl fmt::Display for ElasticSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes, {} pods, {} minutes", self.nodes, self.service_pods(), self.minutes)
    }
}

const SEED: u64 = 1;
/// Monday, 2 November 2026, 00:00 UTC.
const BEGIN: i64 = 1_793_577_600 * SECOND;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
/// The minutes in which the initial pods are bound, before the load begins.
const WARM_UP: u64 = 5;
/// The minutes from one start of pods with nodes of their own to the next, in which those nodes are removed again.
const WAVE_MINUTES: u64 = 10;
/// The number of pods of a service that no node can host.
const PENDING_REPLICAS: u64 = 100;
/// How long a Job is kept after its start.
const JOB_RETENTION: i64 = 40 * MINUTE;

/// Node groups in the format of `node-groups.yaml`.
pub(super) const NODE_GROUPS: &str = "\
settings:
  scale-down-delay-after-add: 1m
  scale-down-unneeded-time: 1m
  cores-total: 0:10000000
  memory-total: 0:100000000
groups:
- name: workers
  min: 0
  max: 20000
  members: {label: pool, value: workers}
  template:
    cpu: 32
    memory: 128Gi
    pods: 110
    reserved: {cpu: 150m, memory: 3Gi}
    instanceType: m6i.8xlarge
    labels: {pool: workers}
  provisioning: {registersAfter: [30s, 35s, 45s], readyAfter: [5s, 10s]}
";

/// Writes the history of a cluster of this size.
pub(super) fn write_history(path: &Path, size: ElasticSize) -> Result<()> {
    let begin = Moment::from_nanos(BEGIN);
    let NodeGroups { groups, settings, .. } = NodeGroups::parse(NODE_GROUPS)?;
    let setup = RunSetup {
        start: begin,
        scheduler: scheduler::Settings::default(),
        autoscaler: Some(AutoscalerSetup {
            settings: settings.unwrap_or_default(),
            cloud: SimulatedCloud::new(groups, SEED),
            start: begin,
        }),
        latencies: Latencies::typical(),
        seed: SEED,
    };
    let mut run_times = RunTimes(Pcg64::seed_from_u64(SEED));
    let mut run = Run::new(setup, SimulationRecorder::create(path, "elastic")?).with_controllers(
        &Controller::ALL,
        None,
        Some(&mut run_times),
    );
    let mut script = ElasticScript::new(size);
    for object in script.initial_objects() {
        run.apply_input(begin, Input::Object(What::Added(object)))?;
    }
    for minute in 0..size.minutes {
        for (at, what) in script.changes_of_minute(minute) {
            run.advance(at);
            run.apply_input(at, Input::Object(what))?;
        }
        run.advance(minute_start(minute + 1));
        run.observer_mut().check()?;
    }
    run.into_observer().finish()
}

fn minute_start(minute: u64) -> Moment {
    Moment::from_nanos(BEGIN + minute as i64 * MINUTE)
}

/// The users' changes.
struct ElasticScript {
    size: ElasticSize,
    rng: Pcg64,
    /// The replicas of each service.
    replicas: Vec<u64>,
    jobs: u64,
    /// The Jobs that exist, the oldest first, and when each is deleted.
    existing_jobs: Vec<(Moment, Object)>,
}

/// Draws the run time of each pod of a Job.
struct RunTimes(Pcg64);

// === impl ElasticScript ===

impl ElasticScript {
    fn new(size: ElasticSize) -> ElasticScript {
        let replicas = size.service_pods() / size.services();
        ElasticScript {
            size,
            rng: Pcg64::seed_from_u64(SEED),
            replicas: vec![replicas; size.services() as usize],
            jobs: 0,
            existing_jobs: Vec::new(),
        }
    }

    fn initial_objects(&self) -> Vec<Object> {
        let mut objects = Vec::new();
        for namespace in ["services", "batch", "kube-system"] {
            objects.push(object(&json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "labels": {"kubernetes.io/metadata.name": namespace}}})));
        }
        objects.extend((0..self.size.nodes).map(node));
        objects.extend(["proxy", "agent"].map(daemon_set));
        objects.extend((0..self.replicas.len()).map(|index| self.service(index)));
        objects.extend((0..self.size.pending_services()).map(pending_service));
        objects
    }

    /// The changes of a minute, in order.
    fn changes_of_minute(&mut self, minute: u64) -> Vec<(Moment, What)> {
        let mut changes = Vec::new();
        if minute < WARM_UP {
            return changes;
        }
        let start = minute_start(minute);
        self.scale(start, &mut changes);
        for _ in 0..self.size.small_jobs() {
            self.start_job(start, "small", 4, "500m", &mut changes);
        }
        if minute.is_multiple_of(WAVE_MINUTES) {
            self.start_job(start, "large", self.size.large_pods(), "30", &mut changes);
        }
        let first_kept = self.existing_jobs.partition_point(|(until, _)| *until < start);
        changes.extend(self.existing_jobs.drain(..first_kept).map(|(_, job)| (start, What::Deleted(job))));
        changes.sort_by_key(|(at, _)| *at);
        changes
    }

    /// Scales services up and down, ten pods each.
    fn scale(&mut self, start: Moment, changes: &mut Vec<(Moment, What)>) {
        const STEP: u64 = 10;
        let count = (self.size.scaled_pods() / STEP).max(1) as usize * 2;
        for number in 0..count {
            let index = self.rng.random_range(0..self.replicas.len());
            let replicas = &mut self.replicas[index];
            *replicas = if number % 2 == 0 { *replicas + STEP } else { replicas.saturating_sub(STEP) };
            let at = start.plus_nanos((number as i64 + 1) * MINUTE / (count as i64 + 1));
            changes.push((at, What::Modified(self.service(index))));
        }
    }

    fn start_job(
        &mut self,
        start: Moment,
        size: &str,
        pods: u64,
        cpu: &str,
        changes: &mut Vec<(Moment, What)>,
    ) {
        self.jobs += 1;
        let at = self.random_moment_in(start);
        let name = format!("{size}-{}", self.jobs);
        let job = object(&json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "batch", "uid": format!("job-{}", self.jobs), "generation": 1,
                "creationTimestamp": seconds(at)},
            "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 6,
                "selector": {"matchLabels": {"job-name": name}},
                "template": {"metadata": {"labels": {"job-name": name}}, "spec": pod_spec(&name, cpu, "Never")}},
        }));
        self.existing_jobs.push((at.plus_nanos(JOB_RETENTION), job.clone()));
        changes.push((at, What::Added(job)));
    }

    fn random_moment_in(&mut self, minute: Moment) -> Moment {
        minute.plus_nanos(self.rng.random_range(1..MINUTE))
    }

    fn service(&self, index: usize) -> Object {
        deployment(&format!("service-{index}"), self.replicas[index], &pod_spec("service", "1", "Always"))
    }
}

// === impl RunTimes ===

impl fmt::Debug for RunTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunTimes")
    }
}

impl RecordedPodSource for RunTimes {
    fn next_record(&mut self, _: &PodView, owners: &[ObjectRef]) -> Option<PodRecord> {
        let job = owners.iter().find(|owner| &*owner.kind.kind == "Job")?;
        let seconds = if job.name.starts_with("large") { 120..240 } else { 20..300 };
        let after = Duration::from_secs(self.0.random_range(seconds));
        Some(PodRecord { exit: Some(ContainerExit { after, fails: false }), ..PodRecord::default() })
    }
}

/// A service that no node can host.
fn pending_service(number: u64) -> Object {
    let mut spec = pod_spec("service", "1", "Always");
    spec["nodeSelector"] = json!({"pool": "none"});
    deployment(&format!("pending-{number}"), PENDING_REPLICAS, &spec)
}

fn deployment(name: &str, replicas: u64, spec: &Value) -> Object {
    object(&json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "services", "uid": format!("deployment-{name}"),
            "generation": replicas, "creationTimestamp": "2026-11-01T09:00:00Z"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }))
}

fn daemon_set(name: &str) -> Object {
    let mut spec = pod_spec(name, "100m", "Always");
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    object(&json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "uid": format!("daemon-set-{name}"),
            "generation": 1, "creationTimestamp": "2026-11-01T09:00:00Z"},
        "spec": {"selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec}},
    }))
}

fn pod_spec(image: &str, cpu: &str, restart_policy: &str) -> Value {
    json!({
        "containers": [{
            "name": "main",
            "image": format!("registry.example.com/{image}:1"),
            "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}},
            "env": [{"name": "LOG_LEVEL", "value": "info"}],
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        }],
        "restartPolicy": restart_policy,
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
    })
}

fn node(number: u64) -> Object {
    let (name, zone) = (format!("node-{number:04}"), ["a", "b", "c"][(number % 3) as usize]);
    let condition = json!({"type": "Ready", "status": "True", "reason": "KubeletReady",
        "lastHeartbeatTime": "2026-11-01T08:00:00Z", "lastTransitionTime": "2026-11-01T08:00:00Z"});
    object(&json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": format!("node-uid-{number}"), "creationTimestamp": "2026-11-01T08:00:00Z",
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.8xlarge", "pool": "workers",
                "topology.kubernetes.io/region": "eu-1", "topology.kubernetes.io/zone": format!("eu-1{zone}")}},
        "spec": {"providerID": format!("aws:///eu-1{zone}/i-{number:017x}")},
        "status": {
            "capacity": {"cpu": "32", "memory": "128Gi", "pods": "110"},
            "allocatable": {"cpu": "31850m", "memory": "125Gi", "pods": "110"},
            "conditions": [condition],
        },
    }))
}

fn seconds(at: Moment) -> String {
    Moment::from_nanos(at.nanos() / SECOND * SECOND).to_string()
}

fn object(value: &Value) -> Object {
    Object::from_trusted(value.to_string())
}
