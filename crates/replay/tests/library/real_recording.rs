//! Tests of the library on a recording of a real cluster with a real autoscaler.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Cursor, Write};
use std::path::Path;

use formats::{Format, ImportItem, Input, ReadOptions};
use history::BulkWriter;
use model::{Moment, What};
use replay::replayer::{Replayer, ScalingEventKind};

#[test]
fn scaling_of_a_real_recording_is_listed_and_replayed() {
    let recording_path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/films/autoscaled.jsonl.gz");
    let Ok(file) = File::open(&recording_path) else {
        std::io::stderr().write_all(b"skipped: no films\n").unwrap();
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("film.kine");
    let mut bulk = BulkWriter::open(&path).unwrap();
    let read_options = ReadOptions { source: "film".into(), at: None, now: Moment::from_nanos(7) };
    let input = Input::open("film", Box::new(file)).unwrap();
    // Counted independently of the library: Events of the autoscaler, and nodes with a group's annotation that were
    // added.
    let (mut recorded_reasons, mut added_nodes): (BTreeMap<String, usize>, BTreeSet<String>) =
        Default::default();
    for item in formats::read(input, Format::Jsonl, read_options).unwrap() {
        let ImportItem::Change(change) = item.unwrap() else { continue };
        let object = change.what.object().value().unwrap();
        match (&*change.key.kind.kind, &change.what) {
            ("Event", What::Added(_) | What::Modified(_)) => {
                *recorded_reasons
                    .entry(object["reason"].as_str().unwrap_or_default().to_owned())
                    .or_default() += 1;
            }
            ("Node", What::Added(_)) => drop(added_nodes.insert(change.key.name.to_string())),
            _ => {}
        }
        bulk.push(&change).unwrap();
    }
    bulk.finish().unwrap();

    let replayer = Replayer::open(&path).unwrap();
    let events = replayer.scaling_events(replayer.record_start(), replayer.record_end()).unwrap();
    let mut nodes = BTreeSet::new();
    let mut grown_groups = BTreeSet::new();
    let mut listed_reasons: BTreeMap<String, usize> = BTreeMap::new();
    for event in &events {
        match &event.kind {
            ScalingEventKind::AutoscalerEvent { reason, .. } => {
                *listed_reasons.entry(reason.clone()).or_default() += 1
            }
            ScalingEventKind::NodeAdded { node, group } => {
                nodes.insert(node.to_string());
                grown_groups.insert(group.to_string());
            }
            ScalingEventKind::NodeDeleted { .. } => {}
        }
    }
    let reasons = ["TriggeredScaleUp", "NotTriggerScaleUp", "ScaledUpGroup", "ScaleDown", "ScaleDownEmpty"];
    recorded_reasons.retain(|reason, _| reasons.contains(&reason.as_str()));
    assert_eq!(listed_reasons, recorded_reasons);
    assert_eq!(nodes.len() + 2, added_nodes.len(), "two nodes belong to no group");

    let mut scenarios = Vec::new();
    let take = |scenario: formats::scaling_scenario::Scenario| {
        let mut out = Vec::new();
        scenario.write(&mut out)?;
        scenarios.push(out);
        Ok(())
    };
    let report = replayer.prepare().scenarios("film", take).run().unwrap();
    assert_eq!(format!("{report:?}"), format!("{:?}", replayer.prepare().run().unwrap()));
    assert!(report.is_stable());
    assert_eq!(report.scaled_up_groups.keys().cloned().collect::<BTreeSet<_>>(), grown_groups);
    assert!(!scenarios.is_empty());
    for scenario in scenarios {
        let input = Input::open("scenario", Box::new(Cursor::new(scenario))).unwrap();
        let read_options = ReadOptions { source: "film".into(), at: None, now: Moment::from_nanos(7) };
        let items = formats::read(input, Format::ScalingScenario, read_options).unwrap();
        // Pods of the DaemonSet are created for the nodes, and are not demands.
        let is_pod = |item: &ImportItem| matches!(item, ImportItem::Change(change_read) if change_read.what.object().meta().kind == "Pod");
        assert!(items.map(Result::unwrap).filter(is_pod).count() > 40);
    }
}
