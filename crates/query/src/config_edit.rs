//! Edits of configurations: `--set path=value`.
//!
//! The path is a path in the document. The result is validated as strictly as a file: an unknown field is an error that
//! names the known ones.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use serde_json::{Map, Value};

/// A path in a configuration and its new value.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigEdit {
    /// The configuration to edit.
    pub root: ConfigRoot,
    path: Vec<PathSegment>,
    value: Value,
    /// The value as it was written.
    pub value_text: String,
    /// The whole edit as it was written.
    text: String,
}

/// A configuration that can be edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigRoot {
    /// The KubeSchedulerConfiguration.
    Scheduler,
    /// The groups of `--node-groups`, by name.
    NodeGroups,
    /// The autoscaler's flags.
    Autoscaler,
}

/// A segment of a path.
#[derive(Clone, Debug, Default, PartialEq)]
struct PathSegment {
    name: String,
    /// Whether it was written in brackets: where the document has nothing yet, a list is created.
    in_brackets: bool,
}

const ROOTS: [(&str, ConfigRoot); 3] = [
    ("scheduler", ConfigRoot::Scheduler),
    ("nodeGroups", ConfigRoot::NodeGroups),
    ("autoscaler", ConfigRoot::Autoscaler),
];

// === impl ConfigEdit ===

impl ConfigEdit {
    /// Applies it to a document. Missing parents are created.
    pub fn apply(&self, document: &mut Value) -> anyhow::Result<()> {
        let mut target = document;
        for step in &self.path {
            target = step.descend(target).with_context(|| self.to_string())?;
        }
        *target = self.value.clone();
        Ok(())
    }

    /// Applies it to a list, where the first segment must name an existing member.
    pub fn apply_to_member(&self, list: &mut Value, member_kind: &str) -> anyhow::Result<()> {
        let Some(first) = self.path.first().filter(|_| self.path.len() > 1) else {
            bail!(
                "{self}: expected the name of a {member_kind} and a field of it, as in nodeGroups.NAME.max=20"
            );
        };
        let members = list.as_array().map(Vec::as_slice).unwrap_or_default();
        if first.index_in(members).is_none() {
            let names: Vec<&str> = members.iter().filter_map(member_name).collect();
            match &names[..] {
                [] => bail!("{self}: there are no {member_kind}s"),
                names => {
                    bail!("{self}: {member_kind} {:?} not found; available: {}", first.name, names.join(", "))
                }
            }
        }
        self.apply(list)
    }

    /// The flag it sets, as on a command line.
    pub fn flag(&self) -> anyhow::Result<String> {
        let [PathSegment { name: flag_name, .. }] = &self.path[..] else {
            bail!("{self}: expected autoscaler.FLAG=VALUE");
        };
        let value = match &self.value {
            Value::Array(values) => {
                let texts = values.iter().map(|value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                texts.collect::<Vec<_>>().join(",")
            }
            _ => self.value_text.clone(),
        };
        Ok(format!("--{flag_name}={value}"))
    }
}

impl FromStr for ConfigEdit {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<ConfigEdit> {
        let (path, value_text) = split_path_and_value(text)
            .context("expected PATH=VALUE, as in scheduler.percentageOfNodesToScore=50")?;
        let mut steps = parse_path(path)?.into_iter();
        let first = steps.next().unwrap_or_default();
        let Some((_, root)) = ROOTS.iter().find(|(name, _)| *name == first.name) else {
            let names: Vec<&str> = ROOTS.iter().map(|(name, _)| *name).collect();
            bail!("a path must start with one of {}, not with {:?}", names.join(", "), first.name);
        };
        let steps: Vec<PathSegment> = steps.collect();
        if steps.is_empty() {
            bail!("{path}: expected a field of it, as in scheduler.percentageOfNodesToScore=50");
        }
        let value = formats::manifests::parse_yaml(path, value_text)?;
        Ok(ConfigEdit {
            root: *root,
            path: steps,
            value,
            value_text: value_text.to_owned(),
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for ConfigEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// === impl PathSegment ===

impl PathSegment {
    fn descend<'v>(&self, target: &'v mut Value) -> anyhow::Result<&'v mut Value> {
        if target.is_null() {
            *target = if self.in_brackets { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
        }
        match target {
            Value::Object(fields) => Ok(fields.entry(self.name.clone()).or_insert(Value::Null)),
            Value::Array(members) => {
                let index = match (self.index_in(members), self.name.parse::<usize>()) {
                    (Some(index), _) => index,
                    (None, Ok(index)) if index > members.len() => {
                        bail!("index [{index}] is out of range: the next one is [{}]", members.len())
                    }
                    (None, Ok(index)) => {
                        members.push(Value::Object(Map::new()));
                        index
                    }
                    (None, Err(_)) => {
                        members.push(serde_json::json!({ "name": self.name }));
                        members.len() - 1
                    }
                };
                Ok(&mut members[index])
            }
            other => bail!("{other} is not an object and has no field {:?}", self.name),
        }
    }

    /// The index of the member it refers to, by number or by name.
    fn index_in(&self, members: &[Value]) -> Option<usize> {
        let by_number = self.name.parse().ok().filter(|index| *index < members.len());
        members.iter().position(|member| member_name(member) == Some(&self.name)).or(by_number)
    }
}

/// The name of a list's member.
fn member_name(member: &Value) -> Option<&str> {
    ["name", "schedulerName"].iter().find_map(|field| member[*field].as_str())
}

/// Splits an edit into path and value. An equals sign within brackets or quotes belongs to the path.
fn split_path_and_value(text: &str) -> Option<(&str, &str)> {
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

/// Parses a path such as `a.b[c]."d.e"`.
fn parse_path(path: &str) -> anyhow::Result<Vec<PathSegment>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (word, in_brackets, after) = if let Some(inner) = rest.strip_prefix('[') {
            let (word, after) = inner.split_once(']').with_context(|| format!("{path}: unclosed ["))?;
            (word, true, after)
        } else {
            let rest = rest.strip_prefix('.').filter(|_| !steps.is_empty()).unwrap_or(rest);
            match rest.strip_prefix('"') {
                Some(inner) => {
                    let (word, after) =
                        inner.split_once('"').with_context(|| format!("{path}: unclosed \""))?;
                    (word, false, after)
                }
                None => {
                    let end = rest.find(['.', '[']).unwrap_or(rest.len());
                    (&rest[..end], false, &rest[end..])
                }
            }
        };
        if word.is_empty() {
            bail!("{path}: empty field name; expected a path such as a.b.c or a[0].b");
        }
        steps.push(PathSegment { name: word.to_owned(), in_brackets });
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
        edit.parse::<ConfigEdit>().unwrap().apply(&mut document).unwrap();
        assert_eq!(document, expected, "{edit}");
    }

    #[track_caller]
    fn check_error(edit: &str, message: &str) {
        let error = format!("{:#}", edit.parse::<ConfigEdit>().unwrap_err());
        assert!(error.contains(message), "{edit}: {error}");
    }

    #[test]
    fn a_path_has_fields_numbers_and_names() {
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
    fn missing_parents_are_created() {
        check(
            json!({}),
            "scheduler.profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated",
            json!({"profiles": [{"pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            ]}]}),
        );
    }

    #[test]
    fn an_invalid_path_is_an_error() {
        check_error("scheduler.a", "expected PATH=VALUE");
        check_error(
            "kubelet.a=1",
            "a path must start with one of scheduler, nodeGroups, autoscaler, not with \"kubelet\"",
        );
        check_error("scheduler=1", "expected a field of it");
        check_error("scheduler.a[b=1", "expected PATH=VALUE");
        check_error("scheduler..a=1", "empty field name");
        let edit: ConfigEdit = "scheduler.a[3].b=1".parse().unwrap();
        let error = format!("{:#}", edit.apply(&mut json!({"a": [1]})).unwrap_err());
        assert_eq!(error, "scheduler.a[3].b=1: index [3] is out of range: the next one is [1]");
        let edit: ConfigEdit = "scheduler.a.b=1".parse().unwrap();
        let error = format!("{:#}", edit.apply(&mut json!({"a": 5})).unwrap_err());
        assert_eq!(error, "scheduler.a.b=1: 5 is not an object and has no field \"b\"");
        let edit: ConfigEdit = "nodeGroups.c.max=1".parse().unwrap();
        let groups = json!([{"name": "a"}, {"name": "b"}]);
        let error = edit.apply_to_member(&mut groups.clone(), "node group").unwrap_err().to_string();
        assert_eq!(error, "nodeGroups.c.max=1: node group \"c\" not found; available: a, b");
    }

    #[test]
    fn a_flag_is_written_as_on_a_command_line() {
        let flag = |text: &str| text.parse::<ConfigEdit>().unwrap().flag();
        assert_eq!(flag("autoscaler.scan-interval=10s").unwrap(), "--scan-interval=10s");
        assert_eq!(
            flag("autoscaler.expander=[priority, least-waste]").unwrap(),
            "--expander=priority,least-waste"
        );
        assert!(flag("autoscaler.a.b=1").is_err());
    }
}
