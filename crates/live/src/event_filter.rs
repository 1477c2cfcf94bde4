//! Selection of the Events that are recorded, by reporting component.

use std::borrow::Cow;

use kubernetes::recording::{SCHEDULING_REPORTER_PARTS, SCHEDULING_REPORTERS};
use model::{Kind, Object};
use serde::Deserialize;

/// Which Events are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventChoice {
    /// Events of every reporting component.
    #[default]
    All,
    /// Events of schedulers and autoscalers.
    Scheduling,
    /// No Events.
    None,
}

/// A predicate for the objects of a kind that are recorded. Which of their fields are recorded is decided by
/// [`kubernetes::change_filter`].
pub(crate) fn event_filter(kind: &Kind, events: EventChoice) -> fn(&Object) -> bool {
    match events {
        EventChoice::Scheduling if is_event(kind) => is_from_scheduler,
        EventChoice::None if is_event(kind) => |_| false,
        EventChoice::All | EventChoice::Scheduling | EventChoice::None => |_| true,
    }
}

/// Whether a kind is Event, of either API group.
pub(crate) fn is_event(kind: &Kind) -> bool {
    *kind.kind == *"Event" && matches!(&*kind.group, "" | "events.k8s.io")
}

fn is_from_scheduler(event: &Object) -> bool {
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
        /// The field's name in the core group.
        #[serde(borrow, default)]
        reporting_component: Cow<'a, str>,
        #[serde(borrow, default)]
        deprecated_source: Source<'a>,
        #[serde(borrow, default)]
        source: Source<'a>,
    }
    let Ok(reporters) = event.view::<Reporters<'_>>() else { return false };
    [
        &reporters.reporting_controller,
        &reporters.reporting_component,
        &reporters.deprecated_source.component,
        &reporters.source.component,
    ]
    .into_iter()
    .any(|reporter| is_scheduling_component(reporter))
}

/// Whether a component of that name is a scheduler or an autoscaler.
fn is_scheduling_component(component: &str) -> bool {
    SCHEDULING_REPORTER_PARTS.iter().any(|part| component.contains(part))
        || SCHEDULING_REPORTERS.contains(&component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: bool) {
        check_with(EventChoice::Scheduling, json, expected);
    }

    #[track_caller]
    fn check_with(events: EventChoice, json: &str, expected: bool) {
        let object = Object::parse(json).unwrap();
        let kind = object.key(&"s".into()).kind;
        assert_eq!(event_filter(&kind, events)(&object), expected, "{json}");
    }

    #[test]
    fn with_the_scheduling_choice_only_events_of_schedulers_and_autoscalers_pass() {
        let event = |by: &str| {
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
            check(&event(by), true);
        }
        for by in [
            r#""reportingController":"kubelet""#,
            r#""deprecatedSource":{"component":"job-controller"}"#,
            r#""note":"scheduler""#,
        ] {
            check(&event(by), false);
            check_with(EventChoice::All, &event(by), true);
            check_with(EventChoice::None, &event(by), false);
        }
        let core = r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"d"},"source":{"component":"my-scheduler"}}"#;
        check(core, true);
        // The filter does not apply to other kinds.
        let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"e"},"data":{}}"#;
        check(pod, true);
    }
}
