use model::Meta;
use proptest::prelude::*;
use serde_json::{Value, json};
use testobjects::{NodeBuilder, object, pod};

use super::rule_scan::EnvRole;
use super::*;
use crate::recording::on;

fn key_of(object: &Object) -> Key {
    object.key(&"test".into())
}

fn keyed() -> FilterOptions {
    FilterOptions { redact: Some(RedactKey([7; 16])) }
}

/// Passes versions of one object through a filter: `k` for kept, `d` for dropped.
#[track_caller]
fn check(changes: &[What], expected: &str) {
    let mut filter = ChangeFilter::new(FilterOptions::default());
    let verdicts: String = changes
        .iter()
        .map(|what| match filter.filter(&key_of(what.object()), what) {
            FilterVerdict::Keep(_) => 'k',
            FilterVerdict::Drop(_) => 'd',
        })
        .collect();
    assert_eq!(verdicts, expected);
}

fn modified(value: Value) -> What {
    What::Modified(object(&value))
}

fn node(version: u64, heartbeat: &str, ready: &str, images: Value) -> NodeBuilder {
    let condition = json!({"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat});
    let node = testobjects::node("n").version(version);
    node.set("status.conditions", json!([condition])).set("status.images", images)
}

#[test]
fn heartbeats_and_reordered_images_are_dropped() {
    let images = json!([{"names": ["a"]}, {"names": ["b"]}]);
    check(
        &[
            node(1, "t1", "True", images.clone()).added(),
            node(2, "t2", "True", images).modified(),
            node(3, "t3", "True", json!([{"names": ["b"]}, {"names": ["a"]}])).modified(),
            node(4, "t3", "True", json!([{"names": ["b"]}])).modified(),
            node(5, "t3", "False", json!([{"names": ["b"]}])).modified(),
        ],
        "kddkk",
    );
}

#[test]
fn a_pods_field_of_the_same_name_is_no_heartbeat() {
    let pod = |heartbeat: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
               "status": {"conditions": [{"lastHeartbeatTime": heartbeat}]}})
    };
    check(&[modified(pod("1")), modified(pod("2"))], "kk");
}

#[test]
fn renewals_are_dropped_and_new_holders_kept() {
    let lease = |holder: &str, time: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
               "spec": {"holderIdentity": holder, "renewTime": time}})
    };
    check(&[modified(lease("a", "1")), modified(lease("a", "2")), modified(lease("b", "2"))], "kdk");
    let election = |kind: &str, record: &str| {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "l",
               "annotations": {"control-plane.alpha.kubernetes.io/leader": record}}})
    };
    check(&[modified(election("ConfigMap", "1")), modified(election("ConfigMap", "2"))], "kd");
    check(&[modified(election("Endpoints", "1")), modified(election("Endpoints", "2"))], "kd");
    check(&[modified(election("Service", "1")), modified(election("Service", "2"))], "kk");
}

#[test]
fn a_change_and_its_reversal_are_both_kept() {
    check(&["a", "b", "a", "a"].map(|node| pod("p").on(node).modified()), "kkkd");
}

#[test]
fn a_relist_is_dropped_and_another_incarnation_kept() {
    check(&["1", "1", "2"].map(|uid| pod("p").uid(uid).added()), "kdk");
    let (added, deleted) = (pod("p").added(), pod("p").deleted());
    check(&[added.clone(), deleted.clone(), deleted, added], "kkkk");
}

#[test]
fn a_filter_that_remembers_stored_versions_continues_where_another_stopped() {
    let pod = |version: u64, password: &str| {
        let pod = pod("p").version(version).set("metadata.managedFields", json!([version]));
        pod.set("spec.containers.0.env", json!([{"name": "PASSWORD", "value": password}])).modified()
    };
    let first = pod(1, "secret");
    let FilterVerdict::Keep(kept) = ChangeFilter::new(keyed()).filter(&key_of(first.object()), &first) else {
        panic!("the first is kept");
    };
    let mut filter = ChangeFilter::new(keyed());
    filter.remember_stored(&key_of(kept.object()), kept.object());
    let key = key_of(kept.object());
    assert!(matches!(filter.filter(&key, &pod(2, "secret")), FilterVerdict::Drop(_)));
    assert!(matches!(filter.filter(&key, &pod(3, "other")), FilterVerdict::Keep(_)));
}

#[test]
fn a_deleted_object_is_forgotten() {
    let pod = pod("p").object();
    let mut filter = ChangeFilter::new(FilterOptions::default());
    filter.filter(&key_of(&pod), &What::Added(pod.clone()));
    assert_eq!(filter.fingerprints.len(), 1);
    filter.filter(&key_of(&pod), &What::Deleted(pod));
    assert_eq!(filter.fingerprints.len(), 0);
}

#[track_caller]
fn check_stored(rules: FilterOptions, before: &str, after: &str) {
    let before = Object::parse(before).unwrap();
    for what in [What::Added(before.clone()), What::Modified(before.clone()), What::Deleted(before.clone())] {
        let FilterVerdict::Keep(kept) = ChangeFilter::new(rules.clone()).filter(&key_of(&before), &what)
        else {
            panic!("dropped")
        };
        assert_eq!(kept.object().as_str(), after);
        assert_eq!(kept.event_type(), what.event_type());
    }
}

#[test]
fn removed_fields_are_gone_and_the_rest_keeps_its_bytes() {
    check_stored(
        FilterOptions::default(),
        r#"{ "kind":"Pod","apiVersion":"v1", "metadata":{"name":"p","managedFields":[{"a":"}"}],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"a\":1}","x":"y\u00e9"}},"spec":{"n":1.50e1} }"#,
        r#"{ "kind":"Pod","apiVersion":"v1", "metadata":{"name":"p","annotations":{"x":"y\u00e9"}},"spec":{"n":1.50e1} }"#,
    );
}

#[test]
fn values_of_environment_variables_become_tokens_wherever_containers_stand() {
    let token = keyed().redact.unwrap().token(r#""secret""#).unwrap();
    let pod_spec = |value: &str| {
        let env =
            format!(r#"[{{"name":"A","value":{value}}},{{"name":"B","valueFrom":{{"value":"stays"}}}}]"#);
        format!(
            r#"{{"initContainers":[{{"env":{env}}}],"containers":[{{"env":{env},"args":["value"]}},{{"x":1}}],"ephemeralContainers":[{{"\u0065nv":{env}}}]}}"#
        )
    };
    for shape in [
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":SPEC}"#,
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"p"},"spec":{"template":{"spec":SPEC}}}"#,
        r#"{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"p"},"spec":{"jobTemplate":{"spec":{"template":{"spec":SPEC}}}}}"#,
        r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"p"},"data":{"spec":{"template":{"spec":SPEC}}}}"#,
        r#"{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"name":"p"},"spec":{"workerGroupSpecs":[{"template":{"spec":SPEC}}]}}"#,
    ] {
        let clear = shape.replace("SPEC", &pod_spec(r#""secret""#));
        check_stored(keyed(), &clear, &shape.replace("SPEC", &pod_spec(&token)));
        check_stored(FilterOptions::default(), &clear, &clear);
    }
}

#[test]
fn an_env_outside_of_containers_stays() {
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"env":[{"value":"a"}],"spec":{"containers":{"env":[{"value":"a"}]}}}"#;
    check_stored(keyed(), json, json);
}

/// Checks the sanitized form of an object, without and with a key.
#[track_caller]
fn check_sanitized(json: &str, plain: Option<&str>, redacted: Option<&str>) {
    let object = Object::parse(json).unwrap();
    let kind = key_of(&object).kind;
    let text = |key: Option<&RedactKey>| {
        sanitize(object.clone(), &kind, key).map(|object| object.as_str().to_owned())
    };
    assert_eq!(text(None).as_deref(), plain);
    assert_eq!(text(keyed().redact.as_ref()).as_deref(), redacted);
}

#[test]
fn secrets_are_never_written() {
    for version in ["v1", "gloo.solo.io/v1"] {
        let json = format!(
            r#"{{"apiVersion":"{version}","kind":"Secret","metadata":{{"name":"s"}},"data":{{"a":"YQ=="}}}}"#
        );
        check_sanitized(&json, None, None);
    }
}

#[test]
fn only_autoscaler_config_maps_keep_their_data() {
    let with = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","x":"\u00e9"}},"data":{{"a":"{{}}"}},"binaryData":{{"b":"eA=="}},"immutable":true}}"#
        )
    };
    let cut =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","x":"\u00e9"},"immutable":true}"#;
    check_sanitized(&with("web"), Some(cut), Some(cut));
    for name in
        ["cluster-autoscaler-status", "cluster-autoscaler-priority-expander", "kwok-provider-templates"]
    {
        check_sanitized(&with(name), Some(&with(name)), Some(&with(name)));
    }
}

#[test]
fn removed_data_is_removed_from_copies_too() {
    let copies: Vec<&str> = FIELD_RULES
        .iter()
        .filter(|rule| rule.purpose == RulePurpose::HideCopies)
        .map(|rule| *rule.path.last().unwrap())
        .collect();
    assert!(copies.contains(&"kubectl.kubernetes.io/last-applied-configuration"));
    let token = keyed().redact.unwrap().token(r#""hunter2""#).unwrap();
    for copy in copies {
        let of = |kind: &str, annotations: &str, rest: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"x","annotations":{{{annotations}}}}},{rest}}}"#
            )
        };
        let (both, one) = (format!(r#""{copy}":"{{hunter2}}","a":"b""#), r#""a":"b""#);
        let map = of("ConfigMap", &both, r#""data":{"p":"hunter2"},"immutable":true"#);
        let bare = of("ConfigMap", one, r#""immutable":true"#);
        check_sanitized(&map, Some(&bare), Some(&bare));
        let spec =
            |value: &str| format!(r#""spec":{{"containers":[{{"env":[{{"name":"P","value":{value}}}]}}]}}"#);
        let pod = of("Pod", &both, &spec(r#""hunter2""#));
        check_sanitized(&pod, Some(&pod), Some(&of("Pod", one, &spec(&token))));
    }
}

#[test]
fn every_rule_is_described() {
    let all = describe_rules();
    assert_eq!(all.len(), FIELD_RULES.len() + 3);
    let fields: Vec<&str> = all.iter().map(|rule| rule.field.as_str()).collect();
    assert!(fields.contains(&"status.conditions[].lastHeartbeatTime"));
    assert!(fields.contains(&"metadata.annotations['banzaicloud.com/last-applied']"));
    assert!(
        fields.contains(
            &"{containers,initContainers,ephemeralContainers}[].env[].value, anywhere in the object"
        )
    );
}

/// Rules over a small alphabet, so that random documents meet them often.
static TEST_RULES: &[FieldRule] = &[
    on(&["a", "b"], FieldEffect::Remove, ""),
    on(&["b"], FieldEffect::Remove, ""),
    on(&["c", "[]", "a"], FieldEffect::Remove, ""),
    on(&["c", "[]", "b\"é"], FieldEffect::Remove, ""),
    on(&["a", "a", "[]", "[]", "c"], FieldEffect::Remove, ""),
    on(&["a", "c"], FieldEffect::IgnoreChanges, ""),
    on(&["c", "[]", "c"], FieldEffect::IgnoreChanges, ""),
];

fn documents() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c\"\\\\\\]}{\\[,:é]{0,6}".prop_map(Value::from),
    ];
    let names = prop_oneof![
        Just("a"),
        Just("b"),
        Just("c"),
        Just("b\"é"),
        Just("env"),
        Just("containers"),
        Just("value")
    ];
    scalar.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// JSON text with random spaces and some characters of strings written as escapes.
fn random_json_text(value: &Value, spaces: &[u8], turn: &mut usize) -> String {
    let mut space = || {
        *turn += 1;
        ["", "", " ", "\n\t"][usize::from(spaces[*turn % spaces.len()]) % 4]
    };
    let gap = (space(), space());
    let string = |text: &str, escaped: bool| {
        let plain = Value::from(text).to_string();
        if escaped { plain.replace('b', "\\u0062") } else { plain }
    };
    let escaped = !gap.0.is_empty();
    let inner = match value {
        Value::Array(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|entry| random_json_text(entry, spaces, turn)).collect();
            format!("[{}]", entries.join(","))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| {
                    format!("{}{}:{}", gap.1, string(name, escaped), random_json_text(value, spaces, turn))
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::String(text) => string(text, escaped),
        scalar => scalar.to_string(),
    };
    format!("{}{inner}{}", gap.0, gap.1)
}

/// The removals of [`TEST_RULES`], applied to a tree.
fn remove(value: &mut Value, path: &[&str]) {
    match (value, path) {
        (Value::Object(fields), [name]) => {
            fields.remove(*name);
        }
        (Value::Object(fields), [name, rest @ ..]) => {
            if let Some(value) = fields.get_mut(*name) {
                remove(value, rest);
            }
        }
        (Value::Array(entries), ["[]", rest @ ..]) => {
            entries.iter_mut().for_each(|entry| remove(entry, rest))
        }
        _ => {}
    }
}

fn without(mut value: Value, effects: &[FieldEffect]) -> Value {
    for rule in TEST_RULES.iter().filter(|rule| effects.contains(&rule.effect)) {
        remove(&mut value, rule.path);
    }
    value
}

proptest! {
    #[test]
    fn cutting_text_is_cutting_the_tree(
        value in documents(),
        spaces in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        let json = random_json_text(&value, &spaces, &mut 0);
        let reading = RuleScan::of(&json, TEST_RULES, u32::MAX, None);
        let stored = reading.stored_edits.apply(&json);
        let parsed: Value = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(&parsed, &without(value.clone(), &[FieldEffect::Remove]));
        let meant: Value = serde_json::from_str(&reading.fingerprint_edits.apply(&json)).unwrap();
        prop_assert_eq!(meant, without(value, &[FieldEffect::Remove, FieldEffect::IgnoreChanges]));

        // Applied twice, nothing more is removed, and the fingerprint is the same.
        let again = RuleScan::of(&stored, TEST_RULES, u32::MAX, None);
        prop_assert!(again.stored_edits.is_empty());
        prop_assert_eq!(again.fingerprint(&stored), reading.fingerprint(&json));
    }

    #[test]
    fn redacting_changes_strings_alone_and_only_once(
        value in documents(),
        spaces in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        let json = random_json_text(&value, &spaces, &mut 0);
        let key = RedactKey([3; 16]);
        let reading = RuleScan::of(&json, &[], 0, Some(&key));
        let stored = reading.stored_edits.apply(&json);
        let mut expected = value;
        redact(&mut expected, &key, EnvRole::Other);
        prop_assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), expected);
        prop_assert!(RuleScan::of(&stored, &[], 0, Some(&key)).stored_edits.is_empty());
        let known = RuleScan::of(&stored, &[], 0, None);
        prop_assert_eq!(known.fingerprint(&stored), reading.fingerprint(&json));
    }
}

/// The pod of a text as a filter with these options keeps it, made from its tree.
fn kept_tree(json: &str, options: &FilterOptions) -> Value {
    let mut tree: Value = serde_json::from_str(json).unwrap();
    let applies = |rule: &&FieldRule| rule.effect == FieldEffect::Remove && rule.kind.is_none();
    FIELD_RULES.iter().filter(applies).for_each(|rule| remove(&mut tree, rule.path));
    if let Some(key) = &options.redact {
        redact(&mut tree, key, EnvRole::Other);
    }
    tree
}

proptest! {
    #[test]
    fn a_reader_and_the_filter_behind_it_keep_what_the_filter_alone_keeps(
        values in prop::collection::vec(documents(), 3),
        spaces in prop::collection::vec(any::<u8>(), 1..20),
        has_key: bool,
    ) {
        let options = if has_key { keyed() } else { FilterOptions::default() };
        let kind = Kind::new("", "Pod");
        let reader = ObjectReader::new(&kind, &options).unwrap();
        let (mut alone, mut behind) = (ChangeFilter::new(options.clone()), ChangeFilter::new(options.clone()));
        let mut other = ChangeFilter::new(FilterOptions { redact: Some(RedactKey([9; 16])) });
        let texts: Vec<String> = values.iter().map(|value| random_json_text(value, &spaces, &mut 0)).collect();
        for (version, text) in texts.iter().chain([&texts[0], &texts[0]]).enumerate() {
            let json = pod_text(&version.to_string(), text);
            let (parsed, read) = (Object::parse(&json).unwrap(), reader.read(&json).unwrap());
            prop_assert_eq!(Some(read.meta()), Meta::read_prefix(read.as_str()));
            prop_assert_eq!(parsed.meta(), read.meta());
            prop_assert_eq!(read.value().unwrap(), kept_tree(&json, &options));
            let key = key_of(&parsed);
            let read = What::Modified(read);
            prop_assert_eq!(alone.filter(&key, &What::Modified(parsed)), behind.filter(&key, &read));
            // Another filter applies its own rules.
            if let FilterVerdict::Keep(kept) = other.filter(&key, &read) && has_key {
                prop_assert_eq!(kept.object().as_str(), read.object().as_str());
            }
        }
    }

    #[test]
    fn a_reader_reads_damaged_texts_only_as_the_parser_and_the_filter_would(
        value in documents(),
        spaces in prop::collection::vec(any::<u8>(), 1..20),
        from: prop::sample::Index,
        to: prop::sample::Index,
        width in 0..3_usize,
        with in "([ -~]|\\PC|[\u{0}-\u{1f}]){0,2}",
    ) {
        let json = pod_text("1", &random_json_text(&value, &spaces, &mut 0));
        let chars: Vec<char> = json.chars().collect();
        let (from, to) = (from.index(chars.len()), to.index(chars.len()));
        let text = |parts: &[&[char]]| parts.concat().into_iter().collect::<String>();
        let rest = &chars[(from + width).min(chars.len())..];
        for damaged in [
            text(&[&chars[..from], &with.chars().collect::<Vec<char>>(), rest]),
            // A part of the text once more: duplicate members, and brackets that do not match.
            text(&[&chars[..from.max(to)], &chars[from.min(to)..]]),
        ] {
            for options in [FilterOptions::default(), keyed()] {
                let reader = ObjectReader::new(&Kind::new("", "Pod"), &options).unwrap();
                let (read, parsed) = (reader.read(&damaged), Object::parse(&damaged));
                let Some(read) = read else { continue };
                let parsed = parsed.unwrap();
                prop_assert_eq!(parsed.meta(), read.meta());
                // The token of a number depends on how it is written, which its tree does not say.
                if options.redact.is_none() {
                    prop_assert_eq!(read.value().unwrap(), kept_tree(&damaged, &options));
                }
                let key = key_of(&parsed);
                let kept = |object| ChangeFilter::new(options.clone()).filter(&key, &What::Modified(object));
                prop_assert_eq!(kept(parsed), kept(read));
            }
        }
    }
}

/// A pod that contains a value where rules apply, and where none does.
fn pod_text(version: &str, value: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","uid":"u","resourceVersion":"{version}","x":{value},"managedFields":[{value}]}},"spec":{value}}}"#
    )
}

#[test]
fn a_reader_refuses_what_it_cannot_read_as_the_filter_would() {
    let reader = ObjectReader::new(&Kind::new("", "Pod"), &keyed()).unwrap();
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#;
    assert!(reader.read(pod).is_some());
    for odd in [
        pod.replace("\"p\"", "\"\""),
        pod.replace("\"p\"", "\"a/b\""),
        pod.replace("\"p\"", r#""\u0070""#),
        pod.replace("}}", "}"),
        pod.replace("}}", "},\"kind\":\"Node\"}"),
        pod.replace("}}", ",\"a\":01}}"),
        pod.replace("{\"api", "{\"metadata\":{\"managedFields\":[],\"name\":\"p\"},\"api")
            .replace(",\"metadata\":{\"name\":\"p\"}", ""),
    ] {
        assert!(reader.read(&odd).is_none(), "{odd}");
    }
    for unread in [Kind::new("", "Secret"), Kind::new("", "ConfigMap")] {
        assert!(ObjectReader::new(&unread, &keyed()).is_none());
    }
}

/// Redaction applied to a tree.
fn redact(value: &mut Value, key: &RedactKey, role: EnvRole) {
    match value {
        Value::Array(entries) => {
            let inside = match role {
                EnvRole::Containers => EnvRole::Container,
                EnvRole::Variables => EnvRole::Variable,
                _ => EnvRole::Other,
            };
            entries.iter_mut().for_each(|entry| redact(entry, key, inside));
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                match (role, name.as_str()) {
                    (EnvRole::Variable, "value") => {
                        if let Some(token) = key.token(&value.to_string()) {
                            *value = serde_json::from_str(&token).unwrap();
                        }
                    }
                    (EnvRole::Container, "env") => redact(value, key, EnvRole::Variables),
                    (_, "containers") => redact(value, key, EnvRole::Containers),
                    _ => redact(value, key, EnvRole::Other),
                }
            }
        }
        _ => {}
    }
}
