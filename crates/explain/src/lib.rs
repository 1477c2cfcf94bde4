//! Explanations of the decisions of a scheduler and an autoscaler about a recorded pod or node, with the recorded
//! outcome.
//!
//! A pod that was bound is explained as of just before its binding, a pending one as of the requested moment. Every
//! node is evaluated with kube-scheduler's rules. The autoscaler is stateful, so the time before is replayed into it;
//! its decisions have no effect.

mod autoscaler_replay;
mod cluster_state;
mod json;
mod manifest;
pub mod node;
mod not_found;
mod pod_lifetime;
mod pod_outcome;

use std::sync::Arc;

use anyhow::bail;
use model::{Key, Kind, Moment, NamespacedName, Object};
use query::autoscaler_choice::{self, AutoscalerChoice, NodeGroupsSource};
use query::scheduler_choice::{self, SchedulerChoice};
use query::{AsOf, OpenHistory, ProgressListener};
use scheduler::{Decision, Explanation, KINDS, Plugin, Profile, Scheduler};
use serde_json::Value;

pub use self::autoscaler_replay::{
    AutoscalerReplay, PodLoopResults, ScaleUpOutcome, ScaleUpSearch, TriggeredScaleUp,
};
pub use self::cluster_state::ClusterState;
pub use self::manifest::Manifest;
pub use self::not_found::NotFound;
pub use self::pod_lifetime::PodLifetime;
pub use self::pod_outcome::{ObservedPodOutcome, RecordedEvent, repetitions};

/// The pod to explain.
#[derive(Debug)]
pub enum Subject {
    /// A recorded pod.
    Recorded {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A hypothetical pod.
    Manifest {
        /// The pod, or a workload that creates it.
        manifest: Manifest,
        /// Its namespace; `None` for that of the manifest.
        namespace: Option<String>,
    },
}

/// Settings of the scheduler and the autoscaler.
pub struct ExplainOptions<'a> {
    /// The scheduler.
    pub scheduler: scheduler_choice::SchedulerOptions<'a>,
    /// The autoscaler.
    pub autoscaler: autoscaler_choice::AutoscalerOptions<'a>,
}

/// The pod to explain, and the moment.
pub struct PodSnapshot {
    /// The moment.
    pub as_of: AsOf,
    /// Why that moment, as text that follows it.
    pub why: String,
    /// The pod, if it differs from the one in the history at that moment.
    pub pod: Option<Object>,
    /// The key of the pod.
    pub key: Key,
    /// The owner of the pod, if it is not in the history.
    pub owner: Option<Object>,
    /// The recorded lifetime; `None` for a hypothetical pod.
    pub lifetime: Option<PodLifetime>,
}

/// The explanation of a pod.
pub struct ExplainedPod {
    /// The pod, and the moment.
    pub snapshot: PodSnapshot,
    /// The scheduler's settings.
    pub scheduler: SchedulerChoice,
    /// The cluster as the scheduler knew it.
    pub cluster: ClusterState,
    /// Its decision, and the verdict and scores of every node.
    pub explanation: Explanation,
    /// The scale-up decisions for the pod, where node groups are known.
    pub scaling: Option<PodScaling>,
    /// The recorded outcome; `None` for a hypothetical pod.
    pub outcome: Option<ObservedPodOutcome>,
}

/// The decisions of an autoscaler about a pod.
pub struct PodScaling {
    /// Its settings and node groups.
    pub autoscaler: AutoscalerChoice,
    /// The time that was replayed into it.
    pub replay: AutoscalerReplay,
    /// Its decisions about the pod.
    pub results: PodLoopResults,
}

/// Explains a pod, at a moment or when it was bound.
pub fn explain_pod(
    open_history: &OpenHistory,
    source: Arc<str>,
    subject: &Subject,
    at: Option<Moment>,
    settings: &ExplainOptions<'_>,
    listener: &mut dyn ProgressListener,
) -> anyhow::Result<ExplainedPod> {
    if !has_nodes(open_history)? {
        bail!(
            "{} has no nodes: the scheduling of pods cannot be explained",
            open_history.history.path().display()
        );
    }
    let snapshot = match subject {
        Subject::Recorded { namespace, name } => {
            let key = Key {
                source,
                kind: Kind::new("", "Pod"),
                namespace: namespace.as_str().into(),
                name: name.as_str().into(),
            };
            pod_lifetime::recorded_snapshot(open_history, key, at)?
        }
        Subject::Manifest { manifest, namespace } => {
            manifest::manifest_snapshot(open_history, &source, manifest, namespace.as_deref(), at, listener)?
        }
    };
    explain_snapshot(open_history, snapshot, settings, listener)
}

fn has_nodes(open_history: &OpenHistory) -> anyhow::Result<bool> {
    Ok(open_history.history.kinds()?.contains(&Kind::new("", "Node")))
}

fn explain_snapshot(
    open_history: &OpenHistory,
    snapshot: PodSnapshot,
    settings: &ExplainOptions<'_>,
    listener: &mut dyn ProgressListener,
) -> anyhow::Result<ExplainedPod> {
    let source = snapshot.key.source.clone();
    let moment = snapshot.as_of.moment();
    warn_of_gaps(open_history, &source, moment, listener)?;
    let choice = SchedulerChoice::resolve(open_history, &source, &[moment], &settings.scheduler)?;
    for sentence in &choice.settings.unsupported_features {
        listener.warn(sentence);
    }
    let mut cluster = ClusterState::read(open_history, &source, snapshot.as_of, &snapshot.key)?;
    if cluster.has_never_had_nodes() {
        bail!(
            "no nodes existed {}: {}",
            snapshot.as_of,
            match cluster_state::first_node_seen(open_history, &source)? {
                Some(at) => format!("the first node was seen at {at}"),
                None => "no node was recorded".to_owned(),
            }
        );
    }
    if let Some(pod) = &snapshot.pod {
        cluster.put(&snapshot.key, pod.clone());
    }
    if let Some(owner) = &snapshot.owner {
        cluster.put(&owner.key(&source), owner.clone());
    }
    let mut scheduler = Scheduler::new(choice.settings.clone());
    cluster.apply_to(&mut scheduler, moment);
    let explanation = match scheduler.explain(moment, &snapshot.key.namespace, &snapshot.key.name) {
        Some(explanation) => explanation,
        None => bail!("{} had finished {}: nothing to schedule", snapshot.key, snapshot.as_of),
    };
    let observed = snapshot
        .lifetime
        .as_ref()
        .map(|lifetime| ObservedPodOutcome::read(open_history, &snapshot, lifetime))
        .transpose()?;
    let scaling = replay_scale_up(open_history, &snapshot, &explanation, &settings.autoscaler, listener)?;
    Ok(ExplainedPod { snapshot, scheduler: choice, cluster, explanation, scaling, outcome: observed })
}

/// Replays an autoscaler for a pod: if the pod is or was unschedulable and groups are known, or on request.
fn replay_scale_up(
    open_history: &OpenHistory,
    snapshot: &PodSnapshot,
    explanation: &Explanation,
    options: &autoscaler_choice::AutoscalerOptions<'_>,
    listener: &mut dyn ProgressListener,
) -> anyhow::Result<Option<PodScaling>> {
    let is_refused = matches!(explanation.decision, Decision::Unschedulable(_));
    let is_pending =
        is_refused || snapshot.lifetime.as_ref().is_some_and(|lifetime| lifetime.was_unschedulable);
    if !is_pending && !options.has_any() {
        return Ok(None);
    }
    let (source, moment) = (&snapshot.key.source, snapshot.as_of.moment());
    let choice = AutoscalerChoice::resolve(open_history, source, snapshot.as_of, options)?;
    if !choice.has_known_groups() && !options.has_any() {
        return Ok(None);
    }
    if let NodeGroupsSource::NoGroups = choice.groups_source {
        listener.warn(&choice.no_groups_message(open_history, snapshot.as_of).to_string());
        return Ok(None);
    }
    for sentence in choice.warnings() {
        listener.warn(&sentence.to_string());
    }
    let mut extra_objects: Vec<Object> = Vec::new();
    if snapshot.lifetime.is_none() && is_refused {
        extra_objects.extend(snapshot.owner.clone());
        extra_objects.extend(snapshot.pod.as_ref().map(|pod| unschedulable(pod, moment)).transpose()?);
    }
    let mut results = PodLoopResults::new(NamespacedName {
        namespace: snapshot.key.namespace.clone(),
        name: snapshot.key.name.clone(),
    });
    let replay = autoscaler_replay::replay_autoscaler(
        listener,
        open_history,
        source,
        &choice,
        snapshot.as_of,
        &extra_objects,
        |loop_result, autoscaler, _| {
            results.observe(loop_result, autoscaler);
        },
    )?;
    if snapshot.lifetime.is_none() && matches!(explanation.decision, Decision::Scheduled(_)) {
        results.outcome = Some(ScaleUpOutcome::Scheduled);
    }
    Ok(Some(PodScaling { autoscaler: choice, replay, results }))
}

/// Warns of gaps at a moment that concern kinds the scheduler reads.
fn warn_of_gaps(
    open_history: &OpenHistory,
    source: &Arc<str>,
    moment: Moment,
    listener: &mut dyn ProgressListener,
) -> anyhow::Result<()> {
    for gap in open_history.history.gaps()? {
        let concerns = KINDS.iter().any(|(group, kind)| gap.concerns(&Kind::new(group, kind)));
        if gap.source == *source && concerns && gap.from <= moment && moment < gap.to {
            listener.warn(&query::gap_as_text(&gap));
        }
    }
    Ok(())
}

/// Returns a pod that has been pending for a while and is marked unschedulable.
fn unschedulable(pod: &Object, now: Moment) -> anyhow::Result<Object> {
    const WAITED: i64 = 60_000_000_000;
    let mut pod = pod.value()?;
    pod["metadata"]["creationTimestamp"] = now.plus_nanos(-WAITED).to_string().into();
    pod["status"]["conditions"] =
        serde_json::json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    Ok(Object::parse(&pod.to_string())?)
}

// === impl ExplainedPod ===

impl ExplainedPod {
    /// The explanation as JSON.
    pub fn to_json(&self) -> Value {
        json::pod_document(self)
    }

    /// The message that kube-scheduler writes to the pod; `None` if the pod is placed or not scheduled by it.
    pub fn message(&self) -> Option<String> {
        match &self.explanation.decision {
            Decision::Unschedulable(rejection) => Some(rejection.full_message()),
            Decision::Failed(message_text) => Some(message_text.clone()),
            // Of all skipped pods only these get a message.
            Decision::Skipped(message_text) if message_text.starts_with("skip schedule deleting pod") => {
                Some(message_text.clone())
            }
            Decision::Scheduled(_) | Decision::Gated(_) | Decision::Skipped(_) => None,
        }
    }

    /// The message as in an Event.
    pub fn event_message(&self) -> Option<String> {
        match &self.explanation.decision {
            Decision::Unschedulable(rejection) => Some(rejection.event_message()),
            _ => self.message(),
        }
    }

    /// Why the pod is not tried, where kube-scheduler writes no message to it.
    pub fn reason(&self) -> Option<String> {
        match &self.explanation.decision {
            Decision::Gated(status) => Some(status.message()),
            Decision::Skipped(message_text) if self.message().is_none() => Some(message_text.clone()),
            _ => None,
        }
    }

    /// Whether the manifest is not a valid pod.
    pub fn is_invalid_manifest(&self) -> bool {
        let refused_by = self.explanation.pre_filter_status.as_ref().map(|status| status.plugin);
        self.snapshot.lifetime.is_none() && refused_by == Some(Plugin::Unreadable)
    }

    /// The node that the pod was bound to in the recording.
    pub fn recorded_node(&self) -> Option<&str> {
        self.outcome.as_ref()?.bound.as_ref().map(|(node, _)| node.as_str())
    }

    /// The scheduler profile of the pod; `None` if there is none.
    pub fn profile(&self) -> Option<&Profile> {
        self.scheduler.profile(&self.cluster.scheduler_name(&self.snapshot.key))
    }
}
