//! The `kinescope` program: its command line and the dispatch to its commands.

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
mod sort_by;
mod tracer_config;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::output::{Printer, is_broken_pipe};

/// Replays allocate and free many small objects, which mimalloc does faster than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ABOUT: &str = "Films a Kubernetes cluster and plays it again";

const AFTER: &str = "\
Times: 2026-11-01T14:03Z, '2026-11-01 14:03', 14:03 (the last one), -2h, start, start+30m, end, now. They count \
from the end of the history, in your time zone.

A history is chosen by --history or as first argument, else by $KINESCOPE_HISTORY, else it is the only .kine file \
here.

Exit codes: 0 done; 1 not done, or `doctor` found damage; 2 the command line is wrong. `diff` answers as diff(1) \
does: 0 nothing differs, 1 something does, 2 trouble.";

/// Films a Kubernetes cluster and plays it again.
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
    Log(log::Log),
    Diff(diff::Diff),
    Explain(explain::Explain),
    Replay(Box<replay::Replay>),
    Doctor(doctor::Doctor),
    Prune(prune::Prune),
    Serve(serve::Serve),
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

fn main() -> ExitCode {
    clap_complete::CompleteEnv::with_factory(Arguments::command).complete();
    let arguments = Arguments::parse();
    let trouble = if matches!(arguments.command, Command::Diff(_)) { 2 } else { 1 };
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
            ExitCode::from(trouble)
        }
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
