//! Node groups: sizes, membership, template, prices, and how their nodes are provisioned.

mod file;
mod machine_prices;
pub mod node_template;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::objects::NodeView;
use model::{Moment, Object};

use super::settings::GroupOptionOverrides;
use crate::Delay;

/// The maximum size of a group, far beyond the size of any cluster.
pub const MAX_GROUP_SIZE: i64 = 100_000;

pub use file::{BadGroups, NodeGroups};
pub use machine_prices::MachinePrices;

/// Hourly prices of pods, by their requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodPricing {
    /// Per core.
    pub cpu: f64,
    /// Per GiB of memory.
    pub memory_gib: f64,
}

/// A node group that can be scaled.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeGroup {
    /// Its name.
    pub name: Arc<str>,
    /// Its minimum size.
    pub min: i64,
    /// Its maximum size.
    pub max: i64,
    /// Its initial target size; `None` for the number of nodes it has.
    pub target: Option<i64>,
    /// Which nodes belong to it, besides those that are created for it.
    pub members: Membership,
    /// The template of new nodes.
    pub template: Object,
    /// Pods that every new node has besides those of DaemonSets.
    pub pods: Vec<Object>,
    /// Pods of the cloud provider's template that new nodes never have. They count as long as the template is not taken
    /// from a live node: an example is the kube-proxy pod of cluster-autoscaler's kwok provider.
    pub template_pods: Vec<Object>,
    /// The hourly price of a node.
    pub price: Option<f64>,
    /// Its overrides of autoscaling options.
    pub options: Option<GroupOptionOverrides>,
    /// How long new nodes take.
    pub provisioning: Provisioning,
    /// Times in which provisioning fails.
    pub failures: Vec<ProvisioningFailure>,
}

/// Which nodes belong to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Those whose `providerID` has this prefix.
    ProviderIdPrefix(Arc<str>),
    /// Those with this label.
    Label {
        /// Its key.
        key: Arc<str>,
        /// Its value.
        value: Arc<str>,
    },
    /// Those with this annotation.
    Annotation {
        /// Its key.
        key: Arc<str>,
        /// Its value.
        value: Arc<str>,
    },
    /// Those with these names.
    Named(BTreeSet<Arc<str>>),
}

/// How long new nodes take.
#[derive(Clone, Debug, PartialEq)]
pub struct Provisioning {
    /// From the request until the node registers.
    pub registers_after: Delay,
    /// From then until it is ready.
    pub ready_after: Delay,
}

/// A time in which scale-ups of a group fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisioningFailure {
    /// Its start.
    pub from: Moment,
    /// Its end, exclusive.
    pub to: Moment,
    /// The kind of failure.
    pub kind: ProvisioningFailureKind,
}

/// How a scale-up fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisioningFailureKind {
    /// The request is refused.
    IncreaseError,
    /// The target size increases, but no instance is created.
    NoInstance,
    /// Instances are created, but never register as nodes.
    NeverRegister,
    /// Instances appear with a creation error: the cloud provider is out of resources.
    CreateError,
}

impl Default for Provisioning {
    fn default() -> Provisioning {
        Provisioning {
            registers_after: Delay::Constant(Duration::from_secs(60)),
            ready_after: Delay::Constant(Duration::ZERO),
        }
    }
}

// === impl Membership ===

impl Membership {
    /// Whether a node belongs to the group.
    pub fn matches(&self, node: &NodeView) -> bool {
        match self {
            Membership::ProviderIdPrefix(prefix) => node.provider_id.starts_with(&**prefix),
            Membership::Label { key, value } => node.labels.get(key) == Some(&**value),
            Membership::Annotation { key, value } => node.annotations.get(key) == Some(&**value),
            Membership::Named(names) => names.contains(&node.name),
        }
    }
}
