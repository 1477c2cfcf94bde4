//! Benchmarks of Kinescope, compared with their budgets and with baselines measured in the same run.
//!
//! A missed budget is reported but is not a failure.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its results")]

mod apiserver;
mod autoscaler;
mod bench_env;
mod formats;
mod history;
mod kai;
mod live_replay;
mod machine;
mod record;
mod replay;
mod results;
mod samples;
mod scheduler;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use bench_env::BenchEnv;
use machine::Machine;
use results::BenchResults;

/// A result whose error is only ever printed.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures Kinescope and prints the results with their budgets.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// Benchmarks or groups to run; all if none is named.
    names: Vec<String>,
    /// Measure at the sizes the budgets are meant for: takes minutes instead of seconds, and gigabytes in the temporary
    /// folder.
    #[arg(long)]
    full: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Keep the generated large history in this new file.
    #[arg(long, value_name = "FILE", conflicts_with = "reuse")]
    keep: Option<PathBuf>,
    /// Use the large history that an earlier run kept, instead of generating one.
    #[arg(long = "use", value_name = "FILE")]
    reuse: Option<PathBuf>,
    /// Run only the scheduler workloads whose name contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// A benchmark.
struct Bench {
    /// Group and name, separated by a dot.
    name: &'static str,
    about: &'static str,
    run: fn(&BenchEnv, &mut BenchResults) -> Result<()>,
}

const BENCHES: &[&[Bench]] = &[
    history::BENCHES,
    formats::BENCHES,
    record::BENCHES,
    scheduler::BENCHES,
    autoscaler::BENCHES,
    kai::BENCHES,
    replay::BENCHES,
    live_replay::BENCHES,
    apiserver::BENCHES,
];

fn main() -> ExitCode {
    if let Some(outcome) =
        history::child::run_child().or_else(scheduler::child::run_child).or_else(kai::child::run_child)
    {
        return finish(outcome.err().as_deref());
    }
    let arguments = Arguments::parse();
    let all = || BENCHES.iter().copied().flatten();
    let unknown: Vec<&str> = arguments
        .names
        .iter()
        .filter(|name| !all().any(|bench| bench.is_named(name)))
        .map(String::as_str)
        .collect();
    if !unknown.is_empty() {
        eprintln!("unknown benchmark: {}; the benchmarks are:", unknown.join(", "));
        for bench in all() {
            eprintln!("  {:<16}{}", bench.name, bench.about);
        }
        eprintln!("The part of a name before the dot is its group.");
        return ExitCode::FAILURE;
    }
    let is_wanted = |bench: &&Bench| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| bench.is_named(name))
    };
    let outcome = measure(&arguments, all().filter(is_wanted));
    finish(outcome.err().as_deref())
}

/// Runs the benchmarks and prints the results, also those from before a failure.
fn measure<'a>(arguments: &Arguments, wanted: impl Iterator<Item = &'a Bench>) -> Result<()> {
    let mut results = BenchResults::new(Machine::now());
    let env = BenchEnv::new(
        arguments.full,
        arguments.keep.clone(),
        arguments.reuse.clone(),
        arguments.only.clone(),
    )?;
    let mut outcome = Ok(());
    for bench in wanted {
        eprintln!("measuring {}: {}", bench.name, bench.about);
        outcome = (bench.run)(&env, &mut results).map_err(|error| format!("{}: {error}", bench.name).into());
        if outcome.is_err() {
            break;
        }
    }
    let after = Machine::now();
    if arguments.json {
        println!("{:#}", results.json(&after));
    } else {
        print!("{}", results.table(&after));
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
    fn is_named(&self, name: &str) -> bool {
        self.name == name || self.name.split_once('.').is_some_and(|(group, _)| group == name)
    }
}
