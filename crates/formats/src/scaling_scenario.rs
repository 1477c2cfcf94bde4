//! The report of Gardener's replayer: a cluster snapshot, and the result of a simulation that began with it.
//!
//! The reader accepts reports (`{BeginTime, ClusterSnapshot, ScalingResult}`), a snapshot alone, and the form of May
//! 2024 (`{Name, Scenarios}`), which has several snapshots. The simulation's result is left out, as it never happened
//! in the cluster. A report is one JSON value, so it is held in memory, and its objects too. A [`Scenario`] is written
//! in the latest form.

use std::collections::BTreeMap;
use std::io::Read;

use model::{IncomingChange, Key, Moment, Object, What};

use crate::{Error, ImportItem, ImportItems, Input, ReadOptions, Result};

mod cluster;
mod fields;
mod hashes;
mod report;
mod snapshot;
mod write;

pub use cluster::{ClusterSnapshot, NodeGroupInfo, NodeTemplate, SnapshotPart};
pub use report::{ScalingResult, Scenario};

use fields::ReportFields;
use snapshot::ReportSnapshot;

/// The longest report that is read, in bytes.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// Reads a report: the objects of its snapshot, or the changes from snapshot to snapshot.
pub fn read(input: Input, options: ReadOptions) -> Result<ImportItems> {
    let text = read_text(input.reader, &input.name)?;
    let report = ReportFields::parse(&input.name, "", &text)?;
    let mut items = Vec::new();
    let mut snapshots = Vec::new();
    if let Some(snapshot) = report.object("ClusterSnapshot")? {
        snapshots.push(ReportSnapshot::read(&snapshot, report.time("BeginTime")?)?);
        if let Some(result) = report.object("ScalingResult")? {
            items.push(ImportItem::Warning(left_out_warning(&input.name, &result)?));
        }
    } else if report.has("AutoscalerConfig") {
        snapshots.push(ReportSnapshot::read(&report, None)?);
    } else if report.has("Scenarios") {
        for scenario in report.list("Scenarios")? {
            snapshots.push(ReportSnapshot::read_legacy(&scenario)?);
        }
        snapshots.sort_by_key(|snapshot| snapshot.at);
    } else if report.has("nodePools") {
        let why = "this is a scenario for the scaling recommender, without a cluster; expected a report of the replayer with ClusterSnapshot or Scenarios";
        return Err(Error::invalid_file(&input.name, why));
    } else {
        let why = "not a report of Gardener's replayer: ClusterSnapshot, AutoscalerConfig and Scenarios are missing";
        return Err(Error::invalid_file(&input.name, why));
    }
    push_changes(&input.name, &options, snapshots, &mut items);
    Ok(Box::new(items.into_iter().map(Ok)))
}

fn read_text(mut reader: impl Read, file: &str) -> Result<String> {
    let mut bytes = Vec::new();
    reader
        .by_ref()
        .take(MAX_REPORT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| Error::cannot_read(file, source))?;
    if bytes.len() as u64 > MAX_REPORT_BYTES {
        return Err(Error::invalid_file(file, format!("larger than {} MiB", MAX_REPORT_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        Error::invalid_file(file, format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()))
    })
}

/// The warning about a simulation's result, with its counts.
fn left_out_warning(file: &str, result: &ReportFields<'_>) -> Result<String> {
    let count = |field: &str| result.list(field).map(|list| list.len());
    Ok(format!(
        "{file}: ScalingResult is from a simulation and was skipped: {} nodes scaled up, {} pods scheduled, {} pods pending",
        count("ScaledUpNodes")?,
        count("ScheduledPods")?,
        count("PendingUnscheduledPods")?
    ))
}

/// Appends the changes from each snapshot to the next. An object that is missing in the next snapshot was deleted.
fn push_changes(
    file: &str,
    options: &ReadOptions,
    snapshots: Vec<ReportSnapshot>,
    items: &mut Vec<ImportItem>,
) {
    let mut previous: BTreeMap<Key, Object> = BTreeMap::new();
    let mut changes = Vec::new();
    for snapshot in snapshots {
        let at = snapshot.at.or(options.at);
        if at.is_none() {
            items.push(ImportItem::TimesInferred(options.source.clone()));
        }
        let at = at.unwrap_or(options.now);
        items.extend(
            snapshot.warnings.into_iter().map(|warning| ImportItem::Warning(format!("{file}: {warning}"))),
        );
        let mut now = BTreeMap::new();
        let mut push_change = |at: Moment, what: What| {
            changes.push(IncomingChange {
                inferred: true,
                ..IncomingChange::received(at, &options.source, what)
            });
        };
        for object in snapshot.objects {
            let key = object.key(&options.source);
            match previous.remove(&key) {
                None => push_change(at, What::Added(object.clone())),
                Some(old) if old == object => {}
                Some(_) => push_change(at, What::Modified(object.clone())),
            }
            now.insert(key, object);
        }
        for object in std::mem::replace(&mut previous, now).into_values() {
            push_change(at, What::Deleted(object));
        }
        // Events do not disappear with the next snapshot, and have their own times.
        for (when, event) in snapshot.events {
            push_change(when.max(at), What::Added(event));
        }
    }
    changes.sort_by_key(|change| change.seen);
    items.extend(changes.into_iter().map(ImportItem::Change));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling_history::info::{NodeInfo, PodInfo};
    use serde_json::{Value, json};
    use std::io::Cursor;

    const REPORT: &str = include_str!("../../../testdata/formats/gardener_scenario.json");

    fn read(text: &str) -> Result<Vec<ImportItem>> {
        let input = Input::open("file", Box::new(Cursor::new(text.as_bytes().to_vec())))?;
        let options = ReadOptions { source: "s".into(), at: None, now: Moment::from_nanos(7) };
        super::read(input, options)?.collect()
    }

    fn changes(items: &[ImportItem]) -> Vec<&IncomingChange> {
        let mut changes = Vec::new();
        for item in items {
            if let ImportItem::Change(observed) = item {
                changes.push(observed);
            }
        }
        changes
    }

    fn report() -> Value {
        serde_json::from_str(REPORT).unwrap()
    }

    #[test]
    fn a_report_shows_the_cluster_it_was_made_of() {
        let items = read(REPORT).unwrap();
        let warning = "file: ScalingResult is from a simulation and was skipped: 1 nodes scaled up, 2 pods scheduled, 0 \
                       pods pending";
        assert_eq!(items[0], ImportItem::Warning(warning.to_owned()));
        let changes = changes(&items);
        assert!(changes.iter().all(|change| change.inferred && matches!(change.what, What::Added(_))));
        assert!(changes.iter().all(|change| change.seen.to_string() == "2024-10-10T23:20:00Z"));
        let of = |kind: &str| -> Vec<Value> {
            let of = changes.iter().filter(|change| &*change.key.kind.kind == kind);
            of.map(|change| change.what.object().value().unwrap()).collect()
        };
        let report = report();
        let snapshot = &report["ClusterSnapshot"];
        // The recorder computed the hashes in the report from the objects themselves.
        let hashes = |list: &str| -> Vec<String> {
            let entries = snapshot[list].as_array().unwrap();
            entries.iter().map(|entry| entry["Hash"].as_str().unwrap().to_owned()).collect()
        };
        let nodes: Vec<String> = of("Node").iter().map(|node| NodeInfo::of(node).unwrap().hash()).collect();
        assert_eq!((nodes.len(), nodes), (2, hashes("Nodes")));
        let pods: Vec<String> =
            of("Pod").iter().map(|pod| PodInfo::of(pod).unwrap().hash().unwrap()).collect();
        assert_eq!((pods.len(), pods), (4, hashes("Pods")));
        let volumes: Vec<Value> =
            of("CSINode").iter().map(|node| node["spec"]["drivers"][0]["allocatable"].clone()).collect();
        assert_eq!(volumes, [json!({ "count": 26 })]);
        for (kind, list) in [("PriorityClass", "PriorityClasses"), ("Worker", "WorkerPools")] {
            assert_eq!(of(kind).len(), snapshot[list].as_array().unwrap().len(), "{kind}");
            assert!(!of(kind).is_empty());
        }
        let class = &snapshot["PriorityClasses"][0];
        assert_eq!(
            (&of("PriorityClass")[0]["value"], &of("PriorityClass")[0]["metadata"]),
            (&class["value"], &class["metadata"])
        );
        let groups = snapshot["AutoscalerConfig"]["NodeGroups"].as_object().unwrap();
        let deployments = of("MachineDeployment");
        assert_eq!((deployments.len(), of("MachineClass").len()), (groups.len(), groups.len()));
        for (name, group) in groups {
            let deployment = deployments
                .iter()
                .find(|deployment| {
                    *name == format!("shoot--proj--x.{}", deployment["metadata"]["name"].as_str().unwrap())
                })
                .unwrap();
            assert_eq!(deployment["spec"]["replicas"], group["TargetSize"]);
        }
        let command = of("Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["command"].to_string();
        for (name, sizes) in
            snapshot["AutoscalerConfig"]["CASettings"]["NodeGroupsMinMax"].as_object().unwrap()
        {
            let flag = format!("\"--nodes={}:{}:{name}\"", sizes["Min"], sizes["Max"]);
            assert!(command.contains(&flag), "{command} should have {flag}");
        }
    }

    #[test]
    fn a_snapshot_alone_gives_the_same_changes() {
        let alone = report()["ClusterSnapshot"].to_string();
        let (report, alone) = (read(REPORT).unwrap(), read(&alone).unwrap());
        assert_eq!(changes(&report), changes(&alone));
    }

    #[test]
    fn null_counts_as_empty() {
        let items = read(
            r#"{"BeginTime":"2024-10-10T00:00:00Z","ClusterSnapshot":{"SnapshotTime":"0001-01-01T00:00:00Z","Pods":null,
                "Nodes":[{"Name":"n","Labels":null,"Taints":null,"CreationTimestamp":"0001-01-01T00:00:00Z"}],
                "AutoscalerConfig":{"NodeGroups":null,"NodeTemplates":null}},"ScalingResult":null}"#,
        );
        let items = items.unwrap();
        assert_eq!(items.len(), 1);
        let change = changes(&items)[0];
        assert_eq!(change.seen.to_string(), "2024-10-10T00:00:00Z");
        assert_eq!(change.what.object().meta().name, "n");
    }

    #[test]
    fn of_objects_with_one_name_the_latest_is_read() {
        let pod = |uid: &str, created: &str| {
            format!(
                r#"{{"UID":"{uid}","Name":"p","Namespace":"d","CreationTimestamp":"{created}","PodScheduleStatus":0}}"#
            )
        };
        let pods = [pod("old", "2024-10-10T00:00:00Z"), pod("new", "2024-10-10T00:01:00Z")];
        for pods in [pods.join(","), [pods[1].clone(), pods[0].clone()].join(",")] {
            let text = format!(
                r#"{{"ClusterSnapshot":{{"SnapshotTime":"2024-10-10T01:00:00Z","Pods":[{pods}],"AutoscalerConfig":{{}}}}}}"#
            );
            let items = read(&text).unwrap();
            assert!(
                matches!(&items[0], ImportItem::Warning(text) if text.contains("1 objects have a duplicate name"))
            );
            let changes = changes(&items);
            assert_eq!(changes.len(), 1);
            assert_eq!(changes[0].what.object().meta().uid.as_deref(), Some("new"));
        }
    }

    #[test]
    fn scenarios_of_may_2024_are_successive_moments() {
        let pod = |name: &str, node: &str| {
            format!(
                r#"{{"UID":"{name}","Name":"{name}","Namespace":"d","CreationTimestamp":"2024-05-21T19:43:30+05:30",
                    "NodeName":"{node}","Spec":{{"containers":[]}}}}"#
            )
        };
        let text = format!(
            r#"{{"Name":"x","Scenarios":[
            {{"StartTime":"2024-05-21T14:13:40Z","UnscheduledPods":[{},{}],"ScheduledPods":null,"Nodes":[{{"Name":"n"}}],
              "ScaleUpEvents":[{{"UID":"e","EventTime":"2024-05-21T14:13:50Z","Reason":"TriggeredScaleUp"}}],
              "NodeGroups":[{{"Name":"g","TargetSize":1,"MinSize":1,"MaxSize":2,"PoolName":"p1","Zone":"z"}}],
              "CASettings":{{"Expander":"least-waste","MaxNodesTotal":4096,"Priorities":"10: [a]"}}}},
            {{"StartTime":"2024-05-21T14:20:00Z","UnscheduledPods":[],"ScheduledPods":[{}],"Nodes":[{{"Name":"n"}}]}}]}}"#,
            pod("a", ""),
            pod("b", ""),
            pod("a", "n")
        );
        let items = read(&text).unwrap();
        let shown: Vec<String> = changes(&items)
            .iter()
            .map(|change| format!("{} {} {}", change.seen, change.what.event_type(), change.key))
            .collect();
        assert_eq!(
            shown,
            [
                "2024-05-21T14:13:40Z ADDED MachineDeployment.machine.sapcloud.io g",
                "2024-05-21T14:13:40Z ADDED MachineClass.machine.sapcloud.io g-template",
                "2024-05-21T14:13:40Z ADDED Deployment.apps kube-system/cluster-autoscaler",
                "2024-05-21T14:13:40Z ADDED ConfigMap kube-system/cluster-autoscaler-priority-expander",
                "2024-05-21T14:13:40Z ADDED Node n",
                "2024-05-21T14:13:40Z ADDED Pod d/a",
                "2024-05-21T14:13:40Z ADDED Pod d/b",
                "2024-05-21T14:13:50Z ADDED Event default/e",
                "2024-05-21T14:20:00Z MODIFIED Pod d/a",
                "2024-05-21T14:20:00Z DELETED ConfigMap kube-system/cluster-autoscaler-priority-expander",
                "2024-05-21T14:20:00Z DELETED Pod d/b",
                "2024-05-21T14:20:00Z DELETED Deployment.apps kube-system/cluster-autoscaler",
                "2024-05-21T14:20:00Z DELETED MachineClass.machine.sapcloud.io g-template",
                "2024-05-21T14:20:00Z DELETED MachineDeployment.machine.sapcloud.io g",
            ]
        );
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Value), message: &str) {
        let mut report = report();
        change(&mut report);
        let error = read(&report.to_string()).expect_err(message).to_string();
        assert!(error.contains(message), "{error:?} should say {message:?}");
    }

    #[test]
    fn errors_have_their_path() {
        let pod = |field: &'static str, value: Value, message: &str| {
            refused(|report| report["ClusterSnapshot"]["Pods"][3][field] = value, message);
        };
        pod("Spec", json!(5), "file, ClusterSnapshot.Pods[3].Spec: not an object");
        pod("Spec", json!({"containers": {}}), "ClusterSnapshot.Pods[3].Spec: containers is not a list");
        pod("Name", json!(5), "ClusterSnapshot.Pods[3].Name: invalid type: integer `5`, expected a string");
        pod("Name", json!("a/b"), "ClusterSnapshot.Pods[3]: \"a/b\" is not a valid name");
        pod("PodScheduleStatus", json!(9), "ClusterSnapshot.Pods[3].PodScheduleStatus: unknown value 9");
        pod(
            "CreationTimestamp",
            json!("soon"),
            "ClusterSnapshot.Pods[3].CreationTimestamp: invalid time \"soon\"",
        );
        pod("Labels", json!([]), "ClusterSnapshot.Pods[3].Labels: invalid type");
        refused(
            |report| report["ClusterSnapshot"]["Nodes"] = json!([5]),
            "file, ClusterSnapshot.Nodes[0]: invalid type",
        );
        refused(
            |report| report["ClusterSnapshot"]["Nodes"][0]["Capacity"]["cpu"] = json!("x"),
            "ClusterSnapshot.Nodes[0].Capacity: invalid quantity \"x\"",
        );
        refused(
            |report| {
                report["ClusterSnapshot"]["AutoscalerConfig"]["CASettings"]["MaxNodesTotal"] = json!(1e300)
            },
            "ClusterSnapshot.AutoscalerConfig.CASettings.MaxNodesTotal: invalid type",
        );
        refused(|report| report["BeginTime"] = json!(5), "file, BeginTime: invalid type");
        refused(|report| *report = json!([]), "file: not a report");
        refused(|report| *report = json!({"Name": "x"}), "not a report of Gardener's replayer");
        refused(
            |report| *report = json!({"id": "s1", "nodePools": [], "pods": [], "nodes": []}),
            "this is a scenario for the scaling recommender",
        );
        assert!(read(&REPORT[..REPORT.len() / 2]).is_err());
    }
}
