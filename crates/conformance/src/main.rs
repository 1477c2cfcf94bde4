//! The program behind `cargo xtask vectors`, `cargo xtask oracle` and `cargo xtask films`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the command prints its results")]

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use conformance::recording::WatchRecording;
use conformance::{
    CaseReader, CaseRequest, DecisionCounts, DecisionDifference, JsonLines, Oracle, SchedulerCase,
    autoscaler, controllers, kai, recording,
};

/// A result whose error is only ever printed.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Compares the re-created scheduler, autoscaler, controllers and KAI-Scheduler with the real ones.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    comparison: Comparison,
}

#[derive(Subcommand)]
enum Comparison {
    /// Cases that the real scheduler's, autoscaler's or KAI's code solved earlier: JSON lines, compressed with gzip or not.
    Vectors {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print all differences, not only the first three of each family.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        only: CaseFilter,
    },
    /// Fresh cases, solved by the real scheduler's code now. Needs Go.
    Oracle {
        /// The seed of the first case of each family.
        #[arg(long)]
        seed: u64,
        /// The number of cases of each family.
        #[arg(long)]
        count: u64,
        /// The families; all if none is named.
        #[arg(long, value_delimiter = ',')]
        families: Vec<String>,
        /// Keep the cases in this file.
        #[arg(long, value_name = "FILE")]
        keep: Option<PathBuf>,
        /// Print all differences, not only the first three of each family.
        #[arg(long)]
        all: bool,
    },
    /// Recordings of real clusters: watch events, one JSON line each, compressed with gzip or not.
    Films {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print the first N differing decisions of each recording in full.
        #[arg(long, value_name = "N", default_value_t = 0)]
        show: usize,
    },
}

/// The selection of cases, and the level of detail.
#[derive(Args)]
struct CaseFilter {
    /// Only cases of this family.
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Only the case of this name.
    #[arg(long, value_name = "ID")]
    case: Option<String>,
    /// Print all facts of a loop with each difference. Autoscaler cases only.
    #[arg(long)]
    verbose: bool,
}

/// A progress line that is overwritten, on a terminal only.
struct Progress {
    is_shown: bool,
}

const SHOWN_PER_FAMILY: usize = 3;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().comparison {
        Comparison::Vectors { files, all, only } => vectors(&files, max_shown(all), &only),
        Comparison::Oracle { seed, count, families, keep, all } => {
            oracle(&CaseRequest { seed, count, families }, keep.as_deref(), max_shown(all))
        }
        Comparison::Films { files, show } => films(&files, show),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let mut message = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                message = format!("{message}: {error}");
                cause = error.source();
            }
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn max_shown(all: bool) -> usize {
    if all { usize::MAX } else { SHOWN_PER_FAMILY }
}

/// Compares vectors. Returns whether all decisions are equal.
fn vectors(files: &[PathBuf], most: usize, only: &CaseFilter) -> Result<bool> {
    let (mut counts, mut loop_counts, progress) =
        (DecisionCounts::default(), autoscaler::CaseCounts::default(), Progress::new());
    let mut kai_counts = kai::KaiCaseCounts::default();
    for file in files {
        let mut lines = JsonLines::open(file)?;
        let first = lines.read()?.map(CaseKind::of);
        if first.is_some() {
            lines.unread();
        }
        if first == Some(CaseKind::Kai) {
            let mut cases = CaseReader::<kai::KaiCase>::new(lines);
            while let Some(case) = cases.read()? {
                if only.matches(&case.family, &case.id) {
                    progress.show(&case.id);
                    let comparison = kai::compare_kai_case(&case);
                    if kai_counts.add(&case, &comparison, most) {
                        progress.clear();
                        println!("{comparison}\n");
                    }
                }
            }
        } else if first == Some(CaseKind::Autoscaler) {
            let mut cases = CaseReader::<autoscaler::AutoscalerCase>::new(lines);
            while let Some(case) = cases.read()? {
                if only.matches(&case.family, &case.id) {
                    progress.show(&case.id);
                    let comparison = autoscaler::compare_autoscaler_case(&case);
                    for one in loop_counts.add(&case, &comparison, most) {
                        progress.clear();
                        if only.verbose { println!("{one:#}\n") } else { println!("{one}\n") }
                    }
                }
            }
        } else {
            let mut cases = CaseReader::<SchedulerCase>::new(lines);
            while let Some(case) = cases.read()? {
                if only.matches(&case.family, &case.id) {
                    progress.show(&case.id);
                    print_differences(
                        counts.add(&case, conformance::compare_scheduler_case(&case), most),
                        &progress,
                    );
                }
            }
        }
    }
    progress.clear();
    if counts.is_empty() && loop_counts.is_empty() && kai_counts.is_empty() {
        return Err("no case was compared: no case has that family and name".into());
    }
    if !counts.is_empty() {
        println!("{counts}");
    }
    if !loop_counts.is_empty() {
        println!("{loop_counts}");
    }
    if !kai_counts.is_empty() {
        println!("{kai_counts}");
    }
    Ok(counts.is_all_equal() && loop_counts.is_all_equal() && kai_counts.is_all_equal())
}

/// Compares fresh cases. Returns whether all decisions are equal; true without Go.
fn oracle(request: &CaseRequest, keep: Option<&Path>, most: usize) -> Result<bool> {
    let Some(mut oracle) = Oracle::start(request)? else {
        println!("skipped: no go");
        return Ok(true);
    };
    let mut output = keep.map(|path| File::create(path).map(BufWriter::new)).transpose()?;
    let (mut counts, progress) = (DecisionCounts::default(), Progress::new());
    let (mut count, mut ambiguous) = (0, 0);
    while let Some((line, case)) = oracle.read()? {
        progress.show(&format!("{count} cases, {}", case.id));
        let comparison = conformance::compare_scheduler_case(&case);
        let differs = comparison.iter().any(|one| !one.differences.is_empty());
        if differs && !oracle.is_deterministic(&line)? {
            progress.clear();
            println!("{}: left out, the real scheduler's answers differ", case.id);
            ambiguous += 1;
            continue;
        }
        count += 1;
        print_differences(counts.add(&case, comparison, most), &progress);
        if let Some(file) = &mut output {
            writeln!(file, "{line}")?;
        }
    }
    progress.clear();
    let left_out = oracle.finish()? + ambiguous;
    if let Some(file) = &mut output {
        file.flush()?;
    }
    if count == 0 {
        return Err("no case was compared: try a larger --count".into());
    }
    println!("{counts}");
    println!("seed {}, {count} cases, {left_out} more left out because their answers differ", request.seed);
    Ok(counts.is_all_equal())
}

fn print_differences(differences: Vec<DecisionDifference>, progress: &Progress) {
    for difference in differences {
        progress.clear();
        println!("{difference}\n");
    }
}

/// Compares recordings. Never fails because of differences: real schedulers race with their watches.
fn films(files: &[PathBuf], show: usize) -> Result<bool> {
    for file in files {
        let progress = Progress::new();
        progress.show(&format!("reading {}", file.display()));
        let recording = WatchRecording::read(JsonLines::open(file)?)?;
        let report = recording::compare_scheduler(&recording, show, |what| {
            progress.show(&format!("{}: {what}", recording.name))
        });
        progress.clear();
        for example in &report.examples {
            println!("{example}\n");
        }
        println!("{report}");
        if let Some(autoscaler_report) = autoscaler::recording::compare_autoscaler(JsonLines::open(file)?)? {
            for statement in autoscaler_report.differing().take(show) {
                println!("{statement}\n");
            }
            println!("{autoscaler_report}");
        }
        let controllers_report = controllers::compare_controllers(JsonLines::open(file)?, show)?;
        for example in &controllers_report.examples {
            println!("{example}\n");
        }
        println!("{controllers_report}");
    }
    Ok(true)
}

/// The component whose decisions a case records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CaseKind {
    Scheduler,
    Autoscaler,
    Kai,
}

// === impl CaseKind ===

impl CaseKind {
    fn of(line: &str) -> CaseKind {
        if kai::KaiCase::is_kai_case(line) {
            CaseKind::Kai
        } else if autoscaler::AutoscalerCase::is_autoscaler_case(line) {
            CaseKind::Autoscaler
        } else {
            CaseKind::Scheduler
        }
    }
}

// === impl CaseFilter ===

impl CaseFilter {
    fn matches(&self, family: &str, case: &str) -> bool {
        let matches = |wanted: &Option<String>, name| wanted.as_deref().is_none_or(|wanted| wanted == name);
        matches(&self.family, family) && matches(&self.case, case)
    }
}

// === impl Progress ===

impl Progress {
    fn new() -> Progress {
        Progress { is_shown: io::stderr().is_terminal() }
    }

    fn show(&self, what: &str) {
        if self.is_shown {
            eprint!("\r\x1b[K{what}");
        }
    }

    fn clear(&self) {
        self.show("");
    }
}
