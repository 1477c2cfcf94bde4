//! Node groups as far as a recorded cluster tells of them.
//!
//! What knows most is asked first: the ConfigMaps of cluster-autoscaler's kwok provider, Gardener's machine
//! deployments, Karpenter's node pools, the autoscaler's status, and last the nodes themselves.

mod gardener;
mod karpenter;
mod kwok;
mod nodes;
mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use autoscaler::{GroupSize, MOST_NODES, NodeGroup, Running, Settings};
use model::Object;
use serde_json::Value;

/// What a cluster tells of its node groups and its autoscaler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Derived {
    /// The groups; none if nothing tells of any.
    pub groups: Vec<NodeGroup>,
    /// What tells of them.
    pub told_by: Option<ToldBy>,
    /// How the autoscaler is set; `None` if none was recorded.
    pub settings: Option<Settings>,
    /// The label that names the GPU of a node; empty if nothing names one.
    pub gpu_label: Arc<str>,
    /// What was taken for granted, in words for the user.
    pub assumed: Vec<String>,
}

/// What tells of node groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
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

/// What a cluster with these objects tells of its node groups.
pub fn derive<'a>(objects: impl Iterator<Item = &'a Object>) -> Derived {
    let mut derived = Derived::default();
    let found = Found::among(objects, &mut derived);
    type Source = fn(&Found, &mut Derived);
    let sources: [(ToldBy, Source); 5] = [
        (ToldBy::Kwok, kwok::groups),
        (ToldBy::MachineDeployments, gardener::groups),
        (ToldBy::NodePools, karpenter::groups),
        (ToldBy::Status, status::groups),
        (ToldBy::Nodes, nodes::groups),
    ];
    for (told_by, groups) in sources {
        groups(&found, &mut derived);
        if !derived.groups.is_empty() {
            derived.told_by = Some(told_by);
            break;
        }
    }
    if derived.groups.is_empty() {
        derived.assumed.push("nothing tells of node groups: there are none".to_owned());
    }
    for group in &mut derived.groups {
        // Whatever a recording says.
        group.min = group.min.clamp(0, MOST_NODES);
        group.max = group.max.clamp(group.min, MOST_NODES);
        group.target = group.target.map(|target| target.clamp(0, MOST_NODES));
    }
    derived
}

/// The objects that tell of groups, each sort by namespace and name.
#[derive(Default)]
struct Found {
    nodes: Vec<Value>,
    config_maps: Vec<Value>,
    machine_deployments: Vec<Value>,
    machine_classes: Vec<Value>,
    workers: Vec<Value>,
    node_pools: Vec<Value>,
    /// The autoscaler.
    running: Option<Running>,
}

// === impl ToldBy ===

impl fmt::Display for ToldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ToldBy::Kwok => "the ConfigMaps of the kwok provider",
            ToldBy::MachineDeployments => "MachineDeployments",
            ToldBy::NodePools => "NodePools",
            ToldBy::Status => "the autoscaler's status",
            ToldBy::Nodes => "the nodes alone",
        })
    }
}

// === impl Found ===

impl Found {
    fn among<'a>(objects: impl Iterator<Item = &'a Object>, derived: &mut Derived) -> Found {
        let mut found = Found::default();
        let mut deployments: Vec<(bool, &Object)> = Vec::new();
        for object in objects {
            let meta = object.meta();
            let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
            let list = match (group, &*meta.kind) {
                ("", "Node") => &mut found.nodes,
                ("", "ConfigMap") => &mut found.config_maps,
                ("machine.sapcloud.io", "MachineDeployment") => &mut found.machine_deployments,
                ("machine.sapcloud.io", "MachineClass") => &mut found.machine_classes,
                ("extensions.gardener.cloud", "Worker") => &mut found.workers,
                ("karpenter.sh", "NodePool") => &mut found.node_pools,
                ("apps", "Deployment") => {
                    deployments.push((meta.namespace != "kube-system", object));
                    continue;
                }
                _ => continue,
            };
            list.extend(object.value().ok());
        }
        for list in [
            &mut found.nodes,
            &mut found.config_maps,
            &mut found.machine_deployments,
            &mut found.machine_classes,
            &mut found.workers,
            &mut found.node_pools,
        ] {
            list.sort_by(|a, b| named(a).cmp(&named(b)));
        }
        deployments.sort_by_cached_key(|(elsewhere, object)| {
            let meta = object.meta();
            (*elsewhere, meta.namespace.into_owned(), meta.name.into_owned())
        });
        found.running = running(deployments.into_iter().map(|(_, object)| object), derived);
        found
    }

    /// A ConfigMap by its name; of several, that of `kube-system`.
    fn config_map(&self, name: &str) -> Option<&Value> {
        let of_name = |map: &&Value| map["metadata"]["name"].as_str() == Some(name);
        let mut maps = self.config_maps.iter().filter(of_name);
        let first = maps.next()?;
        let system =
            std::iter::once(first).chain(maps).find(|map| map["metadata"]["namespace"] == "kube-system");
        Some(system.unwrap_or(first))
    }

    /// The cloud that the autoscaler's flags name.
    fn cloud_provider(&self) -> Option<&str> {
        self.running.as_ref().map(|running| &*running.settings.cloud_provider)
    }

    /// The size that the autoscaler's flags give a group.
    fn size(&self, name: &str) -> Option<&GroupSize> {
        self.running.as_ref()?.sizes.iter().find(|size| &*size.name == name)
    }
}

/// The first autoscaler among Deployments.
fn running<'a>(deployments: impl Iterator<Item = &'a Object>, derived: &mut Derived) -> Option<Running> {
    for deployment in deployments {
        match Settings::from_deployment(deployment) {
            Ok(Some(running)) => {
                derived.settings = Some(running.settings.clone());
                derived.assumed.extend(running.assumed.iter().cloned());
                return Some(running);
            }
            Ok(None) => {}
            Err(error) => {
                derived.assumed.push(format!("the autoscaler's Deployment does not count: {error}"))
            }
        }
    }
    None
}

fn named(object: &Value) -> (&str, &str) {
    let metadata = &object["metadata"];
    (metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str().unwrap_or_default())
}

fn name(object: &Value) -> &str {
    named(object).1
}

/// The value of a label.
fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str().filter(|value| !value.is_empty())
}

/// The value of an annotation.
fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str().filter(|value| !value.is_empty())
}

/// `a, b and c`.
fn listed(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
