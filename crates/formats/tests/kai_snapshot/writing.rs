//! Tests of writing snapshots.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use formats::kai_snapshot::{KaiSnapshotWriter, Partition};
use formats::{ImportItem, WriteSummary};
use model::{Change, Moment, Object, What};
use serde_json::{Value, json};

use super::{CLAIMS, KINDS, OLD_CLAIMS, OLD_CONFIG, PARAMS, TOPOLOGIES, read};

fn of_kind(api_version: &str, kind: &str, more: &Value) -> Object {
    let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    testobjects::object(&value)
}

fn labeled(api_version: &str, kind: &str, name: &str, pool: Option<&str>) -> Object {
    let labels = pool.map(|pool| json!({"kai.scheduler/node-pool": pool}));
    of_kind(api_version, kind, &json!({"metadata": {"name": name, "labels": labels}}))
}

fn write(objects: &[Object], partition: Option<Partition>) -> (Vec<u8>, WriteSummary) {
    let mut bytes = Vec::new();
    let mut writer: Box<dyn formats::Writer + '_> = Box::new(KaiSnapshotWriter::new(&mut bytes, partition));
    for object in objects {
        let at = Moment::from_nanos(0);
        let key = object.key(&"s".into());
        let what = What::Added(object.clone());
        writer.change(&Change { seq: 0, at, seen: at, key, what, inferred: false }).unwrap();
    }
    let written = writer.finish().unwrap();
    (bytes, written)
}

fn written_text(bytes: &[u8]) -> String {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    assert_eq!(archive.len(), 1);
    let mut text = String::new();
    archive.by_name("snapshot.json").unwrap().read_to_string(&mut text).unwrap();
    text
}

/// What a written snapshot has besides its time.
fn read_objects(bytes: Vec<u8>) -> Vec<ImportItem> {
    let mut items = read(bytes).unwrap();
    assert!(matches!(items.pop(), Some(ImportItem::CaptureTime(_))));
    items
}

fn written_json(bytes: &[u8]) -> Value {
    serde_json::from_str(&written_text(bytes)).unwrap()
}

fn left_out(written: &WriteSummary) -> BTreeMap<String, u64> {
    written.left_out.iter().map(|(what, count)| (what.to_owned(), count)).collect()
}

/// Checks what the scheduler's own tool relies on.
#[track_caller]
fn assert_readable_by_kai(json: &Value) {
    for key in ["config", "schedulerParams", "rawObjects"] {
        assert!(json[key].is_object(), "{key}");
    }
    // Absent where the scheduler of an older release captured none.
    assert!(json.get("discovery").is_none_or(Value::is_object));
    assert!(json["schedulerParams"]["partitionParams"]["NodePoolLabelKey"].is_string());
    assert!(json["schedulerParams"]["partitionParams"]["NodePoolLabelValue"].is_string());
    let actions: Vec<&str> = json["config"]["actions"].as_str().unwrap().split(',').map(str::trim).collect();
    let known = ["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"];
    assert!(actions.iter().all(|action| known.contains(action)), "{actions:?}");
    let tiers = json["config"]["tiers"].as_array().unwrap();
    let plugins: Vec<&str> = tiers
        .iter()
        .flat_map(|tier| tier["plugins"].as_array().unwrap())
        .map(|plugin| plugin["name"].as_str().unwrap())
        .collect();
    if ["consolidation", "reclaim", "preempt"].iter().any(|action| actions.contains(action)) {
        assert!(plugins.iter().any(|plugin| plugin.starts_with("sg-")), "{plugins:?}");
    }
    let lists = json["rawObjects"].as_object().unwrap();
    assert_eq!(lists.len(), 17);
    for (key, items) in lists {
        for item in items.as_array().into_iter().flatten() {
            assert!(item.is_object() && item["metadata"].is_object(), "{key}: {item}");
            assert!(item.get("kind").is_none() && item.get("apiVersion").is_none(), "{key}: {item}");
        }
    }
    for list in json["discovery"]["resources"].as_array().into_iter().flatten() {
        assert!(list["groupVersion"].is_string() && list["resources"].is_array());
    }
}

#[test]
fn all_lists_are_written_and_read_back() {
    let objects: Vec<Object> = KINDS
        .iter()
        .map(|(_, api_version, kind)| {
            of_kind(
                api_version,
                kind,
                &json!({"spec": {"text": "<é&>", "big": 9_223_372_036_854_775_807_i64}}),
            )
        })
        .collect();
    let (bytes, written) = write(&objects, None);
    assert_eq!((written.count, left_out(&written)), (17, BTreeMap::new()));
    let json = written_json(&bytes);
    assert_readable_by_kai(&json);
    for (key, ..) in KINDS {
        assert_eq!(json["rawObjects"][key].as_array().unwrap().len(), 1, "{key}");
    }
    assert!(written_text(&bytes).contains(r#"{"big":9223372036854775807,"text":"\u003cé\u0026\u003e"}"#));
    assert_eq!(json["discovery"]["serverVersion"], json!({"major": "1", "minor": "35"}));
    let served: Vec<&Value> =
        json["discovery"]["resources"].as_array().unwrap().iter().map(|list| &list["groupVersion"]).collect();
    assert_eq!(served, ["resource.k8s.io/v1", "topology.node.k8s.io/v1alpha2"]);
    let items = read_objects(bytes);
    assert_eq!(items.len(), 18, "and the settings");
    for (item, object) in items.iter().zip(&objects) {
        let ImportItem::Object(found) = item else { panic!("{item:?}") };
        assert_eq!(found.value().unwrap(), object.value().unwrap());
    }
}

#[test]
fn an_empty_cluster_makes_a_snapshot() {
    let (bytes, written) = write(&[], None);
    assert_eq!((written.count, left_out(&written)), (0, BTreeMap::new()));
    let json = written_json(&bytes);
    assert_readable_by_kai(&json);
    assert!(json["discovery"].is_object());
    for (key, ..) in KINDS {
        let null = ["resourceClaims", "resourceSlices", "deviceClasses", "nodeResourceTopologies"];
        let expected = if null.contains(&key) { Value::Null } else { json!([]) };
        assert_eq!(json["rawObjects"][key], expected, "{key}");
    }
    assert_eq!(json["discovery"]["resources"], json!([]));
    assert_eq!(bytes, write(&[], None).0, "the same moment is the same file");
    assert_eq!(bytes[6] & 8, 8, "sizes follow the data, as in a stream");
}

#[test]
fn settings_round_trip() {
    let text = format!(
        r#"{{"config":{{"actions":"allocate, stalegangeviction","queueDepthPerAction":{{"allocate":5}},"tiers":[{{"plugins":[{{"arguments":{{"a":"<"}},"name":"predicates"}}]}}]}},"schedulerParams":{PARAMS},"rawObjects":{{"pods":[]}},"discovery":{{"resources":null,"serverVersion":{{"gitVersion":"v1.33.1","major":"1","minor":"33"}}}}}}"#
    );
    let items = read(text.clone().into_bytes()).unwrap();
    let [ImportItem::Object(settings)] = &items[..] else { panic!("{items:?}") };
    let (bytes, written) = write(std::slice::from_ref(settings), None);
    assert_eq!(written.count, 1);
    let (mut json, was) = (written_json(&bytes), serde_json::from_str::<Value>(&text).unwrap());
    assert_readable_by_kai(&json);
    json["rawObjects"] = was["rawObjects"].clone();
    json.as_object_mut().unwrap().remove("kinescope");
    assert_eq!(json, was);
    let again = read_objects(bytes);
    let Some(ImportItem::Object(kept)) = again.last() else { panic!() };
    assert_eq!(kept.value().unwrap(), settings.value().unwrap());
}

#[test]
fn a_partition_holds_its_own_nodes_queues_and_pod_groups() {
    let kinds = [
        ("v1", "Node"),
        ("scheduling.run.ai/v2", "Queue"),
        ("scheduling.run.ai/v2alpha2", "PodGroup"),
        ("v1", "ConfigMap"),
    ];
    let objects: Vec<Object> = kinds
        .iter()
        .flat_map(|(api_version, kind)| {
            [("none", None), ("a", Some("a")), ("b", Some("b")), ("empty", Some(""))]
                .map(|(name, pool)| labeled(api_version, kind, name, pool))
        })
        .collect();
    let names = |partition: Option<&str>| {
        let (bytes, written) = write(&objects, partition.map(|text| text.parse().unwrap()));
        let json = written_json(&bytes);
        assert_readable_by_kai(&json);
        let of = |key: &str| {
            let items = json["rawObjects"][key].as_array().unwrap().iter();
            items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!((of("nodes"), of("nodes")), (of("queues"), of("podGroups")));
        assert_eq!(of("configMaps"), "none a b empty", "only nodes, queues and pod groups have partitions");
        let out = left_out(&written).get("objects outside the partition").copied().unwrap_or_default();
        assert_eq!(written.count + out, 16);
        (of("nodes"), json["schedulerParams"]["partitionParams"].clone())
    };
    let params = |key: &str, value: &str| json!({"NodePoolLabelKey": key, "NodePoolLabelValue": value});
    assert_eq!(names(None), ("none".to_owned(), params("kai.scheduler/node-pool", "")));
    assert_eq!(
        names(Some("kai.scheduler/node-pool=a")),
        ("a".to_owned(), params("kai.scheduler/node-pool", "a"))
    );
    assert_eq!(names(Some("kai.scheduler/node-pool")), names(None));
    assert_eq!(names(Some("other")), ("none a b empty".to_owned(), params("other", "")));
    for wrong in ["", "=a", "a b", "a=b=c", "a=b/c"] {
        let error = wrong.parse::<Partition>().expect_err(wrong).to_string();
        assert!(error.contains("expected LABEL=VALUE"), "{error}");
    }
}

fn phase(name: &str, phase: &str) -> Object {
    let metadata = json!({
        "name": name, "namespace": "ns", "uid": name, "creationTimestamp": "2026-11-01T00:00:00Z",
        "annotations": {"pod-group-name": "job", "other": "a"},
        "labels": {"kai.scheduler/subgroup-name": "workers", "app": "b"},
    });
    let spec = json!({"nodeName": "node", "containers": [{"name": "main", "image": "a"}]});
    of_kind(
        "v1",
        "Pod",
        &json!({"metadata": metadata, "spec": spec, "status": {"phase": phase, "podIP": "10.0.0.1"}}),
    )
}

#[test]
fn finished_pods_are_as_the_scheduler_has_them() {
    let objects = [phase("a", "Running"), phase("b", "Succeeded"), phase("c", "Failed")];
    let (bytes, written) = write(&objects, None);
    let pods = written_json(&bytes)["rawObjects"]["pods"].clone();
    assert_eq!(pods.as_array().unwrap().len(), 2);
    let metadata = json!({"name": "b", "namespace": "ns", "uid": "b",
        "annotations": {"pod-group-name": "job"}, "labels": {"kai.scheduler/subgroup-name": "workers"}});
    let stub = json!({"metadata": metadata, "spec": {"containers": null}, "status": {"phase": "Succeeded"}});
    assert_eq!(pods[1], stub);
    assert_eq!(
        written.added,
        ["config (defaults of v0.17)", "schedulerParams (defaults of v0.17)", "discovery"]
    );

    // What the scheduler captured itself stays as it was.
    let settings = of_kind(
        "kai.kinescope.io/v1",
        "SnapshotSettings",
        &json!({"config": {"actions": "allocate", "tiers": [{"plugins": [{"name": "predicates"}]}]},
            "schedulerParams": {"partitionParams": {"NodePoolLabelKey": "", "NodePoolLabelValue": ""}}}),
    );
    let (bytes, written) = write(&[&objects[..], &[settings]].concat(), None);
    let json = written_json(&bytes);
    assert_eq!(json["rawObjects"]["pods"].as_array().unwrap().len(), 3);
    assert_eq!(json["rawObjects"]["pods"][1]["spec"]["nodeName"], "node");
    assert_eq!(json.get("discovery"), None);
    assert!(written.added.is_empty());
}

#[test]
fn the_time_of_the_objects_is_written_and_read_back() {
    let mut bytes = Vec::new();
    let mut writer: Box<dyn formats::Writer + '_> =
        Box::new(KaiSnapshotWriter::new(&mut bytes, None).without_config_map_data());
    let object = of_kind("v1", "ConfigMap", &json!({"data": {"a": "b"}, "binaryData": {"c": "ZA=="}}));
    let at: Moment = "2026-11-01T14:03:00.5Z".parse().unwrap();
    let key = object.key(&"s".into());
    let change = Change { seq: 0, at, seen: at, key, what: What::Added(object), inferred: false };
    writer.change(&change).unwrap();
    writer.finish().unwrap();
    let json = written_json(&bytes);
    assert_eq!(json["kinescope"]["time"], at.to_string());
    assert_eq!(json["rawObjects"]["configMaps"], json!([{"metadata": {"name": "a"}}]));
    assert_eq!(read(bytes).unwrap().last(), Some(&ImportItem::CaptureTime(at)));
}

#[test]
fn objects_outside_the_snapshot_are_counted() {
    let settings =
        |name: &str| of_kind("kai.kinescope.io/v1", "SnapshotSettings", &json!({"metadata": {"name": name}}));
    let objects = [
        phase("a", "Running"),
        of_kind("apps/v1", "Deployment", &json!({})),
        of_kind("metrics.k8s.io/v1beta1", "Node", &json!({})),
        settings("first"),
        settings("second"),
    ];
    let (bytes, written) = write(&objects, None);
    assert_eq!(written.count, 2);
    assert_eq!(
        left_out(&written),
        [("objects of Deployment", 1), ("objects of Node", 1), ("objects of SnapshotSettings", 1)]
            .map(|(what, count)| (what.to_owned(), count))
            .into()
    );
    assert_readable_by_kai(&written_json(&bytes));
}

#[test]
fn objects_of_older_releases_are_written_as_v1() {
    let text = format!(
        r#"{{"config":{OLD_CONFIG},"schedulerParams":{{}},"rawObjects":{{{OLD_CLAIMS},{TOPOLOGIES}}}}}"#
    );
    let objects: Vec<Object> = read(text.into_bytes())
        .unwrap()
        .into_iter()
        .map(|item| match item {
            ImportItem::Object(object) => object,
            other => panic!("{other:?}"),
        })
        .collect();
    let (bytes, _) = write(&objects, None);
    let json = written_json(&bytes);
    assert_readable_by_kai(&json);
    let lists: Value = serde_json::from_str(&format!("{{{CLAIMS},{TOPOLOGIES}}}")).unwrap();
    for (key, expected) in lists.as_object().unwrap() {
        assert_eq!(&json["rawObjects"][key], expected, "{key}");
    }
    let own = of_kind("kai.scheduler/v1alpha1", "Topology", &json!({"metadata": {"name": "own"}}));
    let (bytes, written) = write(&[objects, vec![own]].concat(), None);
    assert_eq!(written_json(&bytes)["rawObjects"]["topologies"], json!([{"metadata": {"name": "own"}}]));
    assert_eq!(left_out(&written)["objects of Kueue's Topology"], 1);
}
