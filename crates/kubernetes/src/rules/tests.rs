use proptest::prelude::*;
use serde_json::{Value, json};
use testobjects::{NodeBuilder, object, pod};

use super::*;
use crate::recording::on;

fn key(object: &Object) -> Key {
    object.key(&"test".into())
}

fn keyed() -> Rules {
    Rules { redact: Some(RedactKey([7; 16])) }
}

/// Passes versions of one object through a sieve: `k` for kept, `d` for dropped.
#[track_caller]
fn check(changes: &[What], expected: &str) {
    let mut sieve = Sieve::new(Rules::default());
    let verdicts: String = changes
        .iter()
        .map(|what| match sieve.pass(&key(what.object()), what) {
            Verdict::Keep(_) => 'k',
            Verdict::Drop(_) => 'd',
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
fn there_and_back_again_is_three_changes() {
    check(&["a", "b", "a", "a"].map(|node| pod("p").on(node).modified()), "kkkd");
}

#[test]
fn a_relist_is_dropped_and_another_life_kept() {
    check(&["1", "1", "2"].map(|uid| pod("p").uid(uid).added()), "kdk");
    let (added, deleted) = (pod("p").added(), pod("p").deleted());
    check(&[added.clone(), deleted.clone(), deleted, added], "kkkk");
}

#[test]
fn a_sieve_that_is_told_what_was_kept_goes_on_where_another_stopped() {
    let pod = |version: u64, password: &str| {
        let pod = pod("p").version(version).set("metadata.managedFields", json!([version]));
        pod.set("spec.containers.0.env", json!([{"name": "PASSWORD", "value": password}])).modified()
    };
    let first = pod(1, "secret");
    let Verdict::Keep(kept) = Sieve::new(keyed()).pass(&key(first.object()), &first) else {
        panic!("the first is kept");
    };
    let mut sieve = Sieve::new(keyed());
    sieve.know(&key(kept.object()), kept.object());
    let key = key(kept.object());
    assert!(matches!(sieve.pass(&key, &pod(2, "secret")), Verdict::Drop(_)));
    assert!(matches!(sieve.pass(&key, &pod(3, "other")), Verdict::Keep(_)));
}

#[test]
fn a_deleted_object_is_forgotten() {
    let pod = pod("p").object();
    let mut sieve = Sieve::new(Rules::default());
    sieve.pass(&key(&pod), &What::Added(pod.clone()));
    assert_eq!(sieve.last.len(), 1);
    sieve.pass(&key(&pod), &What::Deleted(pod));
    assert_eq!(sieve.last.len(), 0);
}

#[track_caller]
fn kept(rules: Rules, before: &str, after: &str) {
    let before = Object::parse(before).unwrap();
    for what in [What::Added(before.clone()), What::Modified(before.clone()), What::Deleted(before.clone())] {
        let Verdict::Keep(kept) = Sieve::new(rules.clone()).pass(&key(&before), &what) else {
            panic!("dropped")
        };
        assert_eq!(kept.object().as_str(), after);
        assert_eq!(kept.word(), what.word());
    }
}

#[test]
fn what_is_cut_is_gone_and_the_rest_keeps_its_bytes() {
    kept(
        Rules::default(),
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
        kept(keyed(), &clear, &shape.replace("SPEC", &pod_spec(&token)));
        kept(Rules::default(), &clear, &clear);
    }
}

#[test]
fn an_env_outside_of_containers_stays() {
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"env":[{"value":"a"}],"spec":{"containers":{"env":[{"value":"a"}]}}}"#;
    kept(keyed(), json, json);
}

/// What may be written of an object, without and with a key.
#[track_caller]
fn check_disclosed(json: &str, plain: Option<&str>, redacted: Option<&str>) {
    let object = Object::parse(json).unwrap();
    let kind = key(&object).kind;
    let text = |key: Option<&RedactKey>| {
        disclosed(object.clone(), &kind, key).map(|object| object.as_str().to_owned())
    };
    assert_eq!(text(None).as_deref(), plain);
    assert_eq!(text(keyed().redact.as_ref()).as_deref(), redacted);
}

#[test]
fn nothing_of_a_secret_is_disclosed() {
    for version in ["v1", "gloo.solo.io/v1"] {
        let json = format!(
            r#"{{"apiVersion":"{version}","kind":"Secret","metadata":{{"name":"s"}},"data":{{"a":"YQ=="}}}}"#
        );
        check_disclosed(&json, None, None);
    }
}

#[test]
fn only_autoscalers_config_maps_disclose_their_data() {
    let with = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","x":"\u00e9"}},"data":{{"a":"{{}}"}},"binaryData":{{"b":"eA=="}},"immutable":true}}"#
        )
    };
    let cut =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","x":"\u00e9"},"immutable":true}"#;
    check_disclosed(&with("web"), Some(cut), Some(cut));
    for name in
        ["cluster-autoscaler-status", "cluster-autoscaler-priority-expander", "kwok-provider-templates"]
    {
        check_disclosed(&with(name), Some(&with(name)), Some(&with(name)));
    }
}

#[test]
fn what_is_hidden_is_hidden_in_copies_too() {
    let copies: Vec<&str> = FIELD_RULES
        .iter()
        .filter(|rule| rule.purpose == Purpose::HideCopies)
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
        check_disclosed(&map, Some(&bare), Some(&bare));
        let spec =
            |value: &str| format!(r#""spec":{{"containers":[{{"env":[{{"name":"P","value":{value}}}]}}]}}"#);
        let pod = of("Pod", &both, &spec(r#""hunter2""#));
        check_disclosed(&pod, Some(&pod), Some(&of("Pod", one, &spec(&token))));
    }
}

#[test]
fn every_rule_is_described() {
    let all = describe();
    assert_eq!(all.len(), FIELD_RULES.len() + 3);
    let fields: Vec<&str> = all.iter().map(|rule| rule.field.as_str()).collect();
    assert!(fields.contains(&"status.conditions[].lastHeartbeatTime"));
    assert!(fields.contains(&"metadata.annotations['banzaicloud.com/last-applied']"));
    assert!(fields.contains(
        &"{containers,initContainers,ephemeralContainers}[].env[].value, wherever such lists stand"
    ));
}

/// Rules over a small alphabet, so that random documents meet them often.
static LETTERS: &[FieldRule] = &[
    on(&["a", "b"], Effect::Cut, ""),
    on(&["b"], Effect::Cut, ""),
    on(&["c", "[]", "a"], Effect::Cut, ""),
    on(&["c", "[]", "b\"é"], Effect::Cut, ""),
    on(&["a", "a", "[]", "[]", "c"], Effect::Cut, ""),
    on(&["a", "c"], Effect::Mute, ""),
    on(&["c", "[]", "c"], Effect::Mute, ""),
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

/// JSON text with spaces strewn in and some letters of strings written as escapes.
fn written(value: &Value, spaces: &[u8], turn: &mut usize) -> String {
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
            let entries: Vec<String> = entries.iter().map(|entry| written(entry, spaces, turn)).collect();
            format!("[{}]", entries.join(","))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| {
                    format!("{}{}:{}", gap.1, string(name, escaped), written(value, spaces, turn))
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::String(text) => string(text, escaped),
        scalar => scalar.to_string(),
    };
    format!("{}{inner}{}", gap.0, gap.1)
}

/// What the cuts of [`LETTERS`] mean, said of a tree.
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

fn without(mut value: Value, effects: &[Effect]) -> Value {
    for rule in LETTERS.iter().filter(|rule| effects.contains(&rule.effect)) {
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
        let json = written(&value, &spaces, &mut 0);
        let reading = Reading::of(&json, LETTERS, u32::MAX, None);
        let stored = reading.stored.apply(&json);
        let parsed: Value = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(&parsed, &without(value.clone(), &[Effect::Cut]));
        let meant: Value = serde_json::from_str(&reading.meaning.apply(&json)).unwrap();
        prop_assert_eq!(meant, without(value, &[Effect::Cut, Effect::Mute]));

        // What is cut once has nothing left to cut, and means the same.
        let again = Reading::of(&stored, LETTERS, u32::MAX, None);
        prop_assert!(again.stored.is_empty());
        prop_assert_eq!(again.meaning(&stored), reading.meaning(&json));
    }

    #[test]
    fn redacting_changes_strings_alone_and_only_once(
        value in documents(),
        spaces in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        let json = written(&value, &spaces, &mut 0);
        let key = RedactKey([3; 16]);
        let reading = Reading::of(&json, &[], 0, Some(&key));
        let stored = reading.stored.apply(&json);
        let mut expected = value;
        redact(&mut expected, &key, Role::Other);
        prop_assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), expected);
        prop_assert!(Reading::of(&stored, &[], 0, Some(&key)).stored.is_empty());
        let known = Reading::of(&stored, &[], 0, None);
        prop_assert_eq!(known.meaning(&stored), reading.meaning(&json));
    }
}

/// Redaction, said of a tree.
fn redact(value: &mut Value, key: &RedactKey, role: Role) {
    match value {
        Value::Array(entries) => {
            let inside = match role {
                Role::Containers => Role::Container,
                Role::Variables => Role::Variable,
                _ => Role::Other,
            };
            entries.iter_mut().for_each(|entry| redact(entry, key, inside));
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                match (role, name.as_str()) {
                    (Role::Variable, "value") => {
                        if let Some(token) = key.token(&value.to_string()) {
                            *value = serde_json::from_str(&token).unwrap();
                        }
                    }
                    (Role::Container, "env") => redact(value, key, Role::Variables),
                    (_, "containers") => redact(value, key, Role::Containers),
                    _ => redact(value, key, Role::Other),
                }
            }
        }
        _ => {}
    }
}
