//! Plugin kubeflow: masters and launchers of Kubeflow jobs first.

use crate::cluster::pod::Pod;

const ROLE_LABEL: &str = "training.kubeflow.org/job-role";

/// Whether a pod is a master or a launcher.
pub(crate) fn is_master(pod: &Pod) -> bool {
    matches!(pod.view.label(ROLE_LABEL), Some("master" | "launcher"))
}
