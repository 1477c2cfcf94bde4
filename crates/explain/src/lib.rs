//! How a scheduler and an autoscaler decide about a pod, or an autoscaler about a node, and what really happened.
//!
//! A pod that was placed is explained as of just before it was bound, one that waited as of the moment asked for. Every
//! node is asked with kube-scheduler's rules; an autoscaler watches the time before, for it remembers, and what it decides
//! has no effect.

mod happened;
mod json;
mod life;
mod manifest;
pub mod node;
mod played;
mod seen;
mod state;

use std::sync::Arc;

use anyhow::bail;
use model::{Key, Kind, Moment, NamespacedName, Object};
use query::autoscaler_setup::{self, GroupsBy, Setup};
use query::scheduler_settings::{self, Which};
use query::{AsOf, Chosen, Listener};
use scheduler::{Decision, Explanation, KINDS, Plugin, Profile, Scheduler};
use serde_json::Value;

pub use self::happened::{Happened, Said, times};
pub use self::life::Life;
pub use self::manifest::Manifest;
pub use self::played::{Outcome, Played, PodSeen, Search, Triggered};
pub use self::state::State;

/// The pod that is asked about.
#[derive(Debug)]
pub enum Subject {
    /// One that was recorded.
    Recorded {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// One that never was.
    Manifest {
        /// It, or the workload that makes it.
        manifest: Manifest,
        /// Where it would be; `None`: where the manifest says.
        namespace: Option<String>,
    },
}

/// How those who decide are set.
pub struct Settings<'a> {
    /// The scheduler.
    pub scheduler: scheduler_settings::Asked<'a>,
    /// The autoscaler.
    pub autoscaler: autoscaler_setup::Asked<'a>,
}

/// What is to be explained: a pod, and as of when.
pub struct Case {
    /// The moment.
    pub as_of: AsOf,
    /// Why that moment, in words that follow it.
    pub why: String,
    /// The pod if it is not the one that the history has at that moment.
    pub pod: Option<Object>,
    /// The pod by name.
    pub key: Key,
    /// What the pod belongs to, if that is not in the history either.
    pub owner: Option<Object>,
    /// What the history knows of it; `None` of one that never was.
    pub life: Option<Life>,
}

/// All there is to show.
pub struct PodExplanation {
    /// The pod, and as of when.
    pub case: Case,
    /// The scheduler that was asked.
    pub which: Which,
    /// The cluster as it knew it.
    pub state: State,
    /// What it decided, and every node's verdict and scores.
    pub explanation: Explanation,
    /// What an autoscaler would do about it, where node groups are known.
    pub scaling: Option<Scaling>,
    /// What really happened; `None` to a pod that never was.
    pub happened: Option<Happened>,
}

/// An autoscaler, and what it makes of a pod.
pub struct Scaling {
    /// How it was set, and its groups.
    pub setup: Setup,
    /// What it watched.
    pub played: Played,
    /// What it said of the pod.
    pub seen: PodSeen,
}

/// Explains a pod, at a moment or when it was decided about.
pub fn pod(
    chosen: &Chosen,
    source: Arc<str>,
    subject: &Subject,
    at: Option<Moment>,
    settings: &Settings<'_>,
    listener: &mut dyn Listener,
) -> anyhow::Result<PodExplanation> {
    if !has_nodes(chosen)? {
        bail!("{} holds no nodes: nothing can be said of where a pod goes", chosen.history.path().display());
    }
    let case = match subject {
        Subject::Recorded { namespace, name } => {
            let key = Key {
                source,
                kind: Kind::new("", "Pod"),
                namespace: namespace.as_str().into(),
                name: name.as_str().into(),
            };
            life::case(chosen, key, at)?
        }
        Subject::Manifest { manifest, namespace } => {
            manifest::case(chosen, &source, manifest, namespace.as_deref(), at, listener)?
        }
    };
    explain(chosen, case, settings, listener)
}

fn has_nodes(chosen: &Chosen) -> anyhow::Result<bool> {
    Ok(chosen.history.kinds()?.contains(&Kind::new("", "Node")))
}

fn explain(
    chosen: &Chosen,
    case: Case,
    settings: &Settings<'_>,
    listener: &mut dyn Listener,
) -> anyhow::Result<PodExplanation> {
    let source = case.key.source.clone();
    let moment = case.as_of.moment();
    tell_gaps(chosen, &source, moment, listener)?;
    let which = Which::choose(chosen, &source, &[moment], &settings.scheduler)?;
    for sentence in &which.settings.left_out {
        listener.warn(sentence);
    }
    let mut state = State::read(chosen, &source, case.as_of, &case.key)?;
    if state.is_before_nodes() {
        bail!(
            "there was no node yet {}: the first one {}",
            case.as_of,
            match state::first_node(chosen, &source)? {
                Some(at) => format!("was seen at {at}"),
                None => "is still to be seen".to_owned(),
            }
        );
    }
    if let Some(pod) = &case.pod {
        state.put(&case.key, pod.clone());
    }
    if let Some(owner) = &case.owner {
        state.put(&owner.key(&source), owner.clone());
    }
    let mut scheduler = Scheduler::new(which.settings.clone());
    state.feed(&mut scheduler, moment);
    let explanation = match scheduler.explain(moment, &case.key.namespace, &case.key.name) {
        Some(explanation) => explanation,
        None => bail!("{} had run to its end {}: there is nothing to decide", case.key, case.as_of),
    };
    let happened = case.life.as_ref().map(|life| Happened::read(chosen, &case, life)).transpose()?;
    let scaling = scaling(chosen, &case, &explanation, &settings.autoscaler, listener)?;
    Ok(PodExplanation { case, which, state, explanation, scaling, happened })
}

/// What an autoscaler would do about a pod: if it waits or waited and groups are known, or if that is asked for.
fn scaling(
    chosen: &Chosen,
    case: &Case,
    explanation: &Explanation,
    asked: &autoscaler_setup::Asked<'_>,
    listener: &mut dyn Listener,
) -> anyhow::Result<Option<Scaling>> {
    let is_refused = matches!(explanation.decision, Decision::Refused(_));
    let waits = is_refused || case.life.as_ref().is_some_and(|life| life.was_refused);
    if !waits && !asked.is_something() {
        return Ok(None);
    }
    let (source, moment) = (&case.key.source, case.as_of.moment());
    let setup = Setup::choose(chosen, source, case.as_of, asked)?;
    if !setup.is_known() && !asked.is_something() {
        return Ok(None);
    }
    if let GroupsBy::Nobody = setup.groups_by {
        listener.warn(&setup.groupless(chosen, case.as_of).to_string());
        return Ok(None);
    }
    for sentence in setup.warnings() {
        listener.warn(&sentence.to_string());
    }
    let mut put: Vec<Object> = Vec::new();
    if case.life.is_none() && is_refused {
        put.extend(case.owner.clone());
        put.extend(case.pod.as_ref().map(|pod| refused(pod, moment)).transpose()?);
    }
    let mut seen =
        PodSeen::new(NamespacedName { namespace: case.key.namespace.clone(), name: case.key.name.clone() });
    let played = played::play(listener, chosen, source, &setup, case.as_of, &put, |done, autoscaler, _| {
        seen.see(done, autoscaler);
    })?;
    if case.life.is_none() && matches!(explanation.decision, Decision::Placed(_)) {
        seen.outcome = Some(Outcome::Scheduled);
    }
    Ok(Some(Scaling { setup, played, seen }))
}

/// Tells of the times around a moment in which something may have been missed that matters.
fn tell_gaps(
    chosen: &Chosen,
    source: &Arc<str>,
    moment: Moment,
    listener: &mut dyn Listener,
) -> anyhow::Result<()> {
    for gap in chosen.history.gaps()? {
        let concerns = KINDS.iter().any(|(group, kind)| gap.concerns(&Kind::new(group, kind)));
        if gap.source == *source && concerns && gap.from <= moment && moment < gap.to {
            listener.warn(&query::gap_in_words(&gap));
        }
    }
    Ok(())
}

/// A pod that waits for a while, and of which a scheduler has said that no node takes it.
fn refused(pod: &Object, now: Moment) -> anyhow::Result<Object> {
    const WAITED: i64 = 60_000_000_000;
    let mut pod = pod.value()?;
    pod["metadata"]["creationTimestamp"] = now.plus_nanos(-WAITED).to_string().into();
    pod["status"]["conditions"] =
        serde_json::json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    Ok(Object::parse(&pod.to_string())?)
}

// === impl PodExplanation ===

impl PodExplanation {
    /// The same for programs.
    pub fn to_json(&self) -> Value {
        json::of_pod(self)
    }

    /// What kube-scheduler writes to the pod; nothing if it is placed, or of no concern to it.
    pub fn message(&self) -> Option<String> {
        match &self.explanation.decision {
            Decision::Refused(rejection) => Some(rejection.full_message()),
            Decision::Failed(why) => Some(why.clone()),
            // Of all pods that it does not try, these alone are told.
            Decision::Skipped(why) if why.starts_with("skip schedule deleting pod") => Some(why.clone()),
            Decision::Placed(_) | Decision::Gated(_) | Decision::Skipped(_) => None,
        }
    }

    /// The same, as an Event holds it.
    pub fn event_message(&self) -> Option<String> {
        match &self.explanation.decision {
            Decision::Refused(rejection) => Some(rejection.event_message()),
            _ => self.message(),
        }
    }

    /// Why the pod is not tried, where kube-scheduler does not write it to the pod.
    pub fn reason(&self) -> Option<String> {
        match &self.explanation.decision {
            Decision::Gated(refusal) => Some(refusal.message()),
            Decision::Skipped(why) if self.message().is_none() => Some(why.clone()),
            _ => None,
        }
    }

    /// Whether it is about a manifest that is no pod's.
    pub fn is_nonsense(&self) -> bool {
        let refused_by = self.explanation.pre_filter.as_ref().map(|refusal| refusal.plugin);
        self.case.life.is_none() && refused_by == Some(Plugin::Unreadable)
    }

    /// The node that the pod was really bound to.
    pub fn really_on(&self) -> Option<&str> {
        self.happened.as_ref()?.bound.as_ref().map(|(node, _)| node.as_str())
    }

    /// The profile that decides; `None` if there is none for the pod.
    pub fn profile(&self) -> Option<&Profile> {
        self.which.profile(&self.state.scheduler_of(&self.case.key))
    }
}
