//! Moments with the offset in which they were written, from the beginning of year 1 to the end of year 9999.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const NANOS: i128 = 1_000_000_000;
/// The first and last second.
const SECONDS: std::ops::RangeInclusive<i128> = -62_135_596_800..=253_402_300_799;

/// A moment. Two are equal whatever their offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZonedMoment {
    /// Since 1970.
    nanos: i128,
    /// Seconds east of UTC.
    offset: i32,
}

// === impl ZonedMoment ===

impl ZonedMoment {
    /// `None` if it is out of range.
    pub(super) fn new(nanos: i128, offset: i32) -> Option<ZonedMoment> {
        SECONDS.contains(&nanos.div_euclid(NANOS)).then_some(ZonedMoment { nanos, offset })
    }

    /// The beginning of a date.
    pub(super) fn of_date(date: Date) -> Option<ZonedMoment> {
        ZonedMoment::of_datetime(date.to_datetime(jiff::civil::Time::midnight()), 0)
    }

    /// The moment of a text as Go's `time.RFC3339` has it.
    pub(super) fn parse(text: &str) -> Option<ZonedMoment> {
        let is_form = |at: usize, byte: u8| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            13 | 16 => byte == b':',
            _ => byte.is_ascii_digit(),
        };
        let bytes = text.as_bytes().get(..19)?;
        if !bytes.iter().enumerate().all(|(at, byte)| is_form(at, *byte)) {
            return None;
        }
        let zone_start = 19 + text[19..].find(['Z', '+', '-'])?;
        let (local, zone) = text.split_at(zone_start);
        let offset = match (zone.get(..1)?, zone.get(1..3), zone.get(3..4), zone.get(4..6)) {
            ("Z", None, _, _) => 0,
            (sign @ ("+" | "-"), Some(hours), Some(":"), Some(minutes)) if zone.len() == 6 => {
                let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
                let seconds = (i32::from(hours) * 60 + i32::from(minutes)) * 60;
                Some(seconds).filter(|_| hours < 24 && minutes < 60)? * if sign == "-" { -1 } else { 1 }
            }
            _ => return None,
        };
        ZonedMoment::of_datetime(local.parse().ok()?, offset)
    }

    fn of_datetime(local: DateTime, offset: i32) -> Option<ZonedMoment> {
        let nanos = local.duration_since(EPOCH).as_nanos() - i128::from(offset) * NANOS;
        ZonedMoment::new(nanos, offset)
    }

    pub(super) fn nanos(self) -> i128 {
        self.nanos
    }

    pub(super) fn seconds(self) -> i64 {
        self.nanos.div_euclid(NANOS) as i64
    }

    /// The moment some nanoseconds later; `None` if it is out of range.
    pub(super) fn plus(self, nanos: i128) -> Option<ZonedMoment> {
        ZonedMoment::new(self.nanos + nanos, self.offset)
    }

    /// Date and time at an offset.
    pub(super) fn at_offset(self, offset: i32) -> DateTime {
        let local = self.nanos + i128::from(offset) * NANOS;
        let since = SignedDuration::new(local.div_euclid(NANOS) as i64, local.rem_euclid(NANOS) as i32);
        EPOCH.saturating_add(since)
    }
}

impl fmt::Display for ZonedMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.at_offset(self.offset);
        write!(f, "{:04}-{:02}-{:02}T", local.year(), local.month(), local.day())?;
        write!(f, "{:02}:{:02}:{:02}", local.hour(), local.minute(), local.second())?;
        if local.subsec_nanosecond() != 0 {
            f.write_str(format!(".{:09}", local.subsec_nanosecond()).trim_end_matches('0'))?;
        }
        let (minutes, sign) = (self.offset.abs() / 60, if self.offset < 0 { '-' } else { '+' });
        match self.offset {
            0 => f.write_str("Z"),
            _ => write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60),
        }
    }
}
