//! Components of a control plane in virtual time: the scheduler's, the autoscaler's and the controllers' loops, and
//! taint eviction.
//!
//! A component is told what happens, says when it has something to do, and returns what it decided. It owns no objects:
//! whoever keeps the cluster's objects, a [`Run`](crate::Run) or an API server, carries decisions out and tells every
//! component what came of them.

mod autoscaler_loop;
mod controller_loop;
mod scheduler_loop;
mod taint_eviction;

pub use autoscaler_loop::{AutoscalerLoop, ObservedPod, PodNews};
pub use controller_loop::{ControllerLoop, Memory, Remembered};
pub use scheduler_loop::{Preemption, SchedulerLoop};
pub use taint_eviction::TaintEviction;
pub(crate) use taint_eviction::taints_of;
