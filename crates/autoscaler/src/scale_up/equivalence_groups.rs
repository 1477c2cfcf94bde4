//! Pod equivalence groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::NamespacedName;
use rustc_hash::FxHashMap;
use scheduler::ids::PodId;

use super::super::cloud::GroupId;
use super::super::decision::NoScaleUpInfo;
use super::super::pod_summary::ControllerNumber;
use super::super::snapshot::ClusterSnapshot;

/// Reasons by node group name.
pub(super) type ReasonsByGroup = BTreeMap<Arc<str>, Vec<String>>;

/// Pods of one controller that are equivalent for scheduling.
#[derive(Debug)]
pub(super) struct PodEquivalenceGroup {
    pub pods: Vec<PodId>,
    pub names: Arc<[NamespacedName]>,
    /// Whether all of them share one scheduling spec and have the same requests.
    pub is_uniform: bool,
    /// Whether they fit on a new node of some node group.
    pub is_schedulable: bool,
    /// The node groups on whose new nodes they fit.
    pub schedulable_groups: Vec<GroupId>,
    /// The reasons of the other node groups.
    pub scheduling_errors: Arc<ReasonsByGroup>,
}

/// The maximum number of equivalence groups per controller: further pods become groups of one.
const MAX_GROUPS_PER_CONTROLLER: usize = 10;

impl PodEquivalenceGroup {
    /// Groups pods by equivalence, in the order of their first pods.
    pub(super) fn build_groups(snapshot: &ClusterSnapshot, pods: &[PodId]) -> Vec<PodEquivalenceGroup> {
        let mut groups: Vec<Vec<PodId>> = Vec::new();
        let mut of_controller: FxHashMap<ControllerNumber, Vec<usize>> = FxHashMap::default();
        for &id in pods {
            let (pod, summary) = (snapshot.pod(id), snapshot.pod_summary(id));
            let controller = summary.controller.filter(|_| !summary.is_daemon_set_pod);
            if let Some(controller) = controller {
                let controller_groups = of_controller.entry(controller).or_default();
                let existing =
                    controller_groups.iter().find(|group| pod.is_similar(snapshot.pod(groups[**group][0])));
                if let Some(group) = existing {
                    groups[*group].push(id);
                    continue;
                }
                if controller_groups.len() < MAX_GROUPS_PER_CONTROLLER {
                    controller_groups.push(groups.len());
                }
            }
            groups.push(vec![id]);
        }
        groups.into_iter().map(|pods| PodEquivalenceGroup::of(snapshot, pods)).collect()
    }

    pub(super) fn of(snapshot: &ClusterSnapshot, pods: Vec<PodId>) -> PodEquivalenceGroup {
        let first = snapshot.filter_snapshot.pod(pods[0]);
        let is_uniform = pods.iter().all(|id| {
            let pod = snapshot.filter_snapshot.pod(*id);
            Arc::ptr_eq(&pod.spec, &first.spec)
                && pod.usage == first.usage
                && snapshot.filter_snapshot.have_same_labels(*id, pods[0])
                && pod.volumes.is_none()
                && pod.read_error.is_none()
        });
        PodEquivalenceGroup {
            names: pods.iter().map(|id| snapshot.pod(*id).name.clone()).collect(),
            pods,
            is_uniform,
            is_schedulable: false,
            schedulable_groups: Vec::new(),
            scheduling_errors: Arc::default(),
        }
    }

    /// Records why they do not fit on a new node of a node group.
    pub(super) fn add_scheduling_errors(&mut self, group: &Arc<str>, reasons: Vec<String>) {
        Arc::make_mut(&mut self.scheduling_errors).insert(group.clone(), reasons);
    }

    /// Turns lost node groups into rejecting ones. Without any other node group the pods become unschedulable.
    pub(super) fn mark_unschedulable(
        &mut self,
        lost: impl Fn(GroupId) -> bool,
        name: impl Fn(GroupId) -> Arc<str>,
        reason: &str,
    ) {
        if !self.is_schedulable || self.schedulable_groups.is_empty() {
            return;
        }
        for group in self.schedulable_groups.clone() {
            if lost(group) {
                self.add_scheduling_errors(&name(group), vec![reason.to_owned()]);
            }
        }
        self.is_schedulable = !self.schedulable_groups.iter().all(|group| lost(*group));
    }

    /// The reasons for each of its pods, which remain unschedulable.
    pub(super) fn no_scale_up_infos(
        &self,
        skipped: Arc<ReasonsByGroup>,
    ) -> impl Iterator<Item = NoScaleUpInfo> {
        self.names.iter().map(move |pod| NoScaleUpInfo {
            pod: pod.clone(),
            rejected_groups: self.scheduling_errors.clone(),
            skipped_groups: skipped.clone(),
        })
    }
}
