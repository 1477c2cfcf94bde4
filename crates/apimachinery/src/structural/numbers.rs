//! Comparisons of numbers with the limits of a schema, as kube-openapi makes them: integers and floating point numbers
//! differ, and limits are floating point numbers.

use kubernetes::go::text::format_value;
use serde_json::Number;

use super::ValueType;

/// A number as Go decodes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum GoNumber {
    Integer(i64),
    Float(f64),
}

/// The numbers beyond which a floating point number does not count as an integer.
const MAX_JSON_INTEGER: f64 = 9_007_199_254_740_991.0;

// === impl GoNumber ===

impl GoNumber {
    pub(super) fn of(number: &Number) -> GoNumber {
        match number.as_i64() {
            Some(integer) => GoNumber::Integer(integer),
            None => GoNumber::Float(number.as_f64().unwrap_or_default()),
        }
    }

    fn as_float(self) -> f64 {
        match self {
            GoNumber::Integer(integer) => integer as f64,
            GoNumber::Float(float) => float,
        }
    }

    /// What Go's `%v` prints.
    pub(super) fn text(self) -> String {
        match self {
            GoNumber::Integer(integer) => integer.to_string(),
            GoNumber::Float(float) => format_value(&float.into()),
        }
    }

    /// A limit in the type of the number that it limits, if it can be `checked` in the number's own type.
    pub(super) fn limit(self, limit: f64, is_native: bool) -> GoNumber {
        match self {
            // Go truncates.
            GoNumber::Integer(_) if is_native => GoNumber::Integer(limit as i64),
            GoNumber::Integer(_) | GoNumber::Float(_) => GoNumber::Float(limit),
        }
    }

    /// Whether it is at most a limit of [`GoNumber::limit`], or less.
    pub(super) fn is_at_most(self, limit: GoNumber, exclusive: bool) -> bool {
        match (self, limit) {
            (GoNumber::Integer(number), GoNumber::Integer(limit)) => {
                number < limit || (number == limit && !exclusive)
            }
            _ => {
                let (number, limit) = (self.as_float(), limit.as_float());
                number < limit || (number == limit && !exclusive)
            }
        }
    }

    /// Whether it is at least a limit, or more.
    pub(super) fn is_at_least(self, limit: GoNumber, exclusive: bool) -> bool {
        limit.is_at_most(self, exclusive)
    }

    /// Whether it is a multiple; `None` for a factor that is not positive.
    pub(super) fn is_multiple_of(self, factor: GoNumber) -> Option<bool> {
        match (self, factor) {
            (GoNumber::Integer(number), GoNumber::Integer(factor)) => {
                (factor > 0).then(|| number.wrapping_rem(factor) == 0)
            }
            _ => {
                let (number, factor) = (self.as_float(), factor.as_float());
                let multiple = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
                (factor > 0.0).then(|| is_json_integer(multiple))
            }
        }
    }

    /// Whether it is in the range of a type and its format.
    pub(super) fn is_in_range(self, value_type: Option<ValueType>, format: &str) -> bool {
        match (value_type, format, self) {
            (Some(ValueType::Integer), "int32", GoNumber::Integer(number)) => i32::try_from(number).is_ok(),
            (Some(ValueType::Integer), _, GoNumber::Integer(_)) => true,
            (Some(ValueType::Integer), format, GoNumber::Float(number)) => {
                let limit = if format == "int32" { 2f64.powi(31) } else { 2f64.powi(63) };
                number.fract() == 0.0 && (-limit..limit).contains(&number)
            }
            (_, "float", number) => number.as_float().abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }
}

/// Whether a floating point number counts as an integer, as in the library that kube-openapi uses: up to rounding.
pub(super) fn is_json_integer(number: f64) -> bool {
    let whole = number.trunc();
    let is_close = || whole != 0.0 && (number - whole).abs() / (number.abs() + whole.abs()) < 1e-9;
    number.is_finite() && number.abs() <= MAX_JSON_INTEGER && (number == whole || is_close())
}
