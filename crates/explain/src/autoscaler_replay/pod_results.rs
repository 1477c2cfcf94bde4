//! Decisions of an autoscaler about one pod, loop by loop.

use autoscaler::{
    Autoscaler, Event, Increase, InvolvedObject, LoopResult, PodExplanation, ScaleUpResult, ScaleUpStatus,
};
use model::{Moment, NamespacedName};

use super::end_reason;

/// The results of the autoscaler's loops for a pod.
pub struct PodLoopResults {
    pod: NamespacedName,
    /// The outcome of the last loop.
    pub outcome: Option<ScaleUpOutcome>,
    /// The last scale-up attempt that considered the pod.
    pub search: Option<ScaleUpSearch>,
    /// The first and the last scale-ups that it triggered.
    pub triggered: Vec<TriggeredScaleUp>,
    /// Events about it, each once, in the order of their last occurrence.
    events: Vec<Event>,
}

/// A triggered scale-up, which is repeated until the nodes register.
pub struct TriggeredScaleUp {
    /// The first loop with it.
    pub first: Moment,
    /// The last loop with it.
    pub last: Moment,
    /// The number of loops with it.
    pub times: u64,
    /// The groups that were scaled up.
    pub increases: Vec<Increase>,
}

/// A scale-up attempt.
pub struct ScaleUpSearch {
    /// When it ran.
    pub at: Moment,
    /// Its result.
    pub result: ScaleUpStatus,
}

/// The outcome of a loop for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleUpOutcome {
    /// It does not exist, or is not handled by the autoscaler.
    Unknown,
    /// It is hypothetical, and would be scheduled on an existing node.
    Scheduled,
    /// It is not considered for a scale-up because of its state.
    NotConsidered(PodExplanation),
    /// It is pending, and all pending pods are too young for a scale-up.
    AllPodsYoung,
    /// The maximum total number of nodes is reached.
    MaxNodesTotal,
    /// The loop ended before the scale-up, with the reason.
    NotTried(String),
    /// It triggers a scale-up of these groups.
    Triggers(Vec<Increase>),
    /// The scale-up failed.
    Failed(String),
    /// A group could help it, but another was chosen for other pods.
    OtherGroupChosen,
    /// No group helps it.
    NoGroupHelps,
}

/// Bounds the number of triggered scale-ups, and of Events, that are remembered.
const MAX_TRIGGERED: usize = 10;
const MAX_EVENTS: usize = 100;

// === impl PodLoopResults ===

impl PodLoopResults {
    pub(crate) fn new(pod: NamespacedName) -> PodLoopResults {
        PodLoopResults { pod, outcome: None, search: None, triggered: Vec::new(), events: Vec::new() }
    }

    /// Takes the result of a loop.
    pub fn observe(&mut self, loop_result: LoopResult, autoscaler: &Autoscaler) {
        let (at, reason) = (loop_result.at, end_reason(&loop_result));
        let pod_events = loop_result
            .events
            .into_iter()
            .filter(|event| matches!(&event.involved_object, InvolvedObject::Pod(pod) if *pod == self.pod));
        for event in pod_events {
            match self.events.iter().position(|other| *other == event) {
                Some(index) => self.events[index..].rotate_left(1),
                None if self.events.len() < MAX_EVENTS => self.events.push(event),
                None => self.events[MAX_EVENTS - 1] = event,
            }
        }
        let first = loop_result.scale_ups.first().map(|scale_up| scale_up.result);
        let search = loop_result.scale_ups.into_iter().rev().find(|scale_up| considers(scale_up, &self.pod));
        let outcome = match (&search, autoscaler.explain_pod(at, &self.pod)) {
            (_, None) => ScaleUpOutcome::Unknown,
            (Some(search), Some(_)) => outcome(search, &self.pod),
            (None, Some(PodExplanation::AwaitsScaleUp)) => match first {
                Some(ScaleUpResult::InCooldown) => ScaleUpOutcome::AllPodsYoung,
                Some(ScaleUpResult::LimitedByMaxNodesTotal) => ScaleUpOutcome::MaxNodesTotal,
                None | Some(ScaleUpResult::NotTried) => ScaleUpOutcome::NotTried(reason),
                Some(_) => ScaleUpOutcome::NotConsidered(PodExplanation::AwaitsScaleUp),
            },
            (None, Some(explanation)) => ScaleUpOutcome::NotConsidered(explanation),
        };
        if let ScaleUpOutcome::Triggers(increases) = &outcome {
            self.add_triggered(at, increases);
        }
        if let Some(status) = search {
            self.search = Some(ScaleUpSearch { at, result: status });
        }
        self.outcome = Some(outcome);
    }

    fn add_triggered(&mut self, at: Moment, increases: &[Increase]) {
        if let Some(same) = self.triggered.last_mut().filter(|last| last.increases == increases) {
            (same.last, same.times) = (at, same.times + 1);
            return;
        }
        if self.triggered.len() == MAX_TRIGGERED {
            self.triggered.remove(1);
        }
        self.triggered.push(TriggeredScaleUp {
            first: at,
            last: at,
            times: 1,
            increases: increases.to_vec(),
        });
    }

    /// Whether it got an equal Event. The order of reasons is random in cluster-autoscaler.
    pub fn has_event(&self, reason: &str, message: &str) -> bool {
        let parts = |message: &str| {
            let message = message.strip_prefix("pod didn't trigger scale-up: ").unwrap_or(message).to_owned();
            let mut parts: Vec<String> = message.split(", ").map(str::to_owned).collect();
            parts.sort_unstable();
            parts
        };
        self.events.iter().any(|event| event.reason == reason && parts(&event.message) == parts(message))
    }

    /// The last Event about it.
    pub fn last_event(&self) -> Option<&Event> {
        self.events.last()
    }
}

fn considers(search: &ScaleUpStatus, pod: &NamespacedName) -> bool {
    search
        .equivalence_groups
        .iter()
        .any(|equivalence_group| equivalence_group.pods.iter().any(|other| other == pod))
}

fn outcome(search: &ScaleUpStatus, pod: &NamespacedName) -> ScaleUpOutcome {
    if search.result == ScaleUpResult::Error {
        return ScaleUpOutcome::Failed(search.error.clone().unwrap_or_default());
    }
    if search.result == ScaleUpResult::Successful && search.pods_triggered_scale_up.contains(pod) {
        return ScaleUpOutcome::Triggers(search.increases.clone());
    }
    if search.pods_remain_unschedulable.iter().any(|remaining| remaining.pod == *pod) {
        return ScaleUpOutcome::NoGroupHelps;
    }
    ScaleUpOutcome::OtherGroupChosen
}
