//! Tests of Alibaba's trace of recommendation services: its import, and node groups that can host it.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod common;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use autoscaler::NodeGroups;
use formats::{Format, ImportItem, Input, ReadOptions};
use model::{Moment, Object, What};
use scheduler::{FirstFit, Settings};
use serde_json::Value;

use common::run;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn sample() -> PathBuf {
    Path::new(ROOT).join("testdata/formats/dlrm.csv")
}

/// The complete trace in `shared` next to the checkout, if it exists.
fn whole() -> Option<PathBuf> {
    let path = Path::new(ROOT).join("../shared/data/dlrm/disaggregated_DLRM_trace.csv");
    if path.exists() {
        return Some(path);
    }
    // Written directly: the test runner captures the output of print macros.
    std::io::stderr().write_all(b"skipped: no trace\n").unwrap();
    None
}

/// All pods of a trace, as they were created.
fn pods(path: &Path) -> impl Iterator<Item = Object> {
    let input = Input::open("trace", Box::new(File::open(path).unwrap())).unwrap();
    assert_eq!(input.format, Some(Format::Dlrm));
    let options = ReadOptions { source: "trace".into(), at: None, now: Moment::from_nanos(0) };
    let items = formats::read(input, Format::Dlrm, options).unwrap();
    items.filter_map(|item| match item.unwrap() {
        ImportItem::Change(observed) => match observed.what {
            What::Added(object) if object.meta().kind == "Pod" => Some(object),
            _ => None,
        },
        _ => None,
    })
}

/// A cluster with one empty node per group.
fn empty_nodes() -> FirstFit {
    let text = std::fs::read_to_string(Path::new(ROOT).join("examples/node-groups/dlrm.yaml")).unwrap();
    let mut fit = FirstFit::new(&Settings::default());
    for group in NodeGroups::parse(&text).unwrap().groups {
        assert_eq!(group.min, 0, "{}", group.name);
        fit.apply(&What::Added(group.template));
    }
    fit
}

fn check_that_all_fit(path: &Path, count: usize) {
    let mut fit = empty_nodes();
    let mut found = 0;
    for pod in pods(path) {
        fit.apply(&What::Added(pod.clone()));
        let (name, value) = (pod.meta().name, pod.value().unwrap());
        let node = fit.find_node("default", &name).unwrap_or_else(|| panic!("no node takes {pod:?}"));
        let kind = if value["metadata"]["labels"]["role"] == "HN" { "gpu-" } else { "cpu-" };
        assert!(node.starts_with(kind), "{name} goes to {node}");
        fit.apply(&What::Deleted(pod.clone()));
        found += 1;
    }
    assert_eq!(found, count);
}

#[test]
fn every_instance_fits_an_empty_node_of_a_group() {
    // The sample contains the largest instances: no instance of the trace requests more of any resource.
    check_that_all_fit(&sample(), 17);
    if let Some(trace) = whole() {
        check_that_all_fit(&trace, 23_871);
    }
}

#[test]
fn a_node_takes_as_many_instances_of_a_service_as_the_trace_allows() {
    let node = |name: &str| {
        testobjects::node(name)
            .allocatable("cpu", "999")
            .allocatable("memory", "9Ti")
            .allocatable("ephemeral-storage", "99Ti")
            .allocatable("pods", "99")
            .allocatable("nvidia.com/gpu", "99")
            .allocatable("koordinator.sh/rdma", "9999")
    };
    let on = |pod: &Object, node: &str| {
        let mut value: Value = pod.value().unwrap();
        value["spec"]["nodeName"] = node.into();
        What::Modified(testobjects::object(&value))
    };
    let pods: Vec<Object> =
        pods(&sample()).filter(|pod| pod.value().unwrap()["metadata"]["labels"]["app"] == "app_3").collect();
    assert_eq!(pods.len(), 3, "each with at most two on a node");
    let mut fit = FirstFit::new(&Settings::default());
    fit.apply(&node("a").added());
    for pod in &pods {
        fit.apply(&What::Added(pod.clone()));
    }
    let third = pods[2].meta().name;
    let taken = |fit: &mut FirstFit| fit.find_node("default", &third).map(|node| node.to_string());
    fit.apply(&on(&pods[0], "a"));
    assert_eq!(taken(&mut fit).as_deref(), Some("a"), "the second on a");
    fit.apply(&on(&pods[1], "a"));
    assert_eq!(taken(&mut fit), None, "there are two on a");
    fit.apply(&node("b").added());
    assert_eq!(taken(&mut fit).as_deref(), Some("b"));
    // Instances on other nodes do not count.
    fit.apply(&on(&pods[1], "b"));
    assert_eq!(taken(&mut fit).as_deref(), Some("a"), "the second on a");
}

#[test]
fn a_trace_is_imported_by_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let sample = sample();
    let arguments = ["import", sample.to_str().unwrap(), "--into", "t.kine", "--at", "2026-01-01T00:00:00Z"];
    run(folder.path(), &arguments).success();
    run(folder.path(), &["doctor", "t.kine"]).success();
    let info = run(folder.path(), &["info", "t.kine"]).success();
    assert!(info.contains("times inferred"), "{info}");
    let count = |kind: &str, at: &str| {
        let output = run(folder.path(), &["get", kind, "-o", "name", "--at", at, "--history", "t.kine"]);
        output.success().lines().count()
    };
    for (at, pods, deployments) in [
        ("2026-01-01T00:00:00Z", 10, 9),
        ("2026-01-01T00:01:40Z", 11, 10),
        ("2026-01-01T00:07:55Z", 12, 11),
        // One is deleted and four are created.
        ("2026-01-01T01:00:00Z", 15, 11),
        ("2026-01-01T01:00:05Z", 14, 11),
        // One is deleted, and another created and deleted.
        ("2026-01-01T02:00:00Z", 13, 12),
        ("2026-01-02T00:00:00Z", 12, 12),
    ] {
        assert_eq!((count("pods", at), count("deployments", at)), (pods, deployments), "at {at}");
    }
}

#[test]
fn a_bad_trace_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(sample()).unwrap().replace("937.5,937.5", "937.5,930");
    std::fs::write(folder.path().join("bad.csv"), text).unwrap();
    let output = run(folder.path(), &["import", "bad.csv"]).failure(1);
    assert!(output.contains("bad.csv, line 8, memory_limit: the limit is less than the request"), "{output}");
    assert!(!folder.path().join("bad.kine").exists());
}
