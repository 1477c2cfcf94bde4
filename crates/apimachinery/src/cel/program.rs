//! Expressions that can be evaluated.

use std::sync::Arc;

use serde_json::Value as Json;

use super::checker::Checker;
use super::evaluation::Evaluation;
use super::node::Node;
use super::schema::{CelSchema, CelScope};
use super::syntax::{Issue, Parsed};
use super::types::CelType;
use super::value::{Failure, Outcome, Value};

/// An expression of checked types.
#[derive(Debug)]
pub struct CelProgram {
    root: Node,
    uses_old_self: bool,
}

/// The type that an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// True or false.
    Bool,
    /// A text.
    String,
}

/// Why a text is not an expression that can be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// It is not an expression, or its types do not fit; the text is cel-go's.
    Issues(String),
    /// It has another type.
    WrongType,
    /// A constant in it is not valid.
    Constant(String),
    /// It is one for Kubernetes, but uses something that is not known here, which the text names.
    Unsupported(String),
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum CelResult {
    /// True or false.
    Bool(bool),
    /// A text.
    String(String),
}

/// Why an evaluation has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvaluationError {
    /// An error, with cel-go's text.
    Failed(String),
    /// It costs more than one evaluation may.
    CostLimit,
}

/// The longest expression: those of one long sum have as many levels as terms.
const MAX_LENGTH: usize = 16 << 10;
/// What that needs, measured without optimization; only the pages that are used count.
const STACK_SIZE: usize = 512 << 20;
/// How deep an expression may be nested to be evaluated on any stack.
const MAX_DEPTH: usize = 128;

// === impl CelProgram ===

impl CelProgram {
    /// Compiles an expression.
    pub fn compile(text: &str, scope: &CelScope, expected: ResultType) -> Result<CelProgram, CompileError> {
        if text.len() > MAX_LENGTH {
            let why = format!("it is longer than {MAX_LENGTH} bytes");
            return Err(CompileError::Unsupported(why));
        }
        // The parser recurses with the nesting of the text.
        std::thread::scope(|threads| {
            let compile = || CelProgram::compile_here(text, scope, expected);
            let thread = std::thread::Builder::new().stack_size(STACK_SIZE).spawn_scoped(threads, compile);
            match thread.map(|thread| thread.join()) {
                Ok(Ok(compiled)) => compiled,
                Ok(Err(_)) | Err(_) => {
                    Err(CompileError::Unsupported("it cannot be parsed within the memory".to_owned()))
                }
            }
        })
    }

    fn compile_here(text: &str, scope: &CelScope, expected: ResultType) -> Result<CelProgram, CompileError> {
        let print = |issues| CompileError::Issues(Issue::print_all(issues, text));
        let parsed = Parsed::parse(text).map_err(print)?;
        let checked = Checker::check(&parsed, scope);
        if !checked.issues.is_empty() {
            return Err(print(checked.issues));
        }
        let expected = match expected {
            ResultType::Bool => CelType::Bool,
            ResultType::String => CelType::String,
        };
        if checked.result != expected {
            return Err(CompileError::WrongType);
        }
        if let Some(why) = checked.bad_constant {
            return Err(CompileError::Constant(why));
        }
        if let Some(why) = checked.unsupported {
            return Err(CompileError::Unsupported(why));
        }
        if checked.root.is_deeper_than(MAX_DEPTH) {
            let why = format!("it is nested deeper than {MAX_DEPTH} levels");
            return Err(CompileError::Unsupported(why));
        }
        Ok(CelProgram { root: checked.root, uses_old_self: checked.uses_old_self })
    }

    /// Whether it is about `oldSelf`.
    pub fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// Evaluates it about a value and, if it has one, the value before. Returns what that cost too.
    pub fn evaluate(
        &self,
        scope: &CelScope,
        schema: &CelSchema,
        value: &Json,
        old: Option<&Json>,
    ) -> (Result<CelResult, EvaluationError>, u64) {
        let mut evaluation = Evaluation::new();
        let outcome = self.run(&mut evaluation, scope, schema, value, old);
        let result = match outcome {
            Ok(Value::Bool(boolean)) => Ok(CelResult::Bool(boolean)),
            Ok(Value::String(text)) => Ok(CelResult::String((*text).to_owned())),
            Ok(_) | Err(Failure::NoOverload) => Err(EvaluationError::Failed("no such overload".to_owned())),
            Err(Failure::Error(why)) => Err(EvaluationError::Failed(why)),
            Err(Failure::CostLimit) => Err(EvaluationError::CostLimit),
        };
        (result, evaluation.cost())
    }

    fn run<'v>(
        &'v self,
        evaluation: &mut Evaluation<'v>,
        scope: &CelScope,
        schema: &'v CelSchema,
        value: &'v Json,
        old: Option<&'v Json>,
    ) -> Outcome<Value<'v>> {
        evaluation.push(Value::read(value, schema));
        let old = old.map(|old| Value::read(old, schema)).transpose();
        evaluation.push(old.map(|old| match scope.is_old_optional {
            true => Value::Optional(old.map(Arc::new)),
            false => old.unwrap_or(Value::Null),
        }));
        evaluation.evaluate(&self.root)
    }
}
