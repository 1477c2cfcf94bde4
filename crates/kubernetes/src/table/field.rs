//! Reading objects whose fields may be missing, null or of the wrong type: all three read as if nothing were there.

use jiff::Timestamp;
use model::Moment;
use serde::Deserialize;
use serde_json::Value;

use crate::quantity::Quantity;

/// The second in which Go's calendar begins: Kubernetes takes that time for none.
const NO_TIME: i64 = -62_135_596_800;

/// A place in an object, whether or not there is anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a>(Option<&'a Value>);

impl<'a> Field<'a> {
    pub(super) fn of(value: &'a Value) -> Field<'a> {
        Field(Some(value))
    }

    /// The field at a path of names: `spec.nodeName`.
    pub(super) fn at(self, path: &str) -> Field<'a> {
        path.split('.').fold(self, Field::key)
    }

    /// The field of a name that may have dots in it.
    pub(super) fn key(self, name: &str) -> Field<'a> {
        Field(self.0.and_then(|value| value.get(name)))
    }

    /// Whether there is anything but null.
    pub(super) fn is_set(self) -> bool {
        self.0.is_some_and(|value| !value.is_null())
    }

    pub(super) fn maybe_text(self) -> Option<&'a str> {
        self.0.and_then(Value::as_str)
    }

    pub(super) fn text(self) -> &'a str {
        self.maybe_text().unwrap_or_default()
    }

    /// The text, or this where it is empty.
    pub(super) fn text_or(self, fallback: &'a str) -> &'a str {
        self.maybe_text().filter(|text| !text.is_empty()).unwrap_or(fallback)
    }

    pub(super) fn maybe_int(self) -> Option<i64> {
        self.0.and_then(Value::as_i64)
    }

    pub(super) fn int(self) -> i64 {
        self.maybe_int().unwrap_or_default()
    }

    pub(super) fn maybe_truth(self) -> Option<bool> {
        self.0.and_then(Value::as_bool)
    }

    pub(super) fn truth(self) -> bool {
        self.maybe_truth().unwrap_or_default()
    }

    /// The entries of a list.
    pub(super) fn items(self) -> impl DoubleEndedIterator<Item = Field<'a>> + ExactSizeIterator {
        self.0.and_then(Value::as_array).map_or(&[][..], Vec::as_slice).iter().map(Field::of)
    }

    /// The texts of a list.
    pub(super) fn texts(self) -> impl Iterator<Item = &'a str> {
        self.items().map(Field::text)
    }

    /// The names and texts of a map, sorted by name.
    pub(super) fn entries(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let entries = self.0.and_then(Value::as_object).into_iter().flatten();
        entries.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
    }

    /// How many entries a list or a map has.
    pub(super) fn count(self) -> i64 {
        let count = self.0.map_or(0, |value| match value {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        });
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// The time; those too far off for a moment are the first or the last one.
    pub(super) fn time(self) -> Option<Moment> {
        self.timestamp().map(Moment::from)
    }

    pub(super) fn timestamp(self) -> Option<Timestamp> {
        let time: Timestamp = self.maybe_text()?.parse().ok()?;
        (time.as_second() != NO_TIME || time.subsec_nanosecond() != 0).then_some(time)
    }

    /// The amount as Kubernetes writes it, whatever form it has here.
    pub(super) fn amount(self) -> Option<String> {
        self.read::<Quantity>().map(|quantity| quantity.to_string())
    }

    /// All of it as some type.
    pub(super) fn read<T: Deserialize<'a>>(self) -> Option<T> {
        T::deserialize(self.0.filter(|value| !value.is_null())?).ok()
    }
}
