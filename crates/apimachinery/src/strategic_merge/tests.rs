//! Comparison of patches with the results of Kubernetes' own code.

use super::*;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    original: Value,
    patch: Value,
    result: Option<Value>,
}

#[test]
fn patches_give_what_kubernetes_own_code_gives() {
    let cases = include_str!("../../../../testdata/kubernetes/strategic_merge.jsonl");
    let mut count = 0;
    for line in cases.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let found = merge(&kind_of(&case.original), &case.original, &case.patch);
        match (&found, &case.result) {
            (Ok(found), Some(expected)) => assert_eq!(found, expected, "{}: {line}", case.name),
            (Err(_), None) => {}
            _ => panic!("{}: {found:?}, but expected {:?}\n{line}", case.name, case.result),
        }
        count += 1;
    }
    assert!(count >= 250, "only {count} cases");
}

#[test]
fn a_patch_leads_from_one_version_to_the_other() {
    let cases = include_str!("../../../../testdata/kubernetes/strategic_diff.jsonl");
    let mut same = 0;
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (from, to) = (&case["from"], &case["to"]);
        let kind = kind_of(from);
        assert_eq!(&merge(&kind, from, &case["patch"]).unwrap(), to, "Go's own patch: {line}");
        let patch = diff(&kind, from, to);
        assert_eq!(&merge(&kind, from, &patch).unwrap(), to, "{patch} {line}");
        same += usize::from(patch == case["patch"]);
    }
    let count = cases.lines().count();
    assert!(count >= 48 && same * 2 > count, "only {same} of {count} patches equal those of Go");
}

fn kind_of(object: &Value) -> Kind {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    Kind::of(&text("apiVersion"), &text("kind"))
}

#[track_caller]
fn check_diff(from: Value, to: Value, expected: Value) {
    let with_metadata = |kind: &Kind, spec: &Value| json!({"kind": *kind.kind, "metadata": {}, "spec": spec});
    let kind = Kind::new("", "Pod");
    let (from, to) = (with_metadata(&kind, &from), with_metadata(&kind, &to));
    let patch = diff(&kind, &from, &to);
    assert_eq!(patch["spec"], expected);
    assert_eq!(merge(&kind, &from, &patch).unwrap(), to);
}

#[test]
fn entries_are_matched_by_their_key() {
    check_diff(
        json!({"containers": [{"name": "a", "image": "1", "tty": true}, {"name": "b"}]}),
        json!({"containers": [{"name": "c"}, {"name": "a", "image": "2"}]}),
        json!({
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "c"}, {"name": "a", "image": "2", "tty": null}, {"name": "b", "$patch": "delete"}],
        }),
    );
}

#[test]
fn values_that_no_field_patch_can_express_are_replaced() {
    let ports = |list: Value| json!({"containers": [{"name": "a", "ports": list}]});
    let (tcp, udp) =
        (json!({"containerPort": 1, "protocol": "TCP"}), json!({"containerPort": 1, "protocol": "UDP"}));
    let other = json!({"containerPort": 2});
    check_diff(
        ports(json!([tcp])),
        ports(json!([udp, tcp])),
        json!({
            "$setElementOrder/containers": [{"name": "a"}],
            "containers": [{"name": "a", "ports": [{"$patch": "replace"}, udp, tcp]}],
        }),
    );
    // Go moves entries with equal keys together, so the list of containers is the smallest unit that can be replaced.
    let apart = json!([udp, other, tcp]);
    check_diff(
        ports(json!([tcp])),
        ports(apart.clone()),
        json!({"containers": [{"$patch": "replace"}, {"name": "a", "ports": apart}]}),
    );
    let new = json!({"hostname": null, "affinity": {"unheardOf": {"a": null}}});
    let mut replacing = new.clone();
    replacing["$patch"] = json!("replace");
    check_diff(json!({"affinity": {}}), new, replacing);
}

#[test]
fn custom_resources_are_merged_by_merge_custom() {
    let kind = Kind::new("example.com", "Gadget");
    let from = json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"l": [{"name": "x"}], "m": {"n": 1}}});
    let to = json!({"metadata": {"finalizers": ["b"]}, "spec": {"l": [{"name": "y"}], "m": {"o": 1}}});
    let patch = diff(&kind, &from, &to);
    let expected = json!({
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"]},
        "spec": {"l": [{"name": "y"}], "m": {"n": null, "o": 1}},
    });
    assert_eq!(patch, expected);
    assert_eq!(merge_custom(&from, &patch).unwrap(), to);
}

/// All originals and results of the vectors, to be patched into each other.
fn versions() -> Vec<Value> {
    let cases = include_str!("../../../../testdata/kubernetes/strategic_merge.jsonl");
    let cases = cases.lines().map(|line| serde_json::from_str::<Case>(line).unwrap());
    cases.flat_map(|case| [Some(case.original), case.result]).flatten().collect()
}

/// Changes one part of a value, selected and modified as the numbers say.
fn mutate(value: &mut Value, numbers: &mut impl Iterator<Item = usize>) {
    let number = numbers.next().unwrap_or_default();
    match value {
        Value::Object(fields) if fields.is_empty() => {
            drop(fields.insert("new".to_owned(), json!({"a": [1]})))
        }
        Value::Object(fields) => {
            let name = fields.keys().nth(number % fields.len()).expect("the index is within the map").clone();
            match number / 64 % 8 {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(name, Value::Null)),
                2 => drop(fields.insert("new".to_owned(), json!({"a": null}))),
                _ => mutate(&mut fields[&name], numbers),
            }
        }
        Value::Array(entries) if entries.is_empty() => entries.push(json!("new")),
        Value::Array(entries) => {
            let index = number % entries.len();
            match number / 64 % 8 {
                0 => drop(entries.remove(index)),
                1 => entries.push(entries[index].clone()),
                2 => entries.reverse(),
                3 => entries.rotate_left(index),
                4 => entries.clear(),
                _ => mutate(&mut entries[index], numbers),
            }
        }
        Value::String(text) => text.push('!'),
        scalar => *scalar = json!(number),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn any_version_can_be_made_of_any_other(
        a: prop::sample::Index,
        b: prop::sample::Index,
        edits in prop::collection::vec(prop::collection::vec(0_usize..4096, 8), 0..5),
    ) {
        static VERSIONS: LazyLock<Vec<Value>> = LazyLock::new(versions);
        let from = a.get(&VERSIONS);
        let mut to = b.get(&VERSIONS).clone();
        for edit in edits {
            mutate(&mut to, &mut edit.into_iter());
        }
        let kind = kind_of(from);
        let patch = diff(&kind, from, &to);
        let back = match merge(&kind, from, &patch) {
            Err(BadPatch::Unsupported(_)) => merge_custom(from, &patch),
            merged => merged,
        };
        prop_assert_eq!(back.unwrap(), to, "{}", patch);
    }
}

#[test]
fn custom_resources_are_refused() {
    let error = merge(&Kind::new("example.com", "Deployment"), &json!({}), &json!({})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "strategic merge patch is not supported for this kind: Deployment.example.com"
    );
}
