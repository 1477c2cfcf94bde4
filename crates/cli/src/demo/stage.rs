//! Types a command of the walk and shows what matters of its answer.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use anyhow::{Context, bail};
use clap::Parser;

use super::scenes::{Scene, Shown};
use super::{WIDEST, folded};
use crate::Arguments;
use crate::output::{HEADING, Out, grouped};

/// What continues a labelled line is so far to the right.
const INDENT: usize = 13;

/// Prints a command as a user would type it, and what matters of its answer.
pub(super) fn play(scene: &Scene, history: &str, out: &mut Out) -> anyhow::Result<()> {
    writeln!(out)?;
    let width = out.width().unwrap_or(WIDEST).min(WIDEST);
    for line in folded(&scene.words, Some(width), 2) {
        writeln!(out, "{HEADING}# {line}{HEADING:#}")?;
    }
    let typed: Vec<String> = scene.command.iter().map(|word| quoted(word)).collect();
    writeln!(out, "$ kinescope {}", typed.join(" "))?;
    // The answer may take a while.
    out.flush()?;
    let answer = answer(&scene.command, history, out.width())?;
    let lines: Vec<&str> = answer.lines().collect();
    let shown = scene.shown.of(&lines);
    if shown.is_empty() {
        bail!("the demo's command answers otherwise than the demo knows: {answer}");
    }
    for line in &shown {
        out.repeat(line)?;
    }
    if shown.len() < lines.len() {
        writeln!(out, "[… {} of {} lines]", shown.len(), grouped(lines.len() as u64))?;
    }
    Ok(())
}

/// What a command answers.
fn answer(command: &[String], history: &str, width: Option<usize>) -> anyhow::Result<String> {
    let mut words: Vec<&str> =
        std::iter::once("kinescope").chain(command.iter().map(String::as_str)).collect();
    // What was exported counts for a shell, not for this process: the history is named where it is not.
    match words[1] {
        "info" | "replay" => words.insert(2, history),
        _ if words.contains(&"--history") => {}
        _ => words.extend(["--history", history]),
    }
    let command =
        Arguments::try_parse_from(words).context("the demo types a command that does not exist")?.command;
    let answer = Shared::default();
    crate::run(command, &mut Out::into_one(answer.clone(), width))?;
    let bytes = answer.0.borrow();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

// === impl Shown ===

impl Shown {
    /// What of an answer is shown.
    fn of<'a>(&self, lines: &[&'a str]) -> Vec<&'a str> {
        let words = match self {
            Shown::First(count) => return lines.iter().copied().take(*count).collect(),
            Shown::With(words) => words,
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

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
