//! Node groups: what they are made of, and what the cloud does when they grow.

mod file;
pub mod node_template;
mod prices;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::{Moment, Object};

use super::settings::GroupOptions;
use crate::Delay;

/// No group is larger than this: many times what a cluster can be.
pub const MOST_NODES: i64 = 100_000;

pub use file::{BadGroups, NodeGroups};
pub use prices::Prices;

/// What pods cost an hour, by what they ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pricing {
    /// For one core.
    pub cpu: f64,
    /// For one GiB of memory.
    pub memory_gib: f64,
}

/// A group of like nodes that grows and shrinks.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeGroup {
    /// Its name.
    pub name: Arc<str>,
    /// The fewest nodes it may have.
    pub min: i64,
    /// The most nodes it may have.
    pub max: i64,
    /// How many it is to have at first; as many as there are, if nothing is said.
    pub target: Option<i64>,
    /// Which nodes belong to it, besides those that are made for it.
    pub members: Membership,
    /// The node that new ones are made from.
    pub template: Object,
    /// Pods that every new node has besides those of DaemonSets.
    pub pods: Vec<Object>,
    /// Pods that the cloud says new nodes have, and that never come. They are reckoned with as long as the group has no node
    /// to go by: so does cluster-autoscaler with the kube-proxy of the kwok provider.
    pub believed: Vec<Object>,
    /// What a node costs an hour.
    pub price: Option<f64>,
    /// What it sets for itself.
    pub options: Option<GroupOptions>,
    /// How long a new node takes.
    pub provisioning: Provisioning,
    /// When the cloud does not do as it is told.
    pub failures: Vec<Failure>,
}

/// Which nodes belong to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Those whose `providerID` begins so.
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
    /// Those of these names.
    Named(BTreeSet<Arc<str>>),
}

/// How long a new node takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Provisioning {
    /// From the request until the node registers.
    pub registers_after: Delay,
    /// From then until it is ready.
    pub ready_after: Delay,
}

/// A time during which a group does not grow as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// From when.
    pub from: Moment,
    /// Until when, which does not count any more.
    pub to: Moment,
    /// What happens instead.
    pub kind: FailureKind,
}

/// What happens instead of new nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The request is refused.
    IncreaseError,
    /// The target grows, and nothing ever comes.
    NoInstance,
    /// Instances come and never become nodes.
    NeverRegister,
    /// Instances come and say that they could not be made: the cloud has no more of them.
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
    /// Whether a node of that name belongs to the group, by what the cloud calls it, its labels and its annotations.
    pub fn has<'n>(
        &self,
        name: &str,
        provider_id: &str,
        label: impl Fn(&str) -> Option<&'n str>,
        annotation: impl Fn(&str) -> Option<&'n str>,
    ) -> bool {
        match self {
            Membership::ProviderIdPrefix(prefix) => provider_id.starts_with(&**prefix),
            Membership::Label { key, value } => label(key) == Some(&**value),
            Membership::Annotation { key, value } => annotation(key) == Some(&**value),
            Membership::Named(names) => names.contains(name),
        }
    }
}
