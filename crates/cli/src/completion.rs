//! Shell completion of commands, and of kinds, namespaces and names in the history.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::Shells;
use history::History;
use model::Kind;
use query::KindResolver;

use super::output::Printer;
use super::{Outcome, history_arg};

/// The most candidates offered; more are of no use.
const MAX_CANDIDATES: usize = 500;

const AFTER: &str = "\
Completes commands, flags, and the kinds, namespaces and names of objects in the history.

Examples:
  # Load completion into the current shell
  source <(kinescope completion bash)
  # Install it for fish
  kinescope completion fish > ~/.config/fish/completions/kinescope.fish";

/// Print a shell completion script
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Completion {
    /// Shell: bash, zsh, fish, elvish or powershell
    shell: String,
}

impl Completion {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let shells = Shells::builtins();
        let Some(shell) = shells.completer(&self.shell) else {
            let names: Vec<&str> = shells.names().collect();
            bail!("unknown shell {:?}: must be one of {}", self.shell, names.join(", "));
        };
        let mut script = Vec::new();
        shell.write_registration("COMPLETE", "kinescope", "kinescope", "kinescope", &mut script)?;
        out.write_all(&script)?;
        Ok(Outcome::Done)
    }
}

/// `pods`, or `pod/NAME` once there is a slash.
pub(super) fn kinds_and_names(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    match current.split_once('/') {
        None => kinds(OsStr::new(&*current)),
        Some((kind, prefix)) => object_names(kind, prefix)
            .into_iter()
            .map(|name| CompletionCandidate::new(format!("{kind}/{name}")))
            .collect(),
    }
}

/// `pod/NAME` or `node/NAME`.
pub(super) fn pods_and_nodes(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let completions = |kind: &str, prefix: &str| {
        let names = object_names(kind, prefix).into_iter().map(|name| format!("{kind}/{name}"));
        names
            .filter(|candidate| candidate.starts_with(&*current))
            .map(CompletionCandidate::new)
            .collect::<Vec<_>>()
    };
    match current.split_once('/') {
        Some((kind, prefix)) => completions(kind, prefix),
        None => ["pod", "node"].into_iter().flat_map(|kind| completions(kind, "")).collect(),
    }
}

pub(super) fn kinds(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    if current.contains('/') {
        return kinds_and_names(OsStr::new(&*current));
    }
    let Some(history) = open_history() else { return Vec::new() };
    let kinds: Vec<Kind> = history.kinds().unwrap_or_default();
    let plain =
        kinds.iter().map(|kind| KindResolver::plural(kind).split('.').next().unwrap_or_default().to_owned());
    plain.filter(|name| name.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

/// Names of objects of the kind given earlier on the command line.
pub(super) fn names(current: &OsStr) -> Vec<CompletionCandidate> {
    let arguments = completed_words();
    let kind = arguments
        .iter()
        .skip_while(|argument| !matches!(argument.as_str(), "get" | "log" | "history" | "explain" | "why"))
        .nth(1);
    let Some(kind) = kind else { return Vec::new() };
    object_names(kind, &current.to_string_lossy()).into_iter().map(CompletionCandidate::new).collect()
}

pub(super) fn namespaces(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let found = open_history().and_then(|history| history.namespaces().ok()).unwrap_or_default();
    found.into_iter().filter(|name| name.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

fn object_names(kind: &str, prefix: &str) -> Vec<String> {
    let find = || -> anyhow::Result<Vec<String>> {
        let Some(history) = open_history() else { return Ok(Vec::new()) };
        let end = history.span()?.map(|(_, end)| end).unwrap_or_default();
        let found = KindResolver::read(&history, end)?.resolve(kind)?;
        let namespace = option_value(&["-n", "--namespace"]);
        let mut names = Vec::new();
        for found in found {
            let namespace = found.namespaced.then_some(namespace.as_deref()).flatten();
            names.extend(
                history
                    .names_with_prefix(&found.kind, namespace, prefix, MAX_CANDIDATES)?
                    .into_iter()
                    .map(|(_, name)| name),
            );
        }
        Ok(names)
    };
    // During completion errors cannot be shown.
    find().unwrap_or_default()
}

fn open_history() -> Option<History> {
    let named = option_value(&["--history"]).map(PathBuf::from);
    History::open(&history_arg::resolve(named.as_deref()).ok()?).ok()
}

/// The words of the command line being completed, which the shell passes after `--`.
fn completed_words() -> Vec<String> {
    std::env::args().skip_while(|argument| argument != "--").skip(1).collect()
}

fn option_value(names: &[&str]) -> Option<String> {
    let arguments = completed_words();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        for name in names {
            if argument == name {
                return arguments.next().cloned();
            }
            if let Some(value) = argument.strip_prefix(&format!("{name}=")) {
                return Some(value.to_owned());
            }
        }
    }
    None
}
