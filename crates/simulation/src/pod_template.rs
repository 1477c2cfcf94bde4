//! Pod objects: the fields of a pod that its owner sets, and their serialization together with its current state.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use autoscaler::{PodScheduledCondition, PodStatusUpdate};
use kubernetes::read::nullable;
use kubernetes::time::whole_second;
use model::{JsonStr, Moment, Object};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::eviction::EvictionCause;
use crate::ids::DemandAnnotation;

/// The parts of a pod's JSON that its owner sets and that do not change.
#[derive(Clone, Debug)]
pub(crate) struct PodTemplate {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    /// The prefix of generated names; `None` if the name is fixed.
    pub(crate) generate_name: Option<Arc<str>>,
    /// Fields of the metadata that do not change, each followed by a comma.
    metadata: Box<str>,
    /// Its finalizers as a JSON list, such as a Job's; empty if there are none.
    finalizers: Box<str>,
    /// Fields of the spec, separated by commas.
    spec: Box<str>,
    /// Each container's name and image.
    containers: Vec<(Box<str>, Box<str>)>,
    pub(crate) grace_seconds: i64,
}

/// A pod that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("invalid {pod}: {source}")]
pub struct InvalidPod {
    /// Its name.
    pub pod: String,
    /// Why.
    pub source: serde_json::Error,
}

/// The current state of a pod.
pub(crate) struct PodState<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) created: Moment,
    pub(crate) node: Option<&'a str>,
    pub(crate) nominated: Option<&'a str>,
    /// When it was bound.
    pub(crate) bound_at: Option<Moment>,
    /// The scheduler's last message, and since when the pod is unschedulable.
    pub(crate) unschedulable: Option<(&'a str, Moment)>,
    pub(crate) started: Option<Moment>,
    /// When its containers exited, and whether they failed.
    pub(crate) finished: Option<(Moment, bool)>,
    /// When its deletion began, and its grace period in seconds.
    pub(crate) deletion: Option<(Moment, i64)>,
    /// Whether its demand was withdrawn.
    pub(crate) withdrawn: bool,
    pub(crate) disruption: Option<(&'a EvictionCause, Moment)>,
    /// Whether it still has its finalizers.
    pub(crate) has_finalizers: bool,
}

#[derive(Deserialize)]
struct PodJson<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    metadata: BTreeMap<JsonStr<'a>, &'a RawValue>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    spec: BTreeMap<JsonStr<'a>, &'a RawValue>,
}

#[derive(Deserialize)]
struct ContainerJson {
    #[serde(default)]
    name: String,
    #[serde(default)]
    image: String,
}

/// Fields of the metadata that are written anew for every pod.
const REGENERATED_FIELDS: [&str; 13] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "managedFields",
    "generation",
    "selfLink",
    "generateName",
    FINALIZERS,
    ANNOTATIONS,
];
const FINALIZERS: &str = "finalizers";
const ANNOTATIONS: &str = "annotations";
/// The status reason of a pod whose demand was withdrawn. Kubernetes has no such reason; a replay of the run reads it.
pub const WITHDRAWN_REASON: &str = "Withdrawn";
/// The reason of the condition `PodScheduled` if no node is feasible.
const UNSCHEDULABLE_REASON: &str = "Unschedulable";
const GRACE_PERIOD_FIELD: &str = "terminationGracePeriodSeconds";
const DEFAULT_GRACE_SECONDS: i64 = 30;

impl PodTemplate {
    /// Parses a pod, and adds the annotation of its demand.
    pub(crate) fn of(pod: &Object, annotation: Option<&DemandAnnotation>) -> Result<PodTemplate, InvalidPod> {
        PodTemplate::parse(pod, annotation).map_err(|source| {
            let meta = pod.meta();
            InvalidPod { pod: format!("pod {}/{}", meta.namespace, meta.name), source }
        })
    }

    fn parse(pod: &Object, annotation: Option<&DemandAnnotation>) -> Result<PodTemplate, serde_json::Error> {
        let json: PodJson<'_> = pod.view()?;
        let meta = pod.meta();
        let text = |key: &str| json.metadata.get(key).and_then(|raw| serde_json::from_str(raw.get()).ok());
        let mut metadata = String::new();
        for (key, raw) in json.metadata.iter().filter(|(key, _)| !REGENERATED_FIELDS.contains(&&***key)) {
            push_field(&mut metadata, key, raw.get());
            metadata.push(',');
        }
        push_annotations(&mut metadata, json.metadata.get(ANNOTATIONS).map(|raw| raw.get()), annotation)?;
        let finalizers = json.metadata.get(FINALIZERS).map(|raw| raw.get()).filter(|raw| raw.contains('"'));
        let mut spec = String::new();
        for (key, raw) in json.spec.iter().filter(|(key, _)| ***key != *"nodeName") {
            if !spec.is_empty() {
                spec.push(',');
            }
            push_field(&mut spec, key, raw.get());
        }
        let containers: Option<Vec<ContainerJson>> = json
            .spec
            .get("containers")
            .map(|raw| serde_json::from_str(raw.get()))
            .transpose()?
            .unwrap_or_default();
        let grace = json.spec.get(GRACE_PERIOD_FIELD).and_then(|raw| raw.get().parse().ok());
        Ok(PodTemplate {
            namespace: (*meta.namespace).into(),
            name: (*meta.name).into(),
            generate_name: text("generateName").filter(|name: &String| !name.is_empty()).map(Into::into),
            metadata: metadata.into(),
            finalizers: finalizers.unwrap_or_default().into(),
            spec: spec.into(),
            containers: containers
                .into_iter()
                .flatten()
                .map(|it| (it.name.into(), it.image.into()))
                .collect(),
            grace_seconds: grace.unwrap_or(DEFAULT_GRACE_SECONDS).max(0),
        })
    }

    pub(crate) fn has_finalizers(&self) -> bool {
        !self.finalizers.is_empty()
    }

    /// The pod in this state.
    pub(crate) fn object(&self, now: &PodState<'_>) -> Object {
        let mut json = String::with_capacity(self.metadata.len() + self.spec.len() + 700);
        json.push_str(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"#);
        push_text_field(&mut json, "name", now.name);
        json.push(',');
        push_text_field(&mut json, "namespace", &self.namespace);
        json.push(',');
        if let Some(name) = &self.generate_name {
            push_text_field(&mut json, "generateName", name);
            json.push(',');
        }
        json.push_str(&self.metadata);
        if now.has_finalizers {
            push_formatted(&mut json, format_args!(r#""{FINALIZERS}":{},"#, self.finalizers));
        }
        push_text_field(&mut json, "uid", now.uid);
        json.push(',');
        push_text_field(&mut json, "creationTimestamp", &whole_second(now.created).to_string());
        if let Some((since, grace)) = now.deletion {
            json.push(',');
            push_text_field(&mut json, "deletionTimestamp", &deletion_timestamp(since, grace).to_string());
            push_formatted(&mut json, format_args!(r#","deletionGracePeriodSeconds":{grace}"#));
        }
        json.push_str(r#"},"spec":{"#);
        json.push_str(&self.spec);
        if let Some(node) = now.node {
            if !self.spec.is_empty() {
                json.push(',');
            }
            push_text_field(&mut json, "nodeName", node);
        }
        json.push_str(r#"},"status":{"#);
        self.push_status(&mut json, now);
        json.push_str("}}");
        Object::from_trusted(json)
    }

    fn push_status(&self, json: &mut String, now: &PodState<'_>) {
        push_text_field(json, "phase", now.phase());
        if now.withdrawn {
            json.push(',');
            push_text_field(json, "reason", WITHDRAWN_REASON);
        }
        if let Some(node) = now.nominated {
            json.push(',');
            push_text_field(json, "nominatedNodeName", node);
        }
        json.push_str(r#","conditions":["#);
        let mut conditions = 0;
        let mut condition =
            |json: &mut String, kind: &str, status: bool, at: Moment, why: Option<(&str, &str)>| {
                if conditions > 0 {
                    json.push(',');
                }
                conditions += 1;
                let word = if status { "True" } else { "False" };
                push_formatted(
                    json,
                    format_args!(
                        r#"{{"type":"{kind}","status":"{word}","lastTransitionTime":"{}""#,
                        whole_second(at)
                    ),
                );
                if let Some((reason, message)) = why {
                    json.push(',');
                    push_text_field(json, "reason", reason);
                    json.push(',');
                    push_text_field(json, "message", message);
                }
                json.push('}');
            };
        if let Some(bound) = now.bound_at {
            condition(json, "PodScheduled", true, bound, None);
        } else if let Some((message, since)) = now.unschedulable {
            condition(json, "PodScheduled", false, since, Some((UNSCHEDULABLE_REASON, message)));
        }
        if let Some(started) = now.started {
            condition(json, "Initialized", true, started, None);
            let (ready, since) = now.finished.map_or((true, started), |(at, _)| (false, at));
            condition(json, "Ready", ready, since, None);
            condition(json, "ContainersReady", ready, since, None);
        }
        if let Some((lost, at)) = now.disruption {
            condition(json, "DisruptionTarget", true, at, Some((lost.reason(), lost.message())));
        }
        json.push(']');
        if let Some(started) = now.started {
            let started = whole_second(started).to_string();
            json.push(',');
            push_text_field(json, "startTime", &started);
            json.push_str(r#","containerStatuses":["#);
            for (index, (name, image)) in self.containers.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                json.push('{');
                push_text_field(json, "name", name);
                json.push(',');
                push_text_field(json, "image", image);
                let running = now.finished.is_none();
                push_formatted(
                    json,
                    format_args!(r#","ready":{running},"started":{running},"restartCount":0,"state":"#),
                );
                match now.finished {
                    None => {
                        push_formatted(json, format_args!(r#"{{"running":{{"startedAt":"{started}"}}}}}}"#))
                    }
                    Some((at, fails)) => {
                        let (code, reason) = if fails { (1, "Error") } else { (0, "Completed") };
                        push_formatted(
                            json,
                            format_args!(
                                r#"{{"terminated":{{"exitCode":{code},"reason":"{reason}","startedAt":"{started}","finishedAt":"{}"}}}}}}"#,
                                whole_second(at)
                            ),
                        );
                    }
                }
            }
            json.push(']');
        }
    }
}

// === impl PodState ===

impl PodState<'_> {
    fn phase(&self) -> &'static str {
        match (self.finished, self.started) {
            (Some((_, true)), _) => "Failed",
            (Some((_, false)), _) => "Succeeded",
            (None, Some(_)) => "Running",
            (None, None) => "Pending",
        }
    }

    /// The part of the object that its owner does not set, for the autoscaler.
    pub(crate) fn status_update(&self) -> PodStatusUpdate {
        let scheduled = |status: &str, reason: &str, at| PodScheduledCondition {
            status: status.into(),
            reason: reason.into(),
            last_transition_time: Some(whole_second(at)),
        };
        let refused = || self.unschedulable.map(|(_, since)| scheduled("False", UNSCHEDULABLE_REASON, since));
        PodStatusUpdate {
            node_name: self.node.map(Into::into),
            nominated_node_name: self.nominated.map(Into::into),
            scheduled_condition: self.bound_at.map(|at| scheduled("True", "", at)).or_else(refused),
            phase: self.phase(),
            deletion_timestamp: self.deletion.map(|(since, grace)| deletion_timestamp(since, grace)),
            is_preempted: matches!(self.disruption, Some((EvictionCause::Preemption(_), _))),
        }
    }
}

/// A pod's deletion timestamp: the end of its grace period.
fn deletion_timestamp(since: Moment, grace: i64) -> Moment {
    whole_second(since.plus_nanos(grace.saturating_mul(1_000_000_000)))
}

/// Writes the annotations of a pod and of its demand, followed by a comma.
fn push_annotations(
    json: &mut String,
    own: Option<&str>,
    mark: Option<&DemandAnnotation>,
) -> Result<(), serde_json::Error> {
    let own: Option<BTreeMap<JsonStr<'_>, &RawValue>> = own.map(serde_json::from_str).transpose()?.flatten();
    let mut own = own.unwrap_or_default();
    own.remove(DemandAnnotation::KEY);
    if own.is_empty() && mark.is_none() {
        return Ok(());
    }
    push_formatted(json, format_args!(r#""{ANNOTATIONS}":{{"#));
    for (key, raw) in &own {
        push_field(json, key, raw.get());
        json.push(',');
    }
    match mark {
        Some(mark) => push_text_field(json, DemandAnnotation::KEY, &mark.to_string()),
        None => drop(json.pop()),
    }
    json.push_str("},");
    Ok(())
}

fn push_field(json: &mut String, key: &str, raw: &str) {
    push_quoted(json, key);
    json.push(':');
    json.push_str(raw);
}

/// Writes a field whose value is a string.
pub(crate) fn push_text_field(json: &mut String, key: &str, value: &str) {
    json.push('"');
    json.push_str(key);
    json.push_str("\":");
    push_quoted(json, value);
}

fn push_quoted(json: &mut String, value: &str) {
    if value.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        json.push('"');
        json.push_str(value);
        json.push('"');
    } else {
        json.push_str(&serde_json::Value::from(value).to_string());
    }
}

fn push_formatted(json: &mut String, words: std::fmt::Arguments<'_>) {
    json.write_fmt(words).expect("writing to a String cannot fail");
}
