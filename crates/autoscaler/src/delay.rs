//! How long something takes: always the same, or as it was measured.

use std::time::Duration;

use model::Moment;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// How long something takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "DelayJson", into = "DelayJson")]
pub enum Delay {
    /// Always the same.
    Constant(Duration),
    /// One of these, each as likely as the other.
    Measured(Vec<Duration>),
    /// What it took when, in order of time: one of those that began about then. What an API server takes for a write
    /// follows its load, and may be seven times as long a minute later.
    ByTime(Vec<(Moment, Duration)>),
    /// As long as the work takes.
    ByWork(Work),
}

/// What work takes that grows with the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// At least so long.
    pub least: Duration,
    /// For each thing that is looked at.
    pub each: Duration,
    /// At most so long.
    pub most: Duration,
}

/// So many are about the same time: enough for what happens now and then to be among them.
const NEAR: usize = 32;

/// As it is written: whole nanoseconds, so that nothing is lost.
#[derive(Serialize, Deserialize)]
enum DelayJson {
    #[serde(rename = "constantNanos")]
    Constant(u64),
    #[serde(rename = "measuredNanos")]
    Measured(Vec<u64>),
    /// Each with when it began, since 1970.
    #[serde(rename = "byTimeNanos")]
    ByTime(Vec<(i64, u64)>),
    #[serde(rename = "byWorkNanos")]
    ByWork { least: u64, each: u64, most: u64 },
}

// === impl Delay ===

impl Delay {
    /// How long it takes when it begins now: at this position, a fraction of 2⁶⁴, among the possible ones. Nothing, if
    /// there are none. Work takes its least.
    pub fn pick(&self, now: Moment, position: u64) -> Duration {
        let place = |count: usize| ((u128::from(position) * count as u128) >> 64) as usize;
        match self {
            Delay::Constant(span) => *span,
            Delay::ByWork(work) => work.least,
            Delay::Measured(all) => all.get(place(all.len())).copied().unwrap_or_default(),
            Delay::ByTime(all) => {
                let mut spans: SmallVec<[Duration; NEAR]> =
                    near(all, now).iter().map(|(_, span)| *span).collect();
                if spans.is_empty() {
                    return Duration::ZERO;
                }
                // By length, so that positions that are far apart give lengths that are.
                let place = place(spans.len());
                *spans.select_nth_unstable(place).1
            }
        }
    }

    /// How long it takes when so many things are to be looked at, if that makes a difference.
    pub fn of_work(&self, things: u64) -> Option<Duration> {
        let Delay::ByWork(work) = self else { return None };
        let nanos = work.each.as_nanos().saturating_mul(things.into());
        let longer = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Some(work.least.saturating_add(longer).min(work.most))
    }
}

/// Those that began about then.
fn near(all: &[(Moment, Duration)], now: Moment) -> &[(Moment, Duration)] {
    let count = all.len().min(NEAR);
    let earlier = all.partition_point(|(began, _)| *began <= now);
    let first = earlier.saturating_sub(count / 2).min(all.len() - count);
    &all[first..first + count]
}

// === impl DelayJson ===

impl From<Delay> for DelayJson {
    fn from(delay: Delay) -> DelayJson {
        match delay {
            Delay::Constant(span) => DelayJson::Constant(nanos(span)),
            Delay::ByWork(Work { least, each, most }) => {
                DelayJson::ByWork { least: nanos(least), each: nanos(each), most: nanos(most) }
            }
            Delay::Measured(all) => DelayJson::Measured(all.into_iter().map(nanos).collect()),
            Delay::ByTime(all) => {
                DelayJson::ByTime(all.into_iter().map(|(began, span)| (began.nanos(), nanos(span))).collect())
            }
        }
    }
}

impl From<DelayJson> for Delay {
    fn from(json: DelayJson) -> Delay {
        match json {
            DelayJson::Constant(nanos) => Delay::Constant(Duration::from_nanos(nanos)),
            DelayJson::ByWork { least, each, most } => {
                let [least, each, most] = [least, each, most].map(Duration::from_nanos);
                Delay::ByWork(Work { least, each, most })
            }
            DelayJson::Measured(all) => Delay::Measured(all.into_iter().map(Duration::from_nanos).collect()),
            DelayJson::ByTime(mut all) => {
                all.sort_by_key(|(began, _)| *began);
                let read = |(began, nanos)| (Moment::from_nanos(began), Duration::from_nanos(nanos));
                Delay::ByTime(all.into_iter().map(read).collect())
            }
        }
    }
}

/// Centuries become the longest that can be written.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
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

    /// One sample a second, as long as its number.
    fn rising(count: u64) -> Delay {
        Delay::ByTime((0..count).map(|n| (at(n as i64), seconds(n))).collect())
    }

    #[test]
    fn only_what_began_about_then_is_drawn() {
        let delay = rising(100);
        assert_eq!([delay.pick(at(50), 0), delay.pick(at(50), LAST)], [seconds(35), seconds(66)]);
        assert_eq!([delay.pick(at(-9), 0), delay.pick(at(-9), LAST)], [seconds(0), seconds(31)]);
        assert_eq!([delay.pick(Moment::MAX, 0), delay.pick(Moment::MAX, LAST)], [seconds(68), seconds(99)]);
    }

    #[test]
    fn positions_go_from_short_to_long() {
        let delay = Delay::ByTime([4, 1, 3, 2].map(|n| (at(0), seconds(n))).to_vec());
        let quarters = [0, 1, 2, 3].map(|quarter| delay.pick(at(0), quarter << 62));
        assert_eq!(quarters, [1, 2, 3, 4].map(seconds));
    }

    #[test]
    fn more_work_takes_longer_up_to_a_limit() {
        let delay = Delay::ByWork(Work { least: seconds(1), each: seconds(2), most: seconds(9) });
        assert_eq!(
            [0, 3, 100, u64::MAX].map(|things| delay.of_work(things)),
            [1, 7, 9, 9].map(|span| Some(seconds(span)))
        );
        assert_eq!(Delay::Constant(seconds(1)).of_work(9), None);
    }

    #[test]
    fn nothing_measured_takes_no_time() {
        for delay in [Delay::Measured(Vec::new()), Delay::ByTime(Vec::new())] {
            assert_eq!([delay.pick(at(0), 0), delay.pick(at(0), LAST)], [Duration::ZERO; 2]);
        }
        assert_eq!(Delay::Measured(vec![seconds(1), seconds(2)]).pick(at(0), LAST), seconds(2));
    }

    #[test]
    fn samples_are_read_in_order_of_time() {
        let read: Delay = serde_json::from_str(r#"{"byTimeNanos": [[5, 2], [-1, 3]]}"#).unwrap();
        let sorted =
            [(-1, 3), (5, 2)].map(|(began, span)| (Moment::from_nanos(began), Duration::from_nanos(span)));
        assert_eq!(read, Delay::ByTime(sorted.to_vec()));
    }
}
