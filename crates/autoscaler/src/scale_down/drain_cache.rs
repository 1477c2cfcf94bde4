//! The drain of each node by the drainability rules, kept until the rules may have another outcome.

use model::Moment;
use scheduler::ids::{NodeId, PodId};

use super::super::AutoscalingContext;
use super::super::clock::LoopClock;
use super::super::decision::BlockingPodReason;
use super::super::hinting_simulator::{HintId, HintingSimulator};
use super::super::settings::Version;
use super::super::snapshot::ClusterSnapshot;
use super::drainability::{DrainabilityRules, PodsToMove};
use super::node_cache::{Expiring, NodeCache};
use super::pdb_tracker::RemainingPdbTracker;

/// The cache of drains.
#[derive(Debug, Default)]
pub(super) struct DrainCache(NodeCache<PlannedDrain>);

/// The drain of a node. It does not contain how many disruptions remain, which earlier removals of a simulation change.
#[derive(Debug)]
pub(super) struct PlannedDrain {
    /// The revisions of the objects that the rules read.
    revisions: ObjectRevisions,
    /// When a rule about the age of pods may have another outcome.
    valid_until: Moment,
    /// If no PodDisruptionBudget is exhausted.
    pods_to_move: Result<PodsToMove, (PodId, BlockingPodReason)>,
    /// In the order of the pods, those that PodDisruptionBudgets match and that no other rule decides about.
    pdb_pods: Vec<PodId>,
    /// Whether a PodDisruptionBudget matches any of the pods to move.
    has_pdbs: bool,
    /// Where the pods were moved last time.
    pub moves: Option<PlannedMoves>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ObjectRevisions {
    controllers: u64,
    pdbs: u64,
}

/// The nodes that a node's pods were moved to, if they depend only on the node (see `counted_removals`).
#[derive(Debug)]
pub(super) struct PlannedMoves {
    /// They depend only on the node as long as this is the same: no anti-affinity term of other pods matches them.
    pub pre_filter_generation: (u64, u64),
    /// In the order in which the pods are tried.
    pub moves: Vec<PlannedMove>,
}

/// A pod that was moved to its hinted node.
#[derive(Debug)]
pub(super) struct PlannedMove {
    pub pod: PodId,
    pub hint: HintId,
    pub destination: NodeId,
    /// The generation of the destination, without the moved pods, at which all filters accepted the pod.
    pub generation: u64,
}

// === impl DrainCache ===

impl DrainCache {
    /// Takes the drain of a node with its pods of the snapshot out of the cache.
    pub(super) fn take(
        &mut self,
        context: &AutoscalingContext<'_>,
        disruptions: &RemainingPdbTracker,
        node: NodeId,
    ) -> PlannedDrain {
        let cached = self.0.take(context, node);
        let revisions = ObjectRevisions::of(context, disruptions);
        let cached = cached.filter(|drain| drain.revisions == revisions);
        cached.unwrap_or_else(|| {
            PlannedDrain::of(context, disruptions, &context.cluster.snapshot.pods_on(node))
        })
    }

    /// Puts the drain of a node back; `generation` is that of the node when it was taken.
    pub(super) fn put_back(&mut self, node: NodeId, generation: u64, drain: PlannedDrain) {
        self.0.insert(node, generation, drain);
    }
}

// === impl PlannedDrain ===

impl PlannedDrain {
    /// The drain of a node with these pods.
    pub(super) fn of(
        context: &AutoscalingContext<'_>,
        disruptions: &RemainingPdbTracker,
        pods: &[PodId],
    ) -> PlannedDrain {
        let (snapshot, clock) = (&context.cluster.snapshot, LoopClock::at(context.clock.now()));
        let rules = DrainabilityRules {
            settings: context.settings,
            clock: &clock,
            controllers: Some(&*context.cluster),
            disruptions: Some(disruptions),
        };
        let mut pdb_pods = Vec::new();
        let pods_to_move = rules.pods_to_move_with_pdb_rule(snapshot, pods, |id, pod| {
            if disruptions.match_any(pod) {
                pdb_pods.push(id);
            }
            false
        });
        let moved_pods = pods_to_move.as_ref().map_or(&[][..], |drain| &drain.pods);
        let has_pdbs = moved_pods.iter().any(|pod| disruptions.match_any(snapshot.pod(*pod)));
        let valid_until = clock.stable_until().unwrap_or(context.clock.now());
        // The loop's own clock has to know as well.
        context.clock.is_past(valid_until);
        let revisions = ObjectRevisions::of(context, disruptions);
        PlannedDrain { revisions, valid_until, pods_to_move, pdb_pods, has_pdbs, moves: None }
    }

    /// The pods to move, or the pod that blocks the removal and why.
    pub(super) fn pods_to_move(
        &self,
        context: &AutoscalingContext<'_>,
        disruptions: &RemainingPdbTracker,
    ) -> Result<&PodsToMove, (PodId, BlockingPodReason)> {
        let snapshot = &context.cluster.snapshot;
        let mut pdb_pods = self.pdb_pods.iter().copied();
        match pdb_pods.find(|pod| disruptions.are_exhausted_for(snapshot.pod(*pod))) {
            Some(pod) => Err((pod, BlockingPodReason::NotEnoughPdb)),
            None => self.pods_to_move.as_ref().map_err(|blocking| *blocking),
        }
    }

    /// Subtracts the pods to move from the remaining disruptions. Returns whether all of them may be evicted at once.
    pub(super) fn remove_pods(
        &self,
        context: &AutoscalingContext<'_>,
        disruptions: &mut RemainingPdbTracker,
    ) -> bool {
        let moved_pods = self.pods_to_move.iter().filter(|_| self.has_pdbs).flat_map(|drain| &drain.pods);
        disruptions.remove_pods(moved_pods.map(|pod| &**context.cluster.snapshot.pod(*pod)))
    }
}

impl Expiring for PlannedDrain {
    fn valid_until(&self) -> Moment {
        self.valid_until
    }
}

// === impl PlannedMoves ===

impl PlannedMoves {
    /// The hinted nodes of pods that were just scheduled there; `None` if a pod may depend on others later.
    pub(super) fn of(
        snapshot: &mut ClusterSnapshot,
        hinting_simulator: &HintingSimulator,
        version: Version,
        pods: &[PodId],
    ) -> Option<PlannedMoves> {
        if pods.iter().any(|pod| snapshot.filter_snapshot.has_matching_anti_affinity(*pod)) {
            return None;
        }
        let planned_move = |(pod, hint, destination): (PodId, HintId, NodeId)| PlannedMove {
            pod,
            hint,
            destination,
            generation: snapshot.filter_snapshot.generation(destination),
        };
        let hints = hinting_simulator.hints_of(snapshot, version, pods)?;
        Some(PlannedMoves {
            pre_filter_generation: snapshot.filter_snapshot.pre_filter_generation(),
            moves: hints.into_iter().map(planned_move).collect(),
        })
    }
}

// === impl ObjectRevisions ===

impl ObjectRevisions {
    fn of(context: &AutoscalingContext<'_>, disruptions: &RemainingPdbTracker) -> ObjectRevisions {
        ObjectRevisions { controllers: context.cluster.controller_revision(), pdbs: disruptions.revision() }
    }
}
