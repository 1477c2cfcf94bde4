//! ConfigMaps that a pod needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::NamespacedName;
use serde::Deserialize;

use crate::cluster::pod::Pod;

/// ConfigMaps with this prefix are made for pods that share GPUs.
const SHARED_GPU_ANNOTATION: &str = "runai/shared-gpu-configmap";

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    containers: Option<Vec<ContainerJson>>,
    init_containers: Option<Vec<ContainerJson>>,
    ephemeral_containers: Option<Vec<ContainerJson>>,
    volumes: Option<Vec<VolumeJson>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerJson {
    env: Option<Vec<EnvJson>>,
    env_from: Option<Vec<EnvFromJson>>,
    volume_mounts: Option<Vec<MountJson>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EnvJson {
    value_from: Option<EnvSourceJson>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EnvSourceJson {
    config_map_key_ref: Option<ReferenceJson>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EnvFromJson {
    config_map_ref: Option<ReferenceJson>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MountJson {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeJson {
    name: String,
    config_map: Option<ReferenceJson>,
    projected: Option<ProjectedJson>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProjectedJson {
    sources: Option<Vec<ProjectedSourceJson>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ProjectedSourceJson {
    config_map: Option<ReferenceJson>,
}

/// A reference to a ConfigMap.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ReferenceJson {
    name: String,
    optional: Option<bool>,
}

/// A message that names the ConfigMaps that a pod needs and that do not exist.
pub(super) fn missing_config_maps(pod: &Pod, existing: &BTreeSet<NamespacedName>) -> Option<String> {
    let namespace = &pod.view.name.namespace;
    let exists = |name: &String| {
        existing.contains(&NamespacedName { namespace: namespace.clone(), name: Arc::from(name.as_str()) })
    };
    let missing: Vec<String> = required_config_maps(pod).into_iter().filter(|name| !exists(name)).collect();
    (!missing.is_empty()).then(|| format!("Missing required configmaps: [{}]", missing.join(" ")))
}

/// The ConfigMaps of mounted volumes and of environment variables that are not optional.
fn required_config_maps(pod: &Pod) -> BTreeSet<String> {
    // Most pods have none.
    if !pod.view.spec.json.contains("onfigMap") {
        return BTreeSet::new();
    }
    let spec: SpecJson = serde_json::from_str(&pod.view.spec.json).unwrap_or_default();
    let lists = [spec.containers, spec.init_containers, spec.ephemeral_containers];
    let containers: Vec<ContainerJson> = lists.into_iter().flatten().flatten().collect();
    let mounts = containers.iter().flat_map(|container| container.volume_mounts.iter().flatten());
    let mounted: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();

    let mut references: Vec<&ReferenceJson> = Vec::new();
    let volumes: Vec<VolumeJson> = spec.volumes.unwrap_or_default();
    for volume in volumes.iter().filter(|volume| mounted.contains(volume.name.as_str())) {
        references.extend(&volume.config_map);
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        references.extend(sources.filter_map(|source| source.config_map.as_ref()));
    }
    for container in &containers {
        let variables = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
        references.extend(variables.filter_map(|source| source.config_map_key_ref.as_ref()));
        let all = container.env_from.iter().flatten();
        references.extend(all.filter_map(|source| source.config_map_ref.as_ref()));
    }
    let shared_gpu_prefix = pod.view.annotations.get(SHARED_GPU_ANNOTATION);
    let is_required = |reference: &&ReferenceJson| {
        reference.optional != Some(true)
            && !shared_gpu_prefix.is_some_and(|prefix| reference.name.starts_with(prefix))
    };
    references.into_iter().filter(is_required).map(|reference| reference.name.clone()).collect()
}
