//! The heartbeats of nodes: every kubelet renews the Lease of its node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apiserver::UpdatedPart;
use kubernetes::time::{after, micro_time};
use model::{Kind, NamespacedName};
use serde_json::{Value, json};

use super::ComponentContext;
use super::tasks::ClusterTask;

/// The Leases of all nodes.
pub(super) struct NodeLeases {
    /// On a virtual clock nobody waits for heartbeats, and they would keep a day from being skipped.
    is_enabled: bool,
    /// Nodes with a renewal in the agenda.
    renewed: BTreeSet<Arc<str>>,
}

/// The namespace of the Leases.
const NAMESPACE: &str = "kube-node-lease";
/// As the kubelet's default configuration has it: `nodeLeaseDurationSeconds`, of which it renews after a quarter.
const LEASE_DURATION: Duration = Duration::from_secs(40);
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

// === impl NodeLeases ===

impl NodeLeases {
    pub(super) fn new(is_enabled: bool) -> NodeLeases {
        NodeLeases { is_enabled, renewed: BTreeSet::new() }
    }

    /// A node exists: its Lease is renewed from now on.
    pub(super) fn observe_node(&mut self, context: &mut ComponentContext<'_>, node: &Arc<str>) {
        if self.is_enabled && self.renewed.insert(node.clone()) {
            context.agenda.put(context.now, ClusterTask::RenewLease(node.clone()));
        }
    }

    /// Renews the Lease of a node, if that still exists.
    pub(super) fn renew(&mut self, context: &mut ComponentContext<'_>, node: Arc<str>) {
        let key = NamespacedName::new("", node.clone());
        let Some(object) = context.registry.get(&Kind::new("", "Node"), &key) else {
            self.renewed.remove(&node);
            return;
        };
        let renew_time = micro_time(context.now);
        let kind = Kind::new("coordination.k8s.io", "Lease");
        let name = NamespacedName::new(NAMESPACE, node.clone());
        if context.registry.get(&kind, &name).is_some() {
            // Whoever deleted it meanwhile gets a new one at the next renewal.
            let _ = context.registry.update_object(&kind, &name, UpdatedPart::Object, |lease: &mut Value| {
                lease["spec"]["renewTime"] = renew_time.as_str().into();
                true
            });
        } else {
            // The namespace may be missing, in a cluster that was loaded.
            let _ = context.registry.create_object(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "name": *node, "namespace": NAMESPACE,
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Node", "name": *node, "uid": object.meta().uid.as_deref()},
                    ],
                },
                "spec": {
                    "holderIdentity": *node, "leaseDurationSeconds": LEASE_DURATION.as_secs(),
                    "renewTime": renew_time,
                },
            }));
        }
        context.agenda.put(after(context.now, RENEW_INTERVAL), ClusterTask::RenewLease(node));
    }
}
