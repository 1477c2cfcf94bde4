//! A bounded random sample of measurements for each kind of latency.

use std::collections::BTreeMap;
use std::time::Duration;

use autoscaler::Delay;
use model::Moment;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use simulation::latency::{Latencies, LatencyKind};

#[derive(Debug)]
pub(super) struct LatencySamples {
    by_kind: BTreeMap<LatencyKind, Reservoir>,
    rng: Pcg64,
}

/// A reservoir sample: each measurement is kept with equal probability.
#[derive(Debug, Default)]
struct Reservoir {
    samples: Vec<(Moment, Duration)>,
    total: u64,
}

/// The number of measurements kept of each kind.
const RESERVOIR_SIZE: usize = 4096;

impl LatencySamples {
    pub(super) fn new(seed: u64) -> LatencySamples {
        LatencySamples { by_kind: BTreeMap::new(), rng: Pcg64::seed_from_u64(seed) }
    }

    /// Adds a measurement.
    pub(super) fn add(&mut self, latency_kind: LatencyKind, began: Moment, duration: Duration) {
        let Reservoir { samples, total } = self.by_kind.entry(latency_kind).or_default();
        *total += 1;
        if samples.len() < RESERVOIR_SIZE {
            samples.push((began, duration));
        } else if let Ok(index) = usize::try_from(self.rng.random_range(0..*total))
            && index < RESERVOIR_SIZE
        {
            samples[index] = (began, duration);
        }
    }

    pub(super) fn into_latencies(self) -> Latencies {
        let by_time = |(latency_kind, Reservoir { mut samples, .. }): (LatencyKind, Reservoir)| {
            samples.sort();
            (latency_kind, Delay::SamplesByTime(samples))
        };
        self.by_kind.into_iter().map(by_time).collect::<BTreeMap<_, _>>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_measurements_are_thinned_out_evenly() {
        let kept_samples = |seed| {
            let mut samples = LatencySamples::new(seed);
            for second in 0..100_000 {
                samples.add(
                    LatencyKind::Bind,
                    Moment::from_nanos(second),
                    Duration::from_secs(second as u64),
                );
            }
            let Delay::SamplesByTime(spans) = samples.into_latencies().of(LatencyKind::Bind).clone() else {
                panic!()
            };
            spans
        };
        let spans = kept_samples(1);
        assert_eq!(spans.len(), RESERVOIR_SIZE);
        assert!(spans.is_sorted() && spans == kept_samples(1) && spans != kept_samples(2));
        // A tenth of the time has a tenth of the samples: 410, plus or minus 19.
        for tenth in 0..10 {
            let range = tenth * 10_000..(tenth + 1) * 10_000;
            let count = spans.iter().filter(|(began, _)| range.contains(&began.nanos())).count();
            assert!((310..510).contains(&count), "{count} in {range:?}");
        }
    }
}
