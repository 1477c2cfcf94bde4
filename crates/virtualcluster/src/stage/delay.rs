//! Delays and weights of stages, which objects may override.

use kubernetes::go::duration;
use model::Moment;
use serde_json::Value;

use super::jq::JqQuery;

/// The delay of a stage: its duration, or chosen at random between that and a longer jitter. A jitter that is not
/// longer is the delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StageDelay {
    pub(super) duration: DurationSource,
    pub(super) jitter: Option<DurationSource>,
}

/// A duration, and a query whose result overrides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DurationSource {
    pub(super) milliseconds: Option<i64>,
    pub(super) query: Option<JqQuery>,
}

/// A weight, and a query whose result overrides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WeightSource {
    pub(super) weight: i64,
    pub(super) query: Option<JqQuery>,
}

// === impl StageDelay ===

impl StageDelay {
    /// The duration and the jitter of an object, in nanoseconds; `None` if it has no duration.
    pub(super) fn range(&self, object: &Value, now: Moment) -> Option<(i64, Option<i64>)> {
        let duration = self.duration.nanos(object, now)?;
        let jitter = self.jitter.as_ref().and_then(|jitter| jitter.nanos(object, now));
        Some((duration, jitter))
    }
}

// === impl DurationSource ===

impl DurationSource {
    /// A query's result is a duration, or a time: the duration until then. An empty text is no duration at all.
    fn nanos(&self, object: &Value, now: Moment) -> Option<i64> {
        let constant = self.milliseconds.map(|milliseconds| milliseconds.saturating_mul(1_000_000));
        let results = self.query.as_ref().and_then(|query| query.run(object)).unwrap_or_default();
        match results.first().and_then(|result| result.as_str()) {
            None => constant,
            Some("") => None,
            Some(text) => {
                let until = text.parse::<Moment>().ok().map(|until| until.nanos_since(now));
                until.or_else(|| duration::parse(text)).or(constant)
            }
        }
    }
}

// === impl WeightSource ===

impl WeightSource {
    /// The weight for an object; `None` if the object has one that is not a number.
    pub(super) fn of(&self, object: &Value) -> Option<i64> {
        let results = self.query.as_ref().and_then(|query| query.run(object)).unwrap_or_default();
        match results.first() {
            Some(Value::String(text)) => parse_integer(text),
            Some(Value::Number(number)) => {
                number.as_i64().or_else(|| number.as_f64().map(|float| float as i64))
            }
            Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {
                Some(self.weight)
            }
        }
    }
}

/// An integer as Go's `strconv.ParseInt` reads it with base 0: decimal, or with a prefix.
fn parse_integer(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let magnitude = match lower.get(..2) {
        Some("0x") => i64::from_str_radix(&lower[2..], 16).ok()?,
        Some("0b") => i64::from_str_radix(&lower[2..], 2).ok()?,
        Some("0o") => i64::from_str_radix(&lower[2..], 8).ok()?,
        Some(octal) if octal.starts_with('0') => i64::from_str_radix(&lower, 8).ok()?,
        _ => lower.parse().ok()?,
    };
    Some(if is_negative { -magnitude } else { magnitude })
}
