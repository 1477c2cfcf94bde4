//! CEL, the language of validation rules, as kube-apiserver 1.36 has it: the types of expressions are checked before they
//! are evaluated, with the functions of its libraries and its limit of costs.
//!
//! Texts are parsed by the crate `cel`. Its evaluation is not used: it checks no types and has no limits.

mod checker;
mod escaping;
mod evaluation;
mod functions;
mod json_texts;
mod named_format;
mod node;
mod program;
mod schema;
mod semver;
mod syntax;
#[cfg(test)]
mod tests;
mod types;
mod url;
mod value;
mod zoned_moment;

pub use program::{CelProgram, CelResult, CompileError, EvaluationError, ResultType};
pub use schema::{CelSchema, CelScope, ListForm, SchemaForm};
