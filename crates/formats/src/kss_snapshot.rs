//! kube-scheduler-simulator's snapshot (export): a JSON or YAML object with lists of objects and the scheduler's
//! configuration.
//!
//! The items of the lists are objects without `apiVersion` and `kind`. The configuration becomes an object named
//! `kube-scheduler`. YAML is held in memory while it is read, and so are all objects while an export is written.

use std::io::{BufRead, Cursor};

use model::{Meta, Object};

use crate::json_pull::{JsonPullParser, PathSegment, PullAction, PulledValue, escape_for_message};
use crate::manifests::{with_type_meta, yaml};
use crate::{Error, ImportItem, ImportItems, Input, Result};

mod writer;

pub use writer::KssSnapshotWriter;

/// A field of an export.
struct ExportField {
    key: &'static str,
    /// The apiVersion and kind of its items, or of the field itself.
    api_version: &'static str,
    kind: &'static str,
}

/// The fields in the order of the export.
const EXPORT_FIELDS: [ExportField; 8] = [
    ExportField { key: "pods", api_version: "v1", kind: "Pod" },
    ExportField { key: "nodes", api_version: "v1", kind: "Node" },
    ExportField { key: "pvs", api_version: "v1", kind: "PersistentVolume" },
    ExportField { key: "pvcs", api_version: "v1", kind: "PersistentVolumeClaim" },
    ExportField { key: "storageClasses", api_version: "storage.k8s.io/v1", kind: "StorageClass" },
    ExportField { key: "priorityClasses", api_version: "scheduling.k8s.io/v1", kind: "PriorityClass" },
    ExportField {
        key: SCHEDULER_CONFIG,
        api_version: "kubescheduler.config.k8s.io/v1",
        kind: "KubeSchedulerConfiguration",
    },
    ExportField { key: "namespaces", api_version: "v1", kind: "Namespace" },
];

/// The one field that is not a list.
const SCHEDULER_CONFIG: &str = "schedulerConfig";
/// How many unknown fields are reported.
const MAX_UNKNOWN_WARNINGS: u32 = 10;

/// Reads an export.
pub fn read(mut input: Input) -> Result<ImportItems> {
    let file = input.name.clone();
    let head = input.reader.fill_buf().map_err(|source| Error::cannot_read(&file, source))?;
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let is_json = head.trim_ascii_start().starts_with(b"{");
    let text: Box<dyn BufRead + Send> =
        if is_json { input.reader } else { Box::new(Cursor::new(yaml_to_json(input)?)) };
    Ok(Box::new(KssSnapshotReader {
        file,
        pull: JsonPullParser::new(text, pull_action),
        unknown: 0,
        ended: false,
    }))
}

struct KssSnapshotReader {
    file: String,
    pull: JsonPullParser<Box<dyn BufRead + Send>>,
    unknown: u32,
    ended: bool,
}

fn yaml_to_json(input: Input) -> Result<String> {
    let mut documents = yaml::YamlDocuments::new(&input.name, input.reader);
    let Some((_, text)) = documents.next()? else {
        return Err(Error::invalid_file(
            &input.name,
            "empty; expected an export with pods, nodes and other lists",
        ));
    };
    match documents.next()? {
        Some((line, _)) => Err(documents.line_error(line, "more than one document; expected one".to_owned())),
        None => Ok(text),
    }
}

// === impl KssSnapshotReader ===

impl Iterator for KssSnapshotReader {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        while !self.ended {
            let item = self.read();
            self.ended |= item.is_err();
            if let Some(item) = item.transpose() {
                return Some(item);
            }
        }
        None
    }
}

impl KssSnapshotReader {
    /// Reads one value and returns its item, if it makes one.
    fn read(&mut self) -> Result<Option<ImportItem>> {
        let Some((path, piece)) = self.pull.next().map_err(|broken| broken.into_error(&self.file))? else {
            self.ended = true;
            let more = self.pull.drain().map_err(|source| Error::cannot_read(&self.file, source))?;
            let warning = || ImportItem::Warning(format!("{}: data after the end ignored", self.file));
            return Ok(more.then(warning));
        };
        let result = match (path, piece) {
            ([], PulledValue::Text(_)) => Err("expected an object of lists".to_owned()),
            ([] | [_], PulledValue::Descended) | ([_], PulledValue::Text("null")) => Ok(None),
            ([PathSegment::Field(key)], PulledValue::Text(text)) if key == SCHEDULER_CONFIG => {
                object(key, text).map(Some)
            }
            ([PathSegment::Field(key), PathSegment::Index(_)], PulledValue::Text(text)) => {
                object(key, text).map(Some)
            }
            ([PathSegment::Field(key)], PulledValue::Skipped) => {
                self.unknown = self.unknown.saturating_add(1);
                if self.unknown > MAX_UNKNOWN_WARNINGS {
                    return Ok(None);
                }
                let warning = format!("{}: unknown field {} ignored", self.file, escape_for_message(key));
                return Ok(Some(ImportItem::Warning(warning)));
            }
            _ => Err("must be a list of objects, or null".to_owned()),
        };
        match result {
            Ok(object) => Ok(object.map(ImportItem::Object)),
            Err(why) => Err(Error::invalid_at(&self.file, self.pull.path(), why)),
        }
    }
}

/// Extracts the configuration, and every object by itself.
fn pull_action(path: &[PathSegment]) -> PullAction {
    match path {
        [] => PullAction::Descend,
        [PathSegment::Field(key)] if key == SCHEDULER_CONFIG => PullAction::Extract,
        [PathSegment::Field(key)] if field(key).is_some() => PullAction::Descend,
        [_] => PullAction::Skip,
        _ => PullAction::Extract,
    }
}

fn field(key: &str) -> Option<&'static ExportField> {
    EXPORT_FIELDS.iter().find(|field| field.key == key)
}

fn object(key: &str, text: &str) -> std::result::Result<Object, String> {
    let ExportField { api_version, kind, .. } = field(key).expect("only known fields are parsed");
    let mut text = with_type_meta(text, api_version, kind);
    // The configuration has no name.
    if key == SCHEDULER_CONFIG
        && Meta::read(&text).is_err()
        && let Some(rest) = text.strip_prefix('{')
    {
        text = format!("{{\"metadata\":{{\"name\":\"kube-scheduler\"}},{rest}").into();
    }
    let object = Object::parse(&text).map_err(|error| error.to_string())?;
    match &*object.meta().kind {
        other if other != *kind => Err(format!("expected kind {kind}, found {other}")),
        _ => Ok(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WriteSummary, Writer as _};
    use model::{Change, Moment, What};
    use serde_json::{Value, json};
    use std::io::Cursor;

    /// An export with one object per field, in the server's order of fields.
    const EXPORT: &str = r#"{"pods":[{"metadata":{"name":"web-1","namespace":"shop","uid":"u1","resourceVersion":"7","creationTimestamp":"2026-11-01T14:00:00Z"},"spec":{"containers":[{"name":"app","image":"shop/web:1","resources":{"requests":{"cpu":"250m"}}}],"nodeName":"n1"},"status":{"phase":"Running"}}],"nodes":[{"metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","pods":"110"}}}],"pvs":[{"metadata":{"name":"disk-1"},"spec":{"claimRef":{"kind":"PersistentVolumeClaim","namespace":"shop","name":"data","apiVersion":"v1"}}}],"pvcs":[{"metadata":{"name":"data","namespace":"shop"},"spec":{"volumeName":"disk-1"}}],"storageClasses":[{"metadata":{"name":"fast"},"provisioner":"example.com/disk"}],"priorityClasses":[{"metadata":{"name":"urgent"},"value":1000}],"schedulerConfig":{"parallelism":16,"profiles":[{"schedulerName":"default-scheduler","plugins":{"score":{"enabled":[{"name":"ImageLocality","weight":1}]}}}]},"namespaces":[{"metadata":{"name":"shop"},"spec":{"finalizers":["kubernetes"]}}]}"#;

    fn open(text: &str) -> Input {
        Input::open("export", Box::new(Cursor::new(text.as_bytes().to_vec()))).unwrap()
    }

    fn items(text: &str) -> Result<Vec<ImportItem>> {
        read(open(text))?.collect()
    }

    fn objects(text: &str) -> Vec<Object> {
        let object = |item| match item {
            ImportItem::Object(object) => object,
            other => panic!("{other:?} is not an object"),
        };
        items(text).unwrap().into_iter().map(object).collect()
    }

    fn written(objects: &[Object], yaml: bool) -> (String, WriteSummary) {
        let mut out = Vec::new();
        let mut writer = Box::new(KssSnapshotWriter::new(&mut out, yaml));
        for object in objects {
            let (at, key) = (Moment::from_nanos(0), object.key(&"s".into()));
            let what = What::Added(object.clone());
            writer.change(&Change { seq: 1, at, seen: at, key, what, inferred: false }).unwrap();
        }
        let written = writer.finish().unwrap();
        (String::from_utf8(out).unwrap(), written)
    }

    #[track_caller]
    fn refused(text: &str, message: &str) {
        let error = items(text).expect_err(text).to_string();
        assert!(error.starts_with(message), "{error:?} should say {message:?}");
    }

    #[test]
    fn an_export_is_recognized() {
        assert_eq!(open(EXPORT).format, Some(crate::Format::KssSnapshot));
    }

    #[test]
    fn items_get_the_kind_of_their_list_and_keep_their_bytes() {
        let objects = objects(EXPORT);
        let keys: Vec<String> = objects.iter().map(|object| object.key(&"s".into()).to_string()).collect();
        assert_eq!(
            keys,
            [
                "Pod shop/web-1",
                "Node n1",
                "PersistentVolume disk-1",
                "PersistentVolumeClaim shop/data",
                "StorageClass.storage.k8s.io fast",
                "PriorityClass.scheduling.k8s.io urgent",
                "KubeSchedulerConfiguration.kubescheduler.config.k8s.io kube-scheduler",
                "Namespace shop",
            ]
        );
        assert_eq!(
            objects[1].as_str(),
            r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","pods":"110"}}}"#
        );
        let config = objects[6].value().unwrap();
        assert_eq!(
            (&config["parallelism"], &config["apiVersion"]),
            (&json!(16), &json!("kubescheduler.config.k8s.io/v1"))
        );
    }

    #[test]
    fn exports_round_trip_as_json_and_yaml() {
        let before = objects(EXPORT);
        let values =
            |objects: &[Object]| -> Vec<Value> { objects.iter().map(|o| o.value().unwrap()).collect() };
        for yaml in [false, true] {
            let (text, written) = written(&before, yaml);
            assert_eq!(written, WriteSummary { count: 8, ..WriteSummary::default() });
            assert_eq!(values(&objects(&text)), values(&before), "{text}");
        }
    }

    #[test]
    fn fields_come_in_the_order_of_the_export_and_items_in_that_of_their_names() {
        let pod = |namespace: &str, name: &str| {
            let metadata = json!({"name": name, "namespace": namespace});
            testobjects::object(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}))
        };
        let (text, _) = written(&[pod("b", "a"), pod("a", "<z>"), pod("a", "b")], false);
        assert_eq!(
            text,
            concat!(
                r#"{"pods":[{"metadata":{"name":"\u003cz\u003e","namespace":"a"}},{"metadata":{"name":"b","namespace":"a"}},"#,
                r#"{"metadata":{"name":"a","namespace":"b"}}],"nodes":[],"pvs":[],"pvcs":[],"storageClasses":[],"#,
                r#""priorityClasses":[],"schedulerConfig":null,"namespaces":[]}"#,
                "\n"
            )
        );
    }

    #[test]
    fn objects_outside_the_export_are_counted() {
        let other = |api_version: &str, kind: &str, name: &str| {
            testobjects::object(&json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}))
        };
        let class = |name: &str| other("scheduling.k8s.io/v1", "PriorityClass", name);
        let namespace = |name: &str| other("v1", "Namespace", name);
        let (text, written) = written(
            &[
                class("system-node-critical"),
                class("systematic"),
                namespace("default"),
                namespace("kube-system"),
                namespace("default-2"),
                other("apps/v1", "Deployment", "web"),
                other("metrics.k8s.io/v1beta1", "Node", "n1"),
                other("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration", "kube-scheduler"),
                other("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration", "second"),
            ],
            false,
        );
        let left_out: Vec<(&str, u64)> = written.left_out.iter().collect();
        assert_eq!(
            left_out,
            [
                ("namespaces of the system", 2),
                ("objects of Deployment", 1),
                ("objects of KubeSchedulerConfiguration", 1),
                ("objects of Node", 1),
                ("priority classes of the system", 1),
            ]
        );
        assert_eq!(written.count, 3);
        let names: Vec<String> = objects(&text).iter().map(|o| o.meta().name.into_owned()).collect();
        assert_eq!(names, ["systematic", "kube-scheduler", "default-2"]);
    }

    #[test]
    fn lists_may_be_missing_or_null_and_unknown_fields_are_reported() {
        assert_eq!(items(r#"{"pods":null,"schedulerConfig":null,"nodes":[ ]}"#).unwrap(), []);
        let nodes = r#"{"nodes": [ {"metadata":{"name":"a"}} , {"metadata":{"name":"b"}} ] , "pods" :[]}"#;
        assert_eq!(objects(nodes).len(), 2);
        assert_eq!(
            items(r#"{"pods":[],"jobs":[1]}"#).unwrap(),
            [ImportItem::Warning("export: unknown field jobs ignored".to_owned())]
        );
    }

    #[test]
    fn an_item_may_name_its_kind_itself() {
        let node = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}"#;
        assert_eq!(objects(&format!(r#"{{"nodes":[{node}]}}"#))[0].as_str(), node);
    }

    #[test]
    fn invalid_values_are_reported_with_their_path() {
        refused(r#"{"pods":"none"}"#, "export, pods: must be a list of objects, or null");
        refused(
            r#"{"pods":[{"metadata":{"name":"a"}},{"metadata":{}}]}"#,
            "export, pods[1]: not a Kubernetes object: missing field `name`",
        );
        refused(
            r#"{"nodes":[{"kind":"Pod","metadata":{"name":"a"}}]}"#,
            "export, nodes[0]: expected kind Node, found Pod",
        );
        refused(r#"{"pods":{"a":{}}}"#, "export, pods.a: must be a list of objects, or null");
        refused(
            "pods: []\n---\nnodes: []\n",
            "export, document 2, line 3: more than one document; expected one",
        );
        refused(r#"{"pods":[ 7]}"#, "export, pods[0]: not a Kubernetes object");
        refused(r#"{"schedulerConfig":[]}"#, "export, schedulerConfig: not a Kubernetes object");
        for text in ["{\"pods\":[{}", "{\"pods\":[\n", "pods: [\n", "pods\n"] {
            assert!(items(text).is_err(), "{text}");
        }
    }
}
