//! Workload objects: Deployments and ReplicaSets.

use std::sync::Arc;

use model::Moment;

use super::template::PodTemplate;
use super::{ExtraMetadata, FieldManager, Meta, WriteJson, append, json_map, write_seconds};

/// A Deployment whose rolling update replaces a quarter of its pods at a time.
pub(crate) struct Deployment {
    pub(crate) meta: Meta,
    pub(crate) template: Arc<PodTemplate>,
    pub(crate) replicas: i64,
    pub(crate) revision: u64,
    pub(crate) status: DeploymentStatus,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct DeploymentStatus {
    pub(crate) observed_generation: u64,
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
    pub(crate) is_true: bool,
    pub(crate) updated: Moment,
    pub(crate) since: Moment,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// One revision of a Deployment.
pub(crate) struct ReplicaSet {
    pub(crate) meta: Meta,
    pub(crate) template: Arc<PodTemplate>,
    pub(crate) hash: String,
    pub(crate) replicas: i64,
    /// The annotations `desired-replicas` and `max-replicas`.
    pub(crate) desired_and_max: (i64, i64),
    pub(crate) revision: u64,
    pub(crate) status: ReplicaSetStatus,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReplicaSetStatus {
    pub(crate) replicas: i64,
    pub(crate) ready: i64,
    pub(crate) terminating: i64,
    pub(crate) observed_generation: u64,
}

// === impl Deployment ===

impl WriteJson for Deployment {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"Deployment","apiVersion":"apps/v1","#);
        let app = &self.template.parameters.app;
        let labels = self.template.labels(&[]);
        let annotations = format!(r#"{{"deployment.kubernetes.io/revision":"{}"}}"#, self.revision);
        let at = self.status.conditions.last().map_or(self.meta.created, |condition| condition.updated);
        let managed = managed_fields(
            &self.meta,
            "helm",
            &template_fields(&self.template),
            at,
            r#"{"f:metadata":{"f:annotations":{".":{},"f:deployment.kubernetes.io/revision":{}}},"f:status":{"f:availableReplicas":{},"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Progressing\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:terminatingReplicas":{},"f:updatedReplicas":{}}}"#,
        );
        // Before the controller has processed the object it has no revision.
        let annotations =
            if self.status.observed_generation == 0 && self.revision == 0 { "" } else { &annotations };
        let extra = ExtraMetadata {
            labels: &labels,
            annotations,
            managed_fields: &managed,
            ..ExtraMetadata::default()
        };
        self.meta.write(out, &extra);
        append(
            out,
            format_args!(
                r#","spec":{{"replicas":{},"selector":{{"matchLabels":{{"app":"{app}"}}}},"template":{{"metadata":{{"labels":{labels}}},"spec":{}}},"strategy":{{"type":"RollingUpdate","rollingUpdate":{{"maxUnavailable":"25%","maxSurge":"25%"}}}},"revisionHistoryLimit":10,"progressDeadlineSeconds":600}},"status":{{"#,
                self.replicas, self.template.spec
            ),
        );
        let DeploymentStatus {
            observed_generation: observed,
            replicas,
            updated,
            ready,
            available,
            unavailable,
            ..
        } = self.status;
        if observed > 0 {
            append(out, format_args!(r#""observedGeneration":{observed}"#));
            write_count(out, "replicas", replicas);
            write_count(out, "updatedReplicas", updated);
            write_count(out, "readyReplicas", ready);
            write_count(out, "availableReplicas", available);
            write_count(out, "unavailableReplicas", unavailable);
            append(out, format_args!(r#","terminatingReplicas":{},"conditions":["#, self.status.terminating));
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
    pub(crate) fn set_condition(&mut self, mut condition: DeploymentCondition) {
        let old = self.conditions.iter().position(|old| old.kind == condition.kind);
        if let Some(index) = old {
            let old = &self.conditions[index];
            if old.is_true == condition.is_true && old.reason == condition.reason {
                return;
            }
            if old.is_true == condition.is_true {
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
        let DeploymentCondition { kind, is_true: holds, updated, since, reason, message } = self;
        let status = if *holds { "True" } else { "False" };
        append(out, format_args!(r#"{{"type":"{kind}","status":"{status}","lastUpdateTime":"#));
        write_seconds(out, *updated);
        out.push_str(r#","lastTransitionTime":"#);
        write_seconds(out, *since);
        append(out, format_args!(r#","reason":"{reason}","message":{}}}"#, super::json_string(message)));
    }
}

impl WriteJson for ReplicaSet {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"ReplicaSet","apiVersion":"apps/v1","#);
        let ReplicaSet { template, hash, replicas, desired_and_max: wanted, revision, status, .. } = self;
        let app = &template.parameters.app;
        let labels = template.labels(&[("pod-template-hash", hash)]);
        let annotations = json_map(&[
            ("deployment.kubernetes.io/desired-replicas", &wanted.0.to_string()),
            ("deployment.kubernetes.io/max-replicas", &wanted.1.to_string()),
            ("deployment.kubernetes.io/revision", &revision.to_string()),
        ]);
        let managed = managed_fields(
            &self.meta,
            "kube-controller-manager",
            &template_fields(template),
            self.meta.created,
            r#"{"f:status":{"f:availableReplicas":{},"f:fullyLabeledReplicas":{},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:terminatingReplicas":{}}}"#,
        );
        let extra = ExtraMetadata {
            labels: &labels,
            annotations: &annotations,
            managed_fields: &managed,
            ..ExtraMetadata::default()
        };
        self.meta.write(out, &extra);
        append(
            out,
            format_args!(
                r#","spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"{app}","pod-template-hash":"{hash}"}}}},"template":{{"metadata":{{"labels":{labels}}},"spec":{}}}}},"status":{{"replicas":{}"#,
                template.spec, status.replicas
            ),
        );
        if status.observed_generation > 0 {
            write_count(out, "fullyLabeledReplicas", status.replicas);
            write_count(out, "readyReplicas", status.ready);
            write_count(out, "availableReplicas", status.ready);
            append(
                out,
                format_args!(
                    r#","terminatingReplicas":{},"observedGeneration":{}"#,
                    status.terminating, status.observed_generation
                ),
            );
        }
        out.push_str("}}");
    }
}

/// `,"name":number`, or nothing for zero, as Go omits it.
fn write_count(out: &mut String, name: &str, number: i64) {
    if number != 0 {
        append(out, format_args!(r#","{name}":{number}"#));
    }
}

/// The `managedFields` of the client that writes the spec and of the controller that writes the status.
fn managed_fields(meta: &Meta, manager: &str, spec: &str, at: Moment, status: &str) -> String {
    if !meta.managed_fields {
        return String::new();
    }
    let api_version = if &*meta.key.kind.group == "batch" { "batch/v1" } else { "apps/v1" };
    FieldManager::list(&[
        FieldManager { name: manager, api_version, at: meta.created, fields: spec, is_status: false },
        FieldManager { name: "kube-controller-manager", api_version, at, fields: status, is_status: true },
    ])
}

fn template_fields(template: &PodTemplate) -> String {
    format!(
        r#"{{"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}},"f:app.kubernetes.io/part-of":{{}}}}}},"f:spec":{{"f:replicas":{{}},"f:selector":{{}},"f:template":{{"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}},"f:app.kubernetes.io/part-of":{{}}}}}},{}}}}}}}"#,
        template.fields
    )
}
