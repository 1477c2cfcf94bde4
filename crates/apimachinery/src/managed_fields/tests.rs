use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

/// A write, with what the original makes of it.
#[derive(Deserialize)]
struct WriteCase {
    kind: String,
    verb: String,
    manager: String,
    #[serde(default)]
    force: bool,
    live: Option<Value>,
    request: Value,
    result: Option<Value>,
    #[serde(default)]
    error: Vec<String>,
    #[serde(default)]
    causes: Vec<String>,
}

/// Compares each case of a text with what we make of it. Returns their number.
fn check_cases(text: &str) -> usize {
    for (index, line) in text.lines().enumerate() {
        let case: WriteCase = serde_json::from_str(line).unwrap();
        let api_version = case.request["apiVersion"].as_str().unwrap_or_default().to_owned();
        let kind = Kind::of(&api_version, &case.kind);
        let manager = FieldManager {
            kind: &kind,
            api_version: &api_version,
            object_type: TypeRef::of_kind(&kind, None),
            subresource: "",
            // The original was called without the fields that a strategy resets.
            has_status: false,
        };
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let live = case.live.as_ref();
        let result = match &*case.verb {
            "apply" => manager.apply(live, &case.request, &case.manager, case.force, now),
            _ if !case.error.is_empty() => continue,
            _ => {
                let mut new = case.request.clone();
                manager.update(live, &mut new, &case.manager, now);
                Ok(new)
            }
        };
        let number = index + 1;
        match (result, case.result) {
            (Ok(result), Some(expected)) => {
                assert_eq!(normalized(result), normalized(expected), "line {number}: {line}");
            }
            (Err(error), None) => check_error(&error, &case.error, &case.causes, number),
            (Ok(_), None) => panic!("line {number}: no error: {:?}", case.error),
            (Err(error), Some(_)) => panic!("line {number}: {error}"),
        }
    }
    text.lines().count()
}

fn check_error(error: &ApplyError, expected: &[String], expected_causes: &[String], number: usize) {
    let text = error.to_string();
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.sort_unstable();
    let mut causes: Vec<String> = match error {
        ApplyError::Conflict { causes, .. } => {
            causes.iter().map(|cause| format!("{} {}", cause.field, cause.message)).collect()
        }
        ApplyError::BadRequest(_) | ApplyError::Untyped(_) | ApplyError::TooLarge => Vec::new(),
    };
    causes.sort_unstable();
    // In which order the original visits the fields of a map is random, and it stops at an undeclared one.
    let is_undeclared = |line: &str| line.contains("field not declared in schema");
    if expected.iter().any(|line| is_undeclared(line)) {
        assert!(lines.iter().any(|line| is_undeclared(line)), "line {number}: {text}");
        return;
    }
    assert_eq!(lines, expected, "line {number}");
    assert_eq!(causes, expected_causes, "line {number}");
}

/// An object whose managers have no times, in an order that does not depend on them.
fn normalized(mut object: Value) -> Value {
    if let Some(entries) = object["metadata"]["managedFields"].as_array_mut() {
        for entry in entries.iter_mut().filter(|entry| entry["time"].is_string()) {
            entry["time"] = "T".into();
        }
        entries.sort_by_key(|entry| format!("{} {}", entry["operation"], entry["manager"]));
    }
    object
}

#[test]
fn writes_have_the_managers_of_the_original() {
    let text = include_str!("../../../../testdata/kubernetes/managed_fields.jsonl");
    assert!(check_cases(text) > 100);
}

#[test]
fn random_writes_have_the_managers_of_the_original() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fieldmanager"));
    let Some(program) = testcluster::build_module("fieldmanager", folder).unwrap() else {
        println!("skipped: no go");
        return;
    };
    let seed = std::process::id().to_string();
    println!("seed {seed}");
    let printed = Command::new(program).args(["-seed", &seed, "-count", "10", "cases"]).output().unwrap();
    check_cases(&String::from_utf8(printed.stdout).unwrap());
}

/// The managers of a ConfigMap.
fn config_maps(kind: &Kind) -> FieldManager<'_> {
    let object_type = TypeRef::of_kind(kind, None);
    FieldManager { kind, api_version: "v1", object_type, subresource: "", has_status: false }
}

/// A custom resource with a map in a map, and so on.
fn nested(depth: usize) -> Value {
    let innermost = serde_json::json!({"a": 1});
    let spec = (0..depth).fold(innermost, |inner, _| serde_json::json!({"a": inner}));
    serde_json::json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

#[test]
fn managers_of_deep_objects_are_not_recorded() {
    let kind = Kind::new("example.com", "Widget");
    let widgets = FieldManager {
        kind: &kind,
        api_version: "example.com/v1",
        object_type: TypeRef::of_kind(&kind, None),
        subresource: "",
        has_status: false,
    };
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for (depth, is_recorded) in [(90, true), (110, false)] {
        let mut object = nested(depth);
        widgets.update(None, &mut object, "m", now);
        assert_eq!(object["metadata"]["managedFields"].is_array(), is_recorded, "{depth}");
        assert_eq!(widgets.apply(None, &nested(depth), "m", false, now).is_ok(), is_recorded, "{depth}");
        let text = object.to_string();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{depth}");
    }
}

#[test]
fn large_configurations_are_applied_and_refused_in_a_short_time() {
    let kind = Kind::new("", "ConfigMap");
    let manager = config_maps(&kind);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let config = |value: &str| {
        let data: Map<String, Value> =
            (0..100_000).map(|index| (format!("k{index}"), value.into())).collect();
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
    };
    let applied = manager.apply(None, &config("a"), "one", false, now).unwrap();
    let ApplyError::Conflict { message, causes } =
        manager.apply(Some(&applied), &config("b"), "two", false, now).unwrap_err()
    else {
        panic!("no conflict");
    };
    assert!(message.starts_with("Apply failed with 100000 conflicts: conflicts with \"one\":\n- .data.k0\n"));
    assert!(message.len() < 2 * MAX_CONFLICT_BYTES && causes.len() > 1_000);
    // One manager after another has all fields, until they are too many.
    let mut object = applied;
    let refused = (0..10).find_map(|index| {
        let result = manager.apply(Some(&object), &config("a"), &format!("m{index}"), false, now);
        match result {
            Ok(applied) => {
                object = applied;
                None
            }
            Err(error) => Some(error.to_string()),
        }
    });
    assert_eq!(refused.as_deref(), Some("the managed fields of the object are too large"));
}

/// Any JSON, with field names that mean something here.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "a",
        "metadata",
        "labels",
        "finalizers",
        "ownerReferences",
        "uid",
        "spec",
        "ports",
        "port",
        "protocol",
        "selector",
        "f:spec",
        "f:ports",
        "f:a",
        ".",
        "k:{\"port\":1}",
        "k:{}",
        "k:[",
        "v:1",
        "v:x",
        "i:0",
        "i:x",
        "x",
        "",
    ]);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        let fields = proptest::collection::btree_map(name.clone(), inner.clone(), 0..4);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_can_be_written_and_any_configuration_applied(
        live in json(), config in json(), fields in json(), kind in prop::sample::select(vec!["Service", "Widget"])
    ) {
        let kind = Kind::new("", kind);
        let manager = config_maps(&kind);
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let object = |parts: &Value| {
            let mut object = serde_json::json!({"apiVersion": "v1", "kind": &*kind.kind, "metadata": {"name": "x"}});
            for (name, value) in parts.as_object().into_iter().flatten() {
                object[name.as_str()] = value.clone();
            }
            if !object["metadata"].is_object() {
                object["metadata"] = Map::new().into();
            }
            object
        };
        let mut live = object(&live);
        live["metadata"]["managedFields"] = serde_json::json!([
            {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields},
        ]);
        let mut new = object(&config);
        manager.update(Some(&live), &mut new, "one", now);
        for force in [false, true] {
            let _ = manager.apply(Some(&live), &object(&config), "m", force, now);
            let _ = manager.apply(Some(&new), &config, "two", force, now);
        }
    }
}
