//! The text of a pod: what its owner asked for, and around it what becomes of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use autoscaler::{PodStatusUpdate, Scheduled};
use kubernetes::read::nullable;
use kubernetes::time::whole_second;
use model::{Moment, Object, Text};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::eviction::LostTo;
use crate::ids::DemandMark;

/// What a pod's owner asked for, as the parts of its text that never change.
#[derive(Clone, Debug)]
pub(crate) struct PodTemplate {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    /// What new names begin with; `None` if the name stays.
    pub(crate) generate_name: Option<Arc<str>>,
    /// Fields of the metadata that stay, each followed by a comma.
    metadata: Box<str>,
    /// Who has to let it go before it is gone, as a Job that counts its pods: a list; empty if nobody.
    finalizers: Box<str>,
    /// Fields of the spec, each after a comma but the first.
    spec: Box<str>,
    /// Each container's name and image.
    containers: Vec<(Box<str>, Box<str>)>,
    pub(crate) grace_seconds: i64,
}

/// A pod that cannot be asked for.
#[derive(Debug, thiserror::Error)]
#[error("{pod} cannot be understood: {source}")]
pub struct BadGiven {
    /// Its name.
    pub pod: String,
    /// Why.
    pub source: serde_json::Error,
}

/// What has become of a pod.
pub(crate) struct PodState<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) came: Moment,
    pub(crate) node: Option<&'a str>,
    pub(crate) nominated: Option<&'a str>,
    /// When it was bound.
    pub(crate) bound: Option<Moment>,
    /// What the scheduler last said, and since when it says no.
    pub(crate) refused: Option<(&'a str, Moment)>,
    pub(crate) started: Option<Moment>,
    /// When its containers ended, and whether they failed.
    pub(crate) ended: Option<(Moment, bool)>,
    /// When its deletion began, and how many seconds it gets.
    pub(crate) leaving: Option<(Moment, i64)>,
    /// It is not wanted any more.
    pub(crate) withdrawn: bool,
    pub(crate) lost: Option<(&'a LostTo, Moment)>,
    /// Those who have to take note of it have not.
    pub(crate) is_tracked: bool,
}

#[derive(Deserialize)]
struct PodJson<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    metadata: BTreeMap<Text<'a>, &'a RawValue>,
    #[serde(borrow, default, deserialize_with = "nullable")]
    spec: BTreeMap<Text<'a>, &'a RawValue>,
}

#[derive(Deserialize)]
struct ContainerJson {
    #[serde(default)]
    name: String,
    #[serde(default)]
    image: String,
}

/// What the API server and others write, anew for every pod.
const WRITTEN: [&str; 13] = [
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
/// Why a pod is deleted that is not wanted any more. Kubernetes does not say so of its pods; here it is known.
pub const WITHDRAWN: &str = "Withdrawn";
/// Why a pod that no node takes is not scheduled.
const UNSCHEDULABLE: &str = "Unschedulable";
const GRACE: &str = "terminationGracePeriodSeconds";
const USUAL_GRACE: i64 = 30;

impl PodTemplate {
    /// Takes a pod apart, and marks it as one of a demand. What cannot be understood says why.
    pub(crate) fn of(pod: &Object, mark: Option<&DemandMark>) -> Result<PodTemplate, BadGiven> {
        PodTemplate::take_apart(pod, mark).map_err(|source| {
            let meta = pod.meta();
            BadGiven { pod: format!("pod {}/{}", meta.namespace, meta.name), source }
        })
    }

    fn take_apart(pod: &Object, mark: Option<&DemandMark>) -> Result<PodTemplate, serde_json::Error> {
        let json: PodJson<'_> = pod.view()?;
        let meta = pod.meta();
        let text = |key: &str| json.metadata.get(key).and_then(|raw| serde_json::from_str(raw.get()).ok());
        let mut metadata = String::new();
        for (key, raw) in json.metadata.iter().filter(|(key, _)| !WRITTEN.contains(&&***key)) {
            field(&mut metadata, key, raw.get());
            metadata.push(',');
        }
        annotations(&mut metadata, json.metadata.get(ANNOTATIONS).map(|raw| raw.get()), mark)?;
        let finalizers = json.metadata.get(FINALIZERS).map(|raw| raw.get()).filter(|raw| raw.contains('"'));
        let mut spec = String::new();
        for (key, raw) in json.spec.iter().filter(|(key, _)| ***key != *"nodeName") {
            if !spec.is_empty() {
                spec.push(',');
            }
            field(&mut spec, key, raw.get());
        }
        let containers: Option<Vec<ContainerJson>> = json
            .spec
            .get("containers")
            .map(|raw| serde_json::from_str(raw.get()))
            .transpose()?
            .unwrap_or_default();
        let grace = json.spec.get(GRACE).and_then(|raw| raw.get().parse().ok());
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
            grace_seconds: grace.unwrap_or(USUAL_GRACE).max(0),
        })
    }

    pub(crate) fn has_finalizers(&self) -> bool {
        !self.finalizers.is_empty()
    }

    /// The pod as it is now.
    pub(crate) fn object(&self, now: &PodState<'_>) -> Object {
        let mut json = String::with_capacity(self.metadata.len() + self.spec.len() + 700);
        json.push_str(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"#);
        text(&mut json, "name", now.name);
        json.push(',');
        text(&mut json, "namespace", &self.namespace);
        json.push(',');
        if let Some(name) = &self.generate_name {
            text(&mut json, "generateName", name);
            json.push(',');
        }
        json.push_str(&self.metadata);
        if now.is_tracked {
            put(&mut json, format_args!(r#""{FINALIZERS}":{},"#, self.finalizers));
        }
        text(&mut json, "uid", now.uid);
        json.push(',');
        text(&mut json, "creationTimestamp", &whole_second(now.came).to_string());
        if let Some((since, grace)) = now.leaving {
            json.push(',');
            text(&mut json, "deletionTimestamp", &deletion(since, grace).to_string());
            put(&mut json, format_args!(r#","deletionGracePeriodSeconds":{grace}"#));
        }
        json.push_str(r#"},"spec":{"#);
        json.push_str(&self.spec);
        if let Some(node) = now.node {
            if !self.spec.is_empty() {
                json.push(',');
            }
            text(&mut json, "nodeName", node);
        }
        json.push_str(r#"},"status":{"#);
        self.status(&mut json, now);
        json.push_str("}}");
        Object::trusted(json)
    }

    fn status(&self, json: &mut String, now: &PodState<'_>) {
        text(json, "phase", now.phase());
        if now.withdrawn {
            json.push(',');
            text(json, "reason", WITHDRAWN);
        }
        if let Some(node) = now.nominated {
            json.push(',');
            text(json, "nominatedNodeName", node);
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
                put(
                    json,
                    format_args!(
                        r#"{{"type":"{kind}","status":"{word}","lastTransitionTime":"{}""#,
                        whole_second(at)
                    ),
                );
                if let Some((reason, message)) = why {
                    json.push(',');
                    text(json, "reason", reason);
                    json.push(',');
                    text(json, "message", message);
                }
                json.push('}');
            };
        if let Some(bound) = now.bound {
            condition(json, "PodScheduled", true, bound, None);
        } else if let Some((message, since)) = now.refused {
            condition(json, "PodScheduled", false, since, Some((UNSCHEDULABLE, message)));
        }
        if let Some(started) = now.started {
            condition(json, "Initialized", true, started, None);
            let (ready, since) = now.ended.map_or((true, started), |(at, _)| (false, at));
            condition(json, "Ready", ready, since, None);
            condition(json, "ContainersReady", ready, since, None);
        }
        if let Some((lost, at)) = now.lost {
            condition(json, "DisruptionTarget", true, at, Some((lost.reason(), lost.message())));
        }
        json.push(']');
        if let Some(started) = now.started {
            let started = whole_second(started).to_string();
            json.push(',');
            text(json, "startTime", &started);
            json.push_str(r#","containerStatuses":["#);
            for (index, (name, image)) in self.containers.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                json.push('{');
                text(json, "name", name);
                json.push(',');
                text(json, "image", image);
                let running = now.ended.is_none();
                put(
                    json,
                    format_args!(r#","ready":{running},"started":{running},"restartCount":0,"state":"#),
                );
                match now.ended {
                    None => put(json, format_args!(r#"{{"running":{{"startedAt":"{started}"}}}}}}"#)),
                    Some((at, fails)) => {
                        let (code, reason) = if fails { (1, "Error") } else { (0, "Completed") };
                        put(
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
        match (self.ended, self.started) {
            (Some((_, true)), _) => "Failed",
            (Some((_, false)), _) => "Succeeded",
            (None, Some(_)) => "Running",
            (None, None) => "Pending",
        }
    }

    /// The same as the text says, to whoever knows what the pod's owner asked for.
    pub(crate) fn fate(&self) -> PodStatusUpdate {
        let scheduled = |status: &str, reason: &str, at| Scheduled {
            status: status.into(),
            reason: reason.into(),
            changed: Some(whole_second(at)),
        };
        let refused = || self.refused.map(|(_, since)| scheduled("False", UNSCHEDULABLE, since));
        PodStatusUpdate {
            node: self.node.map(Into::into),
            nominated: self.nominated.map(Into::into),
            scheduled: self.bound.map(|at| scheduled("True", "", at)).or_else(refused),
            phase: self.phase(),
            deleted: self.leaving.map(|(since, grace)| deletion(since, grace)),
            preempted: matches!(self.lost, Some((LostTo::Preemption(_), _))),
        }
    }
}

/// By when a pod is to be gone.
fn deletion(since: Moment, grace: i64) -> Moment {
    whole_second(since.plus_nanos(grace.saturating_mul(1_000_000_000)))
}

/// The annotations of a pod, with the mark of its demand, followed by a comma.
fn annotations(
    json: &mut String,
    own: Option<&str>,
    mark: Option<&DemandMark>,
) -> Result<(), serde_json::Error> {
    let own: Option<BTreeMap<Text<'_>, &RawValue>> = own.map(serde_json::from_str).transpose()?.flatten();
    let mut own = own.unwrap_or_default();
    own.remove(DemandMark::KEY);
    if own.is_empty() && mark.is_none() {
        return Ok(());
    }
    put(json, format_args!(r#""{ANNOTATIONS}":{{"#));
    for (key, raw) in &own {
        field(json, key, raw.get());
        json.push(',');
    }
    match mark {
        Some(mark) => text(json, DemandMark::KEY, &mark.to_string()),
        None => drop(json.pop()),
    }
    json.push_str("},");
    Ok(())
}

fn field(json: &mut String, key: &str, raw: &str) {
    quoted(json, key);
    json.push(':');
    json.push_str(raw);
}

/// A field whose value is a text.
pub(crate) fn text(json: &mut String, key: &str, value: &str) {
    json.push('"');
    json.push_str(key);
    json.push_str("\":");
    quoted(json, value);
}

fn quoted(json: &mut String, value: &str) {
    if value.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        json.push('"');
        json.push_str(value);
        json.push('"');
    } else {
        json.push_str(&serde_json::Value::from(value).to_string());
    }
}

fn put(json: &mut String, words: std::fmt::Arguments<'_>) {
    json.write_fmt(words).expect("a text takes any words");
}
