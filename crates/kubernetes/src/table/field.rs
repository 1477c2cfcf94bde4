//! Access to JSON fields that may be missing, null or of the wrong type: all three read as absent.

use jiff::Timestamp;
use model::Moment;
use serde::Deserialize;
use serde_json::Value;

use crate::quantity::Quantity;

/// The zero `time.Time` of Go, which Kubernetes treats as unset.
const GO_ZERO_TIME: i64 = -62_135_596_800;

/// A position in an object, whether or not it has a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonField<'a>(Option<&'a Value>);

impl<'a> JsonField<'a> {
    pub(super) fn of(value: &'a Value) -> JsonField<'a> {
        JsonField(Some(value))
    }

    /// The field at a path: `spec.nodeName`.
    pub(super) fn at(self, path: &str) -> JsonField<'a> {
        path.split('.').fold(self, JsonField::key)
    }

    /// The field of a name that may contain dots.
    pub(super) fn key(self, name: &str) -> JsonField<'a> {
        JsonField(self.0.and_then(|value| value.get(name)))
    }

    /// Whether it has a value other than null.
    pub(super) fn is_set(self) -> bool {
        self.0.is_some_and(|value| !value.is_null())
    }

    pub(super) fn maybe_text(self) -> Option<&'a str> {
        self.0.and_then(Value::as_str)
    }

    pub(super) fn text(self) -> &'a str {
        self.maybe_text().unwrap_or_default()
    }

    /// The text, or `fallback` if it is empty.
    pub(super) fn text_or(self, fallback: &'a str) -> &'a str {
        self.maybe_text().filter(|text| !text.is_empty()).unwrap_or(fallback)
    }

    pub(super) fn maybe_int(self) -> Option<i64> {
        self.0.and_then(Value::as_i64)
    }

    pub(super) fn int(self) -> i64 {
        self.maybe_int().unwrap_or_default()
    }

    pub(super) fn maybe_bool(self) -> Option<bool> {
        self.0.and_then(Value::as_bool)
    }

    pub(super) fn is_true(self) -> bool {
        self.maybe_bool().unwrap_or_default()
    }

    /// The entries of a list.
    pub(super) fn items(self) -> impl DoubleEndedIterator<Item = JsonField<'a>> + ExactSizeIterator {
        self.0.and_then(Value::as_array).map_or(&[][..], Vec::as_slice).iter().map(JsonField::of)
    }

    /// The strings of a list.
    pub(super) fn texts(self) -> impl Iterator<Item = &'a str> {
        self.items().map(JsonField::text)
    }

    /// The keys and strings of a map, sorted by key.
    pub(super) fn entries(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let entries = self.0.and_then(Value::as_object).into_iter().flatten();
        entries.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
    }

    /// The number of entries of a list or a map.
    pub(super) fn count(self) -> i64 {
        let count = self.0.map_or(0, |value| match value {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        });
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// The time, saturating at the range of a moment.
    pub(super) fn time(self) -> Option<Moment> {
        self.timestamp().map(Moment::from)
    }

    pub(super) fn timestamp(self) -> Option<Timestamp> {
        let time: Timestamp = self.maybe_text()?.parse().ok()?;
        (time.as_second() != GO_ZERO_TIME || time.subsec_nanosecond() != 0).then_some(time)
    }

    /// The quantity in Kubernetes' canonical form.
    pub(super) fn quantity(self) -> Option<String> {
        self.read::<Quantity>().map(|quantity| quantity.to_string())
    }

    /// The value deserialized as a type.
    pub(super) fn read<T: Deserialize<'a>>(self) -> Option<T> {
        T::deserialize(self.0.filter(|value| !value.is_null())?).ok()
    }
}
