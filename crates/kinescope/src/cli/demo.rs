//! `kinescope demo`: a working day in a small shop's cluster, made up on the spot and walked through.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, bail};
use clap::Parser;
use history::Bulk;
use model::Moment;
use workload::shop::{self, Story};

use super::output::{HEADING, Out, grouped};
use super::{Arguments, Outcome};

const AFTER: &str = "\
Examples:
  kinescope demo
  kinescope demo --seed 7 --folder /tmp/shop";

/// Make up a day in a small cluster and walk through it: no cluster is needed
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Demo {
    /// Another day: names and delays differ, the story stays
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to put the history
    #[arg(long, value_name = "FOLDER", default_value = "kinescope-demo")]
    folder: PathBuf,
}

const SECOND: i64 = 1_000_000_000;

/// One step of the walk.
struct Scene {
    words: String,
    command: Vec<String>,
    /// So many lines are shown.
    lines: usize,
}

impl Demo {
    pub(super) fn run(self, out: &mut Out) -> anyhow::Result<Outcome> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make the folder {}", self.folder.display()))?;
        let path = self.folder.join("shop.kine");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot replace {}", path.display()));
            }
            _ => {}
        }
        let day = shop::day(self.seed);
        let mut bulk = Bulk::into(&path)?;
        for observed in &day.changes {
            bulk.push(observed)?;
        }
        let changes = bulk.finish()?;

        writeln!(out, "A working day in the cluster of a small shop, made up with seed {}:", self.seed)?;
        writeln!(out, "{} changes, recorded in {}.", grouped(changes), path.display())?;
        let history = path.display().to_string();
        let export = self.folder.join("worst-minutes.jsonl").display().to_string();
        for scene in scenes(&day.story, &history, &export) {
            play(&scene, out)?;
        }
        writeln!(out, "\nThe history stays in {}. Look around:", path.display())?;
        writeln!(out, "  export KINESCOPE_HISTORY={history}")?;
        writeln!(out, "  kinescope get pods -A --at {}", clock(day.story.bad_moment))?;
        writeln!(out, "  kinescope --help")?;
        Ok(Outcome::Done)
    }
}

fn scenes(story: &Story, history: &str, export: &str) -> Vec<Scene> {
    let at = |moment: Moment| moment.to_string();
    let scene = |words: &str, lines: usize, command: &[&str]| Scene {
        words: words.to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        lines,
    };
    let (pod, node) = (&story.unlucky_pod, &story.lost_node);
    let pod_name = format!("pod/{}", pod.name);
    let broken = &story.broken_deployment;
    let after = story.bad_moment.plus_nanos(90 * SECOND);
    vec![
        scene("What is in the history?", 30, &["info", history]),
        scene(
            &format!(
                "In the afternoon something went wrong. The nodes a minute and a half after {}:",
                clock(story.bad_moment)
            ),
            12,
            &["get", "nodes", "--at", &at(after), "--history", history],
        ),
        scene(
            "Who was waiting for a place then?",
            16,
            &[
                "get",
                "pods",
                "-A",
                "--field-selector",
                "status.phase=Pending",
                "--at",
                &at(after),
                "--history",
                history,
            ],
        ),
        scene(
            "And what did the scheduler say?",
            8,
            &[
                "get",
                "events",
                "-n",
                &pod.namespace,
                "--field-selector",
                "reason=FailedScheduling",
                "--at",
                &at(after),
                "--history",
                history,
            ],
        ),
        scene(
            &format!(
                "The life of one unlucky pod, which waited, found a place on {}, and was driven out again:",
                node.name
            ),
            24,
            &[
                "log",
                &pod_name,
                "-n",
                &pod.namespace,
                "--fields",
                "spec.nodeName,status.phase,status.conditions[PodScheduled].message,metadata.deletionTimestamp",
                "--history",
                history,
            ],
        ),
        scene(
            &format!(
                "A roll-out of {} had begun just before, with an image that does not exist:",
                broken.name
            ),
            14,
            &[
                "log",
                &format!("deploy/{}", broken.name),
                "-n",
                &broken.namespace,
                "--fields",
                "spec.template.spec.containers[checkout].image",
                "--history",
                history,
            ],
        ),
        scene(
            "What changed in the worst five minutes?",
            24,
            &[
                "diff",
                &at(story.bad_moment.plus_nanos(-30 * SECOND)),
                &at(story.bad_moment.plus_nanos(270 * SECOND)),
                "nodes,deploy",
                "--history",
                history,
            ],
        ),
        scene(
            "Those minutes as a file that any program can read, names replaced:",
            4,
            &[
                "export",
                history,
                "--format",
                "jsonl",
                "--from",
                &at(story.worst_from),
                "--to",
                &at(story.worst_to),
                "--anonymise",
                "--out",
                export,
            ],
        ),
        scene("Is the file whole?", 4, &["doctor", history]),
    ]
}

/// Prints a command as a user would type it, and the first lines of what it answers.
fn play(scene: &Scene, out: &mut Out) -> anyhow::Result<()> {
    writeln!(out, "\n{HEADING}# {}{HEADING:#}", scene.words)?;
    let typed: Vec<String> = scene.command.iter().map(|word| quoted(word)).collect();
    writeln!(out, "$ kinescope {}", typed.join(" "))?;
    out.flush()?;
    let arguments = Arguments::try_parse_from(
        std::iter::once("kinescope").chain(scene.command.iter().map(String::as_str)),
    );
    let command = arguments.context("the demo types a command that does not exist")?.command;
    let answer = Shared::default();
    super::run(command, &mut Out::into_one(answer.clone()))?;
    let bytes = answer.0.borrow();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        bail!("the demo's command answered nothing");
    }
    for line in lines.iter().take(scene.lines) {
        writeln!(out, "{line}")?;
    }
    if lines.len() > scene.lines {
        writeln!(out, "[… {} of {} lines]", scene.lines, grouped(lines.len() as u64))?;
    }
    Ok(())
}

/// A place that two can write to.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

/// The clock time a user would type, in the user's zone.
fn clock(moment: Moment) -> String {
    moment.timestamp().to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M").to_string()
}
