//! Event objects of the scheduler.

use std::sync::Arc;

use model::Moment;

use super::{Extra, Manager, Meta, Printed, microsecond, put, quoted};

/// One Event of the scheduler.
pub(crate) struct Event {
    pub(crate) meta: Meta,
    pub(crate) action: &'static str,
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) regarding: Regarding,
    pub(crate) note: String,
    pub(crate) last: Moment,
    pub(crate) count: u32,
}

/// The object that an Event regards.
#[derive(Clone)]
pub(crate) struct Regarding {
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

// === impl Regarding ===

impl Regarding {
    fn write(&self, out: &mut String) {
        let Regarding { kind, api_version, namespace, name, uid, version, container } = self;
        put(out, format_args!(r#","regarding":{{"kind":"{kind}""#));
        if !namespace.is_empty() {
            put(out, format_args!(r#","namespace":"{namespace}""#));
        }
        put(out, format_args!(r#","name":"{name}","uid":"{uid}","apiVersion":"{api_version}""#));
        // Events about nodes have no resourceVersion.
        if !namespace.is_empty() {
            put(out, format_args!(r#","resourceVersion":"{version}""#));
        }
        if let Some(container) = container {
            put(out, format_args!(r#","fieldPath":"spec.containers{{{container}}}""#));
        }
        out.push('}');
    }
}

// === impl Event ===

impl Event {
    fn managed_fields(&self) -> String {
        Manager::list(&[Manager {
            name: "kube-scheduler",
            api_version: "events.k8s.io/v1",
            at: self.last,
            fields: FIELDS,
            of_status: false,
        }])
    }
}

impl Printed for Event {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","#);
        let managed = if self.meta.managed { self.managed_fields() } else { String::new() };
        self.meta.write(out, &Extra { managed: &managed, ..Extra::default() });
        out.push_str(r#","eventTime":"#);
        microsecond(out, self.meta.created);
        if self.count > 1 {
            put(out, format_args!(r#","series":{{"count":{},"lastObservedTime":"#, self.count));
            microsecond(out, self.last);
            out.push('}');
        }
        put(
            out,
            format_args!(
                r#","reportingController":"default-scheduler","reportingInstance":"default-scheduler-control-1","action":"{}""#,
                self.action
            ),
        );
        put(out, format_args!(r#","reason":"{}""#, self.reason));
        self.regarding.write(out);
        let kind = if self.warning { "Warning" } else { "Normal" };
        put(out, format_args!(r#","note":{},"type":"{kind}","deprecatedSource":{{}}"#, quoted(&self.note)));
        out.push_str(r#","deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}"#);
    }
}
