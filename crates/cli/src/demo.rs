//! `kinescope demo`: generates a day in the cluster of a shop, and walks through it.

mod reports;
mod step_runner;
mod walkthrough;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use history::BulkWriter;
use workload::shop::{self, Story};

use self::walkthrough::{WalkthroughStep, clock_time};
use super::Outcome;
use super::lines::wrap_text;
use super::output::{Printer, group_digits};

const AFTER: &str = "\
Examples:
  kinescope demo
  kinescope demo --seed 7 --folder /tmp/shop
  kinescope demo --no-walk";

/// Make up a day in the cluster of a shop and walk through it: no cluster is needed
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Demo {
    /// Another day: names and delays differ, the story stays
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to put the history, and what comes of its replays
    #[arg(long, value_name = "FOLDER", default_value = "kinescope-demo")]
    folder: PathBuf,
    /// Make the history and leave it at that
    #[arg(long)]
    no_walk: bool,
}

/// The widest line printed; longer ones are hard to read.
const MAX_WIDTH: usize = 100;

impl Demo {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let path = self.folder.join("shop.kine");
        let (story, changes) = self.generate(&path)?;
        let hours = story.end.nanos_since(story.begin) / (3_600 * 1_000_000_000);
        let about = format!(
            "Kinescope films Kubernetes clusters, shows them as they were at any moment, and plays them again with other \
             settings. Here are {hours} hours of a shop with a hundred nodes: {} changes, in {}. What people asked for is \
             made up (seed {}); where pods went, and which nodes came and went, was decided as kube-scheduler and \
             cluster-autoscaler decide.",
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
        for scene in WalkthroughStep::all(&story, &self.folder) {
            step_runner::run_step(&scene, &history, out)?;
        }
        reports::compare(out, &self.folder)?;
        self.print_next_steps(&story, out)?;
        Ok(Outcome::Done)
    }

    /// Generates the history, replacing an earlier one.
    fn generate(&self, path: &Path) -> anyhow::Result<(Story, u64)> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make the folder {}", self.folder.display()))?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot replace {}", path.display()));
            }
            _ => {}
        }
        let mut bulk = BulkWriter::open(path)?;
        let mut trouble = None;
        let story = shop::day(self.seed, |observed| {
            if trouble.is_none() {
                trouble = bulk.push(&observed).err();
            }
        });
        match trouble {
            Some(trouble) => Err(trouble.into()),
            None => Ok((story, bulk.finish()?)),
        }
    }

    /// Prints commands to try next.
    fn print_next_steps(&self, story: &Story, out: &mut Printer) -> anyhow::Result<()> {
        let mut next = Vec::new();
        if let Some(pod) = &story.preempted_pod {
            next.push((format!("log pod/{} -n {}", pod.name, pod.namespace), "a pod that had to make room"));
        }
        if let Some(node) = &story.lost_node {
            let before = clock_time(story.node_lost.plus_nanos(-walkthrough::MINUTE));
            next.push((format!("log node/{} --from {before}", node.name), "a node that was lost"));
        }
        next.push(("replay --help".to_owned(), "what else can be set otherwise"));
        next.push((
            "record --into mine.kine".to_owned(),
            "film the cluster of your kubeconfig, until Ctrl-C",
        ));
        let room = next.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
        writeln!(out)?;
        print_wrapped(out, &format!("All of it stays in {}. Some more to try:", self.folder.display()))?;
        for (command, why) in next {
            writeln!(out, "  kinescope {command:<room$}  # {why}")?;
        }
        Ok(())
    }
}

/// Prints a text wrapped to the terminal's width.
fn print_wrapped(out: &mut Printer, text: &str) -> io::Result<()> {
    let width = out.width().unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    wrap_text(text, Some(width), 0).iter().try_for_each(|line| writeln!(out, "{line}"))
}
