//! What a survey of the recording found out.

use crate::causes::Causes;
use crate::figures::Figures;
use crate::recorded::Curve;

/// What stands behind it, and what it came to.
pub struct Known {
    /// What was given.
    pub causes: Causes,
    /// What happened.
    pub figures: Figures,
    /// How many nodes there were.
    pub curve: Curve,
}
