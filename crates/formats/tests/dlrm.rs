//! Tests of reading Alibaba's trace of recommendation services.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Cursor;

use formats::{Format, ImportItem, Input, ReadOptions, Result};
use model::{IncomingChange, Moment, What};
use serde_json::{Value, json};

const HEADER: &str = "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,\
    memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time";

/// A row from the documentation of the published trace.
const DOCUMENTED_ROW: &str =
    "instance_13574,CN,app_130,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,1435629.0,1435629.0,1435760.0";

fn items(text: &str) -> Result<Vec<ImportItem>> {
    let input = Input::open("trace", Box::new(Cursor::new(text.as_bytes().to_vec()))).unwrap();
    let at: Moment = "2026-01-01T00:00:00.25Z".parse().unwrap();
    formats::read(input, Format::Dlrm, ReadOptions { source: "east".into(), at: Some(at), now: Moment::MIN })?
        .collect()
}

fn read(rows: &[&str]) -> Vec<IncomingChange> {
    let mut items = items(&format!("{HEADER}\n{}\n", rows.join("\n"))).unwrap();
    assert_eq!(items.pop(), Some(ImportItem::TimesInferred("east".into())));
    let change = |item| match item {
        ImportItem::Change(observed) => observed,
        other => panic!("{other:?} is not a change"),
    };
    items.into_iter().map(change).collect()
}

/// An instance of a service with these times.
fn row(number: u32, app: &str, times: &str) -> String {
    format!("instance_{number},HN,{app},8,8,1,1,25,25,40.0,40.0,85.0,100.0,2,{times}")
}

/// Checks the changes: second, type, name, and replicas if there are any.
#[track_caller]
fn check(rows: &[String], expected: &str) {
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let beginning: Moment = "2026-01-01T00:00:00.25Z".parse().unwrap();
    let mut found = Vec::new();
    for IncomingChange { seen, key, what, inferred } in read(&rows) {
        assert!(inferred);
        let replicas = what.object().value().unwrap()["spec"]["replicas"].as_u64();
        let replicas = replicas.map(|count| format!(" {count}")).unwrap_or_default();
        let seconds = seen.nanos_since(beginning) as f64 / 1e9;
        // A ReplicaSet has its Deployment's name and a hash.
        let name = if &*key.kind.kind == "ReplicaSet" { "its set" } else { &*key.name };
        found.push(format!("{seconds} {} {name}{replicas}", what.event_type()));
    }
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(found, expected);
}

#[track_caller]
fn refused(row: &str, message: &str) {
    let error = items(&format!("{HEADER}\n{DOCUMENTED_ROW}\n{row}\n")).unwrap_err().to_string();
    assert_eq!(error, format!("trace, {message}"));
}

fn value(observed: &IncomingChange) -> Value {
    observed.what.object().value().unwrap()
}

#[test]
fn changes_of_an_instance_are_in_order_of_time() {
    check(
        &[DOCUMENTED_ROW.to_owned()],
        "1435629 ADDED app-130-cn-1 1
         1435629 ADDED its set 1
         1435629 ADDED instance-13574
         1435629 MODIFIED instance-13574
         1435760 MODIFIED app-130-cn-1 0
         1435760 MODIFIED its set 0
         1435760 DELETED instance-13574",
    );
}

#[test]
fn instances_from_before_the_trace_exist_when_it_begins() {
    check(
        &[row(1, "a", ",,"), row(2, "b", "5,5,"), row(3, "a", ",,9"), row(4, "b", "NaN,7,")],
        "0 ADDED a-hn-1 2
         0 ADDED its set 2
         0 ADDED instance-1
         0 ADDED instance-3
         0 ADDED b-hn-1 1
         0 ADDED its set 1
         0 ADDED instance-4
         5 MODIFIED b-hn-1 2
         5 MODIFIED its set 2
         5 ADDED instance-2
         5 MODIFIED instance-2
         7 MODIFIED instance-4
         9 MODIFIED a-hn-1 1
         9 MODIFIED its set 1
         9 DELETED instance-3",
    );
}

#[test]
fn every_deletion_follows_a_scale_down_even_if_a_creation_follows_at_once() {
    check(
        &[
            row(1, "a", ",,5"),
            row(2, "a", "5.0000000000000001,6,"),
            row(3, "a", "6,6,6"),
            row(4, "a", "5,6,6"),
        ],
        "0 ADDED a-hn-1 1
         0 ADDED its set 1
         0 ADDED instance-1
         5 MODIFIED a-hn-1 0
         5 MODIFIED its set 0
         5 DELETED instance-1
         5 MODIFIED a-hn-1 2
         5 MODIFIED its set 2
         5 ADDED instance-2
         5 ADDED instance-4
         6 MODIFIED a-hn-1 3
         6 MODIFIED its set 3
         6 ADDED instance-3
         6 MODIFIED instance-2
         6 MODIFIED instance-3
         6 MODIFIED instance-4
         6 MODIFIED a-hn-1 1
         6 MODIFIED its set 1
         6 DELETED instance-3
         6 DELETED instance-4",
    );
}

#[test]
fn instances_with_another_spec_are_another_workload() {
    let wide = row(2, "a", ",,").replace("85.0", "80.0");
    let changes = read(&[&row(1, "a", ",,"), &wide, &row(3, "A", ",,")]);
    let names: Vec<&str> = changes
        .iter()
        .filter(|change| &*change.key.kind.kind == "Deployment")
        .map(|change| &*change.key.name)
        .collect();
    assert_eq!(names, ["a-hn-1", "a-hn-2", "a-hn-3"]);
    let uids: std::collections::BTreeSet<String> =
        changes.iter().map(|change| value(change)["metadata"]["uid"].to_string()).collect();
    assert_eq!(uids.len(), changes.len(), "uids are unique");
}

#[test]
fn labels_are_no_longer_than_kubernetes_lets_them_be() {
    let long = "a".repeat(60);
    let other = long.clone() + "b";
    let times = "0.0,1.0,2.0";
    let mut workloads = Vec::new();
    for observed in read(&[&row(1, &long, times), &row(2, &other, times)]) {
        let labels = value(&observed)["metadata"]["labels"].clone();
        assert!(
            labels.as_object().unwrap().values().all(|label| label.as_str().unwrap().len() <= 63),
            "{labels}"
        );
        workloads.push(labels["workload"].clone());
    }
    workloads.sort_by_key(Value::to_string);
    workloads.dedup();
    assert_eq!(workloads.len(), 2, "{workloads:?}");
}

#[test]
fn a_pod_has_the_spec_of_its_replica_set_and_is_owned_by_it() {
    let changes = read(&[&row(7, "app_0", "100,1765,3600")]);
    let [deployment, set, created, scheduled, _, _, deleted] = &changes[..] else { panic!("{changes:?}") };
    let (deployment, set, pod) = (value(deployment), value(set), value(created));

    let mut spec = pod["spec"].clone();
    assert_eq!(
        spec["containers"][0]["resources"].take(),
        json!({
            "limits": {"cpu": "8", "memory": "40Gi", "ephemeral-storage": "100Gi", "nvidia.com/gpu": "1",
                "koordinator.sh/rdma": "25"},
            "requests": {"cpu": "8", "memory": "40Gi", "ephemeral-storage": "85Gi", "nvidia.com/gpu": "1",
                "koordinator.sh/rdma": "25"},
        })
    );
    assert_eq!(
        spec["topologySpreadConstraints"],
        json!([{"labelSelector": {"matchLabels": {"app": "app_0"}}, "maxSkew": 2, "minDomains": 2147483647,
            "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}])
    );
    assert_eq!(
        spec["tolerations"],
        json!([{"effect": "NoSchedule", "key": "nvidia.com/gpu", "operator": "Exists"}])
    );
    assert_eq!(spec["nodeName"], Value::Null);
    for template in [&deployment["spec"]["template"], &set["spec"]["template"]] {
        assert_eq!(template["spec"], pod["spec"]);
    }

    let owner = |object: &Value| object["metadata"]["ownerReferences"][0].clone();
    for (owned, by) in [(&pod, &set), (&set, &deployment)] {
        for field in ["name", "uid"] {
            assert_eq!(owner(owned)[field], by["metadata"][field]);
        }
        assert_eq!((&owner(owned)["kind"], &owner(owned)["controller"]), (&by["kind"], &json!(true)));
    }
    let labels = &pod["metadata"]["labels"];
    assert_eq!((&labels["app"], &labels["role"]), (&json!("app_0"), &json!("HN")));
    assert_eq!(labels, &set["spec"]["selector"]["matchLabels"]);
    for (name, wanted) in deployment["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&labels[name], wanted);
    }

    assert_eq!(pod["metadata"]["creationTimestamp"], "2026-01-01T00:01:40Z");
    assert_eq!(pod["status"], json!({"phase": "Pending"}));
    let after = json!({"phase": "Unknown", "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:29:25Z"}]});
    assert_eq!(value(scheduled)["status"], after);
    assert_eq!(deleted.what, What::Deleted(scheduled.what.object().clone()));
}

#[test]
fn amounts_are_exact() {
    let odd = "i,CN,a,0.5,2,0,0,0,0,937.5,1000,0,1171.8798828125,-1,,,";
    let pod = value(&read(&[odd])[2]);
    assert_eq!(
        pod["spec"]["containers"][0]["resources"],
        json!({
            "limits": {"cpu": "2", "memory": "1000Gi", "ephemeral-storage": "1200005Mi"},
            "requests": {"cpu": "500m", "memory": "960000Mi"},
        })
    );
    assert_eq!(pod["spec"].as_object().unwrap().len(), 1, "nothing but the container");
    // When it was created is not known, but that it was scheduled is.
    assert_eq!(pod["metadata"]["creationTimestamp"], Value::Null);
    assert_eq!(pod["status"]["conditions"], json!([{"type": "PodScheduled", "status": "True"}]));
}

#[test]
fn an_instance_never_scheduled_is_pending_until_it_is_deleted() {
    let changes = read(&[&row(1, "a", "5,,9")]);
    assert_eq!(changes.len(), 6);
    assert_eq!(value(&changes[5])["status"], json!({"phase": "Pending"}));
}

#[test]
fn byte_order_marks_and_carriage_returns_are_ignored() {
    let text = format!("\u{feff}{HEADER}\r\n{DOCUMENTED_ROW}\r\n\r\n");
    assert_eq!(items(&text).unwrap().len(), 8);
    assert_eq!(items(HEADER).unwrap().len(), 1, "no instances and no error");
}

#[test]
fn bad_rows_are_refused_with_line_and_column() {
    let good = row(1, "a", "5,6,7");
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    refused(&with(",HN", ""), "line 3: 16 fields, expected 17 as in the header");
    refused(&with("HN", "GN"), "line 3, role: \"GN\": the role must be CN or HN");
    for name in ["", "a b", "\"a\"", "-a", "ä", &"a".repeat(64)] {
        let shortened: String = name.chars().take(40).collect();
        let why = "a name must have at most 63 letters, digits, -, _ and ., and begin and end with a letter or digit";
        refused(&with(",a,", &format!(",{name},")), &format!("line 3, app_name: {shortened:?}: {why}"));
    }
    for amount in ["", "x", "-1", "inf", "NaN", "1e99", "1000001"] {
        let why = format!("line 3, cpu_request: {amount:?}: an amount must be a number from 0 to 1000000");
        refused(&with(",8,8", &format!(",{amount},8")), &why);
    }
    refused(&with(",8,8", ",8,7"), "line 3, cpu_limit: the limit is less than the request");
    refused(&with("85.0,100.0", "85.0,84"), "line 3, disk_limit: the limit is less than the request");
    refused(&with("1,1,25", "0.5,1,25"), "line 3, gpu_request: \"0.5\": not an integer");
    refused(&with("25,25", "25,50"), "line 3, rdma_limit: \"50\": must equal the request, 25");
    for most in ["0", "-2", "2.0", "9999999999", ""] {
        let why = "must be an integer of at least 1, or -1 for no limit";
        let location = "line 3, max_instance_per_node";
        refused(&with(",2,5", &format!(",{most},5")), &format!("{location}: {most:?}: {why}"));
    }
    for time in ["x", "-1", "inf", "1e99", "2026-01-01T00:00:00Z"] {
        let why = "a time must be a number of seconds from 0 to 315360000, or empty if outside the trace";
        refused(&with(",5,6", &format!(",{time},6")), &format!("line 3, creation_time: {time:?}: {why}"));
    }
    let early = "out of order: creation, scheduling and deletion must follow each other";
    refused(&with("5,6,7", "5,4,7"), &format!("line 3, scheduled_time: \"4\": {early}"));
    refused(&with("5,6,7", "5,6,5.5"), &format!("line 3, deletion_time: \"5.5\": {early}"));
    refused(&with("5,6,7", "5,,4"), &format!("line 3, deletion_time: \"4\": {early}"));
    let double = "line 3, instance_sn: duplicate name instance-13574, see line 2; names must be unique in lower case and with - for _ and .";
    refused(&with("instance_1", "Instance.13574"), double);
    refused(&with("instance_1", &"a".repeat(5000)), "line 3: longer than 4096 bytes");
}

#[test]
fn another_header_is_refused() {
    let error = items(&HEADER.replace("cpu_limit", "cpu")).unwrap_err().to_string();
    assert_eq!(error, format!("trace, line 1: the header must be {HEADER}"));
    assert_eq!(items("").unwrap_err().to_string(), format!("trace: empty; the first line must be {HEADER}"));
}
