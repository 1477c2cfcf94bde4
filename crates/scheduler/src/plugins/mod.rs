//! kube-scheduler's plugins, one per file, each with its `REGISTRATION`.
//!
//! `pre_filter` evaluates the pod and returns the plugin's state, with which `filter` and `score` evaluate nodes. No
//! state means that the plugin skips the pod.

pub(super) mod default_binder;
pub(super) mod default_preemption;
pub(super) mod dynamic_resources;
pub(super) mod image_locality;
pub(super) mod inter_pod_affinity;
pub(super) mod node_affinity;
pub(super) mod node_declared_features;
pub(super) mod node_name;
pub(super) mod node_ports;
pub(super) mod node_resources_balanced_allocation;
pub(super) mod node_resources_fit;
pub(super) mod node_unschedulable;
pub(super) mod node_volume_limits;
pub(super) mod pod_topology_spread;
pub(super) mod priority_sort;
mod registration;
mod registry;
pub(super) mod scheduling_gates;
pub(super) mod taint_toleration;
pub(super) mod unreadable;
pub(super) mod volume_binding;
pub(super) mod volume_context;
pub(super) mod volume_restrictions;
#[cfg(test)]
mod volume_vectors;
pub(super) mod volume_zone;
