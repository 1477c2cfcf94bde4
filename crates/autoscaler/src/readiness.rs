//! Which nodes are ready, and since when.

use model::Moment;

use super::node::Node;
use super::settings::Settings;

/// Whether a node is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub ready: bool,
    /// When that last changed.
    pub changed: Moment,
    /// It is taken for unready because a device that it should have is not there yet.
    pub lacks_device: bool,
}

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
const STARTUP_PREFIXES: [&str; 2] =
    ["startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/"];
const STATUS_PREFIX: &str = "status-taint.cluster-autoscaler.kubernetes.io/";

impl Readiness {
    /// Of a node as the loop sees it: one that is still starting, or lacks its GPU, counts as unready from the beginning.
    pub(crate) fn of(node: &Node, settings: &Settings, gpu_label: &str) -> Readiness {
        let said = said(node, None);
        if !said.ready || node.unschedulable {
            return said;
        }
        let lacks_device = lacks_gpu(node, gpu_label);
        if lacks_device || node.taints.iter().any(|taint| is_startup(&taint.key, settings)) {
            return Readiness { lacks_device, ..self::said(node, Some(node.created)) };
        }
        said
    }
}

/// What the node says itself; or what it would say if it were not ready, since then.
fn said(node: &Node, unready_since: Option<Moment>) -> Readiness {
    let (mut ready, mut known, mut changed) = (true, false, Moment::MIN);
    for condition in &node.conditions {
        let (bad, since) = match (&*condition.kind, unready_since) {
            ("Ready", Some(since)) => (true, Some(since)),
            ("Ready", None) => (matches!(&*condition.status, "False" | "Unknown"), condition.changed),
            ("DiskPressure" | "NetworkUnavailable", _) => (&*condition.status == "True", condition.changed),
            _ => continue,
        };
        known |= &*condition.kind == "Ready";
        ready &= !bad;
        changed = changed.max(since.unwrap_or(Moment::MIN));
    }
    if !known {
        return Readiness { ready: false, changed: Moment::MIN, lacks_device: false };
    }
    for taint in &node.taints {
        if matches!(&*taint.key, NOT_READY | DISK_PRESSURE | NETWORK_UNAVAILABLE) {
            ready = false;
            changed = changed.max(taint.added.unwrap_or(Moment::MIN));
        }
    }
    Readiness { ready, changed, lacks_device: false }
}

/// Whether a taint says that a node is still starting.
pub(crate) fn is_startup(key: &str, settings: &Settings) -> bool {
    settings.startup_taints.iter().any(|taint| **taint == *key)
        || STARTUP_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || settings.startup_taint_prefixes.iter().any(|prefix| key.starts_with(&**prefix))
}

/// Whether a taint says something of the node's state that new nodes will not share.
pub(crate) fn is_status(key: &str, settings: &Settings) -> bool {
    settings.status_taints.iter().any(|taint| **taint == *key) || key.starts_with(STATUS_PREFIX)
}

/// Whether a node's label promises a GPU that is not there.
fn lacks_gpu(node: &Node, gpu_label: &str) -> bool {
    let promised = !gpu_label.is_empty() && node.label(gpu_label).is_some();
    promised && super::gpu_names::allocatable(node).is_none()
}
