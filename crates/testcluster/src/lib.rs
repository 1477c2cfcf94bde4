//! The real Kubernetes programs, built and started for tests and benchmarks, and a proxy that injects planned faults.
//!
//! The programs are built from their Go modules once and kept in the user's cache folder. Without Go, tests that need
//! them print "skipped: no go".

mod cluster;
mod components;
mod credentials;
mod error;
mod http;
mod kubeconfig;
mod kubectl;
mod process;
mod programs;
mod proxy;

pub use cluster::{Cluster, ClusterOptions};
pub use components::Components;
pub use error::{Error, Result};
pub use kubectl::Kubectl;
pub use programs::{Program, build, build_module};
pub use proxy::plan::{ErrorResponse, FaultKind, FaultPlan, PlannedFault, RequestKind, WatchFault};
pub use proxy::{InjectedFault, Proxy};
