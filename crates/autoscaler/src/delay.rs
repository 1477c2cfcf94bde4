//! Delays: constant, drawn from measured samples, or proportional to the work.

use std::time::Duration;

use model::Moment;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A distribution of durations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "DelayJson", into = "DelayJson")]
pub enum Delay {
    /// Always the same duration.
    Constant(Duration),
    /// One of these samples, each equally likely.
    Samples(Vec<Duration>),
    /// Samples with their start times, in order of time: one of those that began near the current time. The latency of
    /// API server writes follows its load, and may be seven times as long a minute later.
    SamplesByTime(Vec<(Moment, Duration)>),
    /// A fixed time plus a time per item.
    PerItem(PerItemDelay),
}

/// The duration of work that grows with the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerItemDelay {
    /// The time without items.
    pub base: Duration,
    /// The additional time per item.
    pub per_item: Duration,
    /// The maximum.
    pub max: Duration,
}

/// The number of samples near a time that are drawn from: enough to include occasional outliers.
const NEARBY_SAMPLES: usize = 32;

/// The serialized form, in whole nanoseconds, so that nothing is rounded.
#[derive(Serialize, Deserialize)]
enum DelayJson {
    #[serde(rename = "constantNanos")]
    Constant(u64),
    #[serde(rename = "measuredNanos")]
    Measured(Vec<u64>),
    /// Each with its start time, in nanoseconds since 1970.
    #[serde(rename = "byTimeNanos")]
    ByTime(Vec<(i64, u64)>),
    #[serde(rename = "byWorkNanos")]
    ByWork { least: u64, each: u64, most: u64 },
}

// === impl Delay ===

impl Delay {
    /// The duration of something that begins now: the sample at this position, a fraction of 2⁶⁴. Zero without samples;
    /// for a delay per item its base.
    pub fn pick(&self, now: Moment, position: u64) -> Duration {
        let sample_index = |count: usize| ((u128::from(position) * count as u128) >> 64) as usize;
        match self {
            Delay::Constant(duration) => *duration,
            Delay::PerItem(per_item) => per_item.base,
            Delay::Samples(all) => all.get(sample_index(all.len())).copied().unwrap_or_default(),
            Delay::SamplesByTime(all) => {
                let mut durations: SmallVec<[Duration; NEARBY_SAMPLES]> =
                    nearby_samples(all, now).iter().map(|(_, duration)| *duration).collect();
                if durations.is_empty() {
                    return Duration::ZERO;
                }
                // In order of duration, so that distant positions give different durations.
                let sample_index = sample_index(durations.len());
                *durations.select_nth_unstable(sample_index).1
            }
        }
    }

    /// The duration for that many items; `None` if the delay does not depend on them.
    pub fn for_items(&self, items: u64) -> Option<Duration> {
        let Delay::PerItem(per_item) = self else { return None };
        let nanos = per_item.per_item.as_nanos().saturating_mul(items.into());
        let extra = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Some(per_item.base.saturating_add(extra).min(per_item.max))
    }
}

/// The samples that began near a time.
fn nearby_samples(all: &[(Moment, Duration)], now: Moment) -> &[(Moment, Duration)] {
    let count = all.len().min(NEARBY_SAMPLES);
    let earlier_count = all.partition_point(|(start, _)| *start <= now);
    let first = earlier_count.saturating_sub(count / 2).min(all.len() - count);
    &all[first..first + count]
}

// === impl DelayJson ===

impl From<Delay> for DelayJson {
    fn from(delay: Delay) -> DelayJson {
        match delay {
            Delay::Constant(duration) => DelayJson::Constant(nanos(duration)),
            Delay::PerItem(PerItemDelay { base, per_item: per_item_delay, max }) => {
                DelayJson::ByWork { least: nanos(base), each: nanos(per_item_delay), most: nanos(max) }
            }
            Delay::Samples(all) => DelayJson::Measured(all.into_iter().map(nanos).collect()),
            Delay::SamplesByTime(all) => DelayJson::ByTime(
                all.into_iter().map(|(start, duration)| (start.nanos(), nanos(duration))).collect(),
            ),
        }
    }
}

impl From<DelayJson> for Delay {
    fn from(json: DelayJson) -> Delay {
        match json {
            DelayJson::Constant(nanos) => Delay::Constant(Duration::from_nanos(nanos)),
            DelayJson::ByWork { least, each: per_item_delay, most } => {
                let [base, per_item_delay, max] = [least, per_item_delay, most].map(Duration::from_nanos);
                Delay::PerItem(PerItemDelay { base, per_item: per_item_delay, max })
            }
            DelayJson::Measured(all) => Delay::Samples(all.into_iter().map(Duration::from_nanos).collect()),
            DelayJson::ByTime(mut all) => {
                all.sort_by_key(|(start, _)| *start);
                let read = |(start, nanos)| (Moment::from_nanos(start), Duration::from_nanos(nanos));
                Delay::SamplesByTime(all.into_iter().map(read).collect())
            }
        }
    }
}

/// In nanoseconds; longer durations are capped.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: u64 = u64::MAX;

    fn at(second: i64) -> Moment {
        Moment::from_nanos(second * 1_000_000_000)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// One sample per second; sample N takes N seconds.
    fn rising(count: u64) -> Delay {
        Delay::SamplesByTime((0..count).map(|n| (at(n as i64), seconds(n))).collect())
    }

    #[test]
    fn only_samples_near_the_time_are_drawn() {
        let delay = rising(100);
        assert_eq!([delay.pick(at(50), 0), delay.pick(at(50), LAST)], [seconds(35), seconds(66)]);
        assert_eq!([delay.pick(at(-9), 0), delay.pick(at(-9), LAST)], [seconds(0), seconds(31)]);
        assert_eq!([delay.pick(Moment::MAX, 0), delay.pick(Moment::MAX, LAST)], [seconds(68), seconds(99)]);
    }

    #[test]
    fn positions_select_samples_from_short_to_long() {
        let delay = Delay::SamplesByTime([4, 1, 3, 2].map(|n| (at(0), seconds(n))).to_vec());
        let quarters = [0, 1, 2, 3].map(|quarter| delay.pick(at(0), quarter << 62));
        assert_eq!(quarters, [1, 2, 3, 4].map(seconds));
    }

    #[test]
    fn more_items_take_longer_up_to_a_maximum() {
        let delay = Delay::PerItem(PerItemDelay { base: seconds(1), per_item: seconds(2), max: seconds(9) });
        assert_eq!(
            [0, 3, 100, u64::MAX].map(|items| delay.for_items(items)),
            [1, 7, 9, 9].map(|duration| Some(seconds(duration)))
        );
        assert_eq!(Delay::Constant(seconds(1)).for_items(9), None);
    }

    #[test]
    fn a_delay_without_samples_is_zero() {
        for delay in [Delay::Samples(Vec::new()), Delay::SamplesByTime(Vec::new())] {
            assert_eq!([delay.pick(at(0), 0), delay.pick(at(0), LAST)], [Duration::ZERO; 2]);
        }
        assert_eq!(Delay::Samples(vec![seconds(1), seconds(2)]).pick(at(0), LAST), seconds(2));
    }

    #[test]
    fn samples_are_read_in_order_of_time() {
        let read: Delay = serde_json::from_str(r#"{"byTimeNanos": [[5, 2], [-1, 3]]}"#).unwrap();
        let sorted = [(-1, 3), (5, 2)]
            .map(|(start, duration)| (Moment::from_nanos(start), Duration::from_nanos(duration)));
        assert_eq!(read, Delay::SamplesByTime(sorted.to_vec()));
    }
}
