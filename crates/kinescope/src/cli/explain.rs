//! `kinescope explain`: why a pod went where it went, or nowhere, in the scheduler's own words; what an autoscaler would
//! have done about it; and why a node was, or was not, removable.

mod autoscaler;
mod happened;
mod json;
mod life;
mod manifest;
mod node;
mod seen;
mod state;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use clap_complete::engine::ArgValueCompleter;
use kubernetes::kinds;
use model::{Key, Kind, Moment, NamespacedName, Object};
use query::autoscaler_setup::{GroupsBy, Setup};
use query::scheduler_settings::Which;
use query::{AsOf, Chosen, autoscaler_setup, scheduler_settings};
use scheduler::{Decision, Explanation, KINDS, Plugin, Profile, Scheduler, Version};

use self::autoscaler::{Outcome as Scaled, Played, PodSeen, play};
use self::happened::Happened;
use self::life::Life;
use self::state::State;
use super::output::Out;
use super::{Outcome, chosen, completion};

const AFTER: &str = "\
Examples:
  kinescope explain pod/checkout-0 -n web
  kinescope explain pod/checkout-0 -n web --at 14:03 -o wide
  kinescope explain pod/checkout-0 -n web --scheduler-config new.yaml --nodes
  kinescope explain --manifest pod.yaml --at -2h
  kinescope explain pod/checkout-0 -n web -o json | jq -r .message
  kinescope explain node/pool-a-7xk2p --at 14:03
  kinescope explain node/pool-a-7xk2p --autoscaler-flags '--scale-down-unneeded-time=2m'
  kinescope explain pod/checkout-0 -n web --node-groups groups.yaml

A pod that was placed is explained as of just before it was bound, one that waited as of the moment asked for; for one \
that waited, other pods bound within 50 ms after it count as placed, for a scheduler knows what it decided before others \
do. Every node is judged; the decision is the scheduler's own, which looks at a part of the nodes if there are many. \
Scores are weighted; -o wide tells how each came about.

A node is explained as cluster-autoscaler sees it: whether it could go, since when, what holds it back. A pod that waits, \
or waited, is explained so too where node groups are known: from --node-groups, or from what the history holds of \
cluster-autoscaler, Gardener or Karpenter. The half hour before the moment is played, or more where flags ask for it, \
for an autoscaler remembers; it only watches, and what it decides has no effect.

The file of --node-groups; docs/node-groups.md tells the rest:
  groups:
  - name: workers
    min: 1
    max: 10
    members: {label: pool, value: workers}
    template: {cpu: 4, memory: 16Gi, pods: 110}

In JSON, `decision` is placed, refused, gated, skipped or failed; `message` is the whole text that kube-scheduler \
writes to a pod it does not place, `reason` why it does not even try; each of `nodes`, in the scheduler's order, has \
plugin, code and reasons, or scores by plugin (raw, normalised, weighted) and their total; `happened` is what the \
history knows; `autoscaler` what was played and what came of it. Of a node, `verdict` is goes, mayGo, stays, notLookedAt \
or notTried, `reason` cluster-autoscaler's word for it, and `means` the same in a sentence.";

/// Show how the scheduler and the autoscaler decide about a pod, or the autoscaler about a node, and what really happened
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Explain {
    /// The pod or node: pod/NAME, node/NAME
    #[arg(value_name = "pod/NAME|node/NAME", required_unless_present = "manifest", add = ArgValueCompleter::new(completion::pods_and_nodes))]
    what: Option<String>,
    /// Its name, if `pod` or `node` stands alone
    #[arg(value_name = "NAME", hide = true, add = ArgValueCompleter::new(completion::names))]
    name: Option<String>,
    /// The namespace [default: default, or what the manifest says]
    #[arg(short, long, value_name = "NAME", add = ArgValueCompleter::new(completion::namespaces))]
    namespace: Option<String>,
    /// The moment to look at [default: the history's end, or the end of the pod's or node's life]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// A pod that never was, or a workload whose pods never were: YAML or JSON, `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    manifest: Option<PathBuf>,
    /// How the scheduler is set [default: as the history says, else kube-scheduler's defaults]
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// Whose rules are followed: 1.32 to 1.36, of which the newest alone is verified [default: 1.36]
    #[arg(long, value_name = "VERSION")]
    scheduler_version: Option<Version>,
    /// Which node groups there are, and how their autoscaler is set: see below [default: as the history says]
    #[arg(long, value_name = "FILE")]
    node_groups: Option<PathBuf>,
    /// Flags of cluster-autoscaler that count more than those the history or the file has, in one text; those that may be given several times add to them
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    autoscaler_flags: Option<String>,
    /// Which cluster-autoscaler's rules are followed: 1.32 to 1.37, of which 1.36 alone is verified [default: as the history says, else 1.36]
    #[arg(long, value_name = "VERSION", value_parser = ::autoscaler::Version::parse)]
    autoscaler_version: Option<::autoscaler::Version>,
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

/// What a command line names.
#[derive(Clone, Copy)]
enum Asked<'a> {
    Pod(&'a str),
    Node(&'a str),
    /// A pod in a file.
    Manifest(&'a Path),
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
    /// What an autoscaler would do about it, where node groups are known.
    scaling: Option<Scaling>,
    happened: Option<Happened>,
}

/// An autoscaler, and what it makes of a pod.
struct Scaling {
    setup: Setup,
    played: Played,
    seen: PodSeen,
}

impl Explain {
    pub(super) fn run(self, out: &mut Out) -> anyhow::Result<Outcome> {
        let asked = self.asked()?;
        let chosen = chosen::open(self.history.as_deref())?;
        let at = self.at.as_deref().map(|word| chosen.moment(Some(word))).transpose()?;
        let source = chosen.source(self.source.as_deref(), "--source")?;
        if !chosen.history.kinds()?.contains(&Kind::new("", "Node")) {
            let so = match asked {
                Asked::Node(_) => "there is none to explain",
                Asked::Pod(_) | Asked::Manifest(_) => "nothing can be said of where a pod goes",
            };
            bail!("{} holds no nodes: {so}", chosen.history.path().display());
        }
        let source = source.unwrap_or_default();
        let case = match asked {
            Asked::Node(name) => {
                node::explain(&self, out, &chosen, source, name, at)?;
                return Ok(Outcome::Done);
            }
            Asked::Pod(name) => {
                let key = Key {
                    source,
                    kind: Kind::new("", "Pod"),
                    namespace: self.namespace.as_deref().unwrap_or("default").into(),
                    name: name.into(),
                };
                life::case(&chosen, key, at)?
            }
            Asked::Manifest(path) => {
                manifest::case(out, &chosen, &source, path, self.namespace.as_deref(), at)?
            }
        };
        let told = self.explain(out, &chosen, case)?;
        match self.output.as_str() {
            "json" => json::write(out, &told)?,
            style => text::write(out, &told, style == "wide", self.nodes)?,
        }
        Ok(if told.is_nonsense() { Outcome::Otherwise } else { Outcome::Done })
    }

    fn asked(&self) -> anyhow::Result<Asked<'_>> {
        let Some(word) = &self.what else {
            return Ok(Asked::Manifest(
                self.manifest.as_deref().expect("there is a pod, a node or a manifest"),
            ));
        };
        let (kind, name) = match (word.split_once('/'), &self.name) {
            (Some((kind, name)), None) if !name.is_empty() => (kind, name),
            (None, Some(name)) => (word.as_str(), name.as_str()),
            _ => bail!("name one pod or node: pod/NAME, node/NAME"),
        };
        match kinds::find(kind) {
            Some(info) if info.group.is_empty() && info.kind == "Pod" => Ok(Asked::Pod(name)),
            Some(info) if info.group.is_empty() && info.kind == "Node" => {
                self.refuse_what_is_for_pods()?;
                Ok(Asked::Node(name))
            }
            Some(info) => bail!(
                "explain tells how a pod is scheduled or a node removed, and a {} is neither: name one as pod/NAME or node/NAME, or give what its pods are made of with --manifest",
                info.kind
            ),
            None => bail!(
                "explain tells how a pod is scheduled or a node removed, and {kind:?} is no word for either: pod/NAME, node/NAME"
            ),
        }
    }

    fn refuse_what_is_for_pods(&self) -> anyhow::Result<()> {
        for (is_given, flag) in [
            (self.namespace.is_some(), "--namespace"),
            (self.nodes, "--nodes"),
            (self.scheduler_config.is_some(), "--scheduler-config"),
            (self.scheduler_version.is_some(), "--scheduler-version"),
        ] {
            if is_given {
                bail!("{flag} means nothing for a node: leave it out");
            }
        }
        Ok(())
    }

    fn autoscaler(&self) -> autoscaler_setup::Asked<'_> {
        autoscaler_setup::Asked {
            node_groups: self.node_groups.as_deref(),
            flags_by: "--autoscaler-flags",
            edits: &[],
            flags: self.autoscaler_flags.as_deref().filter(|flags| !flags.trim().is_empty()),
            version: self.autoscaler_version,
        }
    }

    fn explain(&self, out: &mut Out, chosen: &Chosen, case: Case) -> anyhow::Result<Told> {
        let source = case.key.source.clone();
        let moment = case.as_of.moment();
        warn_of_gaps(out, chosen, &source, moment)?;
        let asked = scheduler_settings::Asked {
            file: self.scheduler_config.as_deref(),
            version: self.scheduler_version.unwrap_or(Version::V1_36),
            edits: &[],
        };
        let which = Which::choose(chosen, &source, &[moment], &asked)?;
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
        let scaling = self.scaling(out, chosen, &case, &explanation)?;
        Ok(Told { case, which, state, explanation, scaling, happened })
    }

    /// What an autoscaler would do about a pod: if it waits or waited and groups are known, or if that is asked for.
    fn scaling(
        &self,
        out: &mut Out,
        chosen: &Chosen,
        case: &Case,
        explanation: &Explanation,
    ) -> anyhow::Result<Option<Scaling>> {
        let asked = self.autoscaler();
        let is_refused = matches!(explanation.decision, Decision::Refused(_));
        let waits = is_refused || case.life.as_ref().is_some_and(|life| life.was_refused);
        if !waits && !asked.is_something() {
            return Ok(None);
        }
        let (source, moment) = (&case.key.source, case.as_of.moment());
        let setup = Setup::choose(chosen, source, case.as_of, &asked)?;
        if !setup.is_known() && !asked.is_something() {
            return Ok(None);
        }
        if let GroupsBy::Nobody = setup.groups_by {
            out.complain(&format!("warning: {}", setup.groupless(chosen, case.as_of)));
            return Ok(None);
        }
        for sentence in setup.warnings() {
            out.complain(&format!("warning: {sentence}"));
        }
        let mut put: Vec<Object> = Vec::new();
        if case.life.is_none() && is_refused {
            put.extend(case.owner.clone());
            put.extend(case.pod.as_ref().map(|pod| refused(pod, moment)).transpose()?);
        }
        let mut seen = PodSeen::new(NamespacedName {
            namespace: case.key.namespace.clone(),
            name: case.key.name.clone(),
        });
        let played = play(out, chosen, source, &setup, case.as_of, &put, |done, autoscaler, _| {
            seen.see(done, autoscaler);
        })?;
        if case.life.is_none() && matches!(explanation.decision, Decision::Placed(_)) {
            seen.outcome = Some(Scaled::Scheduled);
        }
        Ok(Some(Scaling { setup, played, seen }))
    }
}

fn warn_of_gaps(out: &mut Out, chosen: &Chosen, source: &Arc<str>, moment: Moment) -> anyhow::Result<()> {
    let gaps = chosen.history.gaps()?;
    out.warn_of_gaps(gaps.iter().filter(|gap| {
        let concerns = KINDS.iter().any(|(group, kind)| gap.concerns(&Kind::new(group, kind)));
        gap.source == *source && concerns && gap.from <= moment && moment < gap.to
    }));
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
