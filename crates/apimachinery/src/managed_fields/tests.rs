use std::path::Path;
use std::process::Command;

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
        ApplyError::BadRequest(_) | ApplyError::Untyped(_) => Vec::new(),
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
