//! The set of components that run, and the tasks that they set themselves for later.

use std::str::FromStr;
use std::sync::Arc;

use model::{Moment, NamespacedName};
use simulation::Task;

use crate::stage::{Stage, StagedKind};

/// The components of a cluster that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentSet {
    /// kube-scheduler.
    pub scheduler: bool,
    /// A kubelet on every node: pods run, become ready, and end.
    pub kubelet: bool,
    /// The garbage collector.
    pub garbage_collection: bool,
    /// Binding and provisioning of PersistentVolumes.
    pub volumes: bool,
    /// The controllers of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs and
    /// PodDisruptionBudgets.
    pub workloads: bool,
    /// cluster-autoscaler, which needs [node groups](super::ControlPlaneSettings::autoscaler).
    pub autoscaler: bool,
}

/// Work for later.
#[derive(Debug)]
pub(super) enum ClusterTask {
    /// The containers of a pod start.
    StartPod(PodRef),
    /// The containers of a pod exit.
    FinishPod(PodRef),
    /// A pod has been active for as long as it may be.
    EndActivePod(PodRef),
    /// A terminating pod is removed.
    RemovePod(PodRef),
    /// Pods of a node that does not exist are deleted.
    CollectPods(Arc<str>),
    /// A pod's toleration of a taint ends at this moment.
    EvictByTaint(PodRef, Moment),
    /// The Lease of a node is renewed.
    RenewLease(Arc<str>),
    /// An object has waited for a stage.
    PlayStage(Box<StagePlay>),
}

/// A pod that may have been replaced by another one of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodRef {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
}

/// A stage that an object awaits.
#[derive(Debug)]
pub(super) struct StagePlay {
    pub(super) kind: StagedKind,
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) stage: Arc<Stage>,
    /// An object awaits only its last play.
    pub(super) number: u64,
    /// Whether the stage has no delay.
    pub(super) is_immediate: bool,
}

/// A text that is not a set of components.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidComponents {
    /// A component that does not exist.
    #[error("unknown component {0:?}: expected scheduler, kubelet, gc, pv, workloads, autoscaler, or none")]
    Unknown(String),
    /// `none`, and components.
    #[error("none cannot be combined with components: {0:?}")]
    NoneAndOthers(String),
}

// === impl ComponentSet ===

impl Default for ComponentSet {
    fn default() -> ComponentSet {
        ComponentSet {
            scheduler: true,
            kubelet: true,
            garbage_collection: true,
            volumes: true,
            workloads: false,
            autoscaler: false,
        }
    }
}

impl ComponentSet {
    /// No component.
    pub const NONE: ComponentSet = ComponentSet {
        scheduler: false,
        kubelet: false,
        garbage_collection: false,
        volumes: false,
        workloads: false,
        autoscaler: false,
    };

    /// The names that ComponentStatuses have for them.
    pub(crate) fn status_names(&self) -> Vec<&'static str> {
        let manages = self.garbage_collection || self.volumes || self.workloads;
        let names = [(self.scheduler, "scheduler"), (manages, "controller-manager")];
        names.into_iter().filter(|(runs, _)| *runs).map(|(_, name)| name).collect()
    }
}

impl FromStr for ComponentSet {
    type Err = InvalidComponents;

    /// Parses a list of names, separated by commas.
    fn from_str(text: &str) -> Result<ComponentSet, InvalidComponents> {
        let mut set = ComponentSet::NONE;
        let mut is_none = false;
        for name in text.split(',').map(str::trim) {
            match name {
                "scheduler" => set.scheduler = true,
                "kubelet" => set.kubelet = true,
                "gc" => set.garbage_collection = true,
                "pv" => set.volumes = true,
                "workloads" => set.workloads = true,
                "autoscaler" => set.autoscaler = true,
                "none" => is_none = true,
                other => return Err(InvalidComponents::Unknown(other.to_owned())),
            }
        }
        if is_none && set != ComponentSet::NONE {
            return Err(InvalidComponents::NoneAndOthers(text.to_owned()));
        }
        Ok(set)
    }
}

// === impl StagePlay ===

impl StagePlay {
    pub(super) fn is_of_pod(&self) -> bool {
        self.kind == StagedKind::Pod
    }
}

impl Task for ClusterTask {
    fn finishes_soon(&self) -> bool {
        match self {
            ClusterTask::CollectPods(_) | ClusterTask::EvictByTaint(..) | ClusterTask::EndActivePod(_) => {
                false
            }
            // Heartbeats of nodes never end.
            ClusterTask::RenewLease(_) => false,
            ClusterTask::PlayStage(play) => play.is_of_pod(),
            ClusterTask::StartPod(_) | ClusterTask::FinishPod(_) | ClusterTask::RemovePod(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_named_or_none() {
        let gc = ComponentSet { garbage_collection: true, ..ComponentSet::NONE };
        for (text, expected) in [
            ("none", Ok(ComponentSet::NONE)),
            ("gc", Ok(gc.clone())),
            (" gc, gc", Ok(gc)),
            ("gc,none", Err(InvalidComponents::NoneAndOthers("gc,none".to_owned()))),
            ("none,scheduler", Err(InvalidComponents::NoneAndOthers("none,scheduler".to_owned()))),
            ("gc,cloud", Err(InvalidComponents::Unknown("cloud".to_owned()))),
            ("", Err(InvalidComponents::Unknown(String::new()))),
        ] {
            assert_eq!(text.parse::<ComponentSet>(), expected, "{text}");
        }
    }
}
