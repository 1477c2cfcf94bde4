//! The runner of a walkthrough step: it runs the command in this process, and prints the selected lines of its output.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use anyhow::{Context, bail};
use clap::Parser;

use super::walkthrough::{LineFilter, WalkthroughStep};
use super::{MAX_WIDTH, wrap_text};
use crate::Arguments;
use crate::output::{HEADING, Printer, group_digits};

/// The indentation of the continuation lines of a labelled line.
const INDENT: usize = 13;

/// Prints a step's comment and command, runs the command, and prints the selected lines of its output.
pub(super) fn run_step(scene: &WalkthroughStep, history: &str, out: &mut Printer) -> anyhow::Result<()> {
    writeln!(out)?;
    let width = out.width().unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    for line in wrap_text(&scene.comment, Some(width), 2) {
        writeln!(out, "{HEADING}# {line}{HEADING:#}")?;
    }
    let typed: Vec<String> = scene.command.iter().map(|word| shell_quoted(word)).collect();
    writeln!(out, "$ kinescope {}", typed.join(" "))?;
    // The command may take a while.
    out.flush()?;
    let answer = run_command(&scene.command, history, out.width())?;
    let lines: Vec<&str> = answer.lines().collect();
    let shown = scene.shown_lines.select(&lines);
    if shown.is_empty() {
        bail!("the demo's command answers otherwise than the demo knows: {answer}");
    }
    for line in &shown {
        out.write_escaped_line(line)?;
    }
    if shown.len() < lines.len() {
        writeln!(out, "[… {} of {} lines]", shown.len(), group_digits(lines.len() as u64))?;
    }
    Ok(())
}

/// Runs a command and returns its output.
fn run_command(command: &[String], history: &str, width: Option<usize>) -> anyhow::Result<String> {
    let mut words: Vec<&str> =
        std::iter::once("kinescope").chain(command.iter().map(String::as_str)).collect();
    // `export` has no effect on this process, so name the history explicitly.
    match words[1] {
        "info" | "replay" => words.insert(2, history),
        _ if words.contains(&"--history") => {}
        _ => words.extend(["--history", history]),
    }
    let command =
        Arguments::try_parse_from(words).context("the demo types a command that does not exist")?.command;
    let answer = SharedBuffer::default();
    crate::run(command, &mut Printer::combined(answer.clone(), width))?;
    let bytes = answer.0.borrow();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

// === impl LineFilter ===

impl LineFilter {
    /// The selected lines of an output.
    fn select<'a>(&self, lines: &[&'a str]) -> Vec<&'a str> {
        let words = match self {
            LineFilter::First(count) => return lines.iter().copied().take(*count).collect(),
            LineFilter::Containing(words) => words,
        };
        let mut goes_on = false;
        let matters = |line: &&&str| {
            let plain = anstream::adapter::strip_str(line).to_string();
            let indent = plain.len() - plain.trim_start().len();
            goes_on = words.iter().any(|word| plain.contains(word)) || (goes_on && indent == INDENT);
            goes_on
        };
        lines.iter().filter(matters).copied().collect()
    }
}

/// A buffer shared by standard output and standard error of a command.
#[derive(Clone, Default)]
struct SharedBuffer(Rc<RefCell<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A word quoted for a shell, if it has to be.
pub(super) fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
