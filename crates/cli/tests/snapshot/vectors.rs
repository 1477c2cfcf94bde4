//! Cases of the real scheduler through the program: what it binds, pipelines and evicts.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::cluster::{snapshot_json, write_zip};

/// A family of every kind of decision; the crate `conformance` compares all.
const FAMILIES: [&str; 6] = ["gpu", "reclaim", "preempt", "consolidation", "stalegang", "fraction"];

#[test]
fn decisions_are_those_of_the_real_scheduler() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/kai/vectors");
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for family in FAMILIES {
        let Ok(file) = std::fs::File::open(vectors.join(format!("{family}.jsonl.gz"))) else { continue };
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        for line in text.lines().take(3) {
            let case: Value = serde_json::from_str(line).unwrap();
            write_zip(&folder.path().join("case.zip"), &case["snapshot"]);
            let now = case["now"].as_str().unwrap();
            let report = snapshot_json(folder.path(), &format!("run case.zip --now {now}"));
            for (ours, theirs) in report["cycles"][0]["actions"]
                .as_array()
                .unwrap()
                .iter()
                .zip(case["expect"]["actions"].as_array().unwrap())
            {
                for list in ["bound", "pipelined", "evicted"] {
                    assert_eq!(
                        decisions(&ours[list]),
                        decisions(&theirs[list]),
                        "{} {}",
                        case["id"],
                        ours["action"]
                    );
                }
            }
            count += 1;
        }
    }
    assert!(count >= 15, "{count}");
}

/// The pods and nodes of a list.
fn decisions(list: &Value) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.as_array().unwrap().iter().map(|it| (text(&it["pod"]), text(&it["node"]))).collect()
}
