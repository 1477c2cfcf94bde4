//! Damaged patches, selectors and paths: seeded mutations of valid ones must be understood or refused, without a panic.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and prints its seed")]

use apiserver::{Patch, RequestInfo};
use kubernetes::selector::{FieldSelector, Selector};
use model::Kind;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use testobjects::case_count;

/// A patch by its media type and an object of a kind.
const PATCHES: [(&str, &str); 8] = [
    (
        "application/json-patch+json",
        r#"[{"op":"test","path":"/kind","value":"Pod"},{"op":"replace","path":"/spec/containers/0/image","value":"2"}]"#,
    ),
    (
        "application/json-patch+json",
        r#"[{"op":"copy","from":"/spec","path":"/spec/x"},{"op":"move","from":"/spec/x","path":"/metadata/labels/b~1c"}]"#,
    ),
    (
        "application/json-patch+json",
        r#"[{"op":"add","path":"/spec/tolerations/-","value":{"key":"é"}},{"op":"remove","path":"/metadata/labels"}]"#,
    ),
    (
        "application/merge-patch+json",
        r#"{"metadata":{"labels":{"a":null,"b":"c"}},"spec":{"containers":[]}}"#,
    ),
    ("application/merge-patch+json", r#"{"spec":{"x":{"y":[1,-2.5e3,null,true,"é\n"]},"nodeName":7}}"#),
    (
        "application/strategic-merge-patch+json",
        r#"{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"b","image":"2"},{"$patch":"delete","name":"a"}]}}"#,
    ),
    (
        "application/strategic-merge-patch+json",
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.b/c"],"finalizers":["d"]},"spec":{"$retainKeys":["volumes"],"volumes":[{"name":"v","emptyDir":null}]}}"#,
    ),
    (
        "application/strategic-merge-patch+json",
        r#"{"spec":{"tolerations":[{"$patch":"replace"},{"key":"k"}],"affinity":{"$patch":"replace","x":{}}}}"#,
    ),
];

const LABEL_SELECTORS: [&str; 7] = [
    "app=web,tier!=db,env in (a,b),zone notin (c),!canary,x.io/y",
    "a==b",
    "a in (b,,c), d",
    "n>5,m<7",
    " a = b , ! c ",
    "a in ()",
    "example.com/name.with-all_parts=v_a.l-u.e",
];

const FIELD_SELECTORS: [&str; 5] = [
    "metadata.name=p,status.phase!=Running",
    "spec.nodeName==n1",
    r"metadata.namespace=a\,b\=c\\d",
    "spec.restartPolicy=Always,spec.schedulerName!=",
    "status.podIP=10.0.0.1",
];

const PATHS: [&str; 8] = [
    "/api/v1/namespaces/web/pods/p/log",
    "/apis/apps/v1/namespaces/web/deployments/d/scale",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
    "/api/v1/namespaces/web/finalize",
    "/api/v1/nodes/n1",
    "/api/v1/pods/%2e%2e/..%2f/%00",
    "/api//v1/../pods/./p",
    "/api/v1/pods/%c3%a9/%ff",
];

/// Fragments that are difficult for parsers.
const DIFFICULT_FRAGMENTS: [&str; 26] = [
    "{",
    "}",
    "[[[[[[[[[[[[[[[[[[[[",
    "\"",
    "\\",
    "\\ud800",
    "1e999",
    "99999999999999999999",
    "\0",
    "é",
    "\u{202e}",
    "%",
    "%2f",
    "%2e%2e/",
    "//",
    "/",
    "~1",
    "~",
    "-",
    ",",
    "(",
    ")",
    "=",
    "!",
    "\"$patch\":\"delete\",",
    "\"op\":\"copy\",\"from\":\"\",",
];

/// Mutates each of the texts many times, and counts those for which `is_understood`.
fn check<T: AsRef<str>>(texts: &[T], mut is_understood: impl FnMut(usize, &str) -> bool) {
    let seed = 5;
    println!("seed {seed}");
    let mut rng = Pcg64::seed_from_u64(seed);
    let rounds = case_count(20_000, 500_000);
    let mut understood = 0;
    for round in 0..rounds {
        let index = round % texts.len();
        let mut text = texts[index].as_ref().to_owned();
        for _ in 0..rng.random_range(1..4) {
            mutate(&mut text, &mut rng);
        }
        understood += usize::from(is_understood(index, &text));
    }
    let refused = rounds - understood;
    assert!(understood > rounds / 50 && refused > rounds / 50, "{understood} understood, {refused} refused");
}

fn mutate(text: &mut String, rng: &mut Pcg64) {
    let positions: Vec<usize> =
        text.char_indices().map(|(position, _)| position).chain([text.len()]).collect();
    let mut position = || positions[rng.random_range(0..positions.len())];
    let (one, other) = (position(), position());
    let (start, end) = (one.min(other), one.max(other));
    match rng.random_range(0..4) {
        0 => text.truncate(end),
        1 => text.replace_range(start..end, ""),
        2 => {
            let again = text[start..end].to_owned();
            text.insert_str(start, &again);
        }
        _ => text.insert_str(start, DIFFICULT_FRAGMENTS[rng.random_range(0..DIFFICULT_FRAGMENTS.len())]),
    }
}

#[test]
fn mutated_patches_are_applied_or_refused() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["a.b/c"]},
        "spec": {
            "containers": [{"name": "a", "image": "1"}, {"name": "b"}], "tolerations": [],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    });
    check(&PATCHES.map(|(_, patch)| patch), |index, text| {
        let content_type = PATCHES[index].0;
        let Ok(patch) = Patch::parse(content_type, text.as_bytes()) else { return false };
        let Ok(patched) = patch.apply(&Kind::new("", "Pod"), &pod) else { return false };
        // An object that can be stored can be read again.
        let again: Value = serde_json::from_str(&patched.to_string()).unwrap();
        assert_eq!(again, patched, "{text}");
        if content_type == "application/merge-patch+json" {
            assert_eq!(patch.apply(&Kind::new("", "Pod"), &patched).unwrap(), patched, "{text}");
        }
        true
    });
}

#[test]
fn mutated_label_selectors_are_parsed_or_refused() {
    check(&LABEL_SELECTORS, |_, text| {
        let Ok(selector) = Selector::parse(text) else { return false };
        let printed = selector.to_string();
        assert_eq!(Selector::parse(&printed).unwrap().to_string(), printed, "{text:?}");
        selector.matches(|key| (key.len() % 2 == 0).then_some("a"));
        true
    });
}

#[test]
fn mutated_field_selectors_are_parsed_or_refused() {
    let (kind, pod) = (Kind::new("", "Pod"), json!({"metadata": {"name": "p"}, "spec": {"nodeName": 7}}));
    check(&FIELD_SELECTORS, |_, text| {
        let Ok(selector) = FieldSelector::parse(text, &kind) else { return false };
        let printed = selector.to_string();
        assert_eq!(FieldSelector::parse(&printed, &kind).unwrap().to_string(), printed, "{text:?}");
        selector.matches(&pod);
        true
    });
}

#[test]
fn mutated_paths_name_a_resource_or_nothing() {
    check(&PATHS, |_, text| {
        let Some(info) = RequestInfo::parse(text) else { return false };
        let RequestInfo { group, version, namespace, resource, name, subresource } = info;
        let parts = [Some(version), namespace, Some(resource), name, subresource];
        for part in parts.into_iter().flatten().chain((!group.is_empty()).then_some(group)) {
            let leads_elsewhere = matches!(&*part, "" | "." | "..") || part.contains(['/', '\0']);
            assert!(!leads_elsewhere, "{text:?} has the part {part:?}");
        }
        true
    });
}
