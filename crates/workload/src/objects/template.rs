//! Pod templates: the common text of a workload's pods.

use super::{append, json_map, json_string};

/// The fields of a PriorityClass that are copied to pods.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PriorityClass {
    pub(crate) name: &'static str,
    pub(crate) value: i64,
    pub(crate) preempts: bool,
}

/// The kind of workload, which determines the rest of the pod spec.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkloadKind {
    Serving,
    Daemon,
    Stateful,
    Batch,
}

/// The parameters of a template.
#[derive(Clone)]
pub(crate) struct TemplateParameters {
    pub(crate) app: String,
    pub(crate) namespace: String,
    pub(crate) image: String,
    /// The digest of the image: 64 hexadecimal digits. Empty if no registry has the image.
    pub(crate) digest: String,
    pub(crate) env: Vec<(&'static str, String)>,
    pub(crate) milli_cpu: i64,
    pub(crate) mebibytes: i64,
    pub(crate) priority_class: PriorityClass,
    pub(crate) kind: WorkloadKind,
    /// The value of the `dedicated` taint that is tolerated.
    pub(crate) tolerated_dedication: Option<&'static str>,
    /// The `tolerationSeconds` for not-ready and unreachable nodes.
    pub(crate) toleration_seconds: i64,
}

/// A pod template with all text that its pods share.
pub(crate) struct PodTemplate {
    pub(crate) parameters: TemplateParameters,
    /// The requests for CPU and memory, as Kubernetes prints them.
    pub(super) requests: (String, String),
    /// Containers up to the mounts, and after them.
    pub(super) container: (String, String),
    /// `restartPolicy` to `dnsPolicy`.
    pub(super) policies: String,
    /// `schedulerName` to the end of the spec of a pod.
    pub(super) scheduling: String,
    /// The spec as it stands in a Deployment.
    pub(crate) spec: String,
    /// The spec's part of `managedFields`.
    pub(crate) fields: String,
}

pub(crate) const STANDARD: PriorityClass = PriorityClass { name: "standard", value: 1_000, preempts: false };

/// The tolerations that the DaemonSet controller adds to its pods.
const DAEMON_TOLERATIONS: &str = r#"{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute"},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute"},{"key":"node.kubernetes.io/disk-pressure","operator":"Exists","effect":"NoSchedule"},{"key":"node.kubernetes.io/memory-pressure","operator":"Exists","effect":"NoSchedule"},{"key":"node.kubernetes.io/pid-pressure","operator":"Exists","effect":"NoSchedule"},{"key":"node.kubernetes.io/unschedulable","operator":"Exists","effect":"NoSchedule"}"#;
// === impl PodTemplate ===

impl PodTemplate {
    pub(crate) fn new(parameters: TemplateParameters) -> PodTemplate {
        let TemplateParameters {
            app,
            image,
            env,
            milli_cpu,
            mebibytes,
            priority_class: class,
            kind: shape,
            tolerated_dedication: tolerates,
            toleration_seconds: patience,
            ..
        } = &parameters;
        let amounts = (quantity(*milli_cpu, 1_000, "m", ""), quantity(*mebibytes, 1_024, "Mi", "Gi"));
        let (cpu, memory) = &amounts;
        let mut head = format!(r#"{{"name":"{app}","image":"{image}""#);
        if *shape != WorkloadKind::Batch {
            let port = if *shape == WorkloadKind::Stateful { 5432 } else { 8080 };
            append(
                &mut head,
                format_args!(r#","ports":[{{"name":"main","containerPort":{port},"protocol":"TCP"}}]"#),
            );
        }
        for (index, (name, value)) in env.iter().enumerate() {
            head.push_str(if index == 0 { r#","env":["# } else { "," });
            append(&mut head, format_args!(r#"{{"name":"{name}","value":{}}}"#, json_string(value)));
        }
        if !env.is_empty() {
            head.push(']');
        }
        append(
            &mut head,
            format_args!(
                r#","resources":{{"limits":{{"memory":"{memory}"}},"requests":{{"cpu":"{cpu}","memory":"{memory}"}}}}"#
            ),
        );
        let disk = if *shape == WorkloadKind::Stateful {
            r#"{"name":"data","mountPath":"/var/lib/data"}"#
        } else {
            ""
        };
        let mut tail = String::new();
        if *shape == WorkloadKind::Serving {
            tail.push_str(r#","livenessProbe":{"httpGet":{"path":"/live","port":"main","scheme":"HTTP"},"initialDelaySeconds":10,"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":6},"readinessProbe":{"httpGet":{"path":"/ready","port":"main","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":5,"successThreshold":1,"failureThreshold":3}"#);
        }
        tail.push_str(r#","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}"#);
        let restart = if *shape == WorkloadKind::Batch { "Never" } else { "Always" };
        let policies = format!(
            r#""restartPolicy":"{restart}","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst""#
        );
        let own: Vec<String> = tolerates
            .map(|value| {
                format!(r#"{{"key":"dedicated","operator":"Equal","value":"{value}","effect":"NoSchedule"}}"#)
            })
            .into_iter()
            .chain((*shape == WorkloadKind::Daemon).then(|| r#"{"operator":"Exists"}"#.to_owned()))
            .chain((*patience != 300).then(|| lost_node_tolerations(*patience)))
            .collect();
        let mut all = own.clone();
        match shape {
            WorkloadKind::Daemon => all.push(DAEMON_TOLERATIONS.to_owned()),
            _ if *patience == 300 => all.push(lost_node_tolerations(300)),
            _ => {}
        }
        let class_name = if *class == STANDARD {
            String::new()
        } else {
            format!(r#","priorityClassName":"{}""#, class.name)
        };
        let spread = if *shape == WorkloadKind::Serving {
            format!(
                r#","topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{{"matchLabels":{{"app":"{app}"}}}}}}]"#
            )
        } else {
            String::new()
        };
        let scheduling = format!(
            r#""schedulerName":"default-scheduler","tolerations":[{}],"priorityClassName":"{}","priority":{},"enableServiceLinks":true,"preemptionPolicy":"{}"{spread}"#,
            all.join(","),
            class.name,
            class.value,
            if class.preempts { "PreemptLowerPriority" } else { "Never" },
        );
        let mounts = if disk.is_empty() { String::new() } else { format!(r#","volumeMounts":[{disk}]"#) };
        let own =
            if own.is_empty() { String::new() } else { format!(r#","tolerations":[{}]"#, own.join(",")) };
        let spec = format!(
            r#"{{"containers":[{head}{mounts}{tail}],{policies},"securityContext":{{}},"schedulerName":"default-scheduler"{own}{class_name}{spread}}}"#
        );
        head.push_str(r#","volumeMounts":["#);
        if !disk.is_empty() {
            head.push_str(disk);
            head.push(',');
        }
        let fields = spec_fields(&parameters);
        PodTemplate {
            requests: amounts,
            container: (head, tail),
            policies,
            scheduling,
            spec,
            fields,
            parameters,
        }
    }

    /// The labels of its pods, with those that a controller adds, as JSON.
    pub(crate) fn labels(&self, more: &[(&str, &str)]) -> String {
        let part_of = if &*self.parameters.namespace == "kube-system" { "cluster" } else { "shop" };
        let mut labels = vec![("app", &*self.parameters.app), ("app.kubernetes.io/part-of", part_of)];
        labels.extend_from_slice(more);
        json_map(&labels)
    }
}

/// A quantity in the largest unit that leaves it whole.
fn quantity(amount: i64, step: i64, small: &str, large: &str) -> String {
    if amount % step == 0 { format!("{}{large}", amount / step) } else { format!("{amount}{small}") }
}

fn lost_node_tolerations(seconds: i64) -> String {
    format!(
        r#"{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":{seconds}}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":{seconds}}}"#
    )
}

fn spec_fields(parameters: &TemplateParameters) -> String {
    let app = &parameters.app;
    let probes = if parameters.kind == WorkloadKind::Serving {
        r#""f:livenessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:initialDelaySeconds":{},"f:periodSeconds":{},"f:successThreshold":{},"f:timeoutSeconds":{}},"#
    } else {
        ""
    };
    let env: Vec<String> = parameters
        .env
        .iter()
        .map(|(name, _)| format!(r#","k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}"#))
        .collect();
    let env =
        if env.is_empty() { String::new() } else { format!(r#""f:env":{{".":{{}}{}}},"#, env.concat()) };
    format!(
        r#""f:spec":{{"f:containers":{{"k:{{\"name\":\"{app}\"}}":{{".":{{}},{env}"f:image":{{}},"f:imagePullPolicy":{{}},{probes}"f:name":{{}},"f:resources":{{".":{{}},"f:limits":{{".":{{}},"f:memory":{{}}}},"f:requests":{{".":{{}},"f:cpu":{{}},"f:memory":{{}}}}}},"f:terminationMessagePath":{{}},"f:terminationMessagePolicy":{{}}}}}},"f:dnsPolicy":{{}},"f:enableServiceLinks":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:securityContext":{{}},"f:terminationGracePeriodSeconds":{{}}}}"#
    )
}
