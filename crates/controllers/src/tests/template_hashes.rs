//! Hashes of pod templates, compared with those in recordings of real control planes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use apimachinery::template_hash::revision_hash;
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::pod_template::{CONTROLLER_REVISION_HASH_LABEL, POD_TEMPLATE_HASH_LABEL, PodTemplate};

/// The hashes that were compared, and what they depend on.
#[derive(Default)]
struct Comparison {
    compared: BTreeSet<(&'static str, String)>,
    /// The hashes of all templates of each DaemonSet, by its name.
    daemon_sets: BTreeMap<String, BTreeSet<String>>,
}

impl Comparison {
    fn add(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let mut template = object["spec"]["template"].clone();
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        match object["kind"].as_str() {
            Some("ReplicaSet") => {
                let labels = template["metadata"]["labels"].as_object_mut().unwrap();
                let recorded = labels.remove(POD_TEMPLATE_HASH_LABEL).unwrap();
                self.compare(
                    "ReplicaSet",
                    recorded.as_str().unwrap(),
                    &PodTemplate::from(template).original_hash(0),
                );
            }
            Some("StatefulSet") if object["status"]["observedGeneration"] == metadata["generation"] => {
                template["$patch"] = "replace".into();
                let hash = revision_hash(&json!({"spec": {"template": template}}), 0);
                let recorded = object["status"]["updateRevision"].as_str().unwrap();
                self.compare("StatefulSet", recorded, &format!("{name}-{hash}"));
            }
            Some("DaemonSet") => {
                self.daemon_sets
                    .entry(name)
                    .or_default()
                    .insert(PodTemplate::from(template).original_hash(0));
            }
            Some("Pod") if metadata["ownerReferences"][0]["kind"] == "DaemonSet" => {
                let owner = metadata["ownerReferences"][0]["name"].as_str().unwrap();
                let recorded = metadata["labels"][CONTROLLER_REVISION_HASH_LABEL].as_str().unwrap();
                let hashes = &self.daemon_sets[owner];
                assert!(hashes.contains(recorded), "{owner}: {recorded} is not in {hashes:?}");
                self.compared.insert(("DaemonSet", recorded.to_owned()));
            }
            _ => {}
        }
    }

    #[track_caller]
    fn compare(&mut self, kind: &'static str, recorded: &str, computed: &str) {
        assert_eq!(computed, recorded, "{kind}");
        self.compared.insert((kind, recorded.to_owned()));
    }
}

#[test]
fn hashes_are_those_of_real_control_planes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/films");
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|file| file.to_string_lossy().ends_with(".jsonl.gz")).collect();
    if files.is_empty() {
        // Written directly: the test runner captures the output of print macros.
        std::io::stderr().write_all(b"skipped: no films\n").unwrap();
        return;
    }
    let mut comparison = Comparison::default();
    for file in files {
        comparison.daemon_sets.clear();
        for line in BufReader::new(GzDecoder::new(File::open(&file).unwrap())).lines() {
            let change: Value = serde_json::from_str(&line.unwrap()).unwrap();
            comparison.add(&change["object"]);
        }
    }
    for kind in ["ReplicaSet", "StatefulSet", "DaemonSet"] {
        let count = comparison.compared.iter().filter(|(compared, _)| *compared == kind).count();
        assert!(count > 0, "no hash of a {kind} was compared");
    }
}
