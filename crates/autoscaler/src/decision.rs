//! What an autoscaler decides, and why, in cluster-autoscaler's words.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use model::{Moment, NamespacedName};

use super::settings::Expander;

/// What one loop came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// When it ran.
    pub at: Moment,
    /// It failed, and ended there.
    pub error: Option<String>,
    /// The search for new nodes; the further ones of a salvo follow the first.
    pub scale_ups: Vec<ScaleUp>,
    /// What was done about groups below their least size.
    pub min_size: Option<ScaleUp>,
    /// The search for nodes to remove.
    pub scale_down: ScaleDown,
    /// Every group after the loop, in the cloud's order.
    pub groups: Vec<GroupState>,
    /// Whether the cluster as a whole is healthy.
    pub healthy: bool,
    /// What is told to users.
    pub events: Vec<Event>,
    /// What the caller is to do, in this order.
    pub actions: Vec<Action>,
}

/// A group after a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// The group.
    pub name: Arc<str>,
    /// How many nodes it is to have.
    pub target: i64,
    /// How many of them are still to come.
    pub upcoming: i64,
    /// After failures it is left alone for a while.
    pub backed_off: bool,
    /// Whether it has as many ready nodes as it should.
    pub healthy: bool,
}

/// A search for new nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleUp {
    /// What came of it.
    pub result: ScaleUpResult,
    /// What went wrong.
    pub error: Option<String>,
    /// The pods it is about, those together that are the same to a scheduler.
    pub looked_at: Vec<LookedAt>,
    /// The ways to help, one a group, in the cloud's order.
    pub options: Vec<ScaleUpOption>,
    /// The group that was chosen.
    pub best: Option<Arc<str>>,
    /// How it was chosen, expander by expander.
    pub choice: Vec<Choice>,
    /// The groups that grow.
    pub increases: Vec<Increase>,
    /// The pods of the chosen option.
    pub triggered: Vec<NamespacedName>,
    /// Pods for which nothing can be done.
    pub remaining: Vec<Remaining>,
    /// Pods that another group could help.
    pub awaiting: Vec<NamespacedName>,
    /// Groups that could not grow.
    pub failed_groups: Vec<Arc<str>>,
    /// Groups that were not looked at, and why.
    pub skipped: BTreeMap<Arc<str>, Vec<String>>,
}

/// What came of a search for new nodes.
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

/// Pods that are the same to a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct LookedAt {
    /// The pods.
    pub pods: PodList,
    /// Groups whose nodes would not take them, be it that others would: what the filters say.
    pub rejected: Arc<BTreeMap<Arc<str>, Vec<String>>>,
}

/// A way to help.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleUpOption {
    /// The group that would grow.
    pub group: Arc<str>,
    /// By how many nodes.
    pub nodes: i64,
    /// Whom that would help.
    pub pods: PodList,
    /// Groups that would share the new nodes.
    pub similar: Vec<Arc<str>>,
}

/// Pods: of several lists the first few each. Many ways to help share the lists.
#[derive(Clone, Debug, Default)]
pub struct PodList(pub(crate) Vec<(Arc<[NamespacedName]>, usize)>);

/// One expander's opinion.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Who.
    pub expander: Expander,
    /// What it makes of each option it was asked about, by group: pods, nodes, waste, price or priority.
    pub scores: Vec<(Arc<str>, f64)>,
    /// The groups it leaves.
    pub left: Vec<Arc<str>>,
    /// It left equals, of which the first by name was taken.
    pub tie: bool,
}

/// A group that grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Increase {
    /// The group.
    pub group: Arc<str>,
    /// Its target before.
    pub from: i64,
    /// Its target now.
    pub to: i64,
    /// Its greatest size.
    pub max: i64,
}

/// A pod for which nothing can be done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// The pod.
    pub pod: NamespacedName,
    /// Groups whose nodes would not take it: what the filters say.
    pub rejected: Arc<BTreeMap<Arc<str>, Vec<String>>>,
    /// Groups that were not looked at.
    pub skipped: Arc<BTreeMap<Arc<str>, Vec<String>>>,
}

/// A search for nodes to remove.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleDown {
    /// What came of it.
    pub result: ScaleDownResult,
    /// Nodes whose removal began.
    pub nodes: Vec<RemovedNode>,
    /// Nodes that could go, and since when, by name.
    pub unneeded: Vec<(Arc<str>, Moment)>,
    /// Nodes that may not go, and why, by name.
    pub unremovable: Vec<Unremovable>,
    /// How much of a node is used, where that was looked at, by name.
    pub utilization: BTreeMap<Arc<str>, f64>,
    /// Removals that came to an end since the last loop, by node.
    pub delete_results: BTreeMap<Arc<str>, DeleteResult>,
}

/// What came of a search for nodes to remove.
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
    /// The pods to be moved.
    pub drain: Vec<NamespacedName>,
    /// How much of it is used.
    pub utilization: f64,
}

/// A node that may not go, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unremovable {
    /// The node.
    pub node: Arc<str>,
    /// Why not.
    pub reason: UnremovableReason,
    /// The pod that stands in the way, and why.
    pub blocking: Option<(NamespacedName, BlockingReason)>,
}

/// Why a node may not go.
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

/// Why a pod stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are cluster-autoscaler's")]
pub enum BlockingReason {
    ControllerNotFound,
    MinReplicasReached,
    NotReplicated,
    LocalStorageRequested,
    NotSafeToEvictAnnotation,
    UnmovableKubeSystemPod,
    NotEnoughPdb,
    UnexpectedError,
}

/// How a removal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are cluster-autoscaler's")]
pub enum DeleteResult {
    NodeDeleteOk,
    NodeDeleteErrorFailedToEvictPods,
    NodeDeleteErrorFailedToDelete,
    NodeDeleteErrorInternal,
}

/// Something told to users, as a Kubernetes Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// About what.
    pub about: About,
    /// `Warning`, or else `Normal`.
    pub warning: bool,
    /// `TriggeredScaleUp`.
    pub reason: &'static str,
    /// In words.
    pub message: String,
}

/// What an Event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The status ConfigMap, for what concerns nobody in particular.
    Status,
    /// A pod.
    Pod(NamespacedName),
    /// A node.
    Node(Arc<str>),
    /// The ConfigMap of priorities.
    Priorities,
}

/// Something the autoscaler does to the cluster. Whoever runs it does it, and tells the autoscaler what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gives a node a taint.
    Taint {
        /// The node.
        node: Arc<str>,
        /// The taint's key.
        key: &'static str,
        /// Its value: when, in seconds since 1970.
        value: String,
        /// `NoSchedule` or `PreferNoSchedule`.
        effect: &'static str,
    },
    /// Takes a taint from a node.
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
        /// Whether pods are kept away.
        unschedulable: bool,
    },
    /// Evicts a pod.
    Evict {
        /// The pod.
        pod: NamespacedName,
        /// How long it gets, in seconds.
        grace: i64,
    },
}

// The variants are called as cluster-autoscaler calls them.

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

impl fmt::Display for BlockingReason {
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

// === impl ScaleUp ===

impl ScaleUp {
    /// A search that came to this and nothing else.
    pub(crate) fn only(result: ScaleUpResult) -> ScaleUp {
        ScaleUp {
            result,
            error: None,
            looked_at: Vec::new(),
            options: Vec::new(),
            best: None,
            choice: Vec::new(),
            increases: Vec::new(),
            triggered: Vec::new(),
            remaining: Vec::new(),
            awaiting: Vec::new(),
            failed_groups: Vec::new(),
            skipped: BTreeMap::new(),
        }
    }
}

// === impl ScaleDown ===

impl ScaleDown {
    /// A search that came to this and nothing else.
    pub(crate) fn only(result: ScaleDownResult) -> ScaleDown {
        ScaleDown {
            result,
            nodes: Vec::new(),
            unneeded: Vec::new(),
            unremovable: Vec::new(),
            utilization: BTreeMap::new(),
            delete_results: BTreeMap::new(),
        }
    }
}
