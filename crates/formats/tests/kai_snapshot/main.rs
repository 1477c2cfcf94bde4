//! Tests of KAI scheduler snapshots: of every release, damaged ones, and those that are written here.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and prints its seed")]

use std::collections::BTreeSet;
use std::io::{Cursor, Write};

use formats::kai_snapshot;
use formats::{ImportItem, Input};
use serde_json::{Value, json};
use testobjects::resource;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

mod writing;
mod zips;

/// The lists of v0.17 and the kinds of their items.
const KINDS: [(&str, &str, &str); 17] = [
    ("pods", "v1", "Pod"),
    ("nodes", "v1", "Node"),
    ("queues", "scheduling.run.ai/v2", "Queue"),
    ("podGroups", "scheduling.run.ai/v2alpha2", "PodGroup"),
    ("bindRequests", "scheduling.run.ai/v1alpha2", "BindRequest"),
    ("priorityClasses", "scheduling.k8s.io/v1", "PriorityClass"),
    ("configMaps", "v1", "ConfigMap"),
    ("persistentVolumes", "v1", "PersistentVolume"),
    ("persistentVolumeClaims", "v1", "PersistentVolumeClaim"),
    ("csiStorageCapacities", "storage.k8s.io/v1", "CSIStorageCapacity"),
    ("storageClasses", "storage.k8s.io/v1", "StorageClass"),
    ("csiDrivers", "storage.k8s.io/v1", "CSIDriver"),
    ("resourceClaims", "resource.k8s.io/v1", "ResourceClaim"),
    ("resourceSlices", "resource.k8s.io/v1", "ResourceSlice"),
    ("deviceClasses", "resource.k8s.io/v1", "DeviceClass"),
    ("topologies", "kai.scheduler/v1alpha1", "Topology"),
    ("nodeResourceTopologies", "topology.node.k8s.io/v1alpha2", "NodeResourceTopology"),
];

fn read(bytes: Vec<u8>) -> Result<Vec<ImportItem>, String> {
    let input = Input::open("file", Box::new(Cursor::new(bytes))).map_err(|error| error.to_string())?;
    let items = kai_snapshot::read(input).map_err(|error| error.to_string())?;
    items.map(|item| item.map_err(|error| error.to_string())).collect()
}

fn zipped(name: &str, json: &[u8]) -> Vec<u8> {
    zipped_as(SimpleFileOptions::default(), &[(name, json)])
}

/// A ZIP as Go writes it: a stream with the sizes after the data.
fn zipped_as(options: SimpleFileOptions, entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new_stream(Vec::new());
    for (name, json) in entries {
        zip.start_file(*name, options).unwrap();
        zip.write_all(json).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Objects as `v1 Pod d/p`, and warnings.
fn describe_items(items: &[ImportItem]) -> Vec<String> {
    items
        .iter()
        .map(|item| match item {
            ImportItem::Object(object) => {
                let meta = object.meta();
                format!("{} {}", meta.api_version, object.key(&"s".into()))
            }
            ImportItem::Warning(why) => why.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[track_caller]
fn check(json: &str, expected: &[&str]) {
    assert_eq!(describe_items(&read(json.into()).unwrap()), expected);
    assert_eq!(
        describe_items(&read(zipped("snapshot.json", json.as_bytes())).unwrap()),
        expected,
        "the same in a ZIP"
    );
}

#[track_caller]
fn refused(bytes: Vec<u8>, message: &str) {
    let error = read(bytes).expect_err(message);
    assert!(error.contains(message), "{error:?} should say {message:?}");
}

#[test]
fn items_get_the_kind_of_their_list() {
    let lists: serde_json::Map<String, Value> =
        KINDS.iter().map(|(key, ..)| ((*key).to_owned(), json!([{"metadata": {"name": "a"}}]))).collect();
    let items = read(json!({"rawObjects": lists}).to_string().into_bytes()).unwrap();
    let found: BTreeSet<String> = describe_items(&items).into_iter().collect();
    let expected = KINDS.map(|(_, api_version, kind)| {
        let key = resource(api_version, kind, "a").object().key(&"s".into());
        format!("{api_version} {key}")
    });
    assert_eq!(found, expected.into_iter().collect());
}

#[test]
fn bytes_and_existing_kinds_are_kept() {
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a" , "x":1.50}}"#;
    let bare = r#"{"metadata":{"name":"b","annotations":{"h":"\u003c"}}}"#;
    let text = format!("{{\"config\":{{}}\n,\"rawObjects\":{{\"pods\":[{pod}\n,{bare}\n]}}}}");
    let items = read(text.into_bytes()).unwrap();
    let texts: Vec<&str> = items
        .iter()
        .map(|item| match item {
            ImportItem::Object(object) => object.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        texts,
        [
            pod,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","annotations":{"h":"\u003c"}}}"#,
            r#"{"apiVersion":"kai.kinescope.io/v1","kind":"SnapshotSettings","metadata":{"name":"kai-scheduler"},"config":{}}"#,
        ]
    );
}

/// Before v0.10 the configuration had explicit `disable…: false`.
const OLD_CONFIG: &str = r#"{"actions":"allocate","tiers":[{"plugins":[{"name":"predicates","disableJobOrder":false,"arguments":null}]}]}"#;
const CONFIG: &str = r#"{"actions":"allocate","tiers":[{"plugins":[{"name":"predicates"}]}]}"#;
const PARAMS: &str =
    r#"{"schedulerName":"s","partitionParams":{"NodePoolLabelKey":"","NodePoolLabelValue":""}}"#;
const SETTINGS: &str = "kai.kinescope.io/v1 SnapshotSettings.kai.kinescope.io s";
const TOPOLOGIES: &str =
    r#""topologies":[{"metadata":{"name":"t"},"spec":{"levels":[{"nodeLabel":"rack"}]}}]"#;
const OLD_CLAIMS: &str = r#""resourceClaims":[{"metadata":{"name":"c","namespace":"d"},"spec":{"devices":{"requests":[{"name":"r","deviceClassName":"gpu","count":1}]}}}],"resourceSlices":[{"metadata":{"name":"s"},"spec":{"devices":[{"name":"gpu-0","basic":{"attributes":{"a":{"int":1}}}}]}}],"deviceClasses":[{"metadata":{"name":"gpu"},"spec":{}}]"#;
const CLAIMS: &str = r#""resourceClaims":[{"metadata":{"name":"c","namespace":"d"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu","count":1}}]}}}],"resourceSlices":[{"metadata":{"name":"s"},"spec":{"devices":[{"name":"gpu-0","attributes":{"a":{"int":1}}}]}}],"deviceClasses":[{"metadata":{"name":"gpu"},"spec":{}}]"#;

#[test]
fn up_to_v0_7_there_are_budgets_and_old_claims() {
    check(
        &format!(
            r#"{{"config":{OLD_CONFIG},"schedulerParams":{PARAMS},"rawObjects":{{"pods":[],"nodes":null,"podDisruptionBudgets":[{{"metadata":{{"name":"b","namespace":"d"}}}}],{OLD_CLAIMS}}}}}"#
        ),
        &[
            "policy/v1 PodDisruptionBudget.policy d/b",
            "resource.k8s.io/v1beta1 ResourceClaim.resource.k8s.io d/c",
            "resource.k8s.io/v1beta1 ResourceSlice.resource.k8s.io s",
            "resource.k8s.io/v1beta1 DeviceClass.resource.k8s.io gpu",
            SETTINGS,
        ],
    );
}

#[test]
fn before_v0_10_topologies_are_kueues() {
    check(
        &format!(
            r#"{{"config":{OLD_CONFIG},"schedulerParams":{PARAMS},"rawObjects":{{{OLD_CLAIMS},{TOPOLOGIES}}}}}"#
        ),
        &[
            "resource.k8s.io/v1beta1 ResourceClaim.resource.k8s.io d/c",
            "resource.k8s.io/v1beta1 ResourceSlice.resource.k8s.io s",
            "resource.k8s.io/v1beta1 DeviceClass.resource.k8s.io gpu",
            "kueue.x-k8s.io/v1alpha1 Topology.kueue.x-k8s.io t",
            SETTINGS,
        ],
    );
    let own = r#"{"apiVersion":"kueue.x-k8s.io/v1beta1","kind":"Topology","metadata":{"name":"t"}}"#;
    check(
        &format!(r#"{{"rawObjects":{{"topologies":[{own}]}}}}"#),
        &["kueue.x-k8s.io/v1beta1 Topology.kueue.x-k8s.io t"],
    );
}

#[test]
fn since_v0_10_claims_are_v1_and_since_v0_12_topologies_are_kais() {
    check(
        &format!(
            r#"{{"config":{CONFIG},"schedulerParams":{PARAMS},"rawObjects":{{{CLAIMS},{TOPOLOGIES}}}}}"#
        ),
        &[
            "resource.k8s.io/v1 ResourceClaim.resource.k8s.io d/c",
            "resource.k8s.io/v1 ResourceSlice.resource.k8s.io s",
            "resource.k8s.io/v1 DeviceClass.resource.k8s.io gpu",
            "kai.scheduler/v1alpha1 Topology.kai.scheduler t",
            SETTINGS,
        ],
    );
}

#[test]
fn since_v0_15_every_value_ends_its_line_and_lists_may_be_null() {
    let text = format!(
        "{{\"config\":{CONFIG}\n,\"schedulerParams\":{PARAMS}\n,\"rawObjects\":{{\"pods\":[{{\"metadata\":{{\"name\":\"p\",\"namespace\":\"d\"}}}}\n,{{\"metadata\":{{\"name\":\"q\",\"namespace\":\"d\"}}}}\n],\"resourceClaims\":null\n,\"persistentVolumes\":[],\"nodeResourceTopologies\":null\n}},\"discovery\":{{\"serverVersion\":{{\"major\":\"1\"}}\n,\"resources\":null\n}}}}"
    );
    check(&text, &["v1 Pod d/p", "v1 Pod d/q", SETTINGS]);
    let items = read(text.into_bytes()).unwrap();
    let Some(ImportItem::Object(settings)) = items.last() else { panic!() };
    assert_eq!(
        settings.as_str(),
        format!(
            "{{\"apiVersion\":\"kai.kinescope.io/v1\",\"kind\":\"SnapshotSettings\",\"metadata\":{{\"name\":\"s\"}},\"config\":{CONFIG},\"schedulerParams\":{PARAMS},\"discovery\":{{\"serverVersion\":{{\"major\":\"1\"}}\n,\"resources\":null\n}}}}"
        )
    );
}

#[test]
fn unknown_keys_are_reported() {
    check(
        r#"{"rawObjects":{"pods":[],"gadgets":[{"metadata":{}}]},"taken":"now"}"#,
        &["file: unknown key gadgets ignored", "file: unknown key taken ignored"],
    );
    let many: String = (0..100).map(|index| format!("\"k{index}\":0,")).collect();
    let items = read(format!("{{{many}\"rawObjects\":{{}}}}").into_bytes()).unwrap();
    assert_eq!(items.len(), 10);
    check(r#"{"rawObjects":{}} {"more":1}"#, &["file: data after the end of snapshot.json ignored"]);
}

#[test]
fn other_files_are_refused() {
    refused(br#"{"snapshot":{"jobs":{}},"config":{}}"#.to_vec(), "before v0.3.0 are not supported");
    refused(br#"{"config":{}}"#.to_vec(), "not a KAI snapshot: \"rawObjects\" is missing");
    refused(b"[]".to_vec(), "rawObjects");
    refused(br#"{"rawObjects":null}"#.to_vec(), "file, rawObjects: neither an object nor a list");
    refused(br#"{"rawObjects":{"pods":7}}"#.to_vec(), "file, rawObjects.pods: neither");
    refused(
        br#"{"rawObjects":{"pods":[null]}}"#.to_vec(),
        "file, rawObjects.pods[0]: not a Kubernetes object",
    );
    refused(
        br#"{"rawObjects":{"nodes":[{"metadata":{"name":"a"}},{"metadata":{"name":"../b"}}]}}"#.to_vec(),
        "file, rawObjects.nodes[1]: \"../b\" is not a valid name",
    );
    refused(br#"{"config":{"a":},"rawObjects":{}}"#.to_vec(), "file, config: not JSON");
    refused(br#"{"config":{"a":1e999},"rawObjects":{}}"#.to_vec(), "scheduler settings: ");
    refused(
        br#"{"rawObjects":{"pods":[{"metadata":{"name":"a"}}"#.to_vec(),
        "byte 48: unexpected end, at rawObjects.pods[0]",
    );
}

#[test]
fn a_scheduler_whose_name_no_object_can_have() {
    check(
        r#"{"schedulerParams":{"schedulerName":"a/b"},"rawObjects":{}}"#,
        &["kai.kinescope.io/v1 SnapshotSettings.kai.kinescope.io kai-scheduler"],
    );
}
