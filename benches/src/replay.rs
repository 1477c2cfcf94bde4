//! Benchmarks of replays, each by the program itself in a process of its own.

pub(crate) mod child;
mod elastic;
mod recorder;
mod week;

use std::fs;
use std::path::{Path, PathBuf};

use model::Moment;
use serde_json::Value;

use crate::bench_env::BenchEnv;
use crate::history::recordings;
use crate::results::{BenchResults, Measurement, Unit};
use crate::{Bench, Result};

use child::{ReplayRun, import, replay};
use elastic::ElasticSize;

/// The benchmarks of replays.
pub(crate) const BENCHES: &[Bench] = &[
    Bench { name: "replay.dlrm", about: "31 days of 156 services, with scheduler and autoscaler", run: dlrm },
    Bench { name: "replay.week", about: "a week of 1,000 nodes and 500,000 pods, and its memory", run: week },
    Bench {
        name: "replay.churn",
        about: "a cluster whose nodes come and go, with recorded nodes and with an autoscaler",
        run: churn,
    },
    Bench {
        name: "replay.workloads",
        about: "the same cluster at the level of workloads, and its memory",
        run: workloads,
    },
    Bench {
        name: "replay.films",
        about: "recordings of real clusters: the share of decisions that are as recorded",
        run: all_recordings,
    },
];

/// The budget of the 31-day trace, in seconds.
const DLRM_BUDGET: f64 = 5.0;
/// The budget of the week, in seconds.
const WEEK_BUDGET: f64 = 30.0;
/// The budget of a replay's memory relative to that of its first part. Memory should depend on the size of the cluster,
/// not on the duration.
const GROWTH_BUDGET: f64 = 1.2;
/// Outside the workspace, since it is too large to be part of it.
const TRACE: &str = "../shared/data/dlrm/disaggregated_DLRM_trace.csv";
const GROUPS: &str = "examples/node-groups/dlrm.yaml";

fn dlrm(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let what = "replay of 31 days of the trace dlrm, with autoscaler";
    let trace = root().join(TRACE);
    if !trace.exists() {
        results.skip(what, "the trace is missing");
        return Ok(());
    }
    let history = cached_history("dlrm.kine", |path| import(env, &trace, path))?;
    let groups = root().join(GROUPS);
    let groups = groups.to_str().ok_or("the path is not UTF-8")?;
    let replayed = replay(env, &history, &["--node-groups", groups])?;
    results.add(duration_measurement(what, &replayed)?.budget(DLRM_BUDGET));
    Ok(())
}

fn week(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let history = cached_history("week.kine", week::write_history)?;
    let all = replay(env, &history, &[])?;
    let what = format!("replay of a week, {} nodes, {} pods", week::NODES, week::PODS);
    results.add(duration_measurement(&what, &all)?.budget(WEEK_BUDGET).detail(
        "same node",
        share(&all.report, "sameNode"),
        Unit::Share,
    ));
    let day = replay(env, &history, &["--to", "2026-11-03T00:00:00Z"])?;
    add_growth(results, "replay: the memory of a week beside that of its first day", &all, &day);
    Ok(())
}

/// Adds the memory of a replay relative to that of its first part.
fn add_growth(results: &mut BenchResults, what: &str, all: &ReplayRun, part: &ReplayRun) {
    match all.memory.zip(part.memory) {
        Some((all, part)) => results.add(
            Measurement::new(what, all / part, Unit::Times)
                .budget(GROWTH_BUDGET)
                .detail("the whole", all, Unit::Bytes)
                .detail("the part", part, Unit::Bytes),
        ),
        None => results.skip(what, "process memory is only known on Linux"),
    }
}

fn churn(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let (size, history) = elastic_history(env)?;
    let groups = env.path("node-groups.yaml");
    fs::write(&groups, elastic::NODE_GROUPS)?;
    let groups = groups.to_str().ok_or("the path is not UTF-8")?;
    for (nodes, settings) in [("as recorded", &[][..]), ("autoscaled", &["--node-groups", groups])] {
        let replayed = replay(env, &history, settings)?;
        let what = format!("replay of churn, {size}, nodes {nodes}");
        let (added, recorded) =
            (&replayed.report["replayed"]["nodesCame"], &replayed.report["recorded"]["nodesCame"]);
        results.add(
            duration_measurement(&what, &replayed)?.detail("nodes added", number(added), Unit::Count).detail(
                "recorded",
                number(recorded),
                Unit::Count,
            ),
        );
    }
    Ok(())
}

fn workloads(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let (size, history) = elastic_history(env)?;
    let all = replay(env, &history, &["--level", "workloads"])?;
    let what = format!("replay of workloads, {size}");
    results.add(duration_measurement(&what, &all)?.detail(
        "same node",
        share(&all.report, "sameNode"),
        Unit::Share,
    ));
    let half = replay(env, &history, &["--level", "workloads", "--to", &size.middle().to_string()])?;
    add_growth(
        results,
        "replay of workloads: the memory of the whole beside that of its first half",
        &all,
        &half,
    );
    Ok(())
}

/// The generated cluster, at the size that this run measures.
fn elastic_history(env: &BenchEnv) -> Result<(ElasticSize, PathBuf)> {
    let size = if env.is_full() { ElasticSize::FULL } else { ElasticSize::DEFAULT };
    let name = format!("elastic-{}-nodes.kine", size.nodes);
    Ok((size, cached_history(&name, |path| elastic::write_history(path, size))?))
}

fn all_recordings(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    for (name, recording) in recordings::all() {
        let history = cached_history(&format!("film-{name}.kine"), |path| import(env, &recording, path))?;
        let replayed = replay(env, &history, &[])?;
        let ReplayRun { report, .. } = &replayed;
        let p50 = |field: &str| report[field]["waited"]["p50"].as_f64().unwrap_or_default();
        results.add(
            Measurement::new(
                format!("film {name}: bound to the same node"),
                share(report, "sameNode"),
                Unit::Share,
            )
            .detail("same class", share(report, "sameClass"), Unit::Share)
            .detail("within a second", share(report, "withinASecond"), Unit::Share)
            .detail("median wait recorded", p50("recorded"), Unit::Seconds)
            .detail("replayed", p50("replayed"), Unit::Seconds)
            .detail(
                "node curves apart",
                number(&report["scaling"]["nodes"]["share"]),
                Unit::Share,
            ),
        );
        results.add(duration_measurement(&format!("film {name}: replay"), &replayed)?);
    }
    Ok(())
}

/// The replay's duration, with its speedup and peak memory.
fn duration_measurement(what: &str, replayed: &ReplayRun) -> Result<Measurement> {
    let moment = |end: &str| replayed.report["window"][end].as_str().unwrap_or_default().parse::<Moment>();
    let recorded_seconds = moment("to")?.nanos_since(moment("from")?) as f64 / 1e9;
    let measurement = Measurement::new(what, replayed.seconds, Unit::Seconds).detail(
        "as fast as it happened",
        recorded_seconds / replayed.seconds,
        Unit::Times,
    );
    Ok(match replayed.memory {
        Some(memory) => measurement.detail("most memory", memory, Unit::Bytes),
        None => measurement,
    })
}

/// The share of recorded bindings with a property.
fn share(report: &Value, property: &str) -> f64 {
    let placements = &report["fidelity"]["placements"];
    number(&placements[property]) / number(&placements["recorded"]).max(1.0)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// A history cached in the temporary folder; it is generated if missing.
fn cached_history(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join("kinescope-bench-kept");
    fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    if !path.exists() {
        eprintln!("  generating {}, which later runs reuse", path.display());
        make(&path)?;
    }
    Ok(path)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace's folder")
}
