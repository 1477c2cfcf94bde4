//! `kinescope demo`: generates a day in the cluster of a shop, and walks through it.

mod reports;
mod step_runner;
mod walkthrough;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use history::BulkWriter;
use workload::shop::{self, DayHighlights};

use self::walkthrough::{FASTER_SCALE_DOWN, MORE_NODES, UNCHANGED, WalkthroughStep, clock_time};
use super::Outcome;
use super::lines::wrap_text;
use super::output::{Printer, group_digits};
use super::replay::remove_replay;

const AFTER: &str = "\
Examples:
  kinescope demo
  kinescope demo --seed 7 --folder /tmp/shop
  kinescope demo --no-walk";

/// Generate a day in the cluster of a shop and walk through it; requires no cluster
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Demo {
    /// Random seed; changes names and delays, not the story
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output folder for the history and its replays
    #[arg(long, value_name = "FOLDER", default_value = "kinescope-demo")]
    folder: PathBuf,
    /// Only generate the history
    #[arg(long)]
    no_walk: bool,
}

/// The widest line printed; longer ones are hard to read.
const MAX_WIDTH: usize = 100;

impl Demo {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let path = self.folder.join("shop.kine");
        let (highlights, changes) = self.generate(&path)?;
        let hours = highlights.end.nanos_since(highlights.begin) / (3_600 * 1_000_000_000);
        let about = format!(
            "Kinescope records Kubernetes clusters, shows them at any moment of the recording, and replays them with other \
             settings. This history holds {hours} hours of a shop with a hundred nodes: {} changes, in {}. The workloads \
             are generated (seed {}); pods were scheduled and nodes added and removed by the rules of kube-scheduler and \
             cluster-autoscaler.",
            group_digits(changes),
            path.display(),
            self.seed,
        );
        print_wrapped(out, &about)?;
        if self.no_walk {
            return Ok(Outcome::Done);
        }
        let history = path.display().to_string();
        writeln!(out, "\n$ export KINESCOPE_HISTORY={}", step_runner::shell_quoted(&history))?;
        for variant in [UNCHANGED, MORE_NODES, FASTER_SCALE_DOWN] {
            remove_replay(&self.folder.join(variant.folder))?;
        }
        for step in WalkthroughStep::all(&highlights, &self.folder) {
            step_runner::run_step(&step, &history, out)?;
        }
        reports::compare(out, &self.folder)?;
        self.print_next_steps(&highlights, out)?;
        Ok(Outcome::Done)
    }

    /// Generates the history, replacing an earlier one.
    fn generate(&self, path: &Path) -> anyhow::Result<(DayHighlights, u64)> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot create the folder {}", self.folder.display()))?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot replace {}", path.display()));
            }
            _ => {}
        }
        let mut bulk = BulkWriter::open(path)?;
        let mut failure = None;
        let highlights = shop::day(self.seed, |observed| {
            if failure.is_none() {
                failure = bulk.push(&observed).err();
            }
        });
        match failure {
            Some(failure) => Err(failure.into()),
            None => Ok((highlights, bulk.finish()?)),
        }
    }

    /// Prints commands to try next.
    fn print_next_steps(&self, highlights: &DayHighlights, out: &mut Printer) -> anyhow::Result<()> {
        let mut next = Vec::new();
        if let Some(pod) = &highlights.preempted_pod {
            next.push((format!("log pod/{} -n {}", pod.name, pod.namespace), "a pod that was preempted"));
        }
        if let Some(node) = &highlights.lost_node {
            let before = clock_time(highlights.node_lost.plus_nanos(-walkthrough::MINUTE));
            next.push((format!("log node/{} --from {before}", node.name), "a node that failed"));
        }
        next.push(("replay --help".to_owned(), "all settings that can be changed"));
        next.push((
            "record --into mine.kine".to_owned(),
            "record the cluster of your kubeconfig, until Ctrl-C",
        ));
        let command_width = next.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
        writeln!(out)?;
        print_wrapped(out, &format!("All files are in {}. More to try:", self.folder.display()))?;
        for (command, why) in next {
            writeln!(out, "  kinescope {command:<command_width$}  # {why}")?;
        }
        self.print_kubectl_steps(highlights, out)
    }

    /// Prints the commands that open the bad moment for kubectl.
    fn print_kubectl_steps(&self, highlights: &DayHighlights, out: &mut Printer) -> anyhow::Result<()> {
        let now = clock_time(highlights.bad_moment);
        let history = self.folder.join("shop.kine").display().to_string();
        let serve =
            format!("kinescope cluster {} --at {now} --read-only", step_runner::shell_quoted(&history));
        let kubectl = "kubectl --kubeconfig shop.kubeconfig get pods -A -o wide";
        let width = serve.len().max(kubectl.len());
        writeln!(out)?;
        print_wrapped(out, &format!("The cluster as it was at {now}, for kubectl:"))?;
        writeln!(out, "  {serve:<width$}  # until Ctrl-C")?;
        writeln!(out, "  {kubectl:<width$}  # in another terminal")?;
        Ok(())
    }
}

/// Prints a text wrapped to the terminal's width.
fn print_wrapped(out: &mut Printer, text: &str) -> io::Result<()> {
    let width = out.width().unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    wrap_text(text, Some(width), 0).iter().try_for_each(|line| writeln!(out, "{line}"))
}
