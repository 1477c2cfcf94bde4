//! Events: what components say about objects.

use std::sync::Arc;

use model::Moment;

use super::{Extra, Manager, Meta, Printed, microsecond, put, quoted, second};

/// One Event, of either recorder: the scheduler's new one, or the old one that everything else still uses.
pub(crate) struct Event {
    pub(crate) meta: Meta,
    pub(crate) by: Reporter,
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) regarding: Regarding,
    pub(crate) note: String,
    pub(crate) last: Moment,
    pub(crate) count: u32,
}

/// Who says it.
#[derive(Clone)]
pub(crate) enum Reporter {
    Scheduler { action: &'static str },
    Controller(&'static str),
    Kubelet { node: Arc<str> },
}

/// What it is about.
#[derive(Clone)]
pub(crate) struct Regarding {
    pub(crate) kind: Arc<str>,
    pub(crate) api_version: &'static str,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) version: u64,
    /// The container it is about.
    pub(crate) container: Option<String>,
}

const NEW_FIELDS: &str = r#"{"f:action":{},"f:eventTime":{},"f:note":{},"f:reason":{},"f:regarding":{},"f:reportingController":{},"f:reportingInstance":{},"f:type":{}}"#;
const OLD_FIELDS: &str = r#"{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"f:reason":{},"f:reportingComponent":{},"f:source":{"f:component":{}},"f:type":{}}"#;
const KUBELET_FIELDS: &str = r#"{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"f:reason":{},"f:reportingComponent":{},"f:reportingInstance":{},"f:source":{"f:component":{},"f:host":{}},"f:type":{}}"#;

// === impl Regarding ===

impl Regarding {
    pub(crate) fn of(meta: &Meta, api_version: &'static str) -> Regarding {
        Regarding {
            kind: meta.key.kind.kind.clone(),
            api_version,
            namespace: meta.key.namespace.clone(),
            name: meta.key.name.clone(),
            uid: meta.uid.clone(),
            version: meta.version,
            container: None,
        }
    }

    fn write(&self, out: &mut String) {
        let Regarding { kind, api_version, namespace, name, uid, version, container } = self;
        put(out, format_args!(r#","regarding":{{"kind":"{kind}""#));
        if !namespace.is_empty() {
            put(out, format_args!(r#","namespace":"{namespace}""#));
        }
        put(out, format_args!(r#","name":"{name}","uid":"{uid}","apiVersion":"{api_version}""#));
        // A node's kubelet and its controllers know no version of it.
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
        let (name, api_version, fields) = match &self.by {
            Reporter::Scheduler { .. } => ("kube-scheduler", "events.k8s.io/v1", NEW_FIELDS),
            Reporter::Controller("cluster-autoscaler") => ("cluster-autoscaler", "v1", OLD_FIELDS),
            Reporter::Controller(_) => ("kube-controller-manager", "v1", OLD_FIELDS),
            Reporter::Kubelet { .. } => ("kubelet", "v1", KUBELET_FIELDS),
        };
        Manager::list(&[Manager { name, api_version, at: self.last, fields, of_status: false }])
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
        let created = self.meta.created;
        match &self.by {
            Reporter::Scheduler { action } => {
                out.push_str(r#","eventTime":"#);
                microsecond(out, created);
                if self.count > 1 {
                    put(out, format_args!(r#","series":{{"count":{},"lastObservedTime":"#, self.count));
                    microsecond(out, self.last);
                    out.push('}');
                }
                put(
                    out,
                    format_args!(
                        r#","reportingController":"default-scheduler","reportingInstance":"default-scheduler-control-1","action":"{action}""#
                    ),
                );
            }
            Reporter::Controller(name) => {
                put(out, format_args!(r#","eventTime":null,"reportingController":"{name}""#));
            }
            Reporter::Kubelet { node } => put(
                out,
                format_args!(
                    r#","eventTime":null,"reportingController":"kubelet","reportingInstance":"{node}""#
                ),
            ),
        }
        put(out, format_args!(r#","reason":"{}""#, self.reason));
        self.regarding.write(out);
        let kind = if self.warning { "Warning" } else { "Normal" };
        put(out, format_args!(r#","note":{},"type":"{kind}","deprecatedSource":{{"#, quoted(&self.note)));
        match &self.by {
            Reporter::Scheduler { .. } => {
                out.push_str(r#"},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}"#);
                return;
            }
            Reporter::Controller(name) => put(out, format_args!(r#""component":"{name}""#)),
            Reporter::Kubelet { node } => {
                put(out, format_args!(r#""component":"kubelet","host":"{node}""#));
            }
        }
        out.push_str(r#"},"deprecatedFirstTimestamp":"#);
        second(out, created);
        out.push_str(r#","deprecatedLastTimestamp":"#);
        second(out, self.last);
        put(out, format_args!(r#","deprecatedCount":{}}}"#, self.count));
    }
}
