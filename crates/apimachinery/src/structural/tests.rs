use serde_json::json;

use super::*;

#[test]
fn unknown_fields_are_pruned_but_metadata_is_kept() {
    let schema = Structural::parse(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"x": {"type": "string"}}},
        }},
    }}));
    let mut object = json!({
        "apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "odd": 1}, "odd": 1,
        "spec": {
            "open": {"a": {"b": 1}}, "labels": {"a": "b"}, "items": [{"a": "b", "c": 1}], "odd": {"a": 1},
            "template": {"apiVersion": "v1", "kind": "B", "metadata": {"name": "b", "odd": 1}, "x": "y", "z": 1},
        },
    });
    let unknown = schema.coerce(&mut object).unwrap();
    let expected = ["odd", "spec.items[0].c", "spec.odd", "spec.template.z", "spec.template.metadata.odd"];
    assert_eq!(unknown, expected);
    assert_eq!(
        object,
        json!({
            "apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "odd": 1},
            "spec": {
                "open": {"a": {"b": 1}}, "labels": {"a": "b"}, "items": [{"a": "b"}],
                "template": {"apiVersion": "v1", "kind": "B", "metadata": {"name": "b"}, "x": "y"},
            },
        })
    );
}

/// The errors are those of Go 1.26's `regexp.Compile`.
#[test]
fn patterns_are_those_of_go() {
    for (pattern, text, expected) in [
        (r"^\d+$", "٣", Ok(false)),
        (r"^[\w-]+$", "a-b_9", Ok(true)),
        (r"^[a[]+$", "a[", Ok(true)),
        (r"^{a}$", "{a}", Ok(true)),
        (r"^a{2}$", "aa", Ok(true)),
        (r"^\Qa.b\E$", "a.b", Ok(true)),
        (r"^[[:alpha:]\d]+$", "a1", Ok(true)),
        (r"^\x{41}\101$", "AA", Ok(true)),
        (r"(?i)^ab$", "AB", Ok(true)),
        (r"a(?!b)", "", Err("invalid or unsupported Perl syntax: `(?!`")),
        (r"a**", "", Err("invalid nested repetition operator: `**`")),
        (r"*a", "", Err("missing argument to repetition operator: `*`")),
        (r"(a", "", Err("missing closing ): `(a`")),
        (r"a)", "", Err("unexpected ): `a)`")),
        (r"[a", "", Err("missing closing ]: `[a`")),
        (r"[b-a]", "", Err("invalid character class range: `b-a`")),
        (r"\y", "", Err("invalid escape sequence: `\\y`")),
        (r"a\", "", Err("trailing backslash at end of expression: ``")),
        (r"a{1001}", "", Err("invalid repeat count: `{1001}`")),
    ] {
        let compiled = Pattern::new(pattern);
        let expected = expected.map_err(|why| format!("error parsing regexp: {why}"));
        assert_eq!(compiled.is_match(text).map_err(str::to_owned), expected, "{pattern}");
    }
}

#[test]
fn many_alternatives_of_a_large_object_end_in_time() {
    let alternatives: Vec<Value> = (0..10_000).map(|n| json!({"minimum": 1_000_000 + n})).collect();
    let schema =
        Structural::parse(&json!({"type": "array", "items": {"type": "integer", "anyOf": alternatives}}));
    let list: Value = (0..500_000).collect();
    assert!(!SchemaValidator::validate(&schema, &list).is_empty());
}

#[test]
fn defaults_do_not_make_an_object_grow_without_limit() {
    let default = "x".repeat(10_000);
    let schema = Structural::parse(&json!({"type": "array", "items": {"type": "object", "properties": {
        "a": {"type": "string", "default": default},
    }}}));
    let mut list: Value = (0..100_000).map(|_| json!({})).collect();
    assert_eq!(schema.set_defaults(&mut list), Err(TooManyDefaults));
}
