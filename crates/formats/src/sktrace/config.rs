//! The configuration of SimKube's tracer: tracked kinds, the paths of their pod templates, lifecycle tracking.

use std::collections::BTreeMap;
use std::fmt;

use model::{BadObject, Kind, Meta, Object};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{Error, Result};

/// The `apiVersion` and `kind` of the object that stores the configuration of a trace in a history.
const STORED_AS: (&str, &str) = ("simkube.kinescope.io/v1", "TracerConfig");

/// The tracked objects, by group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracerConfig {
    tracked: BTreeMap<Gvk, TrackedKind>,
}

/// The tracking of objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrackedKind {
    /// JSON pointers to the pod templates, with `*` for every element of an array; empty if the kind has no template.
    pub(super) pod_spec_template_paths: Vec<String>,
    /// Whether the lifecycles of pods that such an object owns are recorded.
    pub(super) track_lifecycle: bool,
    /// Whether objects of this kind that have an owner are left out.
    pub(super) skip_owned: bool,
}

/// A kind in one version: `apps/v1.Deployment`, `v1.Pod`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Gvk {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// The kinds whose template paths SimKube knows itself. It rejects any other path for them, even for ReplicaSets, for
/// which its own path is wrong.
const KNOWN_TEMPLATE_PATHS: [(&str, &str, &str); 7] = [
    ("apps/v1", "DaemonSet", "/spec/template"),
    ("apps/v1", "Deployment", "/spec/template"),
    ("apps/v1", "ReplicaSet", "/spec"),
    ("apps/v1", "StatefulSet", "/spec/template"),
    ("batch/v1", "CronJob", "/spec/jobTemplate/spec/template"),
    ("batch/v1", "Job", "/spec/template"),
    ("v1", "Pod", ""),
];

/// A configuration file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigFile {
    tracked_objects: BTreeMap<String, TrackedKindInFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TrackedKindInFile {
    pod_spec_template_path: Option<String>,
    pod_spec_template_paths: Option<Vec<String>>,
    #[serde(default)]
    track_lifecycle: bool,
    #[serde(default)]
    skip_owned: bool,
}

/// The same in a trace, which may have older and newer fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrackedKindInTrace {
    /// The path of the pod spec instead of the template, in the first traces.
    pod_spec_path: Option<String>,
    pod_spec_template_path: Option<String>,
    pod_spec_template_paths: Option<Vec<String>>,
    #[serde(default)]
    track_lifecycle: bool,
    #[serde(default)]
    skip_owned: bool,
}

// === impl TracerConfig ===

impl TracerConfig {
    /// Parses a configuration file of SimKube's tracer, YAML or JSON, and returns it with warnings.
    pub fn parse(file: &str, text: &str) -> Result<(TracerConfig, Vec<String>)> {
        let tracked_config: ConfigFile = serde_saphyr::from_str(text).map_err(|error| {
            let line = error.location().map_or(1, |location| location.line());
            let why = error.without_snippet().to_string();
            let why = why.split(" at line ").next().unwrap_or(&why).to_owned();
            Error::invalid_line(file, line, format!("invalid tracer configuration: {why}"))
        })?;
        let mut warnings = Vec::new();
        let mut tracked = BTreeMap::new();
        for (name, tracked_config) in tracked_config.tracked_objects {
            let gvk = Gvk::parse(&name).map_err(|why| Error::invalid_file(file, why))?;
            let mut paths = tracked_config.pod_spec_template_paths.unwrap_or_default();
            if let Some(path) = tracked_config.pod_spec_template_path {
                let mut warning = format!("{gvk}: podSpecTemplatePath is deprecated");
                if paths.is_empty() {
                    warning += ": use podSpecTemplatePaths";
                    paths.push(path);
                } else {
                    warning += " and ignored: podSpecTemplatePaths is set";
                }
                warnings.push(warning);
            }
            match (gvk.known_path(), paths.first()) {
                (Some(known_path), Some(_)) if paths != [known_path] => {
                    let why = format!(
                        "Invalid path for {gvk}: SimKube supports only {known_path:?}, omit podSpecTemplatePaths"
                    );
                    return Err(Error::invalid_file(file, why));
                }
                (Some(known_path), _) => paths = vec![known_path.to_owned()],
                (None, None) => warnings.push(format!(
                    "Missing pod spec path for {gvk}: its objects are exported, but not tracked by SimKube"
                )),
                (None, Some(_)) => {}
            }
            if let Some(path) = paths.iter().find(|path| !path.is_empty() && !path.starts_with('/')) {
                let why = format!("{gvk}: {path:?} is not a JSON pointer such as /spec/template");
                return Err(Error::invalid_file(file, why));
            }
            let tracked_config = TrackedKind {
                pod_spec_template_paths: paths,
                track_lifecycle: tracked_config.track_lifecycle,
                skip_owned: tracked_config.skip_owned,
            };
            tracked.insert(gvk, tracked_config);
        }
        Ok((TracerConfig { tracked }, warnings))
    }

    /// The kind of the object that stores the configuration of an imported trace.
    pub fn kind() -> Kind {
        Kind::of(STORED_AS.0, STORED_AS.1)
    }

    /// The kinds that are tracked.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.tracked.keys().map(|gvk| Kind::of(&gvk.api_version, &gvk.kind))
    }

    /// The tracked kinds with the JSON pointers to their pod templates, with `*` for every element of an array.
    pub fn template_paths(&self) -> impl Iterator<Item = (Kind, Vec<String>)> {
        let paths_of = |(gvk, tracked): (&Gvk, &TrackedKind)| {
            (Kind::of(&gvk.api_version, &gvk.kind), tracked.pod_spec_template_paths.clone())
        };
        self.tracked.iter().map(paths_of)
    }

    /// The object that stores the configuration in a history.
    pub fn to_object(&self) -> Object {
        config_object(&self.to_json(|_| true)).expect("a map of kinds is an object")
    }

    /// The configuration of an imported trace; `None` if the object does not store one.
    pub fn from_object(object: &Object) -> Option<TracerConfig> {
        if !is_config_object(&object.meta()) {
            return None;
        }
        TracerConfig::from_trace(&object.value().ok()?).ok()
    }

    /// Parses the configuration in a trace. Template paths are not checked: SimKube has accepted them once.
    pub(super) fn from_trace(config: &Value) -> std::result::Result<TracerConfig, String> {
        let Some(Value::Object(kinds)) = config.get("trackedObjects") else {
            return Err("trackedObjects must be a map".to_owned());
        };
        let mut tracked = BTreeMap::new();
        for (name, kind_config) in kinds {
            let gvk = Gvk::parse(name)?;
            let kind_config: TrackedKindInTrace =
                serde_json::from_value(kind_config.clone()).map_err(|error| format!("{gvk}: {error}"))?;
            let mut paths = kind_config.pod_spec_template_paths.unwrap_or_default();
            if paths.is_empty() {
                let of_spec = kind_config.pod_spec_path.map(|path| match path.strip_suffix("/spec") {
                    Some(parent) => parent.to_owned(),
                    None => path,
                });
                paths.extend(kind_config.pod_spec_template_path.or(of_spec));
            }
            if paths.is_empty() {
                paths.extend(gvk.known_path().map(str::to_owned));
            }
            let kind_config = TrackedKind {
                pod_spec_template_paths: paths,
                track_lifecycle: kind_config.track_lifecycle,
                skip_owned: kind_config.skip_owned,
            };
            tracked.insert(gvk, kind_config);
        }
        Ok(TracerConfig { tracked })
    }

    /// How a kind is tracked; `None` if it is not.
    pub(super) fn tracked(&self, gvk: &Gvk) -> Option<&TrackedKind> {
        self.tracked.get(gvk)
    }

    /// The kind whose pods' lifecycles are recorded, if there is exactly one.
    pub(super) fn only_kind_with_lifecycles(&self) -> Option<&Gvk> {
        let mut kinds =
            self.tracked.iter().filter(|(_, tracked)| tracked.track_lifecycle).map(|(gvk, _)| gvk);
        kinds.next().filter(|_| kinds.next().is_none())
    }

    /// The configuration as written in a trace: SimKube rejects kinds without a template path, and other paths for the
    /// kinds it knows.
    pub(super) fn to_trace(&self) -> Value {
        self.to_json(|paths| !paths.is_empty())
    }

    fn to_json(&self, is_told: impl Fn(&[String]) -> bool) -> Value {
        let mut kinds = Map::new();
        for (gvk, tracked) in &self.tracked {
            let known_path = gvk.known_path().map(|path| vec![path.to_owned()]);
            let paths = known_path.unwrap_or_else(|| tracked.pod_spec_template_paths.clone());
            if !is_told(&paths) {
                continue;
            }
            let mut entry = Map::new();
            entry.insert("podSpecTemplatePaths".to_owned(), json!(paths));
            for (name, set) in
                [("trackLifecycle", tracked.track_lifecycle), ("skipOwned", tracked.skip_owned)]
            {
                if set {
                    entry.insert(name.to_owned(), true.into());
                }
            }
            kinds.insert(gvk.to_string(), entry.into());
        }
        json!({"trackedObjects": kinds})
    }
}

impl Default for TracerConfig {
    /// The built-in workloads, pods without an owner, and the lifecycles of all their pods.
    fn default() -> TracerConfig {
        let tracked = KNOWN_TEMPLATE_PATHS.iter().filter(|(_, kind, _)| *kind != "ReplicaSet").map(
            |(api_version, kind, path)| {
                let gvk = Gvk { api_version: (*api_version).to_owned(), kind: (*kind).to_owned() };
                let paths = vec![(*path).to_owned()];
                let skip_owned = *kind == "Pod";
                (gvk, TrackedKind { pod_spec_template_paths: paths, track_lifecycle: true, skip_owned })
            },
        );
        TracerConfig { tracked: tracked.collect() }
    }
}

/// The object that stores a trace's configuration.
pub(super) fn config_object(config: &Value) -> std::result::Result<Object, BadObject> {
    let (api_version, kind) = STORED_AS;
    let tracked = &config["trackedObjects"];
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "tracer"}, "trackedObjects": tracked});
    Object::parse(&object.to_string())
}

/// Whether an object stores a configuration.
pub(super) fn is_config_object(meta: &Meta<'_>) -> bool {
    (&*meta.api_version, &*meta.kind) == STORED_AS
}

// === impl Gvk ===

impl Gvk {
    /// Reads `group/version.Kind`, `version.Kind` or, as old traces have it, `/version.Kind`.
    pub(super) fn parse(text: &str) -> std::result::Result<Gvk, String> {
        let invalid =
            || format!("invalid format for gvk: {text:?} is neither group/version.Kind nor version.Kind");
        let (group, rest) = text.split_once('/').unwrap_or(("", text));
        let (version, kind) = rest.split_once('.').ok_or_else(invalid)?;
        if rest.contains('/') || kind.contains('.') || version.is_empty() || kind.is_empty() {
            return Err(invalid());
        }
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Ok(Gvk { api_version, kind: kind.to_owned() })
    }

    pub(super) fn of(meta: &Meta<'_>) -> Gvk {
        Gvk { api_version: meta.api_version.clone().into_owned(), kind: meta.kind.clone().into_owned() }
    }

    pub(super) fn is_pod(&self) -> bool {
        self.api_version == "v1" && self.kind == "Pod"
    }

    fn known_path(&self) -> Option<&'static str> {
        KNOWN_TEMPLATE_PATHS
            .iter()
            .find(|(api_version, kind, _)| *api_version == self.api_version && *kind == self.kind)
            .map(|(_, _, path)| *path)
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.api_version, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, written: Value, warned: &[&str]) {
        let (config, warnings) = TracerConfig::parse("file", text).unwrap();
        assert_eq!(config.to_trace()["trackedObjects"], written, "{text}");
        assert_eq!(warnings.len(), warned.len(), "{warnings:?}");
        for (warning, part) in warnings.iter().zip(warned) {
            assert!(warning.contains(part), "{warning}");
        }
    }

    #[track_caller]
    fn refused(text: &str, message: &str) {
        let error = TracerConfig::parse("file", text).expect_err(text).to_string();
        assert!(error.contains(message), "{error:?} should say {message:?}");
    }

    #[test]
    fn paths_of_known_kinds_are_filled_in() {
        check(
            "trackedObjects:\n  apps/v1.Deployment: {}\n  /v1.Pod: {skipOwned: true}\n  batch/v1.CronJob: {trackLifecycle: true, podSpecTemplatePaths: [/spec/jobTemplate/spec/template]}\nother: 1\n",
            json!({
                "apps/v1.Deployment": {"podSpecTemplatePaths": ["/spec/template"]},
                "v1.Pod": {"podSpecTemplatePaths": [""], "skipOwned": true},
                "batch/v1.CronJob": {"podSpecTemplatePaths": ["/spec/jobTemplate/spec/template"], "trackLifecycle": true},
            }),
            &[],
        );
        check(
            r#"{"trackedObjects": {"apps/v1.ReplicaSet": {"podSpecTemplatePaths": []}}}"#,
            json!({"apps/v1.ReplicaSet": {"podSpecTemplatePaths": ["/spec"]}}),
            &[],
        );
    }

    #[test]
    fn the_deprecated_path_counts_only_alone() {
        check(
            "trackedObjects:\n  batch.volcano.sh/v1alpha1.Job: {podSpecTemplatePath: /spec/tasks/*/template}\n",
            json!({"batch.volcano.sh/v1alpha1.Job": {"podSpecTemplatePaths": ["/spec/tasks/*/template"]}}),
            &["deprecated: use"],
        );
        check(
            "trackedObjects:\n  a.io/v1.B: {podSpecTemplatePath: /x, podSpecTemplatePaths: [/y, /z]}\n",
            json!({"a.io/v1.B": {"podSpecTemplatePaths": ["/y", "/z"]}}),
            &["deprecated and ignored"],
        );
    }

    #[test]
    fn kinds_without_a_template_are_tracked_but_not_written() {
        check(
            "trackedObjects: {v1.ServiceAccount: {}}",
            json!({}),
            &["Missing pod spec path for v1.ServiceAccount: "],
        );
        let (config, _) = TracerConfig::parse("file", "trackedObjects: {v1.ServiceAccount: {}}").unwrap();
        assert!(config.tracked(&Gvk::parse("v1.ServiceAccount").unwrap()).is_some());
    }

    #[test]
    fn configurations_that_simkube_refuses_are_refused() {
        refused(
            "trackedObjects:\n  apps/v1.ReplicaSet: {podSpecTemplatePaths: [/spec/template]}",
            "Invalid path for apps/v1.ReplicaSet: SimKube supports only \"/spec\"",
        );
        refused("trackedObjects:\n  apps/v1.Deployment: {podSpecTemplatePaths: [/a, /b]}", "Invalid path");
        refused("trackedObjects:\n  v1.Pod: {skipowned: true}\n", "unknown field `skipowned`");
        refused("trackedobjects: {}\n", "missing field `trackedObjects`");
        refused("trackedObjects: {a.io/v1.B: {podSpecTemplatePaths: [spec]}}", "is not a JSON pointer");
        for name in ["Pod", "a/b/v1.Pod", "v1.a.Pod", "a.io/Pod", "v1.", ".Pod"] {
            refused(&format!("trackedObjects: {{{name}: {{}}}}"), "invalid format for gvk");
        }
    }

    #[test]
    fn the_default_tracks_workloads_and_bare_pods() {
        let written = TracerConfig::default().to_trace();
        let kinds: Vec<&String> = written["trackedObjects"].as_object().unwrap().keys().collect();
        assert_eq!(
            kinds,
            [
                "apps/v1.DaemonSet",
                "apps/v1.Deployment",
                "apps/v1.StatefulSet",
                "batch/v1.CronJob",
                "batch/v1.Job",
                "v1.Pod"
            ]
        );
        assert_eq!(
            written["trackedObjects"]["v1.Pod"],
            json!({"podSpecTemplatePaths": [""], "trackLifecycle": true, "skipOwned": true})
        );
    }

    #[test]
    fn configurations_of_old_traces_are_read() {
        let old = json!({"trackedObjects": {
            "/v1.Pod": {"podSpecTemplatePath": null},
            "a.io/v1.B": {"podSpecPath": "/spec/tasks/*/template/spec", "unheard": 1},
            "apps/v1.ReplicaSet": {"podSpecTemplatePath": "/spec/template", "trackLifecycle": true},
        }});
        let config = TracerConfig::from_trace(&old).unwrap();
        let paths = |name: &str| &config.tracked(&Gvk::parse(name).unwrap()).unwrap().pod_spec_template_paths;
        assert_eq!(paths("v1.Pod"), &[""]);
        assert_eq!(paths("a.io/v1.B"), &["/spec/tasks/*/template"]);
        assert_eq!(paths("apps/v1.ReplicaSet"), &["/spec/template"]);
        assert_eq!(
            config.to_trace()["trackedObjects"]["apps/v1.ReplicaSet"]["podSpecTemplatePaths"],
            json!(["/spec"])
        );
        assert_eq!(config.only_kind_with_lifecycles().unwrap().kind, "ReplicaSet");
    }
}
