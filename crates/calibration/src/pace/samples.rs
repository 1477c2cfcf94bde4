//! Measurements, so many of each step that they say what the others would.

use std::collections::BTreeMap;
use std::time::Duration;

use autoscaler::Delay;
use model::Moment;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use simulation::pace::{Pace, Step};

#[derive(Debug)]
pub(super) struct Samples {
    of: BTreeMap<Step, Kept>,
    dice: Pcg64,
}

/// Some of the measurements, each kept with the same chance.
#[derive(Debug, Default)]
struct Kept {
    spans: Vec<(Moment, Duration)>,
    seen: u64,
}

/// So many are kept of each step.
const MOST: usize = 4096;

impl Samples {
    pub(super) fn new(seed: u64) -> Samples {
        Samples { of: BTreeMap::new(), dice: Pcg64::seed_from_u64(seed) }
    }

    /// A step that began then took so long.
    pub(super) fn add(&mut self, step: Step, began: Moment, span: Duration) {
        let Kept { spans, seen } = self.of.entry(step).or_default();
        *seen += 1;
        if spans.len() < MOST {
            spans.push((began, span));
        } else if let Ok(place) = usize::try_from(self.dice.random_range(0..*seen))
            && place < MOST
        {
            spans[place] = (began, span);
        }
    }

    pub(super) fn into_pace(self) -> Pace {
        let by_time = |(step, Kept { mut spans, .. }): (Step, Kept)| {
            spans.sort();
            (step, Delay::ByTime(spans))
        };
        self.of.into_iter().map(by_time).collect::<BTreeMap<_, _>>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_measurements_are_thinned_out_evenly() {
        let kept = |seed| {
            let mut samples = Samples::new(seed);
            for second in 0..100_000 {
                samples.add(Step::Bind, Moment::from_nanos(second), Duration::from_secs(second as u64));
            }
            let Delay::ByTime(spans) = samples.into_pace().of(Step::Bind).clone() else { panic!() };
            spans
        };
        let spans = kept(1);
        assert_eq!(spans.len(), MOST);
        assert!(spans.is_sorted() && spans == kept(1) && spans != kept(2));
        // A tenth of the time has a tenth of them: 410, give or take 19.
        for tenth in 0..10 {
            let range = tenth * 10_000..(tenth + 1) * 10_000;
            let count = spans.iter().filter(|(began, _)| range.contains(&began.nanos())).count();
            assert!((310..510).contains(&count), "{count} in {range:?}");
        }
    }
}
