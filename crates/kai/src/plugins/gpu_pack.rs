//! Plugin gpupack: fuller shared GPUs first, whole GPUs last.

/// The score of a GPU of which this part is used; `None` for a whole GPU.
pub(crate) fn score(used_portion: Option<f64>) -> f64 {
    used_portion.unwrap_or(0.0)
}
