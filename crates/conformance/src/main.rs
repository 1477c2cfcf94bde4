//! The program behind `cargo xtask vectors`, `cargo xtask oracle` and `cargo xtask films`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a judge talks to whoever asked")]

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use conformance::film::Film;
use conformance::{Cases, Difference, Lines, Oracle, Tally, Wish, autoscaler, controllers, film};

/// A result whose error is only ever printed.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Compares the re-created scheduler, autoscaler and controllers with the real ones.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    judge: Judge,
}

#[derive(Subcommand)]
enum Judge {
    /// Cases that the real scheduler's or autoscaler's code solved earlier: JSON lines, compressed with gzip or not.
    Vectors {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print all differences, not only the first three of each family.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        only: Only,
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
struct Only {
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

const FIRST: usize = 3;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().judge {
        Judge::Vectors { files, all, only } => vectors(&files, most(all), &only),
        Judge::Oracle { seed, count, families, keep, all } => {
            oracle(&Wish { seed, count, families }, keep.as_deref(), most(all))
        }
        Judge::Films { files, show } => films(&files, show),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let mut told = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                told = format!("{told}: {error}");
                cause = error.source();
            }
            eprintln!("error: {told}");
            ExitCode::from(2)
        }
    }
}

fn most(all: bool) -> usize {
    if all { usize::MAX } else { FIRST }
}

/// Compares vectors. Returns whether all decisions are equal.
fn vectors(files: &[PathBuf], most: usize, only: &Only) -> Result<bool> {
    let (mut tally, mut loops, progress) = (Tally::default(), autoscaler::Tally::default(), Progress::new());
    for file in files {
        let mut lines = Lines::open(file)?;
        let first = lines.read()?.map(autoscaler::Case::is_in);
        if first.is_some() {
            lines.again();
        }
        if first == Some(true) {
            let mut cases = autoscaler::Cases::of(lines);
            while let Some(case) = cases.read()? {
                if only.means(&case.family, &case.id) {
                    progress.show(&case.id);
                    let judged = autoscaler::judge(&case);
                    for one in loops.add(&case, &judged, most) {
                        progress.clear();
                        if only.verbose { println!("{one:#}\n") } else { println!("{one}\n") }
                    }
                }
            }
        } else {
            let mut cases = Cases::of(lines);
            while let Some(case) = cases.read()? {
                if only.means(&case.family, &case.id) {
                    progress.show(&case.id);
                    tell(tally.add(&case, conformance::judge(&case), most), &progress);
                }
            }
        }
    }
    progress.clear();
    if tally.is_empty() && loops.is_empty() {
        return Err("no case was compared: ask for families and cases that there are".into());
    }
    if !tally.is_empty() {
        println!("{tally}");
    }
    if !loops.is_empty() {
        println!("{loops}");
    }
    Ok(tally.is_clean() && loops.is_clean())
}

/// Compares fresh cases. Returns whether all decisions are equal; true without Go.
fn oracle(wish: &Wish, keep: Option<&Path>, most: usize) -> Result<bool> {
    let Some(mut oracle) = Oracle::start(wish)? else {
        println!("skipped: no go");
        return Ok(true);
    };
    let mut kept = keep.map(|path| File::create(path).map(BufWriter::new)).transpose()?;
    let (mut tally, progress) = (Tally::default(), Progress::new());
    let (mut count, mut by_chance) = (0, 0);
    while let Some((line, case)) = oracle.read()? {
        progress.show(&format!("{count} cases, {}", case.id));
        let judged = conformance::judge(&case);
        let differs = judged.iter().any(|one| !one.differences.is_empty());
        if differs && !oracle.insists(&line)? {
            progress.clear();
            println!("{}: left out, the real scheduler answers one way and then another", case.id);
            by_chance += 1;
            continue;
        }
        count += 1;
        tell(tally.add(&case, judged, most), &progress);
        if let Some(file) = &mut kept {
            writeln!(file, "{line}")?;
        }
    }
    progress.clear();
    let left_out = oracle.finish()? + by_chance;
    if let Some(file) = &mut kept {
        file.flush()?;
    }
    if count == 0 {
        return Err("no case was compared: ask for at least one, of families that there are".into());
    }
    println!("{tally}");
    println!("seed {}, {count} cases, {left_out} more left out: they have no single answer", wish.seed);
    Ok(tally.is_clean())
}

fn tell(differences: Vec<Difference>, progress: &Progress) {
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
        let film = Film::read(Lines::open(file)?)?;
        let verdicts = film::judge(&film, show, |what| progress.show(&format!("{}: {what}", film.name)));
        progress.clear();
        for example in &verdicts.examples {
            println!("{example}\n");
        }
        println!("{verdicts}");
        if let Some(compared) = autoscaler::film::compare(Lines::open(file)?)? {
            for said in compared.different().take(show) {
                println!("{said}\n");
            }
            println!("{compared}");
        }
        let played = controllers::judge(Lines::open(file)?, show)?;
        for example in &played.examples {
            println!("{example}\n");
        }
        println!("{played}");
    }
    Ok(true)
}

// === impl Only ===

impl Only {
    fn means(&self, family: &str, case: &str) -> bool {
        let is = |wanted: &Option<String>, name| wanted.as_deref().is_none_or(|wanted| wanted == name);
        is(&self.family, family) && is(&self.case, case)
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
