//! The present state of jobs: their gangs, their pods, and the order in which they are tried.

use std::sync::Arc;

use model::NamespacedName;

use crate::cluster::fit_errors::JobFitError;
use crate::cluster::status::PodStatus;
use crate::cluster::sub_group::SubGroupTree;
use crate::session::Session;
use crate::session::job_order::{JobOrder, JobOrderOptions};
use crate::settings::Action;

/// The present state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState {
    /// Its namespace and name.
    pub name: NamespacedName,
    /// Its pod sets, sorted by name. A job without subgroups has one, called `default`.
    pub pod_sets: Vec<PodSetState>,
    /// Its sets of subgroups, the root first.
    pub sub_group_sets: Vec<SubGroupSetState>,
    /// Why it was not placed.
    pub fit_errors: Vec<JobFitError>,
}

/// A set of pods, of which some are needed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSetState {
    /// Its name.
    pub name: Arc<str>,
    /// The name of its set of subgroups; empty for the root.
    pub parent: Arc<str>,
    /// How many pods are needed together.
    pub min_available: i32,
    /// How many exist.
    pub pods: usize,
    /// How many have a node and are not being deleted.
    pub active_allocated: usize,
    /// The level of the topology that all must be in; empty if there is none.
    pub required_level: Arc<str>,
}

/// A set of subgroups, of which some are needed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubGroupSetState {
    /// Its name; empty for the root.
    pub name: Arc<str>,
    /// How many subgroups have what they need.
    pub satisfied: usize,
    /// How many must have it.
    pub needed: i64,
    /// The level of the topology that all must be in; empty if there is none.
    pub required_level: Arc<str>,
}

/// The present state of a pod of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodState {
    /// Its namespace and name.
    pub pod: NamespacedName,
    /// The name of its job.
    pub job: Arc<str>,
    /// Its status.
    pub status: PodStatus,
    /// Its node.
    pub node: Option<Arc<str>>,
}

impl Session {
    /// The state of the job of that name; `None` if there is none.
    pub fn job_state(&self, name: &str) -> Option<JobState> {
        let cluster = &self.cluster;
        let job = cluster.job_ids().map(|id| cluster.job(id)).find(|job| *job.group.name == *name)?;
        let SubGroupTree { sets, pod_sets } = &job.tree;
        Some(JobState {
            name: NamespacedName { namespace: job.group.namespace.clone(), name: job.group.name.clone() },
            pod_sets: pod_sets
                .iter()
                .map(|pod_set| PodSetState {
                    name: pod_set.name.clone(),
                    parent: sets[pod_set.parent].name.clone(),
                    min_available: pod_set.min_available,
                    pods: pod_set.len(),
                    active_allocated: pod_set.active_allocated(),
                    required_level: pod_set
                        .constraint
                        .as_ref()
                        .map(|constraint| constraint.required_level.clone())
                        .unwrap_or_default(),
                })
                .collect(),
            sub_group_sets: sets
                .iter()
                .enumerate()
                .map(|(index, set)| SubGroupSetState {
                    name: set.name.clone(),
                    satisfied: job.tree.satisfied_members(index),
                    needed: job.tree.needed_members(index),
                    required_level: set
                        .constraint
                        .as_ref()
                        .map(|constraint| constraint.required_level.clone())
                        .unwrap_or_default(),
                })
                .collect(),
            fit_errors: job.fit_errors.clone(),
        })
    }

    /// The states of all pods of jobs, sorted by namespace and name.
    pub fn pod_states(&self) -> Vec<PodState> {
        let cluster = &self.cluster;
        let mut states = Vec::new();
        for job in cluster.job_ids().map(|id| cluster.job(id)) {
            states.extend(job.infos().map(|info| cluster.info(info)).map(|info| {
                let pod = cluster.pod(info.pod);
                let node = info.node.known().map(|node| cluster.node(node).name().clone());
                PodState {
                    pod: pod.view.name.clone(),
                    job: job.group.name.clone(),
                    status: info.status,
                    node: node.or_else(|| pod.view.node_name.clone()),
                }
            }));
        }
        states.sort_unstable_by(|left, right| left.pod.cmp(&right.pod));
        states
    }

    /// The jobs that an action tries to place, in the order in which it would try them if none of them found a place.
    pub fn job_order(&mut self, action: Action) -> Vec<NamespacedName> {
        let mut order = JobOrder::new(JobOrderOptions {
            skips_without_pending: true,
            skips_unready: true,
            max_depth: self.settings.config.queue_depth_per_action.get(action.name()).copied(),
            ..JobOrderOptions::default()
        });
        order.add_jobs(self, self.cluster.job_ids());
        let mut names = Vec::new();
        while let Some(job) = order.pop(self) {
            let group = &self.cluster.job(job).group;
            names.push(NamespacedName { namespace: group.namespace.clone(), name: group.name.clone() });
        }
        names
    }
}
