//! Signatures of jobs: equal for jobs whose pods without a node have equal scheduling constraints.

use std::sync::Arc;

use kubernetes::objects::PodSpec;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::job::Job;
use super::pod::Pod;
use super::pod_info::PodInfos;
use super::status::PodStatus;
use super::sub_group::{SubGroupTree, TopologyConstraint};

/// The constraints of a pod set: of its topology and those above, and of its pods, sorted.
type PodSetConstraints = Option<(Vec<Option<Arc<TopologyConstraint>>>, Vec<u32>)>;

/// Sets the signatures of the jobs that have pending pods; no others are compared.
pub(super) fn set_signatures(jobs: &mut [Job], infos: &PodInfos, pods: &[Pod]) {
    let mut of_specs = SpecSignatures::default();
    let mut known: FxHashMap<Vec<PodSetConstraints>, u32> = FxHashMap::default();
    for job in jobs.iter_mut().filter(|job| job.has_status(PodStatus::Pending)) {
        let mut constraints: Vec<PodSetConstraints> = (0..job.tree.pod_sets.len())
            .map(|index| pod_set_constraints(&job.tree, index, infos, pods, &mut of_specs))
            .collect();
        constraints.sort_unstable();
        let next = known.len() as u32 + 1;
        let signature = *known.entry(constraints).or_insert(next);
        Arc::make_mut(&mut job.group).signature = signature;
    }
}

fn pod_set_constraints(
    tree: &SubGroupTree,
    index: usize,
    infos: &PodInfos,
    pods: &[Pod],
    of_specs: &mut SpecSignatures,
) -> PodSetConstraints {
    let pod_set = &tree.pod_sets[index];
    if pod_set.active_allocated() == pod_set.len() {
        return None;
    }
    let mut topology = vec![pod_set.constraint.clone()];
    let mut parent = Some(pod_set.parent);
    while let Some(set) = parent {
        topology.push(tree.sets[set].constraint.clone());
        parent = tree.sets[set].parent;
    }
    let without_node = pod_set.infos().filter(|info| !infos[*info].status.is_active_allocated());
    let mut signatures: Vec<u32> =
        without_node.map(|info| of_specs.of(&pods[infos[info].pod.index()].view.spec)).collect();
    signatures.sort_unstable();
    Some((topology, signatures))
}

/// Numbers for specs with equal constraints.
#[derive(Default)]
struct SpecSignatures {
    of_texts: FxHashMap<String, u32>,
    of_specs: FxHashMap<*const PodSpec, u32>,
}

impl SpecSignatures {
    fn of(&mut self, spec: &Arc<PodSpec>) -> u32 {
        if let Some(signature) = self.of_specs.get(&Arc::as_ptr(spec)) {
            return *signature;
        }
        let next = self.of_texts.len() as u32;
        let signature = *self.of_texts.entry(constraints_text(&spec.json)).or_insert(next);
        self.of_specs.insert(Arc::as_ptr(spec), signature);
        signature
    }
}

/// The constraints of a pod's spec as canonical JSON.
fn constraints_text(spec: &str) -> String {
    let spec: Value = serde_json::from_str(spec).unwrap_or_default();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let without = |mut value: Value, field: &str| {
        if let Some(object) = value.as_object_mut() {
            object.remove(field);
        }
        value
    };
    let tolerations = list(&spec["tolerations"]).into_iter();
    let tolerations: Vec<Value> =
        tolerations.map(|toleration| without(toleration, "tolerationSeconds")).collect();
    let volumes = list(&spec["volumes"]).into_iter();
    let volumes: Vec<Value> = volumes
        .filter(|volume| volume.get("configMap").is_none() && volume.get("secret").is_none())
        .map(
            |volume| {
                if volume.get("persistentVolumeClaim").is_some() { volume } else { without(volume, "name") }
            },
        )
        .collect();
    let containers = list(&spec["containers"]).into_iter().chain(list(&spec["initContainers"]));
    let ports: Vec<Value> = containers
        .flat_map(|container| list(&container["ports"]))
        .map(|port| port.get("hostPort").cloned().unwrap_or_else(|| json!(0)))
        .collect();
    json!([
        volumes,
        spec["nodeSelector"],
        spec["affinity"],
        tolerations,
        spec["priorityClassName"],
        spec["priority"],
        spec["topologySpreadConstraints"],
        ports,
    ])
    .to_string()
}
