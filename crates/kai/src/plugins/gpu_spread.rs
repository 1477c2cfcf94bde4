//! Plugin gpuspread: whole GPUs first, fuller shared GPUs last.

/// The score of a GPU of which this part is used; `None` for a whole GPU.
pub(crate) fn score(used_portion: Option<f64>) -> f64 {
    used_portion.map_or(1.0, |portion| 1.0 - portion)
}
