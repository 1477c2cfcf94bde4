//! The specs and statuses of the kinds that controllers sync, as far as controllers use them.

mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod job;
mod replica_set;
mod stateful_set;

pub(crate) use cron_job::{CronJobSpec, CronJobStatus, ObjectReference};
pub(crate) use daemon_set::{DaemonSetSpec, DaemonSetStatus};
pub(crate) use deployment::{DeploymentSpec, DeploymentStatus};
pub(crate) use disruption::{PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
pub(crate) use job::{JobSpec, JobStatus, UncountedTerminatedPods};
pub(crate) use replica_set::{ReplicaSetSpec, ReplicaSetStatus, ReplicationControllerSpec};
pub(crate) use stateful_set::{StatefulSetSpec, StatefulSetStatus};
