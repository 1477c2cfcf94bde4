//! What is known of one node, for those who ask between loops.

use model::{Moment, NamespacedName};
use scheduler::ids::NodeId;

use super::super::clock::Clock;
use super::super::cluster::Cluster;
use super::super::decision::BlockingReason;
use super::super::settings::Settings;
use super::super::view::Used;
use super::Down;
use super::disruptions::Disruptions;
use super::drainability::Rules;
use super::utilization::{Ignored, Utilization, gpu_of};

impl Down {
    /// How much of a node is used, and whether it is its GPUs that count.
    pub(crate) fn used(
        &self,
        settings: &Settings,
        cluster: &mut Cluster,
        id: NodeId,
        without_daemon_sets: bool,
        gpu_label: &str,
        clock: &Clock,
    ) -> (Option<Used>, bool) {
        let snapshot = &mut cluster.snapshot;
        let node = snapshot.node(id).clone();
        let pods: Vec<_> = snapshot.pods_on(id).into_iter().map(|pod| snapshot.pod(pod).clone()).collect();
        let ignored =
            Ignored { daemon_sets: without_daemon_sets, mirrors: settings.ignore_mirror_pods_utilization };
        let pods = pods.iter().map(|pod| &**pod);
        let used = Utilization::of(&node, pods, ignored, gpu_label, snapshot.trial.scalars(), clock);
        let used = used.map(|used| Used {
            cpu: used.cpu,
            memory: used.memory,
            gpu: used.gpu,
            resource: used.resource,
            highest: used.highest,
        });
        (used, gpu_of(&node, gpu_label).is_some())
    }

    /// The pods that have to leave a node, or the one that stands in the way.
    pub(crate) fn leaving(
        &self,
        settings: &Settings,
        cluster: &Cluster,
        id: NodeId,
        clock: &Clock,
    ) -> Result<Vec<NamespacedName>, (NamespacedName, BlockingReason)> {
        let disruptions = Disruptions::of(cluster);
        let rules = Rules { settings, clock, controllers: Some(cluster), disruptions: Some(&disruptions) };
        let snapshot = &cluster.snapshot;
        let name = |pod| snapshot.pod(pod).name.clone();
        match rules.drain(snapshot, &snapshot.pods_on(id)) {
            Ok(drain) => Ok(drain.pods.into_iter().map(name).collect()),
            Err((pod, why)) => Err((name(pod), why)),
        }
    }

    /// When a node whose removal was tried in vain is tried again.
    pub(crate) fn not_again_before(&self, name: &str, clock: &Clock) -> Option<Moment> {
        self.planner.recent.get(name).copied().filter(|until| !clock.has_come(*until))
    }
}
