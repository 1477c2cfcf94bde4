//! What of a cluster is recorded, and what is removed from it: all tables, in one place.
//!
//! Which kinds, objects and events are recorded, which fields are removed from objects, and which changes count for
//! nothing. What a user chooses among these is `recorder::policy::RecordingPolicy`. The tables are read by those who act on
//! them: [`rules`](crate::rules) on the text of objects, `live` on kinds and watches, `recorder` on what it writes.
//!
//! Two rules hold whatever is chosen. Secrets ([`is_secret`](crate::kinds::is_secret)) are neither watched nor written. What
//! is written of an object is decided by [`rules::disclosed`](crate::rules::disclosed), which leaves no data of ConfigMaps
//! but those of [`CONFIG_MAPS_WITH_DATA`].

use model::Kind;

/// Kinds by group.
pub type KindTable = &'static [(&'static str, &'static [&'static str])];

/// The kinds that are recorded unless a user chooses others, as far as the server has them: what schedules, what is
/// scheduled, and what says why. [`DEFAULT_KINDS_IN_WORDS`] tells users of them.
pub const DEFAULT_KINDS: KindTable = &[
    (
        "",
        &[
            "Pod",
            "Node",
            "Namespace",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Service",
            "ReplicationController",
            "ResourceQuota",
            "LimitRange",
            "ConfigMap",
        ],
    ),
    ("scheduling.k8s.io", &["PriorityClass", "Workload", "PodGroup"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("policy", &["PodDisruptionBudget"]),
    ("storage.k8s.io", &["StorageClass", "VolumeAttachment", "CSINode", "CSIDriver", "CSIStorageCapacity"]),
    ("apps", &["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"]),
    ("batch", &["Job", "CronJob"]),
    ("autoscaling", &["HorizontalPodAutoscaler"]),
    ("resource.k8s.io", &["ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"]),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("events.k8s.io", &["Event"]),
    ("coordination.k8s.io", &["Lease"]),
    // Vertical Pod Autoscaler, KEDA.
    ("autoscaling.k8s.io", &["VerticalPodAutoscaler"]),
    ("keda.sh", &["ScaledObject", "ScaledJob"]),
    // Karpenter, and what its clouds call their node classes.
    ("karpenter.sh", &["NodePool", "NodeClaim"]),
    ("karpenter.k8s.aws", &["EC2NodeClass"]),
    ("karpenter.azure.com", &["AKSNodeClass"]),
    ("karpenter.k8s.gcp", &["GCENodeClass"]),
    ("karpenter.kwok.sh", &["KWOKNodeClass"]),
    // Gardener.
    ("machine.sapcloud.io", &["MachineDeployment", "MachineClass"]),
    ("extensions.gardener.cloud", &["Worker"]),
    // KAI.
    ("scheduling.run.ai", &["Queue", "PodGroup", "BindRequest"]),
    ("kai.scheduler", &["Topology"]),
    // Kueue, Volcano, JobSet, LeaderWorkerSet.
    (
        "kueue.x-k8s.io",
        &[
            "Workload",
            "ClusterQueue",
            "LocalQueue",
            "Cohort",
            "ResourceFlavor",
            "Topology",
            "AdmissionCheck",
            "WorkloadPriorityClass",
        ],
    ),
    ("scheduling.volcano.sh", &["PodGroup", "Queue"]),
    ("batch.volcano.sh", &["Job"]),
    ("jobset.x-k8s.io", &["JobSet"]),
    ("leaderworkerset.x-k8s.io", &["LeaderWorkerSet"]),
    ("topology.node.k8s.io", &["NodeResourceTopology"]),
];

/// [`DEFAULT_KINDS`], [`EXCLUDED_OBJECTS`] and the rules about fields, as the help of `record` tells of them.
pub const DEFAULT_KINDS_IN_WORDS: &str = "\
What is recorded by default: pods, nodes, namespaces, workloads, volumes, classes, quotas, budgets, devices, custom \
resource definitions, every event, leases but for those of nodes, and where they exist the objects of Karpenter, Kueue, \
Volcano, JobSet, LeaderWorkerSet, KEDA, VPA, Gardener, KAI and the NodeResourceTopology. Secrets are never read, ConfigMaps by name only. What means nothing to scheduling is left out and \
the values of environment variables are hidden: --show-rules tells how.";

/// The kinds that are recorded of the control plane of a cluster, in its namespace there, as far as the server has them.
pub const CONTROL_PLANE_KINDS: KindTable = &[
    ("machine.sapcloud.io", &["MachineDeployment", "MachineClass"]),
    ("extensions.gardener.cloud", &["Worker"]),
    ("apps", &["Deployment"]),
    ("events.k8s.io", &["Event"]),
];

/// The one Deployment that is recorded of a control plane.
pub const CONTROL_PLANE_DEPLOYMENT: &str = "cluster-autoscaler";

/// What the recorder of kube-scheduler-simulator watches, in its order.
pub const SIMULATOR_KINDS: [&str; 7] = [
    "namespaces",
    "priorityclasses",
    "storageclasses",
    "persistentvolumeclaims",
    "nodes",
    "persistentvolumes",
    "pods",
];

/// Objects that are left out of a watch of all namespaces: group, kind and a field selector of those that stay.
///
/// The leases of nodes are heartbeats: one for each node every ten seconds. Other leases say who leads.
pub const EXCLUDED_OBJECTS: &[(&str, &str, &str)] =
    &[("coordination.k8s.io", "Lease", "metadata.namespace!=kube-node-lease")];

/// A component whose name contains one of these reports events that are about scheduling.
pub const SCHEDULING_REPORTER_PARTS: [&str; 3] = ["scheduler", "cluster-autoscaler", "karpenter"];

/// So does a component of one of these names. KAI's binder and pod grouper are parts of its scheduler.
pub const SCHEDULING_REPORTERS: [&str; 2] = ["binder", "pod-grouper"];

/// ConfigMaps whose data is recorded: those in which cluster-autoscaler reports and is told its priorities.
pub const CONFIG_MAPS_WITH_DATA: [&str; 2] =
    ["cluster-autoscaler-status", "cluster-autoscaler-priority-expander"];

/// ConfigMaps whose names begin so, too: they describe nodes to KWOK's provider of cluster-autoscaler.
pub const CONFIG_MAP_PREFIXES_WITH_DATA: [&str; 1] = ["kwok-provider-"];

/// The lists of containers, wherever they stand in an object. The values of environment variables in them are replaced by
/// tokens if there is a key.
pub const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// The fields that are removed from objects, and those whose changes count for nothing. At most 32: each has a bit in
/// [`rules`](crate::rules).
pub(crate) static FIELD_RULES: &[FieldRule] = &[
    data_in(&["data"]),
    data_in(&["binaryData"]),
    on(&["metadata", "managedFields"], Effect::Cut, "says who set which field; often half of an object"),
    copy_in(&["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"]),
    copy_in(&["metadata", "annotations", "banzaicloud.com/last-applied"]),
    copy_in(&["metadata", "annotations", "kapp.k14s.io/original"]),
    copy_in(&["metadata", "annotations", "kapp.k14s.io/original-diff"]),
    copy_in(&["metadata", "annotations", "kopf.zalando.org/last-handled-configuration"]),
    copy_in(&["metadata", "annotations", "objectset.rio.cattle.io/applied"]),
    on(&["metadata", "resourceVersion"], Effect::Mute, "changes with every write, of whatever"),
    on(&["status", "conditions", "[]", "lastHeartbeatTime"], Effect::Mute, "the kubelet's heartbeat")
        .of("", "Node"),
    on(&["status", "images"], Effect::Unordered, "schedulers look images up by name").of("", "Node"),
    on(&["spec", "renewTime"], Effect::Mute, LEADER).of("coordination.k8s.io", "Lease"),
    on(LEADER_ANNOTATION, Effect::Mute, LEADER).of("", "ConfigMap"),
    on(LEADER_ANNOTATION, Effect::Mute, LEADER).of("", "Endpoints"),
];

const LEADER_ANNOTATION: &[&str] = &["metadata", "annotations", "control-plane.alpha.kubernetes.io/leader"];
const LEADER: &str = "renewed every few seconds by whoever lives or leads";

/// A field that is treated specially.
pub(crate) struct FieldRule {
    /// Group and kind; `None` for every kind.
    pub(crate) kind: Option<(&'static str, &'static str)>,
    /// Names of members; `[]` for every entry of a list.
    pub(crate) path: &'static [&'static str],
    pub(crate) effect: Effect,
    pub(crate) purpose: Purpose,
    pub(crate) why: &'static str,
}

/// What a rule is there for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It hides what ConfigMaps hold, but for those of autoscalers.
    HideData,
    /// It hides copies of the object in its annotations: they hold what is hidden in the object itself.
    HideCopies,
    /// It leaves out what means nothing to scheduling.
    Significance,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is not kept.
    Cut,
    /// It is kept, but a change of it alone is no change.
    Mute,
    /// It is a list whose order means nothing.
    Unordered,
}

/// The kinds of a table, in its order.
pub fn kinds_of(table: KindTable) -> impl Iterator<Item = Kind> {
    table.iter().flat_map(|(group, kinds)| kinds.iter().map(|kind| Kind::new(group, kind)))
}

// === impl FieldRule ===

pub(crate) const fn on(path: &'static [&'static str], effect: Effect, why: &'static str) -> FieldRule {
    FieldRule { kind: None, path, effect, purpose: Purpose::Significance, why }
}

const fn copy_in(path: &'static [&'static str]) -> FieldRule {
    let why = "holds a copy of the object, environment variables and data included";
    FieldRule { purpose: Purpose::HideCopies, ..on(path, Effect::Cut, why) }
}

const fn data_in(path: &'static [&'static str]) -> FieldRule {
    let why = "may hold passwords; the ConfigMaps of cluster-autoscaler keep it";
    FieldRule { purpose: Purpose::HideData, ..on(path, Effect::Cut, why) }.of("", "ConfigMap")
}

impl FieldRule {
    const fn of(self, group: &'static str, kind: &'static str) -> FieldRule {
        FieldRule { kind: Some((group, kind)), ..self }
    }
}
