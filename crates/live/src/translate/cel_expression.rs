//! CEL expressions over an object, as in Kubernetes' admission policies.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use cel::{Context, Env, Program};
use kubernetes::quantity::Quantity;
use serde_json::Value;

/// An expression over the variable `object`.
pub(super) struct CelExpression {
    text: String,
    env: Arc<Env>,
    program: Program,
}

/// Parser and interpreter recurse with the nesting of an expression, on the stack of their thread.
const MAX_LENGTH: usize = 1000;
/// The maximum nesting depth, for the same reason.
const MAX_DEPTH: usize = 32;

// === impl CelExpression ===

impl CelExpression {
    /// Parses an expression; the error is that of the parser.
    pub(super) fn parse(text: &str) -> Result<CelExpression, String> {
        if text.len() > MAX_LENGTH || nesting_depth(text) > MAX_DEPTH {
            return Err(format!(
                "longer than {MAX_LENGTH} characters, or nested deeper than {MAX_DEPTH} levels"
            ));
        }
        let env = Arc::new(Env::stdlib());
        let program = env.compile(text).map_err(|error| error.to_string())?;
        Ok(CelExpression { text: text.to_owned(), env, program })
    }

    /// Evaluates the expression.
    pub(super) fn evaluate(&self, object: &Value) -> Result<Value, String> {
        let mut context = Context::with_env(self.env.clone());
        context.add_variable_from_value("object", to_cel(object));
        // The only custom function: Kubernetes' quantity() returns an object that can be compared, not a number.
        context.add_function("number", quantity_to_number).map_err(|error| error.to_string())?;
        let value = self.program.execute(&context).map_err(|error| error.to_string())?;
        value.json().map_err(|error| error.to_string())
    }
}

impl fmt::Debug for CelExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The maximum nesting depth of brackets.
fn nesting_depth(text: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    for character in text.chars() {
        match character {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

/// The value of a quantity as a number: 1.5 for `1500m`.
fn quantity_to_number(text: Arc<String>) -> Result<f64, cel::ExecutionError> {
    match Quantity::parse(&text) {
        // The milli-value of larger quantities overflows, and thousandths do not matter there.
        Ok(quantity) if quantity.value().abs() > 1 << 50 => Ok(quantity.value() as f64),
        Ok(quantity) => Ok(quantity.milli_value() as f64 / 1000.0),
        Err(error) => Err(cel::ExecutionError::function_error("number", error.to_string())),
    }
}

/// Converts an object to CEL: whole numbers become `int`, as in Kubernetes.
fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(boolean) => (*boolean).into(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => integer.into(),
            (None, number) => number.unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(members) => members.iter().map(to_cel).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            let fields: HashMap<String, cel::Value> =
                fields.iter().map(|(name, value)| (name.clone(), to_cel(value))).collect();
            fields.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        let object = json!({"kind": "Deployment", "metadata": {"labels": {"app": "web"}},
            "spec": {"replicas": 3, "cpu": "1500m", "list": [1, 2]}});
        assert_eq!(CelExpression::parse(text).unwrap().evaluate(&object).unwrap(), expected, "{text}");
    }

    #[test]
    fn expressions_are_evaluated_on_objects() {
        check("object.spec.replicas > 2", json!(true));
        check("object.spec.replicas * 2", json!(6));
        check("has(object.spec.paused) && object.spec.paused", json!(false));
        check("object.metadata.labels.app.startsWith('we')", json!(true));
        check("object.spec.list.exists(one, one == 2)", json!(true));
        check("number(object.spec.cpu) * 2.0", json!(3.0));
        check("object.kind + '-' + string(object.spec.replicas)", json!("Deployment-3"));
    }

    #[test]
    fn deeply_nested_expressions_are_rejected() {
        for text in ["(".repeat(40) + "1" + &")".repeat(40), "!".repeat(2000) + "true", "[".repeat(900)] {
            let error = CelExpression::parse(&text).unwrap_err();
            assert!(error.contains("nested deeper"), "{error}");
        }
        check(&("(".repeat(30) + "1" + &")".repeat(30)), json!(1));
    }

    proptest::proptest! {
        #[test]
        fn no_text_causes_a_panic(words in proptest::collection::vec(
            proptest::prelude::prop_oneof!["object", "[.()\\[\\]{}!?:,<>=&|+*/%'\"0-9a-z -]{1,3}", "has\\(", "\\PC"], 0..12)
        ) {
            if let Ok(expression) = CelExpression::parse(&words.concat()) {
                let _ = expression.evaluate(&json!({"a": [1, {"b": "c"}]}));
            }
        }
    }

    #[test]
    fn invalid_expressions_return_errors() {
        for text in ["", "object.", "1 +", "(((", "object.spec[", "'open", "a ? b", "\u{0}", "~"] {
            assert!(CelExpression::parse(text).is_err(), "{text:?}");
        }
        for text in ["object.none.deeper", "nobody", "number('much')", "1 / 0", "'a' + 1"] {
            let expression = CelExpression::parse(text).unwrap();
            assert!(expression.evaluate(&json!({})).is_err(), "{text:?}");
        }
    }
}
