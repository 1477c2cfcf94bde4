//! Utilization, drainability and markers of each node, cached from loop to loop until the node changes.

use kubernetes::well_known::TO_BE_DELETED;
use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;
use super::drainability::{DrainabilityRules, long_terminating_after};
use super::node_cache::{Expiring, NodeCache};
use super::node_markers::{is_scale_down_disabled, taint_time};
use super::utilization::{IgnoredPods, Utilization, gpu_resource};

/// The cache of node details.
#[derive(Debug, Default)]
pub(super) struct NodeDetailsCache(NodeCache<NodeDetails>);

/// The scale-down details of a node with its pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeDetails {
    /// They are valid until this moment: then a long-terminating pod stops counting.
    pub valid_until: Moment,
    /// `None` if its allocatable amounts are missing.
    pub utilization: Option<Utilization>,
    /// No pod has to be moved, by the drainability rules without controllers and PodDisruptionBudgets.
    pub is_empty: bool,
    /// It is empty except for on-completion pods.
    pub has_on_completion_pods: bool,
    /// It has a GPU or the GPU label.
    pub has_gpu: bool,
    /// Its annotation disables scale-down.
    pub scale_down_disabled: bool,
    /// When it got the `ToBeDeleted` taint.
    pub to_be_deleted_since: Option<Moment>,
}

impl NodeDetailsCache {
    /// The details of a node as it is in the snapshot now.
    pub(super) fn get(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        id: NodeId,
        ignored: IgnoredPods,
    ) -> NodeDetails {
        if let Some(cached) = self.0.get(context, id) {
            return *cached;
        }
        let details = NodeDetails::of(context, id, ignored);
        self.0.insert(id, context.cluster.snapshot.filter_snapshot.generation(id), details);
        details
    }
}

// === impl NodeDetails ===

impl NodeDetails {
    fn of(context: &mut AutoscalingContext<'_>, id: NodeId, ignored: IgnoredPods) -> NodeDetails {
        let clock = context.clock;
        let snapshot = &mut context.cluster.snapshot;
        let ids = snapshot.filter_snapshot.usage(id).pods.clone();
        let node = snapshot.node(id).clone();
        let pods: Vec<_> = ids.iter().map(|id| snapshot.pod(*id).clone()).collect();
        let rules =
            DrainabilityRules { settings: context.settings, clock, controllers: None, disruptions: None };
        let drain = rules.pods_to_move(snapshot, &ids).ok().filter(|drain| drain.pods.is_empty());
        let changes = pods
            .iter()
            .filter_map(|pod| long_terminating_after(pod))
            .filter(|moment| !clock.is_past(*moment));
        NodeDetails {
            valid_until: changes.min().unwrap_or(Moment::MAX),
            utilization: Utilization::of(
                &node,
                pods.iter().map(|pod| &**pod),
                ignored,
                context.cloud.gpu_label(),
                snapshot.filter_snapshot.scalars(),
                clock,
            ),
            is_empty: drain.is_some(),
            has_on_completion_pods: drain.is_some_and(|drain| drain.has_on_completion_pods),
            has_gpu: gpu_resource(&node, context.cloud.gpu_label()).is_some(),
            scale_down_disabled: is_scale_down_disabled(&node),
            to_be_deleted_since: taint_time(&node, TO_BE_DELETED),
        }
    }
}

impl Expiring for NodeDetails {
    fn valid_until(&self) -> Moment {
        self.valid_until
    }
}
