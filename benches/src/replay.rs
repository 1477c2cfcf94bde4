//! The figures of replays, each by the program itself, in a process of its own.

pub(crate) mod child;
mod week;

use std::fs;
use std::path::{Path, PathBuf};

use model::Moment;
use serde_json::Value;

use crate::figure::{Figure, Figures, Unit};
use crate::history::films;
use crate::studio::Studio;
use crate::{Bench, Result};

use child::{Replayed, import, replay};

/// What is measured of replays.
pub(crate) const BENCHES: &[Bench] = &[
    Bench { name: "replay.dlrm", about: "31 days of 156 services, with scheduler and autoscaler", run: dlrm },
    Bench { name: "replay.week", about: "a week of 1,000 nodes and 500,000 pods, and its memory", run: week },
    Bench {
        name: "replay.films",
        about: "films of real clusters: how much comes out as recorded",
        run: all_films,
    },
];

/// What the trace of 31 days may take.
const DLRM_BUDGET: f64 = 10.0;
/// What the week may take.
const WEEK_BUDGET: f64 = 60.0;
/// Memory follows the cluster: the week may take so many times that of its first day.
const GROWTH_BUDGET: f64 = 1.2;
/// Beside the workspace, as it is too large to be part of it.
const TRACE: &str = "../shared/data/dlrm/disaggregated_DLRM_trace.csv";
const GROUPS: &str = "examples/node-groups/dlrm.yaml";

fn dlrm(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let what = "replay of 31 days of the trace dlrm, with autoscaler";
    let trace = root().join(TRACE);
    if !trace.exists() {
        figures.skip(what, "the trace is not at hand");
        return Ok(());
    }
    let history = kept("dlrm.kine", |path| import(studio, &trace, path))?;
    let groups = root().join(GROUPS);
    let groups = groups.to_str().ok_or("a path that is no text")?;
    let replayed = replay(studio, &history, &["--node-groups", groups])?;
    figures.add(timed(what, &replayed)?.budget(DLRM_BUDGET));
    Ok(())
}

fn week(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let history = kept("week.kine", week::make)?;
    let all = replay(studio, &history, &[])?;
    let what = format!("replay of a week, {} nodes, {} pods", week::NODES, week::PODS);
    figures.add(timed(&what, &all)?.budget(WEEK_BUDGET).also(
        "same node",
        share(&all.report, "sameNode"),
        Unit::Share,
    ));
    let day = replay(studio, &history, &["--to", "2026-11-03T00:00:00Z"])?;
    let what = "replay: the memory of a week beside that of its first day";
    match all.memory.zip(day.memory) {
        Some((all, day)) => figures.add(
            Figure::new(what, all / day, Unit::Times)
                .budget(GROWTH_BUDGET)
                .also("the week", all, Unit::Bytes)
                .also("the day", day, Unit::Bytes),
        ),
        None => figures.skip(what, "only Linux tells a process's memory"),
    }
    Ok(())
}

fn all_films(studio: &Studio, figures: &mut Figures) -> Result<()> {
    for (name, film) in films::all() {
        let history = kept(&format!("film-{name}.kine"), |path| import(studio, &film, path))?;
        let replayed = replay(studio, &history, &[])?;
        let Replayed { report, .. } = &replayed;
        let p50 = |which: &str| report[which]["waited"]["p50"].as_f64().unwrap_or_default();
        figures.add(
            Figure::new(
                format!("film {name}: bound to the same node"),
                share(report, "sameNode"),
                Unit::Share,
            )
            .also("same class", share(report, "sameClass"), Unit::Share)
            .also("within a second", share(report, "withinASecond"), Unit::Share)
            .also("median wait recorded", p50("recorded"), Unit::Seconds)
            .also("replayed", p50("replayed"), Unit::Seconds)
            .also("node curves apart", number(&report["scaling"]["nodes"]["share"]), Unit::Share),
        );
        figures.add(timed(&format!("film {name}: replay"), &replayed)?);
    }
    Ok(())
}

/// How long it took, how many times as fast that was as it happened, and the most memory there was.
fn timed(what: &str, replayed: &Replayed) -> Result<Figure> {
    let moment =
        |which: &str| replayed.report["window"][which].as_str().unwrap_or_default().parse::<Moment>();
    let lasted = moment("to")?.nanos_since(moment("from")?) as f64 / 1e9;
    let figure = Figure::new(what, replayed.seconds, Unit::Seconds).also(
        "as fast as it happened",
        lasted / replayed.seconds,
        Unit::Times,
    );
    Ok(match replayed.memory {
        Some(memory) => figure.also("most memory", memory, Unit::Bytes),
        None => figure,
    })
}

/// The share of the recorded bindings that came out so.
fn share(report: &Value, how: &str) -> f64 {
    let placements = &report["fidelity"]["placements"];
    number(&placements[how]) / number(&placements["recorded"]).max(1.0)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// A history that earlier runs kept in the folder for temporary files; it is made if there is none.
fn kept(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join("kinescope-bench-kept");
    fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    if !path.exists() {
        eprintln!("  making {}, which later runs use again", path.display());
        make(&path)?;
    }
    Ok(path)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace's folder")
}
