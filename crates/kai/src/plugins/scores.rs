//! The scales of scores.

/// Packing: from zero to this.
pub(crate) const MAX_HIGH_DENSITY: f64 = 9.0;
/// A node of the right type.
pub(crate) const RESOURCE_TYPE: f64 = 10.0;
/// A node with idle resources.
pub(crate) const AVAILABILITY: f64 = 1e3;
/// A node with a shared GPU that has room.
pub(crate) const GPU_SHARING: f64 = 1e4;
/// The unit of topology scores.
pub(crate) const TOPOLOGY: f64 = 1e5;
/// The unit of kube-scheduler's scores.
pub(crate) const K8S_PLUGINS: f64 = 1e6;
/// The nominated node.
pub(crate) const NOMINATED_NODE: f64 = 1e7;
