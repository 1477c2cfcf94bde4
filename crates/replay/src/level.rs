//! Who works in a replay, by what is given.

use calibration::Level;
use controllers::Controller;

/// Who works in a run. Budgets follow the pods that there are at either level; where nodes come and go as an autoscaler
/// decides, so do the pods that DaemonSets want on them.
pub fn controllers(level: Level, scales: bool) -> &'static [Controller] {
    match (level, scales) {
        (Level::Workloads, _) => &Controller::ALL,
        (Level::Pods, true) => &[Controller::DaemonSet, Controller::Disruption],
        (Level::Pods, false) => &[Controller::Disruption],
    }
}
