//! The decisions of a loop and their reasons, named as in cluster-autoscaler.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use model::{Moment, NamespacedName};

use super::settings::Expander;

/// The result of one loop.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopResult {
    /// When it ran.
    pub at: Moment,
    /// The error that ended it.
    pub error: Option<String>,
    /// The scale-up; the further ones of a salvo follow the first.
    pub scale_ups: Vec<ScaleUpStatus>,
    /// The scale-up of groups below their minimum size, for `--enforce-node-group-min-size`.
    pub min_size_scale_up: Option<ScaleUpStatus>,
    /// The scale-down.
    pub scale_down: ScaleDownStatus,
    /// Every group after the loop, in the cloud provider's order.
    pub groups: Vec<GroupState>,
    /// Whether the cluster as a whole is healthy.
    pub healthy: bool,
    /// Kubernetes Events to emit.
    pub events: Vec<Event>,
    /// Actions for the caller to carry out, in this order.
    pub actions: Vec<Action>,
}

/// The state of a group after a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// The group.
    pub name: Arc<str>,
    /// Its target size.
    pub target: i64,
    /// The number of upcoming nodes.
    pub upcoming: i64,
    /// Whether it is in backoff after a failed scale-up.
    pub backed_off: bool,
    /// Whether it has as many ready nodes as it should.
    pub healthy: bool,
}

/// A scale-up: the pods considered, the options, the choice and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleUpStatus {
    /// Its result.
    pub result: ScaleUpResult,
    /// The error, if it failed.
    pub error: Option<String>,
    /// The pods considered, by equivalence group.
    pub equivalence_groups: Vec<EquivalenceGroupResult>,
    /// The expansion options, at most one per node group, in the cloud provider's order.
    pub options: Vec<ScaleUpOption>,
    /// The chosen group.
    pub best_group: Option<Arc<str>>,
    /// The choices of the expanders, in their order.
    pub expander_choices: Vec<ExpanderChoice>,
    /// The groups that were increased.
    pub increases: Vec<Increase>,
    /// The pods of the chosen option.
    pub pods_triggered_scale_up: Vec<NamespacedName>,
    /// Pods that remain unschedulable.
    pub pods_remain_unschedulable: Vec<NoScaleUpInfo>,
    /// Pods that await evaluation: another group than the chosen one could help them.
    pub pods_await_evaluation: Vec<NamespacedName>,
    /// Groups whose increase failed.
    pub failed_groups: Vec<Arc<str>>,
    /// Groups that were skipped, with the reasons.
    pub skipped_groups: BTreeMap<Arc<str>, Vec<String>>,
}

/// The result of a scale-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are cluster-autoscaler's")]
pub enum ScaleUpResult {
    Successful,
    Error,
    NoOptionsAvailable,
    NotNeeded,
    NotTried,
    InCooldown,
    LimitedByMaxNodesTotal,
}

/// A pod equivalence group.
#[derive(Clone, Debug, PartialEq)]
pub struct EquivalenceGroupResult {
    /// The pods.
    pub pods: PodList,
    /// Groups whose template node fails the filters, with the reasons.
    pub rejected_groups: Arc<BTreeMap<Arc<str>, Vec<String>>>,
}

/// An expansion option.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleUpOption {
    /// The group to increase.
    pub group: Arc<str>,
    /// The number of new nodes.
    pub nodes: i64,
    /// The pods that would be scheduled on them.
    pub pods: PodList,
    /// Similar groups, between which the new nodes would be balanced.
    pub similar_groups: Vec<Arc<str>>,
}

/// A list of pods: prefixes of several lists, which expansion options share.
#[derive(Clone, Debug, Default)]
pub struct PodList(pub(crate) Vec<(Arc<[NamespacedName]>, usize)>);

/// The choice of one expander.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpanderChoice {
    /// The expander.
    pub expander: Expander,
    /// The score of each option by group: pods, nodes, waste, price or priority.
    pub scores: Vec<(Arc<str>, f64)>,
    /// The groups that remain.
    pub remaining_groups: Vec<Arc<str>>,
    /// Several options remained at the end of the chain, of which the first by name was taken.
    pub is_tie: bool,
}

/// The increase of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Increase {
    /// The group.
    pub group: Arc<str>,
    /// Its target before.
    pub from: i64,
    /// Its target now.
    pub to: i64,
    /// Its maximum size.
    pub max: i64,
}

/// A pod that remains unschedulable, with the reasons by group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoScaleUpInfo {
    /// The pod.
    pub pod: NamespacedName,
    /// Groups whose template node fails the filters, with the reasons.
    pub rejected_groups: Arc<BTreeMap<Arc<str>, Vec<String>>>,
    /// Groups that were skipped, with the reasons.
    pub skipped_groups: Arc<BTreeMap<Arc<str>, Vec<String>>>,
}

/// A scale-down: unneeded and unremovable nodes, and the nodes whose removal began.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleDownStatus {
    /// Its result.
    pub result: ScaleDownResult,
    /// Nodes whose removal began.
    pub removed_nodes: Vec<RemovedNode>,
    /// Unneeded nodes by name, and since when.
    pub unneeded: Vec<(Arc<str>, Moment)>,
    /// Unremovable nodes by name.
    pub unremovable: Vec<UnremovableNode>,
    /// The utilization of nodes for which it was computed, by name.
    pub utilization: BTreeMap<Arc<str>, f64>,
    /// Deletions that ended since the last loop, by node.
    pub delete_results: BTreeMap<Arc<str>, DeleteResult>,
}

/// The result of a scale-down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are cluster-autoscaler's")]
pub enum ScaleDownResult {
    Error,
    NoNodeDeleted,
    NodeDeleteStarted,
    NotTried,
    InCooldown,
    NoCandidates,
}

/// A node whose removal began.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovedNode {
    /// The node.
    pub node: Arc<str>,
    /// The pods to be evicted.
    pub evicted_pods: Vec<NamespacedName>,
    /// Its utilization.
    pub utilization: f64,
}

/// An unremovable node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnremovableNode {
    /// The node.
    pub node: Arc<str>,
    /// The reason.
    pub reason: UnremovableReason,
    /// The pod that blocks the removal, with the reason.
    pub blocking_pod: Option<(NamespacedName, BlockingPodReason)>,
}

/// Why a node is unremovable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are cluster-autoscaler's")]
pub enum UnremovableReason {
    ScaleDownDisabledAnnotation,
    ScaleDownUnreadyDisabled,
    NotAutoscaled,
    NotUnneededLongEnough,
    NotUnreadyLongEnough,
    NodeGroupMinSizeReached,
    NodeGroupMaxDeletionCountReached,
    AtomicScaleDownFailed,
    MinimalResourceLimitExceeded,
    CurrentlyBeingDeleted,
    NotUnderutilized,
    NotUnneededOtherReason,
    RecentlyUnremovable,
    NoPlaceToMovePods,
    BlockedByPod,
    UnexpectedError,
    NoNodeInfo,
    BlockedByOnCompletionPod,
}

/// Why a pod blocks the removal of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are cluster-autoscaler's")]
pub enum BlockingPodReason {
    ControllerNotFound,
    MinReplicasReached,
    NotReplicated,
    LocalStorageRequested,
    NotSafeToEvictAnnotation,
    UnmovableKubeSystemPod,
    NotEnoughPdb,
    UnexpectedError,
}

/// The result of a node deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are cluster-autoscaler's")]
pub enum DeleteResult {
    NodeDeleteOk,
    NodeDeleteErrorFailedToEvictPods,
    NodeDeleteErrorFailedToDelete,
    NodeDeleteErrorInternal,
}

/// A Kubernetes Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its involved object.
    pub involved_object: InvolvedObject,
    /// `Warning`, or else `Normal`.
    pub is_warning: bool,
    /// `TriggeredScaleUp`, for example.
    pub reason: &'static str,
    /// Its message.
    pub message: String,
}

/// The involved object of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvolvedObject {
    /// The status ConfigMap, for events about groups or the whole cluster.
    StatusConfigMap,
    /// A pod.
    Pod(NamespacedName),
    /// A node.
    Node(Arc<str>),
    /// The ConfigMap of the expander `priority`.
    PriorityConfigMap,
}

/// A write to the API server. The caller carries it out and applies the resulting changes to the autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Adds a taint to a node.
    Taint {
        /// The node.
        node: Arc<str>,
        /// The taint's key.
        key: &'static str,
        /// Its value: the time, in seconds since 1970.
        value: String,
        /// `NoSchedule` or `PreferNoSchedule`.
        effect: &'static str,
    },
    /// Removes a taint from a node.
    Untaint {
        /// The node.
        node: Arc<str>,
        /// The taint's key.
        key: &'static str,
    },
    /// Sets `spec.unschedulable` of a node.
    Cordon {
        /// The node.
        node: Arc<str>,
        /// The new value.
        unschedulable: bool,
    },
    /// Evicts a pod.
    Evict {
        /// The pod.
        pod: NamespacedName,
        /// The grace period in seconds.
        grace: i64,
    },
}

// The variants are named as in cluster-autoscaler.

impl fmt::Display for ScaleUpResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScaleUp{self:?}")
    }
}

impl fmt::Display for ScaleDownResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScaleDown{self:?}")
    }
}

impl fmt::Display for UnremovableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl fmt::Display for BlockingPodReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl fmt::Display for DeleteResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

// === impl PodList ===

impl PodList {
    /// The pods in their order.
    pub fn iter(&self) -> impl Iterator<Item = &NamespacedName> {
        self.0.iter().flat_map(|(pods, count)| &pods[..*count])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for PodList {
    fn eq(&self, other: &PodList) -> bool {
        self.iter().eq(other.iter())
    }
}

// === impl ScaleUpStatus ===

impl ScaleUpStatus {
    /// A scale-up with this result and nothing else.
    pub(crate) fn with_result(result: ScaleUpResult) -> ScaleUpStatus {
        ScaleUpStatus {
            result,
            error: None,
            equivalence_groups: Vec::new(),
            options: Vec::new(),
            best_group: None,
            expander_choices: Vec::new(),
            increases: Vec::new(),
            pods_triggered_scale_up: Vec::new(),
            pods_remain_unschedulable: Vec::new(),
            pods_await_evaluation: Vec::new(),
            failed_groups: Vec::new(),
            skipped_groups: BTreeMap::new(),
        }
    }
}

// === impl ScaleDownStatus ===

impl ScaleDownStatus {
    /// A scale-down with this result and nothing else.
    pub(crate) fn with_result(result: ScaleDownResult) -> ScaleDownStatus {
        ScaleDownStatus {
            result,
            removed_nodes: Vec::new(),
            unneeded: Vec::new(),
            unremovable: Vec::new(),
            utilization: BTreeMap::new(),
            delete_results: BTreeMap::new(),
        }
    }
}
