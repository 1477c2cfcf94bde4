mod properties;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::Arc;

use model::{Kind, Moment};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::text::is_public_word;
use super::words::{CALENDAR, KUBERNETES, MESSAGES};
use super::*;
use crate::selector::{LabelSelector, NodeSelector, Selector};

fn anonymizer() -> Anonymizer {
    Anonymizer::new(std::array::from_fn(|index| index as u8))
}

/// Compares a renamed text with a pattern in which `~` stands for a pseudonym.
#[track_caller]
fn check_shape(renamed: &str, pattern: &str) {
    let mut rest = renamed;
    for (index, piece) in pattern.split('~').enumerate() {
        if index > 0 {
            let (word, behind) =
                rest.split_at_checked(10).unwrap_or_else(|| panic!("{renamed} is not {pattern}"));
            assert!(word.starts_with(|c: char| c.is_ascii_lowercase()), "{renamed} is not {pattern}");
            assert!(
                word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
                "{renamed} is not {pattern}"
            );
            rest = behind;
        }
        rest = rest.strip_prefix(piece).unwrap_or_else(|| panic!("{renamed} is not {pattern}"));
    }
    assert!(rest.is_empty(), "{renamed} is not {pattern}");
}

#[track_caller]
fn check(text: &str, pattern: &str) {
    check_shape(&anonymizer().text(text), pattern);
}

#[track_caller]
fn check_message(text: &str, pattern: &str) {
    check_shape(&anonymizer().message(text), pattern);
}

/// Renames one object, given without its apiVersion, kind and name.
#[track_caller]
fn check_object(fields: Value, pattern: &str) {
    let whole = |name: &str, fields: &str| {
        let head = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":""#;
        format!("{head}{name}\"}},{}", &fields[1..])
    };
    let renamed = anonymizer().object(&Object::parse(&whole("thing", &fields.to_string())).unwrap());
    Object::parse(renamed.as_str()).unwrap();
    check_shape(renamed.as_str(), &whole("~", pattern));
}

fn object(mut fields: Value) -> Object {
    let map = fields.as_object_mut().unwrap();
    map.insert("apiVersion".to_owned(), json!("example.com/v1"));
    map.insert("kind".to_owned(), json!("Thing"));
    map.entry("metadata").or_insert(json!({"name": "thing"}));
    testobjects::object(&fields)
}

fn value(object: &Object) -> Value {
    object.value().unwrap()
}

#[test]
fn lists_are_sorted_and_lower_case() {
    for list in [KUBERNETES, MESSAGES, CALENDAR] {
        assert!(list.is_sorted_by(|a, b| a < b));
        assert!(list.iter().all(|word| *word == word.to_lowercase()));
    }
    assert!(FIELDS.is_sorted_by(|a, b| a.0 < b.0));
}

#[test]
fn words_are_made_up_and_what_is_between_them_stays() {
    check("", "");
    check("web-7d9f-abcde", "~-~-~");
    check("registry.corp.example/shop/web:1.2", "registry.~.~/~/~:1.2");
    check("web_Frontend.v2 (blue)", "~_~.v2 (~)");
    check("größe→naïve", "~→~");
    check("web--", "~--");
    let names = anonymizer();
    let (set, pod) = (names.text("web-7d9f"), names.text("web-7d9f-abcde"));
    assert!(pod.starts_with(&format!("{set}-")));
    assert_ne!(names.text("web"), names.text("Web"));
    assert_ne!(names.text("web"), Anonymizer::new([0; 32]).text("web"));
}

#[test]
fn names_by_which_kai_decides_stay_where_they_are_whole() {
    assert!(words::KAI.is_sorted());
    for name in words::KAI {
        assert_eq!(anonymizer().text(name), *name);
    }
    let label = anonymizer().text("runai-gpu-group/ours");
    assert!(label.starts_with("runai-gpu-group/") && !label.contains("ours"), "{label}");
    let longer = anonymizer().text("pod-group-name-of-ours");
    assert!(!longer.contains("group"), "{longer}");
}

#[test]
fn kubernetes_own_words_and_small_numbers_stay() {
    for text in [
        "kube-system",
        "system-node-critical",
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "app.kubernetes.io/name",
        "node.kubernetes.io/not-ready",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "batch.kubernetes.io/job-completion-index",
        "karpenter.sh/capacity-type",
        "nvidia.com/gpu",
        "hugepages-2Mi",
        "attachable-volumes-aws-ebs",
        "requests.nvidia.com/mig-1g.5gb",
        "ToBeDeletedByClusterAutoscaler",
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "metadata.labels['app']",
        "node-000",
        "25%",
        "1h30m",
        "99999",
        "v1beta1",
    ] {
        check(text, text);
    }
    check("100000", "~");
    check("cron-29911915", "~-~");
    check("1a", "~");
    check("v1x", "~");
    check("5m3", "~");
    check("node-role.kubernetes.io/payments", "node-role.kubernetes.io/~");
}

#[test]
fn times_stay() {
    for text in
        ["2026-11-01T14:03:00Z", "2026-11-01T14:03:00.123456Z", "2026-11-15 04:09:49.160230974 +0000 UTC"]
    {
        check(text, text);
    }
    check("2026-11-01T14:03:00Zoo", "2026-11-~:03:~");
}

#[test]
fn a_name_stays_as_short_as_it_must_be() {
    let label = |count: usize| (0..count).map(|index| format!("w{index:02}")).collect::<Vec<_>>().join("-");
    let short = anonymizer().text(&label(5));
    check_shape(&short, "~-~-~-~-~");
    // Six words of ten are longer than a label may be: as many as fit are kept, the last stands for the whole.
    let (six, seven) = (anonymizer().text(&label(6)), anonymizer().text(&label(7)));
    check_shape(&six, "~-~-~-~-~");
    check_shape(&seven, "~-~-~-~-~");
    assert!(six.starts_with(&short[..43]) && seven.starts_with(&short[..43]));
    assert!(six != seven && six != short);
    // As a part of a longer text it is renamed the same way.
    assert!(anonymizer().message(&format!("Created pod: {}.", label(6))).ends_with(&format!(": {six}.")));
    check(&label(63), "~");
    check(&["a"; 126].join(":"), "~");
    check_object(
        json!({"ports": [{"name": "web-ui", "port": 80}, {"name": "web", "targetPort": "web-ui"}]}),
        r#"{"ports":[{"name":"~","port":80},{"name":"~","targetPort":"~"}]}"#,
    );
}

#[test]
fn uids_become_uids_wherever_they_stand() {
    let names = anonymizer();
    let uid = names.text("3ff64839-1601-4c7a-8c98-e70d9b9c8157");
    assert_eq!(
        names.text("pvc-3ff64839-1601-4c7a-8c98-e70d9b9c8157"),
        format!("{}-{uid}", names.text("pvc"))
    );
    let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert!(uid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()));
    check("3ff64839-1601-4c7a-8c98-e70d9b9c8157x", "~-1601-~-~-~");
}

#[test]
fn addresses_stay_in_their_networks() {
    let names = anonymizer();
    let four = |text: &str| names.text(text).parse::<Ipv4Addr>().unwrap();
    let (a, b, other) = (four("10.244.1.5"), four("10.244.1.200"), four("10.245.1.5"));
    assert_eq!(a.octets()[..3], b.octets()[..3]);
    assert!(a.octets()[0] == 10 && a.octets()[..2] != other.octets()[..2] && a != b);
    let [x, y, z, _] = a.octets();
    assert_eq!(names.text("10.244.1.0/24"), format!("{x}.{y}.{z}.0/24"));
    assert_eq!(names.text("10.244.1.5/24"), format!("{a}/24"));
    assert_eq!(
        names.text("ip-10-244-1-5.web"),
        format!("ip-{}.{}", a.to_string().replace('.', "-"), names.text("web"))
    );
    assert_eq!(names.message("dial tcp 10.244.1.5:8080."), format!("dial tcp {a}:8080."));
    let six = names.text("fd00:10:244::5").parse::<Ipv6Addr>().unwrap();
    assert_eq!(six.octets()[0], 0xfd);
    assert_eq!(names.text("[fd00:10:244::5]:80"), format!("[{six}]:80"));
    assert!(names.text("fd00:10:244::/64").ends_with("::/64"));
    for text in [
        "0.0.0.0/0",
        "127.0.0.1",
        "169.254.169.254",
        "255.255.255.255",
        "::1",
        "::",
        "::/0",
        "1.2.3.4.5",
        "1.2.3",
    ] {
        check(text, text);
    }
    assert_eq!(names.text("172.20.1.1").parse::<Ipv4Addr>().unwrap().octets()[0], 172);
    assert!(names.text("192.168.0.1").starts_with("192.168."));
    assert_ne!(names.text("8.8.8.8"), "8.8.8.8");
}

#[test]
fn no_two_addresses_become_one() {
    let names = anonymizer();
    let every = (0..100_000_u32).map(|index| Ipv4Addr::from(index.wrapping_mul(2_654_435_761)));
    let renamed: BTreeSet<Ipv4Addr> = every.map(|address| names.address4(address, None)).collect();
    assert_eq!(renamed.len(), 100_000);
}

#[test]
fn no_two_of_many_words_become_one() {
    let names = anonymizer();
    let renamed: BTreeSet<String> = (0..100_000).map(|index| names.text(&format!("w{index}"))).collect();
    assert_eq!(renamed.len(), 100_000);
}

#[test]
fn messages_keep_their_own_words() {
    check_message(
        "0/7 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector, 4 Insufficient cpu. preemption: 0/7 nodes are available: 3 Preemption is not helpful for scheduling.",
        "0/7 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector, 4 Insufficient cpu. preemption: 0/7 nodes are available: 3 Preemption is not helpful for scheduling.",
    );
    check_message("Successfully assigned shop/web-1 to big-vthvb", "Successfully assigned ~/~-1 to ~-~");
    check_message(
        "pod triggered scale-up: [{big 0->2 (max: 4)}]",
        "pod triggered scale-up: [{~ 0->2 (max: 4)}]",
    );
    check_message(
        "0/3 nodes are available: 3 Insufficient acme.com/fpga.",
        "0/3 nodes are available: 3 Insufficient ~.com/~.",
    );
    // A word of Kubernetes' messages that is clearly a name is renamed.
    check_message("Successfully assigned first/found to new-node", "Successfully assigned ~/~ to ~-node");
    check_message("ReplicaSet \"first\" is progressing.", "ReplicaSet \"~\" is progressing.");
    check("first", "~");
}

#[test]
fn fields_are_treated_by_what_they_are() {
    check_object(
        json!({"spec": {"restartPolicy": "Always", "type": "gp3", "reason": "Not One Word", "color": "Red"}}),
        r#"{"spec":{"color":"~","reason":"Not ~ ~","restartPolicy":"Always","type":"~"}}"#,
    );
    check_object(
        json!({"resources": {"limits": {"cpu": "2", "acme.com/fpga": "1"}, "requests": {"memory": "32386544Ki"}}}),
        r#"{"resources":{"limits":{"~.com/~":"1","cpu":"2"},"requests":{"memory":"32386544Ki"}}}"#,
    );
    check_object(
        json!({"spec": {"selector": {"tier": "db"}, "nodeSelector": {"pool": "x1"}}}),
        r#"{"spec":{"nodeSelector":{"~":"~"},"selector":{"~":"~"}}}"#,
    );
    check_object(
        json!({"spec": {"selector": {"matchLabels": {"tier": "db"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["db"]}]}}}),
        r#"{"spec":{"selector":{"matchExpressions":[{"key":"~","operator":"In","values":["~"]}],"matchLabels":{"~":"~"}}}}"#,
    );
    check_object(
        json!({"containers": [{"args": ["--to=a b", ""], "env": [{"name": "DB_URL", "value": "postgres://a:b@c/d"}]}]}),
        r#"{"containers":[{"args":["~",""],"env":[{"name":"~_~","value":"~"}]}]}"#,
    );
    check_object(json!({"data": {"a.conf": "x = 1\n"}, "n": 1.50}), r#"{"data":{"~.~":"~"},"n":1.5}"#);
    check_object(
        json!({"status": {"state": {"terminated": {"message": "panic: no such user", "reason": "Error", "exitCode": 137}}}}),
        r#"{"status":{"state":{"terminated":{"exitCode":137,"message":"~","reason":"Error"}}}}"#,
    );
    check_object(
        json!({"schedule": "*/5 9-17 * * MON-FRI", "timeZone": "Europe/Berlin"}),
        r#"{"schedule":"*/5 9-17 * * MON-FRI","timeZone":"Europe/Berlin"}"#,
    );
    check_object(json!({"tenants": {"acme-corp": {"x": null}}}), r#"{"tenants":{"~-~":{"x":null}}}"#);
}

#[test]
fn annotations_that_are_documents_become_one_word() {
    let long = "word ".repeat(60);
    let annotations =
        json!({"a": "team blue", "b": " {\"spec\":1}", "c": long, "kubernetes.io/description": "say \"hi\""});
    let metadata = json!({"name": "thing", "annotations": annotations, "managedFields": [{"manager": "kubectl"}], "uid": "u"});
    let renamed = anonymizer().object(&object(json!({"metadata": metadata})));
    check_shape(
        renamed.as_str(),
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{"~":"~ ~","~":"~","~":"~","kubernetes.io/description":"~ \"~\""},"name":"~","uid":"~"}}"#,
    );
}

#[test]
fn order_space_escapes_and_odd_texts_are_survived() {
    let renamed = |json: &str| anonymizer().object(&Object::from_trusted(json)).as_str().to_owned();
    assert_eq!(
        renamed("{ \"kind\" : \"\\u0041b\" , \"a\" : [ 1.50 , -2e3 , true ] }"),
        r#"{"kind":"Ab","a":[1.50,-2e3,true]}"#
    );
    assert_eq!(renamed(r#"{"managedFields":[{}],"a":1,"managedFields":{"b":"]}"}}"#), r#"{"a":1}"#);
    check_shape(
        &renamed(r#"{"x":"\ud800","labels":{"a\"b":"\n"}}"#),
        r#"{"x":"\\~","labels":{"~\"~":"\n"}}"#,
    );
    let deep = "[".repeat(200) + &"]".repeat(200);
    assert_eq!(renamed(&deep), "[".repeat(MAX_DEPTH) + "null" + &"]".repeat(MAX_DEPTH));
    for json in [
        "",
        "{",
        "{\"",
        "{\"a",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1,",
        "{\"a\":[",
        "{,,,",
        "{:::",
        "{\"\\",
        "{ä:\"\\ä",
        "]]",
        "{]}1",
    ] {
        renamed(json);
    }
}

#[test]
fn keys_gaps_and_changes_agree_with_objects() {
    let names = anonymizer();
    let pod = Object::parse(POD).unwrap();
    let source: Arc<str> = "east".into();
    let key = names.key(&pod.key(&source));
    assert_eq!(names.object(&pod).key(&key.source), key);
    assert_ne!(key.source, source);
    assert_eq!(key.kind, Kind::new("", "Pod"));
    assert_eq!(names.what(&What::Deleted(pod.clone())), What::Deleted(names.object(&pod)));
    let gap = Gap {
        source,
        kinds: vec![key.kind.clone()],
        from: Moment::from_nanos(1),
        to: Moment::from_nanos(2),
        why: "the watch of pods expired: lost bastion-7".to_owned(),
    };
    let renamed = names.gap(&gap);
    assert_eq!(
        (&renamed.source, &renamed.kinds, renamed.from, renamed.to),
        (&key.source, &gap.kinds, gap.from, gap.to)
    );
    check_shape(&renamed.why, "the watch of pods expired: lost ~-7");
    assert_eq!(format!("{names:?}"), "Anonymizer(…)");
}

/// A node, its pod, the pod's owners, a service and an event, full of owner-specific words.
const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"checkout-7d9f8b6c5d-x2x4q","generateName":"checkout-7d9f8b6c5d-","namespace":"payments","uid":"3ff64839-1601-4c7a-8c98-e70d9b9c8157","resourceVersion":"123456","creationTimestamp":"2026-11-01T14:03:00Z","labels":{"app":"checkout","acme.example/team":"falcon","pod-template-hash":"7d9f8b6c5d"},"annotations":{"acme.example/owner":"jane.doe@acme.example","acme.example/json":"{\"secret\":\"hunter2\"}"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"checkout-7d9f8b6c5d","uid":"aa164839-1601-4c7a-8c98-e70d9b9c8157","controller":true}]},"spec":{"nodeName":"ip-10-20-30-40.acme.internal","nodeSelector":{"acme.example/pool":"gold"},"containers":[{"name":"checkout","image":"registry.acme.example/payments/checkout:1.2.3-falcon","command":["/opt/acme/run"],"args":["--tenant=contoso"],"env":[{"name":"PGPASSWORD","value":"hunter2"}],"ports":[{"name":"acme-api","containerPort":8443,"protocol":"TCP"}],"resources":{"requests":{"cpu":"500m","memory":"1234567890","acme.example/fpga":"1"}}}],"tolerations":[{"key":"acme.example/gold","operator":"Equal","value":"falcon","effect":"NoSchedule"}]},"status":{"phase":"Running","podIP":"10.244.7.9","podIPs":[{"ip":"10.244.7.9"},{"ip":"fd12:3456::9"}],"hostIP":"10.20.30.40","conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady","message":"containers with unready status: [checkout]"}]}}"#;
const REPLICA_SET: &str = r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"checkout-7d9f8b6c5d","namespace":"payments","uid":"aa164839-1601-4c7a-8c98-e70d9b9c8157"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"checkout","pod-template-hash":"7d9f8b6c5d"}}}}"#;
const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"ip-10-20-30-40.acme.internal","uid":"bb164839-1601-4c7a-8c98-e70d9b9c8157","labels":{"kubernetes.io/hostname":"ip-10-20-30-40.acme.internal","topology.kubernetes.io/zone":"mordor-1a","acme.example/pool":"gold"}},"spec":{"podCIDR":"10.244.7.0/24","providerID":"aws:///mordor-1a/i-0123456789abcdef0","taints":[{"key":"acme.example/gold","value":"falcon","effect":"NoSchedule"}]},"status":{"addresses":[{"type":"InternalIP","address":"10.20.30.40"},{"type":"Hostname","address":"ip-10-20-30-40.acme.internal"}],"capacity":{"cpu":"8","memory":"32386544Ki","acme.example/fpga":"2"}}}"#;
const EVENT: &str = r#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"checkout-7d9f8b6c5d-x2x4q.18e81c831ba7b6de","namespace":"payments"},"reason":"Scheduled","regarding":{"kind":"Pod","namespace":"payments","name":"checkout-7d9f8b6c5d-x2x4q","uid":"3ff64839-1601-4c7a-8c98-e70d9b9c8157"},"note":"Successfully assigned payments/checkout-7d9f8b6c5d-x2x4q to ip-10-20-30-40.acme.internal"}"#;
const SECRETS: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"checkout","namespace":"payments","labels":{"acme.example/team":"falcon"}},"data":{"falcon.yaml":"password: hunter2"}}"#;

#[test]
fn references_between_objects_stay_consistent() {
    let names = anonymizer();
    let [pod, set, node, event] =
        [POD, REPLICA_SET, NODE, EVENT].map(|json| value(&names.object(&Object::parse(json).unwrap())));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], set["metadata"]["name"]);
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
    assert!(text(&pod["metadata"]["name"]).starts_with(&text(&set["metadata"]["name"])));
    assert_eq!(pod["spec"]["nodeName"], node["metadata"]["name"]);
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], node["metadata"]["name"]);
    assert_eq!(node["status"]["addresses"][1]["address"], node["metadata"]["name"]);
    assert_eq!(node["status"]["addresses"][0]["address"], pod["status"]["hostIP"]);
    assert!(
        text(&node["metadata"]["name"])
            .starts_with(&format!("ip-{}", text(&pod["status"]["hostIP"]).replace('.', "-")))
    );
    let network = text(&node["spec"]["podCIDR"]);
    assert!(text(&pod["status"]["podIP"]).starts_with(network.strip_suffix("0/24").unwrap()));
    assert_eq!(event["regarding"]["name"], pod["metadata"]["name"]);
    assert_eq!(event["regarding"]["uid"], pod["metadata"]["uid"]);
    let assigned = ["namespace", "name"].map(|field| text(&pod["metadata"][field])).join("/");
    assert_eq!(
        event["note"],
        format!("Successfully assigned {assigned} to {}", text(&node["metadata"]["name"]))
    );
    assert_eq!(pod["spec"]["tolerations"][0]["value"], node["spec"]["taints"][0]["value"]);
    let resource =
        |map: &Value| map.as_object().unwrap().keys().find(|key| key.contains('/')).unwrap().clone();
    assert_eq!(
        resource(&pod["spec"]["containers"][0]["resources"]["requests"]),
        resource(&node["status"]["capacity"])
    );
    assert_eq!(pod["metadata"]["creationTimestamp"], "2026-11-01T14:03:00Z");
    assert_eq!(pod["metadata"]["resourceVersion"], "123456");
    assert_eq!(node["status"]["capacity"]["memory"], "32386544Ki");
    let selector: LabelSelector = serde_json::from_value(set["spec"]["selector"].clone()).unwrap();
    assert!(Selector::of(Some(&selector)).unwrap().matches(|key| pod["metadata"]["labels"][key].as_str()));
}

/// Calls `show` with every string and its field name; keys and values of labels and the like come with the name of
/// their map.
fn visit(value: &Value, field: &str, show: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if ["labels", "annotations", "matchLabels", "nodeSelector", "data"].contains(&field) {
                    show(field, key);
                    visit(value, field, show);
                } else {
                    visit(value, key, show);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| visit(value, field, show)),
        Value::String(text) => show(field, text),
        _ => {}
    }
}

/// The words of a text, and its addresses unchanged.
fn words_of(text: &str) -> impl Iterator<Item = String> {
    let addresses = text.split([' ', '/']).filter(|piece| piece.parse::<Ipv4Addr>().is_ok());
    // Four hexadecimal digits are part of a uid, and may recur in another by chance.
    let is_word =
        |word: &&str| !(word.is_empty() || word.len() == 4 && u16::from_str_radix(word, 16).is_ok());
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(is_word);
    words.chain(addresses).map(str::to_owned)
}

/// Fields whose strings are owner-specific.
const OWN_FIELDS: [&str; 12] = [
    "name",
    "namespace",
    "labels",
    "matchLabels",
    "nodeSelector",
    "image",
    "uid",
    "ip",
    "podIP",
    "hostIP",
    "clusterIP",
    "nodeName",
];

/// Checks that no owner-specific word is left in the renamed objects; returns how many there were.
#[track_caller]
fn nothing_survives(objects: &[Object]) -> usize {
    let names = anonymizer();
    let (mut own, mut left) = (BTreeSet::new(), BTreeSet::new());
    for object in objects {
        visit(&value(object), "", &mut |field, text| {
            if OWN_FIELDS.contains(&field) {
                own.extend(words_of(text).filter(|word| !is_public_word(word)));
            }
        });
        let renamed = names.object(object);
        let meta = Object::parse(renamed.as_str()).unwrap();
        assert!(meta.meta().name.len() <= 253);
        visit(&value(&renamed), "", &mut |field, text| {
            let is_message = ["message", "note"].contains(&field);
            let is_of_messages = |word: &String| MESSAGES.contains(&&*word.to_lowercase());
            left.extend(words_of(text).filter(|word| !is_message || !is_of_messages(word)));
        });
    }
    let both: Vec<&String> = own.intersection(&left).collect();
    assert!(both.is_empty(), "{both:?}");
    own.len()
}

#[test]
fn nothing_of_the_owners_survives_in_handmade_objects() {
    let objects = [POD, REPLICA_SET, NODE, EVENT, SECRETS].map(|json| Object::parse(json).unwrap());
    assert!(nothing_survives(&objects) > 20);
    for object in objects {
        let renamed = anonymizer().object(&object).as_str().to_lowercase();
        for word in [
            "acme",
            "falcon",
            "jane",
            "doe",
            "hunter2",
            "contoso",
            "mordor",
            "checkout",
            "payments",
            "gold",
            "pgpassword",
            "10-20-30-40",
            "10.20.30.40",
            "10.244.7",
        ] {
            assert!(!renamed.contains(word), "{word} is left in {renamed}");
        }
    }
}

#[test]
fn nothing_of_the_owners_survives_in_recorded_objects() {
    let tables = include_str!("../../../../testdata/kubernetes/tables.jsonl").lines();
    let tables = tables.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows = tables.flat_map(|table| table["rows"].as_array().unwrap().clone());
    let objects: Vec<Object> =
        rows.filter_map(|row| Object::parse(&row["object"].to_string()).ok()).collect();
    assert!(objects.len() > 100);
    assert!(nothing_survives(&objects) > 100);
}

#[test]
fn nothing_of_the_owners_survives_in_a_recording() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/films/small.jsonl.gz");
    let unpacked = Command::new("gzip").args(["-dc", recording]).output();
    let Some(unpacked) = unpacked.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: no films");
        return;
    };
    let lines = String::from_utf8(unpacked.stdout).unwrap();
    let objects: Vec<Object> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["object"].to_string())
        .map(|json| Object::parse(&json).unwrap())
        .collect();
    assert!(nothing_survives(&objects) > 500);
}
