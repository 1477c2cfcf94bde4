//! The snapshot file of a generated cluster, written by the writer of KAI's snapshots.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use formats::Writer;
use formats::kai_snapshot::{KaiSnapshotWriter, SETTINGS_API_VERSION, SETTINGS_KIND};
use model::{Change, Object, What};
use serde_json::{Value, json};

use super::cluster::{ClusterOptions, generate};
use super::objects::NOW;
use crate::Result;

/// The plugins in the order in which KAI's operator lists them.
const PLUGINS: [&str; 20] = [
    "predicates",
    "proportion",
    "priority",
    "nodeavailability",
    "resourcetype",
    "podaffinity",
    "elastic",
    "kubeflow",
    "ray",
    "subgrouporder",
    "taskorder",
    "nominatednode",
    "dynamicresources",
    "minruntime",
    "topology",
    "snapshot",
    "sg-nodelocalgreedy",
    "sg-multinodegang",
    "gpupack",
    "gpusharingorder",
];

/// Writes the snapshot of a cluster.
pub(super) fn write_snapshot(path: &Path, options: &ClusterOptions) -> Result<()> {
    let source: Arc<str> = "bench".into();
    let at = NOW.parse()?;
    let mut writer = Box::new(KaiSnapshotWriter::new(BufWriter::new(File::create(path)?), None));
    let mut add = |object: Object| -> Result<()> {
        let key = object.key(&source);
        let change = Change { seq: 0, at, seen: at, key, what: What::Added(object), inferred: false };
        Ok(writer.change(&change)?)
    };
    add(Object::parse(&settings().to_string())?)?;
    generate(options, &mut add)?;
    writer.finish()?;
    Ok(())
}

/// The settings with KAI's default values, but for the search budgets: KAI's own allow minutes, which no cycle of seconds
/// has.
fn settings() -> Value {
    let mut plugins: Vec<Value> = PLUGINS.iter().map(|name| json!({"name": name})).collect();
    plugins.push(json!({"name": "nodeplacement", "arguments": {"cpu": "binpack", "gpu": "binpack"}}));
    json!({"apiVersion": SETTINGS_API_VERSION, "kind": SETTINGS_KIND, "metadata": {"name": "kai-scheduler"},
        "config": {"actions": "allocate, consolidation, reclaim, preempt, stalegangeviction", "tiers": [{"plugins": plugins}],
            "scenarioSearchBudgets": {"maxActionSearchDuration": {"default": "30s"}, "maxJobSearchDuration": "0s",
                "maxGeneratorSearchDuration": {"default": "3s"}}},
        "schedulerParams": {"schedulerName": "kai-scheduler", "maxNumberConsolidationPreemptees": 16,
            "useSchedulingSignatures": true, "fullHierarchyFairness": true, "allowConsolidatingReclaim": true,
            "numOfStatusRecordingWorkers": 5, "globalDefaultStalenessGracePeriod": 60_000_000_000_i64,
            "schedulePeriod": 1_000_000_000, "stuckInReleasingThreshold": 120_000_000_000_i64,
            "queueLabelKey": "kai.scheduler/queue"}})
}
