//! The plugins for volumes against what kube-scheduler itself said of the same clusters.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use flate2::read::GzDecoder;
use kubernetes::labels::Labels;
use model::Kind;
use serde_json::Value;

use super::volume_view::{VolumeHypothesis, VolumeNode, VolumePod};
use super::{node_volume_limits, volume_binding, volume_restrictions, volume_zone};
use crate::ids::PodId;
use crate::storage::{PodVolumes, Storage, StorageKind, VolumeJson};
use crate::verdict::Refusal;

/// The plugins in their order, with those of volumes in the middle.
const BEFORE: [&str; 7] = [
    "SchedulingGates",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
];
const VOLUMES: [&str; 4] = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];

#[test]
fn volumes_decide_as_in_kube_scheduler() {
    check(include_bytes!("../../../../testdata/scheduler/vectors/volumes.jsonl.gz"), 300);
}

#[test]
fn odd_volumes_decide_as_in_kube_scheduler() {
    check(include_bytes!("../../../../testdata/scheduler/vectors/volumes2.jsonl.gz"), 300);
}

#[test]
fn volumes_of_clouds_decide_as_in_kube_scheduler() {
    check(include_bytes!("../../../../testdata/scheduler/vectors/volumes3.jsonl.gz"), 300);
}

/// Goes through all cases; that many verdicts of the plugins for volumes must have been compared at least.
#[track_caller]
fn check(file: &[u8], at_least: usize) {
    let mut refusals = 0;
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let case: Value = serde_json::from_str(&line.unwrap()).unwrap();
        refusals += World::of(&case).check(&case);
    }
    assert!(refusals >= at_least, "only {refusals} refusals were compared");
}

#[derive(Default)]
struct World {
    storage: Storage,
    nodes: Vec<(Arc<str>, Labels)>,
    /// By namespace and name.
    pods: BTreeMap<String, Pod>,
}

#[derive(Clone)]
struct Pod {
    id: PodId,
    namespace: Arc<str>,
    volumes: Option<Arc<PodVolumes>>,
    priority: i64,
    nominated: Option<String>,
}

struct States {
    restrictions: Option<volume_restrictions::State>,
    limits: Option<node_volume_limits::State>,
    binding: Option<volume_binding::State>,
    zone: Option<volume_zone::State>,
}

// === impl World ===

impl World {
    fn of(case: &Value) -> World {
        let mut world = World::default();
        for value in case["objects"].as_array().unwrap() {
            let object = testobjects::object(value);
            let kind = Kind::of(&object.meta().api_version, &object.meta().kind);
            if let Some(kind) = StorageKind::of(&kind) {
                world.storage.apply(kind, &object).unwrap();
            } else if &*kind.kind == "Node" {
                let labels: Option<Labels> =
                    serde_json::from_value(value["metadata"]["labels"].clone()).unwrap();
                world
                    .nodes
                    .push((value["metadata"]["name"].as_str().unwrap().into(), labels.unwrap_or_default()));
            } else if &*kind.kind == "Pod" {
                world.add_pod(value);
            }
        }
        case["pending"].as_array().unwrap().iter().for_each(|pod| world.add_pod(pod));
        world
    }

    fn add_pod(&mut self, value: &Value) {
        let text = |value: &Value| -> Arc<str> { value.as_str().unwrap_or_default().into() };
        let (meta, spec) = (&value["metadata"], &value["spec"]);
        let volumes: Option<Vec<VolumeJson>> = serde_json::from_value(spec["volumes"].clone()).unwrap();
        let volumes =
            PodVolumes::read(&volumes.unwrap_or_default(), &text(&meta["name"]), &text(&meta["uid"]));
        let (name, namespace) = (text(&meta["name"]), text(&meta["namespace"]));
        let pod = Pod {
            id: PodId(self.pods.len() as u32),
            namespace: namespace.clone(),
            volumes,
            priority: spec["priority"].as_i64().unwrap_or(0),
            nominated: value["status"]["nominatedNodeName"].as_str().map(str::to_owned),
        };
        let known = self.pods.entry(format!("{namespace}/{name}")).or_insert(pod).clone();
        let node = text(&spec["nodeName"]);
        if self.nodes.iter().any(|(name, _)| *name == node) {
            self.place(&known, &node);
        }
    }

    fn place(&mut self, pod: &Pod, node: &Arc<str>) {
        if let Some(volumes) = &pod.volumes {
            self.storage.place(pod.id, node, &pod.namespace, volumes);
        }
    }

    fn check(&mut self, case: &Value) -> usize {
        let mut refusals = 0;
        for expect in case["expect"].as_array().unwrap() {
            let name = expect["pod"].as_str().unwrap();
            let place = format!("{} {name}", case["id"]);
            let pod = self.pods[name].clone();
            if expect.get("skipped").is_some() || expect.get("preEnqueue").is_some() {
                continue;
            }
            let Some(volumes) = &pod.volumes else {
                refusals += self.finish(expect, &pod, None, &place);
                continue;
            };
            let view = VolumePod { namespace: &pod.namespace, volumes };
            let found = States::new(view, &self.storage);
            match (found, expect.get("preFilter")) {
                (found, Some(expected)) if VOLUMES.contains(&expected["plugin"].as_str().unwrap()) => {
                    assert_eq!(found.err().map(said).as_ref(), Some(expected), "{place}");
                    refusals += 1;
                }
                (_, Some(expected)) if BEFORE.contains(&expected["plugin"].as_str().unwrap()) => {}
                (Err(refusal), _) => panic!("{place}: refused by {refusal:?}"),
                (Ok(_), Some(_)) => {}
                (Ok(states), None) => {
                    for (node, expected) in expect["nodes"].as_object().into_iter().flatten() {
                        refusals += self.check_node(&states, &pod, node, expected, &place);
                    }
                    refusals += self.finish(expect, &pod, Some(&states), &place);
                }
            }
        }
        refusals
    }

    fn check_node(&self, states: &States, pod: &Pod, node: &str, expected: &Value, place: &str) -> usize {
        let (name, labels) = self.nodes.iter().find(|(name, _)| &**name == node).unwrap();
        let plugin = expected["plugin"].as_str().unwrap_or_default();
        if BEFORE.contains(&plugin) {
            return 0;
        }
        let nominated: Vec<VolumePod<'_>> = self
            .pods
            .values()
            .filter(|other| other.id != pod.id && other.priority >= pod.priority)
            .filter(|other| other.nominated.as_deref() == Some(node))
            .filter_map(|other| {
                Some(VolumePod { namespace: &other.namespace, volumes: other.volumes.as_ref()? })
            })
            .collect();
        let node = VolumeNode { name, labels };
        let found = states
            .filter(&node, &VolumeHypothesis { without: &[], with: &nominated }, &self.storage)
            .and_then(|()| states.filter(&node, &VolumeHypothesis::default(), &self.storage));
        let ours = VOLUMES.contains(&plugin);
        assert_eq!(found.err().map(said).as_ref(), ours.then_some(expected), "{place} on {name}");
        usize::from(ours)
    }

    /// Does what the scheduler does.
    fn finish(&mut self, expect: &Value, pod: &Pod, states: Option<&States>, place: &str) -> usize {
        if let Some(node) = expect["node"].as_str() {
            let (name, labels) = self.nodes.iter().find(|(name, _)| &**name == node).unwrap().clone();
            if let Some(binding) = states.and_then(|states| states.binding.as_ref()) {
                let node = VolumeNode { name: &name, labels: &labels };
                let reservation = volume_binding::reserve(binding, &node, &self.storage).unwrap();
                self.storage.assume(&reservation);
            }
            self.place(pod, &name);
        }
        let nominated = expect["nominatedNode"].as_str().map(str::to_owned);
        let victims = expect["victims"].as_array();
        let victims: Vec<PodId> =
            victims.into_iter().flatten().map(|name| self.pods[name.as_str().unwrap()].id).collect();
        if let (Some(node), Some(states)) = (&nominated, states) {
            let (name, labels) = self.nodes.iter().find(|(name, _)| **name == **node).unwrap();
            let node = VolumeNode { name, labels };
            let hypothesis = VolumeHypothesis { without: &victims, with: &[] };
            assert_eq!(
                states.filter(&node, &hypothesis, &self.storage),
                Ok(()),
                "{place} without its victims"
            );
        }
        for victim in &victims {
            self.storage.displace(*victim);
        }
        let known = self.pods.values_mut().find(|known| known.id == pod.id).unwrap();
        known.nominated =
            if expect.get("node").is_some() { None } else { nominated.or(known.nominated.take()) };
        for name in expect["clearedNominations"].as_array().into_iter().flatten() {
            self.pods.get_mut(name.as_str().unwrap()).unwrap().nominated = None;
        }
        victims.len()
    }
}

// === impl States ===

impl States {
    fn new(pod: VolumePod<'_>, storage: &Storage) -> Result<States, Refusal> {
        Ok(States {
            restrictions: volume_restrictions::pre_filter(pod, storage)?,
            limits: node_volume_limits::pre_filter(pod, storage),
            binding: volume_binding::pre_filter(pod, storage)?,
            zone: volume_zone::pre_filter(pod, storage)?,
        })
    }

    fn filter(
        &self,
        node: &VolumeNode<'_>,
        hypothesis: &VolumeHypothesis<'_>,
        storage: &Storage,
    ) -> Result<(), Refusal> {
        if let Some(state) = &self.restrictions {
            volume_restrictions::filter(state, node, hypothesis, storage)?;
        }
        if let Some(state) = &self.limits {
            node_volume_limits::filter(state, node, hypothesis, storage)?;
        }
        if let Some(state) = &self.binding {
            volume_binding::filter(state, node, storage)?;
        }
        self.zone.as_ref().map_or(Ok(()), |state| volume_zone::filter(state, node))
    }
}

/// A refusal as a vector writes it.
fn said(refusal: Refusal) -> Value {
    let mut reasons = refusal.reasons;
    reasons.sort();
    serde_json::json!({
        "plugin": refusal.plugin.name(),
        "code": refusal.code.to_string(),
        "reasons": reasons.to_vec(),
    })
}
