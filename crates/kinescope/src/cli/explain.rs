//! `kinescope explain`: why a pod went where it went, or nowhere, in the scheduler's own words.

mod happened;
mod json;
mod life;
mod manifest;
mod seen;
mod state;
mod text;
mod which;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use clap_complete::engine::ArgValueCompleter;
use kubernetes::kinds;
use model::{Key, Kind, Moment, Object};
use sim::scheduler::{Decision, Explanation, KINDS, Plugin, Profile, Scheduler, Version};

use self::happened::Happened;
use self::life::Life;
use self::state::{AsOf, State};
use self::which::Which;
use super::output::Out;
use super::{Outcome, chosen, completion};
use crate::look::Chosen;

const AFTER: &str = "\
Examples:
  kinescope explain pod/checkout-0 -n web
  kinescope explain pod/checkout-0 -n web --at 14:03 -o wide
  kinescope explain pod/checkout-0 -n web --scheduler-config new.yaml --nodes
  kinescope explain --manifest pod.yaml --at -2h
  kinescope explain pod/checkout-0 -n web -o json | jq -r .message

A pod that was placed is explained as of just before it was bound, one that waited as of the moment asked for; for one \
that waited, other pods bound within 50 ms after it count as placed, for a scheduler knows what it decided before others \
do. Every node is judged; the decision is the scheduler's own, which looks at a part of the nodes if there are many. \
Scores are weighted; -o wide tells how each came about.

In JSON, `decision` is placed, refused, gated, skipped or failed; `message` is the whole text that kube-scheduler \
writes to a pod it does not place, `reason` why it does not even try; each of `nodes`, in the scheduler's order, has \
plugin, code and reasons, or scores by plugin (raw, normalised, weighted) and their total; `happened` is what the \
history knows.";

/// Show how the scheduler decides about a pod: every node's verdict and score, and what really happened
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Explain {
    /// The pod: pod/NAME
    #[arg(value_name = "pod/NAME", required_unless_present = "manifest", add = ArgValueCompleter::new(completion::pods))]
    pod: Option<String>,
    /// Its name, if `pod` stands alone
    #[arg(value_name = "NAME", hide = true, add = ArgValueCompleter::new(completion::names))]
    name: Option<String>,
    /// The namespace [default: default, or what the manifest says]
    #[arg(short, long, value_name = "NAME", add = ArgValueCompleter::new(completion::namespaces))]
    namespace: Option<String>,
    /// The moment to look at [default: the history's end, or the end of the pod's life]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// A pod that never was, or a workload whose pods never were: YAML or JSON, `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "pod")]
    manifest: Option<PathBuf>,
    /// How the scheduler is set [default: as the history says, else kube-scheduler's defaults]
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// Whose rules are followed: 1.32 to 1.36, of which the newest alone is verified
    #[arg(long, value_name = "VERSION", default_value = "1.36")]
    scheduler_version: Version,
    /// How to print it
    #[arg(short, long, value_parser = ["table", "wide", "json"], default_value = "table")]
    output: String,
    /// Every node, however many there are
    #[arg(long)]
    nodes: bool,
    /// The recording, if the history holds several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// The history [default: $KINESCOPE_HISTORY, else the only .kine file here]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// What is to be explained: a pod, and as of when.
struct Case {
    as_of: AsOf,
    /// Why that moment, in words that follow it.
    why: String,
    /// The pod if it is not the one that the history has at that moment.
    pod: Option<Object>,
    key: Key,
    /// What the pod belongs to, if that is not in the history either.
    owner: Option<Object>,
    life: Option<Life>,
}

/// All there is to show.
struct Told {
    case: Case,
    which: Which,
    state: State,
    explanation: Explanation,
    happened: Option<Happened>,
}

impl Explain {
    pub(super) fn run(self, out: &mut Out) -> anyhow::Result<Outcome> {
        let asked = self.asked()?;
        let chosen = chosen::open(self.history.as_deref())?;
        let at = self.at.as_deref().map(|word| chosen.moment(Some(word))).transpose()?;
        let source = chosen.source(self.source.as_deref(), "--source")?;
        let told = self.explain(out, &chosen, source, asked, at)?;
        match self.output.as_str() {
            "json" => json::write(out, &told)?,
            style => text::write(out, &told, style == "wide", self.nodes)?,
        }
        Ok(if told.is_nonsense() { Outcome::Otherwise } else { Outcome::Done })
    }

    /// The name of the pod; `None` if it is in a manifest.
    fn asked(&self) -> anyhow::Result<Option<&str>> {
        let Some(word) = &self.pod else { return Ok(None) };
        let (kind, name) = match (word.split_once('/'), &self.name) {
            (Some((kind, name)), None) if !name.is_empty() => (kind, name),
            (None, Some(name)) => (word.as_str(), name.as_str()),
            _ => bail!("name one pod: pod/NAME"),
        };
        match kinds::find(kind) {
            Some(info) if info.group.is_empty() && info.kind == "Pod" => Ok(Some(name)),
            Some(info) => bail!(
                "explain tells how a pod is scheduled, and a {} is none: name one as pod/NAME, or give what its pods are made of with --manifest",
                info.kind
            ),
            None => bail!("explain tells how a pod is scheduled, and {kind:?} is no word for one: pod/NAME"),
        }
    }

    fn explain(
        &self,
        out: &mut Out,
        chosen: &Chosen,
        source: Option<Arc<str>>,
        asked: Option<&str>,
        at: Option<Moment>,
    ) -> anyhow::Result<Told> {
        if !chosen.history.kinds()?.contains(&Kind::new("", "Node")) {
            bail!(
                "{} holds no nodes: nothing can be said of where a pod goes",
                chosen.history.path().display()
            );
        }
        let source = source.unwrap_or_default();
        let case = match asked {
            Some(name) => {
                let key = Key {
                    source: source.clone(),
                    kind: Kind::new("", "Pod"),
                    namespace: self.namespace.as_deref().unwrap_or("default").into(),
                    name: name.into(),
                };
                life::case(chosen, key, at)?
            }
            None => {
                let path = self.manifest.as_deref().expect("there is a pod or a manifest");
                manifest::case(out, chosen, &source, path, self.namespace.as_deref(), at)?
            }
        };
        let moment = case.as_of.moment();
        let gaps = chosen.history.gaps()?;
        out.warn_of_gaps(gaps.iter().filter(|gap| {
            let concerns = KINDS.iter().any(|(group, kind)| gap.concerns(&Kind::new(group, kind)));
            gap.source == source && concerns && gap.from <= moment && moment < gap.to
        }));
        let which =
            Which::choose(chosen, &source, moment, self.scheduler_config.as_deref(), self.scheduler_version)?;
        for sentence in &which.settings.left_out {
            out.complain(&format!("warning: {sentence}"));
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
        Ok(Told { case, which, state, explanation, happened })
    }
}

// === impl Told ===

impl Told {
    /// What kube-scheduler writes to the pod; nothing if it is placed, or of no concern to it.
    fn message(&self) -> Option<String> {
        match &self.explanation.decision {
            Decision::Refused(rejection) => Some(rejection.full_message()),
            Decision::Failed(why) => Some(why.clone()),
            // Of all pods that it does not try, these alone are told.
            Decision::Skipped(why) if why.starts_with("skip schedule deleting pod") => Some(why.clone()),
            Decision::Placed(_) | Decision::Gated(_) | Decision::Skipped(_) => None,
        }
    }

    /// The same, as an Event holds it.
    fn event_message(&self) -> Option<String> {
        match &self.explanation.decision {
            Decision::Refused(rejection) => Some(rejection.event_message()),
            _ => self.message(),
        }
    }

    /// Why the pod is not tried, where kube-scheduler does not write it to the pod.
    fn reason(&self) -> Option<String> {
        match &self.explanation.decision {
            Decision::Gated(refusal) => Some(refusal.message()),
            Decision::Skipped(why) if self.message().is_none() => Some(why.clone()),
            _ => None,
        }
    }

    /// Whether it is about a manifest that is no pod's.
    fn is_nonsense(&self) -> bool {
        let refused_by = self.explanation.pre_filter.as_ref().map(|refusal| refusal.plugin);
        self.case.life.is_none() && refused_by == Some(Plugin::Unreadable)
    }

    /// The node that the pod was really bound to.
    fn really_on(&self) -> Option<&str> {
        self.happened.as_ref()?.bound.as_ref().map(|(node, _)| node.as_str())
    }

    /// The profile that decides; `None` if there is none for the pod.
    fn profile(&self) -> Option<&Profile> {
        self.which.profile(&self.state.scheduler_of(&self.case.key))
    }
}
