//! Properties that hold for every object.

use super::*;

/// A string as it may occur in an object.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{1,6}(-[a-z0-9]{1,8}){0,6}",
        1 => prop::sample::select(vec!["kube-system", "10.1.2.3", "10.1.0.0/16", "fd00::1", "3ff64839-1601-4c7a-8c98-e70d9b9c8157", "64Mi", "2026-11-01T14:03:00Z", "True"]).prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => any::<String>(),
    ]
}

/// Any JSON, with fields that have special roles and maps with user-defined keys.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has finite numbers only", |n| n.is_finite()).prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    let field = prop::sample::select(vec![
        "spec",
        "status",
        "labels",
        "annotations",
        "selector",
        "requests",
        "env",
        "value",
        "message",
        "ports",
        "name",
        "data",
        "args",
        "schedule",
        "terminated",
        "image",
        "items",
        "some_field",
    ]);
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(field.clone(), inner.clone(), 0..6)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            prop::collection::btree_map(any_text(), inner, 0..4)
                .prop_map(|map| json!({"labels": Value::from_iter(map)})),
        ]
    })
}

/// A JSON text without its strings.
fn skeleton(json: &str) -> String {
    let (mut found, mut in_string, mut escaped) = (String::new(), false, false);
    for c in json.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ if in_string => {}
            _ => found.push(c),
        }
    }
    found
}

/// Whether field names are equal on both sides, except in maps with user-defined keys.
fn same_fields(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let is_field = |key: &String| {
                FIELDS.iter().any(|(name, _)| name == key) || ["spec", "items", "image"].contains(&&**key)
            };
            !old.keys().all(is_field)
                || ["labels", "annotations", "data", "selector", "requests", "args"]
                    .iter()
                    .any(|map| old.contains_key(*map))
                || (old.keys().eq(new.keys()) && old.iter().all(|(key, value)| same_fields(value, &new[key])))
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same_fields(old, new))
        }
        _ => true,
    }
}

fn any_word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "web",
        "db",
        "app",
        "zone-a",
        "zone-b",
        "7",
        "12",
        "40000",
        "eu.west",
        "kubernetes.io/hostname",
        "tier",
    ])
}

proptest! {
    #[test]
    fn any_object_keeps_its_shape_and_numbers(fields in any_json()) {
        let before = object(json!({"spec": fields}));
        let after = anonymizer().object(&before);
        prop_assert_eq!(&after, &anonymizer().object(&before));
        let parsed = Object::parse(after.as_str());
        prop_assert!(parsed.is_ok(), "{:?} of {:?}", parsed, before);
        prop_assert_eq!(skeleton(after.as_str()), skeleton(before.as_str()));
        prop_assert!(same_fields(&value(&before), &value(&after)), "{:?} of {:?}", after, before);
    }

    #[test]
    fn any_name_stays_a_valid_name(name in "[a-z0-9]{1,9}([-.][a-z0-9]{1,9}){0,40}") {
        prop_assume!(name.len() <= 253);
        let renamed = anonymizer().text(&name);
        prop_assert!(renamed.len() <= if name.len() <= 63 { 63 } else { 253 }, "{} of {}", renamed, name);
        let part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        prop_assert!(renamed.split(['-', '.']).all(part), "{} of {}", renamed, name);
    }

    #[test]
    fn equal_stays_equal_and_different_different(
        a in "[a-c]{1,2}(-[a-c0-1]{1,2}){0,9}", b in "[a-c]{1,2}(-[a-c0-1]{1,2}){0,9}", c in any_text(), d in any_text(),
    ) {
        let names = anonymizer();
        prop_assert_eq!(a == b, names.text(&a) == names.text(&b));
        prop_assert_eq!(c == d, names.text(&c) == names.text(&d));
    }

    #[test]
    fn messages_agree_with_names(name in "[a-z]{1,8}(-[a-z0-9]{1,8}){1,5}", namespace in "[a-z]{1,8}") {
        let names = anonymizer();
        let message = names.message(&format!("Successfully assigned {namespace}/{name} to {name}"));
        let (namespace, name) = (names.text(&namespace), names.text(&name));
        prop_assert_eq!(message, format!("Successfully assigned {namespace}/{name} to {name}"));
    }

    #[test]
    fn selectors_select_the_same(
        labels in prop::collection::btree_map(any_word(), any_word(), 0..5),
        wanted in prop::collection::btree_map(any_word(), any_word(), 0..2),
        expressions in prop::collection::vec((any_word(), 0..4_usize, prop::collection::vec(any_word(), 1..4)), 0..3),
        threshold in (any_word(), any::<bool>(), 0..50_000_u32),
    ) {
        let operators = ["In", "NotIn", "Exists", "DoesNotExist"];
        let no_slash = |word: &str| word.replace('/', "-");
        let expressions: Vec<Value> = expressions.iter().map(|(key, operator, values)| {
            let values: Vec<String> = values.iter().filter(|_| *operator < 2).map(|value| no_slash(value)).collect();
            json!({"key": key, "operator": operators[*operator], "values": values})
        }).collect();
        let values = |map: &BTreeMap<&str, &str>| -> BTreeMap<String, String> {
            map.iter().map(|(key, value)| ((*key).to_owned(), no_slash(value))).collect()
        };
        let (key, above, number) = threshold;
        let compared = json!({"key": key, "operator": if above { "Gt" } else { "Lt" }, "values": [number.to_string()]});
        let before = object(json!({
            "metadata": {"name": "b", "labels": values(&labels)},
            "spec": {
                "selector": {"matchLabels": values(&wanted), "matchExpressions": expressions},
                "affinity": {"nodeSelectorTerms": [{"matchExpressions": [compared]}]},
            },
        }));
        let verdicts = |object: &Object| {
            let object = value(object);
            let label = |key: &str| object["metadata"]["labels"].get(key)?.as_str();
            let selector: LabelSelector = serde_json::from_value(object["spec"]["selector"].clone()).unwrap();
            let nodes: NodeSelector = serde_json::from_value(object["spec"]["affinity"].clone()).unwrap();
            let name = object["metadata"]["name"].as_str().unwrap();
            (Selector::of(Some(&selector)).unwrap().matches(label), nodes.matches(name, label).unwrap())
        };
        prop_assert_eq!(verdicts(&before), verdicts(&anonymizer().object(&before)));
    }
}
