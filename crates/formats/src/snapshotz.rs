//! The cluster autoscaler's debugging snapshot, as `/snapshotz` returns it: the nodes of one loop with their pods, the
//! pending pods that fit on them, and a template per node group.
//!
//! Pending pods that need a new node are not in such a file. A template is not an object of the cluster and becomes one
//! of the kind [`TEMPLATE_KIND`], with the fields `group`, `node` and `pods`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;

use model::{ContentHash, IncomingChange, Moment, Object, What};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::input::FileOnDisk;
use crate::json_pull::{JsonPullParser, PathSegment, PullAction, PulledValue, escape_for_message};
use crate::manifests::with_type_meta;
use crate::{Error, ImportItem, ImportItems, Input, ReadOptions, Result};

/// The apiVersion of [`TEMPLATE_KIND`].
pub const TEMPLATE_API_VERSION: &str = "autoscaler.kinescope.io/v1";
/// The kind of the object that stores the template of a node group.
pub const TEMPLATE_KIND: &str = "NodeGroupTemplate";

/// Marks an upcoming node: requested, not yet registered, and represented by a copy of the template.
const UPCOMING_ANNOTATION: &str = "cluster-autoscaler.k8s.io/upcoming-node";
/// How many unknown keys are reported.
const MAX_UNKNOWN_WARNINGS: u32 = 10;

/// Reads a snapshot: the objects at [`ReadOptions::at`](crate::ReadOptions), or at the snapshot's start.
pub fn read(input: Input, options: ReadOptions) -> Result<ImportItems> {
    let file = input.name.clone();
    let on_disk = input.into_file()?;
    // The time comes after the objects.
    let at = options.at.or(start_time(&file, &on_disk)?);
    let pull = JsonPullParser::new(open(&file, &on_disk)?, pull_action);
    Ok(Box::new(SnapshotzReader {
        file,
        pull,
        options,
        at,
        ready: VecDeque::new(),
        has_nodes: false,
        upcoming: 0,
        unknown: 0,
        ended: false,
        _file: on_disk,
    }))
}

struct SnapshotzReader {
    file: String,
    pull: JsonPullParser<BufReader<File>>,
    options: ReadOptions,
    /// `None` if not known.
    at: Option<Moment>,
    /// Items not yet returned.
    ready: VecDeque<ImportItem>,
    has_nodes: bool,
    /// The number of upcoming nodes.
    upcoming: u64,
    unknown: u32,
    ended: bool,
    _file: FileOnDisk,
}

/// A node and its pods.
#[derive(Deserialize)]
struct ClusterNode<'a> {
    #[serde(rename = "Node", borrow, default)]
    node: Option<&'a RawValue>,
    #[serde(rename = "Pods", borrow, default)]
    pods: Option<Vec<Option<&'a RawValue>>>,
}

// === impl SnapshotzReader ===

impl Iterator for SnapshotzReader {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.read() {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }
}

impl SnapshotzReader {
    fn read(&mut self) -> Result<()> {
        let Some((path, piece)) = self.pull.next().map_err(|broken| broken.into_error(&self.file))? else {
            self.ended = true;
            if !self.has_nodes {
                let why = "not a cluster-autoscaler snapshot: \"NodeList\" is missing";
                return Err(Error::invalid_file(&self.file, why));
            }
            if self.upcoming > 0 {
                self.warn(format!(
                    "{} upcoming nodes skipped: they are placeholders of the autoscaler",
                    self.upcoming
                ));
            }
            return Ok(());
        };
        self.has_nodes |= matches!(path, [PathSegment::Field(key)] if key == "NodeList");
        let result = match (path, piece) {
            ([], PulledValue::Text(_)) => Err("not a JSON object".to_owned()),
            (_, PulledValue::Descended | PulledValue::Text("null")) => Ok(Vec::new()),
            ([PathSegment::Field(list), PathSegment::Index(_)], PulledValue::Text(text))
                if list == "NodeList" =>
            {
                let result = node_objects(text);
                self.upcoming += u64::from(matches!(&result, Ok(None)));
                result.map(Option::unwrap_or_default)
            }
            ([PathSegment::Field(_), PathSegment::Index(_)], PulledValue::Text(text)) => {
                pod(text).map(|pod| vec![(pod, false)])
            }
            ([_, PathSegment::Field(group)], PulledValue::Text(text)) => {
                template(group, text).map(|template| vec![(template, true)])
            }
            ([PathSegment::Field(key)], PulledValue::Text(_)) if key.ends_with("Timestamp") => Ok(Vec::new()),
            ([PathSegment::Field(key)], PulledValue::Text(text)) if key == "Error" => {
                match serde_json::from_str::<String>(text) {
                    Ok(text) if text.is_empty() => {}
                    Ok(text) => self.ready.push_back(ImportItem::Warning(format!(
                        "{}: the snapshot is incomplete: {}",
                        self.file,
                        escape_for_message(&text)
                    ))),
                    Err(error) => return Err(Error::invalid_at(&self.file, "Error", error.to_string())),
                }
                Ok(Vec::new())
            }
            ([PathSegment::Field(key)], PulledValue::Skipped) => {
                self.unknown = self.unknown.saturating_add(1);
                if self.unknown <= MAX_UNKNOWN_WARNINGS {
                    let why = format!("{}: unknown key {} ignored", self.file, escape_for_message(key));
                    self.ready.push_back(ImportItem::Warning(why));
                }
                Ok(Vec::new())
            }
            _ => Err("neither an object nor a list".to_owned()),
        };
        let objects = result.map_err(|why| Error::invalid_at(&self.file, self.pull.path(), why))?;
        for (object, inferred) in objects {
            let item = self.item(object, inferred);
            self.ready.push_back(item);
        }
        Ok(())
    }

    fn item(&self, object: Object, inferred: bool) -> ImportItem {
        match self.at {
            None => ImportItem::Object(object),
            Some(at) => {
                let received = IncomingChange::received(at, &self.options.source, What::Added(object));
                ImportItem::Change(IncomingChange { inferred, ..received })
            }
        }
    }

    fn warn(&mut self, why: String) {
        self.ready.push_back(ImportItem::Warning(format!("{}: {why}", self.file)));
    }
}

fn open(file: &str, on_disk: &FileOnDisk) -> Result<BufReader<File>> {
    let opened = File::open(&on_disk.path).map_err(|source| Error::cannot_read(file, source))?;
    Ok(BufReader::with_capacity(1 << 18, opened))
}

/// When the autoscaler began to take the snapshot; `None` if it is missing or, after a failure, Go's zero time.
fn start_time(file: &str, on_disk: &FileOnDisk) -> Result<Option<Moment>> {
    let way = |path: &[PathSegment]| match path {
        [] => PullAction::Descend,
        [PathSegment::Field(key)] if key == "StartTimestamp" => PullAction::Extract,
        _ => PullAction::Skip,
    };
    let mut pull = JsonPullParser::new(open(file, on_disk)?, way);
    while let Some((_, piece)) = pull.next().map_err(|broken| broken.into_error(file))? {
        if let PulledValue::Text(text) = piece {
            return Ok(serde_json::from_str::<String>(text).ok().and_then(|text| text.parse().ok()));
        }
    }
    Ok(None)
}

/// Extracts nodes with their pods, pods, and templates with their pods.
fn pull_action(path: &[PathSegment]) -> PullAction {
    match path {
        [] => PullAction::Descend,
        [PathSegment::Field(key)] => match key.as_str() {
            "NodeList" | "UnscheduledPodsCanBeScheduled" | "TemplateNodes" => PullAction::Descend,
            "Error" | "StartTimestamp" | "EndTimestamp" => PullAction::Extract,
            _ => PullAction::Skip,
        },
        _ => PullAction::Extract,
    }
}

/// A node and its pods, each with whether it had to be completed; `None` for an upcoming node.
fn node_objects(text: &str) -> std::result::Result<Option<Vec<(Object, bool)>>, String> {
    #[derive(Deserialize)]
    struct AnnotatedNode {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        annotations: Option<std::collections::BTreeMap<String, Option<String>>>,
    }
    let ClusterNode { node, pods } = cluster_node(text)?;
    let mut objects = Vec::new();
    let mut name = None;
    if let Some(node) = node {
        let marked = serde_json::from_str::<AnnotatedNode>(node.get());
        if marked.is_ok_and(|node| {
            node.metadata.annotations.is_some_and(|all| all.contains_key(UPCOMING_ANNOTATION))
        }) {
            return Ok(None);
        }
        let node = Object::parse(&with_type_meta(node.get(), "v1", "Node"))
            .map_err(|error| format!("Node: {error}"))?;
        name = Some(node.meta().name.into_owned());
        objects.push((node, false));
    }
    for (index, text) in pods.into_iter().flatten().enumerate() {
        let Some(text) = text else { continue };
        let at = |why: String| format!("Pods[{index}]: {why}");
        let pod = pod(text.get()).map_err(at)?;
        let bound = name.as_deref().map_or(Ok(None), |name| with_node_name(&pod, name)).map_err(at)?;
        objects.push(bound.map_or((pod, false), |pod| (pod, true)));
    }
    Ok(Some(objects))
}

fn pod(text: &str) -> std::result::Result<Object, String> {
    Object::parse(&with_type_meta(text, "v1", "Pod")).map_err(|error| error.to_string())
}

/// The pod with the name of its node; `None` if it has one already.
fn with_node_name(pod: &Object, node: &str) -> std::result::Result<Option<Object>, String> {
    let mut value = pod.value().map_err(|error| error.to_string())?;
    match value.get("spec").and_then(|spec| spec.get("nodeName")) {
        Some(Value::String(name)) if !name.is_empty() => return Ok(None),
        _ => {}
    }
    if !matches!(value.get("spec"), Some(Value::Object(_))) {
        value["spec"] = Value::Object(serde_json::Map::new());
    }
    value["spec"]["nodeName"] = node.into();
    Object::parse(&value.to_string()).map(Some).map_err(|error| error.to_string())
}

fn template(group: &str, text: &str) -> std::result::Result<Object, String> {
    let ClusterNode { node, pods } = cluster_node(text)?;
    let written = |text: &str| serde_json::to_string(text).expect("a string serializes as JSON");
    let pods = pods.map(|pods| serde_json::to_string(&pods).expect("parsed JSON serializes as JSON"));
    let template = format!(
        "{{\"apiVersion\":\"{TEMPLATE_API_VERSION}\",\"kind\":\"{TEMPLATE_KIND}\",\"metadata\":{{\"name\":{}}},\
         \"group\":{},\"node\":{},\"pods\":{}}}",
        written(&valid_name(group)),
        written(group),
        node.map_or("null", RawValue::get),
        pods.as_deref().unwrap_or("null"),
    );
    Object::parse(&template).map_err(|error| error.to_string())
}

fn cluster_node(text: &str) -> std::result::Result<ClusterNode<'_>, String> {
    serde_json::from_str(text).map_err(|error| format!("not a node with its pods: {error}"))
}

/// The group's name, made a valid object name if it is not: on Google Cloud, group names are URLs.
fn valid_name(group: &str) -> String {
    let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c == '-' || c == '.';
    if !group.is_empty()
        && group.len() <= 253
        && group.chars().all(is_valid)
        && group.trim_matches(edge) == group
    {
        return group.to_owned();
    }
    let sanitized: String = group
        .to_ascii_lowercase()
        .chars()
        .rev()
        .take(200)
        .map(|c| if is_valid(c) { c } else { '-' })
        .collect();
    let sanitized: String = sanitized.chars().rev().collect();
    // The hash keeps names of different groups different.
    format!("{}-{:016x}", sanitized.trim_matches(edge), ContentHash::of(group).0)
        .trim_start_matches('-')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = r#"{"metadata":{"name":"n1"},"spec":{}}"#;
    const POD: &str = r#"{"metadata":{"name":"p","namespace":"d"},"spec":{"nodeName":"n1","x":1.50}}"#;
    const LOOSE: &str = r#"{"metadata":{"name":"q","namespace":"d"},"spec":{}}"#;

    fn read_all(text: &str, at: Option<&str>) -> std::result::Result<Vec<String>, String> {
        let input = Input::open("file", Box::new(std::io::Cursor::new(text.to_owned()))).unwrap();
        let at = at.map(|at| at.parse().unwrap());
        let options = ReadOptions { source: "s".into(), at, now: Moment::from_nanos(0) };
        let items = read(input, options).map_err(|error| error.to_string())?;
        items
            .map(|item| match item.map_err(|error| error.to_string())? {
                ImportItem::Change(IncomingChange { seen, what, inferred, .. }) => {
                    let how = if inferred { "inferred " } else { "" };
                    Ok(format!("{seen} {how}{}", what.object().as_str()))
                }
                ImportItem::Object(object) => Ok(object.as_str().to_owned()),
                ImportItem::Warning(why) => Ok(why),
                other => Err(format!("{other:?}")),
            })
            .collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(read_all(text, None).unwrap(), expected);
    }

    #[track_caller]
    fn refused(text: &str, message: &str) {
        let error = read_all(text, None).expect_err(text);
        assert!(error.contains(message), "{error:?} should say {message:?}");
    }

    #[test]
    fn a_snapshot_as_the_autoscaler_prints_it() {
        let text = format!(
            r#"{{"NodeList":[{{"Node":{NODE},"Pods":[{POD},{LOOSE}]}}],"UnscheduledPodsCanBeScheduled":[{LOOSE}],"StartTimestamp":"2026-11-01T14:00:00.25Z","EndTimestamp":"2026-11-01T14:00:01Z","TemplateNodes":{{"ng-a":{{"Node":{NODE},"Pods":null}}}}}}"#
        );
        let expected = [
            r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"spec":{}}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":{"nodeName":"n1","x":1.50}}"#,
            r#"inferred {"apiVersion":"v1","kind":"Pod","metadata":{"name":"q","namespace":"d"},"spec":{"nodeName":"n1"}}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q","namespace":"d"},"spec":{}}"#,
            r#"inferred {"apiVersion":"autoscaler.kinescope.io/v1","kind":"NodeGroupTemplate","metadata":{"name":"ng-a"},"group":"ng-a","node":{"metadata":{"name":"n1"},"spec":{}},"pods":null}"#,
        ];
        let at = |time: &str| expected.map(|text| format!("{time} {text}"));
        assert_eq!(read_all(&text, None).unwrap(), at("2026-11-01T14:00:00.25Z"));
        assert_eq!(
            read_all(&text, Some("2026-11-02T00:00:00Z")).unwrap(),
            at("2026-11-02T00:00:00Z"),
            "the given time takes precedence"
        );
    }

    #[test]
    fn without_a_time_there_are_objects() {
        for time in ["\"0001-01-01T00:00:00Z\"", "null", "7"] {
            check(
                &format!(r#"{{"StartTimestamp":{time},"NodeList":[{{"Node":{NODE}}}]}}"#),
                &[r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"spec":{}}"#],
            );
        }
    }

    #[test]
    fn errors_of_the_autoscaler_are_warnings() {
        check(
            r#"{"NodeList":null,"UnscheduledPodsCanBeScheduled":null,"Error":"Unable to collect any data","StartTimestamp":"0001-01-01T00:00:00Z","EndTimestamp":"0001-01-01T00:00:00Z","TemplateNodes":null}"#,
            &["file: the snapshot is incomplete: Unable to collect any data"],
        );
        check(r#"{"NodeList":[],"Error":"","x":[1]}"#, &["file: unknown key x ignored"]);
    }

    #[test]
    fn upcoming_nodes_are_left_out() {
        let upcoming = r#"{"Node":{"metadata":{"name":"template-node-for-https://a/b-upcoming-0","annotations":{"cluster-autoscaler.k8s.io/upcoming-node":"true"}}},"Pods":[]}"#;
        check(
            &format!(r#"{{"NodeList":[{upcoming},{{"Node":{NODE},"Pods":[]}},{upcoming}]}}"#),
            &[
                r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"spec":{}}"#,
                "file: 2 upcoming nodes skipped: they are placeholders of the autoscaler",
            ],
        );
    }

    #[test]
    fn groups_get_valid_object_names() {
        assert_eq!(valid_name("ng-a.x"), "ng-a.x");
        let url = valid_name("https://www.googleapis.com/zones/z/instanceGroups/A");
        assert!(url.starts_with("https---www.googleapis.com-zones-z-instancegroups-a-"), "{url}");
        assert_ne!(valid_name("A"), valid_name("a"));
        assert_ne!(valid_name("é"), valid_name("ü"));
        for group in ["", "-", "..", "a/b", &"x".repeat(400), "\u{1b}[31m", "-a-"] {
            let name = valid_name(group);
            assert!(template(group, "{}").unwrap().meta().name == name, "{name}");
            assert!(
                name.len() <= 253 && !name.starts_with(['-', '.']) && !name.ends_with(['-', '.']),
                "{name}"
            );
        }
    }

    #[test]
    fn errors_have_their_path() {
        refused("[]", "not a cluster-autoscaler snapshot");
        refused("[7]", "neither an object nor a list");
        refused("7", "not a JSON object");
        refused(r#"{"NodeList":[{"Node":{"metadata":{}}}]}"#, "file, NodeList[0]: Node: ");
        refused(r#"{"NodeList":[{"Pods":[null,{"metadata":{"name":7}}]}]}"#, "file, NodeList[0]: Pods[1]: ");
        refused(r#"{"NodeList":[7]}"#, "file, NodeList[0]: not a node with its pods");
        refused(r#"{"NodeList":7}"#, "file, NodeList: neither");
        refused(r#"{"NodeList":[{"#, "unexpected end, at NodeList");
    }
}
