use serde_json::{Value as Json, json};

use super::*;

fn scope() -> (CelSchema, CelScope) {
    let field = |form| std::sync::Arc::new(CelSchema { form, nullable: false });
    let texts = SchemaForm::List(field(SchemaForm::String), ListForm::Atomic);
    let fields = [("text", SchemaForm::String), ("number", SchemaForm::Integer), ("list", texts)];
    let fields = fields.map(|(name, form)| (name.to_owned(), field(form)));
    let schema = CelSchema { form: SchemaForm::Object(fields.into()), nullable: false };
    let scope = CelScope::new(&schema, false).unwrap();
    (schema, scope)
}

fn evaluate(text: &str, value: &Json) -> Result<CelResult, String> {
    let (schema, scope) = scope();
    let program =
        CelProgram::compile(text, &scope, ResultType::Bool).map_err(|error| format!("{error:?}"))?;
    program.evaluate(&scope, &schema, value, None).0.map_err(|error| format!("{error:?}"))
}

#[track_caller]
fn assert_true(text: &str) {
    let value = json!({"text": "abc", "number": 5, "list": ["b", "a"]});
    assert_eq!(evaluate(text, &value), Ok(CelResult::Bool(true)), "{text}");
}

/// What the answers of a real server do not show: `testdata/kubernetes/expressions.jsonl` has the rest.
#[test]
fn expressions_are_evaluated_by_their_types() {
    assert_true("self.text == 'abc' && self.number * 2 == 10 && self.list.exists(x, x == 'a')");
    assert_true("!has(self.text) || self.text.size() == 3");
    assert_true("self.list.map(x, x + x).join() == 'bbaa'");
}

#[test]
fn an_evaluation_ends_when_it_costs_too_much() {
    let items: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    let value = json!({"list": items});
    let text = "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c != '')))";
    assert_eq!(evaluate(text, &value), Err("CostLimit".to_owned()));
    // Texts and lists that double do not fill the memory.
    let doubled = "[self.list]".to_owned() + &".map(l, l + l)".repeat(40) + ".size() == 1";
    assert_eq!(evaluate(&doubled, &value), Err("CostLimit".to_owned()));
    for text in
        ["lists.range(1000000000).size() > 0", "self.list.join(',').replace('', self.list.join()).size() > 0"]
    {
        assert_eq!(evaluate(text, &value), Err("CostLimit".to_owned()), "{text}");
    }
}

#[test]
fn what_is_nested_too_deeply_is_not_evaluated() {
    let deep = [
        "(".repeat(300) + "true" + &")".repeat(300),
        "1".to_owned() + &" + 1".repeat(3000) + " > 0",
        "self".to_owned() + &".list[0]".repeat(1000) + " == 'a'",
        "[".repeat(200) + &"]".repeat(200) + " == []",
        "!".repeat(4000) + "true",
        "-".repeat(4001) + "1 == 1",
        "true ? ".repeat(300) + "true" + &" : true".repeat(300),
        "true".to_owned() + &" && true".repeat(1500),
    ];
    for text in deep {
        let _ = evaluate(&text, &json!({"list": ["a"]}));
    }
}

#[test]
fn the_deepest_expressions_fit_on_a_small_stack() {
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let checked = small.spawn(|| {
        assert_true(&("1".to_owned() + &" + 1".repeat(100) + " == 101"));
        assert_true(&("(".repeat(90) + "true" + &")".repeat(90)));
        // A condition may only be nested in the last operand.
        assert_true(&("false ? false : ".repeat(60) + "true"));
        assert_true(&(("[1].all(x, ".repeat(20)) + "true" + &")".repeat(20)));
    });
    checked.unwrap().join().unwrap();
}

#[test]
fn zones_of_the_world_are_not_known() {
    let text = "timestamp('2023-01-01T00:00:00Z').getHours('Europe/Berlin') == 1";
    let error = evaluate(text, &json!({})).unwrap_err();
    assert!(error.starts_with("Unsupported(\"getHours()"), "{error}");
}

proptest::proptest! {
    #[test]
    fn no_text_causes_a_panic(words in proptest::collection::vec(
        proptest::prelude::prop_oneof![
            "self", "self\\.(text|number|list)", "[.()\\[\\]{}!?:,<>=&|+*/%'\"0-9a-z -]{1,3}", "has\\(", "\\PC",
            "\\.(map|all|exists|filter|sortBy|transformMap)\\(x, ", "\\.(size|split|join|sum|format|first)\\(",
            "(duration|timestamp|quantity|ip|cidr|url|semver)\\(",
        ], 0..12)
    ) {
        let _ = evaluate(&words.concat(), &json!({"text": "ä", "number": 7, "list": ["x"]}));
    }
}
