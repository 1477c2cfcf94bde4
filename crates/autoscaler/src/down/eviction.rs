//! Emptying a node: its pods are asked to leave, those of lesser priority first, and waited for.

use std::collections::VecDeque;
use std::sync::Arc;

use kubernetes::time::{after, seconds};
use model::{Moment, NamespacedName};

use super::super::AutoscalingContext;
use super::super::decision::{About, Action, Event};
use super::super::pod::Pod;
use super::super::settings::Settings;
use super::drainability::DEFAULT_GRACE;

const ENABLE_DAEMON_SET_EVICTION: &str = "cluster-autoscaler.kubernetes.io/enable-ds-eviction";
/// A refused eviction is tried again after so long, in seconds.
const RETRY: i64 = 10;
/// How often it is looked whether pods are gone, in seconds.
const POLL: i64 = 5;
/// How much longer than its grace period a pod may take, in seconds.
const HEADROOM: i64 = 30;

/// The emptying of a node.
#[derive(Debug)]
pub(super) struct Eviction {
    /// The first is being worked on.
    buckets: VecDeque<Bucket>,
    phase: Phase,
}

/// Pods that leave together.
#[derive(Debug)]
struct Bucket {
    /// The longest that any of them gets, in seconds.
    grace: i64,
    /// Pods that must be gone.
    must: Vec<Guest>,
    /// Pods that are asked, and not waited for.
    may: Vec<Guest>,
}

/// A pod that is asked to leave.
#[derive(Clone, Debug)]
struct Guest {
    pod: NamespacedName,
    uid: Arc<str>,
    /// In seconds.
    grace: i64,
}

#[derive(Debug)]
enum Phase {
    /// Nobody of the first bucket was asked yet.
    Begin,
    /// They were asked at this moment, by now for the last time or not.
    Asked { at: Moment, until: Moment },
    /// Some refused; they are asked again.
    Refused { again: Moment, until: Moment },
    /// All go; those who must are waited for.
    Leaving { since: Moment, next: Moment },
}

/// How far the emptying of a node is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// To be looked at again at this moment.
    Until(Moment),
    Done,
    Failed(String),
}

// === impl Eviction ===

impl Eviction {
    /// Of a node with these pods. One that is empty has only pods of DaemonSets, which may be asked to leave too.
    pub(super) fn new(settings: &Settings, pods: &[Arc<Pod>], drain: bool) -> Eviction {
        let by_default = match drain {
            true => settings.daemonset_eviction_for_occupied_nodes,
            false => settings.daemonset_eviction_for_empty_nodes,
        };
        let by_priority = !settings.drain_priority_config.is_empty();
        let all_alike = [(i32::MAX, settings.max_graceful_termination_sec)];
        let classes = if by_priority { &*settings.drain_priority_config } else { &all_alike };
        let bucket = |(_, grace): &(i32, i64)| Bucket { grace: *grace, must: Vec::new(), may: Vec::new() };
        let mut buckets: VecDeque<Bucket> = classes.iter().map(bucket).collect();
        let (of_daemon_sets, others): (Vec<&Arc<Pod>>, Vec<_>) =
            pods.iter().filter(|pod| !pod.is_mirror()).partition(|pod| pod.is_of_daemon_set());
        for pod in others.into_iter().filter(|_| drain) {
            let bucket = &mut buckets[class_of(classes, pod)];
            bucket.must.push(Guest::of(pod, bucket.grace));
        }
        for pod in of_daemon_sets {
            let may_be_asked = match pod.annotation(ENABLE_DAEMON_SET_EVICTION) {
                Some(said) => said == "true",
                None => by_default,
            };
            if !may_be_asked {
                continue;
            }
            let bucket = &mut buckets[class_of(classes, pod)];
            let guest = Guest::of(pod, bucket.grace);
            if drain && by_priority { bucket.must.push(guest) } else { bucket.may.push(guest) }
        }
        buckets.retain(|bucket| !(bucket.must.is_empty() && bucket.may.is_empty()));
        Eviction { buckets, phase: Phase::Begin }
    }

    /// When there is something to do.
    pub(super) fn wake(&self) -> Moment {
        match self.phase {
            Phase::Begin => Moment::MIN,
            Phase::Asked { at, .. } => at,
            Phase::Refused { again, .. } => again,
            Phase::Leaving { next, .. } => next,
        }
    }

    /// Goes on as far as can be until somebody did what is asked for.
    pub(super) fn step(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        node: &str,
        actions: &mut Vec<Action>,
    ) -> Progress {
        let now = context.clock.now();
        while let Some(bucket) = self.buckets.front() {
            match self.phase {
                Phase::Begin => {
                    for guest in bucket.all() {
                        tell(context, guest, false, "ScaleDown", "deleting pod for node scale down");
                        actions.push(guest.evict());
                    }
                    let until = after(now, context.settings.max_pod_eviction_time);
                    self.phase = Phase::Asked { at: now, until };
                    return Progress::Until(now);
                }
                Phase::Asked { at, until } => {
                    if bucket.all().any(|guest| guest.stays(context, node)) {
                        self.phase = Phase::Refused { again: at.plus_nanos(seconds(RETRY)), until };
                    } else {
                        self.phase = Phase::Leaving { since: now, next: now };
                    }
                }
                Phase::Refused { again, .. } if now < again => return Progress::Until(again),
                Phase::Refused { until, .. } if now < until => {
                    let refused = bucket.all().filter(|guest| guest.stays(context, node));
                    actions.extend(refused.map(Guest::evict));
                    self.phase = Phase::Asked { at: now, until };
                    return Progress::Until(now);
                }
                Phase::Refused { .. } => {
                    let refused: Vec<&Guest> =
                        bucket.must.iter().filter(|guest| guest.stays(context, node)).collect();
                    if !refused.is_empty() {
                        for guest in &refused {
                            tell(
                                context,
                                guest,
                                true,
                                "ScaleDownFailed",
                                "failed to delete pod for ScaleDown",
                            );
                        }
                        return Progress::Failed(refusal(node, &refused));
                    }
                    self.phase = Phase::Leaving { since: now, next: now };
                }
                Phase::Leaving { since, next } => {
                    if now < next {
                        return Progress::Until(next);
                    }
                    let patience = seconds(bucket.grace).saturating_add(seconds(HEADROOM));
                    if now.nanos_since(since) >= patience {
                        return Progress::Failed(format!(
                            "Failed to drain node /{node}: pods remaining after timeout"
                        ));
                    }
                    if bucket.must.iter().any(|guest| guest.is_there(context, node)) {
                        self.phase = Phase::Leaving { since, next: now.plus_nanos(seconds(POLL)) };
                    } else {
                        self.buckets.pop_front();
                        self.phase = Phase::Begin;
                    }
                }
            }
        }
        Progress::Done
    }
}

// === impl Bucket ===

impl Bucket {
    fn all(&self) -> impl Iterator<Item = &Guest> {
        self.must.iter().chain(&self.may)
    }
}

// === impl Guest ===

impl Guest {
    fn of(pod: &Pod, longest: i64) -> Guest {
        let grace = pod.grace.unwrap_or(DEFAULT_GRACE);
        let grace = if longest > 0 { grace.min(longest) } else { grace };
        Guest { pod: pod.name.clone(), uid: pod.uid.clone(), grace }
    }

    fn evict(&self) -> Action {
        Action::Evict { pod: self.pod.clone(), grace: self.grace }
    }

    /// Whether it does not even go.
    fn stays(&self, context: &AutoscalingContext<'_>, node: &str) -> bool {
        let pod = context.cluster.find_pod(&self.pod).map(|id| context.cluster.snapshot.pod(id));
        pod.is_some_and(|pod| pod.uid == self.uid && pod.deleted.is_none() && is_on(pod, node))
    }

    /// Whether a pod of its name is on the node.
    fn is_there(&self, context: &AutoscalingContext<'_>, node: &str) -> bool {
        let pod = context.cluster.find_pod(&self.pod).map(|id| context.cluster.snapshot.pod(id));
        pod.is_some_and(|pod| is_on(pod, node))
    }
}

fn is_on(pod: &Pod, node: &str) -> bool {
    pod.node.as_deref() == Some(node)
}

/// The class of a pod: the last whose priority it reaches, or the first.
fn class_of(classes: &[(i32, i64)], pod: &Pod) -> usize {
    let priority = pod.priority.unwrap_or(0);
    let place = classes.partition_point(|(from, _)| *from < priority);
    // Of classes that begin at one priority the first counts.
    let is_exact = classes.get(place).is_some_and(|(from, _)| *from == priority);
    if is_exact { place } else { place.saturating_sub(1) }
}

fn refusal(node: &str, refused: &[&Guest]) -> String {
    let each = refused.iter().map(|guest| {
        let NamespacedName { namespace, name } = &guest.pod;
        format!(
            "failed to evict pod {namespace}/{name} within allowed timeout (last error: Cannot evict pod as it would violate the pod's disruption budget.)"
        )
    });
    let each: Vec<String> = each.collect();
    format!("Failed to drain node /{node}, due to following errors: [{}]", each.join(" "))
}

fn tell(
    context: &mut AutoscalingContext<'_>,
    guest: &Guest,
    warning: bool,
    reason: &'static str,
    message: &str,
) {
    let about = About::Pod(guest.pod.clone());
    context.events.push(Event { about, warning, reason, message: message.to_owned() });
}
