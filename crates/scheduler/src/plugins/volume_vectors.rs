//! The volume plugins compared with kube-scheduler's results for the same clusters.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use flate2::read::GzDecoder;
use kubernetes::labels::Labels;
use kubernetes::objects::Volume;
use model::Kind;
use serde_json::Value;

use super::volume_context::{PodChanges, VolumeNode, VolumePod};
use super::{node_volume_limits, volume_binding, volume_restrictions, volume_zone};
use crate::ids::PodId;
use crate::status::Status;
use crate::storage::{PodVolumes, StorageCache, StorageKind};

/// The plugins that run before the volume plugins, and the volume plugins.
const EARLIER_PLUGINS: [&str; 7] = [
    "SchedulingGates",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
];
const VOLUME_PLUGINS: [&str; 4] = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];

#[test]
fn volume_plugins_decide_as_in_kube_scheduler() {
    check(include_bytes!("../../../../testdata/scheduler/vectors/volumes.jsonl.gz"), 300);
}

#[test]
fn volume_plugins_decide_as_in_kube_scheduler_for_odd_volumes() {
    check(include_bytes!("../../../../testdata/scheduler/vectors/volumes2.jsonl.gz"), 300);
}

#[test]
fn volume_plugins_decide_as_in_kube_scheduler_for_cloud_volumes() {
    check(include_bytes!("../../../../testdata/scheduler/vectors/volumes3.jsonl.gz"), 300);
}

/// Checks all cases; at least that many rejections by volume plugins must have been compared.
#[track_caller]
fn check(file: &[u8], at_least: usize) {
    let mut rejections = 0;
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let case: Value = serde_json::from_str(&line.unwrap()).unwrap();
        rejections += VectorCluster::of(&case).check(&case);
    }
    assert!(rejections >= at_least, "only {rejections} rejections were compared");
}

#[derive(Default)]
struct VectorCluster {
    storage: StorageCache,
    nodes: Vec<(Arc<str>, Labels)>,
    /// By namespace and name.
    pods: BTreeMap<String, VectorPod>,
}

#[derive(Clone)]
struct VectorPod {
    id: PodId,
    namespace: Arc<str>,
    volumes: Option<Arc<PodVolumes>>,
    priority: i64,
    nominated: Option<String>,
}

struct VectorStates {
    restrictions: Option<volume_restrictions::VolumeRestrictionsState>,
    limits: Option<node_volume_limits::NodeVolumeLimitsState>,
    binding: Option<volume_binding::VolumeBindingState>,
    zone: Option<volume_zone::VolumeZoneState>,
}

// === impl VectorCluster ===

impl VectorCluster {
    fn of(case: &Value) -> VectorCluster {
        let mut cluster = VectorCluster::default();
        for value in case["objects"].as_array().unwrap() {
            let object = testobjects::object(value);
            let kind = Kind::of(&object.meta().api_version, &object.meta().kind);
            if let Some(kind) = StorageKind::of(&kind) {
                cluster.storage.apply(kind, &object).unwrap();
            } else if &*kind.kind == "Node" {
                let labels: Option<Labels> =
                    serde_json::from_value(value["metadata"]["labels"].clone()).unwrap();
                cluster
                    .nodes
                    .push((value["metadata"]["name"].as_str().unwrap().into(), labels.unwrap_or_default()));
            } else if &*kind.kind == "Pod" {
                cluster.add_pod(value);
            }
        }
        case["pending"].as_array().unwrap().iter().for_each(|pod| cluster.add_pod(pod));
        cluster
    }

    fn add_pod(&mut self, value: &Value) {
        let text = |value: &Value| -> Arc<str> { value.as_str().unwrap_or_default().into() };
        let (meta, spec) = (&value["metadata"], &value["spec"]);
        let volumes: Option<Vec<Volume>> = serde_json::from_value(spec["volumes"].clone()).unwrap();
        let volumes =
            PodVolumes::new(&volumes.unwrap_or_default(), &text(&meta["name"]), &text(&meta["uid"]));
        let (name, namespace) = (text(&meta["name"]), text(&meta["namespace"]));
        let pod = VectorPod {
            id: PodId(self.pods.len() as u32),
            namespace: namespace.clone(),
            volumes,
            priority: spec["priority"].as_i64().unwrap_or(0),
            nominated: value["status"]["nominatedNodeName"].as_str().map(str::to_owned),
        };
        let stored_pod = self.pods.entry(format!("{namespace}/{name}")).or_insert(pod).clone();
        let node = text(&spec["nodeName"]);
        if self.nodes.iter().any(|(name, _)| *name == node) {
            self.place(&stored_pod, &node);
        }
    }

    fn place(&mut self, pod: &VectorPod, node: &Arc<str>) {
        if let Some(volumes) = &pod.volumes {
            self.storage.add_pod(pod.id, node, &pod.namespace, volumes);
        }
    }

    fn check(&mut self, case: &Value) -> usize {
        let mut rejections = 0;
        for expect in case["expect"].as_array().unwrap() {
            let name = expect["pod"].as_str().unwrap();
            let location = format!("{} {name}", case["id"]);
            let pod = self.pods[name].clone();
            if expect.get("skipped").is_some() || expect.get("preEnqueue").is_some() {
                continue;
            }
            let Some(volumes) = &pod.volumes else {
                rejections += self.apply_expected_decision(expect, &pod, None, &location);
                continue;
            };
            let view = VolumePod { namespace: &pod.namespace, volumes };
            let found = VectorStates::new(view, &self.storage);
            match (found, expect.get("preFilter")) {
                (found, Some(expected)) if VOLUME_PLUGINS.contains(&expected["plugin"].as_str().unwrap()) => {
                    assert_eq!(found.err().map(to_vector_json).as_ref(), Some(expected), "{location}");
                    rejections += 1;
                }
                (_, Some(expected)) if EARLIER_PLUGINS.contains(&expected["plugin"].as_str().unwrap()) => {}
                (Err(status), _) => panic!("{location}: rejected by {status:?}"),
                (Ok(_), Some(_)) => {}
                (Ok(states), None) => {
                    for (node, expected) in expect["nodes"].as_object().into_iter().flatten() {
                        rejections += self.check_node(&states, &pod, node, expected, &location);
                    }
                    rejections += self.apply_expected_decision(expect, &pod, Some(&states), &location);
                }
            }
        }
        rejections
    }

    fn check_node(
        &self,
        states: &VectorStates,
        pod: &VectorPod,
        node: &str,
        expected: &Value,
        location: &str,
    ) -> usize {
        let (name, labels) = self.nodes.iter().find(|(name, _)| &**name == node).unwrap();
        let plugin = expected["plugin"].as_str().unwrap_or_default();
        if EARLIER_PLUGINS.contains(&plugin) {
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
        let node = VolumeNode::named(name, labels, &self.storage);
        let found = states
            .filter(&node, &PodChanges { removed: &[], added: &nominated }, &self.storage)
            .and_then(|()| states.filter(&node, &PodChanges::default(), &self.storage));
        let ours = VOLUME_PLUGINS.contains(&plugin);
        assert_eq!(
            found.err().map(to_vector_json).as_ref(),
            ours.then_some(expected),
            "{location} on {name}"
        );
        usize::from(ours)
    }

    /// Applies the expected decision to the cluster.
    fn apply_expected_decision(
        &mut self,
        expect: &Value,
        pod: &VectorPod,
        states: Option<&VectorStates>,
        location: &str,
    ) -> usize {
        if let Some(node) = expect["node"].as_str() {
            let (name, labels) = self.nodes.iter().find(|(name, _)| &**name == node).unwrap().clone();
            if let Some(binding) = states.and_then(|states| states.binding.as_ref()) {
                let node = VolumeNode::named(&name, &labels, &self.storage);
                let reservation = volume_binding::reserve(binding, &node).unwrap();
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
            let node = VolumeNode::named(name, labels, &self.storage);
            let pod_changes = PodChanges { removed: &victims, added: &[] };
            assert_eq!(
                states.filter(&node, &pod_changes, &self.storage),
                Ok(()),
                "{location} without its victims"
            );
        }
        for victim in &victims {
            self.storage.remove_pod(*victim);
        }
        let stored_pod = self.pods.values_mut().find(|stored_pod| stored_pod.id == pod.id).unwrap();
        stored_pod.nominated =
            if expect.get("node").is_some() { None } else { nominated.or(stored_pod.nominated.take()) };
        for name in expect["clearedNominations"].as_array().into_iter().flatten() {
            self.pods.get_mut(name.as_str().unwrap()).unwrap().nominated = None;
        }
        victims.len()
    }
}

// === impl VectorStates ===

impl VectorStates {
    fn new(pod: VolumePod<'_>, storage: &StorageCache) -> Result<VectorStates, Status> {
        Ok(VectorStates {
            restrictions: volume_restrictions::pre_filter(pod, storage)?,
            limits: node_volume_limits::pre_filter(pod, storage),
            binding: volume_binding::pre_filter(pod, storage)?,
            zone: volume_zone::pre_filter(pod, storage)?,
        })
    }

    fn filter(
        &self,
        node: &VolumeNode<'_>,
        pod_changes: &PodChanges<'_>,
        storage: &StorageCache,
    ) -> Result<(), Status> {
        if let Some(state) = &self.restrictions {
            volume_restrictions::filter(state, node, pod_changes, storage)?;
        }
        if let Some(state) = &self.limits {
            node_volume_limits::filter(state, node, pod_changes, storage)?;
        }
        if let Some(state) = &self.binding {
            volume_binding::filter(state, node)?;
        }
        self.zone.as_ref().map_or(Ok(()), |state| volume_zone::filter(state, node))
    }
}

/// A status as in the vectors.
fn to_vector_json(status: Status) -> Value {
    let mut reasons = status.reasons;
    reasons.sort();
    serde_json::json!({
        "plugin": status.plugin.name(),
        "code": status.code.to_string(),
        "reasons": reasons.to_vec(),
    })
}
