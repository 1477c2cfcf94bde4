//! Rendering of templates.

use std::borrow::Cow;

use serde_json::Value;

use super::{ClusterFunctions, Command, Operand, Pipeline, TemplateError, TemplateNode, TemplateValue};

/// The state of a rendering.
pub(super) struct Evaluation<'v> {
    object: &'v Value,
    functions: &'v dyn ClusterFunctions,
    /// Variables, the innermost last.
    variables: Vec<(String, TemplateValue<'v>)>,
    output: String,
    /// How many parts have been rendered.
    steps: usize,
}

/// The most parts that are rendered: loops in loops would multiply.
const MAX_STEPS: usize = 1_000_000;
/// The largest text, in bytes.
const MAX_OUTPUT: usize = 4 << 20;

impl<'v> Evaluation<'v> {
    pub(super) fn new(object: &'v Value, functions: &'v dyn ClusterFunctions) -> Evaluation<'v> {
        Evaluation { object, functions, variables: Vec::new(), output: String::new(), steps: 0 }
    }

    pub(super) fn render(mut self, nodes: &[TemplateNode]) -> Result<String, TemplateError> {
        let dot = TemplateValue::of(self.object);
        self.render_all(nodes, &dot)?;
        Ok(self.output)
    }

    /// Renders a block. Its variables end with it.
    fn render_all(&mut self, nodes: &[TemplateNode], dot: &TemplateValue<'v>) -> Result<(), TemplateError> {
        let outer = self.variables.len();
        for node in nodes {
            self.render_node(node, dot)?;
        }
        self.variables.truncate(outer);
        Ok(())
    }

    fn render_node(&mut self, node: &TemplateNode, dot: &TemplateValue<'v>) -> Result<(), TemplateError> {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.output.len() > MAX_OUTPUT {
            return Err(TemplateError("the template renders too much".to_owned()));
        }
        match node {
            TemplateNode::Text(text) => self.output.push_str(text),
            TemplateNode::Output(pipeline) => {
                let text = self.pipeline(pipeline, dot)?.text()?;
                self.output.push_str(&text);
            }
            TemplateNode::Declare { name, value } => {
                let value = self.pipeline(value, dot)?;
                self.variables.push((name.clone(), value));
            }
            TemplateNode::Assign { name, value } => {
                let value = self.pipeline(value, dot)?;
                let variable = self.variables.iter_mut().rev().find(|(known, _)| known == name);
                let (_, variable) = variable.ok_or_else(|| undefined(name))?;
                *variable = value;
            }
            TemplateNode::If { condition, body, otherwise } => {
                let is_true = self.pipeline(condition, dot)?.is_true();
                self.render_all(if is_true { body } else { otherwise }, dot)?;
            }
            TemplateNode::With { variable, value, body, otherwise } => {
                let value = self.pipeline(value, dot)?;
                let outer = self.variables.len();
                self.variables.extend(variable.iter().map(|name| (name.clone(), value.clone())));
                match value.is_true() {
                    true => self.render_all(body, &value)?,
                    false => self.render_all(otherwise, dot)?,
                }
                self.variables.truncate(outer);
            }
            TemplateNode::Range { variables, over, body, otherwise } => {
                let items = items(self.pipeline(over, dot)?)?;
                if items.is_empty() {
                    self.render_all(otherwise, dot)?;
                }
                for (index, item) in items {
                    let outer = self.variables.len();
                    let values = match variables.len() {
                        1 => vec![item.clone()],
                        _ => vec![index, item.clone()],
                    };
                    self.variables.extend(variables.iter().cloned().zip(values));
                    self.render_all(body, &item)?;
                    self.variables.truncate(outer);
                }
            }
        }
        Ok(())
    }

    fn pipeline(
        &self,
        pipeline: &Pipeline,
        dot: &TemplateValue<'v>,
    ) -> Result<TemplateValue<'v>, TemplateError> {
        let mut result: Option<TemplateValue<'v>> = None;
        for command in &pipeline.0 {
            result = Some(match command {
                Command::Value(operand) => self.operand(operand, dot)?,
                Command::Call(function, operands) => {
                    let mut arguments = Vec::with_capacity(operands.len() + 1);
                    for operand in operands {
                        arguments.push(self.operand(operand, dot)?);
                    }
                    arguments.extend(result.take());
                    function.call(&arguments, self.functions)?
                }
            });
        }
        Ok(result.unwrap_or(TemplateValue::Nil))
    }

    fn operand(
        &self,
        operand: &Operand,
        dot: &TemplateValue<'v>,
    ) -> Result<TemplateValue<'v>, TemplateError> {
        let (value, fields) = match operand {
            Operand::Dot(fields) => (dot.clone(), fields),
            Operand::Variable(name, fields) if name.is_empty() => (TemplateValue::of(self.object), fields),
            Operand::Variable(name, fields) => {
                let variable = self.variables.iter().rev().find(|(known, _)| known == name);
                (variable.ok_or_else(|| undefined(name))?.1.clone(), fields)
            }
            Operand::Pipeline(pipeline, fields) => (self.pipeline(pipeline, dot)?, fields),
            Operand::Text(text) => return Ok(TemplateValue::owned(text.as_str())),
            Operand::Integer(number) => return Ok(TemplateValue::Integer(*number)),
            Operand::Boolean(is_true) => return Ok(TemplateValue::owned(*is_true)),
            Operand::Nil => return Ok(TemplateValue::Nil),
            Operand::Call(function) => return function.call(&[], self.functions),
        };
        fields.iter().try_fold(value, |value, field| value.field(field))
    }
}

fn undefined(name: &str) -> TemplateError {
    TemplateError(format!("undefined variable ${name}"))
}

/// The items of a list with their indexes, or of a map with their keys.
fn items<'v>(value: TemplateValue<'v>) -> Result<Vec<(TemplateValue<'v>, TemplateValue<'v>)>, TemplateError> {
    let number = |index: usize| TemplateValue::Integer(i64::try_from(index).unwrap_or(i64::MAX));
    match value {
        TemplateValue::Nil => Ok(Vec::new()),
        TemplateValue::Json(Cow::Borrowed(Value::Array(items))) => Ok(items
            .iter()
            .enumerate()
            .map(|(index, item)| (number(index), TemplateValue::of(item)))
            .collect()),
        TemplateValue::Json(Cow::Owned(Value::Array(items))) => {
            let items = items.into_iter().enumerate();
            Ok(items.map(|(index, item)| (number(index), TemplateValue::owned(item))).collect())
        }
        TemplateValue::Json(Cow::Borrowed(Value::Object(fields))) => {
            let fields = fields.iter();
            Ok(fields
                .map(|(key, item)| (TemplateValue::owned(key.as_str()), TemplateValue::of(item)))
                .collect())
        }
        TemplateValue::Json(Cow::Owned(Value::Object(fields))) => {
            let fields = fields.into_iter();
            Ok(fields.map(|(key, item)| (TemplateValue::owned(key), TemplateValue::owned(item))).collect())
        }
        other => Err(TemplateError(format!("range cannot iterate over {}", other.describe()))),
    }
}
