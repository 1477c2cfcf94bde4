//! Values of a configuration with their paths, decoded as strictly as in Kubernetes: field names are known and
//! case-sensitive, integers have no decimal point, and null equals absent.

use serde_json::{Map, Value};

use super::BadConfiguration;

/// A value and its path.
pub(super) struct ConfigValue<'v> {
    path: String,
    value: &'v Value,
}

/// The fields of an object and its path.
pub(super) struct ConfigFields<'v> {
    path: String,
    fields: Option<&'v Map<String, Value>>,
}

// === impl ConfigValue ===

impl<'v> ConfigValue<'v> {
    /// The whole document.
    pub(super) fn root(value: &'v Value) -> ConfigValue<'v> {
        ConfigValue { path: String::new(), value }
    }

    /// An error about this value.
    pub(super) fn bad(&self, reason: impl Into<String>) -> BadConfiguration {
        BadConfiguration::new(&self.path, reason)
    }

    /// Its path.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The value, if it is not null.
    pub(super) fn non_null(&self) -> Option<&'v Value> {
        Some(self.value).filter(|value| !value.is_null())
    }

    /// The fields of an object, which may have no others than these.
    pub(super) fn fields(&self, names: &[&str]) -> Result<ConfigFields<'v>, BadConfiguration> {
        let fields = match self.value {
            Value::Null => None,
            Value::Object(fields) => Some(fields),
            other => return Err(self.bad(format!("expected an object, found {}", type_name_of(other)))),
        };
        let unknown = fields.into_iter().flat_map(Map::keys).find(|name| !names.contains(&name.as_str()));
        if let Some(name) = unknown {
            let reason = format!("unknown field; expected {}", names.join(", "));
            return Err(BadConfiguration::new(&child_path(&self.path, name), reason));
        }
        Ok(ConfigFields { path: self.path.clone(), fields })
    }

    /// The elements of a list.
    pub(super) fn list(&self) -> Result<Vec<ConfigValue<'v>>, BadConfiguration> {
        let elements = match self.value {
            Value::Null => &[],
            Value::Array(elements) => elements.as_slice(),
            other => return Err(self.bad(format!("expected a list, found {}", type_name_of(other)))),
        };
        let entry = |(index, value)| ConfigValue { path: format!("{}[{index}]", self.path), value };
        Ok(elements.iter().enumerate().map(entry).collect())
    }

    /// A string.
    pub(super) fn text(&self) -> Result<Option<&'v str>, BadConfiguration> {
        match self.value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            other => Err(self.bad(format!("expected a string, found {}", type_name_of(other)))),
        }
    }

    /// True or false.
    pub(super) fn flag(&self) -> Result<Option<bool>, BadConfiguration> {
        match self.value {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            other => Err(self.bad(format!("expected true or false, found {}", type_name_of(other)))),
        }
    }

    /// A 32-bit integer.
    pub(super) fn int32(&self) -> Result<Option<i32>, BadConfiguration> {
        let beyond =
            |_| self.bad(format!("{} is not a number from {} to {}", self.value, i32::MIN, i32::MAX));
        self.int64()?.map(|number| i32::try_from(number).map_err(beyond)).transpose()
    }

    /// A 64-bit integer.
    pub(super) fn int64(&self) -> Result<Option<i64>, BadConfiguration> {
        match self.value {
            Value::Null => Ok(None),
            Value::Number(number) => match number.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.bad(format!("{number} is not a 64-bit integer"))),
            },
            other => Err(self.bad(format!("expected an integer, found {}", type_name_of(other)))),
        }
    }

    /// Checks that it is a finite 32-bit float.
    pub(super) fn check_float32(&self) -> Result<(), BadConfiguration> {
        match self.value {
            Value::Null => Ok(()),
            Value::Number(number) if number.as_f64().is_some_and(|n| (n as f32).is_finite()) => Ok(()),
            Value::Number(number) => Err(self.bad(format!("{number} is too large"))),
            other => Err(self.bad(format!("expected a number, found {}", type_name_of(other)))),
        }
    }

    /// The nanoseconds of a duration such as `1m30s`.
    pub(super) fn duration(&self) -> Result<Option<i64>, BadConfiguration> {
        let Some(text) = self.text()? else { return Ok(None) };
        let nanos = nanoseconds(text);
        nanos.map(Some).ok_or_else(|| self.bad(format!("{text:?} is not a duration such as 1m30s")))
    }

    /// Whether there are any bytes, in Base64 or, as Go accepts too, as a list of numbers.
    pub(super) fn has_bytes(&self) -> Result<bool, BadConfiguration> {
        if self.value.is_array() {
            let bytes = self.list()?;
            for entry in &bytes {
                let byte = entry.int32()?.unwrap_or(0);
                u8::try_from(byte).map_err(|_| entry.bad(format!("{byte} is not a byte, from 0 to 255")))?;
            }
            return Ok(!bytes.is_empty());
        }
        let text = self.text()?.unwrap_or_default();
        if !is_base64(text) {
            return Err(self.bad("invalid base64"));
        }
        Ok(text.bytes().any(|b| !is_line_break(b)))
    }
}

// === impl ConfigFields ===

impl<'v> ConfigFields<'v> {
    /// The fields of an absent object.
    pub(super) const NONE: ConfigFields<'static> = ConfigFields { path: String::new(), fields: None };

    /// The field of that name; null if it is absent.
    pub(super) fn get(&self, name: &str) -> ConfigValue<'v> {
        let value = self.fields.and_then(|fields| fields.get(name)).unwrap_or(&Value::Null);
        ConfigValue { path: child_path(&self.path, name), value }
    }

    /// The nanoseconds of a duration that cannot be null: kube-scheduler decodes null as an empty string there.
    pub(super) fn duration(&self, name: &str) -> Result<Option<i64>, BadConfiguration> {
        let entry = self.get(name);
        if self.fields.is_some_and(|fields| fields.get(name) == Some(&Value::Null)) {
            return Err(entry.bad("null is not a duration such as 15s; omit the field"));
        }
        entry.duration()
    }
}

fn child_path(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

fn type_name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Parses a duration as Go does: numbers with units, after an optional sign.
///
/// Every addend is truncated to nanoseconds; digits of a fraction beyond 63 bits are ignored.
fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit: u64 = match &after[..end] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let value = whole.checked_mul(unit)?.checked_add(fraction_of_unit(unit, fraction))?;
        total = total.checked_add(value).filter(|total| *total <= 1 << 63)?;
        rest = &after[end..];
    }
    if negative { 0i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// A decimal fraction of a unit, in floating point as Go computes it.
fn fraction_of_unit(unit: u64, fraction: &str) -> u64 {
    let (mut digits, mut scale) = (0u64, 1f64);
    for digit in fraction.bytes().map(|b| u64::from(b - b'0')) {
        match digits.checked_mul(10).and_then(|digits| digits.checked_add(digit)) {
            Some(more) if more <= 1 << 63 => (digits, scale) = (more, scale * 10.0),
            _ => break,
        }
    }
    (digits as f64 * (unit as f64 / scale)) as u64
}

/// Line breaks and bits beyond the last whole byte are ignored, as in Go.
fn is_base64(text: &str) -> bool {
    let text: Vec<u8> = text.bytes().filter(|b| !is_line_break(*b)).collect();
    let padding = text.iter().rev().take(2).take_while(|b| **b == b'=').count();
    let inside = |b: &u8| b.is_ascii_alphanumeric() || b"+/".contains(b);
    text.len().is_multiple_of(4) && text[..text.len() - padding].iter().all(inside)
}

fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let second = 1_000_000_000;
        for (text, nanos) in [
            ("0", Some(0)),
            ("1h2m3.5s", Some(3_723_500_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("+1s", Some(second)),
            ("1.s", Some(second)),
            (".5us", Some(500)),
            ("1s1s", Some(2 * second)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("18446744073709551617ns", None),
            ("", None),
            ("-", None),
            ("1", None),
            ("s", None),
            (".s", None),
            ("1 s", None),
            ("1d", None),
        ] {
            assert_eq!(nanoseconds(text), nanos, "{text}");
        }
    }

    #[test]
    fn an_unknown_field_is_reported_with_its_path() {
        let document = json!({"a": {"b": [{"d": 1}]}});
        let a = ConfigValue::root(&document).fields(&["a"]).unwrap().get("a");
        let b = a.fields(&["b"]).unwrap().get("b").list().unwrap();
        let error = b[0].fields(&["c", "e"]).err().unwrap();
        assert_eq!(
            (error.path.as_str(), error.reason.as_str()),
            ("a.b[0].d", "unknown field; expected c, e")
        );
    }

    #[test]
    fn null_equals_absent() {
        let null = ConfigValue::root(&Value::Null);
        assert_eq!(null.text(), Ok(None));
        assert_eq!(null.flag(), Ok(None));
        assert_eq!(null.int32(), Ok(None));
        assert_eq!(null.duration(), Ok(None));
        assert!(null.list().unwrap().is_empty());
        assert!(null.fields(&[]).unwrap().get("x").non_null().is_none());
    }

    #[test]
    fn integers_have_no_decimal_point_and_a_range() {
        assert_eq!(ConfigValue::root(&json!(2147483647)).int32(), Ok(Some(i32::MAX)));
        assert!(ConfigValue::root(&json!(2147483648u32)).int32().is_err());
        assert!(ConfigValue::root(&json!(u64::MAX)).int64().is_err());
        assert!(ConfigValue::root(&json!(1.0)).int64().is_err());
        assert!(ConfigValue::root(&json!("1")).int64().is_err());
    }
}
