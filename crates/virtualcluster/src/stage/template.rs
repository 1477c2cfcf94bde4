//! The subset of Go's text templates that KWOK's stages use.

mod evaluation;
mod functions;
mod parsing;
mod value;

use serde_json::Value;

pub(crate) use functions::{ClusterFunction, ClusterFunctions};
pub(crate) use value::TemplateValue;

use evaluation::Evaluation;
use functions::Function;
use parsing::parse;

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    nodes: Vec<TemplateNode>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
enum TemplateNode {
    Text(String),
    Output(Pipeline),
    /// `$name := …`.
    Declare {
        name: String,
        value: Pipeline,
    },
    /// `$name = …`.
    Assign {
        name: String,
        value: Pipeline,
    },
    If {
        condition: Pipeline,
        body: Vec<TemplateNode>,
        otherwise: Vec<TemplateNode>,
    },
    /// `range`, with up to two variables: the index, and the item.
    Range {
        variables: Vec<String>,
        over: Pipeline,
        body: Vec<TemplateNode>,
        otherwise: Vec<TemplateNode>,
    },
    With {
        variable: Option<String>,
        value: Pipeline,
        body: Vec<TemplateNode>,
        otherwise: Vec<TemplateNode>,
    },
}

/// Commands, each with the result of the one before as its last argument.
#[derive(Clone, Debug, PartialEq)]
struct Pipeline(Vec<Command>);

/// A function and its arguments, or a value.
#[derive(Clone, Debug, PartialEq)]
enum Command {
    Call(Function, Vec<Operand>),
    Value(Operand),
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// `.a.b`: fields of the dot.
    Dot(Vec<String>),
    /// `$name.a.b`; the name is empty for `$`, which is the object.
    Variable(String, Vec<String>),
    Text(String),
    Integer(i64),
    Boolean(bool),
    Nil,
    /// A function without arguments.
    Call(Function),
    Pipeline(Pipeline, Vec<String>),
}

/// A template that cannot be parsed or rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct TemplateError(String);

impl Template {
    pub(super) fn parse(text: &str) -> Result<Template, TemplateError> {
        Ok(Template { nodes: parse(text.trim())? })
    }

    /// Renders the template of an object.
    pub(super) fn render(
        &self,
        object: &Value,
        functions: &dyn ClusterFunctions,
    ) -> Result<String, TemplateError> {
        Evaluation::new(object, functions).render(&self.nodes)
    }
}

#[cfg(test)]
mod tests;
