//! What of an object may leave this crate: nothing of config maps but what tells of autoscalers, and of events only
//! those of schedulers and autoscalers.

use std::borrow::Cow;
use std::fmt;

use model::{Kind, Object};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// What may be told of objects of a kind.
pub(crate) fn keep(kind: &Kind) -> fn(Object) -> Option<Object> {
    match (&*kind.group, &*kind.kind) {
        ("", "ConfigMap") => config_map,
        ("events.k8s.io" | "", "Event") => event,
        _ => Some,
    }
}

/// Config maps in which cluster-autoscaler reports, is told its priorities, and has its nodes described for KWOK.
fn is_of_autoscalers(name: &str) -> bool {
    matches!(name, "cluster-autoscaler-status" | "cluster-autoscaler-priority-expander")
        || name.starts_with("kwok-provider-")
}

fn config_map(object: Object) -> Option<Object> {
    if is_of_autoscalers(&object.meta().name) {
        return Some(object);
    }
    let members: Members<'_> = object.view().ok()?;
    let mut text = String::with_capacity(object.as_str().len());
    for (name, value) in &members.0 {
        if !matches!(&**name, "data" | "binaryData") {
            let name = serde_json::to_string(name).expect("a text is JSON");
            text.push_str(if text.is_empty() { "{" } else { "," });
            text.push_str(&format!("{name}:{value}"));
        }
    }
    text.push('}');
    Some(Object::trusted(text))
}

fn event(object: Object) -> Option<Object> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Source<'a> {
        #[serde(borrow)]
        component: Cow<'a, str>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Reporters<'a> {
        #[serde(borrow, default)]
        reporting_controller: Cow<'a, str>,
        /// What the core group calls it.
        #[serde(borrow, default)]
        reporting_component: Cow<'a, str>,
        #[serde(borrow, default)]
        deprecated_source: Source<'a>,
        #[serde(borrow, default)]
        source: Source<'a>,
    }
    let reporters: Reporters<'_> = object.view().ok()?;
    let decides = [
        &reporters.reporting_controller,
        &reporters.reporting_component,
        &reporters.deprecated_source.component,
        &reporters.source.component,
    ]
    .into_iter()
    .any(|reporter| decides(reporter));
    decides.then_some(object)
}

/// Whether a component of that name schedules or scales. KAI's binder and pod grouper are parts of its scheduler.
fn decides(component: &str) -> bool {
    const PARTS: [&str; 3] = ["scheduler", "cluster-autoscaler", "karpenter"];
    const KAI: [&str; 2] = ["binder", "pod-grouper"];
    PARTS.iter().any(|part| component.contains(part)) || KAI.contains(&component)
}

/// The members of a map as they are written, in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a Kubernetes object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = fields.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Option<&str>) {
        let object = Object::parse(json).unwrap();
        let kind = object.key(&"s".into()).kind;
        assert_eq!(keep(&kind)(object).as_ref().map(Object::as_str), expected);
    }

    #[test]
    fn only_autoscalers_config_maps_keep_their_data() {
        let with = |name: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","x":"\u00e9"}},"data":{{"a":"{{}}"}},"binaryData":{{"b":"eA=="}},"immutable":true}}"#
            )
        };
        let cut = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","x":"\u00e9"},"immutable":true}"#;
        check(&with("web"), Some(cut));
        for name in
            ["cluster-autoscaler-status", "cluster-autoscaler-priority-expander", "kwok-provider-templates"]
        {
            check(&with(name), Some(&with(name)));
        }
    }

    #[test]
    fn only_those_who_schedule_and_scale_are_heard() {
        let said = |by: &str| {
            format!(
                r#"{{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{{"name":"e","namespace":"d"}},{by}}}"#
            )
        };
        for by in [
            r#""reportingController":"default-scheduler""#,
            r#""reportingController":"karpenter""#,
            r#""reportingController":"","deprecatedSource":{"component":"cluster-autoscaler"}"#,
            r#""reportingController":"kai-scheduler""#,
            r#""reportingController":"binder""#,
        ] {
            check(&said(by), Some(&said(by)));
        }
        for by in [
            r#""reportingController":"kubelet""#,
            r#""deprecatedSource":{"component":"job-controller"}"#,
            r#""note":"scheduler""#,
        ] {
            check(&said(by), None);
        }
        let core = r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"d"},"source":{"component":"my-scheduler"}}"#;
        check(core, Some(core));
        // The words of one kind are another kind's own business.
        let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"e"},"data":{}}"#;
        check(pod, Some(pod));
    }
}
