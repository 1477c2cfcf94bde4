//! Nodes, pods and a harness for tests of scale-down.

mod caching;
mod removals;

use testobjects::{NodeBuilder, ObjectBuilder, PodBuilder, resource};

use super::super::groups::NodeGroup;
use super::super::testing::{Harness, group};
use super::*;

pub(super) const START: Moment = Moment::from_nanos(1_767_225_600_000_000_000);

/// With one group, `g`, of that minimum size.
pub(super) fn harness(settings: Settings, min: i64) -> Harness {
    let mut harness = Harness::new(settings, START);
    harness.add_group(NodeGroup { min, ..group("g") }, 0);
    harness
}

/// A ready node of a group, with 2 cores, 2 MB and room for 110 pods.
pub(super) fn node(group: &str, name: &str) -> NodeBuilder {
    testobjects::node(name)
        .provider_id(&format!("fake://{group}/{name}"))
        .capacity("cpu", "2")
        .capacity("memory", "2M")
        .capacity("pods", "110")
        .ready_since("2025-12-31T00:00:00Z")
}

/// A running pod of a ReplicaSet on a node.
pub(super) fn pod(name: &str, node: &str, cpu: &str, memory: &str) -> PodBuilder {
    testobjects::pod(name)
        .created("2025-12-31T00:00:00Z")
        .label("app", "web")
        .owner("ReplicaSet", "web")
        .on(node)
        .request("cpu", cpu)
        .request("memory", memory)
        .phase("Running")
}

pub(super) fn replica_set() -> ObjectBuilder {
    let set = resource("apps/v1", "ReplicaSet", "web").namespace("default");
    set.set("spec.replicas", 3).set("status.replicas", 3)
}

/// One loop's scale-down.
fn scale_down(harness: &mut Harness, down: &mut ScaleDownState, in_cooldown: bool) -> ScaleDownStatus {
    let nodes: Vec<NodeId> = harness.state.cluster.nodes().collect();
    harness.with(|context| {
        context.cluster.snapshot.begin_loop(nodes.clone());
        let in_progress = down.deletions_in_progress();
        let (result, removed) = down.scale_down(context, &nodes, &in_progress, in_cooldown);
        context.cluster.snapshot.end_loop();
        down.report(result, removed)
    })
}
