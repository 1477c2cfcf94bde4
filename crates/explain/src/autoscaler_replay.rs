//! Replays of a history into an autoscaler, which show its decisions about a pod or a node.

mod external_scaling;
mod player;
mod pod_results;

use autoscaler::LoopResult;

pub use self::player::AutoscalerReplay;
pub(crate) use self::player::replay_autoscaler;
pub use self::pod_results::{PodLoopResults, ScaleUpOutcome, ScaleUpSearch, TriggeredScaleUp};

/// Returns why a loop ended early.
pub(crate) fn end_reason(loop_result: &LoopResult) -> String {
    match (&loop_result.error, loop_result.healthy) {
        (Some(error), _) => error.clone(),
        // The loop ended before the scale-up.
        (None, _) if loop_result.scale_ups.is_empty() => {
            "no ready nodes, and --scale-up-from-zero=false".to_owned()
        }
        (None, false) => "too many unready nodes".to_owned(),
        (None, true) => "the target size of a node group is fixed first".to_owned(),
    }
}
