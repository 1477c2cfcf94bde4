//! What a survey of the recording found out.

use crate::causes::Causes;
use crate::figures::Figures;
use crate::recorded::Curve;

/// The demands behind the recorded pods, and what the recording came to.
pub struct SurveyResult {
    /// What was given.
    pub causes: Causes,
    /// What happened.
    pub figures: Figures,
    /// How many nodes there were.
    pub curve: Curve,
}
