//! A shift of all times in objects, so that clients that count ages themselves show those of the past.

use model::{Moment, Object};
use serde_json::Value;

/// Moves times by a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeShift {
    nanos: i64,
}

/// The shortest text of a time: `2026-11-02T14:20:00Z`.
const MIN_LENGTH: usize = 20;
const MAX_LENGTH: usize = 35;

impl TimeShift {
    /// Moves one moment to another.
    pub(crate) fn between(from: Moment, to: Moment) -> TimeShift {
        TimeShift { nanos: to.nanos().saturating_sub(from.nanos()) }
    }

    /// The moment, moved.
    pub(crate) fn moved_moment(self, moment: Moment) -> Moment {
        moment.plus_nanos(self.nanos)
    }

    /// The object with all its times moved.
    pub(crate) fn apply(self, object: &Object) -> Object {
        let Ok(mut value) = object.value() else { return object.clone() };
        self.apply_to(&mut value);
        Object::parse(&value.to_string()).unwrap_or_else(|_| object.clone())
    }

    fn apply_to(self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(moved) = self.moved(text) {
                    *text = moved;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply_to(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.apply_to(field)),
            _ => {}
        }
    }

    /// A text that is a time, moved, with as many digits of a second as it had.
    fn moved(self, text: &str) -> Option<String> {
        let is_time = (MIN_LENGTH..=MAX_LENGTH).contains(&text.len())
            && text.as_bytes().get(10) == Some(&b'T')
            && text.ends_with('Z');
        let moment: Moment = text.parse().ok().filter(|_| is_time)?;
        let moved = self.moved_moment(moment);
        Some(match text.split_once('.').map(|(_, digits)| digits.len() - 1) {
            None => kubernetes::time::whole_second(moved).to_string(),
            Some(6) => kubernetes::time::micro_time(moved),
            Some(_) => moved.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_move_and_other_texts_stay() {
        let from: Moment = "2026-11-02T14:20:00Z".parse().unwrap();
        let shift = TimeShift::between(from, "2026-11-09T15:20:00.5Z".parse().unwrap());
        let moved = |text: &str| shift.moved(text);
        assert_eq!(moved("2026-11-01T00:00:00Z").as_deref(), Some("2026-11-08T01:00:00Z"));
        assert_eq!(moved("2026-11-01T00:00:00.250000Z").as_deref(), Some("2026-11-08T01:00:00.750000Z"));
        for text in ["2026-11-01", "nginx:1.27", "2026-11-01 00:00:00Z____", "Tuesday, T and some moreZ"] {
            assert_eq!(moved(text), None, "{text}");
        }
    }

    #[test]
    fn all_times_of_an_object_move() {
        let shift = TimeShift { nanos: 60_000_000_000 };
        let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","creationTimestamp":"2026-11-01T00:00:00Z"},"status":{"conditions":[{"lastTransitionTime":"2026-11-01T00:00:10Z"}]}}"#;
        let moved = shift.apply(&Object::parse(text).unwrap()).value().unwrap();
        assert_eq!(moved["metadata"]["creationTimestamp"], "2026-11-01T00:01:00Z");
        assert_eq!(moved["status"]["conditions"][0]["lastTransitionTime"], "2026-11-01T00:01:10Z");
    }
}
