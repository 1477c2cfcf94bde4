//! `kinescope demo`: a working day in the cluster of a shop, made up on the spot and walked through.

mod reports;
mod scenes;
mod stage;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use history::Bulk;
use workload::shop::{self, Story};

use self::scenes::{Scene, clock};
use super::Outcome;
use super::lines::folded;
use super::output::{Out, grouped};

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

/// Longer lines are hard to read.
const WIDEST: usize = 100;

impl Demo {
    pub(super) fn run(self, out: &mut Out) -> anyhow::Result<Outcome> {
        let path = self.folder.join("shop.kine");
        let (story, changes) = self.make(&path)?;
        let hours = story.end.nanos_since(story.begin) / (3_600 * 1_000_000_000);
        let about = format!(
            "Kinescope films Kubernetes clusters, shows them as they were at any moment, and plays them again with other \
             settings. Here are {hours} hours of a shop with a hundred nodes: {} changes, in {}. What people asked for is \
             made up (seed {}); where pods went, and which nodes came and went, was decided as kube-scheduler and \
             cluster-autoscaler decide.",
            grouped(changes),
            path.display(),
            self.seed,
        );
        say(out, &about)?;
        if self.no_walk {
            return Ok(Outcome::Done);
        }
        let history = path.display().to_string();
        writeln!(out, "\n$ export KINESCOPE_HISTORY={}", stage::quoted(&history))?;
        for scene in Scene::all(&story, &self.folder) {
            stage::play(&scene, &history, out)?;
        }
        reports::compare(out, &self.folder)?;
        self.part(&story, out)?;
        Ok(Outcome::Done)
    }

    /// Makes up the day, in place of one that was made up before.
    fn make(&self, path: &Path) -> anyhow::Result<(Story, u64)> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make the folder {}", self.folder.display()))?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot replace {}", path.display()));
            }
            _ => {}
        }
        let mut bulk = Bulk::into(path)?;
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

    /// What one may try next.
    fn part(&self, story: &Story, out: &mut Out) -> anyhow::Result<()> {
        let mut next = Vec::new();
        if let Some(pod) = &story.preempted_pod {
            next.push((format!("log pod/{} -n {}", pod.name, pod.namespace), "a pod that had to make room"));
        }
        if let Some(node) = &story.lost_node {
            let before = clock(story.node_lost.plus_nanos(-scenes::MINUTE));
            next.push((format!("log node/{} --from {before}", node.name), "a node that was lost"));
        }
        next.push(("replay --help".to_owned(), "what else can be set otherwise"));
        next.push((
            "record --into mine.kine".to_owned(),
            "film the cluster of your kubeconfig, until Ctrl-C",
        ));
        let room = next.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
        writeln!(out)?;
        say(out, &format!("All of it stays in {}. Some more to try:", self.folder.display()))?;
        for (command, why) in next {
            writeln!(out, "  kinescope {command:<room$}  # {why}")?;
        }
        Ok(())
    }
}

/// Says something in lines that are easy to read.
fn say(out: &mut Out, text: &str) -> io::Result<()> {
    let width = out.width().unwrap_or(WIDEST).min(WIDEST);
    folded(text, Some(width), 0).iter().try_for_each(|line| writeln!(out, "{line}"))
}
