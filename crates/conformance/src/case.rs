//! Scheduler cases: a cluster, pending pods, and the real scheduler's outcome for each.

use model::Object;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{LineCase, SchedulingOutcome};

/// A cluster, pending pods, and the real scheduler's outcome for each.
#[derive(Clone, Debug)]
pub struct SchedulerCase {
    /// Its name.
    pub id: String,
    /// The group of cases it belongs to.
    pub family: String,
    /// The scheduler's configuration; `None` for the defaults.
    pub config: Option<Value>,
    /// All objects except the pending pods, in the order of insertion.
    pub objects: Vec<Object>,
    /// The pods to schedule, in order. A pod that occurs again is attempted again.
    pub pending: Vec<Object>,
    /// Whether preemption clears the nominations of lower-priority pods on that node, as it does in a cluster.
    pub clears_nominations: bool,
    /// The outcome of each attempt.
    pub expect: Vec<SchedulingOutcome>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CaseLine<'a> {
    id: String,
    family: String,
    config: Option<Value>,
    #[serde(borrow, deserialize_with = "or_empty")]
    objects: Vec<&'a RawValue>,
    #[serde(borrow, deserialize_with = "or_empty")]
    pending: Vec<&'a RawValue>,
    #[serde(default)]
    clears_nominations: bool,
    #[serde(deserialize_with = "or_empty")]
    expect: Vec<SchedulingOutcome>,
}

// === impl SchedulerCase ===

impl LineCase for SchedulerCase {
    fn parse(line: &str) -> std::result::Result<SchedulerCase, String> {
        let CaseLine { id, family, config, objects, pending, clears_nominations, expect } =
            serde_json::from_str(line).map_err(|error| format!("not a case: {error}"))?;
        let parse = |name: &str, texts: Vec<&RawValue>| {
            let texts = texts.into_iter().enumerate();
            let objects = texts.map(|(index, text)| {
                Object::parse(text.get()).map_err(|error| format!("{id}: {name}[{index}]: {error}"))
            });
            objects.collect::<std::result::Result<Vec<Object>, String>>()
        };
        let (objects, pending) = (parse("objects", objects)?, parse("pending", pending)?);
        if pending.len() != expect.len() {
            return Err(format!("{id}: {} attempts, but {} outcomes", pending.len(), expect.len()));
        }
        for (pod, outcome) in pending.iter().zip(&expect) {
            let meta = pod.meta();
            let name = format!("{}/{}", meta.namespace, meta.name);
            if name != outcome.pod {
                return Err(format!("{id}: an attempt at {name}, but an outcome of {}", outcome.pod));
            }
        }
        Ok(SchedulerCase { id, family, config, objects, pending, clears_nominations, expect })
    }
}

/// Go prints an empty list as null.
fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaseReader, JsonLines};

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b"}}"#;

    #[track_caller]
    fn assert_rejected(line: &str, because: &str) {
        let error = SchedulerCase::parse(line).expect_err(line);
        assert!(error.contains(because), "{error:?} should say {because:?}");
    }

    #[test]
    fn an_invalid_case_is_rejected_with_the_reason() {
        let whole = format!(
            r#"{{"id":"x-1","family":"x","objects":null,"pending":[{POD}],"expect":[{{"pod":"b/a","node":"n"}}]}}"#
        );
        assert_eq!(SchedulerCase::parse(&whole).unwrap().expect[0].node.as_deref(), Some("n"));
        assert_rejected(&whole[..whole.len() - 1], "EOF");
        assert_rejected(&whole.replace("node", "nods"), "unknown field `nods`");
        assert_rejected(&whole.replace("b/a", "b/c"), "an attempt at b/a, but an outcome of b/c");
        assert_rejected(
            &whole.replace(r#""expect":["#, r#""expect":[{"pod":"b/a"},"#),
            "1 attempts, but 2 outcomes",
        );
        assert_rejected(&whole.replace(r#""kind":"Pod","#, ""), "pending[0]");
    }

    #[test]
    fn a_file_without_a_case_is_rejected() {
        let mut cases = CaseReader::<SchedulerCase>::new(JsonLines::from_reader("empty.jsonl", &b"\n"[..]));
        assert_eq!(cases.read().unwrap_err().to_string(), "empty.jsonl holds no case");
    }
}
