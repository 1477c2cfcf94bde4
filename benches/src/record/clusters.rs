//! Benchmark of the memory per additional small cluster.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use workload::churn::ChurnOptions;

use super::recorder::{Cores, RecorderProcess, RecordingStage, has_reached};
use super::script::ServerScript;
use super::server::{ScriptedServer, WatchRate};
use crate::Result;
use crate::bench_env::BenchEnv;
use crate::machine::ProcessMemory;
use crate::results::{BenchResults, Measurement, Unit, with_commas};

/// Two hundred pods and their share of other objects.
const LIVE_OBJECTS: usize = 300;
const CHANGES: u64 = 5_000;
/// The number of changes of such a cluster in a month.
const FULL_CHANGES: u64 = 200_000;
const ADDITIONAL_CLUSTERS: usize = 20;
const QUIET_TIME: Duration = Duration::from_secs(5);
const BUDGET: f64 = 20e6;

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let changes = if env.is_full() { FULL_CHANGES } else { CHANGES };
    let script = Arc::new(ServerScript::new(ChurnOptions {
        live_objects: LIVE_OBJECTS,
        changes: LIVE_OBJECTS as u64 + changes,
        ..ChurnOptions::default()
    })?);
    let (one, many) = (record(env, &script, 1)?, record(env, &script, 1 + ADDITIONAL_CLUSTERS)?);
    let what = format!(
        "memory of each further small cluster after {} changes: 1 and {} in one process",
        with_commas(changes as f64),
        1 + ADDITIONAL_CLUSTERS
    );
    match one.zip(many) {
        Some((one, many)) => {
            let each = many.now.saturating_sub(one.now) as f64 / ADDITIONAL_CLUSTERS as f64;
            results.add(
                Measurement::new(what, each, Unit::Bytes)
                    .budget(BUDGET)
                    .detail("1 cluster", one.now as f64, Unit::Bytes)
                    .detail("all", many.now as f64, Unit::Bytes)
                    .detail("most there was", many.peak as f64, Unit::Bytes),
            );
        }
        None => results.skip(what, "process memory is only known on Linux"),
    }
    Ok(())
}

/// The memory of a process that has recorded `count` clusters.
fn record(env: &BenchEnv, script: &Arc<ServerScript>, count: usize) -> Result<Option<ProcessMemory>> {
    let server = ScriptedServer::start(script.clone(), WatchRate::Unlimited)?;
    let folder = env.path(&format!("{count}-clusters"));
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
        RecorderProcess::start(env, Cores::All, &["serve", "--listen", "127.0.0.1:0", "--config", &config])?;
    for stage in [RecordingStage::Listed, RecordingStage::Watched] {
        for history in &histories {
            recorder.wait(|| has_reached(history, script, stage))?;
        }
        server.start_watches();
    }
    // A small cluster is quiet most of the time.
    std::thread::sleep(QUIET_TIME);
    let memory = recorder.memory();
    recorder.stop()?;
    fs::remove_dir_all(&folder)?;
    Ok(memory)
}
