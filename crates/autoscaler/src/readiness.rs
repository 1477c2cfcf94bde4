//! Readiness of nodes, by their conditions, startup taints and GPUs.

use kubernetes::well_known::{NODE_DISK_PRESSURE, NODE_NETWORK_UNAVAILABLE, NODE_NOT_READY};
use model::Moment;
use scheduler::node::Node;

use super::settings::Settings;

/// Whether a node is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub ready: bool,
    /// When readiness last changed.
    pub last_transition: Moment,
    /// It counts as unready because its label names a GPU that is not allocatable yet.
    pub resource_unready: bool,
}

const STARTUP_TAINT_PREFIXES: [&str; 2] =
    ["startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/"];
const STATUS_TAINT_PREFIX: &str = "status-taint.cluster-autoscaler.kubernetes.io/";

impl Readiness {
    /// The readiness that a loop uses: a node with a startup taint or without its GPU counts as unready since its
    /// creation.
    pub(crate) fn of(node: &Node, settings: &Settings, gpu_label: &str) -> Readiness {
        let reported = reported_readiness(node, None);
        if !reported.ready || node.unschedulable {
            return reported;
        }
        let lacks_device = lacks_labeled_gpu(node, gpu_label);
        if lacks_device || node.taints.iter().any(|taint| is_startup_taint(&taint.key, settings)) {
            return Readiness {
                resource_unready: lacks_device,
                ..self::reported_readiness(node, Some(node.creation_timestamp.unwrap_or_default()))
            };
        }
        reported
    }
}

/// Readiness by conditions and taints; with `unready_since`, as if the condition `Ready` were false since then.
fn reported_readiness(node: &Node, unready_since: Option<Moment>) -> Readiness {
    let (mut ready, mut has_ready_condition, mut changed) = (true, false, Moment::MIN);
    for condition in &node.conditions {
        let (is_unready, since) = match (&*condition.kind, unready_since) {
            ("Ready", Some(since)) => (true, Some(since)),
            ("Ready", None) => {
                (matches!(&*condition.status, "False" | "Unknown"), condition.last_transition_time)
            }
            ("DiskPressure" | "NetworkUnavailable", _) => {
                (&*condition.status == "True", condition.last_transition_time)
            }
            _ => continue,
        };
        has_ready_condition |= &*condition.kind == "Ready";
        ready &= !is_unready;
        changed = changed.max(since.unwrap_or(Moment::MIN));
    }
    if !has_ready_condition {
        return Readiness { ready: false, last_transition: Moment::MIN, resource_unready: false };
    }
    for taint in &node.taints {
        if matches!(&*taint.key, NODE_NOT_READY | NODE_DISK_PRESSURE | NODE_NETWORK_UNAVAILABLE) {
            ready = false;
            changed = changed.max(taint.time_added.unwrap_or(Moment::MIN));
        }
    }
    Readiness { ready, last_transition: changed, resource_unready: false }
}

/// Whether a taint is a startup taint.
pub(crate) fn is_startup_taint(key: &str, settings: &Settings) -> bool {
    settings.startup_taints.iter().any(|taint| **taint == *key)
        || STARTUP_TAINT_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || settings.startup_taint_prefixes.iter().any(|prefix| key.starts_with(&**prefix))
}

/// Whether a taint is a status taint, which new nodes do not have.
pub(crate) fn is_status_taint(key: &str, settings: &Settings) -> bool {
    settings.status_taints.iter().any(|taint| **taint == *key) || key.starts_with(STATUS_TAINT_PREFIX)
}

/// Whether a node has the GPU label but no allocatable GPU.
fn lacks_labeled_gpu(node: &Node, gpu_label: &str) -> bool {
    let is_labeled = !gpu_label.is_empty() && node.label(gpu_label).is_some();
    is_labeled && super::gpu_names::allocatable(node).is_none()
}
