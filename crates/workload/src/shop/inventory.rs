//! The shop's workloads: services, databases and batch jobs, and the usual system components.

use autoscaler::Settings;
use model::{Moment, Object};
use serde_json::{Value, json};

use super::nodes::{BATCH, DATA, DEDICATED, DISK, MEMORY, POOL, ZONE, format_seconds, parse_object};
use crate::objects::SECOND;

/// A service of the shop, run as a Deployment.
pub(super) struct ServiceSpec {
    namespace: &'static str,
    pub(super) name: &'static str,
    version: &'static str,
    milli_cpu: i64,
    mebibytes: i64,
    /// The number of replicas at night.
    pub(super) replicas: i64,
    class: &'static str,
    placement: NodePlacement,
}

/// The nodes that pods may run on.
#[derive(Clone, Copy)]
enum NodePlacement {
    /// Any node without a taint.
    Anywhere,
    /// Nodes of this pool.
    Pool(&'static str),
    /// Nodes with this disk.
    Disk(&'static str),
}

pub(super) const WEB: &str = "web";
/// The front-end service, which has the most pods.
pub(super) const STOREFRONT: &str = "storefront";
/// The service whose new version requires a disk that no node has.
pub(super) const BROKEN_SERVICE: &str = "recommendations";

const CUSTOMER: &str = "customer-critical";
const STANDARD: &str = "standard";
const BACKGROUND: &str = "background";
const CLUSTER_CRITICAL: &str = "system-cluster-critical";
const NODE_CRITICAL: &str = "system-node-critical";

const PRIORITY_CLASSES: [(&str, i64, &str); 5] = [
    (CUSTOMER, 100_000, "Without it nobody can pay."),
    (STANDARD, 1_000, "The rest of the shop."),
    (BACKGROUND, 0, "May wait, and makes room for everything else."),
    (
        CLUSTER_CRITICAL,
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        NODE_CRITICAL,
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

#[rustfmt::skip]
pub(super) const SERVICES: [ServiceSpec; 10] = [
    ServiceSpec { namespace: "kube-system", name: "coredns", version: "1.13.1", milli_cpu: 100, mebibytes: 170, replicas: 3, class: CLUSTER_CRITICAL, placement: NodePlacement::Anywhere },
    ServiceSpec { namespace: "kube-system", name: "metrics-server", version: "0.8.0", milli_cpu: 200, mebibytes: 400, replicas: 1, class: CLUSTER_CRITICAL, placement: NodePlacement::Anywhere },
    ServiceSpec { namespace: WEB, name: STOREFRONT, version: "5.40.2", milli_cpu: 1_500, mebibytes: 1_024, replicas: 56, class: STANDARD, placement: NodePlacement::Anywhere },
    ServiceSpec { namespace: WEB, name: "checkout", version: "2.13.4", milli_cpu: 1_500, mebibytes: 1_024, replicas: 22, class: CUSTOMER, placement: NodePlacement::Anywhere },
    ServiceSpec { namespace: WEB, name: "payments", version: "1.9.0", milli_cpu: 500, mebibytes: 768, replicas: 8, class: CUSTOMER, placement: NodePlacement::Anywhere },
    ServiceSpec { namespace: WEB, name: "catalog", version: "4.4.0", milli_cpu: 500, mebibytes: 640, replicas: 24, class: STANDARD, placement: NodePlacement::Anywhere },
    ServiceSpec { namespace: WEB, name: "notifications", version: "1.3.7", milli_cpu: 250, mebibytes: 256, replicas: 6, class: STANDARD, placement: NodePlacement::Anywhere },
    ServiceSpec { namespace: WEB, name: "search", version: "3.2.1", milli_cpu: 1_500, mebibytes: 8_192, replicas: 12, class: STANDARD, placement: NodePlacement::Pool(MEMORY) },
    ServiceSpec { namespace: WEB, name: BROKEN_SERVICE, version: "0.27.3", milli_cpu: 1_000, mebibytes: 6_144, replicas: 16, class: STANDARD, placement: NodePlacement::Disk("nvme") },
    ServiceSpec { namespace: DATA, name: "cache", version: "8.2.2", milli_cpu: 1_000, mebibytes: 12_288, replicas: 6, class: STANDARD, placement: NodePlacement::Pool(MEMORY) },
];

/// A CronJob.
struct BatchJob {
    name: &'static str,
    schedule: &'static str,
    milli_cpu: i64,
    mebibytes: i64,
    parallelism: i64,
    completions: i64,
    placement: NodePlacement,
}

/// A short job every minute; image processing every hour on free capacity; model training four times a day on nodes of
/// its own.
#[rustfmt::skip]
const BATCH_JOBS: [BatchJob; 3] = [
    BatchJob { name: "price-watch", schedule: "* * * * *", milli_cpu: 100, mebibytes: 128, parallelism: 1, completions: 1, placement: NodePlacement::Anywhere },
    BatchJob { name: "thumbnails", schedule: "50 * * * *", milli_cpu: 2_000, mebibytes: 2_048, parallelism: 24, completions: 72, placement: NodePlacement::Anywhere },
    BatchJob { name: "demand-model", schedule: "55 7,10,13,16 * * *", milli_cpu: 3_500, mebibytes: 6_144, parallelism: 48, completions: 96, placement: NodePlacement::Pool(BATCH) },
];

/// The age of the shop's objects: they were created in spring.
const AGE: i64 = 200 * 86_400 * SECOND;
const DATABASE: &str = "orders-db";
const DATABASE_REPLICAS: usize = 3;

/// All initial objects except nodes and the autoscaler.
pub(super) fn initial_objects(start: Moment) -> Vec<Object> {
    let builder = ObjectBuilder { created: start.plus_nanos(-AGE) };
    let mut all = Vec::new();
    for name in ["batch", DATA, "default", "kube-node-lease", "kube-public", "kube-system", WEB] {
        let labels = json!({"labels": {"kubernetes.io/metadata.name": name}});
        let rest = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        all.push(builder.object("v1", "Namespace", "", name, labels, rest));
    }
    for (name, value, description) in PRIORITY_CLASSES {
        let policy = if name == BACKGROUND { "Never" } else { "PreemptLowerPriority" };
        let mut rest = json!({"value": value, "description": description, "preemptionPolicy": policy});
        if name == STANDARD {
            rest["globalDefault"] = true.into();
        }
        all.push(builder.object("scheduling.k8s.io/v1", "PriorityClass", "", name, json!({}), rest));
    }
    all.extend(builder.volumes());
    for service in &SERVICES {
        all.push(builder.service(service.namespace, service.name, 80));
        all.push(builder.deployment(service));
    }
    all.push(builder.service(DATA, DATABASE, 5432));
    all.push(builder.database());
    for (namespace, name, least) in
        [(WEB, "checkout", "80%"), (WEB, STOREFRONT, "80%"), (WEB, "payments", "75%"), (DATA, DATABASE, "2")]
    {
        let least = least.parse::<i64>().map_or_else(|_| json!(least), |count| json!(count));
        let rest = json!({"spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}}});
        all.push(builder.object(
            "policy/v1",
            "PodDisruptionBudget",
            namespace,
            name,
            json!({"generation": 1}),
            rest,
        ));
    }
    for app in ["kube-proxy", "node-exporter"] {
        all.push(builder.daemon_set(app));
    }
    all.extend(BATCH_JOBS.iter().map(|batch| builder.cron_job(batch)));
    all
}

/// The autoscaler's own Deployment, whose flags are its settings.
pub(super) fn autoscaler_deployment(start: Moment) -> Object {
    let name = "cluster-autoscaler";
    let container = json!({
        "name": name,
        "image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
        "command": [
            "./cluster-autoscaler",
            "--cloud-provider=externalgrpc",
            "--expander=least-waste",
            "--scale-down-unneeded-time=6m",
            "--scale-down-delay-after-add=6m",
            "--skip-nodes-with-local-storage=false",
        ],
        "resources": {"requests": {"cpu": "200m", "memory": "600Mi"}},
    });
    let spec = json!({
        "containers": [container],
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "priorityClassName": CLUSTER_CRITICAL,
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
    });
    ObjectBuilder { created: start.plus_nanos(-AGE) }.workload(
        "kube-system",
        name,
        "Deployment",
        deployment_spec(name, 1, &spec),
    )
}

/// The settings of that Deployment.
pub(super) fn autoscaler_settings(autoscaler: &Object) -> Settings {
    let running = Settings::from_deployment(autoscaler).expect("the flags are valid for 1.36");
    running.expect("the Deployment runs the autoscaler").settings
}

/// A required node affinity for a disk.
pub(super) fn disk_affinity(disk: &str) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": DISK, "operator": "In", "values": [disk]}]},
    ]}}})
}

/// Builds objects with one creation time.
struct ObjectBuilder {
    created: Moment,
}

// === impl ObjectBuilder ===

impl ObjectBuilder {
    fn object(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        more: Value,
        rest: Value,
    ) -> Object {
        let mut value = rest;
        let mut metadata = more;
        metadata["name"] = name.into();
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        metadata["uid"] = stable_uid(kind, namespace, name).into();
        metadata["creationTimestamp"] = format_seconds(self.created).into();
        value["metadata"] = metadata;
        value["apiVersion"] = api_version.into();
        value["kind"] = kind.into();
        parse_object(&value)
    }

    fn workload(&self, namespace: &str, name: &str, kind: &str, spec: Value) -> Object {
        let more = json!({"generation": 1, "labels": {"app": name}});
        self.object("apps/v1", kind, namespace, name, more, json!({"spec": spec}))
    }

    fn service(&self, namespace: &str, app: &str, port: u16) -> Object {
        let rest = json!({"spec": {
            "type": "ClusterIP",
            "selector": {"app": app},
            "ports": [{"name": "main", "port": port, "protocol": "TCP", "targetPort": "main"}],
        }, "status": {"loadBalancer": {}}});
        self.object("v1", "Service", namespace, app, json!({"labels": {"app": app}}), rest)
    }

    fn deployment(&self, service: &ServiceSpec) -> Object {
        let ServiceSpec { namespace, name, version, milli_cpu, mebibytes, replicas, class, placement } =
            service;
        let registry = if *namespace == "kube-system" { "system" } else { "shop" };
        let image = format!("registry.example/{registry}/{name}:{version}");
        let spec = placement.apply_to(json!({
            "containers": [container(name, &image, *milli_cpu, *mebibytes)],
            "priorityClassName": class,
            "schedulerName": "default-scheduler",
        }));
        self.workload(namespace, name, "Deployment", deployment_spec(name, *replicas, &spec))
    }

    /// The database: a StatefulSet with three replicas, each with a volume.
    fn database(&self) -> Object {
        let mut container = container(DATABASE, "registry.example/shop/orders-db:17.6", 3_000, 16_384);
        container["volumeMounts"] = json!([{"name": "data", "mountPath": "/var/lib/data"}]);
        let spec = NodePlacement::Pool(DATA).apply_to(json!({
            "containers": [container],
            "priorityClassName": CUSTOMER,
            "schedulerName": "default-scheduler",
        }));
        self.workload(
            DATA,
            DATABASE,
            "StatefulSet",
            json!({
                "replicas": DATABASE_REPLICAS,
                "serviceName": DATABASE,
                "podManagementPolicy": "OrderedReady",
                "selector": {"matchLabels": {"app": DATABASE}},
                "template": {"metadata": {"labels": {"app": DATABASE}}, "spec": spec},
                "updateStrategy": {"type": "RollingUpdate"},
                "volumeClaimTemplates": [{
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "ssd", "resources": {"requests": {"storage": "50Gi"}}},
                }],
            }),
        )
    }

    /// The StorageClass, and the database's volumes with their claims.
    fn volumes(&self) -> Vec<Object> {
        let driver = "disk.csi.cloud.example";
        let class = json!({"provisioner": driver, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"});
        let mut all = vec![self.object("storage.k8s.io/v1", "StorageClass", "", "ssd", json!({}), class)];
        for number in 0..DATABASE_REPLICAS {
            let claim = format!("data-{DATABASE}-{number}");
            let claim_uid = stable_uid("PersistentVolumeClaim", DATA, &claim);
            let volume = format!("pvc-{claim_uid}");
            let shared = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "ssd", "volumeMode": "Filesystem"});
            let mut of_claim = shared.clone();
            of_claim["volumeName"] = volume.as_str().into();
            of_claim["resources"] = json!({"requests": {"storage": "50Gi"}});
            let notes = json!({"annotations": {"pv.kubernetes.io/bind-completed": "yes"}, "labels": {"app": DATABASE}});
            let rest = json!({"spec": of_claim, "status": {"phase": "Bound", "capacity": {"storage": "50Gi"}, "accessModes": ["ReadWriteOnce"]}});
            all.push(self.object("v1", "PersistentVolumeClaim", DATA, &claim, notes, rest));
            let mut of_volume = shared;
            of_volume["capacity"] = json!({"storage": "50Gi"});
            of_volume["csi"] =
                json!({"driver": driver, "volumeHandle": format!("vol-{number}"), "fsType": "ext4"});
            of_volume["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": DATA, "name": claim, "uid": claim_uid});
            of_volume["persistentVolumeReclaimPolicy"] = "Delete".into();
            of_volume["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONE]},
            ]}]}});
            let rest = json!({"spec": of_volume, "status": {"phase": "Bound"}});
            all.push(self.object("v1", "PersistentVolume", "", &volume, json!({}), rest));
        }
        all
    }

    fn daemon_set(&self, app: &str) -> Object {
        let image = format!("registry.example/system/{app}:1.36.4");
        let spec = json!({
            "containers": [container(app, &image, 100, 128)],
            "priorityClassName": NODE_CRITICAL,
            "schedulerName": "default-scheduler",
            "tolerations": [{"operator": "Exists"}],
        });
        let spec = json!({
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": spec},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        });
        self.workload("kube-system", app, "DaemonSet", spec)
    }

    fn cron_job(&self, batch: &BatchJob) -> Object {
        let BatchJob { name, schedule, milli_cpu, mebibytes, parallelism, completions, placement } = batch;
        let image = format!("registry.example/shop/{name}:1.1.0");
        let pod = placement.apply_to(json!({
            "containers": [container(name, &image, *milli_cpu, *mebibytes)],
            "priorityClassName": BACKGROUND,
            "restartPolicy": "Never",
            "schedulerName": "default-scheduler",
        }));
        // Preempted pods are replaced, however often.
        let job = json!({
            "backoffLimit": 1_000,
            "completions": completions,
            "parallelism": parallelism,
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        });
        let rest = json!({"spec": {
            "schedule": schedule,
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 2,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": job},
        }});
        self.object("batch/v1", "CronJob", "batch", name, json!({"generation": 1}), rest)
    }
}

// === impl NodePlacement ===

impl NodePlacement {
    /// Adds the placement to a pod spec.
    fn apply_to(self, mut spec: Value) -> Value {
        match self {
            NodePlacement::Anywhere => {}
            NodePlacement::Disk(disk) => spec["affinity"] = disk_affinity(disk),
            NodePlacement::Pool(pool) => {
                spec["nodeSelector"] = json!({POOL: pool});
                if pool != MEMORY {
                    spec["tolerations"] = json!([{"key": DEDICATED, "operator": "Equal", "value": pool, "effect": "NoSchedule"}]);
                }
            }
        }
        spec
    }
}

fn container(name: &str, image: &str, milli_cpu: i64, mebibytes: i64) -> Value {
    let (cpu, memory) = (format!("{milli_cpu}m"), format!("{mebibytes}Mi"));
    json!({
        "name": name,
        "image": image,
        "resources": {"limits": {"memory": memory}, "requests": {"cpu": cpu, "memory": memory}},
    })
}

fn deployment_spec(app: &str, replicas: i64, pod: &Value) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": app}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "template": {"metadata": {"labels": {"app": app}}, "spec": pod},
    })
}

/// A uid derived from kind, namespace and name.
fn stable_uid(kind: &str, namespace: &str, name: &str) -> String {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in [kind, "/", namespace, "/", name].iter().flat_map(|part| part.bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let digits = format!("{hash:032x}");
    format!("{}-{}-4{}-a{}-{}", &digits[..8], &digits[8..12], &digits[13..16], &digits[17..20], &digits[20..])
}
