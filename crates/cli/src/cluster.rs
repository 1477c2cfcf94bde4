//! `kinescope cluster`: a Kubernetes cluster in this process, for kubectl and other clients. A new one, or one of a
//! history: as it was at a moment, or continued from there.

mod control;
mod kubeconfig_file;
mod past;
mod serving;
mod virtual_cluster;

use std::path::{Path, PathBuf};

use model::Moment;
use query::OpenHistory;
use virtualcluster::ComponentSet;

use super::output::Printer;
use super::{InvalidArguments, Outcome, history_arg};
use serving::ServingOptions;

const AFTER: &str = "\
The server answers like kube-apiserver, over TLS, to clients with the token in the kubeconfig, which is readable by its \
owner only and is deleted when the server ends. Pods are scheduled, run and end; they have no containers.

With --read-only it serves a moment of a history: writes are answered 405, kinds that were not recorded do not exist, \
and Secrets are never served. Without it, a history's objects at that moment are the beginning of a cluster that lives.

Examples:
  # A new cluster of 100 nodes
  kinescope cluster --nodes 100
  kubectl --kubeconfig kinescope.kubeconfig get nodes
  # Last Tuesday, with plain kubectl
  kinescope cluster shop.kine --at 14:20 --read-only
  kubectl --kubeconfig shop.kubeconfig get pods -A -o wide
  # Two moments, one kubeconfig context for each
  kinescope cluster shop.kine --at 13:00 --at 14:20 --read-only --kubeconfig-out past.yaml
  # A week in seconds
  kinescope cluster --nodes 10 --clock virtual
  kinescope cluster advance 7d
  # Nodes that come when pods need them, and go
  kinescope cluster --controllers scheduler,kubelet,gc,pv,workloads,autoscaler --node-groups groups.yaml
  # Record what happens in it
  kinescope cluster --nodes 10 --record lab.kine
  # What if that cluster had gone on without this node?
  kinescope cluster shop.kine --at 14:20 --controllers scheduler,kubelet,gc,pv,workloads";

/// Run a virtual Kubernetes cluster, or serve a moment of a history to kubectl
#[derive(clap::Args)]
#[command(after_help = AFTER, args_conflicts_with_subcommands = true)]
pub(super) struct Cluster {
    #[command(subcommand)]
    control: Option<control::Control>,
    /// History to begin with
    history: Option<PathBuf>,
    /// The same
    #[arg(long = "history", value_name = "FILE", conflicts_with = "history")]
    history_option: Option<PathBuf>,
    /// Time of the state; with --read-only, repeat it to serve several moments [default: end of the history]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Vec<String>,
    /// Source, if the history has several
    #[arg(long)]
    source: Option<String>,
    /// Serve the history as it was, without changes
    #[arg(long, conflicts_with_all = [
        "nodes", "node_template", "load", "controllers", "scheduler_config", "node_groups", "autoscaler_flags", "record", "scheduling_annotations",
        "clock",
    ])]
    read_only: bool,
    /// Move all times by now minus the moment, for clients that count ages themselves
    #[arg(long)]
    shift_times: bool,
    /// Recorded seconds that pass in one for each watch, from the moment on [default: time stands still]
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed)]
    speed: Option<f64>,
    /// Number of nodes to create, at most 100,000
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = parse_node_count)]
    nodes: usize,
    /// Manifest of a Node that new nodes are made of [default: 32 CPUs, 256Gi, 110 pods]
    #[arg(long, value_name = "FILE")]
    node_template: Option<PathBuf>,
    /// Manifests of objects to create, files or folders; - for standard input. Those read from a cluster, with a
    /// resourceVersion, are added as they were
    #[arg(long, value_name = "FILE", num_args = 1..)]
    load: Vec<PathBuf>,
    /// Components that run: scheduler, kubelet, gc, pv, workloads, autoscaler, or none
    #[arg(long, value_name = "NAMES", default_value = "scheduler,kubelet,gc,pv")]
    controllers: ComponentSet,
    /// KubeSchedulerConfiguration [default: the profiles default-scheduler and bin-packing-scheduler]
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// Annotate pods with every node's verdicts and scores, as kube-scheduler-simulator does
    #[arg(long)]
    scheduling_annotations: bool,
    /// Node groups and cluster-autoscaler settings, YAML, for the component autoscaler; see docs/node-groups.md
    #[arg(long, value_name = "FILE")]
    node_groups: Option<PathBuf>,
    /// cluster-autoscaler flags, as one string; they override the settings of --node-groups
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    autoscaler_flags: Option<String>,
    /// History to record the cluster into while it runs; it must not exist
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Clock of the cluster: `virtual` moves only by `kinescope cluster advance`
    #[arg(long, value_enum, default_value_t = ClockKind::Real)]
    clock: ClockKind,
    /// Seed of generated names and uids [default: random]
    #[arg(long, value_name = "NUMBER", conflicts_with = "read_only")]
    seed: Option<u64>,
    #[command(flatten)]
    serving: ServingOptions,
}

/// The most nodes that are created: larger clusters do not fit into memory.
const MAX_NODES: usize = 100_000;

/// The clock of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ClockKind {
    Real,
    Virtual,
}

/// The commands that control a cluster.
const CONTROLS: [&str; 3] = ["reset", "dump", "advance"];

/// What is wrong with words that clap takes for a history and something after it.
pub(super) fn misplaced_words(arguments: &[String], error: &clap::Error) -> Option<String> {
    let [_, command, first, ..] = arguments else { return None };
    if command != "cluster" || first.starts_with('-') {
        return None;
    }
    if let Some(why) = misspelled_control(Path::new(first)) {
        return Some(why);
    }
    let is_second = error.kind() == clap::error::ErrorKind::ArgumentConflict;
    let second = error.get(clap::error::ContextKind::InvalidSubcommand).filter(|_| is_second)?;
    Some(format!(
        "{second} after {first}: a cluster begins with at most one history, and the commands {} have none",
        CONTROLS.join(", ")
    ))
}

/// Which command is meant by a word that is taken for a history, but for which there is no file.
fn misspelled_control(history: &Path) -> Option<String> {
    let word = history.to_str().filter(|word| !CONTROLS.contains(word) && !history.exists())?;
    let meant = query::similar(word, &CONTROLS)?;
    Some(format!("{word} is neither a history nor a command: did you mean `kinescope cluster {meant}`?"))
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed =
        text.trim_end_matches('x').parse().ok().filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| format!("{text:?} is not a speed: expected a number above 0, such as 10"))
}

fn parse_node_count(text: &str) -> Result<usize, String> {
    let count = text.parse().map_err(|_| format!("{text:?} is not a number of nodes"))?;
    if count > MAX_NODES {
        return Err("a cluster has at most 100,000 nodes".to_owned());
    }
    Ok(count)
}

impl Cluster {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        if let Some(control) = &self.control {
            return control.run(out);
        }
        if let Some(why) = self.history.as_deref().and_then(misspelled_control) {
            return Err(InvalidArguments(why).into());
        }
        self.serving.check()?;
        self.check_options()?;
        if self.read_only {
            return past::serve(&self, out);
        }
        virtual_cluster::serve(&self, out)
    }

    /// Refuses options that would have no effect beside the others. (clap forgets a `requires` if the required option
    /// conflicts with another one.)
    fn check_options(&self) -> Result<(), InvalidArguments> {
        let scheduler = self.controllers.scheduler;
        let of_read_only = "is for a moment of a history that does not change: add --read-only";
        let of_scheduler = "is for the component scheduler, which does not run: add it to --controllers";
        let at_twice = self.at.len() > 1 && !self.read_only;
        for (is_useless, option, why) in [
            (self.speed.is_some() && !self.read_only, "--speed", of_read_only),
            (self.shift_times && !self.read_only, "--shift-times", of_read_only),
            (at_twice, "--at", "is given several times: only --read-only serves several moments"),
            (self.scheduling_annotations && !scheduler, "--scheduling-annotations", of_scheduler),
            // A recording keeps the configuration of a scheduler that runs elsewhere.
            (
                self.scheduler_config.is_some() && !scheduler && self.record.is_none(),
                "--scheduler-config",
                of_scheduler,
            ),
            (
                self.node_template.is_some() && self.nodes == 0,
                "--node-template",
                "is for new nodes, and none are created: say how many with --nodes",
            ),
            (
                self.autoscaler_flags.is_some() && self.node_groups.is_none(),
                "--autoscaler-flags",
                "are for the autoscaler, which needs node groups: name a file of them with --node-groups",
            ),
        ] {
            if is_useless {
                return Err(InvalidArguments(format!("{option} {why}")));
            }
        }
        Ok(())
    }

    /// The moments of a history that were asked for, each once; its end by default. A moment after the end is the end,
    /// since nothing is known of what came next.
    fn moments(&self, open_history: &OpenHistory, out: &mut Printer) -> anyhow::Result<Vec<Moment>> {
        let (start, end) = (open_history.times.start, open_history.times.end);
        let mut moments: Vec<Moment> = Vec::new();
        for text in &self.at {
            let moment = open_history.times.parse(text);
            let moment = moment.map_err(|error| InvalidArguments(format!("--at: {error}")))?;
            // Users copy times without fractions of a second.
            if moment < kubernetes::time::whole_second(start) {
                let message =
                    format!("--at {text}: {moment} is before the history, which is from {start} to {end}");
                return Err(InvalidArguments(message).into());
            }
            if moment > end {
                out.print_to_stderr(&format!(
                    "--at {text}: the history ends before {moment}; its end is served: {end}"
                ));
            }
            let moment = moment.clamp(start, end);
            if !moments.contains(&moment) {
                moments.push(moment);
            }
        }
        if moments.is_empty() {
            moments.push(end);
        }
        Ok(moments)
    }

    /// The history to begin with, if there is one.
    fn history(&self) -> anyhow::Result<Option<PathBuf>> {
        let named = self.history.as_deref().or(self.history_option.as_deref());
        if named.is_none() && self.at.is_empty() && self.source.is_none() && !self.read_only {
            return Ok(None);
        }
        history_arg::resolve(named).map(Some)
    }
}
