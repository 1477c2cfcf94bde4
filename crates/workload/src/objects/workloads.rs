//! Workloads: what asks for pods.

use std::sync::Arc;

use model::Moment;

use super::template::Template;
use super::{Extra, Manager, Meta, Printed, map, put, second};

/// A Deployment that rolls by a quarter of its pods at a time.
pub(crate) struct Deployment {
    pub(crate) meta: Meta,
    pub(crate) template: Arc<Template>,
    pub(crate) replicas: i64,
    pub(crate) revision: u64,
    pub(crate) status: DeploymentStatus,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct DeploymentStatus {
    pub(crate) observed: u64,
    pub(crate) replicas: i64,
    pub(crate) updated: i64,
    pub(crate) ready: i64,
    pub(crate) available: i64,
    pub(crate) unavailable: i64,
    pub(crate) terminating: i64,
    pub(crate) conditions: Vec<DeploymentCondition>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DeploymentCondition {
    pub(crate) kind: &'static str,
    pub(crate) holds: bool,
    pub(crate) updated: Moment,
    pub(crate) since: Moment,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// One revision of a Deployment.
pub(crate) struct ReplicaSet {
    pub(crate) meta: Meta,
    pub(crate) template: Arc<Template>,
    pub(crate) hash: String,
    pub(crate) replicas: i64,
    /// What its Deployment wants in all, and at most while it rolls.
    pub(crate) wanted: (i64, i64),
    pub(crate) revision: u64,
    pub(crate) status: SetStatus,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SetStatus {
    pub(crate) replicas: i64,
    pub(crate) ready: i64,
    pub(crate) terminating: i64,
    pub(crate) observed: u64,
}

pub(crate) struct StatefulSet {
    pub(crate) meta: Meta,
    pub(crate) template: Arc<Template>,
    pub(crate) hash: String,
    pub(crate) replicas: i64,
    pub(crate) status: SetStatus,
}

pub(crate) struct DaemonSet {
    pub(crate) meta: Meta,
    pub(crate) template: Arc<Template>,
    pub(crate) hash: String,
    /// Nodes that should run it, pods that are on one, pods that are ready.
    pub(crate) status: (i64, i64, i64),
}

pub(crate) struct Job {
    pub(crate) meta: Meta,
    pub(crate) template: Arc<Template>,
    pub(crate) parallelism: i64,
    pub(crate) completions: i64,
    /// The minute for which a CronJob made it.
    pub(crate) scheduled: Option<Moment>,
    pub(crate) status: JobStatus,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JobStatus {
    pub(crate) start: Option<Moment>,
    pub(crate) completion: Option<Moment>,
    pub(crate) active: i64,
    pub(crate) succeeded: i64,
    pub(crate) failed: i64,
    pub(crate) terminating: i64,
    pub(crate) ready: i64,
}

pub(crate) struct CronJob {
    pub(crate) meta: Meta,
    pub(crate) template: Arc<Template>,
    pub(crate) schedule: &'static str,
    pub(crate) active: Vec<(Arc<str>, Arc<str>, u64)>,
    pub(crate) last_schedule: Option<Moment>,
    pub(crate) last_success: Option<Moment>,
}

// === impl Deployment ===

impl Deployment {
    /// How many pods more than wanted a roll-out may make: a quarter, rounded up.
    pub(crate) fn surge(&self) -> i64 {
        (self.replicas + 3) / 4
    }

    /// How many pods fewer than wanted may be available: a quarter, rounded down.
    pub(crate) fn unavailable(&self) -> i64 {
        self.replicas / 4
    }
}

impl Printed for Deployment {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"Deployment","apiVersion":"apps/v1","#);
        let app = &self.template.outline.app;
        let labels = self.template.labels(&[]);
        let annotations = format!(r#"{{"deployment.kubernetes.io/revision":"{}"}}"#, self.revision);
        let at = self.status.conditions.last().map_or(self.meta.created, |condition| condition.updated);
        let managed = managers(
            &self.meta,
            "helm",
            &template_fields(&self.template),
            at,
            r#"{"f:metadata":{"f:annotations":{".":{},"f:deployment.kubernetes.io/revision":{}}},"f:status":{"f:availableReplicas":{},"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Progressing\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:terminatingReplicas":{},"f:updatedReplicas":{}}}"#,
        );
        // A revision that no controller has seen yet is not on the object either.
        let annotations = if self.status.observed == 0 && self.revision == 0 { "" } else { &annotations };
        let extra = Extra { labels: &labels, annotations, managed: &managed, ..Extra::default() };
        self.meta.write(out, &extra);
        put(
            out,
            format_args!(
                r#","spec":{{"replicas":{},"selector":{{"matchLabels":{{"app":"{app}"}}}},"template":{{"metadata":{{"labels":{labels}}},"spec":{}}},"strategy":{{"type":"RollingUpdate","rollingUpdate":{{"maxUnavailable":"25%","maxSurge":"25%"}}}},"revisionHistoryLimit":10,"progressDeadlineSeconds":600}},"status":{{"#,
                self.replicas, self.template.spec
            ),
        );
        let DeploymentStatus { observed, replicas, updated, ready, available, unavailable, .. } = self.status;
        if observed > 0 {
            put(out, format_args!(r#""observedGeneration":{observed}"#));
            count(out, "replicas", replicas);
            count(out, "updatedReplicas", updated);
            count(out, "readyReplicas", ready);
            count(out, "availableReplicas", available);
            count(out, "unavailableReplicas", unavailable);
            put(out, format_args!(r#","terminatingReplicas":{},"conditions":["#, self.status.terminating));
            for (index, condition) in self.status.conditions.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                condition.write(out);
            }
            out.push(']');
        }
        out.push_str("}}");
    }
}

// === impl DeploymentStatus ===

impl DeploymentStatus {
    /// Sets a condition as Kubernetes does: the same state and reason change nothing; otherwise it moves to the
    /// end, keeping the time of its last transition if only the reason changed.
    pub(crate) fn set(&mut self, mut condition: DeploymentCondition) {
        let old = self.conditions.iter().position(|old| old.kind == condition.kind);
        if let Some(index) = old {
            let old = &self.conditions[index];
            if old.holds == condition.holds && old.reason == condition.reason {
                return;
            }
            if old.holds == condition.holds {
                condition.since = old.since;
            }
            self.conditions.remove(index);
        }
        self.conditions.push(condition);
    }
}

// === impl DeploymentCondition ===

impl DeploymentCondition {
    fn write(&self, out: &mut String) {
        let DeploymentCondition { kind, holds, updated, since, reason, message } = self;
        let status = if *holds { "True" } else { "False" };
        put(out, format_args!(r#"{{"type":"{kind}","status":"{status}","lastUpdateTime":"#));
        second(out, *updated);
        out.push_str(r#","lastTransitionTime":"#);
        second(out, *since);
        put(out, format_args!(r#","reason":"{reason}","message":{}}}"#, super::quoted(message)));
    }
}

impl Printed for ReplicaSet {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"ReplicaSet","apiVersion":"apps/v1","#);
        let ReplicaSet { template, hash, replicas, wanted, revision, status, .. } = self;
        let app = &template.outline.app;
        let labels = template.labels(&[("pod-template-hash", hash)]);
        let annotations = map(&[
            ("deployment.kubernetes.io/desired-replicas", &wanted.0.to_string()),
            ("deployment.kubernetes.io/max-replicas", &wanted.1.to_string()),
            ("deployment.kubernetes.io/revision", &revision.to_string()),
        ]);
        let managed = managers(
            &self.meta,
            "kube-controller-manager",
            &template_fields(template),
            self.meta.created,
            r#"{"f:status":{"f:availableReplicas":{},"f:fullyLabeledReplicas":{},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:terminatingReplicas":{}}}"#,
        );
        let extra =
            Extra { labels: &labels, annotations: &annotations, managed: &managed, ..Extra::default() };
        self.meta.write(out, &extra);
        put(
            out,
            format_args!(
                r#","spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"{app}","pod-template-hash":"{hash}"}}}},"template":{{"metadata":{{"labels":{labels}}},"spec":{}}}}},"status":{{"replicas":{}"#,
                template.spec, status.replicas
            ),
        );
        if status.observed > 0 {
            count(out, "fullyLabeledReplicas", status.replicas);
            count(out, "readyReplicas", status.ready);
            count(out, "availableReplicas", status.ready);
            put(
                out,
                format_args!(
                    r#","terminatingReplicas":{},"observedGeneration":{}"#,
                    status.terminating, status.observed
                ),
            );
        }
        out.push_str("}}");
    }
}

impl Printed for StatefulSet {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"StatefulSet","apiVersion":"apps/v1","#);
        let StatefulSet { meta, template, hash, replicas, status } = self;
        let app = &template.outline.app;
        let labels = template.labels(&[]);
        let managed = managers(
            meta,
            "helm",
            &template_fields(template),
            meta.created,
            r#"{"f:status":{"f:availableReplicas":{},"f:collisionCount":{},"f:currentReplicas":{},"f:currentRevision":{},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:updateRevision":{},"f:updatedReplicas":{}}}"#,
        );
        meta.write(out, &Extra { labels: &labels, managed: &managed, ..Extra::default() });
        put(
            out,
            format_args!(
                r#","spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"{app}"}}}},"template":{{"metadata":{{"labels":{labels}}},"spec":{}}},"volumeClaimTemplates":[{{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{{"name":"data"}},"spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"50Gi"}}}},"storageClassName":"ssd","volumeMode":"Filesystem"}},"status":{{"phase":"Pending"}}}}],"serviceName":"{app}","podManagementPolicy":"OrderedReady","updateStrategy":{{"type":"RollingUpdate","rollingUpdate":{{"partition":0}}}},"revisionHistoryLimit":10,"persistentVolumeClaimRetentionPolicy":{{"whenDeleted":"Retain","whenScaled":"Retain"}}}},"status":{{"observedGeneration":{},"replicas":{}"#,
                template.spec, meta.generation, status.replicas
            ),
        );
        count(out, "readyReplicas", status.ready);
        count(out, "currentReplicas", status.replicas);
        count(out, "updatedReplicas", status.replicas);
        put(
            out,
            format_args!(
                r#","currentRevision":"{app}-{hash}","updateRevision":"{app}-{hash}","collisionCount":0,"availableReplicas":{}}}}}"#,
                status.ready
            ),
        );
    }
}

impl Printed for DaemonSet {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"DaemonSet","apiVersion":"apps/v1","#);
        let DaemonSet { meta, template, status: (wanted, placed, ready), .. } = self;
        let app = &template.outline.app;
        let labels = template.labels(&[]);
        let managed = managers(
            meta,
            "helm",
            &template_fields(template),
            meta.created,
            r#"{"f:status":{"f:currentNumberScheduled":{},"f:desiredNumberScheduled":{},"f:numberAvailable":{},"f:numberReady":{},"f:numberUnavailable":{},"f:observedGeneration":{},"f:updatedNumberScheduled":{}}}"#,
        );
        let annotations = r#"{"deprecated.daemonset.template.generation":"1"}"#;
        meta.write(out, &Extra { labels: &labels, annotations, managed: &managed, ..Extra::default() });
        put(
            out,
            format_args!(
                r#","spec":{{"selector":{{"matchLabels":{{"app":"{app}"}}}},"template":{{"metadata":{{"labels":{labels}}},"spec":{}}},"updateStrategy":{{"type":"RollingUpdate","rollingUpdate":{{"maxUnavailable":1,"maxSurge":0}}}},"revisionHistoryLimit":10}},"status":{{"currentNumberScheduled":{placed},"numberMisscheduled":0,"desiredNumberScheduled":{wanted},"numberReady":{ready},"observedGeneration":1"#,
                template.spec
            ),
        );
        count(out, "updatedNumberScheduled", *placed);
        count(out, "numberAvailable", *ready);
        count(out, "numberUnavailable", wanted - ready);
        out.push_str("}}");
    }
}

// === impl Job ===

impl Job {
    /// The labels that tie pods to it, as JSON.
    pub(crate) fn pod_labels(&self) -> String {
        let (name, uid) = (&*self.meta.key.name, &*self.meta.uid);
        self.template.labels(&[
            ("batch.kubernetes.io/controller-uid", uid),
            ("batch.kubernetes.io/job-name", name),
            ("controller-uid", uid),
            ("job-name", name),
        ])
    }
}

impl Printed for Job {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"Job","apiVersion":"batch/v1","#);
        let Job { meta, template, parallelism, completions, scheduled, status } = self;
        let labels = self.pod_labels();
        let mut annotations = String::new();
        if let Some(scheduled) = scheduled {
            annotations.push_str(r#"{"batch.kubernetes.io/cronjob-scheduled-timestamp":"#);
            second(&mut annotations, *scheduled);
            annotations.push('}');
        }
        // A CronJob tidies up after itself; other Jobs go an hour after they are done.
        let ttl = if scheduled.is_some() { "" } else { r#","ttlSecondsAfterFinished":3600"# };
        let at = status.completion.or(status.start).unwrap_or(meta.created);
        let managed = managers(
            meta,
            if scheduled.is_some() { "kube-controller-manager" } else { "kubectl-create" },
            &template_fields(template),
            at,
            r#"{"f:status":{"f:active":{},"f:completionTime":{},"f:conditions":{},"f:ready":{},"f:startTime":{},"f:succeeded":{},"f:terminating":{},"f:uncountedTerminatedPods":{}}}"#,
        );
        let extra =
            Extra { labels: &labels, annotations: &annotations, managed: &managed, ..Extra::default() };
        meta.write(out, &extra);
        put(
            out,
            format_args!(
                r#","spec":{{"parallelism":{parallelism},"completions":{completions},"backoffLimit":20,"selector":{{"matchLabels":{{"batch.kubernetes.io/controller-uid":"{}"}}}},"manualSelector":false,"template":{{"metadata":{{"labels":{labels}}},"spec":{}}}{ttl},"completionMode":"NonIndexed","suspend":false,"podReplacementPolicy":"TerminatingOrFailed"}},"status":{{"#,
                meta.uid, template.spec
            ),
        );
        let Some(start) = status.start else {
            out.push_str("}}");
            return;
        };
        if let Some(completion) = status.completion {
            for (kind, before) in [("SuccessCriteriaMet", r#""conditions":["#), ("Complete", ",")] {
                put(out, format_args!(r#"{before}{{"type":"{kind}","status":"True","lastProbeTime":"#));
                second(out, completion);
                out.push_str(r#","lastTransitionTime":"#);
                second(out, completion);
                out.push_str(r#","reason":"CompletionsReached","message":"Reached expected number of succeeded pods"}"#);
            }
            out.push_str("],");
        }
        out.push_str(r#""startTime":"#);
        second(out, start);
        if let Some(completion) = status.completion {
            out.push_str(r#","completionTime":"#);
            second(out, completion);
        }
        count(out, "active", status.active);
        count(out, "succeeded", status.succeeded);
        count(out, "failed", status.failed);
        put(
            out,
            format_args!(
                r#","terminating":{},"uncountedTerminatedPods":{{}},"ready":{}}}}}"#,
                status.terminating, status.ready
            ),
        );
    }
}

impl Printed for CronJob {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"CronJob","apiVersion":"batch/v1","#);
        let CronJob { meta, template, schedule, active, last_schedule, last_success } = self;
        let labels = template.labels(&[]);
        let managed = managers(
            meta,
            "helm",
            &template_fields(template),
            last_success.unwrap_or(meta.created),
            r#"{"f:status":{"f:active":{},"f:lastScheduleTime":{},"f:lastSuccessfulTime":{}}}"#,
        );
        meta.write(out, &Extra { labels: &labels, managed: &managed, ..Extra::default() });
        put(
            out,
            format_args!(
                r#","spec":{{"schedule":"{schedule}","concurrencyPolicy":"Forbid","suspend":false,"jobTemplate":{{"metadata":{{}},"spec":{{"backoffLimit":20,"template":{{"metadata":{{"labels":{labels}}},"spec":{}}}}}}},"successfulJobsHistoryLimit":3,"failedJobsHistoryLimit":1}},"status":{{"#,
                template.spec
            ),
        );
        let mut before = "";
        for (name, uid, version) in active {
            let begin = if before.is_empty() { r#""active":["# } else { "," };
            put(
                out,
                format_args!(
                    r#"{begin}{{"kind":"Job","namespace":"{}","name":"{name}","uid":"{uid}","apiVersion":"batch/v1","resourceVersion":"{version}"}}"#,
                    meta.key.namespace
                ),
            );
            before = "],";
        }
        for (name, at) in [("lastScheduleTime", last_schedule), ("lastSuccessfulTime", last_success)] {
            if let Some(at) = at {
                put(out, format_args!(r#"{before}"{name}":"#));
                second(out, *at);
                before = ",";
            }
        }
        out.push_str("}}");
    }
}

/// `,"name":number`, or nothing for zero, as Go omits it.
fn count(out: &mut String, name: &str, number: i64) {
    if number != 0 {
        put(out, format_args!(r#","{name}":{number}"#));
    }
}

/// Someone who asks, and the controller that reports.
fn managers(meta: &Meta, who: &str, spec: &str, at: Moment, status: &str) -> String {
    if !meta.managed {
        return String::new();
    }
    let api_version = if &*meta.key.kind.group == "batch" { "batch/v1" } else { "apps/v1" };
    Manager::list(&[
        Manager { name: who, api_version, at: meta.created, fields: spec, of_status: false },
        Manager { name: "kube-controller-manager", api_version, at, fields: status, of_status: true },
    ])
}

fn template_fields(template: &Template) -> String {
    format!(
        r#"{{"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}},"f:app.kubernetes.io/part-of":{{}}}}}},"f:spec":{{"f:replicas":{{}},"f:selector":{{}},"f:template":{{"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}},"f:app.kubernetes.io/part-of":{{}}}}}},{}}}}}}}"#,
        template.fields
    )
}
