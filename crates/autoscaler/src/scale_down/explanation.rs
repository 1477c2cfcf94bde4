//! Scale-down details of one node, for explanations.

use model::{Moment, NamespacedName};
use scheduler::ids::NodeId;

use super::super::clock::LoopClock;
use super::super::decision::BlockingPodReason;
use super::super::explanation::UtilizationInfo;
use super::super::informer_cache::InformerCache;
use super::super::settings::Settings;
use super::ScaleDownState;
use super::drainability::DrainabilityRules;
use super::pdb_tracker::RemainingPdbTracker;
use super::utilization::{IgnoredPods, Utilization, gpu_resource};

impl ScaleDownState {
    /// The utilization of a node, and whether it is that of GPUs.
    pub(crate) fn utilization(
        &self,
        settings: &Settings,
        cluster: &mut InformerCache,
        id: NodeId,
        without_daemon_sets: bool,
        gpu_label: &str,
        clock: &LoopClock,
    ) -> (Option<UtilizationInfo>, bool) {
        let snapshot = &mut cluster.snapshot;
        let node = snapshot.node(id).clone();
        let pods: Vec<_> = snapshot.pods_on(id).into_iter().map(|pod| snapshot.pod(pod).clone()).collect();
        let ignored = IgnoredPods {
            daemon_set_pods: without_daemon_sets,
            mirror_pods: settings.ignore_mirror_pods_utilization,
        };
        let pods = pods.iter().map(|pod| &**pod);
        let utilization =
            Utilization::of(&node, pods, ignored, gpu_label, snapshot.filter_snapshot.scalars(), clock);
        let utilization = utilization.map(|utilization| UtilizationInfo {
            cpu: utilization.cpu,
            memory: utilization.memory,
            gpu: utilization.gpu,
            resource: utilization.resource,
            highest: utilization.highest,
        });
        (utilization, gpu_resource(&node, gpu_label).is_some())
    }

    /// The pods to move from a node, or the pod that blocks its removal.
    pub(crate) fn pods_to_move(
        &self,
        settings: &Settings,
        cluster: &InformerCache,
        id: NodeId,
        clock: &LoopClock,
    ) -> Result<Vec<NamespacedName>, (NamespacedName, BlockingPodReason)> {
        let disruptions = RemainingPdbTracker::of(cluster);
        let rules = DrainabilityRules {
            settings,
            clock,
            controllers: Some(cluster),
            disruptions: Some(&disruptions),
        };
        let snapshot = &cluster.snapshot;
        let name = |pod| snapshot.pod(pod).name.clone();
        match rules.pods_to_move(snapshot, &snapshot.pods_on(id)) {
            Ok(drain) => Ok(drain.pods.into_iter().map(name).collect()),
            Err((pod, reason)) => Err((name(pod), reason)),
        }
    }

    /// Until when a node is skipped as recently unremovable.
    pub(crate) fn unremovable_until(&self, name: &str, clock: &LoopClock) -> Option<Moment> {
        self.planner.recently_unremovable.get(name).copied().filter(|until| !clock.has_reached(*until))
    }
}
