//! The oracle: a Go program around the real scheduler's code that generates and solves fresh cases.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use crate::{Error, JsonLines, LineCase, Result, SchedulerCase};

/// The families of generated clusters.
const FAMILIES: [&str; 21] = [
    "resources",
    "taints",
    "nodeaffinity",
    "ports",
    "podaffinity",
    "spread",
    "defaultspread",
    "images",
    "volumes",
    "preemption",
    "strategies",
    "sampling",
    "misc",
    "mixed",
    "gates",
    "preemptmore",
    "volumes2",
    "spread2",
    "resources2",
    "profiles",
    "nodeinfo",
];
/// Our Go program around the real scheduler's code.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/kube-scheduler");
/// How often each case is solved: a case whose answers differ is left out.
const SOLUTIONS: &str = "3";
/// How often a case is solved again if ours answers it differently: where the real scheduler chooses at random, three
/// equal answers can be a coincidence.
const CONFIRMING_SOLUTIONS: &str = "16";
/// How many lines of the oracle's standard error an error message shows.
const TAIL_LINES: usize = 20;

/// The cases to generate.
#[derive(Clone, Debug)]
pub struct CaseRequest {
    /// The seed of the first case of each family; later cases have the seeds that follow.
    pub seed: u64,
    /// The number of cases of each family.
    pub count: u64,
    /// The families; all if empty.
    pub families: Vec<String>,
}

/// A running oracle process, which is killed when this is dropped.
pub struct Oracle {
    program: PathBuf,
    child: Child,
    lines: JsonLines,
    /// Reads its standard error: the last lines, and how many cases were left out.
    stderr_reader: Option<JoinHandle<(VecDeque<String>, u64)>>,
}

// === impl Oracle ===

impl Oracle {
    /// Builds the oracle if necessary and starts it. `None` without Go.
    pub fn start(request: &CaseRequest) -> Result<Option<Oracle>> {
        if let Some(unknown) = request.families.iter().find(|family| !FAMILIES.contains(&family.as_str())) {
            return Err(Error::UnknownFamily { unknown: unknown.clone(), known: FAMILIES.join(", ") });
        }
        let Some(program) = testcluster::build_module("kube-scheduler-oracle", Path::new(SOURCES))? else {
            return Ok(None);
        };
        let mut command = Command::new(&program);
        command.args([
            "-repeat",
            SOLUTIONS,
            "-seed",
            &request.seed.to_string(),
            "-count",
            &request.count.to_string(),
        ]);
        if !request.families.is_empty() {
            command.args(["-families", &request.families.join(",")]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| Error::Io {
            doing: "start",
            file: program.display().to_string(),
            source,
        })?;
        let cases = child.stdout.take().expect("stdout is piped");
        let errors = child.stderr.take().expect("stderr is piped");
        let stderr_reader = thread::spawn(move || read_stderr(BufReader::new(errors)));
        Ok(Some(Oracle {
            program,
            child,
            lines: JsonLines::from_reader("the oracle", cases),
            stderr_reader: Some(stderr_reader),
        }))
    }

    /// Returns the next case, as a line and parsed. `None` after the last.
    pub fn read(&mut self) -> Result<Option<(String, SchedulerCase)>> {
        let Some(line) = self.lines.read()? else { return Ok(None) };
        let line = line.to_owned();
        let case = SchedulerCase::parse(&line).map_err(|why| self.lines.line_error(why))?;
        Ok(Some((line, case)))
    }

    /// Whether the oracle gives the same answer each time it solves a case. No answer at all is an error.
    pub fn is_deterministic(&self, line: &str) -> Result<bool> {
        let failed = |source| Error::Io { doing: "ask", file: self.program.display().to_string(), source };
        let mut command = Command::new(&self.program);
        command.args(["-solve", "-repeat", CONFIRMING_SOLUTIONS]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        // It reads the whole line before it writes anything, so there is no deadlock.
        let mut input = child.stdin.take().expect("stdin is piped");
        let written = input.write_all(line.as_bytes());
        drop(input);
        let output = child.wait_with_output().map_err(failed)?;
        written.map_err(failed)?;
        let (tail, ambiguous) = read_stderr(&*output.stderr);
        if !output.status.success() || (output.stdout.is_empty() && ambiguous == 0) {
            return Err(Error::Oracle { status: output.status, stderr: Vec::from(tail).join("\n") });
        }
        Ok(!output.stdout.is_empty())
    }

    /// Waits for its end and returns how many cases it left out because their answers differ.
    pub fn finish(mut self) -> Result<u64> {
        let status = self.child.wait().map_err(|source| Error::Io {
            doing: "wait for",
            file: "the oracle".to_owned(),
            source,
        })?;
        let stderr_reader = self.stderr_reader.take().expect("stderr is read until the process exits");
        let (tail, left_out) = stderr_reader.join().unwrap_or_default();
        if !status.success() {
            return Err(Error::Oracle { status, stderr: Vec::from(tail).join("\n") });
        }
        Ok(left_out)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_stderr(errors: impl BufRead) -> (VecDeque<String>, u64) {
    let (mut tail, mut left_out) = (VecDeque::new(), 0);
    for line in errors.lines().map_while(std::io::Result::ok) {
        left_out += u64::from(line.starts_with("skipped:") || line.starts_with("ambiguous:"));
        tail.push_back(line);
        if tail.len() > TAIL_LINES {
            tail.pop_front();
        }
    }
    (tail, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_whose_answers_differ_are_counted() {
        let stderr = "ambiguous: a-1\nskipped: b-2 x: by chance\nE1115 something else\n";
        let (tail, left_out) = read_stderr(stderr.as_bytes());
        assert_eq!((tail.len(), left_out), (3, 2));
        let (tail, _) = read_stderr("x\n".repeat(100).as_bytes());
        assert_eq!(tail.len(), TAIL_LINES);
    }
}
