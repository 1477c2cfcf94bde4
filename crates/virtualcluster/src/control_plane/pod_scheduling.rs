//! kube-scheduler: its decisions become bindings, conditions, deletions of victims, and Events.

use apiserver::{DeleteOptions, Preconditions, UpdatedPart};
use kubernetes::conditions::set_pod_condition;
use kubernetes::objects::{NodeEvent, PodEvent};
use kubernetes::time::whole_second;
use model::{Kind, Moment, NamespacedName, What};
use scheduler::{
    Decision, Explanation, Profile, Rejection, ScheduleResult, Scheduler, SchedulingAttempt, VolumeChange,
};
use serde_json::{Value, json};

use super::ComponentContext;
use super::event_recorder::PodEventNote;
use super::scheduling_annotations::with_results;
use super::volumes::{SELECTED_NODE, bind_volume, provision};

/// The scheduler of a cluster.
pub(super) struct PodScheduling {
    scheduler: Scheduler,
    /// Whether the active queue may hold a pod.
    may_have_active_pod: bool,
    /// The profiles, if pods get annotations with the results.
    annotated_profiles: Option<Vec<Profile>>,
}

/// The most attempts before changes are read again.
const MAX_ATTEMPTS: usize = 256;

impl PodScheduling {
    pub(super) fn new(settings: scheduler::Settings, has_annotations: bool) -> PodScheduling {
        let annotated_profiles = has_annotations.then(|| settings.profiles.clone());
        PodScheduling { scheduler: Scheduler::new(settings), may_have_active_pod: true, annotated_profiles }
    }

    pub(super) fn observe_pod(&mut self, now: Moment, event: &PodEvent) {
        self.scheduler.apply_pod(now, event);
        self.may_have_active_pod = true;
    }

    pub(super) fn observe_node(&mut self, now: Moment, event: &NodeEvent) {
        self.scheduler.apply_node(now, event);
        self.may_have_active_pod = true;
    }

    pub(super) fn observe(&mut self, now: Moment, what: &What) {
        // Nothing about scheduling depends on Events and Leases, which are many.
        if !matches!(&*what.object().meta().kind, "Event" | "Lease") {
            self.scheduler.apply(now, what);
            self.may_have_active_pod = true;
        }
    }

    /// When a pod is to be tried again.
    pub(super) fn next(&self, now: Moment) -> Option<Moment> {
        if self.may_have_active_pod { Some(now) } else { self.scheduler.next_wake(now) }
    }

    /// Whether a pod is about to be tried: it is queued, or waits for the end of its backoff.
    pub(super) fn is_busy(&self) -> bool {
        self.may_have_active_pod || !self.scheduler.is_idle()
    }

    /// Attempts the pods that are due. Returns whether there were any.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        let is_due = self.scheduler.next_wake(context.now).is_some_and(|wake| wake <= context.now);
        if !self.may_have_active_pod && !is_due {
            return false;
        }
        for attempts in 0..MAX_ATTEMPTS {
            let explanation = self.explain_next(context);
            let Some(attempt) = self.scheduler.schedule_one(context.now) else {
                self.may_have_active_pod = false;
                return attempts > 0;
            };
            if let Some((explanation, profile)) = &explanation {
                annotate(context, explanation, profile);
            }
            self.carry_out(context, attempt);
        }
        true
    }

    /// The verdicts and scores of the next attempt, if pods get annotations with them.
    fn explain_next(&mut self, context: &ComponentContext<'_>) -> Option<(Explanation, Profile)> {
        let profiles = self.annotated_profiles.as_ref()?;
        let pod = self.scheduler.next_pod(context.now)?;
        let scheduler_name = context.pods.get(&pod)?.spec.scheduler_name();
        let profile = profiles.iter().find(|profile| *profile.scheduler_name == *scheduler_name)?.clone();
        let explanation = self.scheduler.explain(context.now, &pod.namespace, &pod.name)?;
        Some((explanation, profile))
    }

    fn carry_out(&mut self, context: &mut ComponentContext<'_>, attempt: SchedulingAttempt) {
        let SchedulingAttempt { pod, decision } = attempt;
        match decision {
            Decision::Scheduled(placement) => self.bind(context, &pod, &placement),
            Decision::Unschedulable(rejection) => self.reject(context, &pod, &rejection),
            Decision::Failed(reason) => {
                let note = reason.clone();
                record(context, &pod, "FailedScheduling", "Scheduling", note, true);
                set_unschedulable(context, &pod, "SchedulerError", &reason, None);
            }
            Decision::Gated(status) => {
                set_unschedulable(context, &pod, "SchedulingGated", &status.message(), None);
            }
            Decision::Skipped(_) => {}
        }
    }

    fn bind(&mut self, context: &mut ComponentContext<'_>, pod: &NamespacedName, placement: &ScheduleResult) {
        let uid = context.pods.get(pod).map(|view| view.uid.clone()).unwrap_or_default();
        let bound = write_volumes(context, pod, &placement.volume_changes)
            .and_then(|()| context.registry.bind_pod(pod, &uid, &placement.node));
        match bound {
            Ok(_) => {
                let NamespacedName { namespace, name } = pod;
                let note = format!("Successfully assigned {namespace}/{name} to {}", placement.node);
                record(context, pod, "Scheduled", "Binding", note, false);
            }
            Err(error) => {
                self.scheduler.bind_failed(context.now, &pod.namespace, &pod.name);
                record(
                    context,
                    pod,
                    "FailedScheduling",
                    "Scheduling",
                    format!("binding rejected: {error}"),
                    true,
                );
            }
        }
    }

    fn reject(&mut self, context: &mut ComponentContext<'_>, pod: &NamespacedName, rejection: &Rejection) {
        let nominated = Some(rejection.nominated_node.as_deref());
        set_unschedulable(context, pod, "Unschedulable", &rejection.full_message(), nominated);
        record(context, pod, "FailedScheduling", "Scheduling", rejection.event_message(), true);
        for victim in &rejection.victims {
            preempt(context, pod, victim);
        }
        for cleared in rejection.cleared_nominations.iter().filter(|cleared| *cleared != pod) {
            edit_status(context, cleared, clear_nomination);
        }
    }
}

/// Writes the results of an attempt to its pod.
fn annotate(context: &mut ComponentContext<'_>, explanation: &Explanation, profile: &Profile) {
    let _ =
        context.registry.update_object(&Kind::new("", "Pod"), &explanation.pod, UpdatedPart::Object, |pod| {
            let annotations = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            let written = with_results(&annotations, explanation, profile);
            let is_changed = written.is_some();
            if let Some(written) = written {
                pod["metadata"]["annotations"] = written.into();
            }
            is_changed
        });
}

/// Deletes a victim of a preemption.
fn preempt(context: &mut ComponentContext<'_>, preemptor: &NamespacedName, victim: &NamespacedName) {
    let Some(view) = context.pods.get(victim).cloned() else { return };
    let now = whole_second(context.now).to_string();
    edit_status(context, victim, |victim| {
        set_pod_condition(
            victim,
            json!({
                "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                "message": "default-scheduler: preempting to accommodate a higher priority pod",
            }),
            &now,
        )
    });
    let preconditions = Some(Preconditions { uid: Some(view.uid.to_string()), resource_version: None });
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    // A victim that has gone needs no deletion.
    let _ = context.registry.delete_object(&Kind::new("", "Pod"), victim, &options);
    let uid = context.pods.get(preemptor).map(|view| view.uid.clone()).unwrap_or_default();
    let node = view.node_name.clone().unwrap_or_default();
    let note = format!("Preempted by pod {uid} on node {node}");
    record(context, victim, "Preempted", "Preempting", note, false);
}

/// Writes the condition `PodScheduled`, and the nomination if there is one to write.
fn set_unschedulable(
    context: &mut ComponentContext<'_>,
    pod: &NamespacedName,
    reason: &str,
    message: &str,
    nominated: Option<Option<&str>>,
) {
    let now = whole_second(context.now).to_string();
    edit_status(context, pod, |pod| {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "observedGeneration": pod["metadata"]["generation"],
        });
        let mut is_changed = set_pod_condition(pod, condition, &now);
        match nominated {
            Some(Some(node)) if pod["status"]["nominatedNodeName"] != node => {
                pod["status"]["nominatedNodeName"] = node.into();
                is_changed = true;
            }
            Some(None) => is_changed |= clear_nomination(pod),
            _ => {}
        }
        is_changed
    });
}

/// Removes the nomination of a pod. Returns whether it had one.
fn clear_nomination(pod: &mut Value) -> bool {
    pod["status"].as_object_mut().is_some_and(|status| status.remove("nominatedNodeName").is_some())
}

/// Edits the status of a pod that is not bound. One that has gone is left alone.
fn edit_status(
    context: &mut ComponentContext<'_>,
    pod: &NamespacedName,
    mut edit: impl FnMut(&mut Value) -> bool,
) {
    let _ = context
        .registry
        .update_object(&Kind::new("", "Pod"), pod, UpdatedPart::Status, |object| edit(object));
}

fn record(
    context: &mut ComponentContext<'_>,
    pod: &NamespacedName,
    reason: &'static str,
    action: &'static str,
    note: String,
    is_warning: bool,
) {
    let Some(view) = context.pods.get(pod) else { return };
    let reporter = view.spec.scheduler_name().to_owned();
    let event = PodEventNote { reason, action, note, is_warning, reporter: &reporter };
    context.events.record(context.registry, context.now, view, event);
}

/// Writes what a pod's claims need before it is bound.
fn write_volumes(
    context: &mut ComponentContext<'_>,
    pod: &NamespacedName,
    changes: &[VolumeChange],
) -> Result<(), apiserver::ApiError> {
    for change in changes {
        match change {
            VolumeChange::Bind { claim, volume } => {
                let claim_name = NamespacedName::new(pod.namespace.clone(), claim.clone());
                bind_volume(context.registry, &claim_name, volume)?;
            }
            VolumeChange::Provision { claim, node } => {
                let claim_name = NamespacedName::new(pod.namespace.clone(), claim.clone());
                let kind = Kind::new("", "PersistentVolumeClaim");
                context.registry.update_object(&kind, &claim_name, UpdatedPart::Object, |claim| {
                    if !claim["metadata"]["annotations"].is_object() {
                        claim["metadata"]["annotations"] = json!({});
                    }
                    claim["metadata"]["annotations"][SELECTED_NODE] = (**node).into();
                    true
                })?;
                provision(context, &claim_name, Some(node))?;
            }
        }
    }
    Ok(())
}
