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

/// The indentation of the continuation lines of a labeled line.
const INDENT: usize = 13;

/// Prints a step's comment and command, runs the command, and prints the selected lines of its output.
pub(super) fn run_step(step: &WalkthroughStep, history: &str, out: &mut Printer) -> anyhow::Result<()> {
    writeln!(out)?;
    let width = out.width().unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    for line in wrap_text(&step.comment, Some(width), 2) {
        writeln!(out, "{HEADING}# {line}{HEADING:#}")?;
    }
    let quoted: Vec<String> = step.command.iter().map(|argument| shell_quoted(argument)).collect();
    writeln!(out, "$ kinescope {}", quoted.join(" "))?;
    // The command may take a while.
    out.flush()?;
    let output = run_command(&step.command, history, out.width())?;
    let lines: Vec<&str> = output.lines().collect();
    let shown_lines = step.shown_lines.select(&lines);
    if shown_lines.is_empty() {
        bail!("unexpected output of the demo's command: {output}");
    }
    for line in &shown_lines {
        out.write_escaped_line(line)?;
    }
    if shown_lines.len() < lines.len() {
        writeln!(out, "[… {} of {} lines]", shown_lines.len(), group_digits(lines.len() as u64))?;
    }
    Ok(())
}

/// Runs a command and returns its output.
fn run_command(command: &[String], history: &str, width: Option<usize>) -> anyhow::Result<String> {
    let mut arguments: Vec<&str> =
        std::iter::once("kinescope").chain(command.iter().map(String::as_str)).collect();
    // `export` has no effect on this process, so name the history explicitly.
    match arguments[1] {
        "info" | "replay" => arguments.insert(2, history),
        _ if arguments.contains(&"--history") => {}
        _ => arguments.extend(["--history", history]),
    }
    let command = Arguments::try_parse_from(arguments).context("the demo's command is invalid")?.command;
    let output = SharedBuffer::default();
    crate::run(command, &mut Printer::combined(output.clone(), width))?;
    let bytes = output.0.borrow();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

// === impl LineFilter ===

impl LineFilter {
    /// The selected lines of an output.
    fn select<'a>(&self, lines: &[&'a str]) -> Vec<&'a str> {
        let keywords = match self {
            LineFilter::First(count) => return lines.iter().copied().take(*count).collect(),
            LineFilter::Containing(keywords) => keywords,
        };
        let mut goes_on = false;
        let is_relevant = |line: &&&str| {
            let plain = anstream::adapter::strip_str(line).to_string();
            let indent = plain.len() - plain.trim_start().len();
            goes_on = keywords.iter().any(|keyword| plain.contains(keyword)) || (goes_on && indent == INDENT);
            goes_on
        };
        lines.iter().filter(is_relevant).copied().collect()
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
pub(super) fn shell_quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}
