//! Our outcome of a case, in the form in which vectors have the real one.

use kai::{
    ActionDecisions, Amounts, Commitment, Eviction, GpuGroup, PendingPod, PendingReason, Placement, Report,
    ResourceReport, Session,
};
use model::NamespacedName;
use serde_json::{Map, Value, json};

use super::KaiCase;

/// Runs a case with our scheduler.
pub(super) fn outcome(case: &KaiCase) -> kai::Result<Value> {
    let mut session = Session::open(&case.snapshot, case.now)?;
    let actions: Vec<Value> = session.run().iter().map(action).collect();
    let Report { total, queues, nodes, jobs, pending } = session.report();
    let queues = queues.iter().map(|queue| {
        let resources =
            json!({"cpu": resource(&queue.cpu), "memory": resource(&queue.memory), "gpu": resource(&queue.gpu)});
        (queue.name.to_string(), resources)
    });
    let nodes = nodes.iter().map(|node| {
        let mut value = json!({
            "allocatable": amounts(&node.allocatable),
            "idle": amounts(&node.idle),
            "idleAfter": amounts(&node.idle_after),
        });
        if node.releasing != Amounts::default() {
            value["releasing"] = amounts(&node.releasing);
        }
        (node.name.to_string(), value)
    });
    let jobs = jobs.iter().map(|job| {
        let statuses = job.statuses.iter().map(|(status, count)| (status.name().to_owned(), json!(count)));
        let mut value = json!({
            "queue": &*job.queue,
            "priority": job.priority,
            "preemptible": job.is_preemptible,
            "ready": job.is_ready,
            "statuses": statuses.collect::<Map<String, Value>>(),
        });
        if job.is_stale {
            value["stale"] = json!(true);
        }
        (job.name.to_string(), value)
    });
    Ok(json!({
        "total": amounts(&total),
        "queues": queues.collect::<Map<String, Value>>(),
        "nodes": nodes.collect::<Map<String, Value>>(),
        "jobs": jobs.collect::<Map<String, Value>>(),
        "actions": actions,
        "pending": pending.iter().map(pending_pod).collect::<Vec<Value>>(),
    }))
}

fn amounts(amounts: &Amounts) -> Value {
    json!({"cpu": amounts.cpu, "memory": amounts.memory, "gpu": amounts.gpu})
}

fn resource(share: &ResourceReport) -> Value {
    json!({
        "quota": share.quota,
        "limit": share.limit,
        "weight": share.weight,
        "request": share.request,
        "allocated": share.allocated,
        "allocatedNonPreemptible": share.allocated_non_preemptible,
        "fairShare": share.fair_share,
        "allocatedAfter": share.allocated_after,
    })
}

fn action(decisions: &ActionDecisions) -> Value {
    let order = decisions.order.iter().map(|commitment| match commitment {
        Commitment::Bind(pod) => format!("bind {}", name(pod)),
        Commitment::Pipeline(pod) => format!("pipeline {}", name(pod)),
    });
    json!({
        "action": decisions.action.name(),
        "bound": decisions.bound.iter().map(|it| placement(it, true)).collect::<Vec<Value>>(),
        "pipelined": decisions.pipelined.iter().map(|it| placement(it, false)).collect::<Vec<Value>>(),
        "evicted": decisions.evicted.iter().map(eviction).collect::<Vec<Value>>(),
        "order": order.collect::<Vec<String>>(),
    })
}

fn placement(placement: &Placement, is_bound: bool) -> Value {
    let mut value = json!({
        "pod": name(&placement.pod),
        "node": &*placement.node,
        "type": placement.received.name(),
    });
    if is_bound && placement.gpu_count > 0 {
        value["gpuCount"] = json!(placement.gpu_count);
        value["portion"] = json!(format!("{:.2}", placement.gpu_portion));
    }
    if !placement.gpu_groups.is_empty() {
        let names = placement.gpu_groups.iter().map(|group| match group {
            GpuGroup::Known(name) => name.to_string(),
            GpuGroup::New(number) => format!("new-{number}"),
        });
        value["gpuGroups"] = names.collect();
    }
    value
}

fn eviction(eviction: &Eviction) -> Value {
    let mut value = json!({
        "pod": name(&eviction.pod),
        "action": eviction.action.name(),
        "gangSize": eviction.gang_size,
        "message": eviction.message,
    });
    value["node"] = json!(eviction.node.as_deref().unwrap_or_default());
    if let Some(preemptor) = &eviction.preemptor {
        value["preemptor"] = json!(name(preemptor));
    }
    value
}

fn pending_pod(pending: &PendingPod) -> Value {
    let (source, reasons) = match &pending.reason {
        PendingReason::InvalidSubGroup(errors) => ("invalidSubGroup", errors.texts()),
        PendingReason::NotReady => ("notReady", Vec::new()),
        PendingReason::Pod(errors) => ("pod", errors.texts()),
        PendingReason::PodGroup(errors) => {
            let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            texts.sort_unstable();
            ("podGroup", texts)
        }
        PendingReason::None => ("none", Vec::new()),
    };
    let mut value = json!({"pod": name(&pending.pod), "status": pending.status.name(), "source": source});
    if !reasons.is_empty() {
        value["reasons"] = json!(reasons);
    }
    value
}

fn name(name: &NamespacedName) -> String {
    format!("{}/{}", name.namespace, name.name)
}
