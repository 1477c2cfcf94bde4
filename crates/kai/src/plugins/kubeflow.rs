//! Plugin kubeflow: masters and launchers of Kubeflow jobs first.

use std::cmp::Ordering;

use crate::cluster::pod::Pod;

const ROLE_LABEL: &str = "training.kubeflow.org/job-role";

pub(crate) fn compare_pods(left: &Pod, right: &Pod) -> Ordering {
    let is_master = |pod: &Pod| matches!(pod.view.label(ROLE_LABEL), Some("master" | "launcher"));
    is_master(right).cmp(&is_master(left))
}
