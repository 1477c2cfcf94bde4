//! The memory that each further small cluster takes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use workload::churn::Churn;

use super::recorder::{Cores, Recorder, Stage, has_come};
use super::script::Script;
use super::server::{Pace, Server};
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::machine::Memory;
use crate::studio::Studio;

/// Two hundred pods, and what goes with them.
const ALIVE: usize = 300;
const CHANGES: u64 = 5_000;
/// As many as such a cluster sees in a month.
const FULL_CHANGES: u64 = 200_000;
const FURTHER: usize = 20;
const QUIET: Duration = Duration::from_secs(5);
const BUDGET: f64 = 20e6;

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let changes = if studio.is_full() { FULL_CHANGES } else { CHANGES };
    let script =
        Arc::new(Script::new(Churn { alive: ALIVE, changes: ALIVE as u64 + changes, ..Churn::default() })?);
    let (one, many) = (record(studio, &script, 1)?, record(studio, &script, 1 + FURTHER)?);
    let what = format!(
        "memory of each further small cluster after {} changes: 1 and {} in one process",
        with_commas(changes as f64),
        1 + FURTHER
    );
    match one.zip(many) {
        Some((one, many)) => {
            let each = many.now.saturating_sub(one.now) as f64 / FURTHER as f64;
            figures.add(
                Figure::new(what, each, Unit::Bytes)
                    .budget(BUDGET)
                    .also("1 cluster", one.now as f64, Unit::Bytes)
                    .also("all", many.now as f64, Unit::Bytes)
                    .also("most there was", many.peak as f64, Unit::Bytes),
            );
        }
        None => figures.skip(what, "only Linux tells a process's memory"),
    }
    Ok(())
}

/// The memory of a process that has recorded so many clusters.
fn record(studio: &Studio, script: &Arc<Script>, count: usize) -> Result<Option<Memory>> {
    let server = Server::start(script.clone(), Pace::Any)?;
    let folder = studio.path(&format!("{count}-clusters"));
    fs::create_dir(&folder)?;
    fs::write(folder.join("kubeconfig"), server.kubeconfig())?;
    let names: Vec<String> = (1..=count).map(|number| format!("small-{number}")).collect();
    let clusters: Vec<_> =
        names.iter().map(|name| json!({ "name": name, "kubeconfig": "kubeconfig" })).collect();
    let config = folder.join("clusters.yaml");
    // YAML reads JSON.
    fs::write(&config, json!({ "clusters": clusters }).to_string())?;
    let histories: Vec<PathBuf> = names.iter().map(|name| folder.join(format!("{name}.kine"))).collect();
    let config = config.display().to_string();
    let mut recorder =
        Recorder::start(studio, Cores::All, &["serve", "--listen", "127.0.0.1:0", "--config", &config])?;
    for stage in [Stage::Listed, Stage::Told] {
        for history in &histories {
            recorder.wait(|| has_come(history, script, stage))?;
        }
        server.go();
    }
    // A small cluster is quiet most of the time.
    std::thread::sleep(QUIET);
    let memory = recorder.memory();
    recorder.stop()?;
    fs::remove_dir_all(&folder)?;
    Ok(memory)
}
