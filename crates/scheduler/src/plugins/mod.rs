//! kube-scheduler's plugins, one a file. Each says what it is in its `REGISTRATION`.
//!
//! Each looks at a pod first (`pre_filter`), and with what it found there at nodes (`filter`, `score`). Nothing found
//! means that the plugin has nothing to say of the pod on any node.

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
pub(super) mod volume_restrictions;
#[cfg(test)]
mod volume_vectors;
pub(super) mod volume_view;
pub(super) mod volume_zone;
