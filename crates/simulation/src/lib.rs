//! A cluster in virtual time: discrete events on one clock.
//!
//! What is [`Given`] happens whatever is decided; the scheduler, the autoscaler and the controllers decide the rest, and
//! an [`Observer`] is told. The same things given, the same settings and the same seed give the same run, byte for byte.
//!
//! [`components`] are the deciding parts by themselves, for whoever keeps the cluster's objects in another place.

mod agenda;
mod cloud;
pub mod components;
mod events;
mod eviction;
mod given;
mod ids;
mod node_edit;
mod observer;
pub mod pace;
mod pod_template;
mod requests;
mod run;
mod setup;
mod store;
#[cfg(test)]
mod tests;
mod timeline;

pub use agenda::{Agenda, Task};
pub use cloud::{CloudChange, SimulatedCloud, made_for, made_ready};
pub use components::{Memory, Remembered};
pub use eviction::LostTo;
pub use given::{Again, Asked, Begun, Demand, Given, Life, Runs, Took};
pub use ids::{DemandId, DemandMark, PodId};
pub use observer::{Decided, Observer};
pub use pod_template::{BadGiven, WITHDRAWN};
pub use requests::Requests;
pub use run::Run;
pub use setup::{AutoscalerSetup, Setup};
