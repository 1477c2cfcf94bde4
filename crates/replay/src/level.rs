//! The controllers that are part of a replay, by replay level.

use calibration::ReplayLevel;
use controllers::Controller;

/// Returns the controllers of a replay. PodDisruptionBudgets follow the existing pods at either level; if an autoscaler
/// adds and removes nodes, DaemonSets create their pods on them.
pub fn controllers(level: ReplayLevel, replay_has_autoscaler: bool) -> &'static [Controller] {
    match (level, replay_has_autoscaler) {
        (ReplayLevel::Workloads, _) => &Controller::ALL,
        (ReplayLevel::Pods, true) => &[Controller::DaemonSet, Controller::Disruption],
        (ReplayLevel::Pods, false) => &[Controller::Disruption],
    }
}
