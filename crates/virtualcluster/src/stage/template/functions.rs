//! The functions of templates: those of Go, of sprig and of KWOK that its stages use.

use serde_json::{Map, Value, json};

use super::{TemplateError, TemplateValue};
use crate::node_conditions::kubelet_conditions;

/// A function of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// The first argument that is true, else the last one.
    Or,
    Not,
    Eq,
    Index,
    Printf,
    /// sprig's: a map of its arguments.
    Dict,
    /// KWOK's: a text in double quotes.
    Quote,
    /// KWOK's: a value as YAML, indented.
    Yaml,
    /// KWOK's: the conditions of a healthy node.
    NodeConditions,
    Cluster(ClusterFunction),
}

/// A function whose result depends on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are KWOK's")]
pub(crate) enum ClusterFunction {
    Now,
    Version,
    NodeIp,
    NodeName,
    NodePort,
    NodeIpWith,
    NodeIpsWith,
    PodIpWith,
    PodIpsWith,
}

/// The functions whose results depend on the cluster.
pub(crate) trait ClusterFunctions {
    /// Calls a function.
    fn call(&self, function: ClusterFunction, arguments: &[TemplateValue<'_>]) -> TemplateValue<'static>;
}

/// The names of functions, and the smallest and the largest number of their arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 18] = [
    ("or", Function::Or, 1, usize::MAX),
    ("not", Function::Not, 1, 1),
    ("eq", Function::Eq, 2, usize::MAX),
    ("index", Function::Index, 1, usize::MAX),
    ("printf", Function::Printf, 1, usize::MAX),
    ("dict", Function::Dict, 0, usize::MAX),
    ("Quote", Function::Quote, 1, 1),
    ("YAML", Function::Yaml, 1, 2),
    ("NodeConditions", Function::NodeConditions, 0, 0),
    ("Now", Function::Cluster(ClusterFunction::Now), 0, 0),
    ("Version", Function::Cluster(ClusterFunction::Version), 0, 0),
    ("NodeIP", Function::Cluster(ClusterFunction::NodeIp), 0, 0),
    ("NodeName", Function::Cluster(ClusterFunction::NodeName), 0, 0),
    ("NodePort", Function::Cluster(ClusterFunction::NodePort), 0, 0),
    ("NodeIPWith", Function::Cluster(ClusterFunction::NodeIpWith), 1, 1),
    ("NodeIPsWith", Function::Cluster(ClusterFunction::NodeIpsWith), 1, 1),
    ("PodIPWith", Function::Cluster(ClusterFunction::PodIpWith), 5, 5),
    ("PodIPsWith", Function::Cluster(ClusterFunction::PodIpsWith), 5, 5),
];

impl Function {
    pub(super) fn named(name: &str) -> Option<Function> {
        FUNCTIONS.iter().find(|(known, ..)| *known == name).map(|(_, function, ..)| *function)
    }

    /// The names of all functions.
    pub(super) fn names() -> String {
        FUNCTIONS.map(|(name, ..)| name).join(", ")
    }

    fn entry(self) -> (&'static str, usize, usize) {
        let entry = FUNCTIONS.iter().find(|(_, function, ..)| *function == self);
        entry.map(|(name, _, min, max)| (*name, *min, *max)).expect("every function has an entry")
    }

    /// Calls it.
    pub(super) fn call<'v>(
        self,
        arguments: &[TemplateValue<'v>],
        cluster: &dyn ClusterFunctions,
    ) -> Result<TemplateValue<'v>, TemplateError> {
        let (name, min, max) = self.entry();
        if !(min..=max).contains(&arguments.len()) {
            return Err(TemplateError(format!("wrong number of arguments of {name}: {}", arguments.len())));
        }
        match self {
            Function::Or => {
                let first = arguments.iter().find(|argument| argument.is_true());
                Ok(first.or(arguments.last()).cloned().unwrap_or(TemplateValue::Nil))
            }
            Function::Not => Ok(TemplateValue::owned(!arguments[0].is_true())),
            Function::Eq => {
                let mut is_equal = false;
                for other in &arguments[1..] {
                    is_equal |= arguments[0].is_equal(other)?;
                }
                Ok(TemplateValue::owned(is_equal))
            }
            Function::Index => {
                let mut value = arguments[0].clone();
                for index in &arguments[1..] {
                    value = value.element(index)?;
                }
                Ok(value)
            }
            Function::Printf => printf(arguments).map(TemplateValue::owned),
            Function::Dict => dict(arguments),
            Function::Quote => Ok(TemplateValue::owned(quote(&arguments[0]))),
            Function::Yaml => yaml(arguments).map(TemplateValue::owned),
            Function::NodeConditions => Ok(TemplateValue::owned(node_conditions())),
            Function::Cluster(function) => Ok(cluster.call(function, arguments)),
        }
    }
}

/// Go's formatting, for the verbs of texts, numbers and values.
fn printf(arguments: &[TemplateValue<'_>]) -> Result<String, TemplateError> {
    let format = arguments[0].as_text().ok_or_else(|| {
        TemplateError(format!("the format of printf is {}: expected a text", arguments[0].describe()))
    })?;
    let mut values = arguments[1..].iter();
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('%') => text.push('%'),
            Some('s' | 'd' | 'v') => {
                let value = values
                    .next()
                    .ok_or_else(|| TemplateError(format!("printf {format:?}: a value is missing")))?;
                text.push_str(&value.text()?);
            }
            verb => {
                let verb = verb.map(String::from).unwrap_or_default();
                return Err(TemplateError(format!(
                    "printf {format:?}: %{verb} is not supported: expected %s, %d or %v"
                )));
            }
        }
    }
    if values.next().is_some() {
        return Err(TemplateError(format!("printf {format:?} has more values than verbs")));
    }
    Ok(text)
}

fn dict<'v>(arguments: &[TemplateValue<'v>]) -> Result<TemplateValue<'v>, TemplateError> {
    let mut fields = Map::new();
    for pair in arguments.chunks(2) {
        let key =
            pair[0].as_text().ok_or_else(|| TemplateError("the keys of dict must be texts".to_owned()))?;
        fields.insert(key.to_owned(), pair.get(1).map_or(Value::from(""), TemplateValue::to_json));
    }
    Ok(TemplateValue::owned(fields))
}

/// A text in double quotes; other values as the text of their JSON.
fn quote(value: &TemplateValue<'_>) -> String {
    match value.as_text() {
        Some(text) => Value::from(text).to_string(),
        None => Value::from(value.to_json().to_string()).to_string(),
    }
}

fn yaml(arguments: &[TemplateValue<'_>]) -> Result<String, TemplateError> {
    let text = formats::manifests::to_yaml(&arguments[0].to_json());
    let text = format!("{}\n", text.trim_end());
    match arguments.get(1) {
        None => Ok(text),
        Some(TemplateValue::Integer(indent)) if (0..=64).contains(indent) => {
            let pad = format!("\n{}", "  ".repeat(usize::try_from(*indent).unwrap_or(0)));
            Ok(if *indent == 0 { text } else { format!("\n{text}").replace('\n', &pad) })
        }
        Some(other) => Err(TemplateError(format!(
            "the indent of YAML is {}: expected a number up to 64",
            other.describe()
        ))),
    }
}

/// The conditions of a node whose network works too.
fn node_conditions() -> Value {
    let mut conditions = kubelet_conditions();
    conditions.push(json!({
        "type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated",
        "message": "RouteController created a route",
    }));
    conditions.into()
}
