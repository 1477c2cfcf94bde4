//! Tables of pods.

use model::Moment;

use super::age::age_since;
use super::field::JsonField;
use super::{AGE, BuiltInPrinter, Cell, Column, NAME, name, object_age};

pub(super) static POD: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::text("Ready"),
        Column::text("Status"),
        Column::text("Restarts"),
        AGE,
        Column::wide("IP"),
        Column::wide("Node"),
        Column::wide("Nominated Node"),
        Column::wide("Readiness Gates"),
    ],
    cells: pod,
};

/// The aggregate of a pod's container statuses.
struct ContainerSummary {
    reason: String,
    ready: i64,
    restarts: Restarts,
}

#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Moment>,
}

fn pod(pod: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let ContainerSummary { reason, ready, restarts } = summary(pod);
    let sidecars = pod.at("spec.initContainers").items().filter(|container| is_sidecar(*container)).count();
    let total = pod.at("spec.containers").items().len() + sidecars;
    let restarts = match restarts {
        Restarts { count, last: Some(last) } if count != 0 => {
            format!("{count} ({} ago)", age_since(Some(last), now))
        }
        Restarts { count, .. } => count.to_string(),
    };
    // An old kubelet sets `podIP` alone; if both are set and differ, Kubernetes uses `podIP` as well.
    let first_ip = pod.at("status.podIPs").items().next().map_or("", |ip| ip.at("ip").text());
    let ip = pod.at("status.podIP").text_or(first_ip);
    vec![
        name(pod),
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.into(),
        object_age(pod, now),
        if ip.is_empty() { "<none>" } else { ip }.into(),
        pod.at("spec.nodeName").text_or("<none>").into(),
        pod.at("status.nominatedNodeName").text_or("<none>").into(),
        readiness_gates(pod).into(),
    ]
}

fn summary(pod: JsonField<'_>) -> ContainerSummary {
    let status = pod.at("status");
    let mut summary = ContainerSummary {
        reason: status.at("reason").text_or(status.at("phase").text()).to_owned(),
        ready: 0,
        restarts: Restarts::default(),
    };
    let gated = |condition: JsonField<'_>| {
        condition.at("type").text() == "PodScheduled" && condition.at("reason").text() == "SchedulingGated"
    };
    if status.at("conditions").items().any(gated) {
        summary.reason = "SchedulingGated".to_owned();
    }

    let (initializing, sidecars) = initialization(pod, &mut summary);
    if !initializing || condition(status, "Initialized") == Some("True") {
        summary.restarts = sidecars;
        main_containers(status, &mut summary);
    }

    if pod.at("metadata.deletionTimestamp").is_set() {
        if status.at("reason").text() == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(status.at("phase").text(), "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

/// Goes through the init containers up to the first that has not completed. Returns whether there is one, and the
/// restarts of sidecars, which are still counted after initialization.
fn initialization(pod: JsonField<'_>, summary: &mut ContainerSummary) -> (bool, Restarts) {
    let specs = pod.at("spec.initContainers");
    let mut sidecars = Restarts::default();
    for (index, container) in pod.at("status.initContainerStatuses").items().enumerate() {
        summary.restarts.add(container);
        let name = container.at("name").text();
        // Names are unique; if they are not, the last one counts.
        let spec = specs.items().rev().find(|spec| spec.at("name").text() == name);
        let sidecar = spec.is_some_and(is_sidecar);
        if sidecar {
            sidecars.add(container);
        }
        let terminated = container.at("state.terminated");
        if terminated.is_set() && terminated.at("exitCode").int() == 0 {
            continue;
        }
        if sidecar && container.at("started").is_true() {
            summary.ready += i64::from(container.at("ready").is_true());
            continue;
        }
        summary.reason = if terminated.is_set() {
            format!("Init:{}", termination_reason(terminated))
        } else {
            match container.at("state.waiting.reason").text() {
                "" | "PodInitializing" => format!("Init:{index}/{}", specs.items().len()),
                reason => format!("Init:{reason}"),
            }
        };
        return (true, sidecars);
    }
    (false, sidecars)
}

fn main_containers(status: JsonField<'_>, summary: &mut ContainerSummary) {
    let (mut running, mut failure) = (false, None);
    for container in status.at("containerStatuses").items().rev() {
        summary.restarts.add(container);
        let (waiting, terminated) =
            (container.at("state.waiting.reason").text(), container.at("state.terminated"));
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if terminated.is_set() {
            summary.reason = termination_reason(terminated);
            if terminated.at("exitCode").int() != 0 {
                failure = Some(summary.reason.clone());
            }
        } else if container.at("ready").is_true() && container.at("state.running").is_set() {
            running = true;
            summary.ready += 1;
        }
    }
    // A pod with a completed container is not completed while another runs or has failed.
    if summary.reason == "Completed" {
        let ready = status.at("conditions").items().any(|condition| {
            condition.at("type").text() == "Ready" && condition.at("status").text() == "True"
        });
        summary.reason = match failure {
            _ if running && ready => "Running".to_owned(),
            Some(failure) => failure,
            None if running => "NotReady".to_owned(),
            None => return,
        };
    }
}

/// Why a container ended: its reason, else the signal, else the exit code.
fn termination_reason(terminated: JsonField<'_>) -> String {
    match (terminated.at("reason").text(), terminated.at("signal").int()) {
        ("", 0) => format!("ExitCode:{}", terminated.at("exitCode").int()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(pod: JsonField<'_>) -> String {
    let gates = pod.at("spec.readinessGates").items();
    let total = gates.len();
    if total == 0 {
        return "<none>".to_owned();
    }
    let status = pod.at("status");
    let open =
        gates.filter(|gate| condition(status, gate.at("conditionType").text()) == Some("True")).count();
    format!("{open}/{total}")
}

/// The status of the first condition of a type.
fn condition<'a>(status: JsonField<'a>, kind: &str) -> Option<&'a str> {
    let mut conditions = status.at("conditions").items();
    conditions.find(|condition| condition.at("type").text() == kind).map(|found| found.at("status").text())
}

/// Whether it is an init container that keeps running beside the main ones.
fn is_sidecar(container: JsonField<'_>) -> bool {
    container.at("restartPolicy").text() == "Always"
}

impl Restarts {
    fn add(&mut self, container: JsonField<'_>) {
        self.count = self.count.saturating_add(container.at("restartCount").int());
        self.last = self.last.max(container.at("lastState.terminated.finishedAt").time());
    }
}
