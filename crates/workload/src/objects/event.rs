//! Event objects of the scheduler.

use std::sync::Arc;

use model::Moment;

use super::{ExtraMetadata, FieldManager, Meta, WriteJson, append, json_string, write_micros};

/// One Event of the scheduler.
pub(crate) struct EventObject {
    pub(crate) meta: Meta,
    pub(crate) action: &'static str,
    pub(crate) is_warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) regarding: EventRegarding,
    pub(crate) note: String,
    pub(crate) last_observed: Moment,
    pub(crate) count: u32,
}

/// The object that an Event regards.
#[derive(Clone)]
pub(crate) struct EventRegarding {
    pub(crate) kind: Arc<str>,
    pub(crate) api_version: &'static str,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) version: u64,
    /// The container, if it regards one.
    pub(crate) container: Option<String>,
}

const FIELDS: &str = r#"{"f:action":{},"f:eventTime":{},"f:note":{},"f:reason":{},"f:regarding":{},"f:reportingController":{},"f:reportingInstance":{},"f:type":{}}"#;

// === impl EventRegarding ===

impl EventRegarding {
    fn write(&self, out: &mut String) {
        let EventRegarding { kind, api_version, namespace, name, uid, version, container } = self;
        append(out, format_args!(r#","regarding":{{"kind":"{kind}""#));
        if !namespace.is_empty() {
            append(out, format_args!(r#","namespace":"{namespace}""#));
        }
        append(out, format_args!(r#","name":"{name}","uid":"{uid}","apiVersion":"{api_version}""#));
        // Events about nodes have no resourceVersion.
        if !namespace.is_empty() {
            append(out, format_args!(r#","resourceVersion":"{version}""#));
        }
        if let Some(container) = container {
            append(out, format_args!(r#","fieldPath":"spec.containers{{{container}}}""#));
        }
        out.push('}');
    }
}

// === impl EventObject ===

impl EventObject {
    fn managed_fields(&self) -> String {
        FieldManager::list(&[FieldManager {
            name: "kube-scheduler",
            api_version: "events.k8s.io/v1",
            at: self.last_observed,
            fields: FIELDS,
            is_status: false,
        }])
    }
}

impl WriteJson for EventObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","#);
        let managed = if self.meta.managed_fields { self.managed_fields() } else { String::new() };
        self.meta.write(out, &ExtraMetadata { managed_fields: &managed, ..ExtraMetadata::default() });
        out.push_str(r#","eventTime":"#);
        write_micros(out, self.meta.created);
        if self.count > 1 {
            append(out, format_args!(r#","series":{{"count":{},"lastObservedTime":"#, self.count));
            write_micros(out, self.last_observed);
            out.push('}');
        }
        append(
            out,
            format_args!(
                r#","reportingController":"default-scheduler","reportingInstance":"default-scheduler-control-1","action":"{}""#,
                self.action
            ),
        );
        append(out, format_args!(r#","reason":"{}""#, self.reason));
        self.regarding.write(out);
        let kind = if self.is_warning { "Warning" } else { "Normal" };
        append(
            out,
            format_args!(r#","note":{},"type":"{kind}","deprecatedSource":{{}}"#, json_string(&self.note)),
        );
        out.push_str(r#","deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}"#);
    }
}
