//! Statistics of repeated measurements.

/// Values in rising order; there is at least one.
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// # Panics
    /// If there is no value.
    pub(crate) fn new(mut values: Vec<f64>) -> Samples {
        assert!(!values.is_empty(), "nothing was measured");
        values.sort_unstable_by(f64::total_cmp);
        Samples(values)
    }

    /// The smallest value that at least `percent` percent of all values do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank.min(self.0.len()) - 1]
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    pub(crate) fn min(&self) -> f64 {
        self.percentile(0)
    }

    pub(crate) fn max(&self) -> f64 {
        self.percentile(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let samples = Samples::new((1..=200).rev().map(f64::from).collect());
        assert_eq!((samples.min(), samples.median(), samples.max()), (1.0, 100.0, 200.0));
        assert_eq!(samples.percentile(99), 198.0);
        let one = Samples::new(vec![7.0]);
        assert_eq!((one.min(), one.percentile(99), one.max()), (7.0, 7.0, 7.0));
    }
}
