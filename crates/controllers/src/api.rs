//! The objects that controllers read and write, as far as they look at them: what each is to be (`…Spec`) and what it is
//! (`…Status`).

mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod job;
mod replica_set;
mod stateful_set;

pub(crate) use cron_job::{Active, CronJobSpec, CronJobStatus};
pub(crate) use daemon_set::{DaemonSetSpec, DaemonSetStatus};
pub(crate) use deployment::{DeploymentSpec, DeploymentStatus};
pub(crate) use disruption::{BudgetSpec, BudgetStatus};
pub(crate) use job::{JobSpec, JobStatus, Uncounted};
pub(crate) use replica_set::{ReplicaSetSpec, ReplicaSetStatus, ReplicationControllerSpec};
pub(crate) use stateful_set::{StatefulSetSpec, StatefulSetStatus};
