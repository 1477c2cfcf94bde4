//! The decisions of KAI-Scheduler in one scheduling cycle on a snapshot.
//!
//! [`Snapshot`] takes the scheduler's settings and the objects, [`Session::open`] starts a cycle at a moment,
//! [`Session::run`] runs the configured actions, and [`Session::report`] shows the state before and after.
//!
//! Nothing here reads a clock, a file or a socket, and no result depends on chance or on the iteration order of a hash
//! table. Where the original follows the random order of its maps, things are taken in the order of their names.

mod actions;
mod cluster;
mod decisions;
mod error;
mod fair_share;
mod initial_state;
mod job_state;
mod objects;
mod placement;
mod plugins;
mod report;
mod session;
mod settings;
mod snapshot;
mod solver;
mod statement;

pub use cluster::fit_errors::{FitReason, JobFitError, PodFitErrors, Predicate, Rejection};
pub use cluster::status::PodStatus;
pub use decisions::{ActionDecisions, Commitment, Eviction, GpuGroup, Placement, ReceivedType, SearchCounts};
pub use error::{Error, Result};
pub use initial_state::{Amounts, JobReport};
pub use job_state::{JobState, PodSetState, PodState, SubGroupSetState};
pub use plugins::registry::Plugin;
pub use report::{NodeReport, NodeVerdict, PendingPod, PendingReason, QueueReport, Report, ResourceReport};
pub use session::Session;
pub use settings::{
    Action, NodePool, PluginOption, SchedulerConfiguration, SchedulerParams, SearchBudgets, Settings,
};
pub use snapshot::Snapshot;
