//! Scheduler cases: a cluster, pending pods, and the real scheduler's outcome for each.

use model::Object;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{Error, Lines, Outcome, Result};

/// A cluster, pending pods, and the real scheduler's outcome for each.
#[derive(Clone, Debug)]
pub struct Case {
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
    pub expect: Vec<Outcome>,
}

/// Reads the cases of a file, one in memory at a time.
pub struct Cases {
    lines: Lines,
    count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line<'a> {
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
    expect: Vec<Outcome>,
}

// === impl Cases ===

impl Cases {
    /// Reads the cases from these lines.
    pub fn of(lines: Lines) -> Cases {
        Cases { lines, count: 0 }
    }

    /// The next case. A file without any is an error.
    pub fn read(&mut self) -> Result<Option<Case>> {
        let Some(line) = self.lines.read()? else {
            if self.count == 0 {
                return Err(Error::Empty { file: self.lines.file().to_owned(), what: "no case" });
            }
            return Ok(None);
        };
        self.count += 1;
        match Case::parse(line) {
            Ok(case) => Ok(Some(case)),
            Err(why) => Err(self.lines.bad(why)),
        }
    }
}

// === impl Case ===

impl Case {
    /// Reads a line; the error says what is wrong with it.
    pub fn parse(line: &str) -> std::result::Result<Case, String> {
        let Line { id, family, config, objects, pending, clears_nominations, expect } =
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
        Ok(Case { id, family, config, objects, pending, clears_nominations, expect })
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

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b"}}"#;

    #[track_caller]
    fn refused(line: &str, because: &str) {
        let error = Case::parse(line).expect_err(line);
        assert!(error.contains(because), "{error:?} should say {because:?}");
    }

    #[test]
    fn what_is_no_case_is_refused_with_the_reason() {
        let whole = format!(
            r#"{{"id":"x-1","family":"x","objects":null,"pending":[{POD}],"expect":[{{"pod":"b/a","node":"n"}}]}}"#
        );
        assert_eq!(Case::parse(&whole).unwrap().expect[0].node.as_deref(), Some("n"));
        refused(&whole[..whole.len() - 1], "EOF");
        refused(&whole.replace("node", "nods"), "unknown field `nods`");
        refused(&whole.replace("b/a", "b/c"), "an attempt at b/a, but an outcome of b/c");
        refused(&whole.replace(r#""expect":["#, r#""expect":[{"pod":"b/a"},"#), "1 attempts, but 2 outcomes");
        refused(&whole.replace(r#""kind":"Pod","#, ""), "pending[0]");
    }

    #[test]
    fn a_file_without_a_case_is_refused() {
        let mut cases = Cases::of(Lines::of("empty.jsonl", &b"\n"[..]));
        assert_eq!(cases.read().unwrap_err().to_string(), "empty.jsonl holds no case");
    }
}
