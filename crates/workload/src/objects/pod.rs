//! Pod objects.

use std::sync::Arc;

use model::Moment;

use super::template::{PodTemplate, TemplateParameters, WorkloadKind};
use super::{ExtraMetadata, FieldManager, Meta, WriteJson, append, json_string, write_seconds};

/// One pod.
pub(crate) struct Pod {
    pub(crate) meta: Meta,
    pub(crate) template: Arc<PodTemplate>,
    pub(crate) generate_name: Arc<str>,
    /// As JSON.
    pub(crate) labels: String,
    /// The suffix of the name of its `kube-api-access` volume.
    pub(crate) token_volume_suffix: String,
    /// The stable host name and the service of a StatefulSet's pod.
    pub(crate) host: Option<(Arc<str>, Arc<str>)>,
    /// The node of a DaemonSet's pod.
    pub(crate) daemon_node: Option<Arc<str>>,
    /// Whether it has the Job's tracking finalizer.
    pub(crate) is_job_tracked: bool,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) host_ip: Arc<str>,
    pub(crate) ip: String,
    pub(crate) phase: Phase,
    pub(crate) scheduled: ScheduledCondition,
    pub(crate) nominated_node: Option<Arc<str>>,
    /// The status reported by the kubelet; `None` before it has acknowledged the pod.
    pub(crate) kubelet_status: Option<KubeletStatus>,
    pub(crate) disruption: Option<DisruptionTarget>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
}

/// The condition `PodScheduled`.
pub(crate) enum ScheduledCondition {
    NotAttempted,
    Done { since: Moment },
}

/// The status reported by the kubelet.
#[derive(Clone)]
pub(crate) struct KubeletStatus {
    pub(crate) start: Moment,
    pub(crate) sandbox: Option<Moment>,
    pub(crate) ready: PodCondition,
    pub(crate) containers_ready: PodCondition,
    pub(crate) container: ContainerState,
    pub(crate) last_termination: Option<Termination>,
    pub(crate) restarts: u32,
    pub(crate) container_id: String,
    pub(crate) reported: Moment,
}

#[derive(Clone, Copy)]
pub(crate) struct PodCondition {
    pub(crate) is_true: bool,
    pub(crate) since: Moment,
    /// The reason if it is false; empty where Kubernetes gives none.
    pub(crate) reason: &'static str,
}

#[derive(Clone)]
pub(crate) enum ContainerState {
    Waiting { reason: &'static str, message: String },
    Running { since: Moment },
    Terminated(Termination),
}

#[derive(Clone)]
pub(crate) struct Termination {
    pub(crate) started: Moment,
    pub(crate) finished: Moment,
    pub(crate) exit_code: i32,
    pub(crate) reason: &'static str,
    pub(crate) container_id: String,
}

/// The condition `DisruptionTarget`.
#[derive(Clone, Copy)]
pub(crate) struct DisruptionTarget {
    pub(crate) since: Moment,
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
}

const STATUS_FIELDS: &str = r#"{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:observedGeneration":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:observedGeneration":{},"f:status":{},"f:type":{}},"k:{\"type\":\"PodReadyToStartContainers\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:observedGeneration":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:observedGeneration":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:hostIPs":{},"f:observedGeneration":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"$IP\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}"#;

// === impl Pod ===

impl Pod {
    /// A pod as its controller creates it.
    pub(crate) fn new(meta: Meta, template: Arc<PodTemplate>, labels: String, token: String) -> Pod {
        Pod {
            meta,
            template,
            generate_name: "".into(),
            labels,
            token_volume_suffix: token,
            host: None,
            daemon_node: None,
            is_job_tracked: false,
            node: None,
            host_ip: "".into(),
            ip: String::new(),
            phase: Phase::Pending,
            scheduled: ScheduledCondition::NotAttempted,
            nominated_node: None,
            kubelet_status: None,
            disruption: None,
        }
    }

    fn write_spec(&self, out: &mut String) {
        let PodTemplate { container, policies, scheduling, .. } = &*self.template;
        out.push_str(r#""spec":{"volumes":["#);
        if let Some((host, _)) = &self.host {
            append(
                out,
                format_args!(r#"{{"name":"data","persistentVolumeClaim":{{"claimName":"data-{host}"}}}},"#),
            );
        }
        out.push_str(r#"{"name":"kube-api-access-"#);
        out.push_str(&self.token_volume_suffix);
        out.push_str(r#"","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":["#);
        out.push_str(&container.0);
        out.push_str(r#"{"name":"kube-api-access-"#);
        out.push_str(&self.token_volume_suffix);
        out.push_str(r#"","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]"#);
        out.push_str(&container.1);
        out.push_str("],");
        out.push_str(policies);
        out.push_str(r#","serviceAccountName":"default","serviceAccount":"default","#);
        if let Some(node) = &self.node {
            append(out, format_args!(r#""nodeName":"{node}","#));
        }
        out.push_str(r#""securityContext":{},"#);
        if let Some((host, service)) = &self.host {
            append(out, format_args!(r#""hostname":"{host}","subdomain":"{service}","#));
        }
        if let Some(node) = &self.daemon_node {
            append(
                out,
                format_args!(
                    r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{{"matchFields":[{{"key":"metadata.name","operator":"In","values":["{node}"]}}]}}]}}}}}},"#
                ),
            );
        }
        out.push_str(scheduling);
        out.push_str("},");
    }

    fn write_status(&self, out: &mut String) {
        let phase = match self.phase {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
        };
        out.push_str(r#""status":{"#);
        if self.kubelet_status.is_some() {
            append(out, format_args!(r#""observedGeneration":{},"#, self.meta.generation));
        }
        append(out, format_args!(r#""phase":"{phase}""#));
        self.write_conditions(out);
        if let Some(node) = &self.nominated_node {
            append(out, format_args!(r#","nominatedNodeName":"{node}""#));
        }
        if let Some(running) = &self.kubelet_status {
            append(out, format_args!(r#","hostIP":"{0}","hostIPs":[{{"ip":"{0}"}}]"#, self.host_ip));
            if running.sandbox.is_some() {
                append(out, format_args!(r#","podIP":"{0}","podIPs":[{{"ip":"{0}"}}]"#, self.ip));
            }
            out.push_str(r#","startTime":"#);
            write_seconds(out, running.start);
            running.write_container(out, &self.template, &self.token_volume_suffix);
        }
        out.push_str(r#","qosClass":"Burstable"}"#);
    }

    fn write_conditions(&self, out: &mut String) {
        let generation = self.meta.generation;
        let begin = |out: &mut String, kind: &str, generation: u64, holds: bool, since: Moment| {
            out.push_str(if out.ends_with('}') { r#",{"type":""# } else { r#"{"type":""# });
            out.push_str(kind);
            out.push('"');
            if generation > 0 {
                append(out, format_args!(r#","observedGeneration":{generation}"#));
            }
            let status = if holds { "True" } else { "False" };
            append(out, format_args!(r#","status":"{status}","lastProbeTime":null,"lastTransitionTime":"#));
            write_seconds(out, since);
        };
        let none = matches!(self.scheduled, ScheduledCondition::NotAttempted) && self.disruption.is_none();
        if none {
            return;
        }
        out.push_str(r#","conditions":["#);
        if let Some(running) = &self.kubelet_status {
            begin(
                out,
                "PodReadyToStartContainers",
                generation,
                running.sandbox.is_some(),
                running.sandbox.unwrap_or(running.start),
            );
            out.push('}');
            begin(out, "Initialized", generation, true, running.start);
            if self.phase == Phase::Succeeded {
                out.push_str(r#","reason":"PodCompleted""#);
            }
            out.push('}');
            for (kind, condition) in [("Ready", running.ready), ("ContainersReady", running.containers_ready)]
            {
                begin(out, kind, generation, condition.is_true, condition.since);
                if !condition.reason.is_empty() {
                    append(out, format_args!(r#","reason":"{}""#, condition.reason));
                }
                if condition.reason == "ContainersNotReady" {
                    let app = &self.template.parameters.app;
                    append(out, format_args!(r#","message":"containers with unready status: [{app}]""#));
                }
                out.push('}');
            }
        }
        match &self.scheduled {
            ScheduledCondition::NotAttempted => {}
            ScheduledCondition::Done { since } => {
                // The binding sets no observedGeneration; the kubelet does.
                let generation = if self.kubelet_status.is_some() { generation } else { 0 };
                begin(out, "PodScheduled", generation, true, *since);
                out.push('}');
            }
        }
        if let Some(DisruptionTarget { since, reason, message }) = self.disruption {
            begin(out, "DisruptionTarget", 1, true, since);
            append(out, format_args!(r#","reason":"{reason}","message":"{message}"}}"#));
        }
        out.push(']');
    }

    fn managed_fields(&self) -> String {
        let owner = self.meta.owner.as_ref().map_or("", |owner| &*owner.uid);
        let made = format!(
            r#"{{"f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:app.kubernetes.io/part-of":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner}\"}}":{{}}}}}},{}}}"#,
            self.template.fields
        );
        let reported;
        let mut managers = vec![FieldManager {
            name: "kube-controller-manager",
            api_version: "v1",
            at: self.meta.created,
            fields: &made,
            is_status: false,
        }];
        if let Some(running) = &self.kubelet_status {
            reported = STATUS_FIELDS.replace("$IP", &self.ip);
            managers.push(FieldManager {
                name: "kubelet",
                api_version: "v1",
                at: running.reported,
                fields: &reported,
                is_status: true,
            });
        }
        FieldManager::list(&managers)
    }
}

impl WriteJson for Pod {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"Pod","apiVersion":"v1","#);
        let managed = if self.meta.managed_fields { self.managed_fields() } else { String::new() };
        let finalizers = if self.is_job_tracked { r#"["batch.kubernetes.io/job-tracking"]"# } else { "" };
        let extra = ExtraMetadata {
            generate_name: &self.generate_name,
            labels: &self.labels,
            finalizers,
            managed_fields: &managed,
            ..ExtraMetadata::default()
        };
        self.meta.write(out, &extra);
        out.push(',');
        self.write_spec(out);
        self.write_status(out);
        out.push('}');
    }
}

// === impl KubeletStatus ===

impl KubeletStatus {
    /// `,"containerStatuses":[…]`.
    fn write_container(&self, out: &mut String, template: &PodTemplate, token: &str) {
        let PodTemplate {
            parameters: TemplateParameters { app, image, digest, kind: shape, .. },
            requests: (cpu, memory),
            ..
        } = template;
        append(out, format_args!(r#","containerStatuses":[{{"name":"{app}","state":{{"#));
        match &self.container {
            ContainerState::Waiting { reason, message } => {
                append(out, format_args!(r#""waiting":{{"reason":"{reason}""#));
                if !message.is_empty() {
                    append(out, format_args!(r#","message":{}"#, json_string(message)));
                }
                out.push('}');
            }
            ContainerState::Running { since } => {
                out.push_str(r#""running":{"startedAt":"#);
                write_seconds(out, *since);
                out.push('}');
            }
            ContainerState::Terminated(ended) => ended.write(out),
        }
        out.push_str(r#"},"lastState":{"#);
        if let Some(ended) = &self.last_termination {
            ended.write(out);
        }
        let started = matches!(self.container, ContainerState::Running { .. });
        let ready = self.containers_ready.is_true;
        append(out, format_args!(r#"}},"ready":{ready},"restartCount":{},"#, self.restarts));
        // An image that was never pulled has no digest, and its container was never started.
        if self.container_id.is_empty() {
            append(out, format_args!(r#""image":"{image}","imageID":"","started":false"#));
        } else {
            let repository = image.rsplit_once(':').map_or(&**image, |(repository, _)| repository);
            append(
                out,
                format_args!(
                    r#""image":"{image}","imageID":"{repository}@sha256:{digest}","containerID":"containerd://{}","started":{started}"#,
                    self.container_id
                ),
            );
        }
        if started {
            append(
                out,
                format_args!(
                    r#","allocatedResources":{{"cpu":"{cpu}","memory":"{memory}"}},"resources":{{"limits":{{"memory":"{memory}"}},"requests":{{"cpu":"{cpu}","memory":"{memory}"}}}}"#
                ),
            );
        }
        out.push_str(r#","volumeMounts":["#);
        if *shape == WorkloadKind::Stateful {
            out.push_str(r#"{"name":"data","mountPath":"/var/lib/data"},"#);
        }
        append(
            out,
            format_args!(
                r#"{{"name":"kube-api-access-{token}","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","readOnly":true,"recursiveReadOnly":"Disabled"}}]"#
            ),
        );
        if started {
            out.push_str(r#","user":{"linux":{"uid":1000,"gid":1000,"supplementalGroups":[1000]}}"#);
        }
        out.push_str("}]");
    }
}

// === impl Termination ===

impl Termination {
    fn write(&self, out: &mut String) {
        let Termination { started: from, finished: to, exit_code: code, reason, container_id } = self;
        append(out, format_args!(r#""terminated":{{"exitCode":{code},"reason":"{reason}","startedAt":"#));
        write_seconds(out, *from);
        out.push_str(r#","finishedAt":"#);
        write_seconds(out, *to);
        append(out, format_args!(r#","containerID":"containerd://{container_id}"}}"#));
    }
}
