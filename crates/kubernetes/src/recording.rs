//! Tables of what is recorded of a cluster, and of what is removed from it.
//!
//! They list which kinds, objects and events are recorded, which fields are removed from objects, and which changes
//! are ignored. The user's choice among these is `recorder::policy::RecordingPolicy`. The tables are used by
//! [`change_filter`](crate::change_filter) for the text of objects, by `live` for kinds and watches, and by
//! `recorder` for what it writes.
//!
//! Two rules hold whatever the user chooses ([`change_filter::sanitize`](crate::change_filter::sanitize)): Secrets
//! ([`is_secret`](crate::kinds::is_secret)) are neither watched nor written, and the data of ConfigMaps is removed,
//! except of those in [`CONFIG_MAPS_WITH_DATA`].

use model::Kind;

/// Kinds by group.
pub type KindTable = &'static [(&'static str, &'static [&'static str])];

/// The kinds recorded by default, as far as the server has them: objects that schedule, that are scheduled, and that
/// explain why. [`DEFAULT_KINDS_IN_WORDS`] describes them to users.
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
    // Karpenter, and the node classes of its cloud providers.
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

/// [`DEFAULT_KINDS`], [`EXCLUDED_OBJECTS`] and the field rules, as described in the help of `record`.
pub const DEFAULT_KINDS_IN_WORDS: &str = "\
Recorded by default: pods, nodes, namespaces, workloads, volumes, classes, quotas, PodDisruptionBudgets, \
devices, CustomResourceDefinitions, Events, Leases except those of nodes, and if installed the objects of \
Karpenter, Kueue, Volcano, JobSet, LeaderWorkerSet, KEDA, VPA, Gardener, KAI and NodeResourceTopology. Secrets \
are never read; ConfigMaps are recorded without data, except those of cluster-autoscaler. Changes irrelevant to \
scheduling are dropped, and values of environment variables are redacted: see --show-rules.";

/// The kinds recorded from the namespace of a cluster's control plane, as far as the server has them.
pub const CONTROL_PLANE_KINDS: KindTable = &[
    ("machine.sapcloud.io", &["MachineDeployment", "MachineClass"]),
    ("extensions.gardener.cloud", &["Worker"]),
    ("apps", &["Deployment"]),
    ("events.k8s.io", &["Event"]),
];

/// The only Deployment recorded from a control plane.
pub const CONTROL_PLANE_DEPLOYMENT: &str = "cluster-autoscaler";

/// The kinds that kube-scheduler-simulator's recorder watches, in its order.
pub const SIMULATOR_KINDS: [&str; 7] = [
    "namespaces",
    "priorityclasses",
    "storageclasses",
    "persistentvolumeclaims",
    "nodes",
    "persistentvolumes",
    "pods",
];

/// Objects excluded from a watch of all namespaces: group, kind and a field selector for those that are kept.
///
/// The leases of nodes are heartbeats: one per node every ten seconds. Other leases are for leader election.
pub const EXCLUDED_OBJECTS: &[(&str, &str, &str)] =
    &[("coordination.k8s.io", "Lease", "metadata.namespace!=kube-node-lease")];

/// Components whose name contains one of these report events about scheduling.
pub const SCHEDULING_REPORTER_PARTS: [&str; 3] = ["scheduler", "cluster-autoscaler", "karpenter"];

/// So do components with one of these names. KAI's binder and pod grouper are parts of its scheduler.
pub const SCHEDULING_REPORTERS: [&str; 2] = ["binder", "pod-grouper"];

/// ConfigMaps whose data is recorded: cluster-autoscaler's status and priorities.
pub const CONFIG_MAPS_WITH_DATA: [&str; 2] =
    ["cluster-autoscaler-status", "cluster-autoscaler-priority-expander"];

/// Name prefixes of further ConfigMaps whose data is recorded: they describe nodes to cluster-autoscaler's KWOK
/// provider.
pub const CONFIG_MAP_PREFIXES_WITH_DATA: [&str; 1] = ["kwok-provider-"];

/// The container lists, wherever they are in an object. If there is a key, the values of environment variables in
/// them are replaced by tokens.
pub const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// The fields that are removed from objects, and those whose changes are ignored. At most 32: each has a bit in
/// [`change_filter`](crate::change_filter).
pub(crate) static FIELD_RULES: &[FieldRule] = &[
    data_in(&["data"]),
    data_in(&["binaryData"]),
    on(&["metadata", "managedFields"], FieldEffect::Remove, "field owners; often half of the object"),
    copy_in(&["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"]),
    copy_in(&["metadata", "annotations", "banzaicloud.com/last-applied"]),
    copy_in(&["metadata", "annotations", "kapp.k14s.io/original"]),
    copy_in(&["metadata", "annotations", "kapp.k14s.io/original-diff"]),
    copy_in(&["metadata", "annotations", "kopf.zalando.org/last-handled-configuration"]),
    copy_in(&["metadata", "annotations", "objectset.rio.cattle.io/applied"]),
    on(&["metadata", "resourceVersion"], FieldEffect::IgnoreChanges, "changes with every write"),
    on(
        &["status", "conditions", "[]", "lastHeartbeatTime"],
        FieldEffect::IgnoreChanges,
        "the kubelet's heartbeat",
    )
    .of("", "Node"),
    on(&["status", "images"], FieldEffect::Unordered, "schedulers look images up by name").of("", "Node"),
    on(&["spec", "renewTime"], FieldEffect::IgnoreChanges, LEADER).of("coordination.k8s.io", "Lease"),
    on(LEADER_ANNOTATION, FieldEffect::IgnoreChanges, LEADER).of("", "ConfigMap"),
    on(LEADER_ANNOTATION, FieldEffect::IgnoreChanges, LEADER).of("", "Endpoints"),
];

const LEADER_ANNOTATION: &[&str] = &["metadata", "annotations", "control-plane.alpha.kubernetes.io/leader"];
const LEADER: &str = "renewed every few seconds: heartbeats, leader election";

/// A field that is treated specially.
pub(crate) struct FieldRule {
    /// Group and kind; `None` for every kind.
    pub(crate) kind: Option<(&'static str, &'static str)>,
    /// Member names; `[]` for every entry of a list.
    pub(crate) path: &'static [&'static str],
    pub(crate) effect: FieldEffect,
    pub(crate) purpose: RulePurpose,
    pub(crate) why: &'static str,
}

/// The purpose of a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RulePurpose {
    /// Removes the data of ConfigMaps except those of autoscalers.
    HideData,
    /// Removes copies of the object from its annotations: they contain what is removed from the object itself.
    HideCopies,
    /// Removes or ignores what is irrelevant to scheduling.
    Significance,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldEffect {
    /// The field is removed.
    Remove,
    /// The field is kept, but a change of it alone is ignored.
    IgnoreChanges,
    /// The field is a list whose order is irrelevant.
    Unordered,
}

/// The kinds of a table, in its order.
pub fn kinds_of(table: KindTable) -> impl Iterator<Item = Kind> {
    table.iter().flat_map(|(group, kinds)| kinds.iter().map(|kind| Kind::new(group, kind)))
}

// === impl FieldRule ===

pub(crate) const fn on(path: &'static [&'static str], effect: FieldEffect, why: &'static str) -> FieldRule {
    FieldRule { kind: None, path, effect, purpose: RulePurpose::Significance, why }
}

const fn copy_in(path: &'static [&'static str]) -> FieldRule {
    let why = "copy of the object, including environment variables and data";
    FieldRule { purpose: RulePurpose::HideCopies, ..on(path, FieldEffect::Remove, why) }
}

const fn data_in(path: &'static [&'static str]) -> FieldRule {
    let why = "may contain passwords; kept in the ConfigMaps of cluster-autoscaler";
    FieldRule { purpose: RulePurpose::HideData, ..on(path, FieldEffect::Remove, why) }.of("", "ConfigMap")
}

impl FieldRule {
    const fn of(self, group: &'static str, kind: &'static str) -> FieldRule {
        FieldRule { kind: Some((group, kind)), ..self }
    }
}
