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
use query::{OptionNames, autoscaler_choice, scheduler_choice};
use scheduler::Version;

use super::listener::TerminalListener;
use super::output::Printer;
use super::{Outcome, completion, history_arg, replay};

/// The names of options in messages.
pub(super) const FLAGS: OptionNames = OptionNames { autoscaler: "--autoscaler-flags", ..replay::FLAGS };

const AFTER: &str = "\
Examples:
  kinescope explain pod/checkout-0 -n web
  kinescope why pod/checkout-0 -n web --at 14:03 -o wide
  kinescope explain pod/checkout-0 -n web --scheduler-config new.yaml --nodes
  kinescope explain --manifest pod.yaml --at -2h
  kinescope explain pod/checkout-0 -n web -o json | jq -r .message
  kinescope explain pod/checkout-0 -n web --node-groups groups.yaml
  kinescope explain node/pool-a-7xk2p --at 14:03
  kinescope explain node/pool-a-7xk2p \\
    --autoscaler-flags '--scale-down-unneeded-time=2m'

A scheduled pod is explained as of just before its binding, a pending pod as of --at. For a pending pod, other pods \
bound within 50 ms after that time count as bound, since the scheduler assumes pods before their binding is visible. \
All nodes are evaluated; the decision is the scheduler's, which evaluates only a part of the nodes in large clusters. \
Scores are weighted; -o wide shows how they are computed.

A node is explained as by cluster-autoscaler: whether it is removable, since when it is unneeded, what delays its \
removal. For a pod that is or was unschedulable, the scale-up is explained too. Both require node groups: from --node-groups, or recorded \
from cluster-autoscaler, Gardener or Karpenter. The autoscaler is simulated for the half hour before the time, or \
longer if its flags require it; its decisions have no effect.

Example of a --node-groups file (all fields: docs/node-groups.md):
  groups:
  - name: workers
    min: 1
    max: 10
    members: {label: pool, value: workers}
    template: {cpu: 4, memory: 16Gi, pods: 110}

Fields of -o json for a pod:
  decision    placed, refused, gated, skipped or failed
  message     kube-scheduler's message, if the pod is unschedulable
  reason      why scheduling is not attempted
  nodes       per node, in the scheduler's order: plugin, code and reasons, or
              scores by plugin (raw, normalised, weighted) and their total
  happened    what was recorded
  autoscaler  the simulated autoscaler loops and their result
Fields of -o json for a node:
  verdict     goes, mayGo, stays, notLookedAt or notTried
  reason      cluster-autoscaler's reason, such as NotUnderutilized
  means       the verdict in words
  happened    what was recorded";

/// Explain the scheduling of a pod, or the scale-down of a node
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Explain {
    /// Pod or node to explain: pod/NAME, node/NAME
    #[arg(value_name = "pod/NAME|node/NAME", required_unless_present = "manifest", add = ArgValueCompleter::new(completion::pods_and_nodes))]
    what: Option<String>,
    /// Name, if `pod` or `node` is a separate argument
    #[arg(value_name = "NAME", hide = true, add = ArgValueCompleter::new(completion::names))]
    name: Option<String>,
    /// Namespace of the pod [default: default, or that of the manifest]
    #[arg(short, long, value_name = "NAME", add = ArgValueCompleter::new(completion::namespaces))]
    namespace: Option<String>,
    /// Time to explain [default: the end of the history, or the deletion of the pod or node]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// Manifest of a new pod or workload to explain, YAML or JSON; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    manifest: Option<PathBuf>,
    /// KubeSchedulerConfiguration file [default: as recorded, else kube-scheduler's defaults]
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// kube-scheduler version to simulate: 1.32 to 1.36; only 1.36 is verified [default: 1.36]
    #[arg(long, value_name = "VERSION")]
    scheduler_version: Option<Version>,
    /// Node groups and cluster-autoscaler settings, YAML; see below [default: as recorded]
    #[arg(long, value_name = "FILE")]
    node_groups: Option<PathBuf>,
    /// cluster-autoscaler flags, as one string; they override the recorded ones, repeatable flags are added
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    autoscaler_flags: Option<String>,
    /// cluster-autoscaler version to simulate: 1.32 to 1.37; only 1.36 is verified [default: as recorded, else 1.36]
    #[arg(long, value_name = "VERSION", value_parser = autoscaler::Version::parse)]
    autoscaler_version: Option<autoscaler::Version>,
    /// Output format
    #[arg(short, long, value_parser = ["table", "wide", "json"], default_value = "table")]
    output: String,
    /// List all nodes
    #[arg(long)]
    nodes: bool,
    /// Source to read; required if the history has several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// History to read [default: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
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
        let target = self.target()?;
        let open_history = history_arg::open(self.history.as_deref())?;
        let at = self.at.as_deref().map(|text| open_history.moment(Some(text))).transpose()?;
        let source = open_history.source(self.source.as_deref(), "--source")?.unwrap_or_default();
        let subject = match target {
            ExplainTarget::Node(name) => {
                let listener = &mut TerminalListener::new(out);
                let explanation =
                    node_of(&open_history, source, name, at, &self.autoscaler_options(), listener)?;
                match self.output.as_str() {
                    "json" => writeln!(out.data()?, "{:#}", explanation.to_json())?,
                    style => node::write(out, &explanation, style == "wide")?,
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
                names: FLAGS,
            },
            autoscaler: self.autoscaler_options(),
        };
        let explanation = explain::explain_pod(
            &open_history,
            source,
            &subject,
            at,
            &settings,
            &mut TerminalListener::new(out),
        )?;
        match self.output.as_str() {
            "json" => writeln!(out.data()?, "{:#}", explanation.to_json())?,
            style => text::write(out, &explanation, style == "wide", self.nodes)?,
        }
        Ok(if explanation.is_invalid_manifest() { Outcome::Negative } else { Outcome::Done })
    }

    fn target(&self) -> anyhow::Result<ExplainTarget<'_>> {
        let Some(argument) = &self.what else {
            return Ok(ExplainTarget::Manifest(
                self.manifest.as_deref().expect("a pod, a node or a manifest is given"),
            ));
        };
        let (kind, name) = match (argument.split_once('/'), &self.name) {
            (Some((kind, name)), None) if !name.is_empty() => (kind, name),
            (None, Some(name)) => (argument.as_str(), name.as_str()),
            _ => bail!("specify one pod or node: pod/NAME or node/NAME"),
        };
        match kinds::find(kind) {
            Some(info) if info.group.is_empty() && info.kind == "Pod" => Ok(ExplainTarget::Pod(name)),
            Some(info) if info.group.is_empty() && info.kind == "Node" => {
                self.reject_pod_flags()?;
                Ok(ExplainTarget::Node(name))
            }
            Some(info) => bail!(
                "explain supports pods and nodes, not {}: use pod/NAME, node/NAME, or --manifest for the pods of a workload",
                info.kind
            ),
            None => bail!("unknown resource type {kind:?}: use pod/NAME or node/NAME"),
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
                bail!("{flag} cannot be used with a node");
            }
        }
        Ok(())
    }

    fn autoscaler_options(&self) -> autoscaler_choice::AutoscalerOptions<'_> {
        autoscaler_choice::AutoscalerOptions {
            node_groups: self.node_groups.as_deref(),
            edits: &[],
            names: FLAGS,
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
