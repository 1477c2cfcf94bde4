//! Kinescope's figures beside their budgets, and beside those of peers measured in the same run.
//!
//! Nothing here passes or fails by a time: a missed budget is told, not punished.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark is read off a terminal")]

mod autoscaler;
mod figure;
mod formats;
mod history;
mod live_replay;
mod machine;
mod record;
mod replay;
mod samples;
mod scheduler;
mod studio;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use figure::Figures;
use machine::Machine;
use studio::Studio;

/// A result whose error is only ever printed.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures Kinescope and prints the figures beside their budgets.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// What to measure, a group or one of it; everything if none is named.
    names: Vec<String>,
    /// Measure at the sizes the budgets are meant for: minutes instead of seconds, gigabytes in the temporary folder.
    #[arg(long)]
    full: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Keep the large history that is made, in this new file.
    #[arg(long, value_name = "FILE", conflicts_with = "reuse")]
    keep: Option<PathBuf>,
    /// Use the large history that an earlier run kept, instead of making one.
    #[arg(long = "use", value_name = "FILE")]
    reuse: Option<PathBuf>,
    /// Of the scheduler's workloads only those whose name has this in it.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// One thing to measure.
struct Bench {
    /// Group and name, with a dot between.
    name: &'static str,
    about: &'static str,
    run: fn(&Studio, &mut Figures) -> Result<()>,
}

const BENCHES: &[&[Bench]] = &[
    history::BENCHES,
    formats::BENCHES,
    record::BENCHES,
    scheduler::BENCHES,
    autoscaler::BENCHES,
    replay::BENCHES,
    live_replay::BENCHES,
];

fn main() -> ExitCode {
    if let Some(outcome) = history::child::play().or_else(scheduler::child::be_one) {
        return finish(outcome.err().as_deref());
    }
    let arguments = Arguments::parse();
    let all = || BENCHES.iter().copied().flatten();
    let unknown: Vec<&str> = arguments
        .names
        .iter()
        .filter(|name| !all().any(|bench| bench.is_called(name)))
        .map(String::as_str)
        .collect();
    if !unknown.is_empty() {
        eprintln!("there is nothing to measure called {}; there is:", unknown.join(", "));
        for bench in all() {
            eprintln!("  {:<16}{}", bench.name, bench.about);
        }
        eprintln!("A group is named by what stands before the dot.");
        return ExitCode::FAILURE;
    }
    let is_wanted = |bench: &&Bench| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| bench.is_called(name))
    };
    let outcome = measure(&arguments, all().filter(is_wanted));
    finish(outcome.err().as_deref())
}

/// Runs what is wanted and prints the figures, also those from before something broke.
fn measure<'a>(arguments: &Arguments, wanted: impl Iterator<Item = &'a Bench>) -> Result<()> {
    let mut figures = Figures::new(Machine::now());
    let studio =
        Studio::new(arguments.full, arguments.keep.clone(), arguments.reuse.clone(), arguments.only.clone())?;
    let mut outcome = Ok(());
    for bench in wanted {
        eprintln!("measuring {}: {}", bench.name, bench.about);
        outcome =
            (bench.run)(&studio, &mut figures).map_err(|error| format!("{}: {error}", bench.name).into());
        if outcome.is_err() {
            break;
        }
    }
    let after = Machine::now();
    if arguments.json {
        println!("{:#}", figures.json(&after));
    } else {
        print!("{}", figures.table(&after));
    }
    outcome
}

fn finish(error: Option<&dyn Error>) -> ExitCode {
    let Some(error) = error else { return ExitCode::SUCCESS };
    eprint!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprint!(": {error}");
        cause = error.source();
    }
    eprintln!();
    ExitCode::FAILURE
}

// === impl Bench ===

impl Bench {
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.name.split_once('.').is_some_and(|(group, _)| group == name)
    }
}
