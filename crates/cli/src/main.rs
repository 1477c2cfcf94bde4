//! The `kinescope` program: its command line and the dispatch to its commands.

mod cluster;
mod completion;
mod demo;
mod diff;
mod doctor;
mod escaping;
mod explain;
mod export;
mod format_arg;
mod get;
mod history_arg;
mod import;
mod info;
mod input_files;
mod lines;
mod listener;
mod log;
mod man;
mod noise;
mod out_file;
mod output;
mod progress;
mod prune;
mod record;
mod replay;
mod secret_mask;
mod serve;
mod signals;
mod snapshot;
mod sort_by;
mod tracer_config;
mod warnings;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::output::{Printer, is_broken_pipe};

/// Replays allocate and free many small objects, which mimalloc does faster than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ABOUT: &str = "Record, inspect and replay Kubernetes clusters";

const AFTER: &str = "\
Examples:
  # Try it without a cluster
  kinescope demo
  # Record the cluster of the current context, until Ctrl-C
  kinescope record --into prod.kine
  # List the pods of two hours ago
  kinescope get pods -A --at -2h
  # Explain why a pod is pending
  kinescope why pod/checkout-0 -n web
  # Replay with other settings
  kinescope replay --set nodeGroups.workers.max=20

Values of TIME:
  2026-11-01T14:03Z             with a UTC offset
  '2026-11-01 14:03'            local time
  2026-11-01                    local midnight
  14:03                         local time, the last one in the history
  -2h                           before the end of the history
  start+30m                     after the start of the history
  start, end, now               now is the end of the history

A history is given as HISTORY or --history [default: $KINESCOPE_HISTORY, else the only .kine file in the current \
directory].

Exit codes: 0 success; 1 error, damage found by `doctor`, or objects refused in a live replay; 2 invalid arguments. As in diff(1), `diff` and `snapshot diff` exit \
with 0 if there are no differences, 1 if there are, and 2 on errors.

Use `kinescope COMMAND --help` for the options and examples of a command.";

/// Record, inspect and replay Kubernetes clusters.
#[derive(Parser)]
#[command(name = "kinescope", version, about = ABOUT, after_help = AFTER, max_term_width = 110)]
#[command(disable_help_subcommand = true, subcommand_required = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Record(record::Record),
    Import(import::Import),
    Export(export::Export),
    Info(info::Info),
    Get(get::Get),
    #[command(visible_alias = "history")]
    Log(log::Log),
    Diff(diff::Diff),
    #[command(visible_alias = "why")]
    Explain(explain::Explain),
    Replay(Box<replay::Replay>),
    Doctor(doctor::Doctor),
    Prune(prune::Prune),
    Serve(serve::Serve),
    Cluster(cluster::Cluster),
    Snapshot(Box<snapshot::Snapshot>),
    SnapshotTool(snapshot::tool::SnapshotTool),
    Completion(completion::Completion),
    Man(man::Man),
}

/// The result of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Completed, with exit code 1: something differs, or something is damaged.
    Negative,
}

/// Arguments that are well-formed, but cannot be used, or not together: exit code 2.
#[derive(Debug)]
struct InvalidArguments(String);

impl std::fmt::Display for InvalidArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidArguments {}

fn main() -> ExitCode {
    clap_complete::CompleteEnv::with_factory(Arguments::command).complete();
    let given = snapshot::tool::arguments(std::env::args_os().collect());
    let arguments = match Arguments::try_parse_from(given) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let is_diff = match &arguments.command {
        Command::Diff(_) => true,
        Command::Snapshot(snapshot) => snapshot.is_comparison(),
        _ => false,
    };
    let mut out = Printer::new();
    let outcome = run(arguments.command, &mut out).and_then(|outcome| {
        out.flush()?;
        Ok(outcome)
    });
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        // The reader of the pipe has closed it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            out.print_to_stderr(&format!("error: {error:#}"));
            let is_of_arguments = error.is::<InvalidArguments>();
            ExitCode::from(if is_diff || is_of_arguments { 2 } else { 1 })
        }
    }
}

/// Reports arguments that are not well-formed.
fn refuse(error: &clap::Error) -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    match cluster::misplaced_words(&arguments, error) {
        Some(why) => {
            Printer::new().print_to_stderr(&format!("error: {why}"));
            ExitCode::from(2)
        }
        None => error.exit(),
    }
}

fn run(command: Command, out: &mut Printer) -> anyhow::Result<Outcome> {
    match command {
        Command::Demo(demo) => demo.run(out),
        Command::Record(record) => record.run(out),
        Command::Import(import) => import.run(out),
        Command::Export(export) => export.run(out),
        Command::Info(info) => info.run(out),
        Command::Get(get) => get.run(out),
        Command::Log(log) => log.run(out),
        Command::Diff(diff) => diff.run(out),
        Command::Explain(explain) => explain.run(out),
        Command::Replay(replay) => replay.run(out),
        Command::Doctor(doctor) => doctor.run(out),
        Command::Prune(prune) => prune.run(out),
        Command::Serve(serve) => serve.run(out),
        Command::Cluster(cluster) => cluster.run(out),
        Command::Snapshot(snapshot) => snapshot.run(out),
        Command::SnapshotTool(tool) => tool.run(out),
        Command::Completion(completion) => completion.run(out),
        Command::Man(man) => man.run(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }
}
