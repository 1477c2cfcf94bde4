//! A seeded week of a busy cluster as a recorder would have recorded it: a simulation whose changes are written to a
//! history.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use model::{Moment, Object, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use scheduler::Settings;
use serde_json::{Value, json};
use simulation::latency::Latencies;
use simulation::{
    ContainerExit, DemandId, InitialPodState, Input, PodDemand, PodIncarnation, RecreatePolicy, Run, RunSetup,
};

use super::recorder::SimulationRecorder;
use crate::Result;

pub(super) const NODES: u64 = 1_000;
pub(super) const PODS: u64 = 500_000;
pub(super) const DAYS: i64 = 7;

const SEED: u64 = 1;
/// Monday, 2 November 2026, 00:00 UTC.
const BEGIN: i64 = 1_793_577_600 * SECOND;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const MINUTES: u64 = DAYS as u64 * 24 * 60;
/// The number of initial pods, all of Deployments.
const FIRST_PODS: u64 = 15_000;
const DEPLOYMENTS: u64 = 300;
/// One in three new pods belongs to a Deployment; the others belong to Jobs.
const DEPLOYMENTS_SHARE: u64 = 3;
/// How long a Job is kept after its end.
const JOB_RETENTION: i64 = 10 * MINUTE;

/// Writes the history of the week.
pub(super) fn write_history(path: &Path) -> Result<()> {
    let begin = Moment::from_nanos(BEGIN);
    let setup = RunSetup {
        start: begin,
        scheduler: Settings::default(),
        autoscaler: None,
        latencies: Latencies::typical(),
        seed: SEED,
    };
    let mut run = Run::new(setup, SimulationRecorder::create(path, "week")?);
    let mut week = WeekScript::new();
    week.plan_initial_objects(begin);
    for minute in 0..MINUTES {
        week.plan_minute(minute);
        let end = begin.plus_nanos((minute as i64 + 1) * MINUTE);
        while let Some(((at, _), input)) = week.next_before(end) {
            run.advance(at);
            run.apply_input(at, input)?;
        }
        run.observer_mut().check()?;
    }
    run.advance(begin.plus_nanos(MINUTES as i64 * MINUTE));
    run.into_observer().finish()
}

/// The inputs of the week: users' changes, and the pods that controllers request.
struct WeekScript {
    rng: Pcg64,
    /// The inputs to come, by time and then in the order in which they were planned.
    agenda: BTreeMap<(Moment, u64), Input>,
    planned: u64,
    demands: u64,
    deployments: Vec<DeploymentState>,
    jobs: u64,
}

struct DeploymentState {
    name: String,
    uid: String,
    /// Its pods, the oldest first.
    pods: Vec<DemandId>,
    cpu: u64,
}

/// The owner of a pod.
struct PodOwner<'a> {
    kind: &'static str,
    name: &'a str,
    uid: &'a str,
    cpu: u64,
}

// === impl WeekScript ===

impl WeekScript {
    fn new() -> WeekScript {
        WeekScript {
            rng: Pcg64::seed_from_u64(SEED),
            agenda: BTreeMap::new(),
            planned: 0,
            demands: 0,
            deployments: Vec::new(),
            jobs: 0,
        }
    }

    fn next_before(&mut self, end: Moment) -> Option<((Moment, u64), Input)> {
        self.agenda.first_key_value().filter(|((at, _), _)| *at < end)?;
        self.agenda.pop_first()
    }

    fn schedule_input(&mut self, at: Moment, input: Input) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), input);
    }

    /// Plans the initial objects.
    fn plan_initial_objects(&mut self, at: Moment) {
        for namespace in ["shop", "batch"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "labels": {"kubernetes.io/metadata.name": namespace}}});
            self.schedule_input(at, Input::Object(What::Added(object(&namespace))));
        }
        for number in 0..NODES {
            self.schedule_input(at, Input::Object(What::Added(node(number, at))));
        }
        for number in 0..DEPLOYMENTS {
            let deployment = DeploymentState {
                name: format!("service-{number}"),
                uid: format!("00000000-0000-4000-a000-{number:012x}"),
                pods: Vec::new(),
                cpu: [100, 250, 500, 1_000][self.rng.random_range(0..4_usize)],
            };
            self.schedule_input(
                at,
                Input::Object(What::Added(deployment.replica_set(FIRST_PODS / DEPLOYMENTS, at))),
            );
            self.deployments.push(deployment);
        }
        for number in 0..FIRST_PODS {
            let created = at.plus_nanos(-3_600 * SECOND);
            let initial_state = InitialPodState {
                created,
                node: Some(node_name(number % NODES).into()),
                nominated: None,
                unschedulable: None,
                started: Some(created),
                is_terminating: false,
            };
            let index = (number % DEPLOYMENTS) as usize;
            self.request_deployment_pod(at, index, Some(initial_state));
        }
    }

    /// Plans the inputs of a minute.
    fn plan_minute(&mut self, minute: u64) {
        let start = Moment::from_nanos(BEGIN + minute as i64 * MINUTE);
        // The number of pods requested by the end of the minute.
        let total = FIRST_PODS + (PODS - FIRST_PODS) * (minute + 1) / MINUTES;
        let due = total.saturating_sub(self.demands);
        self.scale_deployments(start, due / DEPLOYMENTS_SHARE);
        while self.demands < total {
            let at = self.random_moment_in(start);
            self.start_job(at, total - self.demands);
        }
        // Each node's status changes once an hour; mere heartbeats are not recorded.
        for number in (minute % 60..NODES).step_by(60) {
            let at = self.random_moment_in(start);
            self.schedule_input(at, Input::Object(What::Modified(node(number, at))));
        }
    }

    fn random_moment_in(&mut self, minute: Moment) -> Moment {
        minute.plus_nanos(self.rng.random_range(1..MINUTE))
    }

    /// Scales one Deployment up by `pods`, and later the largest down by as many, which may be the same one.
    fn scale_deployments(&mut self, start: Moment, pods: u64) {
        let count = self.deployments.len();
        let grown = self.rng.random_range(0..count);
        let at = start.plus_nanos(self.rng.random_range(1..MINUTE / 2));
        let wanted = self.deployments[grown].pods.len() as u64 + pods;
        self.schedule_input(
            at,
            Input::Object(What::Modified(self.deployments[grown].replica_set(wanted, at))),
        );
        for number in 0..pods {
            self.request_deployment_pod(
                at.plus_nanos((20 + number as i64 * 5) * SECOND / 1_000),
                grown,
                None,
            );
        }
        let largest = (0..count).max_by_key(|index| self.deployments[*index].pods.len()).unwrap_or(0);
        let at = start.plus_nanos(self.rng.random_range(MINUTE * 2 / 3..MINUTE));
        let left = self.deployments[largest].pods.len().saturating_sub(pods as usize);
        // The newest pods are deleted first, as a ReplicaSet does.
        let withdrawn = self.deployments[largest].pods.split_off(left);
        self.schedule_input(
            at,
            Input::Object(What::Modified(self.deployments[largest].replica_set(left as u64, at))),
        );
        for demand in withdrawn {
            self.schedule_input(at.plus_nanos(30 * SECOND / 1_000), Input::Withdrawn(demand));
        }
    }

    fn request_deployment_pod(&mut self, at: Moment, index: usize, initial_state: Option<InitialPodState>) {
        let DeploymentState { name, uid, cpu, .. } = &self.deployments[index];
        let owner = PodOwner { kind: "ReplicaSet", name, uid, cpu: *cpu };
        let pod = pod(&owner, "shop", self.demands, at);
        let id = self.request_pod(at, pod, None, initial_state, None);
        self.deployments[index].pods.push(id);
    }

    /// Plans a Job with one to eight pods, of which two run at a time.
    fn start_job(&mut self, at: Moment, max_pods: u64) {
        self.jobs += 1;
        let (name, uid) =
            (format!("job-{}", self.jobs), format!("00000000-0000-4000-b000-{:012x}", self.jobs));
        let completions = self.rng.random_range(1..=8_u64).min(max_pods);
        let cpu = [250, 500, 1_000, 2_000][self.rng.random_range(0..4_usize)];
        let duration = Duration::from_secs(self.rng.random_range(30..2_400));
        let owner = PodOwner { kind: "Job", name: &name, uid: &uid, cpu };
        self.schedule_input(at, Input::Object(What::Added(job(&owner, completions, false, at))));
        let mut demands: Vec<DemandId> = Vec::new();
        for number in 0..completions as usize {
            let pod = pod(&owner, "batch", self.demands, at);
            let after = number.checked_sub(2).map(|before| demands[before]);
            let exit = ContainerExit { after: duration, fails: false };
            demands.push(self.request_pod(at.plus_nanos(SECOND / 50), pod, after, None, Some(exit)));
        }
        let rounds = completions.div_ceil(2) as i64;
        let end = at.plus_nanos(rounds * (duration.as_secs() as i64 + 10) * SECOND);
        self.schedule_input(end, Input::Object(What::Modified(job(&owner, completions, true, end))));
        let cleanup = end.plus_nanos(JOB_RETENTION);
        for demand in demands {
            self.schedule_input(cleanup, Input::CleanedUp(demand));
        }
        let deleted = cleanup.plus_nanos(SECOND);
        self.schedule_input(deleted, Input::Object(What::Deleted(job(&owner, completions, true, end))));
    }

    fn request_pod(
        &mut self,
        at: Moment,
        pod: Object,
        after: Option<DemandId>,
        initial_state: Option<InitialPodState>,
        exit: Option<ContainerExit>,
    ) -> DemandId {
        let id = DemandId(self.demands);
        self.demands += 1;
        let meta = pod.meta();
        let incarnations = vec![PodIncarnation {
            name: (*meta.name).into(),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            ..PodIncarnation::default()
        }];
        let demand = PodDemand {
            id,
            pod,
            after,
            initial_state,
            recreate: RecreatePolicy::WhenTerminating,
            replica_set: None,
            exit,
            incarnations,
            not_recreated_for: None,
        };
        self.schedule_input(at, Input::parse_demand(demand).expect("generated pods are valid"));
        id
    }
}

// === impl DeploymentState ===

impl DeploymentState {
    /// Its ReplicaSet with this number of replicas.
    fn replica_set(&self, replicas: u64, at: Moment) -> Object {
        let DeploymentState { name, uid, cpu, .. } = self;
        let owner = PodOwner { kind: "ReplicaSet", name, uid, cpu: *cpu };
        object(&json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": format!("{name}-7d9c6b8f5"), "namespace": "shop", "uid": uid,
                "resourceVersion": at.nanos().to_string(),
                "creationTimestamp": "2026-11-01T09:12:44Z",
                "labels": owner.labels(),
                "annotations": {"deployment.kubernetes.io/revision": "1"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name,
                    "uid": format!("d-{uid}"), "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": owner.labels()},
                "template": {"metadata": {"labels": owner.labels()}, "spec": spec(&owner)},
            },
            "status": {"replicas": replicas, "observedGeneration": 1},
        }))
    }
}

// === impl PodOwner ===

impl PodOwner<'_> {
    fn labels(&self) -> Value {
        match self.kind {
            "Job" => json!({"batch.kubernetes.io/job-name": self.name, "app.kubernetes.io/part-of": "batch"}),
            _ => json!({"app": self.name, "pod-template-hash": "7d9c6b8f5", "tier": "backend"}),
        }
    }
}

fn pod(owner: &PodOwner<'_>, namespace: &str, number: u64, at: Moment) -> Object {
    let prefix = match owner.kind {
        "Job" => format!("{}-", owner.name),
        _ => format!("{}-7d9c6b8f5-", owner.name),
    };
    object(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{prefix}{number:06x}"), "namespace": namespace, "generateName": prefix,
            "uid": format!("00000000-0000-4000-c000-{number:012x}"),
            "resourceVersion": at.nanos().to_string(),
            "labels": owner.labels(),
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
                "kubectl.kubernetes.io/restartedAt": "2026-10-30T14:05:11Z"},
            "ownerReferences": [{"apiVersion": if owner.kind == "Job" { "batch/v1" } else { "apps/v1" },
                "kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": true,
                "blockOwnerDeletion": true}],
        },
        "spec": spec(owner),
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }))
}

fn spec(owner: &PodOwner<'_>) -> Value {
    let cpu = format!("{}m", owner.cpu);
    json!({
        "containers": [{
            "name": "main",
            "image": format!("registry.example.com/shop/{}:2026.10.4", owner.name),
            "imagePullPolicy": "IfNotPresent",
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "database", "key": "url"}}},
                {"name": "LOG_LEVEL", "value": "info"},
            ],
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10,
                "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "name": "kube-api-access", "readOnly": true}],
        }],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": if owner.kind == "Job" { "Never" } else { "Always" },
        "schedulerName": "default-scheduler",
        "securityContext": {"runAsNonRoot": true, "fsGroup": 2000},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
            {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
        ],
        "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        ]}}],
    })
}

fn job(owner: &PodOwner<'_>, completions: u64, is_complete: bool, at: Moment) -> Object {
    let conditions = if is_complete { json!([{"type": "Complete", "status": "True"}]) } else { json!([]) };
    object(&json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": owner.name, "namespace": "batch", "uid": owner.uid,
            "resourceVersion": at.nanos().to_string(), "labels": owner.labels()},
        "spec": {"parallelism": 2, "completions": completions, "backoffLimit": 6,
            "template": {"metadata": {"labels": owner.labels()}, "spec": spec(owner)}},
        "status": {"conditions": conditions},
    }))
}

fn node_name(number: u64) -> String {
    format!("node-{number:04}")
}

fn node(number: u64, at: Moment) -> Object {
    let (name, zone) = (node_name(number), ["a", "b", "c"][(number % 3) as usize]);
    let allocatable = json!({"cpu": "31850m", "memory": "125Gi", "pods": "110", "ephemeral-storage": "95Gi"});
    let heartbeat = Moment::from_nanos(at.nanos() / SECOND * SECOND).to_string();
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": heartbeat,
            "lastTransitionTime": "2026-11-01T08:00:00Z"})
    };
    object(&json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": format!("00000000-0000-4000-9000-{number:012x}"),
            "resourceVersion": at.nanos().to_string(), "creationTimestamp": "2026-11-01T08:00:00Z",
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.8xlarge",
                "topology.kubernetes.io/region": "eu-1", "topology.kubernetes.io/zone": format!("eu-1{zone}")}},
        "spec": {"providerID": format!("aws:///eu-1{zone}/i-{number:017x}")},
        "status": {
            "capacity": {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi"},
            "allocatable": allocatable,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "nodeInfo": {"kubeletVersion": "v1.36.4", "containerRuntimeVersion": "containerd://2.1.4",
                "osImage": "Ubuntu 26.04 LTS", "kernelVersion": "7.0.0", "architecture": "amd64"},
        },
    }))
}

fn object(value: &Value) -> Object {
    Object::from_trusted(value.to_string())
}
