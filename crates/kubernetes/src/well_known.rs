//! Keys of labels, taints and annotations that more than one place reads.

// Labels of nodes.

/// The zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The zone, as old nodes and volumes name it.
pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// The region, as old nodes and volumes name it.
pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// The host name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The instance type, as old nodes name it.
pub const BETA_INSTANCE_TYPE: &str = "beta.kubernetes.io/instance-type";
/// The operating system.
pub const OS: &str = "kubernetes.io/os";
/// Karpenter's NodePool.
pub const KARPENTER_NODE_POOL: &str = "karpenter.sh/nodepool";
/// The instance group of kops.
pub const KOPS_INSTANCE_GROUP: &str = "kops.k8s.io/instancegroup";

// Taints of nodes.

/// The node is not ready.
pub const NODE_NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The node's kubelet does not report.
pub const NODE_UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The node is cordoned.
pub const NODE_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The node is short of disk space.
pub const NODE_DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
/// The node is short of memory.
pub const NODE_MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
/// The node is short of process IDs.
pub const NODE_PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
/// The node's network is not configured.
pub const NODE_NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
/// The node is not initialized by its cloud provider.
pub const NODE_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// cluster-autoscaler is deleting the node.
pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// cluster-autoscaler considers the node for deletion.
pub const DELETION_CANDIDATE: &str = "DeletionCandidateOfClusterAutoscaler";

// Labels and annotations of pods.

/// The revision of a StatefulSet's or DaemonSet's pod template.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
/// The index of a StatefulSet's pod.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// The index of an indexed Job's pod.
pub const JOB_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The uid of a pod's Job.
pub const JOB_CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// Marks the mirror pod of a static pod.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";
/// The source of a static pod.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// Whether cluster-autoscaler treats a pod as one of a DaemonSet.
pub const DAEMON_SET_POD: &str = "cluster-autoscaler.kubernetes.io/daemonset-pod";

// Annotations of other objects.

/// The manifest that kubectl last applied.
pub const LAST_APPLIED_CONFIGURATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// KWOK manages the node.
pub const KWOK_NODE: &str = "kwok.x-k8s.io/node";
/// The binding of a claim to its volume is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The provisioner of volumes that are not provisioned.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
