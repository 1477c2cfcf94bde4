//! Expressions in CEL about an object, as Kubernetes has them in its policies.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use cel::{Context, Env, Program};
use kubernetes::quantity::Quantity;
use serde_json::Value;

/// An expression about `object`.
pub(super) struct Expression {
    text: String,
    env: Arc<Env>,
    program: Program,
}

/// The parser and the interpreter go as deep as an expression is nested, and have only the stack of their thread.
const LONGEST: usize = 1000;
/// See there.
const DEEPEST: usize = 32;

// === impl Expression ===

impl Expression {
    /// Reads it; what is wrong with it is said in the words of its parser.
    pub(super) fn parse(text: &str) -> Result<Expression, String> {
        if text.len() > LONGEST || depth(text) > DEEPEST {
            return Err(format!(
                "it is longer than {LONGEST} letters, or nested deeper than {DEEPEST} times"
            ));
        }
        let env = Arc::new(Env::stdlib());
        let program = env.compile(text).map_err(|error| error.to_string())?;
        Ok(Expression { text: text.to_owned(), env, program })
    }

    /// What it comes to.
    pub(super) fn of(&self, object: &Value) -> Result<Value, String> {
        let mut context = Context::with_env(self.env.clone());
        context.add_variable_from_value("object", seen(object));
        // The only one that is ours: Kubernetes' own quantity() gives a thing that can be compared and no number.
        context.add_function("number", number).map_err(|error| error.to_string())?;
        let value = self.program.execute(&context).map_err(|error| error.to_string())?;
        value.json().map_err(|error| error.to_string())
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How many brackets are open at once, at the most.
fn depth(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for letter in text.chars() {
        match letter {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// The number that a quantity stands for: 1.5 for `1500m`.
fn number(text: Arc<String>) -> Result<f64, cel::ExecutionError> {
    match Quantity::parse(&text) {
        // Thousandths of more than this do not fit, and mean nothing.
        Ok(quantity) if quantity.value().abs() > 1 << 50 => Ok(quantity.value() as f64),
        Ok(quantity) => Ok(quantity.milli_value() as f64 / 1000.0),
        Err(error) => Err(cel::ExecutionError::function_error("number", error.to_string())),
    }
}

/// An object as expressions see it: its whole numbers are `int`, as Kubernetes has them.
fn seen(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(yes) => (*yes).into(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, number) => number.unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(members) => members.iter().map(seen).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            let fields: HashMap<String, cel::Value> =
                fields.iter().map(|(name, value)| (name.clone(), seen(value))).collect();
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
        assert_eq!(Expression::parse(text).unwrap().of(&object).unwrap(), expected, "{text}");
    }

    #[test]
    fn expressions_look_at_objects() {
        check("object.spec.replicas > 2", json!(true));
        check("object.spec.replicas * 2", json!(6));
        check("has(object.spec.paused) && object.spec.paused", json!(false));
        check("object.metadata.labels.app.startsWith('we')", json!(true));
        check("object.spec.list.exists(one, one == 2)", json!(true));
        check("number(object.spec.cpu) * 2.0", json!(3.0));
        check("object.kind + '-' + string(object.spec.replicas)", json!("Deployment-3"));
    }

    #[test]
    fn what_is_too_deep_is_not_tried() {
        for text in ["(".repeat(40) + "1" + &")".repeat(40), "!".repeat(2000) + "true", "[".repeat(900)] {
            let error = Expression::parse(&text).unwrap_err();
            assert!(error.contains("nested deeper"), "{error}");
        }
        check(&("(".repeat(30) + "1" + &")".repeat(30)), json!(1));
    }

    proptest::proptest! {
        #[test]
        fn no_text_does_any_harm(words in proptest::collection::vec(
            proptest::prelude::prop_oneof!["object", "[.()\\[\\]{}!?:,<>=&|+*/%'\"0-9a-z -]{1,3}", "has\\(", "\\PC"], 0..12)
        ) {
            if let Ok(expression) = Expression::parse(&words.concat()) {
                let _ = expression.of(&json!({"a": [1, {"b": "c"}]}));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in ["", "object.", "1 +", "(((", "object.spec[", "'open", "a ? b", "\u{0}", "~"] {
            assert!(Expression::parse(text).is_err(), "{text:?}");
        }
        for text in ["object.none.deeper", "nobody", "number('much')", "1 / 0", "'a' + 1"] {
            let expression = Expression::parse(text).unwrap();
            assert!(expression.of(&json!({})).is_err(), "{text:?}");
        }
    }
}
