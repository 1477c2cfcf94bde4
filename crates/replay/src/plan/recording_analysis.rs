//! The result of analyzing a recording.

use crate::demands::RecordedDemands;
use crate::metrics::ClusterMetrics;
use crate::recording_metrics::NodeCountCurve;

/// The demands and metrics of a recording.
pub struct RecordingAnalysis {
    /// The demands behind the recorded pods.
    pub demands: RecordedDemands,
    /// The metrics of the recording.
    pub metrics: ClusterMetrics,
    /// The number of nodes over time.
    pub node_counts: NodeCountCurve,
}
