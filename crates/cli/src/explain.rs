//! `kinescope explain`: the scheduler's decision about a pod, the autoscaler's reaction to it, or the autoscaler's
//! decision about a node.

mod node;
mod text;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap_complete::ArgValueCompleter;
use explain::node::explain_node as node_of;
use explain::{ExplainOptions, Manifest, Subject};
use kubernetes::kinds;
use query::{autoscaler_choice, scheduler_choice};
use scheduler::Version;

use super::listener::TerminalListener;
use super::output::Printer;
use super::{Outcome, completion, history_arg};

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
    #[arg(long, value_name = "VERSION", value_parser = autoscaler::Version::parse)]
    autoscaler_version: Option<autoscaler::Version>,
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

/// The subject named on the command line.
#[derive(Clone, Copy)]
enum ExplainTarget<'a> {
    Pod(&'a str),
    Node(&'a str),
    /// A pod in a file.
    Manifest(&'a Path),
}

impl Explain {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let asked = self.target()?;
        let chosen = history_arg::open(self.history.as_deref())?;
        let at = self.at.as_deref().map(|word| chosen.moment(Some(word))).transpose()?;
        let source = chosen.source(self.source.as_deref(), "--source")?.unwrap_or_default();
        let subject = match asked {
            ExplainTarget::Node(name) => {
                let listener = &mut TerminalListener::new(out);
                let told = node_of(&chosen, source, name, at, &self.autoscaler_options(), listener)?;
                match self.output.as_str() {
                    "json" => writeln!(out.data()?, "{:#}", told.to_json())?,
                    style => node::write(out, &told, style == "wide")?,
                }
                return Ok(Outcome::Done);
            }
            ExplainTarget::Pod(name) => Subject::Recorded {
                namespace: self.namespace.clone().unwrap_or_else(|| "default".to_owned()),
                name: name.to_owned(),
            },
            ExplainTarget::Manifest(path) => {
                Subject::Manifest { manifest: read_manifest(path)?, namespace: self.namespace.clone() }
            }
        };
        let settings = ExplainOptions {
            scheduler: scheduler_choice::SchedulerOptions {
                file: self.scheduler_config.as_deref(),
                version: self.scheduler_version.unwrap_or(Version::V1_36),
                edits: &[],
            },
            autoscaler: self.autoscaler_options(),
        };
        let told =
            explain::explain_pod(&chosen, source, &subject, at, &settings, &mut TerminalListener::new(out))?;
        match self.output.as_str() {
            "json" => writeln!(out.data()?, "{:#}", told.to_json())?,
            style => text::write(out, &told, style == "wide", self.nodes)?,
        }
        Ok(if told.is_invalid_manifest() { Outcome::Negative } else { Outcome::Done })
    }

    fn target(&self) -> anyhow::Result<ExplainTarget<'_>> {
        let Some(word) = &self.what else {
            return Ok(ExplainTarget::Manifest(
                self.manifest.as_deref().expect("there is a pod, a node or a manifest"),
            ));
        };
        let (kind, name) = match (word.split_once('/'), &self.name) {
            (Some((kind, name)), None) if !name.is_empty() => (kind, name),
            (None, Some(name)) => (word.as_str(), name.as_str()),
            _ => bail!("name one pod or node: pod/NAME, node/NAME"),
        };
        match kinds::find(kind) {
            Some(info) if info.group.is_empty() && info.kind == "Pod" => Ok(ExplainTarget::Pod(name)),
            Some(info) if info.group.is_empty() && info.kind == "Node" => {
                self.reject_pod_flags()?;
                Ok(ExplainTarget::Node(name))
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

    fn reject_pod_flags(&self) -> anyhow::Result<()> {
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

    fn autoscaler_options(&self) -> autoscaler_choice::AutoscalerOptions<'_> {
        autoscaler_choice::AutoscalerOptions {
            node_groups: self.node_groups.as_deref(),
            flags_origin: "--autoscaler-flags",
            edits: &[],
            flags: self.autoscaler_flags.as_deref().filter(|flags| !flags.trim().is_empty()),
            version: self.autoscaler_version,
        }
    }
}

/// Reads the manifest in a file, or on standard input.
fn read_manifest(path: &Path) -> anyhow::Result<Manifest> {
    if path == Path::new("-") {
        return Manifest::read("standard input", Box::new(io::stdin()));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Manifest::read(&path.display().to_string(), Box::new(file))
}
