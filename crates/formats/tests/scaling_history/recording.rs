//! The round trip of a recording of a real cluster.

use super::*;

/// A state that the recording has for this long before and after a moment must be in the file at that moment: the file
/// has whole seconds, and the times of conditions instead of those of changes.
const STEADY_MICROS: i64 = 40_000_000;

#[test]
fn an_exported_and_imported_recording_has_its_pods_and_nodes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/films");
    let Ok(recording) = std::fs::File::open(folder.join("autoscaled.jsonl.gz")) else {
        // Not with a macro, whose output the test runner captures.
        std::io::stderr().write_all(b"skipped: no films\n").unwrap();
        return;
    };
    let lines: Vec<Value> = BufReader::new(flate2::read::GzDecoder::new(recording))
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    let recording: Vec<Change> =
        lines.iter().enumerate().map(|(seq, line)| change(seq as i64, line)).collect();
    let folder = tempfile::tempdir().unwrap();
    let (path, written) = write(folder.path(), "film.db", &recording, &[]);
    println!("{written:?}");
    let (shown, _) = changes(&read(&path).unwrap());

    let (recording, shown) = (observed_states(&recording), observed_states(&shown));
    let (first, last) = (recording[0].at, recording.last().unwrap().at);
    let seed = 9;
    println!("seed {seed}");
    let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
    let mut compared = 0;
    for _ in 0..40 {
        let moment = rng.random_range(first + STEADY_MICROS..last);
        let then = state(&shown, moment);
        let (before, after) =
            (state(&recording, moment - STEADY_MICROS), state(&recording, moment + STEADY_MICROS));
        let around: Vec<&ObservedState> =
            recording.iter().filter(|sighting| (sighting.at - moment).abs() <= STEADY_MICROS).collect();
        for (name, place) in &before {
            let steady = after.get(name) == Some(place)
                && around
                    .iter()
                    .all(|sighting| sighting.name != **name || sighting.placement.as_ref() == Some(*place));
            if steady && !place.is_empty() {
                assert_eq!(then.get(name), Some(place), "{name:?} at {moment}");
                compared += 1;
            }
        }
        for name in then.keys() {
            let lately = around.iter().any(|sighting| sighting.name == **name);
            assert!(before.contains_key(name) || lately, "{name:?} at {moment} has long been gone");
        }
    }
    assert!(compared > 500, "{compared}");
}

/// The kind, the name and, for a pod, the uid.
type ObjectIdentity = (Arc<str>, Arc<str>, String);

/// The state of a pod or a node after one change.
struct ObservedState {
    at: i64,
    name: ObjectIdentity,
    /// The pod's node, or `ready` for a ready node, empty if neither; `None` if it is deleted.
    placement: Option<String>,
}

fn observed_states(changes: &[Change]) -> Vec<ObservedState> {
    let all = changes.iter().filter(|change| matches!(&*change.key.kind.kind, "Pod" | "Node"));
    all.map(|change| {
        let object = change.what.object();
        let is_pod = &*change.key.kind.kind == "Pod";
        let uid = object.meta().uid.filter(|_| is_pod).unwrap_or_default().into_owned();
        let name = (change.key.kind.kind.clone(), change.key.name.clone(), uid);
        let place = change.what.state().map(|object| placement_of(&object.value().unwrap()));
        ObservedState { at: change.at.nanos() / 1_000, name, placement: place }
    })
    .collect()
}

fn placement_of(object: &Value) -> String {
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return String::new();
    }
    if object["kind"] == "Pod" {
        return object["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    }
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    if ready { "ready".to_owned() } else { String::new() }
}

/// All pods and nodes at a moment, with their `placement`.
fn state(sightings: &[ObservedState], moment: i64) -> BTreeMap<&ObjectIdentity, &String> {
    let mut state = BTreeMap::new();
    for ObservedState { name, placement: place, .. } in
        sightings.iter().take_while(|sighting| sighting.at <= moment)
    {
        match place {
            Some(place) => drop(state.insert(name, place)),
            None => drop(state.remove(name)),
        }
    }
    state
}
