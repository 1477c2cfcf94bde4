//! Moments and durations.

use jiff::civil::DateTime;

use super::super::value::{Failure, Outcome, Value};
use super::super::zoned_moment::ZonedMoment;
use super::costs::Meter;
use super::{Row, Run};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "getFullYear",
        overloads: MOMENT,
        run: |_, arguments| part(arguments, |time| time.year().into()),
    },
    Row {
        name: "getMonth",
        overloads: MOMENT,
        run: |_, arguments| part(arguments, |time| i64::from(time.month()) - 1),
    },
    Row {
        name: "getDayOfYear",
        overloads: MOMENT,
        run: |_, arguments| part(arguments, |time| i64::from(time.day_of_year()) - 1),
    },
    Row {
        name: "getDayOfMonth",
        overloads: MOMENT,
        run: |_, arguments| part(arguments, |time| i64::from(time.day()) - 1),
    },
    Row { name: "getDate", overloads: MOMENT, run: |_, arguments| part(arguments, |time| time.day().into()) },
    Row {
        name: "getDayOfWeek",
        overloads: MOMENT,
        run: |_, arguments| part(arguments, |time| time.weekday().to_sunday_zero_offset().into()),
    },
    Row { name: "getHours", overloads: MOMENT_OR_DURATION, run: HOURS },
    Row { name: "getMinutes", overloads: MOMENT_OR_DURATION, run: MINUTES },
    Row { name: "getSeconds", overloads: MOMENT_OR_DURATION, run: SECONDS },
    Row { name: "getMilliseconds", overloads: MOMENT_OR_DURATION, run: MILLISECONDS },
];

const MOMENT: &[&str] = &["timestamp.() -> int", "timestamp.(string) -> int"];
const MOMENT_OR_DURATION: &[&str] =
    &["timestamp.() -> int", "timestamp.(string) -> int", "duration.() -> int"];

const HOURS: Run = |_, arguments| part_or_unit(arguments, |time| time.hour().into(), 3_600_000_000_000);
const MINUTES: Run = |_, arguments| part_or_unit(arguments, |time| time.minute().into(), 60_000_000_000);
const SECONDS: Run = |_, arguments| part_or_unit(arguments, |time| time.second().into(), 1_000_000_000);
const MILLISECONDS: Run =
    |_: &mut Meter, arguments| part_or_unit(arguments, |time| time.millisecond().into(), 1_000_000);

/// The names of time zones of the world, unlike offsets, are not known.
pub(in super::super) fn is_known_zone(name: &str) -> bool {
    zone_offset(name).is_some()
}

/// A moment that may be out of range.
pub(super) fn moment<'v>(moment: Option<ZonedMoment>) -> Outcome<Value<'v>> {
    moment.map(Value::Timestamp).ok_or_else(|| Failure::error("timestamp overflow"))
}

/// A duration in seconds, with as many digits as it takes: `1.5s`.
pub(super) fn seconds_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, fraction) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    match fraction {
        0 => format!("{sign}{whole}s"),
        _ => format!("{sign}{whole}.{}s", format!("{fraction:09}").trim_end_matches('0')),
    }
}

fn part<'v>(arguments: &[Value<'v>], of: fn(DateTime) -> i64) -> Outcome<Value<'v>> {
    let (moment, offset) = match arguments {
        [Value::Timestamp(moment)] => (moment, 0),
        [Value::Timestamp(moment), Value::String(name)] => match zone_offset(name) {
            Some(offset) => (moment, offset),
            None => return Err(Failure::Error(format!("unknown time zone {}", &**name))),
        },
        _ => return Err(Failure::NoOverload),
    };
    Ok(Value::Int(of(moment.at_offset(offset))))
}

fn part_or_unit<'v>(arguments: &[Value<'v>], of: fn(DateTime) -> i64, unit: i64) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / unit)),
        _ => part(arguments, of),
    }
}

/// The offset of `UTC`, or of a text such as `-02:30`.
fn zone_offset(name: &str) -> Option<i32> {
    if name.is_empty() || name == "UTC" {
        return Some(0);
    }
    let (hours, minutes) = name.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let minutes = if name.starts_with('-') { -minutes } else { minutes };
    hours.checked_mul(60)?.checked_add(minutes)?.checked_mul(60).filter(|offset| offset.abs() < 7 * 86_400)
}
