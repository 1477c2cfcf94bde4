//! The drain of a node: its pods are evicted, lower priorities first, and awaited.

use std::collections::VecDeque;
use std::sync::Arc;

use kubernetes::time::{after, seconds};
use model::{Moment, NamespacedName};

use super::super::AutoscalingContext;
use super::super::decision::{Action, Event, InvolvedObject};
use super::super::pod::Pod;
use super::super::settings::Settings;
use super::drainability::DEFAULT_GRACE_SECONDS;

const ENABLE_DAEMON_SET_EVICTION: &str = "cluster-autoscaler.kubernetes.io/enable-ds-eviction";
/// The interval between retries of a refused eviction, in seconds.
const EVICTION_RETRY_SECONDS: i64 = 10;
/// The interval at which it is checked whether pods are gone, in seconds.
const POLL_INTERVAL_SECONDS: i64 = 5;
/// The time that a pod may take beyond its grace period, in seconds.
const POD_EVICTION_HEADROOM_SECONDS: i64 = 30;

/// The drain of a node.
#[derive(Debug)]
pub(super) struct NodeDrain {
    /// The first one is in progress.
    buckets: VecDeque<EvictionBucket>,
    phase: DrainPhase,
}

/// Pods that are evicted together.
#[derive(Debug)]
struct EvictionBucket {
    /// Their maximum grace period in seconds.
    max_grace_seconds: i64,
    /// Pods whose termination is awaited.
    full_eviction_pods: Vec<PodEviction>,
    /// Pods that are evicted with best effort and not awaited.
    best_effort_eviction_pods: Vec<PodEviction>,
}

/// The eviction of a pod.
#[derive(Clone, Debug)]
struct PodEviction {
    pod: NamespacedName,
    uid: Arc<str>,
    /// In seconds.
    grace_seconds: i64,
}

#[derive(Debug)]
enum DrainPhase {
    /// No pod of the first bucket was evicted yet.
    NotStarted,
    /// Evictions were requested at this moment, and are retried before `until`.
    EvictionRequested { at: Moment, until: Moment },
    /// Some evictions were refused, and are retried.
    EvictionRefused { again: Moment, until: Moment },
    /// All evictions were accepted; the termination of pods is awaited.
    AwaitingTermination { since: Moment, next: Moment },
}

/// The progress of a drain.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DrainProgress {
    /// To be continued at this moment.
    WaitUntil(Moment),
    Done,
    Failed(String),
}

// === impl NodeDrain ===

impl NodeDrain {
    /// For a node with these pods. Of a node that is not drained only DaemonSet pods may be evicted.
    pub(super) fn new(settings: &Settings, pods: &[Arc<Pod>], drain: bool) -> NodeDrain {
        let by_default = match drain {
            true => settings.daemonset_eviction_for_occupied_nodes,
            false => settings.daemonset_eviction_for_empty_nodes,
        };
        let by_priority = !settings.drain_priority_config.is_empty();
        let single_bucket = [(i32::MAX, settings.max_graceful_termination_sec)];
        let classes = if by_priority { &*settings.drain_priority_config } else { &single_bucket };
        let bucket = |(_, grace): &(i32, i64)| EvictionBucket {
            max_grace_seconds: *grace,
            full_eviction_pods: Vec::new(),
            best_effort_eviction_pods: Vec::new(),
        };
        let mut buckets: VecDeque<EvictionBucket> = classes.iter().map(bucket).collect();
        let (daemon_set_pods, others): (Vec<&Arc<Pod>>, Vec<_>) =
            pods.iter().filter(|pod| !pod.is_mirror()).partition(|pod| pod.is_daemon_set_pod());
        for pod in others.into_iter().filter(|_| drain) {
            let bucket = &mut buckets[bucket_index(classes, pod)];
            bucket.full_eviction_pods.push(PodEviction::of(pod, bucket.max_grace_seconds));
        }
        for pod in daemon_set_pods {
            let should_evict = match pod.annotation(ENABLE_DAEMON_SET_EVICTION) {
                Some(annotation) => annotation == "true",
                None => by_default,
            };
            if !should_evict {
                continue;
            }
            let bucket = &mut buckets[bucket_index(classes, pod)];
            let eviction = PodEviction::of(pod, bucket.max_grace_seconds);
            if drain && by_priority {
                bucket.full_eviction_pods.push(eviction)
            } else {
                bucket.best_effort_eviction_pods.push(eviction)
            }
        }
        buckets.retain(|bucket| {
            !(bucket.full_eviction_pods.is_empty() && bucket.best_effort_eviction_pods.is_empty())
        });
        NodeDrain { buckets, phase: DrainPhase::NotStarted }
    }

    /// When it has to be continued.
    pub(super) fn next_wake(&self) -> Moment {
        match self.phase {
            DrainPhase::NotStarted => Moment::MIN,
            DrainPhase::EvictionRequested { at, .. } => at,
            DrainPhase::EvictionRefused { again, .. } => again,
            DrainPhase::AwaitingTermination { next, .. } => next,
        }
    }

    /// Continues as far as possible until the caller has carried out the actions.
    pub(super) fn step(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        node: &str,
        actions: &mut Vec<Action>,
    ) -> DrainProgress {
        let now = context.clock.now();
        while let Some(bucket) = self.buckets.front() {
            match self.phase {
                DrainPhase::NotStarted => {
                    for eviction in bucket.all() {
                        emit_pod_event(
                            context,
                            eviction,
                            false,
                            "ScaleDown",
                            "deleting pod for node scale down",
                        );
                        actions.push(eviction.action());
                    }
                    let until = after(now, context.settings.max_pod_eviction_time);
                    self.phase = DrainPhase::EvictionRequested { at: now, until };
                    return DrainProgress::WaitUntil(now);
                }
                DrainPhase::EvictionRequested { at, until } => {
                    if bucket.all().any(|eviction| eviction.is_not_terminating(context, node)) {
                        self.phase = DrainPhase::EvictionRefused {
                            again: at.plus_nanos(seconds(EVICTION_RETRY_SECONDS)),
                            until,
                        };
                    } else {
                        self.phase = DrainPhase::AwaitingTermination { since: now, next: now };
                    }
                }
                DrainPhase::EvictionRefused { again: retry_at, .. } if now < retry_at => {
                    return DrainProgress::WaitUntil(retry_at);
                }
                DrainPhase::EvictionRefused { until, .. } if now < until => {
                    let refused = bucket.all().filter(|eviction| eviction.is_not_terminating(context, node));
                    actions.extend(refused.map(PodEviction::action));
                    self.phase = DrainPhase::EvictionRequested { at: now, until };
                    return DrainProgress::WaitUntil(now);
                }
                DrainPhase::EvictionRefused { .. } => {
                    let refused: Vec<&PodEviction> = bucket
                        .full_eviction_pods
                        .iter()
                        .filter(|eviction| eviction.is_not_terminating(context, node))
                        .collect();
                    if !refused.is_empty() {
                        for eviction in &refused {
                            emit_pod_event(
                                context,
                                eviction,
                                true,
                                "ScaleDownFailed",
                                "failed to delete pod for ScaleDown",
                            );
                        }
                        return DrainProgress::Failed(drain_error(node, &refused));
                    }
                    self.phase = DrainPhase::AwaitingTermination { since: now, next: now };
                }
                DrainPhase::AwaitingTermination { since, next } => {
                    if now < next {
                        return DrainProgress::WaitUntil(next);
                    }
                    let timeout = seconds(bucket.max_grace_seconds)
                        .saturating_add(seconds(POD_EVICTION_HEADROOM_SECONDS));
                    if now.nanos_since(since) >= timeout {
                        return DrainProgress::Failed(format!(
                            "Failed to drain node /{node}: pods remaining after timeout"
                        ));
                    }
                    if bucket.full_eviction_pods.iter().any(|eviction| eviction.is_on_node(context, node)) {
                        self.phase = DrainPhase::AwaitingTermination {
                            since,
                            next: now.plus_nanos(seconds(POLL_INTERVAL_SECONDS)),
                        };
                    } else {
                        self.buckets.pop_front();
                        self.phase = DrainPhase::NotStarted;
                    }
                }
            }
        }
        DrainProgress::Done
    }
}

// === impl EvictionBucket ===

impl EvictionBucket {
    fn all(&self) -> impl Iterator<Item = &PodEviction> {
        self.full_eviction_pods.iter().chain(&self.best_effort_eviction_pods)
    }
}

// === impl PodEviction ===

impl PodEviction {
    fn of(pod: &Pod, longest: i64) -> PodEviction {
        let grace = pod.spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS);
        let grace = if longest > 0 { grace.min(longest) } else { grace };
        PodEviction { pod: pod.name.clone(), uid: pod.uid.clone(), grace_seconds: grace }
    }

    fn action(&self) -> Action {
        Action::Evict { pod: self.pod.clone(), grace: self.grace_seconds }
    }

    /// Whether it is still on the node and not terminating.
    fn is_not_terminating(&self, context: &AutoscalingContext<'_>, node: &str) -> bool {
        let pod = context.cluster.find_pod(&self.pod).map(|id| context.cluster.snapshot.pod(id));
        pod.is_some_and(|pod| pod.uid == self.uid && pod.deletion_timestamp.is_none() && is_on(pod, node))
    }

    /// Whether a pod of its name is on the node.
    fn is_on_node(&self, context: &AutoscalingContext<'_>, node: &str) -> bool {
        let pod = context.cluster.find_pod(&self.pod).map(|id| context.cluster.snapshot.pod(id));
        pod.is_some_and(|pod| is_on(pod, node))
    }
}

fn is_on(pod: &Pod, node: &str) -> bool {
    pod.node_name.as_deref() == Some(node)
}

/// The bucket of a pod: the last one whose priority it reaches, or the first.
fn bucket_index(classes: &[(i32, i64)], pod: &Pod) -> usize {
    let priority = pod.spec.priority.unwrap_or(0);
    let index = classes.partition_point(|(from, _)| *from < priority);
    // Of buckets with equal priority the first counts.
    let is_exact = classes.get(index).is_some_and(|(from, _)| *from == priority);
    if is_exact { index } else { index.saturating_sub(1) }
}

fn drain_error(node: &str, refused: &[&PodEviction]) -> String {
    let messages = refused.iter().map(|eviction| {
        let NamespacedName { namespace, name } = &eviction.pod;
        format!(
            "failed to evict pod {namespace}/{name} within allowed timeout (last error: Cannot evict pod as it would violate the pod's disruption budget.)"
        )
    });
    let messages: Vec<String> = messages.collect();
    format!("Failed to drain node /{node}, due to following errors: [{}]", messages.join(" "))
}

fn emit_pod_event(
    context: &mut AutoscalingContext<'_>,
    eviction: &PodEviction,
    warning: bool,
    reason: &'static str,
    message: &str,
) {
    let involved_object = InvolvedObject::Pod(eviction.pod.clone());
    context.events.push(Event { involved_object, is_warning: warning, reason, message: message.to_owned() });
}
