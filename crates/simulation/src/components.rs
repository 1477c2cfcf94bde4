//! Components of a control plane in virtual time: the scheduler's, the autoscaler's and the controllers' loops, and
//! taint eviction.
//!
//! A component receives informer events, names the moment at which it has work to do, and returns its decisions. It
//! owns no objects: the owner of the cluster's objects, a [`Run`](crate::Run) or an API server, carries decisions out
//! and sends the resulting events to every component.

mod autoscaler_loop;
mod controller_loop;
mod scheduler_loop;
mod taint_eviction;

pub use autoscaler_loop::AutoscalerLoop;
pub use controller_loop::{ControllerLoop, PodRecord, RecordedPodSource};
pub use scheduler_loop::{Preemption, SchedulerLoop};
pub use taint_eviction::TaintEviction;
