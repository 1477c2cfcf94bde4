//! Node groups derived from the objects of a recorded cluster.
//!
//! Sources, best first: the ConfigMaps of cluster-autoscaler's kwok provider, Gardener's machine deployments,
//! Karpenter's node pools, the autoscaler's status, and last the nodes themselves.

mod gardener;
mod karpenter;
mod kwok;
#[cfg(test)]
mod malformed_input;
mod nodes;
mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use autoscaler::{DeployedAutoscaler, GroupSize, MAX_GROUP_SIZE, NodeGroup, Settings};
use model::Object;
use serde_json::Value;

/// Node groups and autoscaler settings derived from a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DerivedGroups {
    /// The groups; none if no source has any.
    pub groups: Vec<NodeGroup>,
    /// The source of the groups.
    pub origin: Option<NodeGroupsOrigin>,
    /// The autoscaler's settings; `None` if none was recorded.
    pub settings: Option<Settings>,
    /// The label that names the GPU type of a node; empty if unknown.
    pub gpu_label: Arc<str>,
    /// Assumptions, as text for the user.
    pub assumptions: Vec<String>,
}

/// The objects from which node groups were derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeGroupsOrigin {
    /// The ConfigMaps of cluster-autoscaler's kwok provider.
    Kwok,
    /// Gardener's machine deployments.
    MachineDeployments,
    /// Karpenter's node pools.
    NodePools,
    /// The autoscaler's status ConfigMap.
    Status,
    /// The nodes alone: groups are a guess.
    Nodes,
}

/// Derives the node groups of a cluster with these objects.
pub fn derive_node_groups<'a>(objects: impl Iterator<Item = &'a Object>) -> DerivedGroups {
    let mut derived = DerivedGroups::default();
    let source_objects = SourceObjects::collect(objects, &mut derived);
    type Source = fn(&SourceObjects, &mut DerivedGroups);
    let sources: [(NodeGroupsOrigin, Source); 5] = [
        (NodeGroupsOrigin::Kwok, kwok::add_groups),
        (NodeGroupsOrigin::MachineDeployments, gardener::add_groups),
        (NodeGroupsOrigin::NodePools, karpenter::add_groups),
        (NodeGroupsOrigin::Status, status::add_groups),
        (NodeGroupsOrigin::Nodes, nodes::add_groups),
    ];
    for (origin, add_groups) in sources {
        add_groups(&source_objects, &mut derived);
        if !derived.groups.is_empty() {
            derived.origin = Some(origin);
            break;
        }
    }
    if derived.groups.is_empty() {
        derived.assumptions.push("no node groups found".to_owned());
    }
    for group in &mut derived.groups {
        // Recorded sizes may be out of range.
        group.min = group.min.clamp(0, MAX_GROUP_SIZE);
        group.max = group.max.clamp(group.min, MAX_GROUP_SIZE);
        group.target = group.target.map(|target| target.clamp(0, MAX_GROUP_SIZE));
    }
    derived
}

/// The objects from which groups are derived, each kind sorted by namespace and name.
#[derive(Default)]
struct SourceObjects {
    nodes: Vec<Value>,
    config_maps: Vec<Value>,
    machine_deployments: Vec<Value>,
    machine_classes: Vec<Value>,
    workers: Vec<Value>,
    node_pools: Vec<Value>,
    /// The autoscaler's Deployment.
    autoscaler: Option<DeployedAutoscaler>,
}

// === impl NodeGroupsOrigin ===

impl fmt::Display for NodeGroupsOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeGroupsOrigin::Kwok => "the ConfigMaps of the kwok provider",
            NodeGroupsOrigin::MachineDeployments => "MachineDeployments",
            NodeGroupsOrigin::NodePools => "NodePools",
            NodeGroupsOrigin::Status => "the autoscaler's status",
            NodeGroupsOrigin::Nodes => "the nodes alone",
        })
    }
}

// === impl SourceObjects ===

impl SourceObjects {
    fn collect<'a>(objects: impl Iterator<Item = &'a Object>, derived: &mut DerivedGroups) -> SourceObjects {
        let mut source_objects = SourceObjects::default();
        let mut deployments: Vec<(bool, &Object)> = Vec::new();
        for object in objects {
            let meta = object.meta();
            let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
            let list = match (group, &*meta.kind) {
                ("", "Node") => &mut source_objects.nodes,
                ("", "ConfigMap") => &mut source_objects.config_maps,
                ("machine.sapcloud.io", "MachineDeployment") => &mut source_objects.machine_deployments,
                ("machine.sapcloud.io", "MachineClass") => &mut source_objects.machine_classes,
                ("extensions.gardener.cloud", "Worker") => &mut source_objects.workers,
                ("karpenter.sh", "NodePool") => &mut source_objects.node_pools,
                ("apps", "Deployment") => {
                    deployments.push((meta.namespace != "kube-system", object));
                    continue;
                }
                _ => continue,
            };
            list.extend(object.value().ok());
        }
        for list in [
            &mut source_objects.nodes,
            &mut source_objects.config_maps,
            &mut source_objects.machine_deployments,
            &mut source_objects.machine_classes,
            &mut source_objects.workers,
            &mut source_objects.node_pools,
        ] {
            list.sort_by(|a, b| namespaced_name(a).cmp(&namespaced_name(b)));
        }
        deployments.sort_by_cached_key(|(is_other_namespace, object)| {
            let meta = object.meta();
            (*is_other_namespace, meta.namespace.into_owned(), meta.name.into_owned())
        });
        source_objects.autoscaler =
            find_autoscaler(deployments.into_iter().map(|(_, object)| object), derived);
        source_objects
    }

    /// Returns the ConfigMap of that name; of several, that of `kube-system`.
    fn config_map(&self, name: &str) -> Option<&Value> {
        let has_name = |map: &&Value| map["metadata"]["name"].as_str() == Some(name);
        let mut maps = self.config_maps.iter().filter(has_name);
        let first = maps.next()?;
        let system =
            std::iter::once(first).chain(maps).find(|map| map["metadata"]["namespace"] == "kube-system");
        Some(system.unwrap_or(first))
    }

    /// The `--cloud-provider` of the autoscaler.
    fn cloud_provider(&self) -> Option<&str> {
        self.autoscaler.as_ref().map(|deployed| &*deployed.settings.cloud_provider)
    }

    /// The size of a group in the autoscaler's flags.
    fn size(&self, name: &str) -> Option<&GroupSize> {
        self.autoscaler.as_ref()?.group_sizes.iter().find(|size| &*size.name == name)
    }
}

/// Returns the first autoscaler among Deployments.
fn find_autoscaler<'a>(
    deployments: impl Iterator<Item = &'a Object>,
    derived: &mut DerivedGroups,
) -> Option<DeployedAutoscaler> {
    for deployment in deployments {
        match Settings::from_deployment(deployment) {
            Ok(Some(deployed)) => {
                derived.settings = Some(deployed.settings.clone());
                derived.assumptions.extend(deployed.assumptions.iter().cloned());
                return Some(deployed);
            }
            Ok(None) => {}
            Err(error) => {
                derived.assumptions.push(format!("the autoscaler's Deployment is ignored: {error}"))
            }
        }
    }
    None
}

fn namespaced_name(object: &Value) -> (&str, &str) {
    let metadata = &object["metadata"];
    (metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str().unwrap_or_default())
}

fn name(object: &Value) -> &str {
    namespaced_name(object).1
}

/// The value of a label.
fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str().filter(|value| !value.is_empty())
}

/// The value of an annotation.
fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str().filter(|value| !value.is_empty())
}

/// Joins words as `a, b and c`.
fn join_words(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
