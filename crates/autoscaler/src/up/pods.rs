//! Pods that are the same to a scheduler, looked at together.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::NamespacedName;
use rustc_hash::FxHashMap;
use scheduler::ids::PodId;

use super::super::cloud::GroupId;
use super::super::decision::Remaining;
use super::super::snapshot::Snapshot;

/// Words by the name of a node group.
pub(super) type Reasons = BTreeMap<Arc<str>, Vec<String>>;

/// Pods of one controller that differ in nothing a scheduler looks at.
#[derive(Debug)]
pub(super) struct PodGroup {
    pub pods: Vec<PodId>,
    pub names: Arc<[NamespacedName]>,
    /// Whether all of them have one shape and take the same of a node.
    pub is_uniform: bool,
    /// Whether a new node of some group would take them.
    pub is_schedulable: bool,
    /// The groups whose new node would.
    pub takers: Vec<GroupId>,
    /// What the others say.
    pub rejected: Arc<Reasons>,
}

/// A controller whose pods are all different does not get more groups than this: further ones are on their own.
const GROUPS_PER_CONTROLLER: usize = 10;

impl PodGroup {
    /// Pods by what they have in common, in the order of the first ones.
    pub(super) fn all(snapshot: &Snapshot, pods: &[PodId]) -> Vec<PodGroup> {
        let mut groups: Vec<Vec<PodId>> = Vec::new();
        let mut of_controller: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        for &id in pods {
            let pod = snapshot.pod(id);
            let controller = pod.controller.as_ref().filter(|_| !pod.is_of_daemon_set());
            if let Some(controller) = controller {
                let known = of_controller.entry(&controller.uid).or_default();
                let found = known.iter().find(|group| pod.is_similar(snapshot.pod(groups[**group][0])));
                if let Some(group) = found {
                    groups[*group].push(id);
                    continue;
                }
                if known.len() < GROUPS_PER_CONTROLLER {
                    known.push(groups.len());
                }
            }
            groups.push(vec![id]);
        }
        groups.into_iter().map(|pods| PodGroup::of(snapshot, pods)).collect()
    }

    pub(super) fn of(snapshot: &Snapshot, pods: Vec<PodId>) -> PodGroup {
        let first = snapshot.trial.pod(pods[0]);
        let is_uniform = pods.iter().all(|id| {
            let pod = snapshot.trial.pod(*id);
            Arc::ptr_eq(&pod.shape, &first.shape)
                && pod.usage == first.usage
                && pod.labels == first.labels
                && pod.volumes.is_none()
                && pod.trouble.is_none()
        });
        PodGroup {
            names: pods.iter().map(|id| snapshot.pod(*id).name.clone()).collect(),
            pods,
            is_uniform,
            is_schedulable: false,
            takers: Vec::new(),
            rejected: Arc::default(),
        }
    }

    /// A new node of a group would not take them.
    pub(super) fn reject(&mut self, group: &Arc<str>, reasons: Vec<String>) {
        Arc::make_mut(&mut self.rejected).insert(group.clone(), reasons);
    }

    /// The groups that would take them cannot, if they are among these. If none is left, nothing helps the pods.
    pub(super) fn lose(
        &mut self,
        lost: impl Fn(GroupId) -> bool,
        name: impl Fn(GroupId) -> Arc<str>,
        why: &str,
    ) {
        if !self.is_schedulable || self.takers.is_empty() {
            return;
        }
        for group in self.takers.clone() {
            if lost(group) {
                self.reject(&name(group), vec![why.to_owned()]);
            }
        }
        self.is_schedulable = !self.takers.iter().all(|group| lost(*group));
    }

    /// What is said of its pods, for which nothing can be done.
    pub(super) fn remaining(&self, skipped: Arc<Reasons>) -> impl Iterator<Item = Remaining> {
        self.names.iter().map(move |pod| Remaining {
            pod: pod.clone(),
            rejected: self.rejected.clone(),
            skipped: skipped.clone(),
        })
    }
}
