//! Pod objects: the fields of a pod that its owner sets, and views and objects of it in its current state.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use kubernetes::objects::{
    ConditionStatus, ContainerStatus, Phase, PodCondition, PodConditionType, PodStatus, PodView,
};
use kubernetes::read::nullable;
use kubernetes::time::whole_second;
use model::{JsonStr, Moment, NamespacedName, Object};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::eviction::EvictionCause;
use crate::ids::DemandAnnotation;

/// The parts of a pod that its owner sets and that do not change.
#[derive(Clone, Debug)]
pub(crate) struct PodTemplate {
    /// The pod as its owner created it, with the annotation of its demand.
    pub(crate) view: Arc<PodView>,
    /// The prefix of generated names; `None` if the name is fixed.
    pub(crate) generate_name: Option<Arc<str>>,
    pub(crate) grace_seconds: i64,
    object: Object,
    annotation: Option<DemandAnnotation>,
    /// Made when the first object is written: only histories and other listeners that want bytes need it.
    json: OnceLock<TemplateJson>,
}

/// The JSON of a template, in parts.
#[derive(Clone, Debug)]
struct TemplateJson {
    /// Fields of the metadata that do not change, each followed by a comma.
    metadata: Box<str>,
    /// Its finalizers as a JSON list, such as a Job's; empty if there are none.
    finalizers: Box<str>,
    /// Fields of the spec, separated by commas.
    spec: Box<str>,
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
    pub(crate) name: &'a NamespacedName,
    pub(crate) uid: &'a Arc<str>,
    pub(crate) created: Moment,
    pub(crate) node: Option<&'a Arc<str>>,
    pub(crate) nominated: Option<&'a Arc<str>>,
    /// When it was bound.
    pub(crate) bound_at: Option<Moment>,
    /// The scheduler's last message, and since when the pod is unschedulable.
    pub(crate) unschedulable: Option<(&'a Arc<str>, Moment)>,
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
const DEFAULT_GRACE_SECONDS: i64 = 30;

impl PodTemplate {
    /// Parses a pod, and adds the annotation of its demand.
    pub(crate) fn of(pod: &Object, annotation: Option<DemandAnnotation>) -> Result<PodTemplate, InvalidPod> {
        PodTemplate::new(Arc::new(PodView::parse(pod)), pod, annotation)
    }

    /// The template of a pod that is parsed already.
    pub(crate) fn new(
        view: Arc<PodView>,
        pod: &Object,
        annotation: Option<DemandAnnotation>,
    ) -> Result<PodTemplate, InvalidPod> {
        let mut view = Arc::unwrap_or_clone(view);
        let grace = view.spec.termination_grace_period_seconds;
        let mut template = PodTemplate {
            generate_name: view.generate_name.clone(),
            grace_seconds: grace.unwrap_or(DEFAULT_GRACE_SECONDS).max(0),
            object: pod.clone(),
            annotation,
            json: OnceLock::new(),
            view: Arc::default(),
        };
        if view.read_error.is_some() {
            // A pod whose JSON can be written is scheduled, or not, like any other.
            let json = template.parse_json().map_err(|source| InvalidPod {
                pod: format!("pod {}/{}", view.name.namespace, view.name.name),
                source,
            })?;
            template.json = json.into();
        }
        let own = annotation.map(|own| (DemandAnnotation::KEY.into(), own.to_string().into()));
        if own.is_some() || view.annotations.get(DemandAnnotation::KEY).is_some() {
            let others = view.annotations.iter().filter(|(key, _)| ***key != *DemandAnnotation::KEY);
            let others = others.map(|(key, value)| (key.clone(), value.clone()));
            view.annotations = others.chain(own).collect();
        }
        template.view = Arc::new(view);
        Ok(template)
    }

    fn json(&self) -> &TemplateJson {
        self.json.get_or_init(|| self.parse_json().expect("the JSON of a readable pod can be taken apart"))
    }

    fn parse_json(&self) -> Result<TemplateJson, serde_json::Error> {
        let json: PodJson<'_> = self.object.view()?;
        let mut metadata = String::new();
        for (key, raw) in json.metadata.iter().filter(|(key, _)| !REGENERATED_FIELDS.contains(&&***key)) {
            push_field(&mut metadata, key, raw.get());
            metadata.push(',');
        }
        let own_annotations = json.metadata.get(ANNOTATIONS).map(|raw| raw.get());
        push_annotations(&mut metadata, own_annotations, self.annotation.as_ref())?;
        let finalizers = json.metadata.get(FINALIZERS).map(|raw| raw.get()).filter(|raw| raw.contains('"'));
        let mut spec = String::new();
        for (key, raw) in json.spec.iter().filter(|(key, _)| ***key != *"nodeName") {
            if !spec.is_empty() {
                spec.push(',');
            }
            push_field(&mut spec, key, raw.get());
        }
        Ok(TemplateJson {
            metadata: metadata.into(),
            finalizers: finalizers.unwrap_or_default().into(),
            spec: spec.into(),
        })
    }

    pub(crate) fn has_finalizers(&self) -> bool {
        !self.view.finalizers.is_empty()
    }

    /// The view of the pod in this state.
    pub(crate) fn view(&self, now: &PodState<'_>) -> PodView {
        PodView {
            name: now.name.clone(),
            uid: now.uid.clone(),
            generate_name: self.generate_name.clone(),
            creation_timestamp: Some(whole_second(now.created)),
            deletion_timestamp: now.deletion.map(|(since, grace)| deletion_timestamp(since, grace)),
            deletion_grace_period_seconds: now.deletion.map(|(_, grace)| grace),
            labels: self.view.labels.clone(),
            annotations: self.view.annotations.clone(),
            owner_references: self.view.owner_references.clone(),
            finalizers: if now.has_finalizers { self.view.finalizers.clone() } else { Arc::default() },
            spec: self.view.spec.clone(),
            node_name: now.node.cloned(),
            status: PodStatus {
                phase: now.phase(),
                reason: if now.withdrawn { WITHDRAWN_REASON.into() } else { Cow::default() },
                nominated_node_name: now.nominated.cloned(),
                start_time: now.started.map(whole_second),
                conditions: now.conditions(),
                container_statuses: self.container_statuses(now),
                ..PodStatus::default()
            },
            read_error: self.view.read_error.clone(),
        }
    }

    fn container_statuses(&self, now: &PodState<'_>) -> Arc<[ContainerStatus]> {
        if now.started.is_none() {
            return Arc::default();
        }
        let finished_at = now.finished.map(|(at, _)| whole_second(at));
        let status = |name: &Arc<str>| ContainerStatus {
            name: name.clone(),
            finished_at,
            ..ContainerStatus::default()
        };
        self.view.spec.containers.iter().map(|container| status(&container.name)).collect()
    }

    /// The pod in this state.
    pub(crate) fn object(&self, now: &PodState<'_>) -> Object {
        let TemplateJson { metadata, finalizers, spec } = self.json();
        let mut json = String::with_capacity(metadata.len() + spec.len() + 700);
        json.push_str(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"#);
        push_text_field(&mut json, "name", &now.name.name);
        json.push(',');
        push_text_field(&mut json, "namespace", &now.name.namespace);
        json.push(',');
        if let Some(name) = &self.generate_name {
            push_text_field(&mut json, "generateName", name);
            json.push(',');
        }
        json.push_str(metadata);
        if now.has_finalizers {
            push_formatted(&mut json, format_args!(r#""{FINALIZERS}":{finalizers},"#));
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
        json.push_str(spec);
        if let Some(node) = now.node {
            if !spec.is_empty() {
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
        push_text_field(json, "phase", now.phase().name());
        if now.withdrawn {
            json.push(',');
            push_text_field(json, "reason", WITHDRAWN_REASON);
        }
        if let Some(node) = now.nominated {
            json.push(',');
            push_text_field(json, "nominatedNodeName", node);
        }
        json.push_str(r#","conditions":["#);
        for (index, condition) in now.conditions().iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            push_condition(json, condition);
        }
        json.push(']');
        if let Some(started) = now.started {
            let started = whole_second(started).to_string();
            json.push(',');
            push_text_field(json, "startTime", &started);
            json.push_str(r#","containerStatuses":["#);
            for (index, container) in self.view.spec.containers.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                json.push('{');
                push_text_field(json, "name", &container.name);
                json.push(',');
                push_text_field(json, "image", &container.image);
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
    fn phase(&self) -> Phase {
        match (self.finished, self.started) {
            (Some((_, true)), _) => Phase::Failed,
            (Some((_, false)), _) => Phase::Succeeded,
            (None, Some(_)) => Phase::Running,
            (None, None) => Phase::Pending,
        }
    }

    fn conditions(&self) -> Vec<PodCondition> {
        let condition = |kind, holds: bool, at| PodCondition {
            kind,
            status: if holds { ConditionStatus::True } else { ConditionStatus::False },
            last_transition_time: Some(whole_second(at)),
            ..PodCondition::default()
        };
        let mut conditions = Vec::new();
        if let Some(bound) = self.bound_at {
            conditions.push(condition(PodConditionType::PodScheduled, true, bound));
        } else if let Some((message, since)) = self.unschedulable {
            conditions.push(PodCondition {
                reason: UNSCHEDULABLE_REASON.into(),
                message: Some(message.clone()),
                ..condition(PodConditionType::PodScheduled, false, since)
            });
        }
        if let Some(started) = self.started {
            let (ready, since) = self.finished.map_or((true, started), |(at, _)| (false, at));
            conditions.push(condition(PodConditionType::Initialized, true, started));
            conditions.push(condition(PodConditionType::Ready, ready, since));
            conditions.push(condition(PodConditionType::ContainersReady, ready, since));
        }
        if let Some((cause, at)) = self.disruption {
            conditions.push(PodCondition {
                reason: cause.reason().into(),
                message: Some(cause.message().into()),
                ..condition(PodConditionType::DisruptionTarget, true, at)
            });
        }
        conditions
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

fn push_condition(json: &mut String, condition: &PodCondition) {
    let (kind, status) = (condition.kind.name(), condition.status.name());
    push_formatted(json, format_args!(r#"{{"type":"{kind}","status":"{status}""#));
    if let Some(at) = condition.last_transition_time {
        push_formatted(json, format_args!(r#","lastTransitionTime":"{at}""#));
    }
    if !condition.reason.is_empty() {
        json.push(',');
        push_text_field(json, "reason", &condition.reason);
    }
    if let Some(message) = &condition.message {
        json.push(',');
        push_text_field(json, "message", message);
    }
    json.push('}');
}

fn push_formatted(json: &mut String, words: std::fmt::Arguments<'_>) {
    json.write_fmt(words).expect("writing to a String cannot fail");
}
