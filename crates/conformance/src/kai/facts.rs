//! Facts of an outcome: its leaves by their paths, where lists of pods are sorted and new GPU groups have names that do
//! not depend on their numbers.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// The leaves of an outcome, by path.
pub type Leaves = BTreeMap<String, Fact>;

/// A leaf of an outcome.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// An amount.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// The beginning of the names of new GPU groups.
const NEW_GROUP: &str = "new-";

/// The facts of an outcome.
pub(super) fn facts_of(outcome: &Value) -> Leaves {
    let groups = new_groups(outcome);
    let mut facts = Leaves::new();
    add(&mut facts, "", outcome, &groups);
    facts
}

/// Whether a fact is left out of a vector if the real scheduler's answers differed.
pub(super) fn is_optional(path: &str) -> bool {
    is_text(path) || path.ends_with("/source") || path.ends_with("/order")
}

/// Whether a fact is the text of a message or of a reason.
pub(super) fn is_text(path: &str) -> bool {
    path.ends_with("/message") || path.ends_with("/reasons")
}

// === impl Fact ===

impl Fact {
    /// Whether they are equal, amounts within a tolerance.
    pub fn is_near(&self, other: &Fact, tolerance: f64) -> bool {
        match (self, other) {
            (Fact::Number(ours), Fact::Number(theirs)) => (ours - theirs).abs() <= tolerance,
            (ours, theirs) => ours == theirs,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Number(number) => write!(f, "{number}"),
            Fact::Text(text) => f.write_str(text),
        }
    }
}

fn add(facts: &mut Leaves, path: &str, value: &Value, groups: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                add(facts, &format!("{path}/{name}"), value, groups);
            }
        }
        Value::Array(items) if items.iter().all(Value::is_string) => {
            // An empty list is the same as none.
            if items.is_empty() {
                return;
            }
            let mut texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            if path.ends_with("/gpuGroups") {
                texts = texts.iter().map(|name| groups.get(*name).map_or(*name, |name| name)).collect();
                texts.sort_unstable();
            }
            facts.insert(path.to_owned(), Fact::Text(texts.join(" | ")));
        }
        Value::Array(items) => {
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            for (index, item) in items.iter().enumerate() {
                let key = item["pod"].as_str().map_or_else(|| format!("#{index}"), str::to_owned);
                // A pod may be evicted twice.
                let count = seen.entry(key.clone()).or_default();
                *count += 1;
                let key = if *count == 1 { key } else { format!("{key}#{count}") };
                facts.insert(format!("{path}/[{key}]"), Fact::Text("is listed".to_owned()));
                add(facts, &format!("{path}/[{key}]"), item, groups);
            }
        }
        Value::Number(number) => {
            facts.insert(path.to_owned(), Fact::Number(number.as_f64().unwrap_or(f64::NAN)));
        }
        Value::String(text) => drop(facts.insert(path.to_owned(), Fact::Text(text.clone()))),
        Value::Bool(value) => drop(facts.insert(path.to_owned(), Fact::Text(value.to_string()))),
        Value::Null => {}
    }
}

/// Names for new GPU groups: where they are used.
fn new_groups(outcome: &Value) -> BTreeMap<String, String> {
    let mut uses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (index, action) in outcome["actions"].as_array().into_iter().flatten().enumerate() {
        for list in ["bound", "pipelined"] {
            for placement in action[list].as_array().into_iter().flatten() {
                let pod = placement["pod"].as_str().unwrap_or_default();
                for group in placement["gpuGroups"].as_array().into_iter().flatten() {
                    if let Some(name) = group.as_str().filter(|name| name.starts_with(NEW_GROUP)) {
                        uses.entry(name.to_owned()).or_default().push(format!("{index} {list} {pod}"));
                    }
                }
            }
        }
    }
    let names = uses.into_iter().map(|(name, mut uses)| {
        uses.sort_unstable();
        (name, format!("new group of {}", uses.join(", ")))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn outcome(groups: [&[&str]; 2]) -> Value {
        let placement = |pod: &str, groups: &[&str]| json!({"pod": pod, "node": "n", "gpuGroups": groups});
        json!({"actions": [{"bound": [placement("a", groups[0]), placement("b", groups[1])]}]})
    }

    #[test]
    fn new_groups_are_equal_up_to_their_numbers() {
        let one = facts_of(&outcome([&["new-0", "new-1"], &["new-0"]]));
        assert_eq!(one, facts_of(&outcome([&["new-0", "new-1"], &["new-1"]])));
        assert_ne!(one, facts_of(&outcome([&["new-0", "new-1"], &["new-2"]])));
        assert_ne!(one, facts_of(&outcome([&["new-0", "grp-1"], &["new-0"]])));
    }

    #[test]
    fn amounts_are_compared_with_a_tolerance() {
        assert!(Fact::Number(1.0).is_near(&Fact::Number(1.0005), 1e-3));
        assert!(!Fact::Number(1.0).is_near(&Fact::Number(1.01), 1e-3));
        assert!(!Fact::Number(1.0).is_near(&Fact::Text("1".to_owned()), 1e-3));
    }

    #[test]
    fn a_pod_that_is_evicted_twice_is_listed_twice() {
        let facts = facts_of(&json!({"evicted": [{"pod": "a"}, {"pod": "a"}]}));
        assert!(facts.contains_key("/evicted/[a]") && facts.contains_key("/evicted/[a#2]"));
    }
}
