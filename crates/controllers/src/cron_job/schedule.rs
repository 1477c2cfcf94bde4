//! Cron schedules such as `30 6-16/4 * * 1-5`, `@daily` and `@every 90m`, parsed as github.com/robfig/cron does, which
//! Kubernetes uses.

use kubernetes::go::duration;
use model::Moment;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// If no time is found within these days, there is none.
const MAX_DAYS: i64 = 5 * 366;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A cron schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// Five cron fields.
    Spec(SpecSchedule),
    /// A constant delay in seconds.
    ConstantDelay(i64),
}

/// The cron fields as bit sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpecSchedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Day of month or day of week is `*`: then both must match. Otherwise one match is enough.
    has_star_day: bool,
    /// The offset from UTC in seconds.
    utc_offset: i64,
}

impl Schedule {
    /// Parses a schedule for an offset from UTC in seconds.
    pub(super) fn parse(text: &str, utc_offset: i64) -> Result<Schedule, String> {
        let text = text.trim();
        if let Some(every) = text.strip_prefix("@every ") {
            let nanos = duration::parse(every).ok_or_else(|| format!("invalid duration {every:?}"))?;
            return Ok(Schedule::ConstantDelay((nanos / SECOND).max(1)));
        }
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ if text.starts_with('@') => return Err(format!("unknown schedule {text:?}")),
            own => own,
        };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}", fields.len()));
        };
        let (days, weekdays) = (parse_field(days, 1, 31, &[])?, parse_field(weekdays, 0, 6, &WEEKDAYS)?);
        Ok(Schedule::Spec(SpecSchedule {
            minutes: parse_field(minutes, 0, 59, &[])?.bits,
            hours: parse_field(hours, 0, 23, &[])?.bits,
            months: parse_field(months, 1, 12, &MONTHS)?.bits,
            has_star_day: days.is_star || weekdays.is_star,
            days: days.bits,
            weekdays: weekdays.bits,
            utc_offset,
        }))
    }

    /// The first time after a moment; `None` if there is none in five years.
    pub(super) fn next(&self, after: Moment) -> Option<Moment> {
        let second = after.nanos().div_euclid(SECOND);
        match self {
            Schedule::ConstantDelay(seconds) => moment_of_second(second.checked_add(*seconds)?),
            Schedule::Spec(times) => times.next(second),
        }
    }
}

impl SpecSchedule {
    fn next(&self, second: i64) -> Option<Moment> {
        let local = second.checked_add(self.utc_offset)?;
        let first = local.div_euclid(60) * 60 + 60;
        let (first_day, mut from) = (first.div_euclid(DAY), first.rem_euclid(DAY) / 60);
        for day in first_day..first_day + MAX_DAYS {
            if self.matches_day(day) {
                let minute = (from..24 * 60).find(|minute| {
                    self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1
                });
                if let Some(minute) = minute {
                    return moment_of_second((day * DAY + minute * 60).checked_sub(self.utc_offset)?);
                }
            }
            from = 0;
        }
        None
    }

    fn matches_day(&self, day: i64) -> bool {
        let (month, date) = month_and_date(day);
        let weekday = (day + 4).rem_euclid(7);
        let (by_date, by_weekday) = (self.days >> date & 1 == 1, self.weekdays >> weekday & 1 == 1);
        let fits = if self.has_star_day { by_date && by_weekday } else { by_date || by_weekday };
        fits && self.months >> month & 1 == 1
    }
}

struct CronField {
    bits: u64,
    is_star: bool,
}

/// Parses one field: ranges, steps, lists. Names count from the least value.
fn parse_field(text: &str, min: u32, max: u32, names: &[&str]) -> Result<CronField, String> {
    let number =
        |text: &str| text.parse::<u32>().map_err(|_| format!("invalid number {text:?} in the schedule"));
    let value = |text: &str| {
        let named = names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let named = named.and_then(|index| u32::try_from(index).ok()).map(|index| index + min);
        named.map_or_else(|| number(text), Ok)
    };
    let mut field = CronField { bits: 0, is_star: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (part, None),
        };
        let (first, last) = match range {
            "*" | "?" => (min, max),
            _ => match range.split_once('-') {
                Some((first, last)) => (value(first)?, value(last)?),
                None => {
                    let single_value = value(range)?;
                    (single_value, if step.is_some() { max } else { single_value })
                }
            },
        };
        if first < min || last > max || first > last {
            return Err(format!("{part:?} is not from {min} to {max}"));
        }
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err(format!("the step of {part:?} is zero"));
        }
        field.is_star |= matches!(range, "*" | "?") && step == 1;
        let mut next = first;
        while next <= last {
            field.bits |= 1 << next;
            next = next.saturating_add(step);
        }
    }
    Ok(field)
}

/// The month and the day in it of a day since 1970, by the rules of the Gregorian calendar.
fn month_and_date(day: i64) -> (i64, i64) {
    // Years that begin in March, in eras of 400.
    let since = day + 719_468;
    let of_era = since.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    (if month < 10 { month + 3 } else { month - 9 }, date)
}

fn moment_of_second(second: i64) -> Option<Moment> {
    second.checked_mul(SECOND).map(Moment::from_nanos)
}

/// The constant offset of a time zone from UTC in seconds; `None` for other zones.
pub(super) fn utc_offset_of_zone(zone: &str) -> Option<i64> {
    match zone {
        "" | "UTC" | "Etc/UTC" | "GMT" | "Etc/GMT" | "Zulu" | "Etc/Zulu" | "UCT" | "Etc/UCT"
        | "Universal" | "Etc/Universal" | "Greenwich" | "Etc/Greenwich" => Some(0),
        // In these names west is positive.
        _ => {
            let hours = zone.strip_prefix("Etc/GMT")?;
            let number: i64 = hours.strip_prefix('+').unwrap_or(hours).parse().ok()?;
            (-14..=12).contains(&number).then_some(-number * 3600)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schedule: &str, after: &str, expected: &str) {
        let schedule = Schedule::parse(schedule, 0).expect("the schedule is valid");
        let next = schedule.next(after.parse().unwrap());
        assert_eq!(next.map(|at| at.to_string()).unwrap_or_default(), expected);
    }

    #[test]
    fn the_next_time_is_that_of_the_cron_library() {
        // Cases of its own TestNext, moved to five fields.
        check("0/15 * * * *", "2012-07-09T14:45:00Z", "2012-07-09T15:00:00Z");
        check("0/15 * * * *", "2012-07-09T14:59:59Z", "2012-07-09T15:00:00Z");
        check("20-35/15 * * * *", "2012-07-09T15:45:00Z", "2012-07-09T16:20:00Z");
        check("0/15 * * * *", "2012-12-31T23:45:00Z", "2013-01-01T00:00:00Z");
        check("0 0 9 Apr-Oct ?", "2012-07-09T23:35:00Z", "2012-08-09T00:00:00Z");
        check("0 0 */5 Apr,Aug,Oct Mon", "2012-07-09T23:35:00Z", "2012-08-01T00:00:00Z");
        check("0 0 */5 Oct Mon", "2012-07-09T23:35:00Z", "2012-10-01T00:00:00Z");
        check("0 0 * Feb Mon", "2012-07-09T23:35:00Z", "2013-02-04T00:00:00Z");
        check("0 0 * Feb Mon/2", "2012-07-09T23:35:00Z", "2013-02-01T00:00:00Z");
        check("0 0 29 Feb ?", "2012-07-09T23:35:00Z", "2016-02-29T00:00:00Z");
        check("0 0 30 Feb ?", "2012-07-09T23:35:00Z", "");
        check("0 0 31 Apr ?", "2012-07-09T23:35:00Z", "");
        check("@every 90m", "2012-07-09T14:45:00.5Z", "2012-07-09T16:15:00Z");
        check("@weekly", "2012-07-09T23:35:00Z", "2012-07-15T00:00:00Z");
    }

    #[test]
    fn an_invalid_schedule_is_an_error() {
        // Cases of its TestParseScheduleErrors.
        for bad in [
            "* 5 j * * *",
            "@every Xm",
            "@unrecognized",
            "* * * *",
            "",
            "60 0 * * *",
            "0 * * * 7",
            "*/0 * * * *",
            "* * * * */mon",
        ] {
            assert!(Schedule::parse(bad, 0).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_schedule_may_have_an_offset_from_utc() {
        let schedule = Schedule::parse("0 12 * * *", utc_offset_of_zone("Etc/GMT-2").unwrap()).unwrap();
        let next = schedule.next("2026-11-15T00:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(next.to_string(), "2026-11-15T10:00:00Z");
        assert_eq!(utc_offset_of_zone("Europe/Berlin"), None);
    }
}
