//! What is remembered of each node from loop to loop, so that only nodes that changed are looked at again.

use model::Moment;
use scheduler::ids::NodeId;

use super::super::{AutoscalingContext, TO_BE_DELETED};
use super::drainability::{Rules, gone_after};
use super::marks::{is_disabled, marked_at};
use super::utilization::{Ignored, Utilization, gpu_of};

/// Summaries of nodes.
#[derive(Debug, Default)]
pub(super) struct Summaries {
    /// By number.
    nodes: Vec<Option<Summary>>,
}

/// What a node and the pods on it come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    /// It holds for this generation of the node,
    generation: u64,
    /// and up to this moment: then a pod that should be gone does not count any more.
    pub until: Moment,
    /// `None` for a node that does not say how much it has.
    pub utilization: Option<Utilization>,
    /// Nobody has to move, as far as pods tell by themselves.
    pub empty: bool,
    /// It is empty but for pods it has to wait for.
    pub waits: bool,
    /// It has a GPU, or is to have one.
    pub has_gpu: bool,
    /// It asks to be left alone.
    pub disabled: bool,
    /// When it was marked as one that is being deleted.
    pub marked: Option<Moment>,
}

impl Summaries {
    /// Of a node as it is in the snapshot now.
    pub(super) fn get(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        id: NodeId,
        ignored: Ignored,
    ) -> Summary {
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, None);
        }
        let generation = context.cluster.snapshot.trial.generation(id);
        if let Some(known) = self.nodes[id.index()]
            && known.generation == generation
            && !context.clock.is_past(known.until)
        {
            return known;
        }
        let summary = Summary::of(context, id, ignored, generation);
        self.nodes[id.index()] = Some(summary);
        summary
    }
}

// === impl Summary ===

impl Summary {
    fn of(context: &mut AutoscalingContext<'_>, id: NodeId, ignored: Ignored, generation: u64) -> Summary {
        let clock = context.clock;
        let snapshot = &mut context.cluster.snapshot;
        let ids = snapshot.trial.load(id).pods.clone();
        let node = snapshot.node(id).clone();
        let pods: Vec<_> = ids.iter().map(|id| snapshot.pod(*id).clone()).collect();
        let rules = Rules { settings: context.settings, clock, controllers: None, disruptions: None };
        let drain = rules.drain(snapshot, &ids).ok().filter(|drain| drain.pods.is_empty());
        let changes = pods.iter().filter_map(|pod| gone_after(pod)).filter(|moment| !clock.is_past(*moment));
        Summary {
            generation,
            until: changes.min().unwrap_or(Moment::MAX),
            utilization: Utilization::of(
                &node,
                pods.iter().map(|pod| &**pod),
                ignored,
                context.cloud.gpu_label(),
                snapshot.trial.scalars(),
                clock,
            ),
            empty: drain.is_some(),
            waits: drain.is_some_and(|drain| drain.waits),
            has_gpu: gpu_of(&node, context.cloud.gpu_label()).is_some(),
            disabled: is_disabled(&node),
            marked: marked_at(&node, TO_BE_DELETED),
        }
    }
}
