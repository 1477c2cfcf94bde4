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
        writeln!(out, "\n$ export KINESCOPE_HISTORY={}", quoted(&history))?;
        let export = self.folder.join("worst-minutes.jsonl").display().to_string();
        for scene in scenes(&day.story, &export) {
            play(&scene, &history, out)?;
        }
        writeln!(out, "\nThe history stays in {history}. Look around:")?;
        writeln!(out, "  export KINESCOPE_HISTORY={}", quoted(&history))?;
        writeln!(out, "  kinescope get pods -A --at {}", clock(day.story.bad_moment))?;
        writeln!(out, "  kinescope --help")?;
        writeln!(out, "\nFilm the cluster of your kubeconfig, until Ctrl-C:")?;
        writeln!(out, "  kinescope record --into mine.kine")?;
        Ok(Outcome::Done)
    }
}

fn scenes(story: &Story, export: &str) -> Vec<Scene> {
    let scene = |words: String, lines: usize, command: &[&str]| Scene {
        words,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        lines,
    };
    let (pod, node, broken) = (&story.unlucky_pod, &story.lost_node, &story.broken_deployment);
    let at = |seconds: i64| clock(story.bad_moment.plus_nanos(seconds * SECOND));
    let image = format!("spec.template.spec.containers[{}].image", broken.name);
    vec![
        scene("What is in the history?".to_owned(), 30, &["info"]),
        scene(
            format!("In the afternoon something went wrong. The nodes 90 seconds after {}:", at(0)),
            12,
            &["get", "nodes", "--at", &at(90)],
        ),
        scene(
            "Who was waiting for a place then?".to_owned(),
            16,
            &["get", "pods", "-n", "web", "--field-selector", "status.phase=Pending", "--at", &at(90)],
        ),
        scene(
            "And what did the scheduler say?".to_owned(),
            3,
            &[
                "get",
                "events",
                "-n",
                "web",
                "--field-selector",
                "reason=FailedScheduling",
                "--at",
                &at(90),
                "--sort-by",
                ".eventTime",
            ],
        ),
        scene(
            format!(
                "The life of a pod that waited, found a place on {}, and was driven out again:",
                node.name
            ),
            24,
            &[
                "log",
                &format!("pod/{}", pod.name),
                "-n",
                &pod.namespace,
                "--fields",
                "spec.nodeName,status.phase,metadata.deletionTimestamp",
            ],
        ),
        scene(
            format!(
                "A roll-out of {} had begun just before, with an image that does not exist:",
                broken.name
            ),
            14,
            &["log", &format!("deploy/{}", broken.name), "-n", &broken.namespace, "--fields", &image],
        ),
        scene(
            "What changed in the worst five minutes?".to_owned(),
            24,
            &["diff", &at(-30), &at(270), "nodes,deploy"],
        ),
        scene(
            "Those minutes as a file that any program can read, names replaced:".to_owned(),
            4,
            &[
                "export",
                "--format",
                "jsonl",
                "--from",
                &at(-30),
                "--to",
                &at(270),
                "--anonymise",
                "--out",
                export,
            ],
        ),
        scene("Is the history whole?".to_owned(), 4, &["doctor"]),
        scene(
            "A recorder of your own cluster leaves out what means nothing, and hides what is secret:"
                .to_owned(),
            8,
            &["record", "--show-rules"],
        ),
    ]
}

/// Prints a command as a user would type it, and the first lines of what it answers.
fn play(scene: &Scene, history: &str, out: &mut Out) -> anyhow::Result<()> {
    writeln!(out, "\n{HEADING}# {}{HEADING:#}", scene.words)?;
    let typed: Vec<String> = scene.command.iter().map(|word| quoted(word)).collect();
    writeln!(out, "$ kinescope {}", typed.join(" "))?;
    out.flush()?;
    // What was exported above counts for a shell, not for this process: the history is named where it can be.
    let mut words: Vec<&str> =
        std::iter::once("kinescope").chain(scene.command.iter().map(String::as_str)).collect();
    match words[1] {
        "info" | "export" | "doctor" => words.insert(2, history),
        "record" => {}
        _ => words.extend(["--history", history]),
    }
    let command =
        Arguments::try_parse_from(words).context("the demo types a command that does not exist")?.command;
    let answer = Shared::default();
    super::run(command, &mut Out::into_one(answer.clone()))?;
    let bytes = answer.0.borrow();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        bail!("the demo's command answered nothing");
    }
    // What is told in sentences is worth a second line; tables and long lists that wrap cannot be read.
    let sentences = scene.command.iter().any(|word| matches!(word.as_str(), "events" | "log" | "export"));
    let width = if sentences { None } else { out.width() };
    for line in lines.iter().take(scene.lines) {
        writeln!(out, "{}", shortened(line, width))?;
    }
    if lines.len() > scene.lines {
        writeln!(out, "[… {} of {} lines]", scene.lines, grouped(lines.len() as u64))?;
    }
    Ok(())
}

/// A line that fits.
fn shortened(line: &str, width: Option<usize>) -> String {
    let plain = anstream::adapter::strip_str(line).to_string();
    match width {
        Some(width) if plain.chars().count() > width => {
            plain.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
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
    let time = moment.timestamp().to_zoned(jiff::tz::TimeZone::system());
    let format = if time.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    time.strftime(format).to_string()
}
