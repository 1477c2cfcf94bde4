//! `--set path=value`: one place of a configuration, set otherwise.
//!
//! The path is that of the document. What comes of it is read as strictly as a file would be: a field that there is not
//! is refused there, with those that there are.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use serde_json::{Map, Value};

/// One place of a configuration, and what is to stand there.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// Which configuration it is of.
    pub root: Root,
    steps: Vec<Step>,
    value: Value,
    /// The value as it was written.
    pub words: String,
    /// All of it as it was written.
    text: String,
}

/// Which configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The KubeSchedulerConfiguration.
    Scheduler,
    /// The groups of `--node-groups`, by name.
    NodeGroups,
    /// The autoscaler's flags.
    Autoscaler,
}

/// One step further into a document.
#[derive(Clone, Debug, Default, PartialEq)]
struct Step {
    word: String,
    /// Written in brackets: a member of a list where there is nothing yet.
    in_brackets: bool,
}

const ROOTS: [(&str, Root); 3] =
    [("scheduler", Root::Scheduler), ("nodeGroups", Root::NodeGroups), ("autoscaler", Root::Autoscaler)];

// === impl Edit ===

impl Edit {
    /// Sets it in a document. What is not there on the way is made.
    pub fn apply(&self, document: &mut Value) -> anyhow::Result<()> {
        let mut place = document;
        for step in &self.steps {
            place = step.into(place).with_context(|| self.to_string())?;
        }
        *place = self.value.clone();
        Ok(())
    }

    /// The same, where the first step must lead to something that is there.
    pub fn apply_to_one_of(&self, list: &mut Value, what: &str) -> anyhow::Result<()> {
        let Some(first) = self.steps.first().filter(|_| self.steps.len() > 1) else {
            bail!("{self}: name one {what} and a field of it, as in nodeGroups.NAME.max=20");
        };
        let members = list.as_array().map(Vec::as_slice).unwrap_or_default();
        if first.find(members).is_none() {
            let names: Vec<&str> = members.iter().filter_map(name).collect();
            match &names[..] {
                [] => bail!("{self}: there is no {what}"),
                names => {
                    bail!("{self}: there is no {what} {:?}; there are: {}", first.word, names.join(", "))
                }
            }
        }
        self.apply(list)
    }

    /// The flag it sets, as on a command line.
    pub fn flag(&self) -> anyhow::Result<String> {
        let [Step { word, .. }] = &self.steps[..] else {
            bail!("{self}: a flag has no parts: give autoscaler.NAME=VALUE");
        };
        let value = match &self.value {
            Value::Array(values) => {
                let words = values.iter().map(|value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                words.collect::<Vec<_>>().join(",")
            }
            _ => self.words.clone(),
        };
        Ok(format!("--{word}={value}"))
    }
}

impl FromStr for Edit {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Edit> {
        let (path, words) =
            split(text).context("give path=value, as in scheduler.percentageOfNodesToScore=50")?;
        let mut steps = steps(path)?.into_iter();
        let first = steps.next().unwrap_or_default();
        let Some((_, root)) = ROOTS.iter().find(|(name, _)| *name == first.word) else {
            let names: Vec<&str> = ROOTS.iter().map(|(name, _)| *name).collect();
            bail!("a path begins with one of {}, not with {:?}", names.join(", "), first.word);
        };
        let steps: Vec<Step> = steps.collect();
        if steps.is_empty() {
            bail!("{path} is all of it: name a field, as in scheduler.percentageOfNodesToScore=50");
        }
        let value = formats::manifests::of_yaml(path, words)?;
        Ok(Edit { root: *root, steps, value, words: words.to_owned(), text: text.to_owned() })
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// === impl Step ===

impl Step {
    fn into<'v>(&self, place: &'v mut Value) -> anyhow::Result<&'v mut Value> {
        if place.is_null() {
            *place = if self.in_brackets { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
        }
        match place {
            Value::Object(fields) => Ok(fields.entry(self.word.clone()).or_insert(Value::Null)),
            Value::Array(members) => {
                let index = match (self.find(members), self.word.parse::<usize>()) {
                    (Some(index), _) => index,
                    (None, Ok(index)) if index > members.len() => {
                        bail!("there are {} here: [{}] is the next", members.len(), members.len())
                    }
                    (None, Ok(index)) => {
                        members.push(Value::Object(Map::new()));
                        index
                    }
                    (None, Err(_)) => {
                        members.push(serde_json::json!({ "name": self.word }));
                        members.len() - 1
                    }
                };
                Ok(&mut members[index])
            }
            other => bail!("{other} has no {:?} in it", self.word),
        }
    }

    /// Which member of a list it means: by number or by name.
    fn find(&self, members: &[Value]) -> Option<usize> {
        let by_number = self.word.parse().ok().filter(|index| *index < members.len());
        members.iter().position(|member| name(member) == Some(&self.word)).or(by_number)
    }
}

/// What a member of a list is known by.
fn name(member: &Value) -> Option<&str> {
    ["name", "schedulerName"].iter().find_map(|field| member[*field].as_str())
}

/// The path and the value. An equals sign within brackets or quotes belongs to the path.
fn split(text: &str) -> Option<(&str, &str)> {
    let (mut quoted, mut depth) = (false, 0_usize);
    for (index, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth = depth.saturating_sub(1),
            '=' if !quoted && depth == 0 => return Some((&text[..index], &text[index + 1..])),
            _ => {}
        }
    }
    None
}

/// `a.b[c]."d.e"`.
fn steps(path: &str) -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (word, in_brackets, after) = if let Some(inner) = rest.strip_prefix('[') {
            let (word, after) =
                inner.split_once(']').with_context(|| format!("{path}: a [ is not closed"))?;
            (word, true, after)
        } else {
            let rest = rest.strip_prefix('.').filter(|_| !steps.is_empty()).unwrap_or(rest);
            match rest.strip_prefix('"') {
                Some(inner) => {
                    let (word, after) =
                        inner.split_once('"').with_context(|| format!("{path}: a \" is not closed"))?;
                    (word, false, after)
                }
                None => {
                    let end = rest.find(['.', '[']).unwrap_or(rest.len());
                    (&rest[..end], false, &rest[end..])
                }
            }
        };
        if word.is_empty() {
            bail!("{path}: a field has no name: write a.b.c, or a[0].b");
        }
        steps.push(Step { word: word.to_owned(), in_brackets });
        rest = after;
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: Value, edit: &str, expected: Value) {
        let mut document = before;
        edit.parse::<Edit>().unwrap().apply(&mut document).unwrap();
        assert_eq!(document, expected, "{edit}");
    }

    #[track_caller]
    fn refused(edit: &str, words: &str) {
        let error = format!("{:#}", edit.parse::<Edit>().unwrap_err());
        assert!(error.contains(words), "{edit}: {error}");
    }

    #[test]
    fn a_path_leads_through_fields_numbers_and_names() {
        check(json!({}), "scheduler.percentageOfNodesToScore=50", json!({"percentageOfNodesToScore": 50}));
        check(
            json!({"profiles": [{"pluginConfig": [{"name": "A"}, {"name": "B", "args": {"x": 1}}]}]}),
            "scheduler.profiles[0].pluginConfig[B].args.x=two",
            json!({"profiles": [{"pluginConfig": [{"name": "A"}, {"name": "B", "args": {"x": "two"}}]}]}),
        );
        check(
            json!([{"name": "a.b", "max": 1}]),
            "nodeGroups[a.b].max=3",
            json!([{"name": "a.b", "max": 3}]),
        );
        check(
            json!([{"name": "a.b", "max": 1}]),
            "nodeGroups.\"a.b\".max=3",
            json!([{"name": "a.b", "max": 3}]),
        );
        check(json!({}), "scheduler.a.\"b.c=d\"=[1, 2]", json!({"a": {"b.c=d": [1, 2]}}));
    }

    #[test]
    fn what_is_not_there_on_the_way_is_made() {
        check(
            json!({}),
            "scheduler.profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated",
            json!({"profiles": [{"pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            ]}]}),
        );
    }

    #[test]
    fn a_path_that_leads_nowhere_is_refused() {
        refused("scheduler.a", "give path=value");
        refused(
            "kubelet.a=1",
            "a path begins with one of scheduler, nodeGroups, autoscaler, not with \"kubelet\"",
        );
        refused("scheduler=1", "name a field");
        refused("scheduler.a[b=1", "give path=value");
        refused("scheduler..a=1", "a field has no name");
        let edit: Edit = "scheduler.a[3].b=1".parse().unwrap();
        let error = format!("{:#}", edit.apply(&mut json!({"a": [1]})).unwrap_err());
        assert_eq!(error, "scheduler.a[3].b=1: there are 1 here: [1] is the next");
        let edit: Edit = "scheduler.a.b=1".parse().unwrap();
        let error = format!("{:#}", edit.apply(&mut json!({"a": 5})).unwrap_err());
        assert_eq!(error, "scheduler.a.b=1: 5 has no \"b\" in it");
        let edit: Edit = "nodeGroups.c.max=1".parse().unwrap();
        let groups = json!([{"name": "a"}, {"name": "b"}]);
        let error = edit.apply_to_one_of(&mut groups.clone(), "node group").unwrap_err().to_string();
        assert_eq!(error, "nodeGroups.c.max=1: there is no node group \"c\"; there are: a, b");
    }

    #[test]
    fn a_flag_is_written_as_on_a_command_line() {
        let flag = |text: &str| text.parse::<Edit>().unwrap().flag();
        assert_eq!(flag("autoscaler.scan-interval=10s").unwrap(), "--scan-interval=10s");
        assert_eq!(
            flag("autoscaler.expander=[priority, least-waste]").unwrap(),
            "--expander=priority,least-waste"
        );
        assert!(flag("autoscaler.a.b=1").is_err());
    }
}
