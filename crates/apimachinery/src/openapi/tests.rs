use std::path::Path;
use std::process::Command;

use super::*;
use crate::schema::markers;

/// The output of the program in `tests/openapi`; `None` without Go.
fn printed_by_go(arguments: &[&str]) -> Option<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/openapi");
    let Some(program) = testcluster::build_module("openapi", &sources).unwrap() else {
        // Written directly: the test runner captures the output of print macros.
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
        return None;
    };
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_markers_are_those_of_the_definitions() {
    let Some(printed) = printed_by_go(&[]) else { return };
    let lines = printed.lines().map(|line| line.split_once(' ').unwrap());
    assert!(lines.eq(markers::all().iter().copied()));
}

#[test]
fn the_schemas_are_those_of_the_definitions() {
    let Some(printed) = printed_by_go(&["-schemas"]) else { return };
    let mut expected: BTreeMap<&str, Value> = BTreeMap::new();
    for line in printed.lines() {
        let (name, schema) = line.split_once(' ').unwrap();
        expected.insert(name, serde_json::from_str(schema).unwrap());
    }
    let mut differences = String::new();
    for (name, schema) in schemas() {
        // The first three are types without a definition, the fourth is not in the scheme that Go prints. The fifth contains
        // another version of a type; its kind is not served.
        let is_local = [
            "jsonPatchOp",
            "node.v1.RuntimeClassSpec",
            "resource.v1.BasicDevice",
            "v1.Patch",
            "DeviceTaintRuleSpec",
        ]
        .iter()
        .any(|end| name.ends_with(end));
        if is_local {
            continue;
        }
        let Some(expected) = expected.remove(&*name) else {
            differences += &format!("{name}: there is no such definition\n");
            continue;
        };
        // Types of kinds that are not served, and of responses.
        let is_described = schema["description"].is_string();
        compare(
            &name,
            &comparable(schema, is_described),
            &comparable(expected, is_described),
            &mut differences,
        );
    }
    assert!(differences.is_empty(), "{differences}");
    for kind in kinds::all().iter().filter(|info| info.kind != "ComponentStatus") {
        let name = schema_name(&Kind::new(kind.group, kind.kind)).unwrap();
        assert!(schemas().contains_key(&name), "{name}");
    }
}

/// A schema without what may differ: the order of the required fields, the descriptions of lists and of the values of
/// enums, and the versions of every group, of which we serve one.
fn comparable(mut schema: Value, is_described: bool) -> Value {
    if let Some(required) = schema["required"].as_array_mut() {
        required.sort_unstable_by_key(Value::to_string);
    }
    let kinds = schema["x-kubernetes-group-version-kind"].as_array_mut();
    let is_general = |kind: &Value| kind["kind"] == "DeleteOptions" || kind["kind"] == "WatchEvent";
    kinds.into_iter().for_each(|kinds| kinds.retain(|kind| !is_general(kind)));
    let is_list = schema["properties"]["items"].is_object() && schema["properties"]["metadata"].is_object();
    cut_descriptions(&mut schema, is_described && !is_list);
    schema
}

fn cut_descriptions(schema: &mut Value, is_described: bool) {
    let Value::Object(members) = schema else { return };
    if !is_described {
        members.remove("description");
    } else if let Some(Value::String(text)) = members.get_mut("description") {
        *text = text.split("Possible enum values:").next().unwrap_or_default().trim_end().to_owned();
    }
    for field in
        members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
    {
        cut_descriptions(field, is_described);
    }
    // Without a description there may be nothing beside the reference.
    if members.len() == 1 && members.contains_key("allOf") {
        *schema = members["allOf"][0].take();
    }
}

/// Appends the paths at which two values differ.
fn compare(path: &str, ours: &Value, expected: &Value, differences: &mut String) {
    match (ours, expected) {
        (Value::Object(left), Value::Object(right)) => {
            for key in left.keys().chain(right.keys().filter(|key| !left.contains_key(*key))) {
                compare(&format!("{path} {key}"), &ours[key], &expected[key], differences);
            }
        }
        _ if ours == expected => {}
        _ => *differences += &format!("{path}: {ours} instead of {expected}\n"),
    }
}

#[test]
fn every_field_that_is_described_is_in_the_table_and_every_other_one_too() {
    for type_ in schema::all() {
        let descriptions = descriptions::of(&name_of(type_));
        if descriptions.field_names().next().is_none() {
            continue;
        }
        let mut fields: Vec<&str> = type_.fields.iter().map(|field| field.name).collect();
        fields.sort_unstable();
        assert!(fields.iter().copied().eq(descriptions.field_names()), "{}", type_.name);
    }
}

#[test]
fn every_type_of_a_served_kind_is_described() {
    let mut pending: Vec<_> =
        kinds::all().iter().filter_map(|info| schema::type_of(&Kind::new(info.group, info.kind))).collect();
    let mut seen = Vec::new();
    while let Some(id) = pending.pop() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        let type_ = schema::get(id);
        assert!(!descriptions::of(&name_of(type_)).text.is_empty(), "{}", type_.name);
        pending.extend(type_.fields.iter().filter_map(|field| field.type_.struct_id()));
    }
}
