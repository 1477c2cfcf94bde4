//! Measurements in a child process, which has a fresh heap or is killed.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use history::{Batch, History, Selection, Writer};
use model::Moment;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use workload::churn::{ChurnOptions, churn};

use crate::{Result, machine};

/// The first argument of a child process.
const CHILD: &str = "--child";
/// The line by which the child reports that it is writing.
const READY: &str = "ready";
/// The number of durable changes after which the child reports that it is writing.
const READY_AFTER: usize = 20_000;
/// The number of changes after which a child ends that is not killed.
const MAX_CHANGES: u64 = 2_000_000;

/// Whether a state is read as a whole or object by object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StateMode {
    Whole,
    Streamed,
}

/// A child's measurements of reading states.
#[derive(Serialize, Deserialize)]
pub(super) struct StateReport {
    /// The time of each.
    pub(super) seconds: Vec<f64>,
    /// The number of objects of the largest.
    pub(super) objects: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    pub(super) memory: Option<StateMemory>,
}

/// The memory that reading states took.
#[derive(Serialize, Deserialize)]
pub(super) struct StateMemory {
    /// The peak, minus the memory before, and minus the objects' own bytes if they are kept.
    pub(super) beyond: u64,
    /// Pages of the file that are mapped at the end, which `beyond` counts too.
    pub(super) files: u64,
}

/// A child's measurements of removing old changes.
#[derive(Serialize, Deserialize)]
pub(super) struct ForgetReport {
    pub(super) seconds: f64,
    /// Changes before and after.
    pub(super) changes: (u64, u64),
    /// The peak memory minus the memory before.
    pub(super) memory: Option<u64>,
}

/// Has a child read the states at these moments.
pub(super) fn state(path: &Path, mode: StateMode, moments: &[Moment]) -> Result<StateReport> {
    let command = if mode == StateMode::Whole { "state-whole" } else { "state-streamed" };
    report(command, path, moments)
}

/// Has a child remove all changes before a moment.
pub(super) fn forget(path: &Path, moment: Moment) -> Result<ForgetReport> {
    report("forget", path, &[moment])
}

fn report<T: DeserializeOwned>(command: &str, path: &Path, moments: &[Moment]) -> Result<T> {
    let moments = moments.iter().map(|moment| moment.nanos().to_string());
    let output = Command::new(env::current_exe()?)
        .args([CHILD, command])
        .arg(path)
        .args(moments)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the child for {command} ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Has a child write to a history, and kills it while it is writing.
pub(super) fn append_until_killed(path: &Path) -> Result<()> {
    let mut child =
        Command::new(env::current_exe()?).args([CHILD, "append"]).arg(path).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("the child has no stdout")?;
    let mut line = String::new();
    let read = BufReader::new(output).read_line(&mut line);
    child.kill()?;
    child.wait()?;
    read?;
    if line.trim_end() != READY {
        return Err("the writing process ended before it was killed".into());
    }
    Ok(())
}

/// Runs as a child process, if the arguments say so; else returns `None`.
pub(crate) fn run_child() -> Option<Result<()>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CHILD, "state-whole", path, ref moments @ ..] => {
            Some(report_state(Path::new(path), StateMode::Whole, moments))
        }
        [CHILD, "state-streamed", path, ref moments @ ..] => {
            Some(report_state(Path::new(path), StateMode::Streamed, moments))
        }
        [CHILD, "forget", path, moment] => Some(report_forgetting(Path::new(path), moment)),
        [CHILD, "append", path] => Some(append_as_child(Path::new(path))),
        _ => None,
    }
}

fn report_state(path: &Path, mode: StateMode, moments: &[&str]) -> Result<()> {
    let history = History::open(path)?;
    let before = machine::memory();
    let (mut seconds, mut most_objects, mut most_bytes) = (Vec::new(), 0, 0);
    for moment in moments {
        let moment = Moment::from_nanos(moment.parse()?);
        let (mut objects, mut bytes) = (0, 0);
        let mut count = |text: &str| (objects, bytes) = (objects + 1, bytes + text.len() as u64);
        let start = Instant::now();
        match mode {
            StateMode::Whole => {
                let cluster = history.at(moment, &Selection::default())?;
                seconds.push(start.elapsed().as_secs_f64());
                cluster.objects().iter().for_each(|version| count(version.object.as_str()));
            }
            StateMode::Streamed => {
                history
                    .for_each_at(moment, &Selection::default(), |version| count(version.object.as_str()))?;
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        (most_objects, most_bytes) = (most_objects.max(objects), most_bytes.max(bytes));
    }
    let kept = if mode == StateMode::Whole { most_bytes } else { 0 };
    let memory = before.zip(machine::memory()).map(|(before, after)| StateMemory {
        beyond: after.peak.saturating_sub(before.now + kept),
        files: after.file_pages,
    });
    let report = StateReport { seconds, objects: most_objects, bytes: most_bytes, memory };
    serde_json::to_writer(std::io::stdout(), &report)?;
    Ok(())
}

fn report_forgetting(path: &Path, moment: &str) -> Result<()> {
    let before = machine::memory();
    let start = Instant::now();
    let pruned = history::prune_incrementally(path, Moment::from_nanos(moment.parse()?))?;
    let seconds = start.elapsed().as_secs_f64();
    let memory = before.zip(machine::memory()).map(|(before, after)| after.peak.saturating_sub(before.now));
    serde_json::to_writer(std::io::stdout(), &ForgetReport { seconds, changes: pruned.changes, memory })?;
    Ok(())
}

/// Writes until it is killed, and reports when changes are durable.
fn append_as_child(path: &Path) -> Result<()> {
    let writer = Writer::open(path)?;
    let settings = ChurnOptions {
        seed: u64::from(std::process::id()),
        live_objects: 1_000,
        changes: MAX_CHANGES,
        ..ChurnOptions::default()
    };
    let mut changes = churn(settings).peekable();
    let mut appended = 0;
    while changes.peek().is_some() {
        let batch: Vec<_> = changes.by_ref().take(256).collect();
        appended += batch.len();
        writer.append(Batch { changes: batch, ..Batch::default() })?;
        if appended >= READY_AFTER {
            appended = 0;
            writer.flush()?;
            // The write fails if the parent was killed: then the child ends too.
            writeln!(std::io::stdout(), "{READY}")?;
        }
    }
    Ok(())
}
