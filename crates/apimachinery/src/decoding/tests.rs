//! Comparison of decoded documents with the answers of kube-apiserver.

use serde::Deserialize;
use serde_json::json;

use super::*;

#[derive(Deserialize)]
struct Case {
    group: String,
    kind: String,
    body: String,
    error: Option<String>,
    #[serde(default)]
    strict: Vec<String>,
}

#[test]
fn errors_are_those_of_an_api_server() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("../../../../testdata/kubernetes/decoding.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let found = match decode_object(&Kind::new(&case.group, &case.kind), case.body.as_bytes()) {
            Ok(decoded) => (None, decoded.strict_errors),
            Err(error) => (Some(error.to_string()), Vec::new()),
        };
        if found != (case.error.clone(), case.strict.clone()) {
            wrong.push(format!(
                "{}\n  expected {:?} {:?}\n  found {found:?}",
                case.body, case.error, case.strict
            ));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 300, "only {count} cases");
}

#[track_caller]
fn check(kind: &str, body: &str, expected: Value) {
    let decoded = decode_object(&Kind::new("", kind), body.as_bytes()).unwrap();
    assert_eq!(decoded.value, expected, "{body}");
}

#[test]
fn structs_that_occur_twice_are_merged() {
    let body =
        r#"{"data": {"a": "1", "a": "2"}, "data": {"b": "c"}, "metadata": {"name": "x"}, "metadata": null}"#;
    check("ConfigMap", body, json!({"data": {"a": "2", "b": "c"}, "metadata": {"name": "x"}}));
    let body = r#"{"spec": {"containers": [{"name": "c", "command": ["a", "b"]}], "nodeSelector": {"a": "b"}},
        "spec": {"containers": [{"image": "j", "command": ["c"]}, {"name": "z"}], "nodeSelector": null}}"#;
    let containers = json!([{"name": "c", "image": "j", "command": ["c"]}, {"name": "z"}]);
    check("Pod", body, json!({"spec": {"containers": containers, "nodeSelector": null}}));
}

#[test]
fn unknown_fields_are_dropped() {
    check(
        "ConfigMap",
        r#"{"metadata": {"name": "x", "foo": {}}, "bar": [1]}"#,
        json!({"metadata": {"name": "x"}}),
    );
}

#[test]
fn bytes_and_integers_are_written_as_go_writes_them() {
    check("Secret", r#"{"data": {"a": [1, 2]}}"#, json!({"data": {"a": "AQI="}}));
    check("Pod", r#"{"spec": {"priority": -0}}"#, json!({"spec": {"priority": 0}}));
}

#[test]
fn of_custom_resources_only_the_metadata_has_a_type() {
    let kind = Kind::new("example.com", "Widget");
    let decode = |body: &str| decode_object(&kind, body.as_bytes());
    let decoded = decode(
        r#"{"metadata": {"name": "w", "foo": 1, "name": "x"}, "bar": 1, "spec": {"a": 1, "a": 2, "b": {"c": 1, "c": {}}}}"#,
    )
    .unwrap();
    assert_eq!(decoded.value, json!({"metadata": {"name": "x"}, "bar": 1, "spec": {"a": 2, "b": {"c": {}}}}));
    let expected = [
        "duplicate field \"metadata.name\"",
        "duplicate field \"spec.a\"",
        "duplicate field \"spec.b.c\"",
        "unknown field \"metadata.foo\"",
    ];
    assert_eq!(decoded.strict_errors, expected);
    for (body, expected) in [
        (
            r#"{"metadata": {"labels": 1}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        (r#"{"metadata": 1}"#, "json: cannot unmarshal number into Go value of type v1.ObjectMeta"),
    ] {
        assert_eq!(decode(body).unwrap_err().to_string(), expected);
    }
}

#[test]
fn patches_are_decoded() {
    let decoded = decode_merge_patch(br#"{"a": 1, "a": {"b": null}}"#).unwrap();
    assert_eq!(
        (decoded.value, decoded.strict_errors),
        (json!({"a": {"b": null}}), vec!["duplicate field \"a\"".to_owned()])
    );
    let error = decode_merge_patch(b"[]").unwrap_err().to_string();
    assert_eq!(error, "json: cannot unmarshal array into Go value of type map[string]interface {}");
    let patch =
        br#"[{"op": "add", "path": "/a", "value": 1}, {"op": "add", "op": "add", "path": "/b", "bla": 1}]"#;
    let expected = ["json patch duplicate field \"[1].op\"", "json patch unknown field \"[1].bla\""];
    assert_eq!(decode_json_patch(patch).unwrap().strict_errors, expected);
    let error = decode_json_patch(b"{}").unwrap_err().to_string();
    assert_eq!(error, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp");
}

#[test]
fn at_most_a_hundred_strict_errors_are_reported() {
    let fields: Vec<String> = (0..130).map(|index| format!("\"f{index}\": 1")).collect();
    let decoded =
        decode_object(&Kind::new("", "Pod"), format!("{{{}}}", fields.join(",")).as_bytes()).unwrap();
    assert_eq!(decoded.strict_errors.len(), 100);
}

#[test]
fn a_document_is_one_value() {
    for text in ["", "{", "{} {}", "{\"a\": \"\u{1}\"}", "nul", "{\"data\": {\"a\": \"\\ud800\"}}"] {
        let error = decode_object(&Kind::new("", "ConfigMap"), text.as_bytes()).unwrap_err();
        assert!(matches!(error, DecodeError::Syntax(_)), "{text}: {error}");
    }
    assert!(decode_any(b"{\"a\": \"\xff\"}").is_err());
    assert!(decode_any("[".repeat(10_000).as_bytes()).is_err());
}
