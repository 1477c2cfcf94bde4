//! The expander `priority`: priorities of groups by name patterns in a ConfigMap.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::super::super::decision::{Event, InvolvedObject};
use super::super::super::informer_cache::PRIORITY_CONFIG_MAP;
use super::super::super::{AutoscalingContext, yaml};
use super::ExpansionOption;

const PRIORITIES_KEY: &str = "priorities";

/// The highest priority by option index, for groups that match a pattern. Without scores nothing is filtered out.
pub(super) fn scores(
    context: &mut AutoscalingContext<'_>,
    candidates: &[ExpansionOption],
    remaining: &[usize],
) -> Vec<(usize, f64)> {
    let Some(data) = context.cluster.config_map(&context.settings.namespace, PRIORITY_CONFIG_MAP).cloned()
    else {
        return Vec::new();
    };
    if remaining.is_empty() {
        return Vec::new();
    }
    let mut warn = |reason: &'static str, message: String| {
        context.events.push(Event {
            involved_object: InvolvedObject::PriorityConfigMap,
            is_warning: true,
            reason,
            message,
        });
    };
    let priorities = match data.get(PRIORITIES_KEY) {
        Some(text) => parse_priorities(text)
            .map_err(|error| format!("Wrong configuration for priority expander: {error}. Ignoring update.")),
        None => Err(format!(
            "Wrong configmap for priority expander, doesn't contain {PRIORITIES_KEY} key. Ignoring update."
        )),
    };
    let priorities = match priorities {
        Ok(priorities) => priorities,
        Err(message) => {
            warn("PriorityConfigMapInvalid", message);
            return Vec::new();
        }
    };
    let mut scores = Vec::new();
    for &index in remaining {
        let name = &candidates[index].name;
        let matching =
            priorities.iter().rev().find(|(_, rules)| rules.iter().any(|rule| rule.is_match(name)));
        match matching {
            Some((priority, _)) => scores.push((index, *priority as f64)),
            None => warn(
                "PriorityConfigMapNotMatchedGroup",
                format!(
                    "Priority expander: node group {name} not found in priority expander configuration. \
                     The group won't be used."
                ),
            ),
        }
    }
    // Priorities below -1 are ignored.
    if scores.iter().all(|(_, priority)| *priority < -1.0) {
        let message = "Priority expander: no priorities info found for any of the expansion options. \
                       No options filtered.";
        warn("PriorityConfigMapNoGroupMatched", message.to_owned());
    }
    scores
}

/// The rules by priority, or cluster-autoscaler's error message.
fn parse_priorities(text: &str) -> Result<BTreeMap<i64, Vec<Regex>>, String> {
    if text.is_empty() {
        return Err(format!(
            "priority configuration in {PRIORITY_CONFIG_MAP} configmap is empty; please provide valid configuration"
        ));
    }
    let lists = parse_rule_lists(text)
        .map_err(|error| format!("Can't parse YAML with priorities in the configmap: {error}"))?;
    let mut priorities: BTreeMap<i64, Vec<Regex>> = BTreeMap::new();
    for (priority, list) in lists {
        for rule in list {
            let compiled = Regex::new(&rule).map_err(|error| {
                format!(
                    "Can't compile regexp rule for priority {priority} and rule {rule}: {}",
                    go_regexp_error(&rule, &error)
                )
            })?;
            priorities.entry(priority).or_default().push(compiled);
        }
    }
    Ok(priorities)
}

/// A map of integers to lists of strings, as Go reads YAML via JSON.
fn parse_rule_lists(text: &str) -> Result<BTreeMap<i64, Vec<String>>, String> {
    let document =
        yaml::parse(text).map_err(|error| format!("error converting YAML to JSON: yaml: {error}"))?;
    let type_error = |value: &Value, kind: &str| {
        let value_type = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        unmarshal_error(value_type, kind)
    };
    let map = match document {
        Value::Object(map) => map,
        Value::Null => return Ok(BTreeMap::new()),
        other => return Err(type_error(&other, "map[int][]string")),
    };
    let mut lists = BTreeMap::new();
    // Go keeps the first error in the order of the keys as strings, which is also this map's order.
    for (key, value) in &map {
        let list = match value {
            Value::Array(items) => items
                .iter()
                .map(|item| match item {
                    Value::Null => Ok(String::new()),
                    Value::String(text) => Ok(text.clone()),
                    Value::Bool(_) | Value::Number(_) => Ok(item.to_string()),
                    other => Err(type_error(other, "string")),
                })
                .collect::<Result<Vec<String>, String>>()?,
            Value::Null => Vec::new(),
            other => return Err(type_error(other, "[]string")),
        };
        let number = key.parse().map_err(|_| unmarshal_error(&format!("number {key}"), "int"))?;
        lists.insert(number, list);
    }
    Ok(lists)
}

fn unmarshal_error(value_type: &str, kind: &str) -> String {
    format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {value_type} into Go value of type {kind}"
    )
}

/// Go's message for the most common errors; for others the message of the regex library.
fn go_regexp_error(rule: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    match reason {
        "unclosed group" => format!("error parsing regexp: missing closing ): `{rule}`"),
        "unopened group" => format!("error parsing regexp: unexpected ): `{rule}`"),
        other => format!("error parsing regexp: {other}: `{rule}`"),
    }
}
