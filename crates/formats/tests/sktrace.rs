//! Tests of reading SimKube's traces: those that SimKube wrote, and constructed ones of every version and variant.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and prints its seed")]

mod common;

use std::io::Cursor;
use std::path::Path;

use common::{describe_changes, shared_file};
use formats::{Format, ImportItem, Input, ReadOptions};
use model::{IncomingChange, Moment, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rmp::encode;
use serde_json::{Value, json};

fn read_options() -> ReadOptions {
    ReadOptions { source: "s".into(), at: None, now: Moment::from_nanos(0) }
}

fn read(bytes: Vec<u8>) -> Result<Vec<IncomingChange>, String> {
    let input = Input::open("file", Box::new(Cursor::new(bytes))).map_err(|error| error.to_string())?;
    let items = formats::read(input, Format::Sktrace, read_options()).map_err(|error| error.to_string())?;
    items
        .map(|item| match item.map_err(|error| error.to_string())? {
            ImportItem::Change(observed) => Ok(observed),
            other => Err(format!("{other:?}")),
        })
        .collect()
}

fn read_file(path: &Path) -> Vec<IncomingChange> {
    let bytes = std::fs::read(path).unwrap();
    let input = Input::open("file", Box::new(Cursor::new(bytes.clone()))).unwrap();
    assert_eq!(input.format, Some(Format::Sktrace), "{}", path.display());
    read(bytes).unwrap()
}

fn phase(observed: &IncomingChange) -> Value {
    observed.what.object().value().unwrap()["status"]["phase"].clone()
}

// --- traces of SimKube

#[test]
fn a_cron_job_and_its_pods() {
    let Some(path) = shared_file("data/simkube/cronjob.sktrace") else { return };
    let found = read_file(&path);
    // 10855072724872030168 in hexadecimal.
    let pod = "Pod default/hello-simkube-96a4f721710767d8";
    assert_eq!(
        describe_changes(&found),
        [
            "[1743286823 + TracerConfig.simkube.kinescope.io tracer]",
            "1743286823 + CronJob.batch default/hello-simkube",
            &format!("[1743286861 + {pod}-0]"),
            &format!("[1743286891 ~ {pod}-0]"),
            &format!("[1743286921 + {pod}-1]"),
            &format!("[1743286951 ~ {pod}-1]"),
            &format!("[1743286981 + {pod}-2]"),
            &format!("[1743287011 ~ {pod}-2]"),
            "1743287028 - CronJob.batch default/hello-simkube",
        ]
    );
    assert_eq!((phase(&found[6]), phase(&found[7])), (json!("Running"), json!("Succeeded")));
    let last = found[7].what.object().value().unwrap();
    assert_eq!(last["metadata"]["annotations"]["kinescope.io/simkube-pod-hash"], "10855072724872030168");
    assert_eq!(last["metadata"]["annotations"]["kinescope.io/simkube-sequence"], "2");
    assert_eq!(
        last["metadata"]["ownerReferences"],
        json!([{"apiVersion": "batch/v1", "controller": true, "kind": "CronJob", "name": "hello-simkube"}])
    );
    assert_eq!(
        last["status"]["containerStatuses"][0]["state"]["terminated"],
        json!({"exitCode": 0, "reason": "Completed",
               "startedAt": "2025-03-29T22:23:01Z", "finishedAt": "2025-03-29T22:23:31Z"})
    );
    // The template with the API server's defaults has the pods' hash, so it is their spec.
    assert_eq!(last["spec"]["tolerations"][1]["key"], "node.kubernetes.io/unreachable");
    // The deletion has the whole object, as older versions of SimKube wrote it.
    assert_eq!(found[8].what.object(), found[1].what.object());
}

#[test]
fn lifecycles_of_bare_pods_change_their_own_objects() {
    let Some(path) = shared_file("data/simkube/bare-pods.sktrace") else { return };
    let found = read_file(&path);
    let mut expected = vec!["[1781282468 + TracerConfig.simkube.kinescope.io tracer]".to_owned()];
    for (name, created, started, ended) in [
        (1781282449, 1781282468, 1781282468, Some(1781282480)),
        (1781282509, 1781282510, 1781282511, Some(1781282541)),
        (1781282570, 1781282570, 1781282571, Some(1781282601)),
        (1781282630, 1781282630, 1781282631, None),
    ] {
        let pod = format!("Pod testing/bare-pod-{name}");
        expected.push(format!("{created} + {pod}"));
        expected.push(format!("[{started} ~ {pod}]"));
        expected.extend(ended.map(|ended| format!("[{ended} ~ {pod}]")));
    }
    assert_eq!(describe_changes(&found), expected);
    assert_eq!(phase(found.last().unwrap()), "Running");
    assert_eq!(
        found[2].what.object().value().unwrap()["metadata"]["annotations"]["kinescope.io/simkube-pod-hash"],
        "2151974655102796215"
    );
}

#[test]
fn a_scaling_of_twenty_seven_deployments() {
    let Some(path) = shared_file("data/simkube/dsb-scaling.sktrace") else { return };
    let found = read_file(&path);
    let added = found.iter().filter(|seen| !seen.inferred && matches!(seen.what, What::Added(_))).count();
    assert_eq!(added, 27);
    assert!(found.iter().map(|seen| seen.seen).is_sorted());
}

#[test]
fn traces_in_json() {
    let (Some(one), Some(other)) =
        (shared_file("data/simkube/trace.json"), shared_file("data/simkube/validation_trace.json"))
    else {
        return;
    };
    let found = read_file(&one);
    assert_eq!(
        describe_changes(&found),
        [
            "[1709241485 + TracerConfig.simkube.kinescope.io tracer]",
            "1709241485 + Deployment.apps default/nginx-deployment",
            "1709241485 - Deployment.apps default/nginx-deployment-2",
        ]
    );
    let text: Value = serde_json::from_slice(&std::fs::read(&one).unwrap()).unwrap();
    assert_eq!(found[1].what.object().value().unwrap(), text["events"][0]["applied_objs"][0]);
    assert!(read_file(&other).len() > 1);
}

// --- constructed traces

/// Writes a value, positive integers with the given width.
fn pack(out: &mut Vec<u8>, value: &Value, width: u32) {
    match value {
        Value::Null => encode::write_nil(out).unwrap(),
        Value::Bool(truth) => encode::write_bool(out, *truth).unwrap(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => match width {
                32 => encode::write_u32(out, number.try_into().unwrap()).unwrap(),
                64 => encode::write_u64(out, number).unwrap(),
                65 => encode::write_i64(out, number.try_into().unwrap()).unwrap(),
                _ => drop(encode::write_uint(out, number).unwrap()),
            },
            (None, Some(number)) => drop(encode::write_sint(out, number).unwrap()),
            (None, None) => encode::write_f64(out, number.as_f64().unwrap()).unwrap(),
        },
        Value::String(text) => encode::write_str(out, text).unwrap(),
        Value::Array(entries) => {
            encode::write_array_len(out, entries.len() as u32).unwrap();
            entries.iter().for_each(|entry| pack(out, entry, width));
        }
        Value::Object(fields) => {
            encode::write_map_len(out, fields.len() as u32).unwrap();
            for (name, value) in fields {
                encode::write_str(out, name).unwrap();
                pack(out, value, width);
            }
        }
    }
}

fn packed(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    pack(&mut out, value, 0);
    out
}

/// A map of keys and values that are msgpack already.
fn map(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::write_map_len(&mut out, entries.len() as u32).unwrap();
    entries.iter().for_each(|(key, value)| out.extend([&key[..], value].concat()));
    out
}

fn list(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::write_array_len(&mut out, entries.len() as u32).unwrap();
    out.extend(entries.concat());
    out
}

fn named(parts: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let parts: Vec<_> = parts.iter().map(|(name, part)| (packed(&json!(name)), part.clone())).collect();
    map(&parts)
}

fn config() -> Value {
    json!({"trackedObjects": {"apps/v1.Deployment": {"trackLifecycle": true}, "v1.Pod": {}}})
}

fn deployment(name: &str, replicas: i64) -> Value {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
           "spec": {"replicas": replicas, "template": template}})
}

fn stub(kind: &str, name: &str) -> Value {
    json!({"apiVersion": if kind == "Pod" { "v1" } else { "apps/v1" }, "kind": kind,
           "metadata": {"name": name, "namespace": "shop"}})
}

fn events() -> Value {
    json!([
        {"ts": 100, "applied_objs": [deployment("web", 1)], "deleted_objs": []},
        {"ts": 160, "applied_objs": [deployment("web", 2)], "deleted_objs": []},
        {"ts": 200, "applied_objs": [], "deleted_objs": [stub("Deployment", "web")]},
    ])
}

/// The lifecycles of one owner's pods, whose hash is 7.
fn packed_lifecycles(owner: &Value, lifecycles: &[Value]) -> Vec<u8> {
    let lifecycles: Vec<Vec<u8>> = lifecycles.iter().map(packed).collect();
    map(&[(packed(owner), map(&[(packed(&json!(7)), list(&lifecycles))]))])
}

fn version_2(events: &Value, lifecycles: Vec<u8>) -> Vec<u8> {
    named(&[
        ("version", packed(&json!(2))),
        ("config", packed(&config())),
        ("events", packed(events)),
        ("index", packed(&json!({}))),
        ("pod_lifecycles", lifecycles),
    ])
}

const OWNER: [&str; 2] = ["apps/v1.Deployment", "shop/web"];

/// The changes of the events above and a lifecycle from 130 to 170.
const EXPECTED_CHANGES: [&str; 6] = [
    "[100 + TracerConfig.simkube.kinescope.io tracer]",
    "100 + Deployment.apps shop/web",
    "[130 + Pod shop/web-7-0]",
    "160 ~ Deployment.apps shop/web",
    "[170 ~ Pod shop/web-7-0]",
    "200 - Deployment.apps shop/web",
];

#[track_caller]
fn check(bytes: Vec<u8>, expected: &[&str]) -> Vec<IncomingChange> {
    let found = read(bytes).unwrap();
    assert_eq!(describe_changes(&found), expected);
    found
}

#[track_caller]
fn refused(bytes: Vec<u8>, message: &str) {
    let error = read(bytes).expect_err(message);
    assert!(error.contains(message), "{error:?} should say {message:?}");
}

#[test]
fn every_version_gives_the_same_changes() {
    let finished = [json!({"Finished": [130, 170]})];
    let (owner, owner_1) = (json!(OWNER), json!("shop/web"));
    check(version_2(&events(), packed_lifecycles(&owner, &finished)), &EXPECTED_CHANGES);
    let parts = [packed(&config()), packed(&events()), packed(&json!({}))];
    let with = |first: &[Vec<u8>], last: Vec<u8>| list(&[first, &parts[..], &[last]].concat());
    // Version 2 without field names, version 1, version 0.
    check(with(&[packed(&json!(2))], packed_lifecycles(&owner, &finished)), &EXPECTED_CHANGES);
    check(with(&[], packed_lifecycles(&owner_1, &finished)), &EXPECTED_CHANGES);
    let without: Vec<&str> = EXPECTED_CHANGES.into_iter().filter(|line| !line.contains("Pod")).collect();
    check(list(&parts[..2]), &without);
    let json =
        json!({"version": 2, "config": config(), "events": events(), "index": {}, "pod_lifecycles": {}});
    check(json.to_string().into_bytes(), &without);
    check(format!("\u{feff} {json:#}\n").into_bytes(), &without);
    check(json!([config(), events(), {}, {}]).to_string().into_bytes(), &without);
}

#[test]
fn parts_come_in_any_order_with_others_between() {
    let finished = [json!({"Finished": [130, 170]})];
    let events = events();
    let turned = events.as_array().unwrap().iter().map(|event| {
        named(&[
            ("deleted_objs", packed(&event["deleted_objs"])),
            ("extra", packed(&json!({"a": [1, {}]}))),
            ("applied_objs", packed(&event["applied_objs"])),
            ("ts", packed(&event["ts"])),
        ])
    });
    let bytes = named(&[
        ("unheard", packed(&json!([[1], {"b": null}]))),
        ("pod_lifecycles", packed_lifecycles(&json!(OWNER), &finished)),
        ("events", list(&turned.collect::<Vec<_>>())),
        ("index", packed(&json!({"apps/v1.Deployment": {"shop/web": u64::MAX}}))),
        ("config", packed(&config())),
        ("version", packed(&json!(2))),
    ]);
    check(bytes, &EXPECTED_CHANGES);
    // An event without field names.
    let positional = json!([[100, [deployment("web", 1)], []], [200, [], [stub("Deployment", "web")]]]);
    let bytes = version_2(&positional, packed_lifecycles(&json!(OWNER), &[]));
    check(bytes, &[EXPECTED_CHANGES[0], EXPECTED_CHANGES[1], EXPECTED_CHANGES[5]]);
}

#[test]
fn numbers_of_any_width_and_words_by_number() {
    for width in [0, 32, 64, 65] {
        let mut wide = Vec::new();
        pack(&mut wide, &events(), width);
        let finished = map(&[(packed(&json!(2)), packed(&json!([130, 170])))]);
        let lives = map(&[(packed(&json!(OWNER)), map(&[(packed(&json!(7)), list(&[finished]))]))]);
        let bytes = named(&[
            ("version", packed(&json!(2))),
            ("config", list(&[packed(&config()["trackedObjects"])])),
            ("events", wide),
            ("index", packed(&json!({}))),
            ("pod_lifecycles", lives),
        ]);
        let found = check(bytes, &EXPECTED_CHANGES);
        assert_eq!(found[1].what.object().value().unwrap(), deployment("web", 1));
    }
}

#[test]
fn pods_of_two_owners_with_the_same_name_are_distinct() {
    let running = |start: i64| map(&[(packed(&json!(7)), list(&[packed(&json!({"Running": start}))]))]);
    let owner = |kind: &str| packed(&json!([format!("apps/v1.{kind}"), "shop/web"]));
    let lives = map(&[(owner("Deployment"), running(130)), (owner("StatefulSet"), running(140))]);
    check(
        version_2(&events(), lives),
        &[
            EXPECTED_CHANGES[0],
            EXPECTED_CHANGES[1],
            "[130 + Pod shop/web-deployment-7-0]",
            "[140 + Pod shop/web-statefulset-7-0]",
            EXPECTED_CHANGES[3],
            EXPECTED_CHANGES[5],
        ],
    );
}

#[test]
fn lifecycles_that_never_start_or_end() {
    let all = [json!("Empty"), json!({"Running": 90}), json!({"Finished": [300, 250]}), json!(0)];
    let found = check(
        version_2(&events(), packed_lifecycles(&json!(OWNER), &all)),
        &[
            "[90 + TracerConfig.simkube.kinescope.io tracer]",
            "[90 + Pod shop/web-7-0]",
            "[90 + Pod shop/web-7-3]",
            "[90 + Pod shop/web-7-1]",
            "100 + Deployment.apps shop/web",
            "160 ~ Deployment.apps shop/web",
            "200 - Deployment.apps shop/web",
            "[300 + Pod shop/web-7-2]",
            "[300 ~ Pod shop/web-7-2]",
        ],
    );
    assert_eq!((phase(&found[1]), phase(&found[3])), (json!("Pending"), json!("Running")));
    // The template is known from the first event on, even if the lifecycle starts earlier.
    assert_eq!(found[3].what.object().value().unwrap()["spec"]["containers"][0]["image"], "i");
}

#[test]
fn a_bare_pod_that_is_deleted_ends_before() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"},
                     "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending", "hostIP": "h"}});
    let events = json!([
        {"ts": 100, "applied_objs": [pod], "deleted_objs": []},
        {"ts": 120, "applied_objs": [], "deleted_objs": [stub("Pod", "p")]},
        {"ts": 130, "applied_objs": [pod], "deleted_objs": [stub("Pod", "p")]},
    ]);
    let two = [json!({"Finished": [90, 121]}), json!({"Finished": [130, 130]})];
    let found = check(
        version_2(&events, packed_lifecycles(&json!(["v1.Pod", "shop/p"]), &two)),
        &[
            "[100 + TracerConfig.simkube.kinescope.io tracer]",
            "100 + Pod shop/p",
            // It started before its first event, and ended a second after its deletion, by another clock.
            "[100 ~ Pod shop/p]",
            "[120 ~ Pod shop/p]",
            "120 - Pod shop/p",
            "130 + Pod shop/p",
            "[130 ~ Pod shop/p]",
            "[130 ~ Pod shop/p]",
            "130 - Pod shop/p",
        ],
    );
    let status = &found[3].what.object().value().unwrap()["status"];
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["finishedAt"], "1970-01-01T00:02:01Z");
    assert_eq!((&status["phase"], &status["hostIP"]), (&json!("Succeeded"), &json!("h")));
}

#[test]
fn a_bare_pod_missing_in_the_trace_is_synthesized() {
    let found = check(
        version_2(
            &json!([]),
            packed_lifecycles(&json!(["v1.Pod", "shop/p"]), &[json!({"Finished": [90, 121]})]),
        ),
        &["[90 + TracerConfig.simkube.kinescope.io tracer]", "[90 + Pod shop/p]", "[121 ~ Pod shop/p]"],
    );
    assert_eq!(found[1].what.object().value().unwrap()["metadata"].get("ownerReferences"), None);
}

#[test]
fn an_owner_without_a_kind_is_the_object_of_that_name_or_of_the_only_kind_with_lifecycles() {
    let reference = |events: Value, owner: &str| {
        let lifecycle = packed_lifecycles(&json!(owner), &[json!({"Running": 130})]);
        let bytes = list(&[packed(&config()), packed(&events), packed(&json!({})), lifecycle]);
        let found = read(bytes).unwrap();
        let pod =
            found.iter().find(|seen| &*seen.key.kind.kind == "Pod").unwrap().what.object().value().unwrap();
        pod["metadata"]["ownerReferences"][0]["kind"].clone()
    };
    let mut set = deployment("web", 1);
    set["kind"] = json!("StatefulSet");
    let applied = json!([{"ts": 1, "applied_objs": [set], "deleted_objs": []}]);
    assert_eq!(reference(applied.clone(), "shop/web"), "StatefulSet");
    assert_eq!(reference(applied, "shop/other"), "Deployment");
}

#[test]
fn errors_have_their_position() {
    let good = || packed_lifecycles(&json!(OWNER), &[]);
    let all = |version: Value| {
        named(&[
            ("version", packed(&version)),
            ("config", packed(&config())),
            ("events", packed(&json!([]))),
            ("index", packed(&json!({}))),
            ("pod_lifecycles", packed(&json!({}))),
        ])
    };
    refused(all(json!(3)), "file, byte 9: version 3 is not supported: expected 0, 1 or 2");
    refused(all(json!("2")), "version: invalid type: string");
    refused(named(&[("version", packed(&json!(2)))]), "config is missing");
    refused(list(&[packed(&config())]), "must have 2, 4 or 5 parts, found 1");
    refused(version_2(&json!({}), good()), "events must be a list");
    refused(version_2(&json!([1]), good()), "an event must be a map");
    refused(version_2(&json!([{"ts": 1}]), good()), "an event must have ts, applied_objs and deleted_objs");
    let nameless = json!([{"ts": 1, "applied_objs": [{"apiVersion": "v1", "kind": "Pod", "metadata": {}}], "deleted_objs": []}]);
    refused(version_2(&nameless, good()), "missing field `name`");
    let far = json!([{"ts": i64::MAX, "applied_objs": [], "deleted_objs": []}]);
    refused(version_2(&far, good()), "is outside the years 1677 to 2262");
    refused(
        version_2(&events(), packed_lifecycles(&json!(OWNER), &[json!({"Done": 1})])),
        "a lifecycle must be \"Empty\"",
    );
    refused(version_2(&events(), packed_lifecycles(&json!(["web"]), &[])), "a pod owner must be");
    refused(version_2(&events(), packed_lifecycles(&json!(["web", "x"]), &[])), "invalid format for gvk");
    let whole = version_2(&events(), good());
    let cut = whole.len() - 3;
    refused(whole[..cut].to_vec(), &format!("file, byte {cut}: unexpected end of file"));
    refused(b"{\"version\": 2 \"config\": {}}".to_vec(), "file, byte 14: expected ',' here");
    refused(b"{\"version\": 2, \"events\": [1, 2".to_vec(), "file, byte 30: unexpected end of file");
}

#[test]
fn declared_lengths_take_no_memory() {
    let start = |claim: &[u8]| {
        let mut bytes = vec![0x85, 0xa7];
        bytes.extend(b"version\x02\xa6config\x81\xaetrackedObjects\x80\xa6events");
        bytes.extend(claim);
        bytes
    };
    refused(start(&[0xdd, 0xff, 0xff, 0xff, 0xff]), "unexpected end of file");
    refused(start(&[0xdf, 0xff, 0xff, 0xff, 0xff]), "events must be a list");
    refused(start(&[0x91, 0xdb, 0xff, 0xff, 0xff, 0xff, b'a']), "unexpected end of file");
    refused(start(&[0x91; 100_000]), "unexpected end of file");
    let object = |inside: Vec<u8>| {
        let event = named(&[
            ("ts", packed(&json!(1))),
            ("applied_objs", list(&[inside])),
            ("deleted_objs", packed(&json!([]))),
        ]);
        named(&[
            ("version", packed(&json!(2))),
            ("config", packed(&config())),
            ("events", list(&[event])),
            ("index", packed(&json!({}))),
            ("pod_lifecycles", packed(&json!({}))),
        ])
    };
    refused(object([vec![0x91; 121], vec![0xc0]].concat()), "nested deeper than 120 levels");
    refused(object(vec![0xc4, 1, 0]), "binary data is not allowed in a Kubernetes object");
    refused(object(vec![0x81, 1, 1]), "a key is not a string");
    refused(object(vec![0xa1, 0xff]), "a string is not UTF-8");
    refused(object(vec![0xc1]), "c1 is not a valid msgpack type");
    let mut long = vec![0xdb];
    long.extend(((64_u32 << 20) + 1).to_be_bytes());
    long.resize(long.len() + (64 << 20) + 1, b'x');
    refused(object(long), "longer than 64 MiB");
}

#[test]
fn mutated_traces_are_read_or_refused() {
    let seed = 17;
    println!("seed {seed}");
    let mut rng = Pcg64::seed_from_u64(seed);
    let life = [json!("Empty"), json!({"Running": 90}), json!({"Finished": [130, 170]})];
    let text =
        json!({"version": 2, "config": config(), "events": events(), "index": {}, "pod_lifecycles": {}});
    let samples = [
        version_2(&events(), packed_lifecycles(&json!(OWNER), &life)),
        version_2(&events(), packed_lifecycles(&json!(["v1.Pod", "shop/p"]), &life)),
        text.to_string().into_bytes(),
    ];
    let (mut good, mut bad) = (0, 0);
    for sample in samples {
        for _ in 0..4_000 {
            let mut bytes = sample.clone();
            for _ in 0..rng.random_range(1..4) {
                let index = rng.random_range(0..bytes.len());
                match rng.random_range(0..4) {
                    0 => bytes[index] ^= 1 << rng.random_range(0..8),
                    1 => bytes[index] = rng.random(),
                    2 => bytes.truncate(index.max(1)),
                    _ => {
                        let end = (index + rng.random_range(1..40)).min(bytes.len());
                        let again = bytes[index..end].to_vec();
                        bytes.splice(index..index, again);
                    }
                }
            }
            match read(bytes) {
                Ok(found) => {
                    good += 1;
                    found.iter().for_each(|seen| drop(seen.what.object().value().unwrap()));
                }
                Err(error) => {
                    bad += 1;
                    assert!(error.starts_with("file"), "{error}");
                }
            }
        }
    }
    println!("{good} read, {bad} refused");
    assert!(good > 500 && bad > 5_000, "the mutations are all harmless or all alike: {good}, {bad}");
}
