//! Node groups of Gardener: machine deployments, with templates from their machine classes.

use std::collections::BTreeMap;

use autoscaler::node_template::{TemplateSpec, parse_object};
use autoscaler::{GPU_RESOURCES, Membership, NodeGroup, Provisioning};
use kubernetes::quantity::Quantity;
use kubernetes::well_known::{BETA_ZONE, INSTANCE_TYPE, OS, REGION, ZONE};
use serde::Deserialize;
use serde_json::Value;

use super::{DerivedGroups, SourceObjects, label, name, namespaced_name, nodes};

/// The labels that may hold the pool name, in the order of Gardener's recorder.
const GARDENER_POOL_LABELS: [&str; 3] =
    ["worker.gardener.cloud/pool", "worker_gardener_cloud_pool", "worker.gardener.cloud_pool"];

/// The labels that may hold the zone, in the order of Gardener's recorder.
const GARDENER_ZONE_LABELS: [&str; 5] = [
    ZONE,
    "topology.gke.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.disk.csi.azure.com/zone",
    BETA_ZONE,
];

/// The resources that Gardener's tools subtract from a machine's capacity for the system.
const RESERVED: [(&str, &str); 2] = [("cpu", "80m"), ("memory", "1Gi")];

/// A machine deployment with its class and nodes.
struct MachineGroup<'a> {
    deployment: &'a Value,
    class: Option<&'a Value>,
    /// `namespace.name`, as in the autoscaler.
    name: String,
    pool: &'a str,
    zone: &'a str,
    nodes: Vec<&'a Value>,
}

/// Assumptions that have to be reported.
#[derive(Default)]
struct Assumptions {
    from_pools: bool,
    from_replicas: bool,
    reserved: bool,
}

/// Adds the groups of machine deployments.
pub(super) fn add_groups(source_objects: &SourceObjects, derived: &mut DerivedGroups) {
    let machine_groups: Vec<MachineGroup<'_>> = source_objects
        .machine_deployments
        .iter()
        .map(|deployment| MachineGroup::of(deployment, source_objects))
        .collect();
    let mut assumptions = Assumptions::default();
    for machine_group in &machine_groups {
        let (min, max) = size(machine_group, &machine_groups, source_objects, &mut assumptions);
        let is_whole_pool =
            machine_groups.iter().filter(|other| other.pool == machine_group.pool).count() == 1;
        let Some(template) = machine_group.template(&mut assumptions).and_then(|node| parse_object(&node))
        else {
            derived.assumptions.push(format!(
                "MachineDeployment {} is ignored: neither a node nor a MachineClass describes its machines",
                machine_group.name
            ));
            continue;
        };
        derived.groups.push(NodeGroup {
            name: machine_group.name.as_str().into(),
            min,
            max,
            target: machine_group.deployment["spec"]["replicas"].as_i64().filter(|replicas| *replicas >= 0),
            members: match is_whole_pool && !machine_group.pool.is_empty() {
                true => Membership::Label {
                    key: GARDENER_POOL_LABELS[0].into(),
                    value: machine_group.pool.into(),
                },
                false => nodes::named_members(&machine_group.nodes),
            },
            template,
            pods: Vec::new(),
            template_pods: Vec::new(),
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        });
    }
    if derived.groups.is_empty() {
        return;
    }
    derived.assumptions.push(
        "node groups are Gardener's MachineDeployments; a node belongs to the one of its worker pool and zone"
            .to_owned(),
    );
    for (applies, assumption) in [
        (
            assumptions.from_pools,
            "sizes without a --nodes flag are those of the worker pools, divided by their zones",
        ),
        (assumptions.from_replicas, "groups without sizes have min size 0 and their target size as max size"),
        (
            assumptions.reserved,
            "allocatable of machine types without nodes is the capacity minus 80m CPU and 1Gi memory, and 110 pods",
        ),
    ] {
        if applies {
            derived.assumptions.push(assumption.to_owned());
        }
    }
}

/// Returns the minimum and maximum size: from flags, worker pools, or replicas.
fn size(
    machine_group: &MachineGroup<'_>,
    machine_groups: &[MachineGroup<'_>],
    source_objects: &SourceObjects,
    assumptions: &mut Assumptions,
) -> (i64, i64) {
    if let Some(size) = source_objects.size(&machine_group.name) {
        return (size.min, size.max);
    }
    if let Some((min, max)) = pool_size(machine_group, machine_groups, source_objects) {
        assumptions.from_pools = true;
        return (min, max);
    }
    assumptions.from_replicas = true;
    (0, machine_group.deployment["spec"]["replicas"].as_i64().unwrap_or(0).max(0))
}

/// Returns the group's share of its pool's size: zones are in the pool's order, and the first ones get the remainder.
fn pool_size(
    machine_group: &MachineGroup<'_>,
    machine_groups: &[MachineGroup<'_>],
    source_objects: &SourceObjects,
) -> Option<(i64, i64)> {
    let pools =
        source_objects.workers.iter().filter_map(|worker| worker["spec"]["pools"].as_array()).flatten();
    let pool = pools.into_iter().find(|pool| pool["name"] == machine_group.pool)?;
    let zones: Vec<&str> = pool["zones"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let siblings: Vec<&MachineGroup<'_>> =
        machine_groups.iter().filter(|other| other.pool == machine_group.pool).collect();
    let (index, count) = match zones.iter().position(|zone| *zone == machine_group.zone) {
        Some(index) => (index, zones.len()),
        None => (siblings.iter().position(|other| other.name == machine_group.name)?, siblings.len()),
    };
    let (index, count) = (index as i64, count as i64);
    let share = |field: &str| {
        let pool_total = pool[field].as_i64().filter(|pool_total| *pool_total >= 0)?;
        Some(pool_total / count + i64::from(index < pool_total % count))
    };
    let (min, max) = (share("minimum")?, share("maximum")?);
    (min <= max).then_some((min, max))
}

// === impl MachineGroup ===

impl<'a> MachineGroup<'a> {
    fn of(deployment: &'a Value, source_objects: &'a SourceObjects) -> MachineGroup<'a> {
        let (namespace, deployment_name) = namespaced_name(deployment);
        let spec = &deployment["spec"]["template"]["spec"];
        let labels = &spec["nodeTemplate"]["metadata"]["labels"];
        let first = |keys: &[&str]| keys.iter().find_map(|key| labels[*key].as_str()).unwrap_or_default();
        let class = spec["class"]["name"].as_str().unwrap_or_default();
        let is_class = |other: &&Value| name(other) == class && namespaced_name(other).0 == namespace;
        let machine_group = MachineGroup {
            deployment,
            class: source_objects.machine_classes.iter().find(is_class),
            name: if namespace.is_empty() {
                deployment_name.to_owned()
            } else {
                format!("{namespace}.{deployment_name}")
            },
            pool: first(&GARDENER_POOL_LABELS),
            zone: first(&GARDENER_ZONE_LABELS),
            nodes: Vec::new(),
        };
        let nodes = source_objects.nodes.iter().filter(|node| machine_group.has(node)).collect();
        MachineGroup { nodes, ..machine_group }
    }

    /// Whether a node is in its pool and zone.
    fn has(&self, node: &Value) -> bool {
        let first = |keys: &[&str]| keys.iter().find_map(|key| label(node, key));
        !self.pool.is_empty()
            && first(&GARDENER_POOL_LABELS) == Some(self.pool)
            && (self.zone.is_empty() || first(&GARDENER_ZONE_LABELS).is_none_or(|zone| zone == self.zone))
    }

    /// Returns the node template; `None` if the machines are unknown.
    fn template(&self, assumptions: &mut Assumptions) -> Option<Value> {
        let node_template = self.class.map(|class| &class["nodeTemplate"]);
        let capacity = node_template.map(|template| amounts(&template["capacity"])).unwrap_or_default();
        let example_node = nodes::template_node(&self.nodes);
        if capacity.is_empty() && example_node.is_none() {
            return None;
        }
        let mut template_spec = TemplateSpec { labels: self.labels(), ..TemplateSpec::default() };
        if let Some(template) = node_template {
            for (key, field) in [(INSTANCE_TYPE, "instanceType"), (REGION, "region"), (ZONE, "zone")] {
                template_spec.set_default_label(key, template[field].as_str().unwrap_or_default());
            }
        }
        template_spec.set_default_label(OS, "linux");
        let taints = self.deployment["spec"]["template"]["spec"]["nodeTemplate"]["spec"]["taints"].as_array();
        template_spec.taints = taints.cloned().unwrap_or_default();
        match example_node {
            Some(node) => {
                template_spec.capacity = amounts(&node["status"]["capacity"]);
                template_spec.allocatable = amounts(&node["status"]["allocatable"]);
            }
            None => {
                assumptions.reserved = true;
                template_spec.capacity = capacity;
                if let Some(count) = template_spec.capacity.remove("gpu").filter(|count| count.sign() > 0) {
                    template_spec.capacity.insert(GPU_RESOURCES[0].to_owned(), count);
                }
                let pods = || Quantity::parse("110").expect("a number is a quantity");
                template_spec.capacity.entry("pods".to_owned()).or_insert_with(pods);
                let amount =
                    |text: &str| Quantity::parse(text).expect("a number and a suffix are a quantity");
                template_spec.reserve(&RESERVED.map(|(name, text)| (name.to_owned(), amount(text))).into());
            }
        }
        Some(template_spec.to_node(&self.name))
    }

    /// The labels of the deployment, and those of the class that are valid for a node.
    fn labels(&self) -> BTreeMap<String, String> {
        let texts = |labels: &Value| BTreeMap::<String, String>::deserialize(labels).unwrap_or_default();
        let mut labels = BTreeMap::new();
        if let Some(class) = self.class {
            let provider = &class["providerSpec"];
            labels.extend(texts(if provider["labels"].is_object() {
                &provider["labels"]
            } else {
                &provider["tags"]
            }));
            labels.retain(|key, _| key.matches('/').count() < 2);
        }
        labels.extend(texts(
            &self.deployment["spec"]["template"]["spec"]["nodeTemplate"]["metadata"]["labels"],
        ));
        labels
    }
}

fn amounts(amounts: &Value) -> BTreeMap<String, Quantity> {
    let amounts = amounts.as_object().into_iter().flatten();
    let read = |(name, amount): (&String, &Value)| {
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        Some((name.clone(), Quantity::parse(&text).ok()?))
    };
    amounts.filter_map(read).collect()
}
